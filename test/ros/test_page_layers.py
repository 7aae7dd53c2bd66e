"""Layers of the page against what a plain rclpy client receives from the same bridge."""

from __future__ import annotations

import math
import struct
import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
pytest.importorskip("viser", reason="viser is not installed: make setup-tests")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from open_page import OpenPage
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, LaserScan, PointCloud2, PointField
from sensor_stage import sensor_plan
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from builders.plans import PlanBuilder
from usd_ros_bridge import load_plan
from usd_ros_bridge.view.graph_client import NODE_NAME
from usd_ros_bridge.view.pictures import image_picture
from usd_ros_bridge.view.point_clouds import cloud_points
from usd_ros_bridge.view.selection import Selection
from usd_ros_bridge.view.sensor_layers import SensorLayers

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[2] / "examples"
Show = Callable[..., OpenPage]


@pytest.fixture
def show(domain_id) -> Iterator[Show]:
    """`show(plan)`: a page with the layers of a plan, as a browser sees it."""
    pages: list[OpenPage] = []

    def open_page(plan, *kinds):
        pages.append(OpenPage(plan, domain_id, kinds or (SensorLayers,)))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def rover():
    return load_plan(EXAMPLES / "rover" / "world.usda", physics=True)


@pytest.fixture(scope="module")
def arm():
    return load_plan(EXAMPLES / "arm" / "arm.usda", physics=True)


def page_subscriptions(harness, topic):
    """How many subscriptions the page has to a topic, as any node of the graph sees it."""
    return sum(each.node_name == NODE_NAME for each in harness.node.get_subscriptions_info_by_topic(topic))


def turned(quaternion, vector):
    """A vector rotated by a quaternion w, x, y, z, by q v q*."""
    w, x, y, z = quaternion
    matrix = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    return vector @ matrix.T


class Transforms:
    """What a client knows of /tf: the newest transform of each frame."""

    def __init__(self, harness, namespace):
        from rclpy.qos import DurabilityPolicy, QoSProfile

        self.local = {}
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        harness.node.create_subscription(TFMessage, f"{namespace}/tf", self._take, 100)
        harness.node.create_subscription(TFMessage, f"{namespace}/tf_static", self._take, latched)

    def _take(self, message):
        for each in message.transforms:
            self.local[each.child_frame_id] = each

    def in_root(self, frame, points):
        """Points of a frame in the frame that its tree hangs from."""
        while frame in self.local:
            transform = self.local[frame].transform
            q, t = transform.rotation, transform.translation
            points = turned((q.w, q.x, q.y, q.z), points) + np.array([t.x, t.y, t.z])
            frame = self.local[frame].header.frame_id
        return points


def test_a_scan_is_drawn_where_the_laser_hit(start, show, ros_harness, rover):
    scans = ros_harness.listen(LaserScan, "/rover/scan", qos_profile_sensor_data)
    transforms = Transforms(ros_harness, "/rover")
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    points = page.wait_for(lambda: page.node("/displays/scan/0/rover.scan/points"), what="a scan")
    # The rover stands still, so that its scans differ by less than a millimetre once it has settled.
    ros_harness.wait_for(
        lambda: len(scans) > 20 and "lidar_link" in transforms.local,
        timeout=60.0,
        what="scans and transforms",
    )
    page.wait_for(
        lambda: points_agree(page, points, scans[-1], transforms, rover), what="the scan of the client"
    )
    assert points.colors.shape == points.points.shape
    assert not page.reports


def points_agree(page, points, scan, transforms, plan):
    """Whether the points in the scene are those of a scan, composed by hand."""
    ranges = np.array(scan.ranges)
    hit = np.isfinite(ranges) & (ranges >= scan.range_min) & (ranges <= scan.range_max)
    angles = scan.angle_min + np.arange(len(ranges))[hit] * scan.angle_increment
    local = np.column_stack([ranges[hit] * np.cos(angles), ranges[hit] * np.sin(angles), np.zeros(hit.sum())])
    # Odometry begins where the asset has the rover.
    wanted = transforms.in_root("lidar_link", local) + plan.layout.body_pose[plan.robots[0].base_row][:3]
    root = page.node("/displays/scan/0/rover.scan")
    found = turned(root.wxyz, points.points) + root.position
    return found.shape == wanted.shape and np.abs(found - wanted).max() < 0.01


