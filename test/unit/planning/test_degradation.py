"""Degradation: an authored opinion that is not simulated has a diagnostic with prim, property, value and reason."""

from __future__ import annotations

from typing import Any

import pytest

from builders.stage_text import BALL, at, body, header, plan_text, prim, stage_of, world
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.diagnostics import Diagnostic, grouped
from usd_ros_bridge.model.ledger import ledger
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.physics.degradation import fits, is_fallback

LOCKED = "int physxRigidBody:lockedPosAxis = 3"


def found_in(text: str, **options: Any) -> list[Diagnostic]:
    plan = load_plan(stage_of(text, header()), physics=True, plan_options=PlanOptions(**options))
    return [each for each in plan.diagnostics if each.reason or each.code == "1.4.type"]


def test_a_property_is_reported_for_each_prim_with_its_value() -> None:
    found = found_in(world(body("a", BALL, LOCKED), body("b", BALL, LOCKED.replace("3", "1"))))
    assert [(each.path, each.attribute, each.value, each.reason) for each in found] == [
        ("/World/a", "physxRigidBody:lockedPosAxis", "'3'", "not implemented"),
        ("/World/b", "physxRigidBody:lockedPosAxis", "'1'", "not implemented"),
    ]
    assert {each.severity for each in found} == {"warning"}
    assert {each.code for each in found} == {"1.4.degraded"}


def test_a_thousand_prims_are_one_line_with_the_count_and_three_prims() -> None:
    found = found_in(world(*(body(f"b{number}", BALL, LOCKED) for number in range(1000))))
    (group,) = grouped(found)
    assert len(found) == group.count == 1000
    assert "on 1000 prims: /World/b0, /World/b1, /World/b2, ..." in str(group)


@pytest.mark.parametrize("value", ["0", "00"])
def test_a_value_that_equals_the_fallback_says_nothing(value: str) -> None:
    assert found_in(world(body("a", BALL, LOCKED.replace("3", value)))) == []


def test_a_property_of_a_prim_that_nothing_else_reads() -> None:
    field = prim("Xform", "wind", "PhysxForceAPI", "vector3f physxForce:force = (1, 0, 0)")
    found = found_in(world(field))
    assert ("/World/wind", "physxForce:force") in [(each.path, each.attribute) for each in found]


def test_a_vendor_that_schema_resolvers_leave_out_is_ignored() -> None:
    text = world(body("a", BALL, "float physxRigidBody:linearDamping = 0.5"))
    assert found_in(text) == []
    (found,) = found_in(text, schema_resolvers=("newton", "mjc"))
    assert (found.attribute, found.reason) == ("physxRigidBody:linearDamping", "vendor layer ignored")


def test_a_value_of_the_wrong_type_is_a_fault_of_its_property() -> None:
    text = world(body("a", BALL, 'string physxRigidBody:maxLinearVelocity = "fast"'))
    (found,) = found_in(text)
    assert (found.code, found.severity, found.attribute) == (
        "1.4.type", "error", "physxRigidBody:maxLinearVelocity",
    )  # fmt: skip
    assert "'fast'" in found.message


def test_a_fault_that_another_code_reports_is_not_reported_twice() -> None:
    text = world(body("a", BALL, 'string physxRigidBody:linearDamping = "much"'))
    of_property = [each for each in plan_text(text).diagnostics if "linearDamping" in each.attribute]
    assert [each.code for each in of_property] == ["1.3.body"]


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("float physxRigidBody:flux = 1", "1.4.degraded", "vendor layer ignored"),
        ("float physics:flux = 1", "1.4.degraded", "not implemented"),
        ("float mjc:gravityCompensation = 1", "1.3.solver", ""),
        ("float physxRigidBody:linearDampin = 1", "schema.attribute", ""),
    ],
)
def test_names_that_no_schema_has(line: str, code: str, reason: str) -> None:
    name = line.split()[1]
    found = [each for each in plan_text(world(body("a", BALL, line))).diagnostics if each.attribute == name]
    assert [(each.code, each.reason) for each in found] == [(code, reason)]


