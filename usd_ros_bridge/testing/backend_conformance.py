"""What every backend must keep to, as a class of tests: subclass it, and pytest runs it on a backend of your own."""

# ruff: noqa: D102 - the name of a test says what it checks
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.backend_options import option_values
from usd_ros_bridge.backends.base import (
    Backend,
    BackendContext,
    EntityBackend,
    needs_physics,
)
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.message_types import JOINT_STATE
from usd_ros_bridge.model.plan import BridgePlan, JointPlan, RobotPlan
from usd_ros_bridge.model.state import Commands, JointStateSample, Layout, State
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import exponential, pose, relative

MS = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


# --- The robots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A body at rest: translation, m, and rotation as a quaternion w x y z."""

    translation: tuple[float, float, float]
    rotation: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


_YAW = (math.cos(0.25), 0.0, 0.0, math.sin(0.25))
_LEFT = (1.0 - 0.2 * math.sin(0.5), 2.0 + 0.2 * math.cos(0.5), 0.05)
_RIGHT = (1.0 + 0.2 * math.sin(0.5), 2.0 - 0.2 * math.cos(0.5), 0.05)
_MAST = (1.0 + 0.08 * math.cos(0.5), 2.0 + 0.08 * math.sin(0.5), 0.5)
_TURNED = (math.cos(0.15), math.sin(0.15), 0.0, 0.0)
_BODIES = {
    "rover": {
        "base_link": _Place((1.0, 2.0, 0.1), _YAW),
        "left_wheel": _Place(_LEFT, _YAW),
        "right_wheel": _Place(_RIGHT, _YAW),
        "mast": _Place(_MAST, _YAW),
    },
    "gripper": {
        "mount": _Place((0.0, 0.0, 0.5)),
        "palm": _Place((0.0, 0.0, 0.5), _TURNED),
        "left_finger": _Place((0.1, 0.0, 0.5), _TURNED),
        "right_finger": _Place((0.1, 0.0, 0.5), (0.0, 0.0, -math.sin(0.15), math.cos(0.15))),
    },
}


def conformance_asset() -> str:
    """Return the text of a stage with two robots, for tests of backends: `/rover` and `/gripper`.

    The rover has a free base, two wheels that are driven by velocity, and a mast that turns. The gripper is fixed to
    the world: a palm, and two fingers of which the right one follows the left one. Each body has 1 kg and moments of
    inertia of 0.01 kg m^2. There is no gravity, and nothing touches.
    """
    robots = "".join(
        f'def Xform "{robot}" (\n    prepend apiSchemas = ["RosContextAPI"]\n)\n{{\n'
        f'    string ros:context:namespace = "{robot}"\n'
        + "".join(_body_text(robot, name, tuple(bodies)) for name in bodies)
        + f"{_JOINTS[robot]}}}\n"
        for robot, bodies in _BODIES.items()
    )
    return _HEAD + robots


def _body_text(robot: str, name: str, siblings: tuple[str, ...]) -> str:
    place = _BODIES[robot][name]
    root = '"PhysicsArticulationRootAPI", ' if name == siblings[0] else ""
    others = ", ".join(f"</{robot}/{each}>" for each in siblings if each != name)
    return f"""
    def Xform "{name}" (
        prepend apiSchemas = [{root}"PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsFilteredPairsAPI"]
    )
    {{
        float physics:mass = 1
        point3f physics:centerOfMass = (0, 0, 0)
        float3 physics:diagonalInertia = (0.01, 0.01, 0.01)
        quatf physics:principalAxes = (1, 0, 0, 0)
        rel physics:filteredPairs = [{others}]
        quatd xformOp:orient = {place.rotation}
        double3 xformOp:translate = {place.translation}
        uniform token[] xformOpOrder = ["!resetXformStack!", "xformOp:translate", "xformOp:orient"]

        def Cube "cube" (
            prepend apiSchemas = ["PhysicsCollisionAPI"]
        )
        {{
            double size = 0.04
        }}
    }}
"""


