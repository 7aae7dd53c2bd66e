"""Controllers in the tick: order, who is active, goals and their ends, and what happens when a group raises."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from builders.groups import NotingGroup, NotingPort, noting
from builders.plans import rover
from builders.samples import twist_sample
from case_tables import each_case
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.controllers.controller_group import ControllerContext, GoalPort
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, FollowTrajectoryResult, TrajectorySample
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, State, TwistSample
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.group_runner import ActiveGoal, unmet
from usd_ros_bridge.runtime.loop import ExternalClock, Loop
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot

MS = 1_000_000
SECOND = 1_000_000_000
TWIST = "geometry_msgs/msg/Twist"
FOLLOW = "control_msgs/action/FollowJointTrajectory"


class Noting(KinematicBackend):
    """Writes its steps down among the calls of a group, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, ...]] = []
        self.fails = False

    def step(self, time_ns: int, commands: Commands) -> State:
        self.calls.append(("step", time_ns))
        if self.fails:
            raise RuntimeError("no step")
        return super().step(time_ns, commands)


class Emitter(Publication):
    """Notes when it is asked."""

    def __init__(self, calls: list[tuple[object, ...]] | None = None) -> None:
        super().__init__()
        self.calls = [] if calls is None else calls

    def publish(self, snapshot: Snapshot) -> bool:
        self.calls.append(("emit", snapshot.time_ns))
        return True


@dataclass
class Rig:
    """A runtime of a rover with two controllers of its mast, one of the left wheel and a joint state broadcaster."""

    runtime: Runtime
    backend: Backend
    groups: list[NotingGroup]
    seen: list[tuple[str, str]]

    @property
    def group(self) -> NotingGroup:
        """The controllers of joints; rows: mast, spare mast, wheel."""
        return self.groups[0]

    def position(self, row: int) -> float:
        return float(self.runtime.snapshot.state.joint_position[row])


class KeepingGroup(NotingGroup):
    """Keeps the ports of all goals that it was given."""

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        super().__init__(context, plans)
        self.kept: list[ActiveGoal] = []

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:
        assert isinstance(port, ActiveGoal)
        self.kept.append(port)
        super().start(row, goal, port, time_ns=time_ns, state=state)


class QuietGroup(NotingGroup):
    """Measures no odometry."""

    observes_at_rest = False


def rig(backend: Backend | None = None, kind: type[NotingGroup] = NotingGroup, **options: object) -> Rig:
    builder = rover()
    robot = builder.robots[0]
    mast = robot.topic("mast", "std_msgs/msg/Float64", "subscription")
    spare = robot.topic("spare", TWIST, "subscription")
    joint_states = robot.topic("joint_states", "sensor_msgs/msg/JointState", "publisher")
    move = robot.action("move", FOLLOW)
    robot.controller("a", "moves", ["mast_joint"], interfaces=[mast, move])
    robot.controller(
        "b", "moves", ["mast_joint"], interfaces=[spare], enabled=False, reason="starts_enabled is false"
    )
    robot.controller("c", "moves", ["left_wheel_joint"])
    robot.controller(
        "d", "RosControlJointStateBroadcasterAPI", ["mast_joint"], interfaces=[joint_states], claims=()
    )
    robot.controller("broken", "moves", enabled=False, reason="no joint", switchable=False, interfaces=[])
    make, groups = noting(kind)
    seen: list[tuple[str, str]] = []
    backend = backend or KinematicBackend()
    runtime = Runtime(
        builder.build(),
        backend,
        options=BridgeOptions(**options),
        reporter=OnceReporter(lambda kind, message: seen.append((kind, message))),
        groups=make,
    )
    runtime.open()
    return Rig(runtime, backend, groups, seen)


def topic(rig: Rig, name: str):
    return next(t for t in rig.runtime.plan.topics if t.path == f"/rover/{name}")


# --- The order of a tick -------------------------------------------------------------------------------------


