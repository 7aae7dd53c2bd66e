"""The runtime's tick: order, stamps, and what happens when a part of it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.plans import gripper, rover
from builders.samples import joint_sample, twist_sample
from case_tables import each_case
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.errors import BackendError, BridgeError
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import Commands, PoseSample, State, TwistSample
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.command_sinks import UnknownFrameError
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray, pose

MS = 1_000_000
SECOND = 1_000_000_000
Seen = list[tuple[str, str]]


class Emitted(Publication):
    """An emitter that keeps what a function makes of each snapshot."""

    def __init__(self, look: Callable[[Snapshot], object] = lambda snapshot: snapshot.time_ns) -> None:
        super().__init__()
        self.look = look
        self.got: list[object] = []

    def publish(self, snapshot: Snapshot) -> bool:
        self.got.append(self.look(snapshot))
        return True


class Transforms(Publication):
    """What goes to /tf for one robot: each state once, with the time of the robot's state."""

    def __init__(self, robot: int = 0) -> None:
        super().__init__()
        self.robot = robot
        self.sent_ns = -1
        self.stamps: list[int] = []
        self.last: np.ndarray | None = None

    def publish(self, snapshot: Snapshot) -> bool:
        stamp_ns = snapshot.robot_time_ns(self.robot)
        if stamp_ns < 0 or stamp_ns == self.sent_ns:
            return False
        self.sent_ns = stamp_ns
        self.stamps.append(stamp_ns)
        self.last = snapshot.frame_poses(self.robot).copy()
        return True

    def reset(self) -> None:
        self.sent_ns = -1


def start(plan: BridgePlan, backend: Backend | None = None, **options: object) -> tuple[Runtime, Seen]:
    seen: Seen = []
    reporter = OnceReporter(lambda kind, message: seen.append((kind, message)))
    runtime = Runtime(
        plan, backend or KinematicBackend(), options=BridgeOptions(**options), reporter=reporter
    )
    return runtime.open(), seen


def test_what_arrived_moves_the_robot_in_the_next_tick_and_shows_in_its_frames() -> None:
    builder = rover()
    topic = builder.robots[0].topic("joint_commands", "sensor_msgs/msg/JointState", "subscription")
    plan = builder.build()
    runtime, _ = start(plan)
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=50.0)
    delivery = runtime.bind_sink(topic)
    assert delivery.accepted
    runtime.tick(SECOND)
    delivery.deliver(joint_sample(["mast_joint"], [1.0]))
    for tick in range(1, 30):
        runtime.tick(SECOND + tick * 20 * MS)
    assert runtime.snapshot.state.joint_position[2] == 1.0
    assert tf.stamps == [SECOND + tick * 20 * MS for tick in range(30)]
    mast = plan.robots[0].frames[3]
    assert tf.last is not None
    assert not np.allclose(tf.last[3, 3:], mast.parent_from_frame.rotation)
    status = runtime.status()
    assert status.publications[0].published == 30
    assert status.publications[0].achieved_rate == pytest.approx(50.0)
    assert (status.sinks[0].received, status.sinks[0].dropped, status.ticks) == (1, 0, 30)


def test_commands_last_one_step() -> None:
    builder = rover()
    topic = builder.robots[0].topic("joint_commands", "sensor_msgs/msg/JointState", "subscription")

    class Listening(NullBackend):
        def __init__(self) -> None:
            super().__init__()
            self.heard: list[float] = []

        def step(self, time_ns: int, commands: Commands) -> State:
            self.heard.append(float(commands.joint_position[2]))
            return super().step(time_ns, commands)

    Listening.capabilities = replace(NullBackend.capabilities, commands=True)
    backend = Listening()
    runtime, _ = start(builder.build(), backend)
    delivery = runtime.bind_sink(topic)
    delivery.deliver(joint_sample(["mast_joint"], [0.25]))
    runtime.tick(1)
    runtime.tick(2)
    assert_allclose(backend.heard, [0.25, np.nan])


def test_emitters_come_at_their_own_rates_with_the_state_s_time() -> None:
    runtime, seen = start(rover().build(), NullBackend())
    always, fast, slow = Emitted(), Emitted(), Emitted()
    runtime.add_publication(always, name="always")
    runtime.add_publication(fast, name="fast", rate=100.0)
    runtime.add_publication(slow, name="slow", rate=25.0)
    assert runtime.next_due_ns() == 0
    for tick in range(21):
        runtime.tick(SECOND + tick * 10 * MS)
    assert len(always.got) == 21
    assert len(fast.got) == 21
    assert slow.got == [SECOND + tick * 40 * MS for tick in range(6)]
    assert runtime.next_due_ns() == SECOND + 210 * MS
    assert seen == []


