"""What every backend must keep to, run against each that is installed and the ones that hosts make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.physics import with_physics
from builders.plans import gripper, rover
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.base import Backend, BackendContext, EntityBackend, needs_physics
from usd_ros_bridge.backends.registry import backend_names, load_backend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, JointPlan, RobotPlan, Scene
from usd_ros_bridge.model.state import Commands, JointStateSample, JointTrack, Layout, PoseTrack, State
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import exponential, pose, relative

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
        if self.simulated and self.plan.physics is None:
            self.plan = with_physics(self.plan)
        if self.imports and self.plan.stage is None:
            # Only where OpenUSD is there for the backend that wants it.
            from builders.physics_stage import write_stage

            assert self.plan.physics is not None
            self.plan = replace(self.plan, stage=write_stage(self.plan.physics))

    @property
    def simulated(self) -> bool:
        """Whether forces move it: it is then where it is told to be to within what drives and limits yield."""
        return needs_physics(self.backend) or self.imports

    @property
    def imports(self) -> bool:
        """Whether it imports the stage by itself."""
        return self.backend.__class__.__name__ == "NewtonBackend"

    @property
    def precision(self) -> float:
        """What single precision leaves of a pose, where that is what it computes with."""
        return 1e-6 if self.imports else 1e-9

    @property
    def joint_driven(self) -> bool:
        """Whether the poses of bodies below joints are none of the backend's business."""
        return self.backend.capabilities.joint_driven

    def skip_without_commands(self) -> None:
        if not self.backend.capabilities.commands:
            pytest.skip("takes no commands")

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
        commands = Commands(self.plan.layout)
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
    try:
        made = Bench(FACTORIES[request.param], sampled_plan())
    except BackendError as error:
        if "no module" not in str(error):
            raise
        pytest.skip(f"not all that it needs is installed: {error}")
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
    nothing = Commands(bench.plan.layout)
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
    expected = copied(bench.backend.step(START + MS, Commands(bench.plan.layout)))
    other = Bench(bench.make, bench.plan)
    other.open()
    other.backend.step(START, commands)
    commands.joint_position[:] = 9.0
    commands.body_twist[:] = 9.0
    equal(copied(other.backend.step(START + MS, Commands(bench.plan.layout))), expected)
    other.backend.close()


def test_without_commands_the_plan_s_state_at_rest_is_where_it_starts(bench: Bench) -> None:
    bench.open()
    state = bench.backend.step(START, Commands(bench.plan.layout))
    assert_allclose(state.joint_position[:5], bench.plan.layout.joint_position[:5], atol=1e-12)
    if bench.simulated:
        # The right finger is where its leader has it, and not where it was authored.
        assert_allclose(state.body_pose[:-1], bench.plan.layout.body_pose[:-1], atol=1e-12)
    else:
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
    bench.skip_without_commands()
    layout = bench.plan.layout
    commands = Commands(layout)
    commands.joint_position[:] = 1e6
    before = copied(bench.backend.step(START, Commands(layout)))
    leaders = [row for row, name in enumerate(layout.dofs) if name != "right_finger_joint"]
    overshoot, yielding = (0.1, 1e-3) if bench.simulated else (1e-9, 0.0)
    for tick in range(1, 300):
        after = copied(bench.backend.step(START + tick * 10 * MS, commands))
        moved = np.abs(after.joint_position - before.joint_position)[leaders]
        if not bench.imports:
            # Newton's drives know no limits of speed.
            assert (moved <= layout.max_velocity[leaders] * 0.01 * (1.0 + overshoot)).all()
        bound = np.maximum(layout.upper + yielding, before.joint_position)
        assert (after.joint_position <= bound)[leaders].all()
        before = after
    reached = np.isfinite(layout.upper)
    reached[layout.dofs.index("right_finger_joint")] = False
    assert_allclose(before.joint_position[reached], layout.upper[reached], atol=yielding)


