"""Overrides of a stage on its session layer. Oracle: the arrays of the compiled MuJoCo model, in its own units."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from open_backends import OpenBackend
from override_stages import STAGE, VARIANTS, body, geom
from usd_ros_bridge.api import load_plan, reread
from usd_ros_bridge.backends.mujoco.backend import MujocoBackend
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, parse_variants
from usd_ros_bridge.usd.session import Override, PrimPlacement, StageOverrides, StageSession

pytest.importorskip("mujoco")
pytest.importorskip("pxr")

DEGREE = math.pi / 180.0
TORQUE = 0.001 * 0.01**2
"""kg m^2/s^2 of a torque in the units of the stage."""


class Change(NamedTuple):
    """An override, before its targets are found."""

    select: str
    attribute: str
    value: Any
    operation: Any = "set"


def apply(overrides: StageOverrides, plan: BridgePlan, *changes: Change, **placed: Any) -> None:
    """Replace the overrides of a stage."""
    assert plan.physics is not None
    masses = {body.path: body.inertial.mass for body in plan.physics.bodies}
    overrides.clear()
    overrides.apply(
        [
            Override(target=target, operation=each.operation, value=each.value)
            for each in changes
            for target in overrides.find(each.select, each.attribute, masses)
        ],
        **placed,
    )


def simulated(plan: BridgePlan) -> Any:
    """Return the MuJoCo simulation, at its start, of the stage as it is now: `model` and `data`."""
    backend = MujocoBackend()
    OpenBackend(reread(plan, PlanOptions())(), backend, gl="none")
    found = backend.simulation
    backend.close()
    return found


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., Any]:
    """Return what compiles the stage with some changes, and returns the MuJoCo model."""
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")

    def compile_changed(*changes: Change) -> Any:
        plan = load_plan(tmp_path / "world.usda", physics=True)
        apply(StageSession(plan.stage).overrides(), plan, *changes)
        return simulated(plan).model

    return compile_changed


def test_mass_is_set_scaled_and_added_and_inertia_goes_with_it(compiled: Any) -> None:
    before = compiled()
    one = body(before, "one")
    for operation, value, mass in (
        ("set", 5000.0, 5.0),
        ("set", 6000, 6.0),
        ("scale", 1.5, 3.0),
        ("add", 500.0, 2.5),
    ):
        model = compiled(Change("/World/one", "mass", value, operation))
        assert model.body_mass[one] == pytest.approx(mass)
        np.testing.assert_allclose(model.body_inertia[one], before.body_inertia[one] * mass / 2.0, rtol=1e-6)
        np.testing.assert_array_equal(np.delete(model.body_mass, one), np.delete(before.body_mass, one))


def test_a_body_whose_mass_follows_from_its_density_is_scaled(compiled: Any) -> None:
    before = compiled()
    two = body(before, "two")
    volume = 4.0 / 3.0 * math.pi * 0.1**3
    assert before.body_mass[two] == pytest.approx(1000.0 * volume, rel=1e-6)
    model = compiled(Change("/World/two", "mass", 2.0, "scale"))
    assert model.body_mass[two] == pytest.approx(2000.0 * volume, rel=1e-6)
    np.testing.assert_allclose(model.body_inertia[two], 2.0 * before.body_inertia[two], rtol=1e-6)
    assert model.body_mass[body(model, "arm")] == pytest.approx(0.5)


def test_a_collection_and_a_glob_select_prims(compiled: Any) -> None:
    model = compiled(Change("/World.collection:balls", "mass", 1000.0))
    masses = [model.body_mass[body(model, name)] for name in ("one", "two", "arm")]
    assert masses == pytest.approx([1.0, 1.0, 0.5])
    model = compiled(Change("/World/*", "mass", 1000.0))
    assert model.body_mass[body(model, "arm")] == pytest.approx(0.5)
    model = compiled(Change("/World/**", "mass", 1000.0))
    assert model.body_mass[1:] == pytest.approx([1.0, 1.0, 1.0])


def test_friction_of_a_collider_with_a_shared_material_is_its_own(compiled: Any) -> None:
    model = compiled(Change("/World/one", "friction", 0.9))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.5, 0.9, 0.5])
    model = compiled(Change("/World/two", "friction", 2.0, "scale"))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.5, 0.5, 1.0])


def test_friction_of_a_material_is_that_of_all_its_colliders(compiled: Any) -> None:
    model = compiled(Change("/World/shared", "friction", 0.5, "scale"))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.25, 0.25, 0.25])


def test_a_collider_without_a_material_gets_one(compiled: Any) -> None:
    model = compiled(Change("/World/two/arm", "friction", 0.3))
    assert model.geom_friction[geom(model, "hand"), 0] == pytest.approx(0.3)
    with pytest.raises(OptionError, match="staticFriction cannot be changed by scale: it has none"):
        compiled(Change("/World/two/arm", "friction", 0.3, "scale"))


def test_a_glob_over_materials_and_colliders_scales_once(compiled: Any) -> None:
    model = compiled(Change("/World/**", "friction", 0.5), Change("/World/**", "friction", 0.5, "scale"))
    assert model.geom_friction[geom(model, "one"), 0] == pytest.approx(0.25)


def test_gains_of_a_drive_are_in_the_units_of_the_stage(compiled: Any) -> None:
    def gains(model: Any) -> tuple[float, float]:
        stiffness = max(model.actuator_gainprm[:, 0])
        damping = max(-model.actuator_biasprm[:, 2].min(), model.dof_damping.max())
        return float(stiffness), float(damping)

    stiffness, damping = gains(compiled())
    assert stiffness == pytest.approx(3e6 * TORQUE / DEGREE, rel=1e-6)
    assert damping == pytest.approx(2e4 * TORQUE / DEGREE, rel=1e-6)
    scaled = compiled(Change("/World/hinge", "stiffness", 2.0, "scale"), Change("/World/h*", "damping", 6e4))
    assert gains(scaled) == pytest.approx((2 * stiffness, 3 * damping), rel=1e-6)


def test_gravity_is_in_the_units_of_the_stage(compiled: Any) -> None:
    assert compiled().opt.gravity == pytest.approx([0, 0, -9.81])
    assert compiled(Change("/World/scene", "gravity", 162.0)).opt.gravity == pytest.approx([0, 0, -1.62])
    assert compiled(Change("/World/**", "gravity", 0.5, "scale")).opt.gravity[2] == pytest.approx(-4.905)
    tilted = compiled(Change("/World/scene", "physics:gravityDirection", (3, 0, -4)))
    assert tilted.opt.gravity == pytest.approx([0.6 * 9.81, 0, -0.8 * 9.81])


def test_any_attribute_can_be_changed_by_name(compiled: Any) -> None:
    model = compiled(Change("/World/hinge", "physics:upperLimit", 45.0))
    (row,) = [row for row in range(model.njnt) if model.joint(row).name.endswith("hinge")]
    assert model.jnt_range[row] == pytest.approx([-math.pi / 2, math.pi / 4])
    model = compiled(Change("/World/**", "physics:dynamicFriction", 0.1))
    assert model.geom_friction[geom(model, "ground"), 0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        (Change("/World/oen", "mass", 1.0), r"there is no prim '/World/oen'; did you mean"),
        (Change("/World/x*", "mass", 1.0), r"'/World/x\*' selects no prim"),
        (Change("World", "mass", 1.0), r"'World' is no absolute prim path"),
        (
            Change("/World.collection:bals", "mass", 1.0),
            "no collection '/World.collection:bals'; did you mean",
        ),
        (
            Change("/World/ground", "mass", 1.0),
            "'/World/ground' selects no body, whose mass could be changed",
        ),
        (Change("/World/one", "damping", 1.0), "selects no joint with a drive"),
        (Change("/World/one", "gravity", 1.0), "selects no PhysicsScene"),
        (
            Change("/World/one", "physics:mas", 1.0),
            "has an attribute 'physics:mas'; did you mean physics:mass",
        ),
        (Change("/World/one", "physics:mass", "heavy"), "'heavy' is no value of physics:mass"),
        (Change("/World/one", "physics:mass", True), "'True' is no value of physics:mass"),
        (Change("/World/one", "physics:mass", 1e39), "is no value of physics:mass"),
        (Change("/World/one", "physics:velocity", (1, 2)), "is no value of physics:velocity"),
    ],
)
def test_an_impossible_change_is_one_line(compiled: Any, impossible: Change, message: str) -> None:
    with pytest.raises(BridgeError, match=message) as caught:
        compiled(impossible)
    assert "\n" not in str(caught.value)


def test_the_files_stay_as_they_are(compiled: Any, tmp_path: Path) -> None:
    compiled(Change("/World/**", "mass", 1.0), Change("/World/**", "friction", 1.0))
    assert (tmp_path / "world.usda").read_text(encoding="utf-8") == STAGE


def test_colliders_in_instances_are_changed_too(compiled: Any, tmp_path: Path) -> None:
    instanced = STAGE.replace('def Xform "two" (', 'def Xform "two" (\n        instanceable = false\n', 1)
    robot = (
        '#usda 1.0\n(\n    defaultPrim = "b"\n)\ndef Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])\n{\n'
        '    def Xform "in" (instanceable = true, references = @./in.usda@)\n    {\n    }\n}\n'
    )
    (tmp_path / "robot.usda").write_text(
        robot.replace(", references", "\n        references"), encoding="utf-8"
    )
    (tmp_path / "in.usda").write_text(
        '#usda 1.0\n(\n    defaultPrim = "a"\n)\ndef Xform "a"\n{\n'
        '    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"])\n'
        "    {\n        double radius = 10\n    }\n}\n",
        encoding="utf-8",
    )
    both = "".join(
        f'    def "{name}" (references = @./robot.usda@)\n    {{\n'
        f"        double3 xformOp:translate = (0, {row}, 200)\n"
        '        uniform token[] xformOpOrder = ["xformOp:translate"]\n    }\n'
        for name, row in (("left", 100), ("right", -100))
    )
    (tmp_path / "world.usda").write_text(instanced.rstrip()[:-1] + both + "}\n", encoding="utf-8")
    model = compiled(Change("/World/left", "friction", 0.123))
    assert model.geom_friction[geom(model, "left/in/ball"), 0] == pytest.approx(0.123)
    assert model.geom_friction[geom(model, "right/in/ball"), 0] != pytest.approx(0.123)


def test_variants_and_overrides_replace_those_before(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    plan = load_plan(tmp_path / "world.usda", physics=True)
    overrides = StageSession(plan.stage).overrides()
    for load, factor, mass in (("full", 2.0, 12.0), ("empty", 3.0, 6.0)):
        overrides.select_variants(parse_variants([f"/World:load={load}"]))
        apply(overrides, plan, Change("/World/group/ball", "physics:mass", factor, "scale"))
        model = simulated(plan).model
        assert model.body_mass[body(model, "ball")] == pytest.approx(mass)


def pose_of(simulation: Any, name: str) -> Any:
    """Return the pose of a body, (7,): x y z in metres, then the unit quaternion x y z w."""
    row = body(simulation.model, name)
    return np.concatenate((simulation.data.xpos[row], simulation.data.xquat[row][[1, 2, 3, 0]]))


@pytest.mark.parametrize("turned", [False, True])
def test_a_placement_is_in_the_ros_world_whatever_the_axes_and_units_of_the_stage(
    tmp_path: Path, turned: bool
) -> None:
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    plan = load_plan(tmp_path / "world.usda", physics=True)
    before = pose_of(simulated(plan), "ball")
    rotation = np.array([0.0, 0.6, 0.0, 0.8]) if turned else None
    placement = PrimPlacement(prim="/World/group/ball", position=np.array([1.0, 2.0, 3.0]), rotation=rotation)
    apply(StageSession(plan.stage).overrides(), plan, placements=[placement])
    after = pose_of(simulated(plan), "ball")
    np.testing.assert_allclose(after[:3], [1.0, 2.0, 3.0], atol=1e-6)
    assert abs(after[3:] @ (rotation if turned else before[3:])) == pytest.approx(1.0)


def test_joints_start_where_they_are_put(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")
    plan = load_plan(tmp_path / "world.usda", physics=True)
    overrides = StageSession(plan.stage).overrides()
    apply(overrides, plan, joint_positions={"/World/hinge": 0.5})
    simulation = simulated(plan)
    (row,) = [
        row for row in range(simulation.model.njnt) if simulation.model.joint(row).name.endswith("hinge")
    ]
    assert simulation.data.qpos[simulation.model.jnt_qposadr[row]] == pytest.approx(0.5)
    with pytest.raises(OptionError, match="joints: '/World/one' is no revolute or prismatic joint"):
        apply(overrides, plan, joint_positions={"/World/one": 0.5})
    with pytest.raises(OptionError, match="poses: '/World/no' is no prim that can be placed"):
        apply(overrides, plan, placements=[PrimPlacement(prim="/World/no")])
