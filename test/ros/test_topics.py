"""Publishers and subscriptions over DDS: rates, stamps, commands, quality of service, what is missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, Image, Imu, JointState
from std_msgs.msg import Float64MultiArray, String
from tf2_msgs.msg import TFMessage

from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan, publisher, subscription
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.spatial.pose import Pose

BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
SENSOR = {"qos": QosPlan(reliability="best_effort", depth=5)}


def stamp(message):
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


@pytest.mark.parametrize("rate", [50.0, 200.0])
def test_publisher_meets_its_rate_between_stamps(start, ros_harness, rate):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    start(plan(publisher("/arm/joint_states", "sensor_msgs/msg/JointState", rate=rate)))
    count = 25
    ros_harness.wait_for(lambda: len(received) > count, what=f"{count} joint states")
    stamps = [stamp(message) for message in received]
    seconds = (stamps[count] - stamps[0]) * 1e-9
    # Never more often. A busy machine skips some, many at once where it stands still: the median does not see that.
    assert count / seconds < 1.05 * rate
    assert np.median(np.diff(stamps)) < 5e9 / rate
    assert [stamp(message) for message in received] == sorted({stamp(message) for message in received})


def test_a_state_that_came_by_topic_is_published_once(start, ros_harness):
    received = ros_harness.listen(PoseStamped, "/arm/pose")
    states = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    running = start(plan(publisher("/arm/pose", "geometry_msgs/msg/PoseStamped", rate=100.0)), "joint_states")
    ros_harness.wait_for(
        lambda: ros_harness.are_connected(states, running.bridge), what="the backend's subscription"
    )
    ros_harness.wait_for(
        lambda: running.row("/arm/pose").matched == 1 and ros_harness.knows_publisher("/arm/pose"),
        what="the bridge's publisher",
    )
    for seconds in (5, 6):
        message = JointState(name=["hinge"], position=[0.5])
        message.header.stamp.sec = seconds
        states.publish(message)
        ros_harness.wait_for(lambda: received and stamp(received[-1]) == seconds * 10**9, what="its pose")  # noqa: B023
        ticks = running.bridge.status().ticks
        ros_harness.wait_for(lambda: running.bridge.status().ticks > ticks + 3, what="four ticks more")  # noqa: B023
    assert [stamp(message) for message in received] == [5 * 10**9, 6 * 10**9]


def test_joint_states_go_out_and_commands_come_in(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    running = start(plan(JOINT_STATES, JOINT_COMMANDS))
    ros_harness.wait_for(
        lambda: received and ros_harness.are_connected(commands, running.bridge), what="the bridge"
    )
    assert received[0].name == ["hinge"]
    assert received[0].header.frame_id == "base"
    assert list(received[0].position) == [0.0]
    commands.publish(JointState(name=["hinge"], position=[0.75]))
    ros_harness.wait_for(
        lambda: received[-1].position[0] == pytest.approx(0.75), what="the commanded position"
    )
    commands.publish(JointState(name=["hinge"], position=[9.0]))
    ros_harness.wait_for(lambda: received[-1].position[0] == pytest.approx(1.0), what="the upper limit")


def test_names_that_nobody_knows_cost_no_more_than_known_ones(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    running = start(plan(JOINT_STATES, JOINT_COMMANDS))
    ros_harness.wait_for(
        lambda: received and ros_harness.are_connected(commands, running.bridge), what="the bridge"
    )
    for turn in range(100):
        names = [f"joint_{turn}_{index}" for index in range(100)]
        commands.publish(JointState(name=names, position=[1.0] * 100))
    commands.publish(JointState(name=[f"joint_{index}" for index in range(200_000)]))
    commands.publish(JointState(name=["hinge"], position=[0.75]))
    ros_harness.wait_for(
        lambda: received[-1].position[0] == pytest.approx(0.75), what="the commanded position"
    )
    kinds = [each.kind for each in running.bridge.status().reports]
    assert kinds.count("sink.joint:/arm/joint_commands") == 1
    assert len(kinds) < 10
    assert len(running.warnings.entries) < 10


def test_poses_in_frames_that_nobody_knows_are_one_report(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    poses = ros_harness.node.create_publisher(PoseStamped, "/arm/goal", 100)
    running = start(plan(JOINT_STATES, subscription("/arm/goal", "geometry_msgs/msg/PoseStamped")))
    ros_harness.wait_for(
        lambda: received and ros_harness.are_connected(poses, running.bridge), what="the bridge"
    )
    for turn in range(20):
        message = PoseStamped()
        message.header.frame_id, message.pose.orientation.w = f"frame_{turn}", 1.0
        poses.publish(message)
        ros_harness.wait_for(
            lambda: running.row("/arm/goal", "subscription").count > turn,  # noqa: B023
            what="the pose",
        )
    ros_harness.wait_for(lambda: running.warnings.containing("a pose in frame"), what="the warning")
    assert len(running.warnings.containing("a pose in frame")) == 1


def test_array_commands_joints_in_order(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    commands = ros_harness.node.create_publisher(Float64MultiArray, "/arm/commands", 10)
    running = start(plan(JOINT_STATES, subscription("/arm/commands", "std_msgs/msg/Float64MultiArray")))
    ros_harness.wait_for(lambda: ros_harness.are_connected(commands, running.bridge), what="the subscription")
    commands.publish(Float64MultiArray(data=[-0.5]))
    ros_harness.wait_for(
        lambda: received and received[-1].position[0] == pytest.approx(-0.5), what="the target"
    )


def test_twist_moves_the_base_and_odometry_starts_at_the_origin(start, ros_harness):
    odometry = ros_harness.listen(Odometry, "/arm/odom")
    velocity = ros_harness.listen(TwistStamped, "/arm/velocity")
    pose = ros_harness.listen(PoseStamped, "/arm/pose")
    commands = ros_harness.node.create_publisher(Twist, "/arm/cmd_vel", 10)
    running = start(
        plan(
            publisher("/arm/odom", "nav_msgs/msg/Odometry", frame_id="odom", child_frame_id="base"),
            publisher("/arm/velocity", "geometry_msgs/msg/TwistStamped"),
            publisher("/arm/pose", "geometry_msgs/msg/PoseStamped", frame_id="world"),
            subscription("/arm/cmd_vel", "geometry_msgs/msg/Twist"),
        )
    )
    ros_harness.wait_for(
        lambda: odometry and ros_harness.are_connected(commands, running.bridge), what="the bridge"
    )
    assert (odometry[0].header.frame_id, odometry[0].child_frame_id) == ("odom", "base")
    assert odometry[0].pose.pose.position.x == 0.0
    twist = Twist()
    twist.linear.x, twist.angular.z = 0.5, 0.25
    commands.publish(twist)
    ros_harness.wait_for(lambda: odometry[-1].pose.pose.position.x > 0.1, what="motion")
    assert odometry[-1].twist.twist.linear.x == pytest.approx(0.5, rel=1e-3)
    ros_harness.wait_for(
        lambda: velocity and velocity[-1].twist.linear.x == pytest.approx(0.5, rel=1e-3), what="velocity"
    )
    assert velocity[-1].twist.angular.z == pytest.approx(0.25, rel=1e-3)
    ros_harness.wait_for(lambda: pose and pose[-1].pose.position.x > 0.1, what="the pose in the world")
    assert pose[-1].header.frame_id == "world"


def test_imu_at_rest_feels_gravity_in_its_own_frame(start, ros_harness):
    received = ros_harness.listen(Imu, "/arm/imu", BEST_EFFORT)
    tipped = Pose((0.0, 0.0, 0.0), (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    start(plan(publisher("/arm/imu", "sensor_msgs/msg/Imu", body_from_prim=tipped, **SENSOR)))
    ros_harness.wait_for(lambda: len(received) > 3, what="imu messages")
    force = received[-1].linear_acceleration
    assert [force.x, force.y, force.z] == pytest.approx([0.0, 9.81, 0.0], abs=1e-9)
    assert received[-1].orientation.x == pytest.approx(np.sqrt(0.5))


def test_camera_info_describes_the_pinhole(start, ros_harness):
    received = ros_harness.listen(CameraInfo, "/arm/camera_info", BEST_EFFORT)
    start(
        plan(
            publisher(
                "/arm/camera_info", "sensor_msgs/msg/CameraInfo", camera=0, frame_id="optical", **SENSOR
            )
        )
    )
    ros_harness.wait_for(lambda: bool(received), what="camera info")
    info = received[0]
    assert (info.width, info.height, info.distortion_model) == (640, 480, "plumb_bob")
    assert list(info.d) == [0.0] * 5
    assert list(info.k) == [500.0, 0.0, 320.0, 0.0, 510.0, 240.0, 0.0, 0.0, 1.0]
    assert list(info.p) == [500.0, 0.0, 320.0, 0.0, 0.0, 510.0, 240.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert info.header.frame_id == "optical"
    assert stamp(info) > 0


def test_what_nothing_feeds_is_silent_and_what_nothing_takes_is_counted(start, ros_harness):
    running = start(
        plan(
            publisher("/arm/text", "std_msgs/msg/String"),
            publisher("/arm/camera_info", "sensor_msgs/msg/CameraInfo"),
            subscription("/arm/words", "std_msgs/msg/String"),
        )
    )
    assert len(running.warnings.containing("/arm/text", "silent")) == 1
    assert running.warnings.containing("/arm/camera_info", "UsdGeomCamera")
    assert running.row("/arm/text").state == "silent"
    words = ros_harness.node.create_publisher(String, "/arm/words", 10)
    ros_harness.wait_for(lambda: ros_harness.are_connected(words, running.bridge), what="the subscription")
    words.publish(String(data="hello"))
    ros_harness.wait_for(lambda: running.row("/arm/words", "subscription").count == 1, what="the count")
    assert running.row("/arm/words", "subscription").state == "silent"


def test_missing_type_disables_that_interface_alone(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    running = start(
        plan(
            publisher("/arm/odd", "os/msg/system"), publisher("/arm/gone", "std_msgs/msg/Gone"), JOINT_STATES
        )
    )
    ros_harness.wait_for(lambda: bool(received), what="joint states")
    for name, type_name in (("/arm/odd", "os/msg/system"), ("/arm/gone", "std_msgs/msg/Gone")):
        assert running.row(name).state == "disabled"
        assert type_name in running.row(name).reason
        assert running.warnings.containing(name, "disabled")


def test_reliable_subscription_that_meets_best_effort_is_made_anew(start, ros_harness):
    publisher_there = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", BEST_EFFORT)
    running = start(plan(JOINT_STATES, JOINT_COMMANDS))
    ros_harness.wait_for(
        lambda: publisher_there.get_subscription_count() == 1, what="a best-effort subscription"
    )
    # Said once the new one is there, which may be heard of before.
    ros_harness.wait_for(
        lambda: bool(running.infos.containing("/arm/joint_commands", "best effort")), what="the log line"
    )
    ros_harness.wait_for(
        lambda: ros_harness.are_connected(publisher_there, running.bridge), what="both sides"
    )
    publisher_there.publish(JointState(name=["hinge"], position=[0.5]))
    ros_harness.wait_for(
        lambda: running.row("/arm/joint_commands", "subscription").count == 1, what="the message to arrive"
    )


@pytest.mark.parametrize("ghosts", [0, 1], ids=["counts right", "counts one that has gone"])
def test_match_publisher_follows_what_is_discovered(start, ros_harness, ghosts, monkeypatch):
    node, count = ros_harness.node, Subscription.get_publisher_count
    # As Fast DDS before its pull request 6371, where two of its threads matched at once.
    monkeypatch.setattr(Subscription, "get_publisher_count", lambda self: count(self) + ghosts)
    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.subscription._GRAPH_LAG_S", 0.3)
    running = start(
        plan(
            subscription(
                "/arm/joint_commands", "sensor_msgs/msg/JointState", qos=QosPlan(match_publisher=True)
            )
        )
    )

    def requested():
        found = node.get_subscriptions_info_by_topic("/arm/joint_commands")
        return [(info.qos_profile.reliability, info.qos_profile.durability) for info in found]

    def becomes(reliability, durability):
        ros_harness.wait_for(
            lambda: requested() == [(reliability, durability)], what=f"{reliability} {durability}"
        )

    becomes(ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    first = node.create_publisher(JointState, "/arm/joint_commands", latched)
    becomes(ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)
    second = node.create_publisher(JointState, "/arm/joint_commands", BEST_EFFORT)
    becomes(ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)
    ros_harness.wait_for(
        lambda: first.get_subscription_count() == second.get_subscription_count() == 1, what="both"
    )
    node.destroy_publisher(second)
    becomes(ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.wait_for(
        lambda: bool(running.infos.containing("/arm/joint_commands", "match")), what="the log line"
    )
    ros_harness.wait_for(
        lambda: running.row("/arm/joint_commands", "subscription").matched == 1, what="the other one's end"
    )


def test_incompatible_quality_of_service_names_prim_topic_and_policy(start, ros_harness):
    latched = QosPlan(durability="transient_local")
    running = start(
        plan(
            publisher(
                "/arm/joint_states", "sensor_msgs/msg/JointState", qos=QosPlan(reliability="best_effort")
            ),
            subscription("/arm/joint_commands", "sensor_msgs/msg/JointState", qos=latched),
        )
    )
    ros_harness.node.create_subscription(JointState, "/arm/joint_states", lambda _: None, 10)
    ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    expected = (
        ("/arm/joint_states_publisher", "/arm/joint_states", "reliability"),
        ("/arm/joint_commands_subscription", "/arm/joint_commands", "durability"),
    )
    ros_harness.wait_for(
        lambda: all(running.warnings.containing(*each) for each in expected), what="both reports"
    )


def test_status_shows_rates_and_peers(start, ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    running = start(plan(JOINT_STATES))
    ros_harness.wait_for(lambda: len(received) > 20, what="joint states")
    row = running.row("/arm/joint_states")
    assert (row.state, row.matched, row.authored_rate) == ("active", 1, 50.0)
    # A loaded machine may need some seconds to reach it.
    ros_harness.wait_for(
        lambda: running.row("/arm/joint_states").achieved_rate == pytest.approx(50.0, rel=0.1),
        timeout=60.0,
        what="the authored rate",
    )
    status = running.bridge.status()
    assert (status.backend, status.moving_frames, status.static_frames) == ("kinematic", 2, 1)
    assert status.ticks > 0
    # The mean of the last ticks: one that was interrupted counts for a while.
    ros_harness.wait_for(
        lambda: 0.0 < running.bridge.status().tick_seconds < 0.1, timeout=60.0, what="the time of a tick"
    )


def test_remap_rules_apply(start, ros_harness):
    received = ros_harness.listen(JointState, "/elsewhere")
    running = start(plan(JOINT_STATES), ros_args=["--ros-args", "-r", "/arm/joint_states:=/elsewhere"])
    ros_harness.wait_for(lambda: bool(received), what="joint states on the remapped topic")
    assert running.row("/elsewhere").authored_rate == 50.0


def test_nothing_is_written_while_nobody_subscribes(start, ros_harness):
    running = start(plan(JOINT_STATES))
    ros_harness.wait_for(lambda: running.bridge.status().ticks > 20, what="twenty ticks")
    for name in ("/arm/joint_states", "/arm/tf"):
        row = running.row(name)
        assert (row.state, row.reason, row.count, row.achieved_rate) == ("idle", "no subscriber", 0, 0.0)
    received = ros_harness.listen(JointState, "/arm/joint_states")
    ros_harness.wait_for(lambda: len(received) > 3, what="joint states")
    # A message may be here before it is counted.
    ros_harness.wait_for(lambda: running.row("/arm/joint_states").count >= 4, what="the count")
    row = running.row("/arm/joint_states")
    assert (row.reason, row.matched) == ("", 1)


def test_a_publisher_is_idle_again_when_its_subscriber_has_gone(start, ros_harness):
    received = []
    subscription_there = ros_harness.node.create_subscription(
        JointState, "/arm/joint_states", received.append, 10
    )
    running = start(plan(JOINT_STATES))
    ros_harness.wait_for(lambda: running.row("/arm/joint_states").state == "active", what="the publisher")
    ros_harness.node.destroy_subscription(subscription_there)
    ros_harness.wait_for(lambda: running.row("/arm/joint_states").state == "idle", what="an idle publisher")
    count = running.row("/arm/joint_states").count
    ticks = running.bridge.status().ticks
    ros_harness.wait_for(lambda: running.bridge.status().ticks > ticks + 3, what="four ticks more")
    assert running.row("/arm/joint_states").count == count


def test_latched_publishers_send_without_subscribers(start, ros_harness):
    latched = QosPlan(durability="transient_local", depth=1)
    running = start(plan(publisher("/arm/camera_info", "sensor_msgs/msg/CameraInfo", camera=0, qos=latched)))
    ros_harness.wait_for(lambda: running.row("/arm/camera_info").count > 2, what="camera info")
    row = running.row("/arm/camera_info")
    assert (row.state, row.reason, row.matched) == ("active", "", 0)
    running.bridge.stop()
    late = ros_harness.listen(
        CameraInfo, "/arm/camera_info", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    ros_harness.wait_for(lambda: bool(late), what="the last camera info")
    assert late[0].width == 640


def test_benchmarks_force_the_write(start, ros_harness):
    running = start(plan(JOINT_STATES), publish_unmatched=True)
    for name in ("/arm/joint_states", "/arm/tf"):
        ros_harness.wait_for(lambda: running.row(name).count > 3, what=name)  # noqa: B023
        assert (running.row(name).state, running.row(name).matched) == ("active", 0)


def test_publishing_that_fails_is_reported_once_and_counted_and_goes_on(start, ros_harness, monkeypatch):
    failing = []

    class Failing(PublisherHandle):
        def __init__(self, node, publisher, **more):
            super().__init__(node, publisher, **more)
            self.sound, self.send = self.send, self.fail_or_send

        def fail_or_send(self, data):
            if failing:
                raise RuntimeError("the network is down")
            self.sound(data)
            self.send = self.fail_or_send

    monkeypatch.setattr("usd_ros_bridge.ros.domains.PublisherHandle", Failing)
    failing.append(True)
    received, transforms = (
        ros_harness.listen(JointState, "/arm/joint_states"),
        ros_harness.listen(TFMessage, "/arm/tf"),
    )
    running = start(plan(JOINT_STATES))

    def errors():
        return running.row("/arm/joint_states").errors > 2 and running.row("/arm/tf").errors > 2

    ros_harness.wait_for(errors, what="failures")
    assert len(running.warnings.containing("the network is down")) == 2
    assert not received
    failing.clear()
    ros_harness.wait_for(lambda: received and transforms, what="messages after the failures")


class CameraBackend(NullBackend):
    """Sees a grey picture that gets brighter, one every second step."""

    capabilities = replace(NullBackend.capabilities, sensors=frozenset({"/arm/arm/image_publisher"}))

    def step(self, time_ns, commands):
        self.time_ns = time_ns
        self.steps = getattr(self, "steps", 0) + 1
        return super().step(time_ns, commands)

    def sense(self, prim):
        shown = self.steps // 2
        if not shown:
            return None
        if shown != getattr(self, "shown", 0):
            self.shown, self.sensed_ns = shown, self.time_ns
        pixels = np.full((2, 3, 3), shown % 256, dtype=np.uint8)
        return SensorSample(prim=prim, stamp_ns=self.sensed_ns, arrays={"data": pixels})


def test_a_sensor_of_the_backend_is_published_once_per_measurement(start, ros_harness):
    received = ros_harness.listen(Image, "/arm/image")
    running = start(
        plan(
            publisher("/arm/image", "sensor_msgs/msg/Image", rate=100.0),
            publisher("/arm/other", "sensor_msgs/msg/Image"),
        ),
        CameraBackend(),
    )
    ros_harness.wait_for(lambda: len(received) > 5, what="images")
    stamps, shades = [stamp(image) for image in received], [image.data[0] for image in received]
    assert stamps == sorted(set(stamps))
    assert len(set(shades)) == len(shades)
    assert (received[0].encoding, received[0].step) == ("rgb8", 9)
    assert running.row("/arm/other").state == "silent"
    assert running.warnings.containing("/arm/other", "no sensor")
