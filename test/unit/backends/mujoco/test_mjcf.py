"""The format mjcf. Plain MuJoCo is the oracle: it loads the file as the same model, which moves as the bridge's."""

from __future__ import annotations

import math
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from builders.stage_text import BALL, body, plan_text, world
from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
import numpy as np
from spec_scenes import UNIT, Reports

from cli_calls import call_cli
from hidden_modules import start_without
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.mujoco.backend import make_builder
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.mjcf import MJCF
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.exporters import ExportContext
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Dof, Drive, Inertial, Joint, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.pose import Pose

ROOT = Path(__file__).parents[4]
EXAMPLES = [
    "examples/arm/arm.usda",
    "examples/rover/rover.usda",
    "examples/rover/world.usda",
    "examples/fleet/fleet.usda",
    "examples/mujoco_loop/pan_tilt.usda",
]
ASSETS = [
    "actuation_drives",
    "controller_diff_drive",
    "controller_gripper",
    "frame_floating_base",
    "isaac_robot",
    "joint_initial_state",
    "joint_inverted",
    "joint_loop",
    "joint_mimic",
    "joint_several_per_edge",
    "joint_solver_attributes",
    "joint_types",
    "physics_actuators",
    "physics_masses",
    "physics_scene",
    "scale_on_body",
    "units_centimetres_y_up",
]
WILD = {"fleet", "physics_scene"}
"""Contacts and a joint at 1,000 rad/s: differences of the last digit grow."""
NEITHER = (
    "key_", "nkey", "name_", "nnames", "names", "nbuffer", "npaths", "paths", "mesh_pathadr", "signature", "narena",
    # MuJoCo's reader gives equalities of joints no type of object; nothing reads it.
    "eq_objtype",
    # Where masses are scaled, the bridge's are those before; nothing is simulated with them.
    "meanmass", "meaninertia",
)  # fmt: skip
"""What the keyframe and the files add, and what has no meaning for a simulation."""


def exported(plan: BridgePlan, path: Path | None, **options: Any) -> Any:
    """Return the model that plain MuJoCo loads."""
    given = {"timestep": None, "no_decompose": False, **options}
    stream = BytesIO()
    MJCF.write(ExportContext(plan=plan, options=given, path=path, report=Reports()), stream)
    if path is None:
        return mujoco.MjModel.from_xml_string(stream.getvalue().decode())
    path.write_bytes(stream.getvalue())
    return mujoco.MjModel.from_xml_path(str(path))


def compiled(plan: BridgePlan) -> Any:
    assert plan.physics is not None
    return compile_model(make_builder(plan, plan.physics, Reports(), MujocoOptions()))


def numbers(owner: Any) -> dict[str, Any]:
    """Return all numbers and arrays of a model, or of a part of one."""
    found = {name: getattr(owner, name, None) for name in dir(owner) if not name.startswith("_")}
    return {
        name: np.asarray(value)
        for name, value in found.items()
        if isinstance(value, np.ndarray | int | float) and not name.startswith(NEITHER)
    }


def assert_equal(model: Any, loaded: Any, *, tolerance: float = 1e-14) -> None:
    for one, other in ((model, loaded), *((getattr(model, p), getattr(loaded, p)) for p in ("opt", "stat"))):
        expected, found = numbers(one), numbers(other)
        assert expected.keys() == found.keys()
        for name, values in expected.items():
            assert values.shape == found[name].shape, name
            np.testing.assert_allclose(
                found[name].astype(float), values.astype(float), rtol=tolerance, atol=tolerance, err_msg=name
            )


def assert_same_motion(simulation: Simulation, loaded: Any, *, tolerance: float) -> None:
    """Move the bridge's simulation and plain MuJoCo for 2 s by the same controls, and compare every tenth step."""
    model, data = simulation.model, mujoco.MjData(loaded)
    mujoco.mj_resetDataKeyframe(loaded, data, 0)
    rates = np.random.default_rng(4).uniform(0.5, 3.0, model.nu)
    start = data.ctrl.copy()
    steps = round(2.0 / model.opt.timestep)
    for step in range(steps):
        controls = start + 0.3 * np.sin(rates * data.time)
        data.ctrl[:] = simulation.data.ctrl[:] = controls
        mujoco.mj_step(loaded, data)
        simulation.step(1)
        if step % 10 == 9:
            for name in ("qpos", "qvel"):
                ours, theirs = getattr(simulation.data, name), getattr(data, name)
                scale = 1.0 + np.abs(theirs).max(initial=0.0)
                np.testing.assert_allclose(theirs, ours, atol=tolerance * scale, err_msg=name)
    assert data.time == pytest.approx(2.0, abs=model.opt.timestep)


@each_case("asset", [*EXAMPLES, *(f"test/assets/{name}.usda" for name in ASSETS)])
def test_plain_mujoco_loads_the_same_model_and_moves_it_alike(asset: str, tmp_path: Path) -> None:
    plan = load_plan(ROOT / asset, physics=True)
    loaded = exported(plan, tmp_path / "robot.xml")
    ours = compiled(plan)
    assert_equal(ours.model, loaded)
    assert_same_motion(Simulation(ours), loaded, tolerance=1e-3 if Path(asset).stem in WILD else 1e-9)