def test_a_picture_is_the_cameras_and_its_frustum_moves_with_the_robot(start, show, ros_harness, rover):
    images = ros_harness.listen(Image, "/rover/image_raw", qos_profile_sensor_data)
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    page.switch("/rover/camera_info")
    camera = page.wait_for(
        lambda: page.node("/displays/camera/0/rover.camera_info/camera"), what="the camera"
    )
    page.wait_for(lambda: camera.image is not None, what="its picture")
    ros_harness.wait_for(lambda: len(images) > 3, timeout=60.0, what="images")
    newest = images[-1]
    pixels = np.frombuffer(newest.data, np.uint8).reshape(newest.height, newest.width, 3)
    assert camera.image.shape == pixels.shape
    assert np.abs(camera.image.astype(int) - pixels).mean() < 1.0
    assert camera.aspect == pytest.approx(640 / 480)
    before = np.array(page.node("/displays/camera/0/rover.camera_info").position)
    drive = ros_harness.node.create_publisher(Twist, "/rover/cmd_vel", 10)
    command = Twist()
    command.linear.x = 0.4

    def has_moved():
        drive.publish(command)
        root = page.node("/displays/camera/0/rover.camera_info")
        return root.position[0] - before[0] > 0.3

    page.wait_for(has_moved, what="the frustum to drive along")


def test_odometry_is_where_a_client_has_it_and_leaves_a_trail(start, show, ros_harness, rover):
    odometry = ros_harness.listen(Odometry, "/rover/odom")
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    drive = ros_harness.node.create_publisher(Twist, "/rover/cmd_vel", 10)
    command = Twist()
    command.linear.x, command.angular.z = 0.4, 0.3
    page.wait_for(lambda: page.node("/displays/odometry/0/rover.odom/body"), what="odometry")

    def has_driven():
        drive.publish(command)
        trail = page.node("/displays/odometry/0/rover.odom/trail")
        return trail is not None and len(trail.points) > 30

    page.wait_for(has_driven, what="a trail of 0.3 m")
    drive.publish(Twist())
    ros_harness.wait_for(
        lambda: odometry and abs(odometry[-1].twist.twist.linear.x) < 1e-3,
        timeout=60.0,
        what="the rover to stop",
    )
    body, pose = page.node("/displays/odometry/0/rover.odom/body"), odometry[-1].pose.pose
    begin = rover.layout.body_pose[rover.robots[0].base_row][:3]
    wanted = begin + np.array([pose.position.x, pose.position.y, pose.position.z])
    page.wait_for(lambda: np.abs(body.position - wanted).max() < 0.01, what="the same place")
    q = pose.orientation
    assert abs(np.dot(body.wxyz, (q.w, q.x, q.y, q.z))) > 0.9999
    trail = page.node("/displays/odometry/0/rover.odom/trail").points
    np.testing.assert_array_equal(trail[1:, 0], trail[:-1, 1])
    np.testing.assert_allclose(trail[0, 0], begin, atol=0.05)


def test_the_page_subscribes_only_to_layers_that_are_on_while_a_browser_is_there(
    start, show, ros_harness, rover
):
    topics = [
        f"/rover/{name}" for name in ("scan", "imu", "image_raw", "camera_info", "joint_states", "odom")
    ]

    def counts():
        return [page_subscriptions(ros_harness, topic) for topic in topics]

    start(rover, "kinematic")
    page = show(rover)
    page.wait_for(lambda: counts() == [0] * 6, what="no subscriptions")
    page.resume()
    page.wait_for(lambda: counts() == [1, 0, 1, 0, 0, 1], what="those that are on at the start")
    page.switch("/rover/imu")
    page.switch("/rover/scan", False)
    page.wait_for(lambda: counts() == [0, 1, 1, 0, 0, 1], what="those that were switched")
    page.pause()
    page.wait_for(lambda: counts() == [0] * 6, what="none without a browser")
    page.resume()
    page.wait_for(lambda: counts() == [0, 1, 1, 0, 0, 1], what="the user's choice again")


@pytest.fixture(scope="module")
def sensors():
    return sensor_plan()


def test_every_kind_of_sensor_is_shown(start, show, ros_harness, sensors):
    clouds = ros_harness.listen(PointCloud2, "/robot/points", qos_profile_sensor_data)
    start(sensors, "mujoco")
    page = show(sensors)
    page.resume()
    for name in page.context.layers.all:
        page.context.layers.set(name, True)

    def drawn(kind, name, part):
        return page.wait_for(lambda: page.node(f"/displays/{kind}/0/robot.{name}/{part}"), what=name)

    cone = drawn("range", "range", "cone")
    # A cone of 10 degrees about X, from the sensor to the wall.
    assert cone.vertices[:, 0].min() == pytest.approx(0.0, abs=1e-6)
    length = cone.vertices[:, 0].max()
    assert np.abs(cone.vertices[:, 1:]).max() == pytest.approx(length * math.tan(math.radians(5.0)), rel=1e-5)
    assert 1.5 < length < 2.1
    gravity = drawn("imu", "imu", "arrows")
    page.wait_for(lambda: abs(gravity.points[0, 1, 2] - 0.03 * 9.81) < 0.02, what="gravity upwards")
    drawn("wrench", "wrench", "arrows")
    contact = drawn("contact", "bumper", "contact")
    page.wait_for(lambda: contact.visible, what="the contact with the ground")
    points = drawn("cloud", "points", "points")
    ros_harness.wait_for(lambda: len(clouds) > 5, timeout=60.0, what="clouds")
    wanted = points_by_struct(clouds[-1])
    assert points.points.shape == wanted.shape
    page.wait_for(lambda: np.abs(points.points - wanted).max() < 0.01, what="the cloud of the client")
    assert not page.reports