def test_a_tick_takes_commands_steps_observes_and_emits_in_this_order() -> None:
    backend = Noting()
    r = rig(backend)
    r.group.calls = backend.calls
    r.runtime.add_publication(Emitter(backend.calls), name="/x")
    delivery = r.runtime.bind_sink(topic(r, "mast"))
    r.runtime.tick(SECOND)
    backend.calls.clear()
    delivery.deliver(1.0)
    r.runtime.post(lambda: backend.calls.append(("job",)))
    r.runtime.tick(SECOND + 10 * MS)
    assert backend.calls == [
        ("receive", 0, 1.0, SECOND + 10 * MS),
        ("job",),
        ("command", SECOND + 10 * MS, SECOND),
        ("step", SECOND + 10 * MS),
        ("observe", SECOND + 10 * MS),
        ("emit", SECOND + 10 * MS),
    ]


def test_a_command_acts_over_the_step_that_ends_at_its_tick() -> None:
    r = rig()
    delivery = r.runtime.bind_sink(topic(r, "mast"))
    r.runtime.tick(SECOND)
    delivery.deliver(0.01)
    r.runtime.tick(SECOND + 10 * MS)
    assert r.group.named("command")[-1] == ("command", SECOND + 10 * MS, SECOND)
    assert r.position(2) == 0.01


def test_nothing_is_commanded_before_the_first_state() -> None:
    r = rig()
    r.runtime.bind_sink(topic(r, "mast")).deliver(0.01)
    r.runtime.tick(SECOND)
    assert [call[0] for call in r.group.calls] == ["receive", "observe"]
    assert r.runtime.next_due_ns() == SECOND + 10 * MS, "what was taken has yet to be commanded"
    r.runtime.tick(SECOND + 10 * MS)
    assert r.position(2) == 0.01


def test_a_group_that_neither_is_busy_nor_was_reached_commands_nothing_and_ticks_are_passed_by() -> None:
    r = rig()
    r.runtime.add_publication(Emitter(), name="/x", rate=10.0)
    for tick in range(3):
        r.runtime.tick(SECOND + tick * MS)
    r.group.calls.clear()
    steps = [r.runtime.tick(SECOND + tick * MS) for tick in range(3, 90)]
    assert all(steps)
    assert r.group.calls == []
    r.runtime.tick(SECOND + 100 * MS)
    assert [call[0] for call in r.group.calls] == ["observe"]


def test_no_tick_is_passed_by_while_a_group_is_busy() -> None:
    r = rig()
    r.runtime.add_publication(Emitter(), name="/x", rate=1.0)
    for tick in range(3):
        r.runtime.tick(SECOND + tick * MS)
    queue = r.runtime.goal_queue("/rover/move")
    assert queue is not None
    queue.start(0.01, NotingPort())
    r.group.calls.clear()
    for tick in range(3, 13):
        r.runtime.tick(SECOND + tick * MS)
    assert [call[1] for call in r.group.named("observe")] == [SECOND + tick * MS for tick in range(2, 13)], (
        "the tick that was passed by last was caught up with"
    )
    assert [call[1] for call in r.group.named("command")] == [SECOND + tick * MS for tick in range(3, 13)]


def test_a_loop_is_due_on_an_absolute_grid_while_a_group_is_busy() -> None:
    r = rig(controller_rate=200.0)
    r.runtime.tick(SECOND)
    r.runtime.tick(SECOND + 1)
    assert r.runtime.next_due_ns() is None
    r.group.busy = True
    r.runtime.tick(SECOND + 3 * MS)
    assert r.runtime.next_due_ns() == SECOND + 5 * MS
    r.runtime.tick(SECOND + 5 * MS)
    assert r.runtime.next_due_ns() == SECOND + 10 * MS
    r.runtime.tick(SECOND + 23 * MS)
    assert r.runtime.next_due_ns() == SECOND + 25 * MS, "late ticks are not made up for"
    r.runtime.add_publication(Emitter(), name="/x", rate=1000.0)
    r.runtime.tick(SECOND + 24 * MS)
    assert r.runtime.next_due_ns() == SECOND + 25 * MS
    r.group.busy = False
    r.runtime.tick(SECOND + 25 * MS)
    assert r.runtime.next_due_ns() == SECOND + 26 * MS


