"""What every backend must keep to, run against each that is installed and the ones that hosts make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.protocol import Backend, BackendContext
from usd_ros_bridge.backends.registry import backend_names, load_backend
from usd_ros_bridge.model.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.scene import JointTrack, PoseTrack, Scene
from usd_ros_bridge.model.state import Commands, JointStateSample, State
from usd_ros_bridge.model.transforms import exponential, pose
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.report import Reporter
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.testing.plans import gripper, rover

MS = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def sampled_plan() -> BridgePlan:
    """Two robots with something for every backend: limits, speeds, a mimic joint, time samples of joint and body."""
    time = np.array([0.0, 1.0, 2.0])
    builder = gripper(rover())
    drive = np.array([pose((0.5 * t, 0.0, 0.1), exponential(np.array([0.0, 0.0, 0.3 * t]))) for t in time])
    return builder.build(
        Scene(
            pose_tracks=(PoseTrack(row=0, time=time, world_from_body=drive),),
            joint_tracks=(
                JointTrack(
                    row=builder.robots[1].row("palm_joint"), time=time, position=np.array([0.3, 0.8, 0.1])
                ),
            ),
        )
    )


def array_backend(plan: BridgePlan) -> Backend:
    """A host whose arrays have the layout's rows: used as they are."""
    layout = plan.layout
    return ArrayBackend(
        layout,
        body_pose=layout.body_pose.copy(),
        joint_position=layout.joint_position.copy(),
        joint_velocity=np.zeros(len(layout.dofs)),
        joint_effort=np.zeros(len(layout.dofs)),
        body_twist=np.zeros((len(layout.bodies), 6)),
        commands=False,
    )


def mapped_array_backend(plan: BridgePlan) -> Backend:
    """A host with rows, quaternions and buffers of its own, and without the last body: copied at every step."""
    layout = plan.layout
    rows = np.arange(len(layout.bodies))[::-1].copy()
    position = layout.body_pose[::-1, :3].copy()
    quaternion = layout.body_pose[::-1][:, [6, 3, 4, 5]].copy()
    if rows.size:
        rows[-1] = -1
    return ArrayBackend(
        layout,
        body_pose=(position.copy, quaternion.copy),
        joint_position=layout.joint_position[::-1].copy,
        quaternion="wxyz",
        body_rows=rows,
        joint_rows=np.arange(len(layout.dofs))[::-1],
        commands=False,
    )


FACTORIES: dict[str, Callable[[BridgePlan], Backend]] = {
    **{name: partial(lambda name, _plan: load_backend(name), name) for name in backend_names()},
    "array": array_backend,
    "array, mapped": mapped_array_backend,
}


@dataclass
class Bench:
    """An open backend with what it needs: commands, and samples for its inputs."""

    make: Callable[[BridgePlan], Backend]
    plan: BridgePlan
    backend: Backend = field(init=False)
    reports: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backend = self.make(self.plan)

    def open(self, **options: str) -> None:
        self.backend.open(
            BackendContext(
                plan=self.plan,
                options=options,
                report=lambda kind, message: self.reports.append((kind, message)),
            )
        )

    def feed(self, stamp_ns: int, scale: float) -> None:
        """Sends each input what a robot would: all its joints."""
        for needed in self.backend.inputs():
            assert needed.type == "sensor_msgs/msg/JointState", "teach the suite to feed this type"
            robot = self.plan.robots[needed.robot]
            names = tuple(dof.name for joint in robot.joints for dof in joint.dofs)
            self.backend.receive(
                needed.key,
                JointStateSample(
                    stamp_ns=stamp_ns,
                    names=names,
                    position=np.linspace(0.01, 0.03, len(names)) * scale,
                    velocity=np.zeros(0),
                    effort=np.zeros(0),
                ),
            )

    def commands(self, scale: float = 1.0) -> Commands:
        commands = Commands.empty(self.plan.layout)
        if self.backend.capabilities.commands:
            commands.joint_position[:] = 0.02 * scale
            commands.body_twist[0] = [0.5, 0.0, 0.0, 0.0, 0.0, 0.2]
        return commands

    def run(self, ticks: int, start_ns: int = START) -> list[State]:
        """Drives it at 100 Hz with varying commands and samples; copies of the states."""
        states = []
        for tick in range(ticks):
            now = start_ns + tick * 10 * MS
            self.feed(now, 1.0 + tick)
            states.append(copied(self.backend.step(now, self.commands(1.0 + tick))))
        return states


