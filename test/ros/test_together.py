"""Robots of a kind, whose messages are written together: each reads as its own, whatever happens to its neighbours."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped, Twist
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import ArrayBackend, Bridge, load_plan
from usd_ros_bridge.model.plan import Pose, TfOutput
from usd_ros_bridge.ros.cdr import Copies, Template
from usd_ros_bridge.ros.endpoints.chorus import PublisherChorus
from usd_ros_bridge.testing.plans import PlanBuilder
from usd_ros_bridge.testing.stages import write_drives

SECOND_NS = 1_000_000_000
ROBOTS = 12
JOINTS = 2


PREFIXED = 5


def prefix_of(number):
    return f"robot_{number}/" if number == PREFIXED else ""


def fleet():
    """Robots of two joints; their links are longer from every fourth on, and one has a prefix: those are not alike."""
    builder = PlanBuilder()
    for number in range(ROBOTS):
        namespace = f"/robot_{number}"
        output = TfOutput(tf=f"{namespace}/tf", tf_static=f"{namespace}/tf_static", prefix=prefix_of(number))
        robot = builder.robot(namespace, namespace=namespace, tf_outputs=(output,))
        robot.body("base")
        robot.joint("anchor", "", "base", kind="fixed")
        for name, parent in (("upper", "base"), ("lower", "upper")):
            robot.body(name)
            robot.joint(
                f"{name}_joint",
                parent,
                name,
                axis="Z",
                body0_from_joint=Pose((0.1 * (number // 4), 0.0, 0.0)),
            )
        robot.topic(
            "joint_states",
            "sensor_msgs/msg/JointState",
            "publisher",
            publish_rate=100.0,
            frame_id=f"base_{number}",
        )
    return builder.build()


class Fleet:
    """A bridge on the fleet, and what a listener hears of it in one step."""

    def __init__(self, harness, *, velocity=None, robots=range(ROBOTS)):
        self.harness = harness
        self.position = np.zeros(ROBOTS * JOINTS)
        self.warnings = []
        self.heard = defaultdict(list)
        self.listened = set()
        self.plan = fleet()
        backend = ArrayBackend(
            self.plan.layout, joint_position=self.position, joint_velocity=velocity, commands=False
        )
        self.bridge = Bridge(
            self.plan,
            backend,
            tf_rate=None,
            report=lambda *each: self.warnings.append(each),
            inform=lambda *_: None,
        )
        self.bridge.open()
        self.listen(robots)

    def faults(self):
        """What was reported, but for ticks that are seconds apart."""
        return {kind for kind, _ in self.warnings} - {"schedule.stall"}

    def listen(self, robots):
        for number in robots:
            for kind, name in (
                (TFMessage, f"/robot_{number}/tf"),
                (JointState, f"/robot_{number}/joint_states"),
            ):
                self.harness.node.create_subscription(kind, name, self.heard[name].append, 100)
                self.listened.add(name)
        self.harness.wait_for(
            lambda: all(r.matched for r in self.bridge.status().interfaces if r.name in self.listened),
            what="the listener",
        )

    def step(self, time_ns):
        """Returns the messages of a step by topic."""
        for messages in self.heard.values():
            messages.clear()
        self.bridge.step(time_ns)
        self.harness.wait_for(lambda: all(self.heard[name] for name in self.listened), what="every topic")
        assert {len(self.heard[name]) for name in self.listened} == {1}
        return {name: self.heard[name][0] for name in self.listened}

    def check(self, heard, time_ns, robots=range(ROBOTS)):
        """Compares with what each robot's joints say."""
        for number in robots:
            position = self.position[JOINTS * number : JOINTS * (number + 1)]
            state = heard.get(f"/robot_{number}/joint_states")
            if state is not None:
                names = ["upper_joint", "lower_joint"]
                assert (state.header.frame_id, list(state.name)) == (f"base_{number}", names)
                assert (stamp(state.header), list(state.position)) == (time_ns, position.tolist())
            prefix = prefix_of(number)
            transforms = heard[f"/robot_{number}/tf"].transforms
            assert [each.child_frame_id for each in transforms] == [prefix + "upper", prefix + "lower"]
            for each, angle in zip(transforms, position, strict=True):
                assert stamp(each.header) == time_ns
                assert each.transform.translation.x == 0.1 * (number // 4)
                found = (each.transform.rotation.z, each.transform.rotation.w)
                assert found == pytest.approx((np.sin(angle / 2), np.cos(angle / 2)), abs=1e-15)


def stamp(header):
    return header.stamp.sec * SECOND_NS + header.stamp.nanosec


@pytest.fixture
def running(ros_harness):
    made = []

    def make(**options):
        made.append(Fleet(ros_harness, **options))
        return made[-1]

    yield make
    for each in made:
        each.bridge.close()


@pytest.fixture
def sent_together(monkeypatch):
    """How many messages choruses have sent."""
    sent = []

    class Counted(PublisherChorus):
        def __call__(self, snapshot):
            asked = super().__call__(snapshot)
            sent.extend(asked or ())
            return asked

    for module in ("tf", "publisher"):
        monkeypatch.setattr(f"usd_ros_bridge.ros.endpoints.{module}.PublisherChorus", Counted)
    return sent


def test_every_robot_reads_as_its_own_tick_by_tick_and_after_a_reset_to_the_same_time(running, sent_together):
    robots = running()
    random = np.random.default_rng(1)
    for time_ns in (SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS + 7):
        robots.position[:] = random.uniform(-1.0, 1.0, robots.position.size)
        robots.check(robots.step(time_ns), time_ns)
    # All but the first tick's: robots 0-3, 6-7 and 8-11 by their transforms, 0-9 and 10-11 by the length of frame ids.
    assert len(sent_together) == 2 * (4 + 2 + 4 + 10 + 2)
    robots.bridge.reset()
    robots.position[:] = random.uniform(-1.0, 1.0, robots.position.size)
    robots.check(robots.step(3 * SECOND_NS + 7), 3 * SECOND_NS + 7)
    assert not robots.faults()


def test_a_robot_that_is_not_finite_harms_no_neighbour(running):
    robots = running()
    for second in (1, 2):
        robots.check(robots.step(second * SECOND_NS), second * SECOND_NS)
    robots.position[:] = 0.25
    # All of the fifth robot is unknown, and one joint of the eighth; both may be in the middle of a row.
    robots.position[JOINTS * 4 : JOINTS * 5] = np.nan
    robots.position[JOINTS * 7 + 1] = np.nan
    robots.listened.discard("/robot_4/tf")
    heard = robots.step(3 * SECOND_NS)
    robots.check(heard, 3 * SECOND_NS, [n for n in range(ROBOTS) if n not in (4, 7)])
    assert not heard["/robot_4/joint_states"].position
    assert heard["/robot_7/joint_states"].position[0] == 0.25
    assert np.isnan(heard["/robot_7/joint_states"].position[1])
    assert [each.child_frame_id for each in heard["/robot_7/tf"].transforms] == ["upper"]
    robots.listened.add("/robot_4/tf")
    robots.position[:] = 0.5
    robots.check(robots.step(4 * SECOND_NS), 4 * SECOND_NS)
    assert robots.faults() == {"tf.finite:/robot_4", "tf.finite:/robot_7"}


def test_velocities_come_and_go(running):
    velocity = np.full(ROBOTS * JOINTS, np.nan)
    robots = running(velocity=velocity)
    for second, value in enumerate((np.nan, np.nan, 0.5, 0.75, np.nan, np.nan), start=1):
        velocity[:] = value + np.arange(velocity.size)
        heard = robots.step(second * SECOND_NS)
        robots.check(heard, second * SECOND_NS)
        for number in range(ROBOTS):
            own = velocity[JOINTS * number : JOINTS * (number + 1)].tolist()
            found = heard[f"/robot_{number}/joint_states"].velocity
            assert list(found) == ([] if np.isnan(value) else own)


def test_robots_that_are_listened_to_later_join_in(running):
    robots = running(robots=(3, 4, 9))
    for second in (1, 2):
        robots.position[:] = 0.1 * second
        robots.check(robots.step(second * SECOND_NS), second * SECOND_NS, (3, 4, 9))
    robots.listen((2, 5, 6))
    for second in (3, 4, 5):
        robots.position[:] = 0.1 * second
        robots.check(robots.step(second * SECOND_NS), second * SECOND_NS, (2, 3, 4, 5, 6, 9))
    counts = {row.name: row.count for row in robots.bridge.status().interfaces}
    assert (counts["/robot_3/tf"], counts["/robot_6/tf"], counts["/robot_0/tf"]) == (5, 3, 0)


def test_a_robot_whose_messages_cannot_be_sent_harms_no_neighbour(running):
    robots = running()
    robots.step(SECOND_NS)
    endpoints = {
        each.emitter.topic.name if hasattr(each.emitter, "topic") else each.emitter._outputs[0][0].name: each
        for each in robots.bridge.runtime.emissions._all
        if hasattr(each.emitter, "row")
    }

    def refuse(_):
        raise RuntimeError("no room")

    for name, outlet in (
        ("/robot_2/tf", lambda each: each.emitter._outputs[0][0]._outlet),
        ("/robot_3/joint_states", lambda each: each.emitter._outlet),
    ):
        outlet(endpoints[name]).send = refuse
        robots.listened.discard(name)
    robots.check(robots.step(2 * SECOND_NS), 2 * SECOND_NS, [n for n in range(ROBOTS) if n != 2])
    rows = {row.name: (row.count, row.errors) for row in robots.bridge.status().interfaces}
    assert rows["/robot_2/tf"] == rows["/robot_3/joint_states"] == (1, 1)
    assert rows["/robot_1/tf"] == rows["/robot_2/joint_states"] == (2, 0)
    assert robots.faults() == {
        f"emitter.error:{endpoints[n].name}" for n in ("/robot_2/tf", "/robot_3/joint_states")
    }


DRIVES = 12


class Drives:
    """A bridge on differential drives that all were told something else, and a listener to their odometry."""

    def __init__(self, harness, bridge):
        self.harness = harness
        self.bridge = bridge
        self.heard = defaultdict(list)
        self.topics = [f"/robot_{number}/odom" for number in range(DRIVES)]
        commands = [harness.node.create_publisher(Twist, f"/robot_{n}/cmd_vel", 10) for n in range(DRIVES)]
        for name in self.topics:
            harness.node.create_subscription(Odometry, name, self.heard[name].append, 100)
        names = {*self.topics, *(each.topic_name for each in commands)}
        rows = lambda: [r for r in bridge.status().interfaces if r.name in names]  # noqa: E731
        harness.wait_for(
            lambda: all(r.matched for r in rows()) and all(c.get_subscription_count() for c in commands),
            what="the bridge",
        )
        for number, publisher in enumerate(commands):
            command = Twist()
            command.linear.x, command.angular.z = 0.1 * number, 1.0 - 0.2 * number
            publisher.publish(command)
        arrived = lambda: all(r.count for r in rows() if r.role == "subscription")  # noqa: E731
        harness.wait_for(arrived, what="commands")

    def step(self, time_ns, topics):
        """Returns the odometry of a step by robot, NaN where none came, and checks stamps and frames."""
        for messages in self.heard.values():
            messages.clear()
        self.bridge.step(time_ns)
        self.harness.wait_for(lambda: all(self.heard[name] for name in topics), what="odometry")
        numbers = np.full((DRIVES, 13), np.nan)
        for number, name in enumerate(self.topics):
            for message in self.heard[name]:
                assert stamp(message.header) == time_ns
                assert (message.header.frame_id, message.child_frame_id) == ("odom", "base_link")
                p, q, v = message.pose.pose.position, message.pose.pose.orientation, message.twist.twist
                numbers[number] = (
                    p.x, p.y, p.z, q.x, q.y, q.z, q.w,
                    v.linear.x, v.linear.y, v.linear.z, v.angular.x, v.angular.y, v.angular.z,
                )  # fmt: skip
        return numbers

    def expected(self):
        snapshot = self.bridge.runtime.snapshot
        odometry = [snapshot.odometry(number) for number in range(DRIVES)]
        return np.array([[*each.pose, *each.twist] for each in odometry])


def test_odometry_of_drives_reads_as_their_own_and_one_that_is_not_finite_harms_no_other(
    ros_harness, sent_together, tmp_path, monkeypatch
):
    plan = load_plan(write_drives(tmp_path, robots=DRIVES, cmd_vel_timeout=0.0))
    with Bridge(plan, "kinematic", report=lambda *_: None, inform=lambda *_: None) as bridge:
        drives = Drives(ros_harness, bridge)
        for tick in range(1, 4):
            heard = drives.step(SECOND_NS + 10_000_000 * tick, drives.topics)
            assert heard.tolist() == drives.expected().tolist()
        # All moved but the first, which only turned; all messages but each robot's first were written together.
        assert (heard[1:, 0] > 0.0).all()
        assert len({tuple(row) for row in heard.tolist()}) == DRIVES
        assert len(sent_together) == 2 * DRIVES
        group = next(h.group for h in bridge.runtime.controllers._hosts if hasattr(h.group, "odom_from_base"))
        observe = group.observe

        def lose(state):
            observe(state)
            group.odom_from_base[3, 1] = group.base_twist[7, 5] = np.nan

        monkeypatch.setattr(group, "observe", lose, raising=False)
        others = [name for number, name in enumerate(drives.topics) if number not in (3, 7)]
        heard = drives.step(2 * SECOND_NS, others)
        assert np.flatnonzero(np.isnan(heard).any(axis=1)).tolist() == [3, 7]
        keep = ~np.isnan(heard).any(axis=1)
        assert heard[keep].tolist() == drives.expected()[keep].tolist()


@pytest.mark.parametrize("name", ["", "f", "four", "longer"])
def test_copies_hold_what_is_written_into_each(name):
    message = TFMessage(transforms=[TransformStamped(child_frame_id=name * n) for n in range(3)])
    copies = Copies(Template(message))
    assert copies.count > 10
    poses = np.random.default_rng(2).uniform(-1.0, 1.0, (copies.count - 1, 3, 7))
    copies.column("transforms[].transform").write_components(poses.reshape(-1, 7).T)
    copies.stamps("transforms[].header.stamp").write(5 * SECOND_NS + 6)
    for number, expected in enumerate(poses):
        read = deserialize_message(bytes(copies.message(number)), TFMessage)
        assert [each.child_frame_id for each in read.transforms] == [name * n for n in range(3)]
        for each, pose in zip(read.transforms, expected, strict=True):
            v, q = each.transform.translation, each.transform.rotation
            assert [v.x, v.y, v.z, q.x, q.y, q.z, q.w] == pose.tolist()
            assert stamp(each.header) == 5 * SECOND_NS + 6


def test_a_message_that_is_large_is_not_copied():
    message = TFMessage(transforms=[TransformStamped() for _ in range(1000)])
    template = Template(message)
    assert Copies.fitting(template) == 1
    assert deserialize_message(bytes(Copies(template).message(0)), TFMessage) == deserialize_message(
        serialize_message(message), TFMessage
    )