def _joint_text(
    robot: str, name: str, kind: str, axis: str, ends: tuple[str, str], more: str, *, drive: str = ""
) -> str:
    """Return a joint; `drive` is the instance of its drive API, "" for none."""
    schemas = [f'"PhysicsDriveAPI:{drive}"'] if drive else ['"NewtonMimicAPI"']
    schemas += [f'"PhysicsJointStateAPI:{drive or "linear"}"']
    return f"""
    def Physics{kind}Joint "{name}" (
        prepend apiSchemas = [{", ".join(schemas)}]
    )
    {{
        uniform token physics:axis = "{axis}"
        rel physics:body0 = </{robot}/{ends[0]}>
        rel physics:body1 = </{robot}/{ends[1]}>
{more}    }}
"""


def _lines(*lines: str) -> str:
    return "".join(f"        {line}\n" for line in lines)


def _wheel_text(side: str, y: float) -> str:
    more = _lines(
        "float drive:angular:physics:damping = 0.08726646",
        f"point3f physics:localPos0 = (0, {y}, -0.05)",
        "custom float newton:velocityLimit = 1145.9156",
    )
    ends = ("base_link", f"{side}_wheel")
    return _joint_text("rover", f"{side}_wheel_joint", "Revolute", "Y", ends, more, drive="angular")


_HEAD = """#usda 1.0
(
    defaultPrim = "rover"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)

def PhysicsScene "PhysicsScene"
{
    float physics:gravityMagnitude = 0
}

"""
_POSITION_DRIVE = (
    "float drive:angular:physics:stiffness = 17.453293",
    "float drive:angular:physics:damping = 1.7453293",
)
_JOINTS = {
    "rover": _wheel_text("left", 0.2)
    + _wheel_text("right", -0.2)
    + _joint_text(
        "rover",
        "mast_joint",
        "Revolute",
        "Z",
        ("base_link", "mast"),
        _lines(
            *_POSITION_DRIVE,
            "point3f physics:localPos0 = (0.1, 0, 0.3)",
            "point3f physics:localPos1 = (0.02, 0, -0.1)",
            "float physics:lowerLimit = -85.943669",
            "float physics:upperLimit = 85.943669",
            "custom float newton:velocityLimit = 114.59156",
        ),
        drive="angular",
    ),
    "gripper": """
    def PhysicsFixedJoint "mount_joint"
    {
        rel physics:body1 = </gripper/mount>
        point3f physics:localPos0 = (0, 0, 0.5)
    }
"""
    + _joint_text(
        "gripper",
        "palm_joint",
        "Revolute",
        "X",
        ("mount", "palm"),
        _lines(
            *_POSITION_DRIVE,
            "float drive:angular:physics:targetPosition = 17.188734",
            "float physics:lowerLimit = -171.88734",
            "float physics:upperLimit = 171.88734",
            "float state:angular:physics:position = 17.188734",
        ),
        drive="angular",
    )
    + _joint_text(
        "gripper",
        "left_finger_joint",
        "Prismatic",
        "Y",
        ("palm", "left_finger"),
        _lines(
            "float drive:linear:physics:stiffness = 1000",
            "float drive:linear:physics:damping = 100",
            "point3f physics:localPos0 = (0.1, 0, 0)",
            "float physics:lowerLimit = 0",
            "float physics:upperLimit = 0.04",
            "custom float newton:velocityLimit = 0.1",
        ),
        drive="linear",
    )
    + _joint_text(
        "gripper",
        "right_finger_joint",
        "Prismatic",
        "Y",
        ("palm", "right_finger"),
        _lines(
            "custom float newton:mimicCoef0 = 0.001",
            "custom float newton:mimicCoef1 = 1",
            "custom rel newton:mimicJoint = </gripper/left_finger_joint>",
            "point3f physics:localPos0 = (0.1, 0, 0)",
            "quatf physics:localRot0 = (0, 0, 0, 1)",
            "float state:linear:physics:position = 0.001",
        ),
    ),
}


