"""The drive against physics that is not ours: rollers in MuJoCo, and the equations of rolling without slip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mecanum_drive
import mujoco
import numpy as np
import pytest
from pxr import Usd

from usd_ros_bridge import TwistSample, load_plan
from usd_ros_bridge.testing.controller_conformance import GroupRun
from usd_ros_bridge.usd.schemas import plugin_schema_folders

ASSET = Path(__file__).parent / "youbot.usda"
RADIUS, ROLLER, ROLLERS = 0.05, 0.018, 14
WHEELS = {
    "front_left": (0.235, 0.15, -1.0),
    "front_right": (0.235, -0.15, 1.0),
    "rear_left": (-0.235, 0.15, 1.0),
    "rear_right": (-0.235, -0.15, -1.0),
}
"""Place of each wheel, m, and the side to which the roller on the floor points ahead: 1 for left."""
TWISTS = [(0.4, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 1.0), (0.3, -0.2, 0.5), (-0.2, 0.1, -0.8)]


def wheel_speeds(x: float, y: float, yaw: float) -> np.ndarray:
    """Return what the controller commands for a twist, after all acceleration, in the order of WHEELS."""
    run = GroupRun(load_plan(ASSET), "MecanumDriveAPI")
    sample = TwistSample(stamp_ns=0, twist=np.array([x, y, 0.0, 0.0, 0.0, yaw]))
    run.send(sample)
    run.tick(45)
    return run.history["joint_velocity"][-1][list(run.plans[0].dofs)]


def rolling_twist(speeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the twist that fits four wheel speeds best, and what is left of the constraints, m/s.

    Where a wheel stands on the floor, the roller does not move along its own axis: it can only turn about it.
    """
    rows, right = [], []
    for (x, y, side), speed in zip(WHEELS.values(), speeds, strict=True):
        axis = np.array([1.0, side]) / np.sqrt(2.0)
        rows.append([*axis, axis @ np.array([-y, x])])
        right.append(axis[0] * RADIUS * speed)
    twist, *_ = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)
    return twist, np.array(rows) @ twist - np.array(right)


