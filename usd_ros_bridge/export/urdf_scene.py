"""A stage's physics sorted by what carries it, once for all robots of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from usd_ros_bridge.model.looks import Color
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Dof, PhysicsScene, Shape, Visual
from usd_ros_bridge.model.plan import BridgePlan, Pose

Kind = Literal["visual", "collision"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A shape that is seen, or that collides; one that does both is two parts.

    Attributes:
        kind: Which.
        path: Prim path.
        place: In its body, in the world where nothing carries it.
        shape: The shape.
        color: Of what is seen, None for what collides.
    """

    kind: Kind
    path: str
    place: Pose
    shape: Shape
    color: Color | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SortedScene:
    """What robots are made of.

    Attributes:
        bodies: Bodies by prim path.
        dofs: Degrees of freedom by layout row.
        carried: Shapes by the path of their body.
        standing: Shapes that no body carries, by the path of the robot that they are below.
        closing: Paths of joints that close loops, by the paths of the bodies at their ends.
    """

    bodies: Mapping[str, Body] = field(default_factory=dict)
    dofs: Mapping[int, Dof] = field(default_factory=dict)
    carried: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    standing: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    closing: Mapping[str, Sequence[str]] = field(default_factory=dict)


def sort_scene(plan: BridgePlan) -> SortedScene:
    """Returns the physics of a plan, sorted; nothing where the plan has none."""
    scene = plan.physics
    if scene is None:
        return SortedScene()
    carried: dict[str, list[Part]] = defaultdict(list)
    standing: dict[str, list[Part]] = defaultdict(list)
    robots = {robot.path for robot in plan.robots}
    shapes: list[Visual | Collider] = [*scene.visuals, *scene.colliders]
    for each in shapes:
        if each.body != WORLD_BODY:
            carried[scene.bodies[each.body].path] += _parts(each)
        elif robot := _at_or_above(each.path, robots):
            standing[robot] += _parts(each)
    return SortedScene(
        bodies={body.path: body for body in scene.bodies},
        dofs={dof.row: dof for joint in scene.joints for dof in joint.dofs if dof.row >= 0},
        carried=carried,
        standing=standing,
        closing=_closing(scene),
    )


def _parts(each: Visual | Collider) -> list[Part]:
    parts = []
    if each.color is not None:
        parts.append(Part("visual", each.path, each.body_from_shape, each.shape, each.color))
    if isinstance(each, Collider):
        parts.append(Part("collision", each.path, each.body_from_shape, each.shape, None))
    return parts


def _at_or_above(path: str, wanted: set[str]) -> str:
    while path and path not in wanted:
        path = path.rpartition("/")[0]
    return path


def _closing(scene: PhysicsScene) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for joint in scene.joints:
        if joint.closes_loop:
            for body in {joint.body0, joint.body1} - {WORLD_BODY}:
                found[scene.bodies[body].path].append(joint.path)
    return found
