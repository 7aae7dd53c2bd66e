"""The newton backend on real assets: commands, rows, signs, resets, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pxr import Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.runtime.kinematics import Kinematics

pytest.importorskip("newton", reason="Newton has an environment of its own: make test-newton")
from usd_ros_bridge.backends.newton import NewtonBackend

ROOT = Path(__file__).parents[2]
ARM = ROOT / "examples" / "arm" / "arm.usda"
WORLD = ROOT / "examples" / "rover" / "world.usda"
ASSETS = ROOT / "test" / "assets"
STEP = 2_000_000
FLOAT32 = 2e-6


class Run:
    """An open backend, stepped by its own steps from zero."""

    def __init__(self, plan: BridgePlan, **options: str) -> None:
        self.plan = plan
        self.reports: list[tuple[str, str]] = []
        self.backend = NewtonBackend()
        self.backend.open(
            BackendContext(plan=plan, options=options, report=lambda *said: self.reports.append(said))
        )
        self.steps = 0

    def step(self, steps: int = 1, commands: Commands | None = None) -> State:
        for _ in range(steps):
            nothing = commands or Commands(self.plan.layout)
            state = self.backend.step(self.steps * self.backend.capabilities.step_ns, nothing)
            self.steps += 1
            commands = None
        return state

    def commands(self) -> Commands:
        return Commands(self.plan.layout)


@pytest.fixture(scope="module")
def arm() -> Iterator[Run]:
    run = Run(load_plan(ARM))
    yield run
    run.backend.close()


@pytest.fixture(scope="module")
def rover() -> Iterator[Run]:
    run = Run(load_plan(WORLD))
    yield run
    run.backend.close()


def restart(run: Run) -> Run:
    run.backend.reset()
    run.steps = 0
    return run


def test_it_starts_where_the_plan_is_at_rest(arm: Run) -> None:
    # But for what gravity does in the one step that the first call makes.
    state = restart(arm).step()
    assert_allclose(state.joint_position, arm.plan.layout.joint_position, atol=1e-3)
    assert_allclose(state.body_pose, arm.plan.layout.body_pose, atol=1e-3)


def test_drives_go_where_commands_say_and_bodies_with_them(arm: Run) -> None:
    commands = restart(arm).commands()
    target = np.linspace(0.1, 0.4, len(arm.plan.layout.dofs)).clip(max=arm.plan.layout.upper)
    commands.joint_position[:] = target
    arm.step()
    state = arm.step(1500, commands)
    followers = [arm.plan.layout.dofs.index("right_finger_joint")]
    assert_allclose(
        np.delete(state.joint_position, followers), np.delete(target, followers), atol=0.01, rtol=0.0
    )
    kinematics = Kinematics(arm.plan)
    poses = kinematics.body_poses(state, kinematics.edge_poses(state.joint_position))
    assert_allclose(state.body_pose, poses, atol=1e-4)


def test_a_mimic_joint_follows(arm: Run) -> None:
    names = arm.plan.layout.dofs
    left, right = names.index("left_finger_joint"), names.index("right_finger_joint")
    commands = restart(arm).commands()
    commands.joint_position[left] = 0.03
    arm.step()
    state = arm.step(1000, commands)
    assert_allclose(state.joint_position[[left, right]], 0.03, atol=5e-4)


def test_efforts_are_those_that_hold_the_arm_up(arm: Run) -> None:
    commands = restart(arm).commands()
    shoulder = arm.plan.layout.dofs.index("joint_2")
    commands.joint_position[shoulder] = 1.0
    arm.step()
    state = arm.step(1500, commands)
    error = 1.0 - state.joint_position[shoulder]
    assert abs(error) > 1e-4
    assert_allclose(state.joint_effort[shoulder], 4000.0 * error, rtol=0.02)


def test_wheels_drive_the_rover(rover: Run) -> None:
    commands = restart(rover).commands()
    commands.joint_velocity[:] = 5.0
    start = rover.step().body_pose[0].copy()
    state = rover.step(1000, commands)
    assert 0.8 < state.body_pose[0, 0] - start[0] < 1.0
    before, turned = state.body_pose[0, 0], state.joint_position.mean()
    state = rover.step(300)
    assert_allclose(state.body_pose[0, 0] - before, (state.joint_position.mean() - turned) * 0.1, rtol=0.03)


def test_a_twist_is_that_of_the_origin(rover: Run) -> None:
    """Differences of the positions of origins, not of centres of mass: the rover's is 0.08 m behind."""
    commands = restart(rover).commands()
    commands.joint_velocity[:] = [-5.0, 5.0]
    rover.step()
    before = rover.step(500, commands).body_pose[0, :3].copy()
    state = rover.step()
    moved = (state.body_pose[0, :3] - before) / (STEP * 1e-9)
    assert abs(state.body_twist[0, 5]) > 1.0
    assert_allclose(state.body_twist[0, :2], moved[:2], atol=5e-3)


