"""A vendor's layer: the joints of an asset in another vendor's attributes have the same plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf
from scaffolding import EXAMPLES, run

from builders.stage_text import body, header, prim, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import AssetError, OptionError
from usd_ros_bridge.model.physics import Dof
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions

PREFIXES = {"newton": "newton:", "physx": "physx", "mjc": "mjc:"}


def robot(**units: float) -> str:
    """Joints that turn and slide, with all properties that more than one vendor has, and mimic rules between them."""
    ends = (
        'uniform token physics:axis = "Y"',
        "float physics:lowerLimit = -40",
        "float physics:upperLimit = 40",
    )

    def joint(kind: str, name: str, schemas: str, *lines: str) -> str:
        targets = "rel physics:body0 = </World/base>", f"rel physics:body1 = </World/{name}_body>"
        return prim(f"Physics{kind}Joint", name, schemas, *ends, *targets, *lines)

    bodies = (body(f"{name}_body", "float physics:mass = 1") for name in ("turn", "slide", "turned", "slid"))
    return header(**units) + world(
        body("base", "float physics:mass = 1"),
        *bodies,
        prim("PhysicsFixedJoint", "fixed", "", "rel physics:body1 = </World/base>"),
        joint(
            "Revolute",
            "turn",
            "NewtonJointAPI",
            "float newton:armature = 0.3",
            "float newton:friction = 0.2",
            "float newton:damping = 0.01",
            "float newton:velocityLimit = 90",
            "float newton:limitStiffness = 5",
            "float newton:limitDamping = 0.1",
        ),
        joint(
            "Prismatic",
            "slide",
            "MjcJointAPI",
            "double mjc:armature = 0.4",
            "double mjc:frictionloss = 0.6",
            "double mjc:damping = 7",
        ),
        joint(
            "Revolute",
            "turned",
            "PhysxMimicJointAPI:rotY",
            "rel physxMimicJoint:rotY:referenceJoint = </World/slide>",
            "float physxMimicJoint:rotY:gearing = 3",
            "float physxMimicJoint:rotY:offset = 10",
        ),
        joint(
            "Prismatic",
            "slid",
            "NewtonMimicAPI",
            "rel newton:mimicJoint = </World/turn>",
            "float newton:mimicCoef1 = 0.25",
            "float newton:mimicCoef0 = 0.5",
        ),
    )


def plan_of(path: Path, *solvers: str) -> BridgePlan:
    return load_plan(str(path), plan_options=PlanOptions(schema_resolvers=solvers), physics=True)


def values(dof: Dof) -> dict[str, Any]:
    names = ("armature", "friction", "damping")
    found = {name: getattr(dof, name) for name in names}
    if dof.mimic is not None:
        found |= {"leader": dof.mimic.joint, "multiplier": dof.mimic.multiplier, "offset": dof.mimic.offset}
    return found


def limits(dof: Dof) -> list[float]:
    return [dof.limit_stiffness, dof.limit_damping]


@each_case("units", [{}, {"meters": 0.01, "kilograms": 0.001}])
@each_case("dialect", ["newton", "physx", "mjc"])
def test_the_plan_of_each_is_equal(tmp_path: Path, dialect: str, units: dict[str, float]) -> None:
    asset, layer = tmp_path / "robot.usda", tmp_path / f"{dialect}.usda"
    asset.write_text(robot(**units), encoding="utf-8")
    run(asset, "-o", layer, "--dialect", dialect)
    # Read by this vendor alone: nothing is left of the others.
    expected, found = plan_of(asset, "newton", "physx", "mjc").physics, plan_of(layer, dialect).physics
    assert expected is not None
    assert found is not None
    assert len(found.joints) == len(expected.joints) == 5
    for mine, theirs in zip(found.joints, expected.joints, strict=True):
        for dof, other in zip(mine.dofs, theirs.dofs, strict=True):
            assert values(dof) == pytest.approx(values(other), rel=1e-6), mine.path
            if dialect != "mjc":
                assert limits(dof) == pytest.approx(limits(other), rel=1e-6)
                assert dof.max_velocity == pytest.approx(other.max_velocity)
    # All vendors together: no one says anything else.
    plan = plan_of(layer, "newton", "physx", "mjc")
    ignored = [each.message for each in plan.diagnostics if each.reason == "vendor layer ignored"]
    assert ignored == []


@each_case("dialect", ["newton", "physx", "mjc"])
def test_the_layer_has_the_vendors_attributes_alone(tmp_path: Path, dialect: str) -> None:
    asset, layer = tmp_path / "robot.usda", tmp_path / f"{dialect}.usda"
    asset.write_text(robot(), encoding="utf-8")
    run(asset, "-o", layer, "--dialect", dialect, "--no-sublayer")
    written = Sdf.Layer.FindOrOpen(str(layer))
    assert not written.subLayerPaths
    names: list[str] = []
    written.Traverse("/", lambda path: names.append(path.name) if path.IsPropertyPath() else None)
    assert names
    assert all(name.startswith(PREFIXES[dialect]) for name in names), names


def test_what_a_vendor_has_no_attribute_for_is_said(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(robot(), encoding="utf-8")
    lines = run(asset, "-o", tmp_path / "mujoco.usda", "--dialect", "mjc")
    assert "+ armature: turn, slide" in lines
    assert "+ mimic: turned, slid" in lines
    assert "- limit_stiffness: turn: mjc has no attribute for it" in lines


def test_the_example_arm_in_mujocos_attributes(tmp_path: Path) -> None:
    """It has a ROS layer: the vendor's layer goes over it all the same."""
    layer = tmp_path / "mujoco.usda"
    run(EXAMPLES / "arm" / "arm.usda", "-o", layer, "--dialect", "mjc")
    physics = plan_of(layer, "mjc").physics
    assert physics is not None
    rules = [dof.mimic for joint in physics.joints for dof in joint.dofs if dof.mimic is not None]
    assert [(rule.multiplier, rule.offset) for rule in rules] == [(1.0, 0.0)]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(robot(), encoding="utf-8")
    with pytest.raises(OptionError, match="nothing else"):
        run(asset, "-o", tmp_path / "x.usda", "--dialect", "mjc", "--ground")
    asset.write_text(header() + world(body("base", "float physics:mass = 1")), encoding="utf-8")
    with pytest.raises(AssetError, match="nothing to write"):
        run(asset, "-o", tmp_path / "x.usda", "--dialect", "mjc")
