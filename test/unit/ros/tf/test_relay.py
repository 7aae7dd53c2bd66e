"""What the relay writes into /tf is, byte for byte, what a tick sends."""

from __future__ import annotations

import datetime
import struct
import threading
from types import SimpleNamespace
from weakref import WeakValueDictionary

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from builders.plans import PlanBuilder, as_pose
from effort import EFFORT, examples
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.model.state import JointStateSample
from usd_ros_bridge.ros.codecs.message_encoder import MessageEncoder
from usd_ros_bridge.ros.tf import relay
from usd_ros_bridge.ros.tf.broadcaster import encode_transforms
from usd_ros_bridge.ros.wire.cdr_reader import JointStateReader, JointStateShape
from usd_ros_bridge.runtime.inbox import DescriptorWakeup
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FEW_ANGLES, pose

STEP_NS = 1_000_000_000


class TickedRobot:
    """A robot that ticks move, and the message that they send."""

    def __init__(self, builder: PlanBuilder) -> None:
        self.reports: list[str] = []
        plan = builder.build()
        self.runtime = Runtime(plan, JointStatesBackend()).open()
        (needed,) = self.runtime.inputs
        self.key = needed.key
        self.binding = self.runtime.bind_input(needed)
        frames = self.runtime.frames.robots[0]
        encoding = encode_transforms(
            plan.robots[0], frames, TfOutput(tf="/tf", tf_static="/tf_static"), 0, self.note
        )
        self.encoder = MessageEncoder(
            "/robot", TFMessage, encoding, report=self.note, messages=WeakValueDictionary()
        )
        self.reader = JointStateReader(JointStateSample)

    def note(self, _kind: str, message: str) -> None:
        self.reports.append(message)

    def tick(self, data: bytes, number: int) -> bytes | None:
        """Apply a message and return what is sent."""
        sample = self.reader(data)
        assert sample is not None
        self.binding.deliver(sample)
        self.runtime.tick(number * STEP_NS)
        time_ns = self.runtime.snapshot.robot_time_ns(0)
        values = self.encoder.values(self.runtime.snapshot)
        return None if time_ns < 0 or values is None else bytes(self.encoder.encode(values, time_ns))

    def rewrite(self, data: bytes) -> tuple[relay.Rewrite, bytearray, int]:
        """Return what relays messages like the last one, its message, and the stamp of that."""
        shape, encoded = JointStateShape.of(data), self.encoder.latest
        found = self.runtime.backend.assignment(self.key)
        assert shape is not None
        assert encoded is not None
        assert found is not None
        assert self.runtime.frames.only_edges_move
        message = relay.aligned(len(encoded.data))
        message[:] = encoded.data
        made = relay.make_rewrite(
            shape,
            found[0],
            kinematics=self.runtime.kinematics,
            edges=self.runtime.frames.edge_rows(0),
            position=self.runtime.snapshot.state.joint_position.copy(),
            template=encoded.template,
            message=message,
        )
        return made, message, found[1]


def joint_states(names, position, stamp, *, velocity=(), effort=()) -> bytes:
    """A message with zeroes in its padding; `serialize_message` leaves there what was in its memory."""
    data = bytearray(b"\0\1\0\0" + struct.pack("<iII", stamp, 7, 1) + b"\0")

    def add(layout, *values):
        size = struct.calcsize(f"<{layout[-1]}") if layout[-1] != "s" else 1
        data.extend(bytes(-(len(data) - 4) % size) + struct.pack(f"<{layout}", *values))

    add("I", len(names))
    for name in names:
        add("I", len(name) + 1)
        add(f"{len(name) + 1}s", name.encode())
    for numbers in (position, velocity, effort):
        add("I", len(numbers))
        if len(numbers):
            add(f"{len(numbers)}d", *numbers)
    return bytes(data)


def test_messages_made_here_are_messages():
    read = deserialize_message(
        joint_states(["a", "bcd", "ef"], [1.0, 2.0, 3.0], 5, velocity=[4.0], effort=[]), JointState
    )
    assert (read.header.stamp.sec, read.header.stamp.nanosec, read.header.frame_id) == (5, 7, "")
    assert (list(read.name), list(read.position)) == (["a", "bcd", "ef"], [1.0, 2.0, 3.0])
    assert (list(read.velocity), list(read.effort)) == ([4.0], [])


angles = st.floats(-1e3, 1e3, allow_nan=False, width=64)
AXES = ("X", "Y", "Z")


@st.composite
def robots(draw) -> tuple[PlanBuilder, list[str]]:
    """A tree of joints of one kind or several, in frames that are plain or turned, and the names of all joints."""
    count = draw(st.sampled_from((1, 2, 5, 12, FEW_ANGLES + 3)))
    kinds = draw(
        st.sampled_from((("revolute",), ("revolute", "prismatic"), ("revolute", "fixed"), ("spherical",)))
    )
    is_plain, has_mimic, has_lever = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    builder = PlanBuilder()
    robot = builder.robot()
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    for number in range(count):
        robot.body(f"link_{number}")
        parent = "base" if number == 0 else f"link_{random.integers(number)}"
        place = Pose(tuple(random.normal(size=3).tolist()))
        if not is_plain:
            place = as_pose(pose(random.normal(size=3), random.normal(size=4)))
        leaders = [dof.name for joint in robot.joints for dof in joint.dofs]
        kind = str(random.choice(kinds)) if number else kinds[0]
        robot.joint(
            f"joint_{number}",
            parent,
            f"link_{number}",
            kind=kind,
            axis=AXES[random.integers(3)],
            body0_from_joint=place,
            body1_from_joint=Pose((0.1, 0.2, 0.3)) if has_lever else Pose(),
            inverted=bool(random.integers(2)) and kind != "spherical",
            mimic=(leaders[0], -0.5, 0.25) if has_mimic and leaders and kind == "revolute" else None,
            position=0.2,
        )
    return builder, [dof.name for joint in robot.joints for dof in joint.dofs]


