"""Write `usd_ros_bridge/export/inspect.schema.json`, the JSON Schema of `inspect --json`, from the classes of the plan.

`python tools/inspect_schema.py` compares the file with the classes and exits with status 1 where they differ; `--write`
writes it. Types come from the fields, descriptions from the docstrings.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from usd_ros_bridge.backends.mujoco.engine_settings import ContactSettings, EngineSettings
from usd_ros_bridge.backends.mujoco.stiff_drives import SolvedDrive
from usd_ros_bridge.export import plan_json
from usd_ros_bridge.model import physics, sensors
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import (
    ActionPlan,
    ControllerPlan,
    FramePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.model.sensor_schemas import SensorPlan

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "usd_ros_bridge" / "export" / "inspect.schema.json"

Schema = dict[str, Any]
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
VECTOR: Schema = {"type": "array", "items": NUMBER, "minItems": 3, "maxItems": 3}
QUATERNION: Schema = {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4}
FREE: Schema = {"type": "object", "additionalProperties": True}
PATH = "Prim path, "
SHAPES = (physics.Sphere, physics.Box, physics.Capsule, physics.Cylinder, physics.Cone, physics.Plane)
SENSORS = [
    each for each in vars(sensors).values() if isinstance(each, type) and issubclass(each, sensors.Sensor)
]
QOS = {
    "reliability": "Reliability.",
    "durability": "Durability.",
    "history": "History.",
    "depth": "Number of messages that keep_last keeps.",
    "match_publisher": "A subscription takes the policies of the publishers that it finds.",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    write = parser.parse_args().write
    text = json.dumps(document(), indent=2) + "\n"
    if SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == text:
        return 0
    print(f"{'written' if write else 'not as the code'}: {SCHEMA.relative_to(ROOT)}")
    if write:
        SCHEMA.write_text(text, encoding="utf-8")
    return 0 if write else 1


def document() -> Schema:
    """Return the schema."""
    definitions: dict[str, Schema] = {
        "Robot": robot(),
        "Frame": frame(),
        "RobotJoint": joint(),
        "Topic": picked(TopicPlan, plan_json.TOPIC_KEYS),
        "Service": picked(ServicePlan, plan_json.INTERFACE_KEYS),
        "Action": picked(ActionPlan, plan_json.INTERFACE_KEYS),
        "Qos": whole(QosPlan),
        "Controller": controller(),
        "PluginSensor": picked(SensorPlan, plan_json.SENSOR_KEYS),
        "Diagnostic": picked(Diagnostic, plan_json.DIAGNOSTIC_KEYS),
        **physics_definitions(),
        "EngineSettings": whole(EngineSettings),
        "SolvedDrive": whole(SolvedDrive),
        "ContactSettings": whole(ContactSettings),
    }
    keys = {
        "asset": {**TEXT, "description": "The asset, as the caller named it."},
        "robots": array_of("Robot", "Outermost contexts, in traversal order."),
        "topics": array_of("Topic", "Publishers and subscriptions."),
        "services": array_of("Service", "Service servers and clients."),
        "actions": array_of("Action", "Action servers and clients."),
        "controllers": array_of("Controller", "Controllers that the asset declares or implies."),
        "sensors": array_of(
            "PluginSensor", "Publishers that sensor models of plug-ins feed; only if there are any."
        ),
        "physics": {"$ref": "#/$defs/Physics", "description": "With --physics: what a physics engine gets."},
        "mujoco": {
            "$ref": "#/$defs/EngineSettings",
            "description": "With --physics, where MuJoCo is installed: what it makes of drives and colliders.",
        },
        "diagnostics": array_of("Diagnostic", "Faults and remarks."),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "usd_ros_bridge inspect --json",
        "description": "The plan of an asset. Lengths are in metres, angles in radians, quaternions x y z w.",
        **closed(keys, optional={"sensors", "physics", "mujoco"}),
        "$defs": definitions,
    }


def closed(properties: Mapping[str, Schema], *, optional: set[str] | None = None) -> Schema:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [key for key in properties if key not in (optional or ())],
        "properties": dict(properties),
    }


def array_of(name: str, description: str) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}, "description": description}


# --- Fields ------------------------------------------------------------------------------------------------------
def summary(owner: type) -> str:
    """Return the first sentence of a class's docstring."""
    text = inspect.getdoc(owner) or ""
    return " ".join(text.split("\n\n")[0].split())