def test_a_removed_emitter_is_asked_no_more() -> None:
    runtime, _ = start(rover().build(), NullBackend())
    gone, always, stays = Emitted(), Emitted(), Emitted()
    runtime.add_publication(gone, name="gone", rate=100.0)
    runtime.add_publication(always, name="always")
    runtime.add_publication(stays, name="stays", rate=100.0)
    runtime.tick(0)
    runtime.remove_publication(gone)
    runtime.remove_publication(always)
    runtime.remove_publication(Emitted())
    runtime.tick(SECOND)
    assert (len(gone.got), len(always.got), len(stays.got)) == (1, 1, 2)
    assert [emitter.name for emitter in runtime.status().publications] == ["stays"]


class Faulty(KinematicBackend):
    """Raises where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: set[str] = set()

    def step(self, time_ns: int, commands: Commands) -> State:
        if "step" in self.faults:
            raise RuntimeError("solver\ndiverged")
        return super().step(time_ns, commands)

    def reset(self) -> None:
        if "reset" in self.faults:
            raise RuntimeError("no reset")
        super().reset()

    def close(self) -> None:
        if "close" in self.faults:
            raise RuntimeError("no close")
        super().close()


def test_a_backend_that_raises_is_counted_and_never_stops_tf() -> None:
    backend = Faulty()
    runtime, seen = start(rover().build(), backend)
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=100.0)
    runtime.commands.body_twist[0] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert runtime.tick(0)
    assert runtime.tick(10 * MS)
    held = runtime.snapshot.pose(0).copy()
    assert_allclose(np.linalg.norm(runtime.snapshot.twist(0)), 1.0)
    backend.faults = {"step"}
    for tick in range(2, 5):
        assert not runtime.tick(tick * 10 * MS)
    assert runtime.next_due_ns() == 50 * MS, "the schedule goes on, or the loop would spin"
    assert_allclose(runtime.snapshot.pose(0), held)
    assert_allclose(runtime.snapshot.twist(0), 0.0)
    backend.faults = set()
    assert runtime.tick(50 * MS)
    assert tf.stamps == [tick * 10 * MS for tick in range(6)]
    status = runtime.status()
    assert status.backend_errors == 3
    assert status.last_backend_error == "RuntimeError: solver diverged"
    assert [kind for kind, _ in seen] == ["backend.step:RuntimeError"]
    assert runtime.reporter.count("backend.step:RuntimeError") == 3


def test_a_backend_that_never_gives_a_state_is_shown_at_rest() -> None:
    backend = Faulty()
    backend.faults = {"step"}
    runtime, _ = start(rover().build(), backend)
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=100.0)
    assert not runtime.tick(10 * MS)
    assert not runtime.tick(20 * MS)
    assert tf.stamps == [10 * MS, 20 * MS]
    assert_allclose(runtime.snapshot.pose(0), runtime.plan.layout.body_pose[0])


@each_case("wrong", [None, "joints", "bodies"])
def test_a_state_of_the_wrong_shape_is_the_backends_fault(wrong: str | None) -> None:
    class Misshapen(KinematicBackend):
        def step(self, time_ns: int, commands: Commands) -> State:
            state = super().step(time_ns, commands)
            if time_ns < 10 * MS:
                return state
            if wrong is None:
                return None  # type: ignore[return-value]
            if wrong == "joints":
                return replace(state, joint_position=np.zeros(99))
            return replace(state, body_pose=np.zeros((1, 3)))

    runtime, seen = start(rover().build(), Misshapen())
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=100.0)
    assert runtime.tick(0)
    assert not runtime.tick(10 * MS)
    assert tf.stamps == [0, 10 * MS]
    assert [kind.partition(":")[0] for kind, _ in seen] == ["backend.step"]


def test_one_emitter_that_raises_stops_no_other() -> None:
    def fail(_snapshot: Snapshot) -> object:
        raise ValueError("no such field")

    runtime, seen = start(rover().build(), NullBackend())
    broken, sound, tf = Emitted(fail), Emitted(), Transforms()
    runtime.add_publication(broken, name="/broken", rate=10.0)
    runtime.add_publication(sound, name="/sound", rate=10.0)
    runtime.add_publication(tf, name="/tf", rate=10.0)
    for tick in range(3):
        runtime.tick(tick * 100 * MS)
    assert len(sound.got) == 3
    assert len(tf.stamps) == 3
    status = runtime.status().publications[0]
    assert (status.published, status.errors, status.last_error) == (0, 3, "ValueError: no such field")
    assert seen == [("emitter.error:/broken", "publishing /broken failed: ValueError: no such field")]


def test_one_sink_that_raises_stops_no_other() -> None:
    class Broken:
        def apply(self, sample: object, commands: Commands) -> None:  # noqa: ARG002
            raise KeyError(sample)

    builder = rover()
    topic = builder.robots[0].topic("joint_commands", "sensor_msgs/msg/JointState", "subscription")
    runtime, seen = start(builder.build())
    broken, sound = runtime.bind_sink(topic, sink=Broken()), runtime.bind_sink(topic)
    broken.deliver("x")
    sound.deliver(joint_sample(["mast_joint"], [0.0]))
    broken.deliver("y")
    assert runtime.tick(0)
    assert [entry.errors for entry in runtime.status().sinks] == [2, 0]
    assert [kind for kind, _ in seen] == ["sink.error:/rover/joint_commands"]


def test_a_subscription_that_nothing_takes_counts_and_drops() -> None:
    builder = rover()
    topic = builder.robots[0].topic("picture", "sensor_msgs/msg/Image", "subscription")
    runtime, _ = start(builder.build())
    delivery = runtime.bind_sink(topic)
    assert not delivery.accepted
    assert "sensor_msgs/msg/Image" in delivery.reason
    for _ in range(3):
        delivery.deliver(object())
    assert not runtime.inbox.pending
    status = runtime.status().sinks[0]
    assert (status.received, status.dropped) == (3, 3)


def test_samples_that_flood_in_between_two_ticks_are_counted_as_dropped() -> None:
    builder = rover()
    topic = builder.robots[0].topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription")
    runtime, _ = start(builder.build(), queue_depth=5)
    delivery = runtime.bind_sink(topic)
    for index in range(20):
        delivery.deliver(TwistSample(stamp_ns=0, twist=np.full(6, float(index))))
    runtime.tick(0)
    status = runtime.status().sinks[0]
    assert (status.received, status.dropped) == (20, 15)


def test_a_state_that_arrives_by_topic_is_shown_with_its_stamp_once() -> None:
    runtime, _ = start(gripper(rover()).build(), JointStatesBackend())
    feeds = [Transforms(robot) for robot in range(2)]
    for robot, tf in enumerate(feeds):
        runtime.add_publication(tf, name=f"/tf{robot}")
    deliveries = [runtime.bind_input(needed) for needed in runtime.inputs]
    runtime.tick(10)
    deliveries[1].deliver(joint_sample(["palm_joint"], [0.5], stamp_ns=7))
    assert runtime.inbox.wakeup.wait(0.0), "an arrival wakes the loop"
    runtime.tick(20)
    runtime.tick(30)
    deliveries[0].deliver(joint_sample(["mast_joint"], [0.5]))
    runtime.tick(40)
    assert [tf.stamps for tf in feeds] == [[40], [7]]


def test_time_that_goes_back_starts_over() -> None:
    builder = rover()
    topic = builder.robots[0].topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription")
    runtime, seen = start(builder.build())
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=10.0)
    runtime.tick(10 * SECOND)
    runtime.bind_sink(topic).deliver(twist_sample(1.0))
    runtime.tick(11 * SECOND)
    runtime.tick(12 * SECOND)
    moved = runtime.snapshot.state.body_pose[0].copy()
    runtime.tick(11 * SECOND)
    assert not np.allclose(moved, runtime.snapshot.state.body_pose[0])
    assert_allclose(runtime.snapshot.state.body_pose[0], runtime.plan.layout.body_pose[0])
    assert tf.stamps == [10 * SECOND, 11 * SECOND, 12 * SECOND, 11 * SECOND]
    assert [kind for kind, _ in seen if kind.startswith("time")] == ["time.backwards"]
    assert runtime.next_due_ns() == 11 * SECOND + 100 * MS


def test_after_a_reset_the_same_stamp_is_sent_again() -> None:
    runtime, _ = start(rover().build())
    tf = Transforms()
    runtime.add_publication(tf, name="/tf")
    runtime.tick(5)
    runtime.tick(5)
    runtime.reset()
    runtime.tick(5)
    assert tf.stamps == [5, 5]


def test_a_backend_that_cannot_reset_or_close_is_reported() -> None:
    backend = Faulty()
    runtime, seen = start(rover().build(), backend)
    runtime.tick(5)
    backend.faults = {"reset", "close"}
    runtime.tick(4)
    runtime.close()
    runtime.close()
    assert [kind for kind, _ in seen] == ["time.backwards", "backend.reset:RuntimeError", "backend.close"]


class OuterFrames:
    """Knows `map`, as an outer layer may."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.resets = 0

    def resolve(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:  # noqa: ARG002
        self.asked.append((frame_id, stamp_ns))
        if frame_id != "map":
            raise UnknownFrameError("it is too far")
        return pose((0.0, 0.0, 9.0))

    def reset(self) -> None:
        self.resets += 1


def test_a_pose_in_the_robots_own_frame_or_one_the_outer_layer_knows() -> None:
    builder = rover()
    topic = builder.robots[0].topic("pose", "geometry_msgs/msg/PoseStamped", "subscription")
    runtime, seen = start(builder.build())
    outer = OuterFrames()
    runtime.frame_resolver = outer
    delivery = runtime.bind_sink(topic)
    runtime.tick(0)
    before = runtime.snapshot.state.body_pose[0].copy()
    delivery.deliver(PoseSample(stamp_ns=0, frame_id="base_link", frame_from_body=pose((1.0, 0.0, 0.0))))
    runtime.tick(1)
    assert np.linalg.norm(runtime.snapshot.state.body_pose[0, :3] - before[:3]) == pytest.approx(1.0)
    delivery.deliver(PoseSample(stamp_ns=7, frame_id="map", frame_from_body=pose((1.0, 0.0, 0.0))))
    runtime.tick(2)
    assert_allclose(runtime.snapshot.state.body_pose[0, :3], [1.0, 0.0, 9.0])
    delivery.deliver(PoseSample(stamp_ns=0, frame_id="", frame_from_body=pose((3.0, 0.0, 0.0))))
    runtime.tick(3)
    assert_allclose(runtime.snapshot.state.body_pose[0, :3], [3.0, 0.0, 0.0])
    delivery.deliver(PoseSample(stamp_ns=0, frame_id="mars", frame_from_body=pose()))
    runtime.tick(4)
    assert outer.asked == [("map", 7), ("mars", 0)]
    assert [kind for kind, _ in seen] == ["sink.frame:/rover/pose"]
    assert seen[0][1] == "/rover/pose: a pose in frame 'mars' is ignored: it is too far"
    runtime.reset()
    assert outer.resets == 1


def test_opening_twice_or_with_a_wrong_option_is_the_callers_mistake() -> None:
    runtime, _ = start(rover().build())
    with pytest.raises(BridgeError, match="open already"):
        runtime.open()
    with pytest.raises(BackendError, match="has no option 'speed'"):
        Runtime(
            rover().build(), KinematicBackend(), options=BridgeOptions(backend_options={"speed": "1"})
        ).open()


def test_a_tick_that_is_interrupted_is_over() -> None:
    """A host that catches KeyboardInterrupt goes on, and is not taken to be in the midst of a tick."""

    class Interrupted(KinematicBackend):
        def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002
            raise KeyboardInterrupt

    runtime, _ = start(rover().build(), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        runtime.tick(SECOND)
    assert runtime.ticking is None

    def interrupt() -> None:
        raise KeyboardInterrupt

    runtime.post(interrupt)
    with pytest.raises(KeyboardInterrupt):
        runtime.run_posted()
    assert runtime.ticking is None


@pytest.mark.parametrize("member", ["open", "inputs"])
def test_a_backend_that_fails_to_open_is_one_line_and_is_closed(member: str) -> None:
    class Unopened(NullBackend):
        closed = False

        def close(self) -> None:
            self.closed = True

    def fail(*_: object) -> None:
        raise OSError("no device\nat all")

    backend = Unopened()
    setattr(backend, member, fail)
    with pytest.raises(BackendError) as caught:
        Runtime(rover().build(), backend).open()
    assert str(caught.value) == "backend Unopened cannot be opened: OSError: no device at all"
    assert backend.closed


def test_a_context_manager_opens_and_closes() -> None:
    class Closing(NullBackend):
        closed = 0

        def close(self) -> None:
            super().close()
            self.closed += 1

    backend = Closing()
    with Runtime(rover().build(), backend) as runtime:
        assert runtime.tick(1)
        assert not backend.closed
    assert backend.closed == 1


def test_a_runtime_that_refused_to_open_can_be_closed() -> None:
    runtime = Runtime(rover().build(), NullBackend(), options=BridgeOptions(backend_options={"x": "1"}))
    with pytest.raises(BackendError):
        runtime.open()
    runtime.close()


def test_a_state_that_arrives_by_topic_is_shown_at_once_and_at_most_at_the_rate() -> None:
    """As robot_state_publisher: on arrival, and no faster than its frequency."""
    runtime, _ = start(rover().build(), JointStatesBackend())
    tf = Transforms()
    runtime.add_publication(tf, name="/tf", rate=50.0, robot=0)
    delivery = runtime.bind_input(runtime.inputs[0])

    def arrive(milliseconds: int) -> None:
        delivery.deliver(joint_sample(["mast_joint"], [0.1], stamp_ns=milliseconds * MS))
        runtime.tick(milliseconds * MS)

    runtime.tick(1000 * MS)
    assert runtime.next_due_ns() == 1100 * MS, "an arrival wakes the loop; a subscriber may come, too"
    arrive(1007)
    assert tf.stamps == [1007 * MS], "not only when it is due again"
    assert runtime.next_due_ns() is None, "there is nothing to show before the next arrival"
    arrive(1012)
    assert runtime.next_due_ns() == 1027 * MS, "what arrived is shown as soon as the rate allows"
    arrive(1017)
    assert tf.stamps == [1007 * MS], "not faster than its rate"
    runtime.tick(1027 * MS)
    assert tf.stamps == [1007 * MS, 1017 * MS]
    runtime.tick(1047 * MS)
    assert runtime.next_due_ns() is None, "a silent robot costs nothing"
    arrive(1050)
    assert tf.stamps == [1007 * MS, 1017 * MS, 1050 * MS]
    assert [each.skipped for each in runtime.status().publications] == [0], (
        "a rate that is an upper bound is not missed"
    )


def test_what_does_not_show_a_robots_state_keeps_its_rate_while_states_arrive() -> None:
    """A look at the graph twice a second is not to be had 500 times a second."""
    runtime, _ = start(rover().build(), JointStatesBackend())
    guard, tf = Emitted(), Transforms()
    runtime.add_publication(guard, name="guard", rate=2.0)
    runtime.add_publication(tf, name="/tf", rate=1000.0, robot=0)
    delivery = runtime.bind_input(runtime.inputs[0])
    for milliseconds in range(1000, 3000, 2):
        delivery.deliver(joint_sample(["mast_joint"], [0.1], stamp_ns=milliseconds * MS))
        runtime.tick(milliseconds * MS)
    assert len(tf.stamps) == 1000
    assert guard.got == [each * MS for each in (1000, 1500, 2000, 2500)]
    assert runtime.next_due_ns() == 3000 * MS, "and wakes the loop for it"


def test_a_topic_driven_backend_that_fails_from_the_start_does_not_make_the_loop_spin() -> None:
    class Failing(JointStatesBackend):
        def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002
            raise RuntimeError("not yet")

    runtime, _ = start(rover().build(), Failing())
    runtime.add_publication(Transforms(), name="/tf", rate=50.0, robot=0)
    delivery = runtime.bind_input(runtime.inputs[0])
    runtime.tick(1000 * MS)
    assert runtime.next_due_ns() == 1100 * MS
    delivery.deliver(joint_sample(["mast_joint"], [0.1], stamp_ns=1))
    runtime.tick(1050 * MS)
    assert runtime.next_due_ns() == 1150 * MS


def test_what_waits_and_is_due_in_one_tick_is_sent_once() -> None:
    runtime, _ = start(rover().build(), JointStatesBackend())

    class Republish(Publication):
        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        def publish(self, snapshot: Snapshot) -> bool:
            known = snapshot.robot_time_ns(0) >= 0
            self.asked += known
            return known

    emitter = Republish()
    runtime.add_publication(emitter, name="/republished", rate=50.0, robot=0)
    delivery = runtime.bind_input(runtime.inputs[0])
    runtime.tick(1000 * MS)
    delivery.deliver(joint_sample(["mast_joint"], [0.1], stamp_ns=1))
    runtime.tick(1020 * MS)
    assert emitter.asked == 1


class Counting(KinematicBackend):
    """Counts steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def step(self, time_ns: int, commands: Commands) -> State:
        self.steps.append(time_ns)
        return super().step(time_ns, commands)


class Eager(Counting):
    """Asks for every step."""

    capabilities = replace(KinematicBackend.capabilities, every_step=True)


def test_a_tick_with_nothing_to_do_is_passed_by() -> None:
    backend, emitted = Counting(), Emitted()
    runtime, _ = start(rover().build(), backend)
    runtime.add_publication(emitted, name="/tf", rate=100.0)
    assert all(runtime.tick(time * MS) for time in range(25))
    assert emitted.got == backend.steps == [0, 10 * MS, 20 * MS]
    assert (runtime.status().ticks, runtime.status().time_ns) == (25, 24 * MS)


def test_a_backend_that_asks_for_every_step_gets_it() -> None:
    backend, emitted = Eager(), Emitted()
    runtime, _ = start(rover().build(), backend)
    runtime.add_publication(emitted, name="/tf", rate=100.0)
    for time in range(25):
        runtime.tick(time * MS)
    assert backend.steps == [time * MS for time in range(25)]
    assert emitted.got == [0, 10 * MS, 20 * MS]


def test_nothing_is_passed_by_where_someone_is_asked_at_every_tick_or_nobody_ever() -> None:
    for emitters in ([], [None], [None, 10.0]):
        backend = Counting()
        runtime, _ = start(rover().build(), backend)
        for rate in emitters:
            runtime.add_publication(Emitted(), name="x", rate=rate)
        for time in range(5):
            runtime.tick(time * MS)
        assert len(backend.steps) == 5


def test_an_emitter_that_is_added_or_removed_ends_the_quiet() -> None:
    runtime, _ = start(rover().build(), Counting())
    first, second = Emitted(), Emitted()
    runtime.add_publication(first, name="first", rate=1.0)
    runtime.tick(0)
    runtime.tick(MS)
    runtime.add_publication(second, name="second", rate=1000.0)
    runtime.tick(2 * MS)
    runtime.tick(3 * MS)
    assert second.got == [2 * MS, 3 * MS]
    runtime.remove_publication(second)
    for time in range(4, 1100):
        runtime.tick(time * MS)
    assert second.got == [2 * MS, 3 * MS]
    assert first.got == [0, SECOND]


def test_time_that_goes_back_after_ticks_that_were_passed_by_starts_over() -> None:
    runtime, seen = start(rover().build(), Counting())
    emitted = Emitted()
    runtime.add_publication(emitted, name="/tf", rate=10.0)
    for time in (0, 10, 20, 30, 15, 16):
        runtime.tick(time * MS)
    assert emitted.got == [0, 15 * MS]
    assert [kind for kind, _ in seen] == ["time.backwards"]
    assert "0.015 s" in seen[0][1]


@pytest.mark.parametrize("directly", [False, True])
def test_what_is_commanded_between_two_due_ticks_acts_as_if_every_tick_was_stepped(directly: bool) -> None:
    """A turn that begins, changes and ends between two ticks at which something is due."""
    states = []
    for backend in (Counting(), Eager()):
        builder = rover()
        topic = builder.robots[0].topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription")
        runtime, _ = start(builder.build(), backend)
        delivery = runtime.bind_sink(topic)
        poses: list[FloatArray] = []
        runtime.add_publication(
            Emitted(lambda snapshot, to=poses: to.append(snapshot.pose(0).copy())), name="x", rate=50.0
        )
        turns = {3: (1.0, 0.0), 31: (0.5, 2.0), 38: (-1.0, 0.3), 61: (0.0, 0.0)}
        for time in range(101):
            if time in turns:
                twist = np.array([turns[time][0], 0.0, 0.0, 0.0, 0.0, turns[time][1]])
                if directly:
                    runtime.commands.body_twist[0] = twist
                else:
                    delivery.deliver(TwistSample(stamp_ns=0, twist=twist))
            runtime.tick(time * MS)
        assert len(poses) == 6
        states.append(np.array(poses))
        if isinstance(backend, Eager):
            assert len(backend.steps) == 101
        else:
            assert len(backend.steps) < 16
    assert_allclose(states[0], states[1], rtol=0.0, atol=1e-12)
    assert not np.allclose(states[0][0], states[0][-1])