@pytest.mark.random
@pytest.mark.timeout(240 * EFFORT)
@settings(max_examples=examples(60), deadline=datetime.timedelta(seconds=20))
@given(robots(), st.data())
def test_a_relayed_message_has_the_bytes_of_a_tick(made, data):
    builder, names = made
    ticked = TickedRobot(builder)
    named = data.draw(st.permutations(names)) if data.draw(st.booleans()) else names
    named = [*named[: data.draw(st.integers(1, len(named)))], "of_no_robot"][
        :: data.draw(st.sampled_from((1, -1)))
    ]
    named = named if data.draw(st.booleans()) else [name for name in named if name != "of_no_robot"]
    extra = data.draw(st.sampled_from((((), ()), (named, ()), ((), named), (named, named))))

    def message(stamp: int) -> bytes:
        values = data.draw(st.lists(angles, min_size=len(named), max_size=len(named)))
        velocity, effort = ([0.5] * len(each) for each in extra)
        return joint_states(named, values, stamp, velocity=velocity, effort=effort)

    first = message(1)
    assert ticked.tick(first, 1) is not None
    rewrite, written, stamp_ns = ticked.rewrite(first)
    for stamp in (2, 3):
        after = message(stamp)
        stamp_ns = rewrite(after, stamp_ns)
        assert stamp_ns == stamp * STEP_NS + 7
        assert bytes(written) == ticked.tick(after, stamp)
    assert not [each for each in ticked.reports if "message objects" in each]


def chain(count: int) -> PlanBuilder:
    builder = PlanBuilder()
    robot = builder.robot()
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    for number in range(count):
        robot.body(f"link_{number}")
        robot.joint(f"joint_{number}", "base", f"link_{number}")
    return builder


@pytest.mark.parametrize("count", [3, FEW_ANGLES + 1])
def test_what_a_tick_has_to_look_at_is_not_relayed(count):
    names = [f"joint_{number}" for number in range(count)]
    ticked = TickedRobot(chain(count))
    first = joint_states(names, [0.1] * count, 1)
    ticked.tick(first, 1)
    rewrite, written, last_ns = ticked.rewrite(first)
    before = bytes(written)
    good = joint_states(names, [0.3] * count, 2)
    assert JointStateShape.of(good) is not None
    refused = {
        "the same stamp": first,
        "an older one": joint_states(names, [0.3] * count, 0),
        "NaN": joint_states(names, [np.nan, *[0.3] * (count - 1)], 2),
        "infinity": joint_states(names, [*[0.3] * (count - 1), -np.inf], 2),
        "other names": joint_states(["other", *names[1:]], [0.3] * count, 2),
        "fewer positions": joint_states(names, [0.3] * (count - 1), 2),
        "velocities": joint_states(names, [0.3] * count, 2, velocity=[0.1] * count),
        "efforts": joint_states(names, [0.3] * count, 2, effort=[0.1]),
        "big endian": b"\0\0" + good[2:],
        "cut off": good[: len(good) - 13],
        "empty": b"",
    }
    assert {why: rewrite(data, last_ns) for why, data in refused.items()} == dict.fromkeys(refused, 0)
    assert bytes(written) == before
    assert rewrite(good, last_ns) == 2 * STEP_NS + 7


class SteadyRelay(relay.StateRelay):
    """A relay between stand-ins, whose messages come every millisecond of a clock that is set back by an hour.

    Attributes:
        taken: How many messages it took.
        sent: How many it sent.
    """

    STEP_BACK = 100

    def __init__(self, wakeup: DescriptorWakeup) -> None:
        runtime = SimpleNamespace(inbox=SimpleNamespace(has_queued=False), lock=threading.Lock())
        super().__init__(runtime, None)
        self.now, self.taken, self.sent = 10_000 * STEP_NS, 0, 0
        self.wakeup = wakeup

    def take(self, _message_class, _raw):
        self.taken += 1
        assert self.taken <= 2 * self.STEP_BACK, "it goes on without a tick"
        self.now += STEP_NS // 1000 if self.taken != self.STEP_BACK else -3600 * STEP_NS
        # The next message is there.
        self.wakeup.set()
        return (b"",)

    def send(self, _message) -> None:
        self.sent += 1

    def run(self) -> None:
        link = SimpleNamespace(
            direct=SimpleNamespace(message_class=None),
            # Stamps of another machine, whose clock goes on.
            rewrite=lambda _data, last_ns: last_ns + STEP_NS // 1000,
            message=b"",
            period_ns=STEP_NS // 50,
            handle=SimpleNamespace(send=self.send),
            publisher=SimpleNamespace(sent_stamps=[]),
            subscription=SimpleNamespace(give_back=lambda _data: None),
        )
        self.wakeup.set()
        self._relay(link, SimpleNamespace(take_message=self.take), self.wakeup, self.now + STEP_NS)


def test_a_clock_that_is_set_back_between_two_messages_is_for_a_tick(monkeypatch):
    wakeup = DescriptorWakeup()
    steady = SteadyRelay(wakeup)
    monkeypatch.setattr(relay, "time", SimpleNamespace(time_ns=lambda: steady.now))
    steady.run()
    assert steady.taken == SteadyRelay.STEP_BACK
    assert steady.sent == 5
    assert wakeup.woke
    assert steady.is_ahead