def points_by_struct(cloud):
    """The valid points of a cloud, one number at a time."""
    offsets = {field.name: field.offset for field in cloud.fields}
    data, points = bytes(cloud.data), []
    for row in range(cloud.height):
        for column in range(cloud.width):
            begin = row * cloud.row_step + column * cloud.point_step
            point = [struct.unpack_from("<f", data, begin + offsets[axis])[0] for axis in "xyz"]
            if all(map(math.isfinite, point)):
                points.append(point)
    return np.array(points, np.float32)


def trajectory(joints):
    message = JointTrajectory(joint_names=joints)
    for seconds, position in ((1, 0.4), (2, 0.8)):
        positions = [position, 0.3 * position, *([0.0] * (len(joints) - 2))]
        message.points.append(
            JointTrajectoryPoint(positions=positions, time_from_start=Duration(sec=seconds))
        )
    return message


def test_the_way_of_the_tool_is_drawn_for_what_a_controller_follows(start, show, ros_harness, arm):
    transforms = Transforms(ros_harness, "/arm")
    start(arm, "mujoco")
    page = show(arm)
    page.resume()
    controller = "/arm/joint_trajectory_controller"
    page.wait_for(lambda: page_subscriptions(ros_harness, f"{controller}/joint_trajectory"), what="the page")
    goal = FollowJointTrajectory.Goal(trajectory=trajectory([f"joint_{number}" for number in range(1, 7)]))
    results = []
    sender = threading.Thread(
        target=lambda: results.append(
            ros_harness.run_goal(FollowJointTrajectory, f"{controller}/follow_joint_trajectory", goal)
        )
    )
    sender.start()
    node = "/displays/trajectory/0/arm.joint_trajectory_controller.follow_joint_trajectory._action.feedback"
    page.wait_for(lambda: not sender.is_alive(), timeout=90.0, what="the goal")
    assert results[0].result.error_code == FollowJointTrajectory.Result.SUCCESSFUL
    line = page.wait_for(lambda: page.node(f"{node}/line"), what="the way by feedback")
    tool = transforms.in_root("gripper_tcp", np.zeros((1, 3)))[0]
    root = page.node(node)
    ends = turned(root.wxyz, line.points.reshape(-1, 3)) + root.position
    np.testing.assert_allclose(ends[-1], tool, atol=0.03)
    assert np.linalg.norm(ends[0] - ends[-1]) > 0.1
    # A trajectory that is sent to the topic is drawn at once, all of it.
    publisher = ros_harness.node.create_publisher(JointTrajectory, f"{controller}/joint_trajectory", 10)
    page.wait_for(lambda: publisher.get_subscription_count() >= 2, what="bridge and page")
    subscriptions = page.graph.node().subscriptions
    (drawn,) = [each for each in subscriptions if each.topic_name == publisher.topic_name]
    page.wait_for(drawn.get_publisher_count, what="the page's side")
    publisher.publish(trajectory([f"joint_{number}" for number in range(1, 7)]))
    name = "/displays/trajectory/0/arm.joint_trajectory_controller.joint_trajectory/line"
    planned = page.wait_for(lambda: page.node(name), what="the way by the trajectory").points.reshape(-1, 3)
    np.testing.assert_allclose(planned[-1], line.points[-1, 1], atol=0.02)
    assert not page.reports


def test_a_message_that_cannot_be_shown_disturbs_no_other_layer(start, show, ros_harness, rover):
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    images = ros_harness.node.create_publisher(Image, "/rover/image_raw", qos_profile_sensor_data)
    scans = ros_harness.node.create_publisher(LaserScan, "/rover/scan", qos_profile_sensor_data)
    page.wait_for(lambda: images.get_subscription_count() and scans.get_subscription_count(), what="the page")
    page.wait_for(lambda: page.node("/displays/scan/0/rover.scan/points"), what="a scan")
    lost = LaserScan(ranges=[1.0] * 5, range_max=10.0)
    lost.header.frame_id = "nowhere"
    for _ in range(20):
        images.publish(Image(encoding="yuv422", width=2, height=2))
        scans.publish(lost)
        page.refresh()
    points = page.node("/displays/scan/0/rover.scan/points")
    page.wait_for(lambda: len(points.points) > 5, what="the rover's own scan again")
    assert not page.reports