@lru_cache(maxsize=2)
def conformance_plan(*, physics: bool = False) -> BridgePlan:
    """Return the plan of `conformance_asset`, with its stage.

    Args:
        physics: Plan what engines simulate, too.
    """
    return plan_of_text(conformance_asset(), physics=physics)


def plan_of_text(text: str, *, physics: bool = False) -> BridgePlan:
    """Return the plan of a layer's text, with its stage.

    Args:
        text: A text layer (.usda).
        physics: Plan what engines simulate, too.
    """
    with TemporaryDirectory() as directory:
        path = Path(directory) / "conformance.usda"
        path.write_text(text, encoding="utf-8")
        return load_plan(path, physics=physics)


# --- The bench -----------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class BackendBench:
    """A backend with what it needs: a plan, commands, and samples for its inputs.

    Attributes:
        make: Make a backend that is not open.
        plan: The plan.
        make_empty: Make a plan without robots.
        simulated: Forces move it: it is where it is commanded to be to within what drives and limits yield.
        precision: Largest difference of poses from what joints say, m and of a quaternion's components.
        limits_speed: Commanded joints keep the speeds of the layout.
        needed: What an error names where the plan has neither physics nor a stage.
        backend: The backend.
        reports: What it reported: kinds and messages.
    """

    make: Callable[[BridgePlan], Backend]
    plan: BridgePlan
    make_empty: Callable[[], BridgePlan]
    simulated: bool = False
    precision: float = 1e-9
    limits_speed: bool = True
    needed: str = "physics"
    backend: Backend = field(init=False)
    reports: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the backend."""
        self.backend = self.make(self.plan)

    def another(self, plan: BridgePlan | None = None) -> BackendBench:
        """Return a bench like this one, with a backend of its own that is not open.

        Args:
            plan: Its plan; None for the same.
        """
        return replace(self, plan=plan or self.plan, reports=[])

    @property
    def joint_driven(self) -> bool:
        """Return whether joints say where bodies below them are, and not the backend."""
        return self.backend.capabilities.joint_driven

    def skip_without_commands(self) -> None:
        """Skip a test of a backend that takes no commands."""
        if not self.backend.capabilities.commands:
            pytest.skip("takes no commands")

    def open(self, **options: str) -> None:
        """Open the backend with options, as the runtime does."""
        self.backend.open(
            BackendContext(
                plan=self.plan,
                options=options,
                values=option_values(self.backend, options),
                report=lambda kind, message: self.reports.append((kind, message)),
            )
        )

    def feed(self, stamp_ns: int, scale: float) -> None:
        """Send each input what a robot would: all its joints.

        Args:
            stamp_ns: Stamp of the messages, nanoseconds.
            scale: Factor of the positions.
        """
        for needed in self.backend.inputs():
            if needed.type != JOINT_STATE:
                pytest.fail(f"override `feed`: an input of the backend has the type {needed.type}")
            robot = self.plan.robots[needed.robot]
            names = tuple(dof.name for joint in robot.joints for dof in joint.dofs)
            sample = JointStateSample(
                stamp_ns=stamp_ns,
                names=names,
                position=np.linspace(0.01, 0.03, len(names)) * scale,
                velocity=np.zeros(0),
                effort=np.zeros(0),
            )
            self.backend.receive(needed.key, sample)

    def commands(self, scale: float = 1.0) -> Commands:
        """Return commands of all joints and of the first body, if the backend takes commands.

        Args:
            scale: Factor of the joints' positions.
        """
        commands = Commands(self.plan.layout)
        if self.backend.capabilities.commands:
            commands.joint_position[:] = 0.02 * scale
            commands.body_twist[0] = [0.5, 0.0, 0.0, 0.0, 0.0, 0.2]
        return commands

    def run(self, ticks: int, start_ns: int = START) -> list[State]:
        """Step at 100 Hz with varying commands and samples. Return copies of the states.

        Args:
            ticks: Number of steps.
            start_ns: Time of the first one, nanoseconds.
        """
        states = []
        for tick in range(ticks):
            now = start_ns + tick * 10 * MS
            self.feed(now, 1.0 + tick)
            states.append(copied_state(self.backend.step(now, self.commands(1.0 + tick))))
        return states


def copied_state(state: State) -> State:
    """Return a state with arrays of its own."""
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


def assert_equal_states(left: State, right: State) -> None:
    """Assert that two states have the same arrays, bit for bit."""
    for name in ("joint_position", "joint_velocity", "joint_effort", "body_pose", "body_twist"):
        a, b = getattr(left, name), getattr(right, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)


def permuted_plan(plan: BridgePlan) -> tuple[BridgePlan, np.ndarray, np.ndarray]:
    """Return the plan with rows in another order, and where each row of bodies and degrees of freedom went."""
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


# --- The tests -----------------------------------------------------------------------------------------------------


class BackendConformance:
    """Tests of one backend. Subclass it in a test module as `class TestMine(BackendConformance): backend = "mine"`.

    A test that does not apply to the capabilities of the backend is skipped. Set one to None in the subclass if the
    backend differs on purpose. Override `make_backend` for a backend that has no entry point.

    Attributes:
        backend: Name of the backend: that of its entry point.
        simulated: Forces move it. None: it does if it needs physics.
        precision: Largest difference of measured poses from what joints say.
        limits_speed: Commanded joints keep the speeds of the layout.
        needed: What an error names where the plan has neither physics nor a stage.
    """

    backend: ClassVar[str] = ""
    simulated: ClassVar[bool | None] = None
    precision: ClassVar[float] = 1e-9
    limits_speed: ClassVar[bool] = True
    needed: ClassVar[str] = "physics"

    def make_backend(self, plan: BridgePlan) -> Any:  # noqa: ARG002 - for those that are made for a layout
        """Return a backend that is not open.

        Args:
            plan: The plan that it is going to be opened with.
        """
        return load_backend(self.backend)

    def make_plan(self) -> BridgePlan:
        """Return the plan: that of `conformance_asset`. Others need its bodies and joints, in its order."""
        return conformance_plan(physics=self.is_simulated())

    def make_empty_plan(self) -> BridgePlan:
        """Return the plan of an asset without robots."""
        return plan_of_text("#usda 1.0\n", physics=self.is_simulated())

    def is_simulated(self) -> bool:
        """Return whether forces move the backend."""
        if self.simulated is not None:
            return self.simulated
        return needs_physics(self.make_backend(BridgePlan(asset="empty")))

    @pytest.fixture
    def bench(self) -> Iterator[BackendBench]:
        """The backend, not open, with its plan. It is closed at the end."""
        with self.made_bench() as made:
            yield made

    @contextmanager
    def made_bench(self) -> Iterator[BackendBench]:
        """The argument of a test, for programs that call tests without pytest. The backend is closed at the end."""
        made = BackendBench(
            make=self.make_backend,
            plan=self.make_plan(),
            make_empty=self.make_empty_plan,
            simulated=self.is_simulated(),
            precision=self.precision,
            limits_speed=self.limits_speed,
            needed=self.needed,
        )
        try:
            yield made
        finally:
            made.backend.close()

    def test_every_array_has_a_row_for_everything_in_the_layout(self, bench: BackendBench) -> None:
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

    def test_positions_and_poses_are_numbers_and_rotations_units(self, bench: BackendBench) -> None:
        bench.open()
        for state in bench.run(20):
            assert np.isfinite(state.joint_position).all()
            assert np.isfinite(state.body_pose).all()
            assert_allclose(np.linalg.norm(state.body_pose[:, 3:], axis=1), 1.0, atol=1e-9)

    def test_the_state_has_the_time_it_was_asked_for(self, bench: BackendBench) -> None:
        bench.open()
        assert [state.time_ns for state in bench.run(10)] == [START + tick * 10 * MS for tick in range(10)]

    def test_the_time_of_a_robot_never_runs_ahead_nor_back(self, bench: BackendBench) -> None:
        bench.open()
        before = np.full(len(bench.plan.robots), -1)
        for state in bench.run(10):
            times = state.robot_time_ns
            if times is None:
                continue
            assert (times <= state.time_ns).all()
            assert (times >= before).all()
            before = times

    def test_the_same_time_again_is_allowed_and_moves_nothing(self, bench: BackendBench) -> None:
        bench.open()
        bench.run(3)
        nothing = Commands(bench.plan.layout)
        first = copied_state(bench.backend.step(START + SECOND, nothing))
        second = copied_state(bench.backend.step(START + SECOND, nothing))
        assert_equal_states(first, second)
        assert second.time_ns == START + SECOND

    def test_commands_are_neither_kept_nor_changed(self, bench: BackendBench) -> None:
        bench.open()
        commands = bench.commands()
        given = commands.joint_position.copy()
        bench.backend.step(START, commands)
        np.testing.assert_array_equal(commands.joint_position, given)
        expected = copied_state(bench.backend.step(START + MS, Commands(bench.plan.layout)))
        other = bench.another()
        other.open()
        other.backend.step(START, commands)
        commands.joint_position[:] = 9.0
        commands.body_twist[:] = 9.0
        assert_equal_states(
            copied_state(other.backend.step(START + MS, Commands(bench.plan.layout))), expected
        )
        other.backend.close()

    def test_without_commands_the_plan_s_state_at_rest_is_where_it_starts(self, bench: BackendBench) -> None:
        bench.open()
        state = bench.backend.step(START, Commands(bench.plan.layout))
        assert_allclose(state.joint_position[:5], bench.plan.layout.joint_position[:5], atol=1e-12)
        if bench.simulated:
            # The right finger is where its leader has it, and not where it was authored.
            assert_allclose(state.body_pose[:-1], bench.plan.layout.body_pose[:-1], atol=1e-12)
        else:
            np.testing.assert_array_equal(bench.plan.layout.body_pose[4:], state.body_pose[4:])

    def test_the_plan_s_own_arrays_are_left_alone(self, bench: BackendBench) -> None:
        layout = bench.plan.layout
        before = layout.joint_position.copy(), layout.body_pose.copy()
        bench.open()
        bench.run(10)
        np.testing.assert_array_equal(layout.joint_position, before[0])
        np.testing.assert_array_equal(layout.body_pose, before[1])

    def test_a_reset_goes_back_to_the_start_and_time_may_be_anything(self, bench: BackendBench) -> None:
        bench.open()
        first = bench.run(8)
        bench.backend.reset()
        second = bench.run(8, start_ns=5 * SECOND)
        for before, after in zip(first, second, strict=True):
            # Elapsed times are equal but for the rounding of their origin.
            assert_allclose(after.joint_position, before.joint_position, atol=1e-9)
            assert_allclose(after.body_pose, before.body_pose, atol=1e-9)
        assert second[0].time_ns == 5 * SECOND

    def test_the_same_inputs_give_the_same_states(self, bench: BackendBench) -> None:
        bench.open()
        other = bench.another()
        other.open()
        for left, right in zip(bench.run(10), other.run(10), strict=True):
            assert_equal_states(left, right)
        other.backend.close()

    def test_limits_and_speeds_hold_for_what_commands_move(self, bench: BackendBench) -> None:
        bench.open()
        bench.skip_without_commands()
        layout = bench.plan.layout
        commands = Commands(layout)
        commands.joint_position[:] = 1e6
        before = copied_state(bench.backend.step(START, Commands(layout)))
        leaders = [row for row, name in enumerate(layout.dofs) if name != "right_finger_joint"]
        overshoot, yielding = (0.1, 1e-3) if bench.simulated else (1e-9, 0.0)
        for tick in range(1, 300):
            after = copied_state(bench.backend.step(START + tick * 10 * MS, commands))
            moved = np.abs(after.joint_position - before.joint_position)[leaders]
            if bench.limits_speed:
                assert (moved <= layout.max_velocity[leaders] * 0.01 * (1.0 + overshoot)).all()
            bound = np.maximum(layout.upper + yielding, before.joint_position)
            assert (after.joint_position <= bound)[leaders].all()
            before = after
        reached = np.isfinite(layout.upper)
        reached[layout.dofs.index("right_finger_joint")] = False
        assert_allclose(before.joint_position[reached], layout.upper[reached], atol=yielding)

    def test_the_layout_alone_says_which_row_is_what(self, bench: BackendBench) -> None:
        bench.open()
        plan, bodies, dofs = permuted_plan(bench.plan)
        other = bench.another(plan)
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

    def test_targets_are_radians_metres_and_seconds(self, bench: BackendBench) -> None:
        bench.open()
        bench.skip_without_commands()
        layout = bench.plan.layout
        wheel, palm, finger = map(layout.dofs.index, ("left_wheel_joint", "palm_joint", "left_finger_joint"))
        commands = Commands(layout)
        bench.backend.step(START, commands)
        commands.joint_position[[palm, finger]] = [0.9, 0.03]
        commands.joint_velocity[wheel] = 2.0
        after = before = copied_state(bench.backend.step(START + 10 * MS, commands))
        for tick in range(2, 202):
            after = copied_state(bench.backend.step(START + tick * 10 * MS, Commands(layout)))
        assert_allclose(after.joint_position[[palm, finger]], [0.9, 0.03], atol=1e-3)
        assert_allclose(after.joint_position[wheel] - before.joint_position[wheel], 4.0, atol=0.05)
        assert_allclose(after.joint_velocity[wheel], 2.0, atol=1e-3)

    def test_a_follower_follows_whatever_it_is_commanded_itself(self, bench: BackendBench) -> None:
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

    def test_the_last_command_holds_where_nothing_new_is_commanded(self, bench: BackendBench) -> None:
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

    def test_one_long_step_does_what_many_short_ones_do(self, bench: BackendBench) -> None:
        bench.open()
        if bench.backend.capabilities.every_step or bench.backend.inputs():
            pytest.skip("is stepped at every step, or moved by what arrives")
        other = bench.another()
        other.open()
        nothing = Commands(bench.plan.layout)
        for each in (bench, other):
            each.backend.step(START, each.commands())
            each.backend.step(START + 10 * MS, each.commands(2.0))
        for tick in range(2, 21):
            many = bench.backend.step(START + tick * 10 * MS, nothing)
        one = other.backend.step(START + 200 * MS, nothing)
        if bench.backend.capabilities.step_ns:
            assert_equal_states(one, many)
        assert_allclose(one.joint_position, many.joint_position, atol=1e-9)
        assert_allclose(one.body_pose, many.body_pose, atol=1e-9)
        other.backend.close()

    def test_a_backend_that_owns_time_stays_on_its_grid(self, bench: BackendBench) -> None:
        bench.open()
        step_ns = bench.backend.capabilities.step_ns
        assert step_ns >= 0
        if not step_ns:
            pytest.skip("follows the time that it is given")
        nothing = Commands(bench.plan.layout)
        for asked, shown in ((40, 40), (40.5, 40), (41, 41), (41.99, 41), (45, 45)):
            state = bench.backend.step(round(asked * step_ns), nothing)
            assert state.time_ns == shown * step_ns

    def test_the_first_call_of_a_backend_that_owns_time_is_one_step_on_from_rest(
        self, bench: BackendBench
    ) -> None:
        bench.open()
        step_ns = bench.backend.capabilities.step_ns
        if not step_ns:
            pytest.skip("follows the time that it is given")
        wheel = bench.plan.layout.dofs.index("left_wheel_joint")
        commands = Commands(bench.plan.layout)
        commands.joint_velocity[wheel] = 2.0
        for start in (step_ns, 1000 * step_ns):
            first = copied_state(bench.backend.step(start, commands))
            assert first.time_ns == start
            assert first.joint_velocity[wheel] > 0.0
            bench.backend.reset()

    def test_a_reset_replays_bit_for_bit(self, bench: BackendBench) -> None:
        bench.open()
        first = bench.run(20)
        bench.backend.reset()
        for before, after in zip(first, bench.run(20), strict=True):
            assert_equal_states(before, after)

    def test_a_jump_takes_along_what_hangs_from_the_body(self, bench: BackendBench) -> None:
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

    def test_measured_bodies_are_where_the_joints_put_them(self, bench: BackendBench) -> None:
        bench.open()
        if bench.joint_driven or not bench.simulated:
            pytest.skip("the joints alone say where bodies are, or the host does")
        kinematics = Kinematics(bench.plan)
        for state in bench.run(50)[::10]:
            expected = kinematics.body_poses(state, kinematics.edge_poses(state.joint_position))
            assert_allclose(state.body_pose, expected, atol=bench.precision)

    def test_bodies_can_be_looked_at_and_put_elsewhere_by_path(self, bench: BackendBench) -> None:
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
        assert_allclose(
            after.body_pose[layout.bodies.index(base), :3], there[:3] + 0.01 * twist[:3], atol=2e-3
        )
        refusal = backend.set_entity_state("/gripper/palm", pose=there)
        assert "palm_joint" in refusal
        assert "\n" not in refusal
        with pytest.raises(KeyError):
            backend.entity_state("/nowhere")
        bounds = backend.entity_bounds(base)
        assert bounds is not None
        assert (bounds[0] < bounds[1]).all()

    def test_a_backend_that_simulates_says_what_it_lacks(self, bench: BackendBench) -> None:
        if not bench.simulated:
            pytest.skip("simulates nothing")
        bench.plan = replace(bench.plan, physics=None, stage=None)
        with pytest.raises(BackendError, match=bench.needed) as caught:
            bench.open()
        assert "\n" not in str(caught.value)

    def test_what_it_measures_is_of_the_plan(self, bench: BackendBench) -> None:
        bench.open()
        capabilities = bench.backend.capabilities
        assert (
            capabilities.async_sensors <= capabilities.sensors <= {topic.path for topic in bench.plan.topics}
        )

    def test_capabilities_are_fixed_once_open(self, bench: BackendBench) -> None:
        bench.open()
        before = bench.backend.capabilities
        bench.run(3)
        bench.backend.reset()
        assert bench.backend.capabilities == before
        assert before.topic_driven == bool(bench.backend.inputs())

    def test_inputs_have_keys_of_their_own_and_robots_that_exist(self, bench: BackendBench) -> None:
        bench.open()
        inputs = bench.backend.inputs()
        assert len({needed.key for needed in inputs}) == len(inputs)
        assert all(0 <= needed.robot < len(bench.plan.robots) for needed in inputs)
        assert all(needed.topic and needed.depth > 0 for needed in inputs)

    def test_an_unknown_option_is_the_callers_mistake(self, bench: BackendBench) -> None:
        with pytest.raises(BackendError, match="no option 'no_such_option'; its options: ") as caught:
            bench.open(no_such_option="1")
        assert "\n" not in str(caught.value)

    def test_closing_is_idempotent_and_allowed_before_opening(self, bench: BackendBench) -> None:
        bench.backend.close()
        bench.open()
        bench.run(2)
        bench.backend.close()
        bench.backend.close()
        bench.open()
        bench.run(2)

    def test_an_empty_plan_steps(self, bench: BackendBench) -> None:
        empty = bench.another(bench.make_empty())
        empty.open()
        state = empty.backend.step(START, Commands(empty.plan.layout))
        assert state.joint_position.shape == (0,)
        assert state.body_pose.shape == (0, 7)

    def test_a_runtime_shows_every_robot_and_no_state_twice(self, bench: BackendBench) -> None:
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