def copied(state: State) -> State:
    twist, times = state.body_twist, state.robot_time_ns
    return State(
        time_ns=state.time_ns,
        joint_position=state.joint_position.copy(),
        joint_velocity=state.joint_velocity.copy(),
        joint_effort=state.joint_effort.copy(),
        body_pose=state.body_pose.copy(),
        body_twist=None if twist is None else twist.copy(),
        robot_time_ns=None if times is None else times.copy(),
    )


def equal(left: State, right: State) -> None:
    for name in ("joint_position", "joint_velocity", "joint_effort", "body_pose", "body_twist"):
        a, b = getattr(left, name), getattr(right, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.fixture(params=FACTORIES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(FACTORIES[request.param], sampled_plan())
    yield made
    made.backend.close()


def test_every_array_has_a_row_for_everything_in_the_layout(bench: Bench) -> None:
    bench.open()
    dofs, bodies = len(bench.plan.layout.dofs), len(bench.plan.layout.bodies)
    for state in bench.run(5):
        for array in (state.joint_position, state.joint_velocity, state.joint_effort):
            assert array.shape == (dofs,)
            assert array.dtype == np.float64
        assert state.body_pose.shape == (bodies, 7)
        assert state.body_pose.dtype == np.float64
        assert state.body_twist is None or state.body_twist.shape == (bodies, 6)
        if state.robot_time_ns is not None:
            assert state.robot_time_ns.shape == (len(bench.plan.robots),)
            assert state.robot_time_ns.dtype == np.int64


def test_positions_and_poses_are_numbers_and_rotations_units(bench: Bench) -> None:
    bench.open()
    for state in bench.run(20):
        assert np.isfinite(state.joint_position).all()
        assert np.isfinite(state.body_pose).all()
        assert_allclose(np.linalg.norm(state.body_pose[:, 3:], axis=1), 1.0, atol=1e-9)


def test_the_state_has_the_time_it_was_asked_for(bench: Bench) -> None:
    bench.open()
    assert [state.time_ns for state in bench.run(10)] == [START + tick * 10 * MS for tick in range(10)]


def test_the_time_of_a_robot_never_runs_ahead_nor_back(bench: Bench) -> None:
    bench.open()
    before = np.full(len(bench.plan.robots), -1)
    for state in bench.run(10):
        times = state.robot_time_ns
        if times is None:
            continue
        assert (times <= state.time_ns).all()
        assert (times >= before).all()
        before = times


def test_the_same_time_again_is_allowed_and_moves_nothing(bench: Bench) -> None:
    bench.open()
    bench.run(3)
    nothing = Commands.empty(bench.plan.layout)
    first = copied(bench.backend.step(START + SECOND, nothing))
    second = copied(bench.backend.step(START + SECOND, nothing))
    equal(first, second)
    assert second.time_ns == START + SECOND


def test_commands_are_neither_kept_nor_changed(bench: Bench) -> None:
    bench.open()
    commands = bench.commands()
    given = commands.joint_position.copy()
    bench.backend.step(START, commands)
    np.testing.assert_array_equal(commands.joint_position, given)
    expected = copied(bench.backend.step(START + MS, Commands.empty(bench.plan.layout)))
    other = Bench(bench.make, bench.plan)
    other.open()
    other.backend.step(START, commands)
    commands.joint_position[:] = 9.0
    commands.body_twist[:] = 9.0
    equal(copied(other.backend.step(START + MS, Commands.empty(bench.plan.layout))), expected)
    other.backend.close()


def test_without_commands_the_plan_s_state_at_rest_is_where_it_starts(bench: Bench) -> None:
    bench.open()
    state = bench.backend.step(START, Commands.empty(bench.plan.layout))
    assert_allclose(state.joint_position[:5], bench.plan.layout.joint_position[:5], atol=1e-12)
    np.testing.assert_array_equal(bench.plan.layout.body_pose[4:], state.body_pose[4:])


def test_the_plan_s_own_arrays_are_left_alone(bench: Bench) -> None:
    layout = bench.plan.layout
    before = layout.joint_position.copy(), layout.body_pose.copy()
    bench.open()
    bench.run(10)
    np.testing.assert_array_equal(layout.joint_position, before[0])
    np.testing.assert_array_equal(layout.body_pose, before[1])


def test_a_reset_goes_back_to_the_start_and_time_may_be_anything(bench: Bench) -> None:
    bench.open()
    first = bench.run(8)
    bench.backend.reset()
    second = bench.run(8, start_ns=5 * SECOND)
    for before, after in zip(first, second, strict=True):
        # Elapsed times are equal but for the rounding of their origin.
        assert_allclose(after.joint_position, before.joint_position, atol=1e-9)
        assert_allclose(after.body_pose, before.body_pose, atol=1e-9)
    assert second[0].time_ns == 5 * SECOND


def test_the_same_inputs_give_the_same_states(bench: Bench) -> None:
    bench.open()
    other = Bench(bench.make, bench.plan)
    other.open()
    for left, right in zip(bench.run(10), other.run(10), strict=True):
        equal(left, right)
    other.backend.close()


def test_limits_and_speeds_hold_for_what_commands_move(bench: Bench) -> None:
    bench.open()
    if not bench.backend.capabilities.commands:
        pytest.skip("takes no commands")
    layout = bench.plan.layout
    commands = Commands.empty(layout)
    commands.joint_position[:] = 1e6
    before = copied(bench.backend.step(START, Commands.empty(layout)))
    leaders = [row for row, name in enumerate(layout.dofs) if name != "right_finger_joint"]
    for tick in range(1, 300):
        after = copied(bench.backend.step(START + tick * 10 * MS, commands))
        moved = np.abs(after.joint_position - before.joint_position)[leaders]
        assert (moved <= layout.max_velocity[leaders] * 0.01 * (1.0 + 1e-9)).all()
        assert (after.joint_position <= np.maximum(layout.upper, before.joint_position))[leaders].all()
        before = after
    reached = np.isfinite(layout.upper)
    reached[layout.dofs.index("right_finger_joint")] = False
    assert_allclose(before.joint_position[reached], layout.upper[reached])


def test_capabilities_are_fixed_once_open(bench: Bench) -> None:
    bench.open()
    before = bench.backend.capabilities
    bench.run(3)
    bench.backend.reset()
    assert bench.backend.capabilities == before
    assert before.topic_driven == bool(bench.backend.inputs())


def test_inputs_have_keys_of_their_own_and_robots_that_exist(bench: Bench) -> None:
    bench.open()
    inputs = bench.backend.inputs()
    assert len({needed.key for needed in inputs}) == len(inputs)
    assert all(0 <= needed.robot < len(bench.plan.robots) for needed in inputs)
    assert all(needed.topic and needed.depth > 0 for needed in inputs)


def test_an_unknown_option_is_the_callers_mistake(bench: Bench) -> None:
    with pytest.raises(BackendError, match="no option 'no_such_option'; its options: ") as caught:
        bench.open(no_such_option="1")
    assert "\n" not in str(caught.value)


def test_closing_is_idempotent_and_allowed_before_opening(bench: Bench) -> None:
    bench.backend.close()
    bench.open()
    bench.run(2)
    bench.backend.close()
    bench.backend.close()
    bench.open()
    bench.run(2)


def test_an_empty_plan_steps(bench: Bench) -> None:
    empty = Bench(bench.make, BridgePlan(asset="empty"))
    empty.open()
    state = empty.backend.step(START, Commands.empty(empty.plan.layout))
    assert state.joint_position.shape == (0,)
    assert state.body_pose.shape == (0, 7)


def test_a_runtime_shows_every_robot_and_no_state_twice(bench: Bench) -> None:
    reporter = Reporter(lambda _kind, _message: None)
    with Runtime(bench.plan, bench.backend, reporter=reporter) as runtime:
        stamps: list[list[int]] = [[], []]

        class Broadcast:
            def __init__(self, robot: int) -> None:
                self.robot, self.feed = robot, runtime.transform_feed(robot)

            def emit(self, snapshot: Snapshot) -> bool:
                sample = self.feed.sample(snapshot)
                if sample is None:
                    return False
                assert sample.valid is None
                assert_allclose(np.linalg.norm(sample.poses[:, 3:], axis=1), 1.0, atol=1e-9)
                stamps[self.robot].append(sample.stamp_ns)
                return True

        for robot in range(2):
            runtime.add_emitter(Broadcast(robot), name=f"/tf:{robot}")
        for tick in range(10):
            bench.feed(START + tick * 10 * MS, 1.0)
            assert runtime.tick(START + tick * 10 * MS)
            runtime.tick(START + tick * 10 * MS)
        assert stamps == [[START + tick * 10 * MS for tick in range(10)]] * 2
        assert [report.kind for report in reporter.reported()] == []