def permuted(plan: BridgePlan) -> tuple[BridgePlan, np.ndarray, np.ndarray]:
    """Returns the plan with rows in another order, and where each row of bodies and degrees of freedom went."""
    layout = plan.layout
    random = np.random.default_rng(7)
    bodies, dofs = random.permutation(len(layout.bodies)), random.permutation(len(layout.dofs))
    from_body, from_dof = np.argsort(bodies), np.argsort(dofs)

    def moved(rows: tuple[int, ...], where: np.ndarray) -> tuple[int, ...]:
        return tuple(int(where[row]) for row in rows)

    def joint(each: JointPlan) -> JointPlan:
        return replace(
            each,
            dofs=tuple(
                replace(
                    dof,
                    row=int(dofs[dof.row]),
                    mimic=dof.mimic and replace(dof.mimic, leader=int(dofs[dof.mimic.leader])),
                )
                for dof in each.dofs
            ),
        )

    def robot(each: RobotPlan) -> RobotPlan:
        return replace(
            each,
            joints=tuple(joint(one) for one in each.joints),
            frames=tuple(
                replace(frame, carrier=int(bodies[frame.carrier]) if frame.carrier >= 0 else -1)
                for frame in each.frames
            ),
            joint_state_rows=moved(each.joint_state_rows, dofs),
            bodies=moved(each.bodies, bodies),
            base_row=int(bodies[each.base_row]),
        )

    physics = plan.physics and replace(
        plan.physics,
        bodies=tuple(replace(body, row=int(bodies[body.row])) for body in plan.physics.bodies),
        joints=tuple(
            replace(each, dofs=tuple(replace(dof, row=int(dofs[dof.row])) for dof in each.dofs))
            for each in plan.physics.joints
        ),
    )
    tracks = plan.scene
    other = replace(
        plan,
        robots=tuple(robot(each) for each in plan.robots),
        physics=physics,
        scene=replace(
            tracks,
            pose_tracks=tuple(replace(track, row=int(bodies[track.row])) for track in tracks.pose_tracks),
            joint_tracks=tuple(replace(track, row=int(dofs[track.row])) for track in tracks.joint_tracks),
        ),
        layout=Layout(
            bodies=tuple(layout.bodies[row] for row in from_body),
            dofs=tuple(layout.dofs[row] for row in from_dof),
            dof_joints=tuple(layout.dof_joints[row] for row in from_dof),
            body_pose=layout.body_pose[from_body],
            joint_position=layout.joint_position[from_dof],
            lower=layout.lower[from_dof],
            upper=layout.upper[from_dof],
            max_velocity=layout.max_velocity[from_dof],
            kinematic=layout.kinematic[from_body],
        ),
    )
    return other, bodies, dofs


def test_the_layout_alone_says_which_row_is_what(bench: Bench) -> None:
    bench.open()
    plan, bodies, dofs = permuted(bench.plan)
    other = Bench(bench.make, plan)
    other.open()
    for tick in range(20):
        now = START + tick * 10 * MS
        commands, moved = bench.commands(1.0 + tick), Commands(plan.layout)
        moved.joint_position[dofs] = commands.joint_position
        moved.body_twist[bodies] = commands.body_twist
        for each in (bench, other):
            each.feed(now, 1.0 + tick)
        left, right = bench.backend.step(now, commands), other.backend.step(now, moved)
        assert_allclose(right.joint_position[dofs], left.joint_position, atol=1e-12)
        assert_allclose(right.joint_velocity[dofs], left.joint_velocity, atol=1e-12)
        assert_allclose(right.joint_effort[dofs], left.joint_effort, atol=1e-9)
        if not bench.joint_driven:
            assert_allclose(right.body_pose[bodies], left.body_pose, atol=1e-12)
        if left.body_twist is not None and right.body_twist is not None:
            assert_allclose(right.body_twist[bodies], left.body_twist, atol=1e-12)
    other.backend.close()


def test_targets_are_radians_metres_and_seconds(bench: Bench) -> None:
    bench.open()
    bench.skip_without_commands()
    layout = bench.plan.layout
    wheel, palm, finger = map(layout.dofs.index, ("left_wheel_joint", "palm_joint", "left_finger_joint"))
    commands = Commands(layout)
    bench.backend.step(START, commands)
    commands.joint_position[[palm, finger]] = [0.9, 0.03]
    commands.joint_velocity[wheel] = 2.0
    after = before = copied(bench.backend.step(START + 10 * MS, commands))
    for tick in range(2, 202):
        after = copied(bench.backend.step(START + tick * 10 * MS, Commands(layout)))
    assert_allclose(after.joint_position[[palm, finger]], [0.9, 0.03], atol=1e-3)
    assert_allclose(after.joint_position[wheel] - before.joint_position[wheel], 4.0, atol=0.05)
    assert_allclose(after.joint_velocity[wheel], 2.0, atol=1e-3)


