"""Publisher batches: each robot's message reads as its own, whatever happens to its neighbours."""

from __future__ import annotations

from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped, Twist
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from builders.plans import PlanBuilder
from builders.stages import write_drives
from usd_ros_bridge import ArrayBackend, Bridge, BridgeOptions, load_plan
from usd_ros_bridge.controllers.diff_drive import DiffDrives
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.endpoints import publisher as publishers
from usd_ros_bridge.ros.endpoints.publisher import PublisherBatch
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.tf.broadcaster import TransformPublisher
from usd_ros_bridge.ros.wire.cdr_template import MessageBlock, Template, pack_stamp
from usd_ros_bridge.runtime.publications import Publications
from usd_ros_bridge.runtime.schedule import mark_each
from usd_ros_bridge.spatial.pose import Pose

SECOND_NS = 1_000_000_000
ROBOTS = 12
JOINTS = 2


PREFIXED = 5
RENAMED = 6


def prefix_of(number):
    return f"robot_{number}/" if number == PREFIXED else ""


def joint_names_of(number):
    return ("outer_joint", "inner_joint") if number == RENAMED else ("upper_joint", "lower_joint")


def fleet():
    """Robots of two joints that are not all alike.

    Links are longer from every fourth robot on, one has a prefix, and one has other names of joints, as long as those
    of the others.
    """
    builder = PlanBuilder()
    for number in range(ROBOTS):
        namespace = f"/robot_{number}"
        output = TfOutput(tf=f"{namespace}/tf", tf_static=f"{namespace}/tf_static", prefix=prefix_of(number))
        robot = builder.robot(namespace, namespace=namespace, tf_outputs=(output,))
        robot.body("base")
        robot.joint("anchor", "", "base", kind="fixed")
        links = (("upper", "base"), ("lower", "upper"))
        for joint, (name, parent) in zip(joint_names_of(number), links, strict=True):
            robot.body(name)
            robot.joint(
                joint,
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
            options=BridgeOptions(tf_rate=None),
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
            lambda: (
                all(r.matched for r in self.bridge.status().interfaces if r.name in self.listened)
                and all(map(self.harness.knows_publisher, self.listened))
            ),
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
                assert (state.header.frame_id, tuple(state.name)) == (
                    f"base_{number}",
                    joint_names_of(number),
                )
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
    """The publishers whose messages were written and sent together, message by message."""
    sent = []

    def noted(members, time_ns):
        sent.extend(members)
        mark_each(members, time_ns)

    monkeypatch.setattr(publishers, "mark_each", noted)
    return sent


def test_every_robot_reads_as_its_own_tick_by_tick_and_after_a_reset_to_the_same_time(running, sent_together):
    robots = running()
    random = np.random.default_rng(1)
    for time_ns in (SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS + 7):
        robots.position[:] = random.uniform(-1.0, 1.0, robots.position.size)
        robots.check(robots.step(time_ns), time_ns)
    # Robots 0-3, 6-7 and 8-11 by their transforms (4 stands alone beside 5).
    # By their joint states 0-5 and 7-9 (6 has other names), and 10-11: their frame ids are longer.
    assert len(sent_together) == 3 * (4 + 2 + 4 + 6 + 3 + 2)
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


def test_a_robot_whose_messages_cannot_be_sent_harms_no_neighbour(running, monkeypatch):
    refused = []

    class Refusing(PublisherHandle):
        def __init__(self, node, publisher, **more):
            super().__init__(node, publisher, **more)
            self.accept, self.send = self.send, self.accept_or_refuse

        def accept_or_refuse(self, data):
            if self.publisher.topic_name in refused:
                raise RuntimeError("no room")
            self.accept(data)
            self.send = self.accept_or_refuse

    monkeypatch.setattr("usd_ros_bridge.ros.domains.PublisherHandle", Refusing)
    robots = running()
    robots.step(SECOND_NS)
    refused += ["/robot_2/tf", "/robot_3/joint_states"]
    robots.listened.difference_update(refused)
    robots.check(robots.step(2 * SECOND_NS), 2 * SECOND_NS, [n for n in range(ROBOTS) if n != 2])
    rows = {row.name: (row.count, row.errors) for row in robots.bridge.status().interfaces}
    assert rows["/robot_2/tf"] == rows["/robot_3/joint_states"] == (1, 1)
    assert rows["/robot_1/tf"] == rows["/robot_2/joint_states"] == (2, 0)
    states = next(each.path for each in robots.plan.topics if each.name == "/robot_3/joint_states")
    assert robots.faults() == {"emitter.error:/robot_2/tf of /robot_2", f"emitter.error:{states}"}


def broken_publish(*_):
    raise RuntimeError("a batch is broken")


def broken_for_one(encoder, arrays, snapshot):
    if encoder.frame_id == "base_3":
        raise RuntimeError("a row is broken")
    return find_row(encoder, arrays, snapshot)


find_row = MessageEncoder.find_row


@pytest.mark.parametrize(
    ("target", "name", "broken", "alone"),
    [
        (PublisherBatch, "_publish", broken_publish, range(ROBOTS)),
        (MessageEncoder, "find_row", broken_publish, range(ROBOTS)),
        (MessageEncoder, "find_row", broken_for_one, (3,)),
    ],
)
def test_what_a_batch_fails_to_publish_is_published_one_by_one_and_counted(
    running, sent_together, monkeypatch, target, name, broken, alone
):
    monkeypatch.setattr(target, name, broken)
    robots = running()
    for second in (1, 2):
        robots.position[:] = 0.1 * second
        robots.check(robots.step(second * SECOND_NS), second * SECOND_NS)
    topics = [each.handle.publisher.topic_name for each in sent_together]
    together = {topic for topic in topics if topic.endswith("joint_states")}
    assert together.isdisjoint(f"/robot_{number}/joint_states" for number in alone)
    assert bool(together) == (len(alone) < ROBOTS)
    rows = {row.name: (row.count, row.errors) for row in robots.bridge.status().interfaces}
    assert {rows[topic] for topic in robots.listened} == {(2, 0)}
    assert not robots.faults()


class Shown:
    """Stands for a snapshot of three robots with poses of their own."""

    def __init__(self, time_ns):
        self.time_ns = self.common_ns = time_ns
        self.frames_finite, self.all_frame_poses = True, np.arange(42.0).reshape(6, 7)

    def frame_poses(self, robot):
        return self.all_frame_poses[2 * robot : 2 * robot + 2]


class Listened:
    """Stands for a TF topic and its handle, with and without a subscriber."""

    name, always = "/tf", False

    def __init__(self):
        self.handle, self.matched = self, 0
        self.recent_stamps, self.publishers, self.sent = deque(), [], []

    def subscriptions(self):
        return self.matched

    def has_uncounted(self):
        return False

    def send(self, data):
        self.sent.append(
            {stamp(each.header) for each in deserialize_message(bytes(data), TFMessage).transforms}
        )


def alike_publishers(topics):
    """Publishers of robots that are alike, added."""
    publications, messages = Publications(pytest.fail), EncodedMessages()
    robot = fleet().robots[0]
    publishers = []
    for number, topic in enumerate(topics):
        publisher = TransformPublisher(topic, messages=messages, report=pytest.fail)
        frames = SimpleNamespace(moving=(1, 2), rotate_only=False, span=slice(2 * number, 2 * number + 2))
        publisher.update(robot, frames, robot.tf_outputs[0], number)
        publications.add(publisher, name=str(number))
        publishers.append(publisher)
    return publishers, publications


def test_a_robot_that_is_listened_to_later_at_the_same_time_gets_that_state_too():
    topics = [Listened(), Listened()]
    publishers, publications = alike_publishers(topics)
    publish = publishers[0].make_batch(publishers, publications)
    topics[0].matched = 1
    publish(Shown(5))
    publish(Shown(5))
    topics[1].matched = 1
    publish(Shown(5))
    publish(Shown(5))
    assert [topic.sent for topic in topics] == [[{5}], [{5}]]
    publish(Shown(6))
    publish(Shown(6))
    assert [topic.sent for topic in topics] == [[{5}, {6}], [{5}, {6}]]
    assert [each.count for each in publishers] == [2, 2]


def test_a_robot_that_is_added_at_the_same_time_gets_that_state_too():
    topics = [Listened(), Listened()]
    publishers, publications = alike_publishers(topics)
    for topic in topics:
        topic.matched = 1
    publications.publish_each(publishers[:1], Shown(5))
    publish = publishers[0].make_batch(publishers, publications)
    publish(Shown(5))
    assert [topic.sent for topic in topics] == [[{5}], [{5}]]


def test_a_state_that_lasts_for_ticks_of_several_batches_is_sent_once():
    """Publishers of two rates are due together in some ticks: those are another batch."""
    topics = [Listened() for _ in range(3)]
    publishers, publications = alike_publishers(topics)
    for topic in topics:
        topic.matched = 1
    all_due = publishers[0].make_batch(publishers, publications)
    two_due = publishers[0].make_batch(publishers[:2], publications)
    all_due(Shown(5))
    two_due(Shown(6))
    all_due(Shown(6))
    two_due(Shown(6))
    assert [topic.sent for topic in topics] == [[{5}, {6}]] * 3
    assert [each.count for each in publishers] == [2, 2, 2]


@pytest.mark.parametrize("matched", [0, 1])
def test_a_robot_that_is_removed_in_the_tick_before_its_batch_is_not_sent_any_more(matched):
    topics = [Listened(), Listened()]
    publishers, publications = alike_publishers(topics)
    for topic in topics:
        topic.matched = 1
    publish = publishers[0].make_batch(publishers, publications)
    publish(Shown(5))
    publications.remove(publishers[1])
    topics[0].matched = matched
    publish(Shown(6))
    assert [topic.sent for topic in topics] == [[{5}, {6}][: 1 + matched], [{5}]]


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
            lambda: (
                all(r.matched for r in rows())
                and all(c.get_subscription_count() for c in commands)
                and all(map(harness.knows_publisher, self.topics))
            ),
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
        snapshot = self.bridge.parts.runtime.snapshot
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
        # All moved but the first, which only turned.
        assert (heard[1:, 0] > 0.0).all()
        assert len({tuple(row) for row in heard.tolist()}) == DRIVES
        assert len(sent_together) == 3 * DRIVES
        observe = DiffDrives.observe

        def lose(group, state):
            observe(group, state)
            group.odom_from_base[3, 1] = group.base_twist[7, 5] = np.nan

        monkeypatch.setattr(DiffDrives, "observe", lose)
        others = [name for number, name in enumerate(drives.topics) if number not in (3, 7)]
        heard = drives.step(2 * SECOND_NS, others)
        assert np.flatnonzero(np.isnan(heard).any(axis=1)).tolist() == [3, 7]
        keep = ~np.isnan(heard).any(axis=1)
        assert heard[keep].tolist() == drives.expected()[keep].tolist()


def test_the_copies_of_a_block_hold_what_is_written_into_each():
    for name in ("", "f", "four", "longer"):
        message = TFMessage(transforms=[TransformStamped(child_frame_id=name * n) for n in range(3)])
        block = MessageBlock(Template(message))
        assert block.count > 10
        poses = np.random.default_rng(2).uniform(-1.0, 1.0, (block.count - 1, 3, 7))
        block.column("transforms[].transform", len(poses)).write_components(poses.reshape(-1, 7).T)
        block.stamps("transforms[].header.stamp").write(pack_stamp(5 * SECOND_NS + 6))
        for place, expected in zip(block.slices, poses, strict=False):
            read = deserialize_message(bytes(block.data[place]), TFMessage)
            assert [each.child_frame_id for each in read.transforms] == [name * n for n in range(3)]
            for each, pose in zip(read.transforms, expected, strict=True):
                v, q = each.transform.translation, each.transform.rotation
                assert [v.x, v.y, v.z, q.x, q.y, q.z, q.w] == pose.tolist()
                assert stamp(each.header) == 5 * SECOND_NS + 6


def test_a_block_of_a_large_message_is_one_copy():
    message = TFMessage(transforms=[TransformStamped() for _ in range(1000)])
    block = MessageBlock(Template(message))
    assert block.count == 1
    assert deserialize_message(bytes(block.data[block.slices[0]]), TFMessage) == deserialize_message(
        serialize_message(message), TFMessage
    )