def descriptions(owner: type) -> dict[str, str]:
    """Return the descriptions of a class's attributes, those of its bases, too."""
    found: dict[str, str] = {}
    for base in reversed(owner.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for entry in re.split(r"\n(?= {4}\S)", attributes):
            name, colon, meaning = entry.strip().partition(":")
            if colon and name.isidentifier():
                text = " ".join(meaning.split()).replace("BridgePlan.robots", "`robots`")
                found[name] = re.sub(r"(?<![\w-])(?:None|-?inf)\b", "null", text)
    return found


def whole(owner: type, **overrides: Schema) -> Schema:
    """Return the schema of an object with all fields of a class."""
    return picked(owner, " ".join(each.name for each in fields(owner)), **overrides)


def picked(owner: type, names: str, **overrides: Schema) -> Schema:
    """Return the schema of an object with some fields of a class."""
    hints, texts = typing.get_type_hints(owner), descriptions(owner)
    if owner is QosPlan:
        texts = QOS
    properties = {}
    for name in names.split():
        made = overrides.get(name) or schema_of(hints[name])
        properties[name] = {"description": texts.get(name, ""), **made} if texts.get(name) else made
    return {"description": summary(owner), **closed(properties)}


def schema_of(hint: Any) -> Schema:
    """Return the schema of a field by its type. Numbers that are not finite are null."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return nullable(
            [schema_of(each) for each in arguments if each is not type(None)], type(None) in arguments
        )
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        if len(set(arguments)) == 1:
            count = len(arguments)
            return {"type": "array", "items": schema_of(arguments[0]), "minItems": count, "maxItems": count}
        return {"type": "array"}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    simple: dict[Any, Schema] = {
        float: {"type": ["number", "null"]},
        int: {"type": "integer"},
        bool: {"type": "boolean"},
        str: TEXT,
        physics.Pose: {"$ref": "#/$defs/Pose"},
        QosPlan: {"$ref": "#/$defs/Qos"},
    }
    if hint in simple:
        return simple[hint]
    if origin is not None and issubclass(origin, Mapping):
        return FREE
    return {"$ref": f"#/$defs/{hint.__name__}"}


def nullable(options: list[Schema], null: bool) -> Schema:
    options = options + ([{"type": "null"}] if null else [])
    flat = [each for each in options if set(each) == {"type"}]
    if len(flat) == len(options):
        kinds: list[str] = []
        for each in flat:
            kind = each["type"]
            kinds += [kind] if isinstance(kind, str) else kind
        return {"type": list(dict.fromkeys(kinds))}
    return options[0] if len(options) == 1 else {"anyOf": options}


# --- The parts that are not fields as they stand -----------------------------------------------------------------
def robot() -> Schema:
    made = picked(RobotPlan, "path namespace domain_id parent_frame")
    more = {
        "tf_topics": {
            "type": "array",
            "items": TEXT,
            "description": "Topics of its transforms: moving, static.",
        },
        "frames": array_of("Frame", "Parents before children."),
        "joints": array_of("RobotJoint", "In traversal order."),
    }
    return {"description": made["description"], **closed({**made["properties"], **more})}


def frame() -> Schema:
    made = picked(FramePlan, "id parent path static")
    more = {
        "translation": {**VECTOR, "description": "Of the frame in its parent at rest, m."},
        "rotation": {**QUATERNION, "description": "Of the frame in its parent at rest, x y z w."},
    }
    return {"description": made["description"], **closed({**made["properties"], **more})}


def joint() -> Schema:
    made = picked(JointPlan, "name path type parent child axis")
    number = {"type": ["number", "null"]}
    one = "rad or m; null for a joint without exactly one degree of freedom"
    more = {
        "position": {**number, "description": f"Position at rest, {one}."},
        "lower": {**number, "description": f"Lower limit, {one}, and where there is no limit."},
        "upper": {**number, "description": f"Upper limit, {one}, and where there is no limit."},
    }
    return {"description": made["description"], **closed({**made["properties"], **more})}


def controller() -> Schema:
    made = picked(ControllerPlan, plan_json.CONTROLLER_KEYS)
    chained = {"type": "array", "items": TEXT, "description": descriptions(ControllerPlan).get("chained", "")}
    return {
        "description": made["description"],
        **closed({**made["properties"], "chained": chained}, optional={"chained"}),
    }


def physics_definitions() -> dict[str, Schema]:
    """Return the definitions below `physics`. Indices of the classes are prim paths in JSON."""
    paths = {
        "body": {**TEXT, "description": f'{PATH}"" for the world.'},
        "body0": {**TEXT, "description": f'{PATH}"" for the world.'},
        "body1": {**TEXT, "description": f'{PATH}"" for the world.'},
        "parent": {**TEXT, "description": f'{PATH}"" for the world or none.'},
        **{
            name: {**TEXT, "description": f'{PATH}"" for none.'}
            for name in ("site", "other_site", "side_site", "tendon", "joint")
        },
    }
    joints = {"type": "array", "items": TEXT, "description": "Prim paths of joints."}
    coefficients = {
        "type": "array",
        "items": {"type": "array"},
        "description": "Prim path and coefficient of joints.",
    }
    shape = {"anyOf": [{"$ref": f"#/$defs/{each.__name__}"} for each in (*SHAPES, physics.Mesh)]}
    group = {"type": ["string", "null"], "description": "Name of its collision group, null for none."}

    def element(owner: type, **overrides: Schema) -> Schema:
        names = {each.name for each in fields(owner)}
        return whole(owner, **{key: value for key, value in {**paths, **overrides}.items() if key in names})

    pairs = {"type": "array", "items": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}}
    scene = descriptions(physics.PhysicsScene)
    keys: dict[str, Schema] = {
        "gravity": {**VECTOR, "description": scene.get("gravity", "")},
        "timestep": {"type": ["number", "null"], "description": scene.get("timestep", "")},
        "solver": {**FREE, "description": scene.get("solver", "")},
        "mujoco_options": {"type": "boolean", "description": scene.get("mujoco_options", "")},
        "bodies": array_of("Body", "Rigid bodies, parents first."),
        "joints": array_of("Joint", "Joints of bodies."),
        "colliders": array_of("Collider", "Collision shapes."),
        "visuals": array_of("Visual", "Shapes that cameras see."),
        "apart_bodies": {**pairs, "description": "Prim paths of pairs of bodies that do not collide."},
        "apart_colliders": {**pairs, "description": "Prim paths of pairs of colliders that do not collide."},
        "groups": {"type": "array", "items": TEXT, "description": "Collision groups."},
        "apart_groups": {**pairs, "description": "Pairs of groups that do not collide."},
        "sensors": {
            "type": "array",
            "items": {"anyOf": [{"$ref": f"#/$defs/{each.__name__}"} for each in SENSORS]},
            "description": "Sensors that the engine measures.",
        },
        "tracks": array_of("Track", "Bodies that the stage animates."),
        "sites": array_of("Site", "Sites of bodies."),
        "wraps": array_of("WrapShape", "Shapes that tendons wrap around."),
        "tendons": array_of("Tendon", "Tendons."),
        "actuators": array_of("Actuator", "Actuators."),
    }
    return {
        "Physics": {"description": summary(physics.PhysicsScene), **closed(keys)},
        "Pose": {
            "description": "A rigid transform.",
            **closed(
                {
                    "translation": {**VECTOR, "description": "m."},
                    "rotation": {**QUATERNION, "description": "x y z w."},
                }
            ),
        },
        "Body": element(physics.Body, joints=joints),
        "Inertial": whole(physics.Inertial),
        "Joint": element(physics.Joint),
        "Dof": whole(physics.Dof),
        "Drive": whole(physics.Drive),
        "Mimic": element(physics.Mimic),
        "Collider": element(physics.Collider, shape=shape, group=group),
        "ContactMaterial": whole(physics.ContactMaterial),
        "Visual": element(physics.Visual, shape=shape),
        **{
            each.__name__: {
                "description": summary(each),
                **closed({"type": {"enum": [each.__name__]}, **whole(each)["properties"]}),
            }
            for each in SHAPES
        },
        "Mesh": {
            "description": "Triangles: their number alone.",
            **closed(
                {
                    "type": {"enum": ["Mesh"]},
                    "points": {"type": "integer", "description": "Number of points."},
                    "triangles": {"type": "integer", "description": "Number of triangles."},
                    "approximation": {"enum": list(typing.get_args(physics.Approximation))},
                }
            ),
        },
        **{
            each.__name__: {
                "description": summary(each),
                **closed({"kind": {"enum": [each.__name__]}, **element(each)["properties"]}),
            }
            for each in SENSORS
        },
        "Track": {
            "description": "A body that the stage animates.",
            **closed(
                {
                    "body": paths["body"],
                    "time": {"type": "array", "items": NUMBER, "description": "Times of its samples, s."},
                }
            ),
        },
        "SurfaceVelocity": element(physics.SurfaceVelocity),
        "Site": element(physics.Site),
        "WrapShape": element(physics.WrapShape, shape=shape),
        "Tendon": element(physics.Tendon, joints=coefficients),
        "TendonPoint": element(physics.TendonPoint, shape={**TEXT, "description": f'{PATH}"" for none.'}),
        "Actuator": element(physics.Actuator),
    }


if __name__ == "__main__":
    sys.exit(main())
