"""A physics scene as JSON: what `usd_ros_bridge inspect --physics --json` adds to the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from usd_ros_bridge.model.physics import WORLD_BODY, Actuator, Mesh, PhysicsScene, Shape, Tendon
from usd_ros_bridge.model.plan import Pose


def physics_to_json(scene: PhysicsScene) -> dict[str, Any]:
    """Returns the scene as values that `json.dumps` takes with `allow_nan=False`.

    Keys are the attributes of the model's classes. Bodies, joints, colliders and groups are named by prim path, the
    world by ""; what is not limited is null; of a mesh there are the numbers of its points and triangles.
    """
    paths = _Paths(scene)
    return {
        "gravity": list(scene.gravity),
        "timestep": scene.timestep,
        "solver": _plain(scene.solver),
        "mujoco_options": scene.mujoco_options,
        "bodies": [paths.named(each) for each in scene.bodies],
        "joints": [paths.named(each) for each in scene.joints],
        "colliders": [paths.named(each) for each in scene.colliders],
        "visuals": [paths.named(each) for each in scene.visuals],
        "apart_bodies": [[scene.bodies[row].path for row in pair] for pair in scene.apart_bodies],
        "apart_colliders": [[scene.colliders[row].path for row in pair] for pair in scene.apart_colliders],
        "groups": list(scene.groups),
        "apart_groups": [[scene.groups[row] for row in pair] for pair in scene.apart_groups],
        "sensors": [{"kind": type(each).__name__, **paths.named(each)} for each in scene.sensors],
        "tracks": [
            {"body": scene.bodies[each.row].path, "time": each.time.tolist()} for each in scene.tracks
        ],
        **{
            name: [paths.named(each) for each in getattr(scene, name)]
            for name in ("sites", "wraps", "tendons", "actuators")
        },
    }


class _Paths:
    """Turns indices to prim paths."""

    def __init__(self, scene: PhysicsScene) -> None:
        self._scene = scene

    def named(self, value: Any) -> dict[str, Any]:
        """Returns the attributes of a body, joint, collider, visual, sensor, tendon or actuator."""
        # The group of a tendon or an actuator is MuJoCo's number.
        plain = ("group",) if isinstance(value, (Tendon, Actuator)) else ()
        return {
            each.name: getattr(value, each.name)
            if each.name in plain
            else self._attribute(each.name, getattr(value, each.name))
            for each in fields(value)
        }

    def _attribute(self, name: str, value: Any) -> Any:
        scene = self._scene
        if name in ("body", "body0", "body1", "parent"):
            return "" if value == WORLD_BODY else scene.bodies[value].path
        if name == "joints" and value and isinstance(value[0], tuple):
            return [[scene.joints[row].path, coefficient] for row, coefficient in value]
        if name == "joints":
            return [scene.joints[row].path for row in value]
        if name == "points":
            return [self.named(point) for point in value]
        if name in ("site", "other_site", "side_site"):
            return "" if value < 0 else scene.sites[value].path
        if name == "tendon":
            return "" if value < 0 else scene.tendons[value].path
        if name == "shape" and isinstance(value, int):
            return "" if value < 0 else scene.wraps[value].path
        if name == "joint":
            return "" if value < 0 else scene.joints[value].path
        if name == "group":
            return None if value < 0 else scene.groups[value]
        if name == "shape":
            return _shape(value)
        if name == "dofs":
            return [self.named(dof) for dof in value]
        if name == "mimic" and value is not None:
            return self.named(value)
        return _plain(value)


def _shape(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Mesh):
        return {
            "type": "Mesh",
            "points": len(shape.points),
            "triangles": len(shape.triangles),
            "approximation": shape.approximation,
        }
    return {
        "type": type(shape).__name__,
        **{each.name: _plain(getattr(shape, each.name)) for each in fields(shape)},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Pose):
        return {"translation": list(value.translation), "rotation": list(value.rotation)}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
