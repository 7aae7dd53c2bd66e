"""Overrides of a sweep. Oracle: the arrays of the compiled MuJoCo model, in its own units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.sweep.distributions import Normal, Uniform
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import FunctionDriver, Randomization, StartPose, Sweep
from usd_ros_bridge.sweep.sweep_run import RunWorker

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("pxr")
pytest.importorskip("rclpy")

pytestmark = pytest.mark.app

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    kilogramsPerUnit = 0.001
    upAxis = "Z"
)
def Xform "World" (
    prepend apiSchemas = ["CollectionAPI:balls"]
)
{
    uniform token collection:balls:expansionRule = "explicitOnly"
    rel collection:balls:includes = [</World/one>, </World/two>]
    def PhysicsScene "scene" {}
    def Material "shared" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {
        float physics:staticFriction = 0.6
        float physics:dynamicFriction = 0.5
        float physics:restitution = 0
    }
    def Cube "ground" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        double size = 100
        rel material:binding = </World/shared>
        double3 xformOp:translate = (0, 0, -50)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Sphere "one" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI", "MaterialBindingAPI"]
    )
    {
        double radius = 10
        float physics:mass = 2000
        float3 physics:diagonalInertia = (1000, 2000, 3000)
        rel material:binding = </World/shared>
        double3 xformOp:translate = (0, 0, 10)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Xform "two" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        double3 xformOp:translate = (100, 0, 10)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Sphere "shape" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
        {
            double radius = 10
            rel material:binding = </World/shared>
        }
        def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {
            float physics:mass = 500
            def Sphere "hand" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {
                double radius = 5
            }
        }
    }
    def PhysicsRevoluteJoint "hinge" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
    {
        uniform token physics:axis = "Z"
        rel physics:body0 = </World/two>
        rel physics:body1 = </World/two/arm>
        float drive:angular:physics:stiffness = 3000000
        float drive:angular:physics:damping = 20000
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
    }
}
"""
DEGREE = math.pi / 180.0
TORQUE = 0.001 * 0.01**2
"""kg m^2/s^2 of a torque in the units of the stage."""


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """Return what makes a run of no time over a stage, and returns its MuJoCo model and the drawn values."""
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")

    def compile_run(*randomize: Randomization, seed: int = 1, **fields: Any) -> tuple[Any, Any]:
        found: list[Any] = []

        def look(run: RunContext) -> None:
            found.append(run.backend.simulation.model)  # type: ignore[attr-defined]
            run.stop("seen")

        sweep = Sweep(
            name="s",
            asset="world.usda",
            duration=1.0,
            backend="mujoco",
            directory=str(tmp_path),
            randomize=randomize,
            driver=FunctionDriver(function=look),
            **fields,
        )
        worker = RunWorker(sweep)
        try:
            outcome = worker.run(RunSpec(index=0, id="run", parameters={"p": 3.0}, seed=seed))
        finally:
            worker.close()
        if outcome.outcome == "failed":
            raise OptionError(outcome.reason)
        assert outcome.reason == "seen"
        return found[0], outcome.drawn

    return compile_run


def body(model: Any, name: str) -> int:
    """Return the index of a body whose name ends so."""
    names = [model.body(row).name for row in range(model.nbody)]
    (found,) = [row for row, each in enumerate(names) if each.endswith(name)]
    return found


def geom(model: Any, name: str) -> int:
    """Return the index of a geom whose name ends so."""
    names = [model.geom(row).name for row in range(model.ngeom)]
    (found,) = [row for row, each in enumerate(names) if each.endswith(name)]
    return found


def change(select: str, attribute: str, value: Any, operation: Any = "set", **more: Any) -> Randomization:
    """Return a randomisation."""
    return Randomization(select=select, attribute=attribute, value=value, operation=operation, **more)


def test_mass_is_set_scaled_and_added_and_inertia_goes_with_it(compiled: Any) -> None:
    before, _ = compiled()
    one = body(before, "one")
    for operation, value, mass in (
        ("set", 5000.0, 5.0),
        ("set", 6000, 6.0),
        ("scale", 1.5, 3.0),
        ("add", 500.0, 2.5),
    ):
        model, _ = compiled(change("/World/one", "mass", value, operation))
        assert model.body_mass[one] == pytest.approx(mass)
        np.testing.assert_allclose(model.body_inertia[one], before.body_inertia[one] * mass / 2.0, rtol=1e-6)
        np.testing.assert_array_equal(np.delete(model.body_mass, one), np.delete(before.body_mass, one))


