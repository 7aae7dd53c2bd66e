"""Stages given as text: prims and metadata as text, the stage in memory, its plan with physics."""

from __future__ import annotations

from typing import Any

from pxr import Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics import Body, Collider, Joint, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan

BALL = """
def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
    double radius = 0.1
}
"""


def header(
    default_prim: str = "World",
    *more: str,
    meters: float = 1.0,
    kilograms: float = 1.0,
    up: str = "Z",
    time_codes: float = 1.0,
) -> str:
    """Start a layer with the metadata that REP 0158 asks for; `more` are further lines of it."""
    lines = (
        f'defaultPrim = "{default_prim}"',
        f"metersPerUnit = {meters}",
        f"kilogramsPerUnit = {kilograms}",
        f"timeCodesPerSecond = {time_codes}",
        f'upAxis = "{up}"',
        *more,
    )
    return "#usda 1.0\n(\n" + "".join(f"    {line}\n" for line in lines) + ")\n"


def stage_of(text: str, head: str = "#usda 1.0\n") -> Usd.Stage:
    """Open a stage in memory."""
    stage = Usd.Stage.CreateInMemory()
    assert stage.GetRootLayer().ImportFromString(head + text)
    return stage


def prim(kind: str, name: str, schemas: str = "", *content: str) -> str:
    """A prim as text; `schemas` are applied API schemas, separated by spaces."""
    applied = ", ".join(f'"{schema}"' for schema in schemas.split())
    metadata = f" (prepend apiSchemas = [{applied}])" if applied else ""
    lines = "\n".join(content)
    return f'def {kind} "{name}"{metadata} {{\n{lines}\n}}\n'


def world(*content: str) -> str:
    """The default prim, as text."""
    return prim("Xform", "World", "", *content)


def body(name: str, *content: str, schemas: str = "PhysicsMassAPI", kind: str = "Xform") -> str:
    """A rigid body, as text."""
    return prim(kind, name, f"PhysicsRigidBodyAPI {schemas}", *content)


def at(x: float, y: float, z: float) -> str:
    """Where a prim is, as text."""
    return (
        f'double3 xformOp:translate = ({x}, {y}, {z})\nuniform token[] xformOpOrder = ["xformOp:translate"]'
    )


def plan_text(text: str, **options: Any) -> BridgePlan:
    """The plan of a stage given as text, physics included."""
    return load_plan(stage_of(text, header(**options)), physics=True)


def scene_of(text: str, **options: Any) -> PhysicsScene:
    """The physics of a stage given as text."""
    scene = plan_text(text, **options).physics
    assert scene is not None
    return scene


def bodies(scene: PhysicsScene) -> dict[str, Body]:
    """Bodies by the last part of their paths."""
    return {each.path.rpartition("/")[2]: each for each in scene.bodies}


def colliders(scene: PhysicsScene) -> dict[str, Collider]:
    """Colliders by the last part of their paths."""
    return {each.path.rpartition("/")[2]: each for each in scene.colliders}


def joints(scene: PhysicsScene) -> dict[str, Joint]:
    """Joints by the last part of their paths."""
    return {each.path.rpartition("/")[2]: each for each in scene.joints}


def findings(plan: BridgePlan, code: str) -> list[Diagnostic]:
    """Diagnostics of one code."""
    return [each for each in plan.diagnostics if each.code == code]