def test_engines_have_their_own_columns() -> None:
    text = world(body("a", BALL, "float physxRigidBody:linearDamping = 0.5"))
    (found,) = found_in(text, engine="newton")
    assert (found.attribute, found.reason) == ("physxRigidBody:linearDamping", "not implemented")


def test_a_schema_is_reported_by_its_name() -> None:
    found = found_in(world(prim("Sphere", "gate", "PhysicsCollisionAPI PhysxTriggerAPI")))
    assert [(each.path, each.attribute, each.value) for each in found] == [
        ("/World/gate", "apiSchemas", "'PhysxTriggerAPI'")
    ]


def test_fallbacks_are_compared_as_float32() -> None:
    row = next(row for row in ledger().rows if row.name == "physxArticulation:sleepThreshold")
    assert is_fallback(5e-5, row.fallback)
    assert not is_fallback(6e-5, row.fallback)
    assert is_fallback((0.0, 1.0), (0, 1))
    assert not is_fallback((0.0, 1.0), (0.0, 1.0, 0.0))
    assert not is_fallback(True, 1)
    assert is_fallback(float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (1, "float", True),
        (True, "float", False),
        ("1", "float", False),
        ((), "rel", True),
        (1.0, "rel", False),
        ((), "float", False),
        ((1.0, 2.0, 3.0), "float3", True),
        ((1.0, 2.0), "float3", False),
        ((1.0, 2.0), "float[]", True),
        (1.0, "float[]", False),
        ("on", "bool", False),
        ("any", "matrix4d", True),
    ],
)
def test_types(value: object, type_name: str, *, expected: bool) -> None:
    assert fits(value, type_name) is expected


def test_a_schema_that_nobody_knows_is_named() -> None:
    found = found_in(world(prim("Mesh", "cloth", "PhysicsSurfaceDeformableSimAPI")))
    assert [(each.path, each.attribute, each.value, each.reason) for each in found] == [
        ("/World/cloth", "apiSchemas", "'PhysicsSurfaceDeformableSimAPI'", "not implemented")
    ]


def test_a_property_without_its_schema_is_named() -> None:
    hinge = prim(
        "PhysicsRevoluteJoint", "hinge", "PhysicsDriveAPI:linear", "float drive:angular:physics:damping = 2"
    )
    shape = prim("Sphere", "s", "", "float physics:density = 2", 'token physics:approximation = "none"')
    found = found_in(world(body("a", BALL), hinge, shape))
    effect = "on the prim it has no effect"
    assert [
        (each.path, each.attribute, each.message.removeprefix("not implemented: ")) for each in found
    ] == [
        ("/World/hinge", "drive:angular:physics:damping", f"without PhysicsDriveAPI:angular {effect}"),
        ("/World/s", "physics:density", f"without PhysicsMassAPI {effect}"),
    ]


def test_a_property_of_joints_is_named_on_a_prim_that_is_none() -> None:
    found = found_in(world(body("a", BALL, "float newton:armature = 0.5")))
    assert [(each.path, each.attribute, each.message) for each in found] == [
        ("/World/a", "newton:armature", "not implemented: the prim is no joint")
    ]


def test_an_axis_that_the_joint_does_not_have_is_named() -> None:
    hinge = prim(
        "PhysicsRevoluteJoint",
        "hinge",
        "PhysicsLimitAPI:transX PhysxLimitAPI:X PhysxLimitAPI:angular",
        "rel physics:body0 = </World/a>",
        "rel physics:body1 = </World/b>",
        "float physics:lowerLimit = -90",
        "float physics:upperLimit = 90",
        "float limit:transX:physics:low = -1",
        "float physxLimit:X:stiffness = 3",
        "float physxLimit:linear:damping = 0",
        "float physxLimit:angular:stiffness = 3",
    )
    text = world(body("a", BALL), body("b", BALL, at(0, 0, 1)), hinge)
    found = found_in(text)
    assert {(each.path, each.attribute, each.message) for each in found} == {
        ("/World/hinge", name, "not implemented: the joint does not have this degree of freedom")
        for name in ("limit:transX:physics:low", "physxLimit:X:stiffness")
    }
    ignored = [each for each in found_in(text, schema_resolvers=("newton",)) if ":X:" in each.attribute]
    assert [each.reason for each in ignored] == ["vendor layer ignored"], "once"