@each_case("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_of_controllers_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(BridgeError, match=r"controller_rate .* is not possible: 0.001 to 10000 Hz"):
        rig(controller_rate=rate)


def test_a_loop_without_emitters_wakes_for_a_goal_and_stays_awake_until_it_ends() -> None:
    r = rig()
    clock = ExternalClock()
    loop = Loop(r.runtime, clock)
    port = NotingPort()
    queue = r.runtime.goal_queue("/rover/move")
    assert queue is not None
    clock.advance(SECOND)
    ticks: list[int] = []
    observe = r.group.observe

    def look(state: State) -> None:
        observe(state)
        if r.group.busy:
            ticks.append(state.time_ns)
            if len(ticks) == 5:
                queue.cancel(port)
            clock.advance(state.time_ns + 10 * MS)
        elif port.ends:
            loop.stop()

    r.runtime.tick(SECOND)
    r.group.observe = look  # type: ignore[method-assign]
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    queue.start(0.01, port)
    thread.join(10.0)
    assert not thread.is_alive()
    assert port.ends == [("canceled", "canceled")]
    assert np.all(np.diff(ticks) == 10 * MS)


def test_a_loop_that_slept_does_not_have_a_command_act_on_its_sleep() -> None:
    r = rig()
    base = r.runtime.bind_sink(replace(topic(r, "spare"), path="/rover/elsewhere"))
    clock = ExternalClock()
    clock.advance(SECOND)
    loop = Loop(r.runtime, clock)
    r.runtime.tick(SECOND)
    r.runtime.tick(SECOND)
    start = r.runtime.snapshot.state.body_pose[0, :2].copy()
    clock.advance(11 * SECOND)
    base.deliver(twist_sample(1.0))
    r.runtime.post(loop.stop)
    loop.run()
    moved = np.linalg.norm(r.runtime.snapshot.state.body_pose[0, :2] - start)
    assert moved == pytest.approx(0.01), "at most one period of the controllers"


def test_the_same_commands_give_the_same_numbers_however_idle_steps_are_passed_by() -> None:
    def drive(emitter_rate: float | None) -> list[list[float]]:
        r = rig()
        if emitter_rate:
            r.runtime.add_publication(Emitter(), name="/x", rate=emitter_rate)
        delivery = r.runtime.bind_sink(topic(r, "mast"))
        shown = []
        for tick in range(300):
            if tick in (50, 120, 121, 240):
                delivery.deliver(0.001 * tick)
            if tick in (55, 125, 245):
                r.runtime.post(lambda: None)
            r.runtime.tick(SECOND + tick * 2 * MS)
            if tick in (55, 125, 245):
                shown.append(r.runtime.snapshot.state.joint_position.tolist())
        return shown

    stepped, shown_often, passed_by = drive(None), drive(500.0), drive(7.0)
    assert stepped == shown_often
    assert_allclose(passed_by, stepped, atol=1e-12, rtol=0.0)


# --- Who is active -------------------------------------------------------------------------------------------


def test_what_reaches_an_inactive_controller_is_dropped_with_a_reason() -> None:
    r = rig()
    delivery = r.runtime.bind_sink(topic(r, "spare"))
    assert delivery.accepted, "it may be switched on"
    r.runtime.tick(SECOND)
    start = r.runtime.snapshot.state.body_pose.copy()
    delivery.deliver(TwistSample(stamp_ns=0, twist=np.ones(6)))
    for tick in range(1, 20):
        r.runtime.tick(SECOND + tick * 10 * MS)
    status = r.runtime.status().sinks[-1]
    assert (status.received, status.dropped) == (1, 1)
    assert status.reason == "controller /rover/b is inactive: starts_enabled is false"
    assert r.group.named("receive") == []
    assert np.array_equal(start, r.runtime.snapshot.state.body_pose), (
        "the built-in sink moves nothing instead"
    )
    r.runtime.controllers.switch(["/rover/b"], ["/rover/a"])
    delivery.deliver(0.5)
    r.runtime.tick(2 * SECOND)
    assert r.group.named("receive") == [("receive", 1, 0.5, 2 * SECOND)]
    assert r.runtime.status().sinks[-1].reason == ""


def test_a_topic_of_a_controller_that_cannot_work_is_refused() -> None:
    builder = rover()
    robot = builder.robots[0]
    spare = robot.topic("spare", TWIST, "subscription")
    robot.controller("b", "moves", interfaces=[spare], enabled=False, reason="no wheel", switchable=False)
    runtime = Runtime(builder.build(), KinematicBackend(), groups=noting()[0]).open()
    delivery = runtime.bind_sink(spare)
    assert not delivery.accepted
    assert delivery.reason == "no wheel"


def test_a_switch_is_all_or_nothing_and_switches_off_first() -> None:
    r = rig()
    controllers = r.runtime.controllers
    r.runtime.tick(SECOND)
    r.group.calls.clear()
    assert controllers.refusal(["/rover/b"], []) == (
        "'mast_joint' would be commanded by /rover/a and /rover/b"
    )
    with pytest.raises(BridgeError, match=r"mast_joint.*/rover/a.*/rover/b"):
        controllers.switch(["/rover/b"], ["/rover/c"])
    assert r.group.calls == []
    assert controllers.active("/rover/c")
    assert controllers.refusal(["/rover/b"], ["/rover/a"]) == ""
    controllers.switch(["/rover/b"], ["/rover/a"])
    assert r.group.calls == [("set_active", 0, False), ("set_active", 1, True)]
    assert [(s.path, s.active, s.reason) for s in controllers.status()] == [
        ("/rover/a", False, "switched off"),
        ("/rover/b", True, ""),
        ("/rover/c", True, ""),
        ("/rover/broken", False, "no joint"),
        ("/rover/d", True, ""),
    ]
    assert controllers.status()[0].joints == ("mast_joint",)
    controllers.switch(["/rover/b"], [])
    assert len(r.group.calls) == 2, "what is so already stays"


def test_what_cannot_be_switched_is_refused_with_the_reason() -> None:
    controllers = rig().runtime.controllers
    assert controllers.refusal(["/nowhere"], []).startswith(
        "there is no controller at '/nowhere'; there are: /"
    )
    assert controllers.refusal([], ["/nowhere"]).startswith(
        "there is no controller at '/nowhere'; there are: /"
    )
    assert (
        controllers.refusal(["/rover/broken"], [])
        == "controller /rover/broken cannot be switched on: no joint"
    )


def test_bodies_are_claimed_like_joints() -> None:
    builder = rover()
    robot = builder.robots[0]
    robot.controller("a", "moves", claims=("/rover/base_link",))
    robot.controller(
        "b", "moves", claims=("/rover/base_link",), enabled=False, reason="starts_enabled is false"
    )
    runtime = Runtime(builder.build(), KinematicBackend(), groups=noting()[0]).open()
    assert runtime.controllers.refusal(["/rover/b"], []) == (
        "'/rover/base_link' would be commanded by /rover/a and /rover/b"
    )


def test_only_what_reads_is_active_where_the_backend_takes_no_commands() -> None:
    r = rig(NullBackend())
    controllers = r.runtime.controllers
    assert [(s.path, s.active) for s in controllers.status()] == [
        ("/rover/a", False),
        ("/rover/b", False),
        ("/rover/c", False),
        ("/rover/broken", False),
        ("/rover/d", True),
    ]
    assert controllers.status()[0].reason == "the backend takes no commands"
    assert controllers.refusal(["/rover/b"], []).endswith("the backend takes no commands")
    delivery = r.runtime.bind_sink(topic(r, "mast"))
    assert not delivery.accepted
    queue = r.runtime.goal_queue("/rover/move")
    assert queue is not None
    assert queue.check(1.0) == "controller /rover/a is inactive: the backend takes no commands"
    r.group.busy = True
    for tick in range(3):
        r.runtime.tick(SECOND + tick * MS)
    assert [call[0] for call in r.group.calls] == ["observe"] * 3, "nothing is commanded, all is observed"


def test_the_publisher_of_an_inactive_broadcaster_is_not_asked() -> None:
    r = rig()
    publisher, other = Emitter(), Emitter()
    r.runtime.add_publication(publisher, name="/rover/joint_states", rate=100.0)
    r.runtime.add_publication(other, name="/rover/other", rate=100.0)
    r.runtime.tick(SECOND)
    r.runtime.controllers.switch([], ["/rover/d"])
    r.runtime.tick(SECOND + 10 * MS)
    r.runtime.controllers.switch(["/rover/d"], [])
    r.runtime.tick(SECOND + 20 * MS)
    assert [time for _, time in publisher.calls] == [SECOND, SECOND + 20 * MS]
    assert len(other.calls) == 3


def test_a_group_that_is_not_busy_is_observed_only_for_odometry() -> None:
    r = rig(kind=QuietGroup)
    r.runtime.tick(SECOND)
    assert r.group.named("observe") == []
    r.runtime.bind_sink(topic(r, "mast")).deliver(1.0)
    r.runtime.tick(SECOND + 10 * MS)
    assert r.group.named("observe") == [("observe", SECOND + 10 * MS)], "it has commanded this step"
    r.group.busy = True
    r.runtime.bind_sink(topic(r, "mast")).deliver(1.0)
    for tick in range(2, 5):
        r.runtime.tick(SECOND + tick * 10 * MS)
    assert [call[1] for call in r.group.named("observe")] == [SECOND + tick * 10 * MS for tick in range(1, 5)]


def test_controllers_that_go_with_a_change_of_the_plan_need_no_ticks_any_more() -> None:
    r = rig(kind=QuietGroup)
    r.runtime.bind_sink(topic(r, "mast")).deliver(1.0)
    r.group.busy = True
    for tick in range(2):
        r.runtime.tick(SECOND + tick * 10 * MS)
    assert r.runtime.next_due_ns() == SECOND + 20 * MS
    _, change = r.runtime.prepare(replace(r.runtime.plan, controllers=()))
    change.commit()
    r.runtime.tick(SECOND + 20 * MS)
    assert r.runtime.next_due_ns() is None


def test_controllers_that_a_backend_takes_no_commands_of_need_no_ticks_but_broadcasters_are_switched() -> (
    None
):
    r = rig(NullBackend(), kind=QuietGroup)
    assert not r.runtime.controllers.runs
    publisher = Emitter()
    r.runtime.add_publication(publisher, name="/rover/joint_states", rate=100.0)
    r.runtime.tick(SECOND)
    r.runtime.post(lambda: r.runtime.controllers.switch([], ["/rover/d"]))
    r.runtime.tick(SECOND + 10 * MS)
    r.runtime.controllers.switch(["/rover/d"], [])
    r.runtime.tick(SECOND + 20 * MS)
    assert [time for _, time in publisher.calls] == [SECOND, SECOND + 20 * MS]
    assert [group.calls for group in r.groups[:1]] == [[]]


def test_parameters() -> None:
    r = rig()
    controllers = r.runtime.controllers
    assert controllers.parameter_names()["/rover/a"] == {"timeout"}
    assert np.isnan(controllers.parameter("/rover/a", "timeout")), "nothing is authored"
    controllers.set_parameter("/rover/a", "timeout", 2.5)
    assert controllers.parameter("/rover/a", "timeout") == 2.5
    assert r.group.named("set_parameter") == [("set_parameter", 0, "timeout", 2.5)]
    with pytest.raises(BridgeError, match="no parameter 'radius'"):
        controllers.set_parameter("/rover/a", "radius", 1.0)


# --- Goals ---------------------------------------------------------------------------------------------------


def queue_of(r: Rig):
    queue = r.runtime.goal_queue("/rover/move")
    assert queue is not None
    return queue


def test_a_goal_goes_through_the_inbox_and_comes_back_through_its_port() -> None:
    r = rig()
    r.runtime.tick(SECOND)
    queue, port = queue_of(r), NotingPort()
    assert r.runtime.goal_queue("/rover/elsewhere") is None
    assert queue.check(0.01) == ""
    assert queue.check("x") == "no number"
    queue.start(0.01, port)
    assert r.group.named("start") == [], "not before the tick"
    assert r.runtime.inbox.wakeup.wait(0.0), "the loop is woken"
    r.runtime.tick(SECOND + 10 * MS)
    assert r.position(2) == 0.01
    r.group.ports[0].feedback("half")
    r.group.ports[0].finish("succeeded", "done")
    r.group.ports[0].finish("aborted", "again")
    r.group.ports[0].feedback("late")
    assert (port.told, port.ends) == (["half"], [("succeeded", "done")])
    queue.cancel(port)
    r.runtime.tick(SECOND + 20 * MS)
    assert r.group.named("cancel") == [], "it has ended"


def test_goals_wait_for_the_first_state_and_may_be_canceled_meanwhile() -> None:
    r = rig()
    queue, ports = queue_of(r), [NotingPort(), NotingPort()]
    for port in ports:
        queue.start(0.01, port)
    queue.cancel(ports[0])
    r.runtime.tick(SECOND)
    assert [port.ends for port in ports] == [[("canceled", None)], []]
    assert r.group.named("start") == []
    assert r.runtime.next_due_ns() == SECOND + 10 * MS, "somebody waits"
    r.runtime.tick(SECOND + 10 * MS)
    assert r.group.named("start") == [("start", 0, 0.01, SECOND + 10 * MS)]


def test_goals_that_no_tick_takes_are_rejected_before_they_fill_the_memory() -> None:
    r = rig()
    r.runtime.tick(SECOND)
    desk = r.runtime.goal_queue("/rover/move")
    assert desk is not None
    ports = []
    while not desk.check(1.0):
        ports.append(NotingPort())
        desk.start(1.0, ports[-1])
        desk.cancel(ports[-1])
    assert len(ports) == 50, "goals and cancels wait"
    assert "does time stand still?" in desk.check(1.0)
    for tick in range(1, 3):
        r.runtime.tick(SECOND + tick * 10 * MS)
    assert desk.check(1.0) == ""
    assert [len(port.ends) for port in ports] == [1] * 50


def test_goals_of_a_controller_that_is_switched_off_end_aborted_wherever_they_are() -> None:
    r = rig()
    queue, early, running, late = queue_of(r), NotingPort(), NotingPort(), NotingPort()
    queue.start(0.01, early)
    r.runtime.tick(SECOND)
    r.runtime.controllers.switch([], ["/rover/a"])
    r.runtime.tick(SECOND + 10 * MS)
    assert [outcome for outcome, _ in early.ends] == ["aborted"]
    r.runtime.controllers.switch(["/rover/a"], [])
    queue.start(0.01, running)
    r.runtime.tick(SECOND + 20 * MS)
    queue.start(0.02, late)
    r.runtime.post(lambda: None)
    r.runtime.controllers.switch([], ["/rover/a"])
    assert running.ends == [("aborted", "switched off")]
    r.runtime.tick(SECOND + 30 * MS)
    assert [outcome for outcome, _ in late.ends] == ["aborted"]
    assert queue.check(0.01) == "controller /rover/a is inactive: switched off"


def test_a_reset_ends_goals_and_so_does_time_that_goes_back() -> None:
    r = rig()
    queue = queue_of(r)
    for again in (r.runtime.reset, lambda: r.runtime.tick(SECOND)):
        running = NotingPort()
        r.runtime.tick(10 * SECOND)
        queue.start(0.01, running)
        r.runtime.tick(10 * SECOND + 10 * MS)
        assert running.ends == []
        again()
        assert running.ends == [("aborted", "reset")]
        r.runtime.reset()
    assert r.group.named("reset")
    waiting = NotingPort()
    queue.start(0.01, waiting)
    r.runtime.tick(SECOND)
    r.runtime.reset()
    assert [outcome for outcome, _ in waiting.ends] == ["aborted"]


def test_closing_ends_every_goal_those_to_come_included() -> None:
    r = rig()
    queue, running, waiting, late = queue_of(r), NotingPort(), NotingPort(), NotingPort()
    r.runtime.tick(SECOND)
    queue.start(0.01, running)
    r.runtime.tick(SECOND + 10 * MS)
    queue.start(0.02, waiting)
    r.runtime.close()
    queue.start(0.03, late)
    queue.cancel(late)
    for port in (running, waiting, late):
        assert [outcome for outcome, _ in port.ends] == ["aborted"]
    r.runtime.close()


def test_a_goal_ends_once_even_where_its_client_raises() -> None:
    r = rig()
    queue, port = queue_of(r), NotingPort(raises=True)
    r.runtime.tick(SECOND)
    queue.start(0.01, port)
    r.runtime.tick(SECOND + 10 * MS)
    r.group.ports[0].feedback("half")
    queue.cancel(port)
    r.runtime.tick(SECOND + 20 * MS)
    assert port.ends == [("canceled", "canceled")]
    assert [kind for kind, _ in r.seen] == ["goal.error:/rover/a"]
    assert r.runtime.reporter.count("goal.error:/rover/a") == 2


def test_many_goals_from_other_threads_each_end_once() -> None:
    r = rig()
    r.runtime.tick(SECOND)
    queue, ports = queue_of(r), [NotingPort() for _ in range(400)]

    def client(mine: list[NotingPort]) -> None:
        for index, port in enumerate(mine):
            queue.start(0.001 * index, port)
            if index % 3 == 0:
                queue.cancel(port)

    threads = [threading.Thread(target=client, args=(ports[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    time_ns = SECOND
    while any(thread.is_alive() for thread in threads):
        time_ns += MS
        r.runtime.tick(time_ns)
    r.runtime.tick(time_ns + MS)
    r.runtime.close()
    assert [len(port.ends) for port in ports] == [1] * len(ports)
    assert {outcome for port in ports for outcome, _ in port.ends} <= {"canceled", "aborted"}


# --- What raises ---------------------------------------------------------------------------------------------


@each_case("method", ["receive", "start", "command", "observe", "cancel", "set_active"])
def test_a_group_that_raises_is_reported_once_its_goals_end_and_all_else_goes_on(method: str) -> None:
    r = rig()
    tf = Emitter()
    r.runtime.add_publication(tf, name="/tf", rate=100.0)
    delivery = r.runtime.bind_sink(topic(r, "mast"))
    queue, port = queue_of(r), NotingPort()
    r.runtime.tick(SECOND)
    if method != "start":
        queue.start(0.01, port)
        r.runtime.tick(SECOND + 10 * MS)
        assert port.ends == []
    r.group.raises.add(method)
    if method == "start":
        queue.start(0.01, port)
    delivery.deliver(0.5)
    if method == "cancel":
        queue.cancel(port)
    if method == "set_active":
        r.runtime.post(lambda: r.runtime.controllers.switch([], ["/rover/a"]))
    for tick in range(2, 12):
        r.runtime.tick(SECOND + tick * 10 * MS)
    assert [kind for kind, _ in r.seen] == ["controller.error:moves"]
    assert [outcome for outcome, _ in port.ends] == ["aborted"]
    times = [time for _, time in tf.calls]
    assert times[-10:] == [SECOND + tick * 10 * MS for tick in range(2, 12)]
    r.group.raises.clear()
    r.runtime.controllers.switch(["/rover/a"], [])
    again = NotingPort()
    queue.start(0.3, again)
    r.runtime.tick(2 * SECOND)
    assert again.ends == []
    assert r.group.named("start")[-1][2] == 0.3


def test_a_check_that_raises_rejects() -> None:
    r = rig()
    r.group.raises.add("check")
    assert queue_of(r).check(0.01) == "the controller failed to check the goal: RuntimeError: check"
    assert [kind for kind, _ in r.seen] == ["controller.error:moves"]


def test_groups_do_not_observe_a_step_that_failed() -> None:
    backend = Noting()
    r = rig(backend)
    r.runtime.tick(SECOND)
    r.group.busy = True
    backend.fails = True
    r.group.calls.clear()
    r.runtime.tick(SECOND + 10 * MS)
    assert r.group.named("observe") == []
    backend.fails = False
    r.runtime.tick(SECOND + 20 * MS)
    assert r.group.named("observe") == [("observe", SECOND + 20 * MS)]


def test_groups_that_cannot_be_made_leave_the_rest_of_the_bridge() -> None:
    def make(_context: object) -> list:
        raise ValueError("no")

    builder = rover()
    builder.robots[0].controller("a", "moves", ["mast_joint"])
    seen: list[str] = []
    runtime = Runtime(
        builder.build(),
        KinematicBackend(),
        reporter=OnceReporter(lambda kind, _message: seen.append(kind)),
        groups=make,
    ).open()
    assert runtime.tick(SECOND)
    assert seen == ["controller.error"]
    assert runtime.controllers.status() == ()


# --- Jobs ----------------------------------------------------------------------------------------------------


def test_jobs_run_in_the_thread_that_ticks_and_wake_it() -> None:
    r = rig()
    done: list[object] = []

    def fail() -> None:
        raise ValueError("no such thing")

    thread = threading.Thread(
        target=lambda: [
            r.runtime.post(job) for job in (lambda: done.append(threading.get_ident()), fail, fail)
        ]
    )
    thread.start()
    thread.join()
    assert r.runtime.inbox.wakeup.wait(0.0)
    assert done == []
    r.runtime.tick(SECOND)
    r.runtime.tick(SECOND + MS)
    assert done == [threading.get_ident()]
    assert r.seen == [("runtime.job", "a job in the tick failed: ValueError: no such thing")]


def test_a_job_runs_in_a_tick_that_would_be_passed_by() -> None:
    r = rig()
    r.runtime.add_publication(Emitter(), name="/x", rate=1.0)
    for tick in range(5):
        r.runtime.tick(SECOND + tick * MS)
    done: list[int] = []
    r.runtime.post(lambda: done.append(1))
    r.runtime.tick(SECOND + 6 * MS)
    assert done == [1]


# --- Results -------------------------------------------------------------------------------------------------


def test_results_of_goals_that_the_runtime_ends() -> None:
    nothing = TrajectorySample(
        stamp_ns=0,
        joint_names=(),
        times_ns=np.zeros(0, dtype=np.int64),
        positions=(),
        velocities=(),
        accelerations=(),
        efforts=(),
    )
    builder = rover()
    controller = builder.robots[0].controller("a", "moves", ["mast_joint"])
    assert unmet(FollowTrajectoryGoal(trajectory=nothing), "why", controller, None) == FollowTrajectoryResult(
        error_code=-1, error_string="why"
    )
    assert unmet(1.0, "why", controller, None) is None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            (
                "start",
                "cancel",
                "off",
                "on",
                "swap",
                "reset",
                "back",
                "no step",
                "step",
                *(
                    "raise " + name
                    for name in ("start", "cancel", "command", "observe", "set_active", "reset")
                ),
                "calm",
                "tick",
                "tick",
            )
        ),
        max_size=40,
    )
)
def test_whatever_happens_every_goal_ends_once_and_every_tick_shows(actions: list[str]) -> None:
    backend = Noting()
    r = rig(backend, kind=KeepingGroup)
    assert isinstance(r.group, KeepingGroup)
    shown = Emitter()
    r.runtime.add_publication(shown, name="/tf")
    queue, ports = queue_of(r), list[NotingPort]()
    time_ns, ticks = 100 * SECOND, 0
    switches = {
        "off": ([], ["/rover/a"]),
        "on": (["/rover/a"], []),
        "swap": (["/rover/b"], ["/rover/a"]),
    }
    for action in actions:
        if action == "start":
            ports.append(NotingPort(raises=len(ports) % 3 == 2))
            queue.start(0.01, ports[-1])
        elif action == "cancel" and ports:
            queue.cancel(ports[len(actions) % len(ports)])
        elif action in switches and not r.runtime.controllers.refusal(*switches[action]):
            r.runtime.controllers.switch(*switches[action])
        elif action == "reset":
            r.runtime.reset()
        elif action in ("no step", "step"):
            backend.fails = action == "no step"
        elif action.startswith("raise"):
            r.group.raises.add(action.removeprefix("raise "))
        elif action == "calm":
            r.group.raises.clear()
        elif action in ("tick", "back"):
            time_ns += 10 * MS if action == "tick" else -SECOND
            r.runtime.tick(time_ns)
            ticks += 1
            assert len(shown.calls) == ticks
    r.runtime.close()
    assert [len(port.ends) for port in ports] == [1] * len(ports)
    assert not any(goal.slot.runner.active_goals for goal in r.group.kept)
    kept = [weakref.ref(port) for port in ports]
    ports.clear()
    if any(port() for port in kept):
        gc.collect()
    assert not any(port() for port in kept), "a client is kept, though its goal has ended"