@pytest.mark.parametrize("asset", EXAMPLES[:2])
def test_without_a_file_the_document_has_its_meshes(asset: str) -> None:
    plan = load_plan(ROOT / asset, physics=True)
    assert_equal(compiled(plan).model, exported(plan, None))


def scene_plan(scene: PhysicsScene) -> BridgePlan:
    return BridgePlan(asset="robot.usda", physics=scene)


def arm_with(dof: Dof, **solver: float) -> BridgePlan:
    joint = Joint(path="/hinge", type="revolute", body0=WORLD_BODY, body1=0, dofs=(dof,))
    body = Body(
        path="/link",
        joints=(0,),
        inertial=Inertial(mass=1.5, diagonal=(0.1, 0.2, 0.3), center=(0.1, 0.2, -0.3)),
    )
    return scene_plan(PhysicsScene(bodies=(body,), joints=(joint,), solver=solver))


ACCELERATION = Drive(acceleration=True, stiffness=25.0, damping=10.0, target_position=1.0)


@each_case(
    "plan",
    [
        arm_with(Dof(axis="rotY", drive=ACCELERATION)),
        arm_with(Dof(axis="rotY", lower=-1.0, upper=0.0, limit_stiffness=50.0, limit_damping=0.1)),
        arm_with(Dof(axis="rotX", velocity=0.1234567890123), total_mass=14.0 / 3.0),
        arm_with(Dof(axis="rotZ"), bound_mass=2.0, bound_inertia=1.0 / 3.0),
        scene_plan(
            PhysicsScene(
                bodies=(Body(path="/weight", inertial=UNIT, joints=(0,), world_from_body=Pose((0.0, 0.1, -0.3))),),
                joints=(Joint(path="/rod", type="distance", body0=WORLD_BODY, body1=0, distance=(0.4, 0.4)),),
            )
        ),
        scene_plan(
            PhysicsScene(
                gravity=(0.0, 1.0 / 3.0, -math.pi),
                timestep=0.0017,
                bodies=(
                    Body(
                        path="/thrown",
                        inertial=UNIT,
                        linear_velocity=(1 / 7, 2.0, 3.0),
                        angular_velocity=(0.1, 0.2, 0.3),
                    ),
                    Body(path="/still", kinematic=True, inertial=UNIT),
                ),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_set_after_the_model_is_compiled_is_in_the_file(plan: BridgePlan, tmp_path: Path) -> None:
    loaded = exported(plan, tmp_path / "robot.xml")
    ours = compiled(plan)
    ours.model.opt.timestep = Simulation(ours).step_ns * 1e-9
    ours.model.opt.disableflags = loaded.opt.disableflags
    assert_equal(ours.model, loaded, tolerance=1e-12)
    assert_same_motion(Simulation(ours), loaded, tolerance=1e-9)


def test_the_command_writes_a_file_that_may_be_moved(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    done = call_cli("export", ROOT / EXAMPLES[1], "-o", first / "rover.xml")
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in first.iterdir()) == ["rover.xml", "rover_meshes"]
    shutil.move(first, tmp_path / "second")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "second" / "rover.xml"))
    assert model.nmesh == len(list((tmp_path / "second" / "rover_meshes").iterdir()))
    assert {model.joint(index).name for index in range(model.njnt)} >= {"/rover", "/rover/left_wheel_joint"}


def test_the_step_can_be_chosen() -> None:
    plan = load_plan(ROOT / EXAMPLES[1], physics=True)
    assert exported(plan, None, timestep=0.0025).opt.timestep == 0.0025
    for step in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(OptionError, match=r"--timestep: .* is no number of seconds above 0"):
            exported(plan, None, timestep=step)


def test_damping_and_moving_surfaces_are_named_as_lost() -> None:
    damped, belt = (
        "float physxRigidBody:linearDamping = 0.5",
        "vector3f physxSurfaceVelocity:surfaceVelocity = (1, 0, 0)",
    )
    plan = plan_text(world(body("a", BALL, damped), body("b", BALL, damped), body("c", BALL, belt)))
    context = ExportContext(plan=plan, options={"timestep": None}, path=None, report=Reports())
    found = MJCF.write(context, BytesIO())
    assert [(each.code, each.path, each.attribute) for each in found] == [
        ("1.4.degraded", "/World/a", "physxRigidBody:linearDamping"),
        ("1.4.degraded", "/World/b", "physxRigidBody:linearDamping"),
        ("1.4.degraded", "/World/c", "physxSurfaceVelocity:surfaceVelocity"),
    ]


def test_nothing_to_simulate_is_one_line() -> None:
    done = call_cli("export", ROOT / "test/assets/topic_qos.usda", "--format", "mjcf")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("has no rigid body: there is nothing to simulate")


@pytest.mark.process
def test_without_mujoco_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = "from usd_ros_bridge.entry_points import usd_ros_bridge; usd_ros_bridge()"
    done = start_without(
        "mujoco", code, "export", EXAMPLES[0], "-o", str(tmp_path / "arm.xml"), directory=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        'usd_ros_bridge: exporter mjcf cannot be loaded: no module mujoco: pip install "mujoco>=3.3"'
    )
