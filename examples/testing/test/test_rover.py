"""The rover drives, its frames are where they should be, and its interfaces are those of the asset."""

ROVER = "package://usd_ros_bridge/examples/rover/world.usda"


def test_it_drives_forward(bridge, assert_transform):
    """In this process, in simulated time: two seconds take half a second, and the numbers are the same in every run."""
    rover = bridge(ROVER, backend="mujoco")
    assert_transform("base_link", "lidar_link", xyz=(-0.05, 0.0, 0.225))
    rover.run_for(2.0, commands={"/rover/cmd_vel": {"linear": {"x": 0.3}}})
    assert 0.4 < rover.last("/rover/odom").pose.pose.position.x < 0.6
    assert min(rover.last("/rover/scan").ranges) > 0.1


def test_it_serves_what_the_asset_declares(bridge_process, assert_interfaces, wait_for_message):
    """In a process of its own, over ROS 2: it ends with status 0, or the test fails and shows its log."""
    bridge_process(ROVER, "--backend", "mujoco")
    assert_interfaces(ROVER)
    assert len(wait_for_message("/rover/scan").ranges) == 360
    assert wait_for_message("/rover/joint_states").name == ["left_wheel_joint", "right_wheel_joint"]