def test_a_body_whose_mass_follows_from_its_density_is_scaled(compiled: Any) -> None:
    before, _ = compiled()
    two = body(before, "two")
    volume = 4.0 / 3.0 * math.pi * 0.1**3
    assert before.body_mass[two] == pytest.approx(1000.0 * volume, rel=1e-6)
    model, _ = compiled(change("/World/two", "mass", 2.0, "scale"))
    assert model.body_mass[two] == pytest.approx(2000.0 * volume, rel=1e-6)
    np.testing.assert_allclose(model.body_inertia[two], 2.0 * before.body_inertia[two], rtol=1e-6)
    assert model.body_mass[body(model, "arm")] == pytest.approx(0.5)


def test_a_collection_and_a_glob_select_prims(compiled: Any) -> None:
    model, _ = compiled(change("/World.collection:balls", "mass", 1000.0))
    masses = [model.body_mass[body(model, name)] for name in ("one", "two", "arm")]
    assert masses == pytest.approx([1.0, 1.0, 0.5])
    model, _ = compiled(change("/World/*", "mass", 1000.0))
    assert model.body_mass[body(model, "arm")] == pytest.approx(0.5)
    model, _ = compiled(change("/World/**", "mass", 1000.0))
    assert model.body_mass[1:] == pytest.approx([1.0, 1.0, 1.0])


def test_friction_of_a_collider_with_a_shared_material_is_its_own(compiled: Any) -> None:
    model, _ = compiled(change("/World/one", "friction", 0.9))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.5, 0.9, 0.5])
    model, _ = compiled(change("/World/two", "friction", 2.0, "scale"))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.5, 0.5, 1.0])


def test_friction_of_a_material_is_that_of_all_its_colliders(compiled: Any) -> None:
    model, _ = compiled(change("/World/shared", "friction", 0.5, "scale"))
    slide = [model.geom_friction[geom(model, name), 0] for name in ("ground", "one", "two/shape")]
    assert slide == pytest.approx([0.25, 0.25, 0.25])


def test_a_collider_without_a_material_gets_one(compiled: Any) -> None:
    model, _ = compiled(change("/World/two/arm", "friction", 0.3))
    assert model.geom_friction[geom(model, "hand"), 0] == pytest.approx(0.3)
    with pytest.raises(OptionError, match="staticFriction cannot be changed by scale: it has none"):
        compiled(change("/World/two/arm", "friction", 0.3, "scale"))


def test_a_glob_over_materials_and_colliders_scales_once(compiled: Any) -> None:
    model, _ = compiled(change("/World/**", "friction", 0.5), change("/World/**", "friction", 0.5, "scale"))
    assert model.geom_friction[geom(model, "one"), 0] == pytest.approx(0.25)


def test_gains_of_a_drive_are_in_the_units_of_the_stage(compiled: Any) -> None:
    def gains(model: Any) -> tuple[float, float]:
        stiffness = max(model.actuator_gainprm[:, 0])
        damping = max(-model.actuator_biasprm[:, 2].min(), model.dof_damping.max())
        return float(stiffness), float(damping)

    stiffness, damping = gains(compiled()[0])
    assert stiffness == pytest.approx(3e6 * TORQUE / DEGREE, rel=1e-6)
    assert damping == pytest.approx(2e4 * TORQUE / DEGREE, rel=1e-6)
    scaled = compiled(change("/World/hinge", "stiffness", 2.0, "scale"), change("/World/h*", "damping", 6e4))[
        0
    ]
    assert gains(scaled) == pytest.approx((2 * stiffness, 3 * damping), rel=1e-6)


def test_gravity_is_in_the_units_of_the_stage(compiled: Any) -> None:
    assert compiled()[0].opt.gravity == pytest.approx([0, 0, -9.81])
    assert compiled(change("/World/scene", "gravity", 162.0))[0].opt.gravity == pytest.approx([0, 0, -1.62])
    assert compiled(change("/World/**", "gravity", 0.5, "scale"))[0].opt.gravity[2] == pytest.approx(-4.905)
    tilted = compiled(change("/World/scene", "physics:gravityDirection", (3, 0, -4)))[0]
    assert tilted.opt.gravity == pytest.approx([0.6 * 9.81, 0, -0.8 * 9.81])


def test_any_attribute_can_be_changed_by_name(compiled: Any) -> None:
    model, _ = compiled(change("/World/hinge", "physics:upperLimit", 45.0))
    (row,) = [row for row in range(model.njnt) if model.joint(row).name.endswith("hinge")]
    assert model.jnt_range[row] == pytest.approx([-math.pi / 2, math.pi / 4])
    model, _ = compiled(change("/World/**", "physics:dynamicFriction", 0.1))
    assert model.geom_friction[geom(model, "ground"), 0] == pytest.approx(0.1)