def test_a_free_body_can_be_put_elsewhere_and_others_cannot(rover: Run) -> None:
    commands = restart(rover).commands()
    rover.step()
    commands.body_pose[0] = [1.0, -2.0, 0.001, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]
    commands.body_pose[1] = commands.body_pose[0]
    rover.reports.clear()
    state = rover.step(1, commands)
    assert_allclose(state.body_pose[0, :3], [1.0, -2.0, 0.001], atol=1e-3)
    assert_allclose(np.abs(state.body_pose[0, 5:]), np.sqrt(0.5), atol=1e-3)
    assert_allclose(state.body_pose[1, :2], [1.0 - 0.165, -2.0], atol=2e-3)
    assert [kind for kind, _ in rover.reports] == ["newton.pose"]
    assert rover.plan.layout.bodies[1] in rover.reports[0][1]


def test_a_reset_repeats_the_same_steps_exactly(rover: Run) -> None:
    states = []
    for _ in range(2):
        commands = restart(rover).commands()
        commands.joint_velocity[:] = [2.0, 6.0]
        rover.step()
        states.append(rover.step(400, commands).body_pose.copy())
    assert_array_equal(states[0], states[1])


def test_many_steps_at_once_are_the_same_as_one_by_one(rover: Run) -> None:
    results = []
    for stride in (1, 40):
        commands = restart(rover).commands()
        commands.joint_velocity[:] = [3.0, 4.0]
        rover.backend.step(0, rover.commands())
        for last in range(stride, 401, stride):
            state = rover.backend.step(last * STEP, commands)
        results.append(state.body_pose.copy())
    assert_array_equal(results[0], results[1])


def test_time_is_that_of_its_own_steps(rover: Run) -> None:
    restart(rover)
    start = 1_700_000_000_000_000_000
    assert rover.backend.step(start, rover.commands()).time_ns == start
    assert rover.backend.step(start + 5 * STEP + 1, rover.commands()).time_ns == start + 5 * STEP


@pytest.mark.parametrize(
    ("asset", "options", "match"),
    [
        (ARM, {"device": "cuda:77"}, "device .* there are: cpu"),
        (ARM, {"dt": "0"}, "1e-06 to 0.1 s"),
        (ARM, {"schema_resolvers": "newton,bullet"}, "schema_resolvers .* newton, physx"),
        (ASSETS / "units_centimetres_y_up.usda", {}, "metres and kilograms"),
        (ASSETS / "joint_inverted.usda", {}, "newton cannot import the stage: .*hinge"),
    ],
)
def test_what_is_not_possible_is_one_line(asset: Path, options: dict[str, str], match: str) -> None:
    with pytest.raises(BackendError, match=match) as caught:
        Run(load_plan(asset), **options)
    assert "\n" not in str(caught.value)


def test_a_plan_without_a_stage_is_refused() -> None:
    with pytest.raises(BackendError, match="made without"):
        Run(BridgePlan(asset="none"))


MOVING = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
    timeCodesPerSecond = 10
)
def Xform "World" {
    def PhysicsScene "scene" {
    }
    def Xform "platform" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI", "RosContextAPI"]) {
        string ros:context:namespace = "platform"
        bool physics:kinematicEnabled = true
        double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 20: (0, 1, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Cube "top" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double size = 1
        }
    }
    def Xform "load" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosContextAPI"]) {
        string ros:context:namespace = "load"
        double3 xformOp:translate = (0, 0, 0.6)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double size = 0.2
        }
    }
}
"""


def test_kinematic_bodies_follow_their_time_samples_and_carry() -> None:
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(MOVING)
    run = Run(load_plan(stage, physics=True))
    platform, load = (run.plan.layout.bodies.index(f"/World/{name}") for name in ("platform", "load"))
    for _ in range(2):
        # The first call is one step on from rest.
        state = run.step(500)
        assert_allclose(state.body_pose[platform, :3], [0.0, 0.5, 0.0], atol=1e-5)
        assert state.body_twist is not None
        assert_allclose(state.body_twist[platform], [0, 0.5, 0, 0, 0, 0], atol=1e-5)
        assert state.body_pose[load, 1] == pytest.approx(0.5, abs=0.05)
        assert state.body_pose[load, 2] == pytest.approx(0.6, abs=0.01)
        run.backend.reset()
        run.steps = 0
    assert run.reports == []


@pytest.mark.parametrize(
    ("drives", "position", "velocity"),
    [("none", {0, 1}, {0, 1}), ("one", {1}, {1}), ("damped", {1}, set()), ("both", set(), set())],
)
def test_what_newtons_drives_do_not_move_is_unmoved(
    drives: str, position: set[int], velocity: set[int]
) -> None:
    selected = ReadOptions(variants=(VariantSelection("/robot", "drives", drives),))
    run = Run(load_plan(ASSETS / "actuation_drives.usda", read_options=selected))
    unmoved = run.backend.capabilities.unmoved
    for interface, expected in (("position", position), ("velocity", velocity), ("effort", set())):
        found = {row for group in unmoved[interface] for row in group.rows}  # type: ignore[index]
        assert found == expected, interface
    commands = run.commands()
    commands.joint_position[:] = 0.3
    reached = np.abs(run.step(500, commands).joint_position - 0.3) < 0.02
    run.backend.close()
    assert set(np.flatnonzero(~reached).tolist()) == position
