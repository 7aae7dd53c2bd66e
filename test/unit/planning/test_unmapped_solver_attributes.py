"""The closed world of Newton's and MuJoCo's schemas: every attribute is mapped, harmless for a reason, or reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builders.assets import ASSETS
from builders.stage_text import BALL, body, findings, plan_text, prim, world
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.physics.unmapped import HARMLESS, MAPPED, NOT_SIMULATED, OTHER_SOLVERS

SCHEMAS: dict[str, dict[str, list[Any]]] = json.loads(
    (ASSETS / "solver_schemas.json").read_text(encoding="utf-8")
)["schemas"]

ELSEWHERE = {
    **dict.fromkeys(("MjcActuator", "MjcTendon"), "prims of their own: actuators and tendons"),
    "MjcKeyframe": "a state, and no part of the asset",
    **dict.fromkeys(
        (
            "NewtonActuator",
            "NewtonActuatorDelayAPI",
            "NewtonActuatorControlBaseAPI",
            "NewtonPDControlAPI",
            "NewtonPIDControlAPI",
            "NewtonNeuralControlAPI",
            "NewtonActuatorClampingBaseAPI",
            "NewtonMaxEffortClampingAPI",
            "NewtonDCMotorClampingAPI",
            "NewtonPositionBasedClampingAPI",
        ),
        "prims of their own: Newton's actuators",
    ),
    **dict.fromkeys(
        ("NewtonPointsDeformableSimAPI", "NewtonMPMMaterialAPI", "NewtonCurvesDeformableMaterialAPI"),
        "what deforms is no rigid body, joint or collider",
    ),
}
"""Schemas whose prims are not looked at here, and why."""

ATTRIBUTES = {
    name: (schema, *fact)
    for schema, facts in SCHEMAS.items()
    if schema not in ELSEWHERE
    for name, fact in facts.items()
}


def test_every_attribute_is_accounted_for() -> None:
    silent = {name for name in ATTRIBUTES if name in MAPPED or name in HARMLESS}
    reported = {name for name in ATTRIBUTES if name in NOT_SIMULATED or name.startswith(OTHER_SOLVERS)}
    assert silent | reported == set(ATTRIBUTES)
    assert not silent & reported


def test_no_attribute_is_in_two_lists() -> None:
    lists = (MAPPED, HARMLESS.keys(), NOT_SIMULATED.keys())
    assert len(set().union(*lists)) == sum(map(len, lists))


def plain(value: Any) -> Any:
    if isinstance(value, str) and value.endswith("inf"):
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def test_fallbacks_are_those_of_the_schemas() -> None:
    for name, fallback in NOT_SIMULATED.items():
        if name in ATTRIBUTES:
            assert fallback == pytest.approx(plain(ATTRIBUTES[name][2])), name
    tables = (
        solver_attributes.SCENE,
        solver_attributes.COLLIDER,
        solver_attributes.MATERIAL,
        solver_attributes.JOINT,
    )
    for attribute in (
        each for table in tables for by_solver in table.values() for each in by_solver.values()
    ):
        for api in attribute.apis:
            fact = SCHEMAS[api].get(attribute.name) or ATTRIBUTES[attribute.name][1:]
            if attribute.fallback is not None:
                assert attribute.fallback == pytest.approx(plain(fact[1])), attribute.name


def unmapped(text: str) -> list[tuple[str, str, str]]:
    return [(each.path, each.severity, each.attribute) for each in findings(plan_text(text), "1.3.solver")]


def test_what_is_not_simulated_is_reported_by_prim() -> None:
    ball = prim(
        "Sphere", "c", "PhysicsCollisionAPI NewtonSDFCollisionAPI",
        "bool newton:hydroelasticEnabled = true", "float newton:sdfNarrowBandOuter = 0.3",
    )  # fmt: skip
    scene = prim("PhysicsScene", "scene", "", "float newton:xpbd:angularDamping = 1")
    assert unmapped(world(ball, scene)) == [("/World/c", "warning", "newton:hydroelasticEnabled")]


def test_values_that_say_nothing_are_not_reported() -> None:
    ball = prim(
        "Sphere", "c", "PhysicsCollisionAPI",
        "bool newton:hydroelasticEnabled = false", "float newton:sdfNarrowBandOuter = 0.1", "int mjc:group = 4",
    )  # fmt: skip
    assert unmapped(world(ball)) == []


def test_names_that_no_schema_has() -> None:
    text = world(body("a", BALL, "float mjc:gravityCompensation = 1"))
    assert unmapped(text) == [("/World/a", "info", "mjc:gravityCompensation")]