def test_values_are_parameters_and_draws(compiled: Any) -> None:
    model, drawn = compiled(
        change("/World/one", "mass", Normal(mean=2.0, stddev=0.5, low=1.0), "scale", name="payload"),
        change("/World/scene", "gravity", Uniform(100.0, 200.0)),
    )
    assert drawn.keys() == {"payload", "gravity(/World/scene)"}
    assert model.body_mass[body(model, "one")] == pytest.approx(2.0 * drawn["payload"], rel=1e-6)
    assert model.opt.gravity[2] == pytest.approx(-0.01 * drawn["gravity(/World/scene)"], rel=1e-6)


def test_each_prim_has_a_draw_of_its_own_or_all_have_one(compiled: Any) -> None:
    balls = "/World.collection:balls"
    model, drawn = compiled(change(balls, "mass", Uniform(100.0, 900.0), name="m"))
    assert list(drawn) == ["m"]
    assert model.body_mass[body(model, "one")] == model.body_mass[body(model, "two")]
    model, drawn = compiled(change(balls, "mass", Uniform(100.0, 900.0), name="m", each=True))
    assert list(drawn) == ["m[/World/one]", "m[/World/two]"]
    for name in ("one", "two"):
        assert model.body_mass[body(model, name)] == pytest.approx(
            0.001 * drawn[f"m[/World/{name}]"], rel=1e-6
        )


def test_draws_depend_on_the_seed_and_the_place_alone(compiled: Any) -> None:
    first = change("/World/one", "mass", Uniform(100.0, 900.0), name="a")
    second = change("/World/two", "mass", Uniform(100.0, 900.0), name="b")
    both = compiled(first, second)[1]
    assert compiled(first, second)[1] == both
    assert compiled(first)[1]["a"] == both["a"]
    assert compiled(first, second, seed=2)[1] != both
    rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(1, 1)))
    assert both["b"] == pytest.approx(100.0 + 800.0 * rng.random())


def test_poses_and_joints_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")
    found: list[Any] = []

    def look(run: RunContext) -> None:
        found.append(
            (run.body_pose("/World/two"), run.joint_position("hinge"), run.body_pose("/World/two/arm"))
        )

    pose = StartPose(position=(1.0, 2.0, 3.0), rpy=(0.0, 0.0, math.pi / 2))
    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=0.004,
        backend="mujoco",
        directory=str(tmp_path),
        poses={"/World/two": pose},
        joints={"hinge": 0.5},
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).outcome == "completed"
    worker.close()
    for row, (body_pose, joint, arm) in enumerate(found):
        np.testing.assert_allclose(body_pose[:3], [1.0, 2.0, 3.0], atol=1e-4)
        np.testing.assert_allclose(np.abs(body_pose[3:]), [0, 0, math.sqrt(0.5), math.sqrt(0.5)], atol=1e-3)
        # The drive begins to turn the joint back to 0.
        near = 0.1 if row else 1e-6
        assert joint == pytest.approx(0.5, abs=near)
        angle = math.pi / 4 + 0.25
        np.testing.assert_allclose(np.abs(arm[3:]), [0, 0, math.sin(angle), math.cos(angle)], atol=near)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("randomization", "message"),
    [
        (change("/World/oen", "mass", 1.0), r"randomize\[0\]: there is no prim '/World/oen'; did you mean"),
        (change("/World/x*", "mass", 1.0), r"randomize\[0\]: '/World/x\*' selects no prim"),
        (change("World", "mass", 1.0), r"randomize\[0\]: 'World' is no absolute prim path"),
        (
            change("/World.collection:bals", "mass", 1.0),
            "no collection '/World.collection:bals'; did you mean",
        ),
        (
            change("/World/ground", "mass", 1.0),
            "'/World/ground' selects no body, whose mass could be changed",
        ),
        (change("/World/one", "damping", 1.0), "selects no joint with a drive"),
        (change("/World/one", "gravity", 1.0), "selects no PhysicsScene"),
        (
            change("/World/one", "physics:mas", 1.0),
            "has an attribute 'physics:mas'; did you mean physics:mass",
        ),
        (change("/World/one", "physics:mass", "heavy"), "'heavy' is no value of physics:mass"),
        (change("/World/one", "physics:mass", True), "'True' is no value of physics:mass"),
        (change("/World/one", "physics:mass", 1e39), "is no value of physics:mass"),
        (change("/World/one", "physics:velocity", (1, 2)), "is no value of physics:velocity"),
        (change("/World/one", "mass", Uniform(2, 1)), r"randomize\[0\]: uniform: 2 is above 1"),
    ],
)
def test_an_impossible_change_is_one_line(compiled: Any, randomization: Randomization, message: str) -> None:
    with pytest.raises(BridgeError, match=message) as caught:
        compiled(randomization)
    assert "\n" not in str(caught.value)