def test_a_follower_follows_whatever_it_is_commanded_itself(bench: Bench) -> None:
    bench.open()
    bench.skip_without_commands()
    layout = bench.plan.layout
    leader, follower = map(layout.dofs.index, ("left_finger_joint", "right_finger_joint"))
    commands = Commands(layout)
    commands.joint_position[leader], commands.joint_position[follower] = 0.02, 0.035
    for tick in range(100):
        state = bench.backend.step(START + tick * 10 * MS, commands)
        away = state.joint_position[follower] - state.joint_position[leader] - 0.001
        assert abs(away) < 1e-4
    assert_allclose(state.joint_position[leader], 0.02, atol=1e-4)


def test_the_last_command_holds_where_nothing_new_is_commanded(bench: Bench) -> None:
    bench.open()
    bench.skip_without_commands()
    layout = bench.plan.layout
    palm, mast = map(layout.dofs.index, ("palm_joint", "mast_joint"))
    for tick in range(200):
        commands = Commands(layout)
        if tick < 2:
            commands.joint_position[palm if tick == 0 else mast] = 0.5
        state = bench.backend.step(START + tick * 10 * MS, commands)
    assert_allclose(state.joint_position[[palm, mast]], 0.5, atol=1e-3)


def test_one_long_step_does_what_many_short_ones_do(bench: Bench) -> None:
    bench.open()
    if bench.backend.capabilities.every_step or bench.backend.inputs():
        pytest.skip("is stepped at every step, or moved by what arrives")
    other = Bench(bench.make, bench.plan)
    other.open()
    nothing = Commands(bench.plan.layout)
    for each in (bench, other):
        each.backend.step(START, each.commands())
        each.backend.step(START + 10 * MS, each.commands(2.0))
    for tick in range(2, 21):
        many = bench.backend.step(START + tick * 10 * MS, nothing)
    one = other.backend.step(START + 200 * MS, nothing)
    if bench.backend.capabilities.step_ns:
        equal(one, many)
    assert_allclose(one.joint_position, many.joint_position, atol=1e-9)
    assert_allclose(one.body_pose, many.body_pose, atol=1e-9)
    other.backend.close()


def test_a_backend_that_owns_time_stays_on_its_grid(bench: Bench) -> None:
    bench.open()
    step_ns = bench.backend.capabilities.step_ns
    assert step_ns >= 0
    if not step_ns:
        pytest.skip("follows the time that it is given")
    nothing = Commands(bench.plan.layout)
    for asked, shown in ((40, 40), (40.5, 40), (41, 41), (41.99, 41), (45, 45)):
        state = bench.backend.step(round(asked * step_ns), nothing)
        assert state.time_ns == shown * step_ns


def test_the_first_call_of_a_backend_that_owns_time_is_one_step_on_from_rest(bench: Bench) -> None:
    bench.open()
    step_ns = bench.backend.capabilities.step_ns
    if not step_ns:
        pytest.skip("follows the time that it is given")
    wheel = bench.plan.layout.dofs.index("left_wheel_joint")
    commands = Commands(bench.plan.layout)
    commands.joint_velocity[wheel] = 2.0
    for start in (step_ns, 1000 * step_ns):
        first = copied(bench.backend.step(start, commands))
        assert first.time_ns == start
        assert first.joint_velocity[wheel] > 0.0
        bench.backend.reset()


def test_a_reset_replays_bit_for_bit(bench: Bench) -> None:
    bench.open()
    first = bench.run(20)
    bench.backend.reset()
    for before, after in zip(first, bench.run(20), strict=True):
        equal(before, after)


def test_a_jump_takes_along_what_hangs_from_the_body(bench: Bench) -> None:
    bench.open()
    bench.skip_without_commands()
    bench.backend.close()
    plan = bench.plan
    there = pose((4.0, -3.0, 2.0), exponential(np.array([0.0, 0.0, 1.2])))
    with Runtime(plan, bench.backend, reporter=OnceReporter(lambda _kind, _message: None)) as runtime:
        runtime.tick(START)
        before = runtime.snapshot.body_pose.copy()
        runtime.commands.body_pose[0] = there
        # A body below a joint is where its joints put it, whatever is commanded.
        runtime.commands.body_pose[plan.layout.bodies.index("/gripper/palm")] = there
        runtime.tick(START + 10 * MS)
        after = runtime.snapshot.body_pose.copy()
    rover_rows, gripper_rows = (list(robot.bodies) for robot in plan.robots)
    assert_allclose(after[0], there, atol=1e-9)
    for row in rover_rows[1:]:
        assert_allclose(relative(after[0], after[row]), relative(before[0], before[row]), atol=1e-4)
    assert_allclose(after[gripper_rows], before[gripper_rows], atol=1e-4)