def test_a_selection_has_its_pose_and_its_box_in_the_scene(start, show, rover):
    from usd_ros_bridge.view.page_component import Picked

    start(rover, "mujoco")
    page = show(rover, Selection)
    page.resume()
    page.context.picks.notify(Picked(robot=0, frame="left_wheel", path=""))
    box = page.wait_for(lambda: page.node("/robots/rover/left_wheel/selection_box"), what="the box")
    assert box.points.shape == (12, 2, 3)
    page.context.picks.notify(Picked(robot=-1, frame="", path="/World/somewhere"))
    page.wait_for(lambda: page.node("/robots/rover/left_wheel/selection_box") is None, what="no box")


def test_closing_removes_everything_from_the_scene(start, show, rover):
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    page.wait_for(lambda: page.node("/displays/scan/0/rover.scan/points"), what="a scan")
    page.components.close()
    assert page.node("/displays/scan/0/rover.scan") is None
    assert page.node("/displays/scan/0/rover.scan/points") is None


def test_a_fleet_with_all_layers_off_costs_a_refresh_nothing(show, number_of_calls):
    builder = PlanBuilder()
    for number in range(500):
        robot = builder.robot(f"/robot_{number}", namespace=f"/robot_{number}")
        robot.body("base")
        for name in ("scan", "other"):
            robot.topic(name, "sensor_msgs/msg/LaserScan", "publisher", publish_rate=10.0)
    page = show(builder.build(), Selection)
    layers = SensorLayers()
    layers.open(page.context)
    layers.resume()
    layers.update()
    assert len(page.context.layers.all) >= 1000
    assert number_of_calls(layers.update) < 20
    layers.close()


def test_switching_layers_on_and_off_again_and_again_is_safe(start, show, ros_harness, rover):
    start(rover, "mujoco")
    page = show(rover)
    page.resume()
    page.wait_for(lambda: page.node("/displays/scan/0/rover.scan/points"), what="a scan")
    for number in range(60):
        for topic in ("/rover/scan", "/rover/imu", "/rover/odom", "/rover/joint_states"):
            page.switch(topic, number % 2 == 0)
        page.refresh()
    page.switch("/rover/scan")
    page.wait_for(lambda: page.node("/displays/scan/0/rover.scan/points"), what="a scan again")
    page.wait_for(lambda: page_subscriptions(ros_harness, "/rover/imu") == 0, what="the end of what is off")
    assert not page.reports


def an_organised_cloud():
    """Points with colours, a gap between fields, padded rows, and some that are no points."""
    fields = [("x", 0), ("y", 4), ("z", 8), ("rgb", 16)]
    cloud = PointCloud2(height=3, width=4, point_step=24, row_step=100, is_dense=False)
    cloud.fields = [
        PointField(name=name, offset=offset, datatype=PointField.FLOAT32, count=1) for name, offset in fields
    ]
    data = bytearray(300)
    for row in range(3):
        for column in range(4):
            begin = row * 100 + column * 24
            struct.pack_into("<fff", data, begin, row, math.nan if column == 2 else column, 0.5)
            struct.pack_into("<I", data, begin + 16, (row << 16) | (column << 8) | 7)
    cloud.data = array("B", data)
    return cloud


def test_clouds_are_read_as_other_libraries_read_them():
    cloud = an_organised_cloud()
    found = cloud_points(cloud)
    np.testing.assert_array_equal(found.points, points_by_struct(cloud))
    assert found.colors.tolist() == [[row, column, 7] for row in range(3) for column in (0, 1, 3)]
    typesys = pytest.importorskip("rosbags.typesys", reason="rosbags is not installed: make setup-tests")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    theirs = store.deserialize_cdr(serialize_message(cloud), "sensor_msgs/msg/PointCloud2")
    np.testing.assert_array_equal(cloud_points(theirs).points, found.points)
    image = Image(width=2, height=2, encoding="bgr8", step=6, data=array("B", range(12)))
    theirs = store.deserialize_cdr(serialize_message(image), "sensor_msgs/msg/Image")
    np.testing.assert_array_equal(image_picture(theirs).pixels, image_picture(image).pixels)
    assert image_picture(image).pixels[1, 0].tolist() == [8, 7, 6]


def test_clouds_are_read_as_sensor_msgs_py_reads_them():
    reader = pytest.importorskip(
        "sensor_msgs_py.point_cloud2", reason="sensor_msgs_py comes with a full ROS 2 installation"
    )
    cloud = an_organised_cloud()
    wanted = reader.read_points(cloud, ("x", "y", "z"), skip_nans=True)
    found = cloud_points(cloud).points
    np.testing.assert_array_equal(found, np.stack([wanted[axis] for axis in "xyz"], axis=1))