def test_the_files_stay_as_they_are(compiled: Any, tmp_path: Path) -> None:
    compiled(change("/World/**", "mass", 1.0), change("/World/**", "friction", 1.0))
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
    model, _ = compiled(change("/World/left", "friction", 0.123))
    assert model.geom_friction[geom(model, "left/in/ball"), 0] == pytest.approx(0.123)
    assert model.geom_friction[geom(model, "right/in/ball"), 0] != pytest.approx(0.123)


VARIANTS = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    upAxis = "Y"
)
def Xform "World" (
    variants = {
        string load = "empty"
    }
    prepend variantSets = "load"
)
{
    def PhysicsScene "scene" {}
    def Xform "group"
    {
        double3 xformOp:translate = (10, 20, 30)
        float xformOp:rotateZ = 30
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
        def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
        {
            double radius = 10
            float3 xformOp:scale = (2, 2, 2)
            uniform token[] xformOpOrder = ["xformOp:scale"]
        }
    }
    variantSet "load" = {
        "empty" {
            over "group"
            {
                over "ball"
                {
                    float physics:mass = 2
                }
            }
        }
        "full" {
            over "group"
            {
                over "ball"
                {
                    float physics:mass = 6
                }
            }
        }
    }
}
"""


def test_variants_and_overrides_of_one_worker_follow_each_run(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    found: list[float] = []

    def look(run: RunContext) -> None:
        model = run.backend.simulation.model  # type: ignore[attr-defined]
        found.append(float(model.body_mass[body(model, "ball")]))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        variants={"/World:load": "${load}"},
        randomize=(change("/World/group/ball", "mass", "${factor}", "scale"),),
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    wanted = [("empty", 1.0), ("full", 2.0), ("empty", 2.0), ("empty", 1.0), ("full", 1.0)]
    for row, (load, factor) in enumerate(wanted):
        spec = RunSpec(index=row, id=str(row), parameters={"load": load, "factor": factor}, seed=1)
        assert worker.run(spec).reason == "seen"
    worker.close()
    assert found == pytest.approx([2.0, 12.0, 4.0, 2.0, 6.0])


@pytest.mark.parametrize("rpy", [None, (0.3, -0.4, 1.2)])
def test_a_pose_is_one_of_the_ros_world_whatever_the_axes_and_units_of_the_stage(
    tmp_path: Path, rpy: Any
) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    found: list[Any] = []

    def look(run: RunContext) -> None:
        found.append(run.body_pose("/World/group/ball"))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        driver=FunctionDriver(function=look),
    )
    for poses in ({}, {"/World/group/ball": StartPose(position=(1.0, 2.0, 3.0), rpy=rpy)}):
        worker = RunWorker(replace(sweep, poses=poses))
        assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).reason == "seen"
        worker.close()
    before, after = found
    np.testing.assert_allclose(after[:3], [1.0, 2.0, 3.0], atol=1e-6)
    expected = rotation.from_quat(before[3:]) if rpy is None else rotation.from_euler("xyz", rpy)
    assert (expected.inv() * rotation.from_quat(after[3:])).magnitude() < 1e-6


def test_a_run_of_one_robot_of_a_stage_has_overrides_too(tmp_path: Path) -> None:
    del tmp_path
    world = Path(__file__).parents[3] / "examples/rover/world.usda"
    found: list[float] = []

    def look(run: RunContext) -> None:
        model = run.backend.simulation.model  # type: ignore[attr-defined]
        found.append(float(model.geom_friction[geom(model, "left_wheel/collision/tyre"), 0]))
        run.stop("seen")

    for options in ({}, {"contexts": ["/World/rover"]}):
        sweep = Sweep(
            name="s",
            asset=str(world),
            duration=1.0,
            backend="mujoco",
            options=options,
            randomize=(change("/World/rover/**", "friction", 0.123),),
            driver=FunctionDriver(function=look),
        )
        worker = RunWorker(sweep)
        assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).reason == "seen"
        worker.close()
    assert found == pytest.approx([0.123, 0.123])


def test_runs_that_differ_by_little_are_not_the_same(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")
    heights: list[float] = []

    def look(run: RunContext) -> None:
        heights.append(float(run.body_pose("/World/one")[2]))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        poses={"/World/one": StartPose(position=(0, 0, "${z}"))},
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    for z in (1.0, 1.0 + 1e-10, 1.0):
        assert worker.run(RunSpec(index=0, id="run", parameters={"z": z}, seed=1)).reason == "seen"
    worker.close()
    assert heights[0] == heights[2] != heights[1]