def test_measured_bodies_are_where_the_joints_put_them(bench: Bench) -> None:
    bench.open()
    if bench.joint_driven or not bench.simulated:
        pytest.skip("the joints alone say where bodies are, or the host does")
    kinematics = Kinematics(bench.plan)
    for state in bench.run(50)[::10]:
        expected = kinematics.body_poses(state, kinematics.edge_poses(state.joint_position))
        assert_allclose(state.body_pose, expected, atol=bench.precision)


def test_bodies_can_be_looked_at_and_put_elsewhere_by_path(bench: Bench) -> None:
    bench.open()
    backend, layout = bench.backend, bench.plan.layout
    if not isinstance(backend, EntityBackend):
        pytest.skip("has no entities")
    assert set(layout.bodies) <= set(backend.entities())
    backend.step(START, Commands(layout))
    there = pose((4.0, -3.0, 2.0), exponential(np.array([0.3, 0.0, 1.2])))
    twist = np.array([0.1, 0.2, -0.3, 0.4, -0.5, 0.6])
    base = "/rover/base_link"
    assert backend.set_entity_state(base, pose=there, twist=twist) == ""
    shown = backend.entity_state(base)
    assert_allclose(shown.pose, there, atol=1e-12)
    assert_allclose(shown.twist, twist, atol=1e-12)
    after = backend.step(START + 10 * MS, Commands(layout))
    assert_allclose(after.body_pose[layout.bodies.index(base), :3], there[:3] + 0.01 * twist[:3], atol=2e-3)
    refusal = backend.set_entity_state("/gripper/palm", pose=there)
    assert "palm_joint" in refusal
    assert "\n" not in refusal
    with pytest.raises(KeyError):
        backend.entity_state("/nowhere")
    bounds = backend.entity_bounds(base)
    assert bounds is not None
    assert (bounds[0] < bounds[1]).all()


def test_a_backend_that_simulates_says_what_it_lacks(bench: Bench) -> None:
    if not bench.simulated:
        pytest.skip("simulates nothing")
    bench.plan = replace(bench.plan, physics=None, stage=None)
    with pytest.raises(BackendError, match="stage" if bench.imports else "physics") as caught:
        bench.open()
    assert "\n" not in str(caught.value)


def test_what_it_measures_is_of_the_plan(bench: Bench) -> None:
    bench.open()
    capabilities = bench.backend.capabilities
    assert capabilities.async_sensors <= capabilities.sensors <= {topic.path for topic in bench.plan.topics}


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
    state = empty.backend.step(START, Commands(empty.plan.layout))
    assert state.joint_position.shape == (0,)
    assert state.body_pose.shape == (0, 7)


def test_a_runtime_shows_every_robot_and_no_state_twice(bench: Bench) -> None:
    reporter = OnceReporter(lambda _kind, _message: None)
    with Runtime(bench.plan, bench.backend, reporter=reporter) as runtime:
        stamps: list[list[int]] = [[], []]

        class Broadcast(Publication):
            def __init__(self, robot: int) -> None:
                super().__init__()
                self.robot = robot

            def publish(self, snapshot: Snapshot) -> bool:
                stamp_ns = snapshot.robot_time_ns(self.robot)
                # The state of the tick before may be shown again; one that is older may not.
                if stamps[self.robot][-1:] == [stamp_ns]:
                    return False
                assert snapshot.frames_finite
                poses = snapshot.frame_poses(self.robot)
                assert poses.shape == (len(snapshot.moving_frames(self.robot)), 7)
                assert len(poses) > 0
                assert_allclose(np.linalg.norm(poses[:, 3:], axis=1), 1.0, atol=1e-9)
                stamps[self.robot].append(stamp_ns)
                return True

        for robot in range(2):
            runtime.add_publication(Broadcast(robot), name=f"/tf:{robot}")
        for tick in range(10):
            bench.feed(START + tick * 10 * MS, 1.0)
            assert runtime.tick(START + tick * 10 * MS)
            runtime.tick(START + tick * 10 * MS)
        assert stamps == [[START + tick * 10 * MS for tick in range(10)]] * 2
        assert [report.kind for report in reporter.reported()] == []