def mujoco_model() -> mujoco.MjModel:
    """Return a robot whose wheels have rollers: barrels about axes at 45 degrees."""
    wheels = []
    for name, (x, y, side) in WHEELS.items():
        rollers = []
        for angle in 2.0 * np.pi * np.arange(ROLLERS) / ROLLERS:
            sine, cosine = np.sin(angle), np.cos(angle)
            axis, out = f"{cosine} {side} {-sine}", ROLLER - RADIUS
            rollers.append(
                f'<body pos="{out * sine} 0 {out * cosine}">'
                f'<joint axis="{axis}" damping="1e-5" armature="1e-6"/>'
                f'<geom type="ellipsoid" size="{ROLLER} {ROLLER} 0.022" zaxis="{axis}" mass="0.02"/></body>'
            )
        wheels.append(
            f'<body pos="{x} {y} 0"><joint name="{name}" axis="0 1 0"/>'
            f'<geom type="sphere" size="0.02" mass="1" contype="0" conaffinity="0"/>{"".join(rollers)}</body>'
        )
    motors = "".join(f'<velocity joint="{name}" kv="20"/>' for name in WHEELS)
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.0005" cone="elliptic" integrator="implicitfast" impratio="10"/>
        <default><geom friction="1 0.005 0.0001" solref="0.004 1" contype="1" conaffinity="2"/></default>
        <worldbody><geom type="plane" size="5 5 1" contype="2" conaffinity="1"/><body pos="0 0 {RADIUS}"><freejoint/>
        <geom type="box" size="0.25 0.13 0.03" mass="20" contype="0" conaffinity="0"/>{"".join(wheels)}</body>
        </worldbody><actuator>{motors}</actuator></mujoco>"""
    )


def simulated_twist(speeds: np.ndarray) -> np.ndarray:
    """Return the mean twist of the base in its own frame, m/s and rad/s, over a second after half a second."""
    model = mujoco_model()
    data = mujoco.MjData(model)
    data.ctrl[:] = speeds
    mujoco.mj_step(model, data, 1000)
    twists, turn = [], np.zeros(9)
    for _ in range(2000):
        mujoco.mj_step(model, data)
        mujoco.mju_quat2Mat(turn, data.qpos[3:7])
        twists.append([*(turn.reshape(3, 3).T @ data.qvel[:3])[:2], data.qvel[5]])
    return np.mean(twists, axis=0)


@pytest.mark.parametrize("twist", TWISTS, ids=str)
def test_rollers_in_mujoco_move_the_robot_as_it_was_told(twist: tuple[float, float, float]) -> None:
    found = simulated_twist(wheel_speeds(*twist))
    # The rollers are 14 barrels, not a smooth wheel: a per cent or two are theirs.
    assert found == pytest.approx(twist, rel=0.02, abs=0.01)


def test_wheels_roll_without_slip() -> None:
    generator = np.random.default_rng(7)
    for _ in range(20):
        wanted = generator.uniform(-1.0, 1.0, 3) * (0.5, 0.5, 1.0)
        twist, slip = rolling_twist(wheel_speeds(*wanted))
        assert twist == pytest.approx(wanted, abs=1e-9)
        assert slip == pytest.approx(np.zeros(4), abs=1e-9)


def test_odometry_is_where_the_wheels_roll() -> None:
    """Against small steps of the twist that fits the wheels best."""
    run = GroupRun(load_plan(ASSET), "MecanumDriveAPI")
    for values in TWISTS:
        x, y, yaw = values
        run.send(TwistSample(stamp_ns=0, twist=np.array([x, y, 0.0, 0.0, 0.0, yaw])))
        run.tick(40)
    steps = 100
    position, heading = np.zeros(2), 0.0
    for speeds in np.nan_to_num(np.array(run.history["joint_velocity"])[:, list(run.plans[0].dofs)]):
        (ahead, left, turning), _ = rolling_twist(speeds)
        for _ in range(steps):
            middle = heading + 0.5 * turning * 0.01 / steps
            turn = np.array([[np.cos(middle), -np.sin(middle)], [np.sin(middle), np.cos(middle)]])
            position += turn @ (ahead, left) * 0.01 / steps
            heading += turning * 0.01 / steps
    pose = run.group.odom_from_base[0]
    assert pose[:2] == pytest.approx(position, abs=1e-6)
    assert 2.0 * np.arctan2(pose[5], pose[6]) == pytest.approx(heading, abs=1e-9)


def test_limits_are_kept_on_every_axis() -> None:
    run = GroupRun(load_plan(ASSET), "MecanumDriveAPI")
    twists = []
    for _ in range(60):
        run.send(TwistSample(stamp_ns=0, twist=np.array([3.0, -3.0, 0.0, 0.0, 0.0, 9.0])))
        run.tick()
        twists.append(rolling_twist(run.history["joint_velocity"][-1][list(run.plans[0].dofs)])[0])
    found = np.array(twists)
    assert found[-1] == pytest.approx((0.8, -0.8, 1.2))
    assert np.abs(np.diff(found, axis=0)).max(axis=0) == pytest.approx((0.02, 0.02, 0.04))


def test_the_bridge_drives_it_sideways(bridge: Callable[..., Any]) -> None:
    """A bridge with the kinematic backend: command in, odometry, wheels and /tf out."""
    running = bridge(ASSET, backend="kinematic")
    running.run_for(2.0, commands={"/youbot/cmd_vel": {"linear": {"y": 0.4}}})
    odometry = running.last("/youbot/odom")
    # 0.4 m/s, reached with 2 m/s^2 after 0.2 s.
    assert odometry.pose.pose.position.y == pytest.approx(0.4 * 1.9, abs=0.01)
    assert odometry.pose.pose.position.x == pytest.approx(0.0, abs=1e-6)
    assert odometry.twist.twist.linear.y == pytest.approx(0.4, abs=1e-6)
    velocity = dict(zip(*map(list, joint_velocities(running)), strict=True))
    assert velocity["front_left_joint"] == pytest.approx(-8.0)
    assert velocity["rear_left_joint"] == pytest.approx(8.0)
    running.assert_transform(
        "odom", "base_link", xyz=(0.0, odometry.pose.pose.position.y, 0.0), tolerance=0.01
    )
    running.run_for(2.0)
    assert running.last("/youbot/odom").twist.twist.linear.y == 0.0
    assert any("drive.timeout" in kind for kind, _ in running.news)


def joint_velocities(running: Any) -> tuple[list[str], list[float]]:
    message = running.last("/youbot/joint_states")
    return list(message.name), list(message.velocity)


def test_a_wheel_that_is_no_wheel_is_a_diagnostic(tmp_path: Path) -> None:
    text = ASSET.read_text(encoding="utf-8").replace(
        "</youbot/rear_left_joint>\n", "</youbot/front_left_joint>\n"
    )
    (tmp_path / "broken.usda").write_text(text, encoding="utf-8")
    plan = load_plan(tmp_path / "broken.usda")
    (found,) = (each for each in plan.diagnostics if each.severity == "error")
    assert (found.code, found.path, found.attribute) == (
        "4.2.3.target",
        "/youbot/ros/drive",
        "mecanum:rear_left",
    )
    assert found.message == "the joint is another wheel's; the controller stays inactive"


def test_openusd_knows_the_schema() -> None:
    """`usdchecker` and other tools find it in PXR_PLUGINPATH_NAME."""
    (folder,) = plugin_schema_folders()
    assert folder == Path(mecanum_drive.__file__).parent / "schema"
    load_plan(ASSET)
    definition = Usd.SchemaRegistry().FindAppliedAPIPrimDefinition("MecanumDriveAPI")
    assert "mecanum:wheel_radius" in definition.GetPropertyNames()
    stage = Usd.Stage.Open(str(ASSET))
    assert stage.GetPrimAtPath("/youbot/ros/drive").GetAttribute("mecanum:cmd_vel_timeout").Get() == 0.5


def test_a_node_drives_it_over_ros(
    bridge_process: Callable[..., Any], ros_node: Any, wait_for_message: Callable[..., Any]
) -> None:
    """With a plain client of rclpy."""
    from geometry_msgs.msg import Twist
    from rcl_interfaces.srv import GetParameters

    bridge_process(ASSET, "--backend", "kinematic")
    command = Twist()
    command.linear.y = -0.4
    publisher = ros_node.create_publisher(Twist, "/youbot/cmd_vel", 10)
    timer = ros_node.create_timer(0.05, lambda: publisher.publish(command))
    moved = wait_for_message("/youbot/odom", where=lambda each: each.pose.pose.position.y < -0.2)
    timer.cancel()
    assert moved.twist.twist.linear.y == pytest.approx(-0.4, abs=1e-3)
    assert moved.pose.pose.position.x == pytest.approx(0.0, abs=1e-6)
    wait_for_message("/youbot/odom", where=lambda each: each.twist.twist.linear.y == 0.0)
    client = ros_node.create_client(GetParameters, "/usd_ros_bridge/get_parameters")
    assert client.wait_for_service(timeout_sec=10.0)
    answer = client.call(GetParameters.Request(names=["/youbot/ros/drive.cmd_vel_timeout"]), timeout_sec=10.0)
    assert answer.values[0].double_value == 0.5
