"""Random edits of a stage: what people do to assets while a bridge runs on them, and what they get wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pxr import Sdf, Tf, Usd, UsdGeom

MOST_PRIMS = 90
INTERFACES = {"RosTopicAPI": "topic", "RosServiceAPI": "service", "RosActionAPI": "action"}
TYPES = (
    "sensor_msgs/msg/JointState", "sensor_msgs/msg/Imu", "sensor_msgs/msg/LaserScan", "sensor_msgs/msg/Range",
    "geometry_msgs/msg/PoseStamped", "geometry_msgs/msg/Twist", "nav_msgs/msg/Odometry", "std_msgs/msg/String",
    "std_srvs/srv/Trigger", "std_srvs/srv/SetBool", "control_msgs/action/FollowJointTrajectory",
    "no_such_msgs/msg/Thing", "sensor_msgs/msg/Nothing", "sensor_msgs", "", "os/msg/system", "a/b/c/d",
)  # fmt: skip
NAMES = (
    "scan", "odom", "joint_states", "status", "deep/er/name", "/absolute", "cmd_vel", "2nd", "a//b", "tail/", "~", "",
    "{node}", "white space", "ünïcode", "x" * 300,
)  # fmt: skip
NAMESPACES = ("arm", "rover", "mast", "fleet/one", "", "/", "/rooted", "bad name", "9lives", "a//b", "~x")
FRAME_IDS = ("base_link", "tool", "lidar", "", "with/slash", "bad id", "世界", "world", "chassis")
RATES = (1.0, 5.0, 12.5, 30.0, 100.0, 0.0, -1.0, float("nan"), float("inf"), 1e9)
QUALITY = {
    "reliability": ("reliable", "best_effort", "system_default", "sturdy"),
    "durability": ("volatile", "transient_local", "system_default", "eternal"),
    "history": ("keep_last", "keep_all", "system_default", "keep_some"),
}
JOINT_TYPES = ("Revolute", "Prismatic", "Fixed", "Spherical", "Distance", "")
SCHEMAS = (
    "RosFrameAPI", "RosTopicAPI", "RosContextAPI", "RosServiceAPI", "PhysicsRigidBodyAPI", "RosControlDiffDriveAPI",
    "RosControlJointTrajectoryAPI", "RosControlJointStateBroadcasterAPI", "PhysicsArticulationRootAPI", "NoSuchAPI",
)  # fmt: skip


class RandomEdits:
    """Edits a stage step by step; equal seeds edit equally."""

    def __init__(self, stage: Any, seed: int) -> None:
        self._stage = stage
        self._random = random.Random(seed)
        self._pristine = Sdf.Layer.CreateAnonymous("pristine.usda")
        self._pristine.TransferContent(stage.GetRootLayer())
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (12, self.activate), (10, self.retype), (8, self.rename_interface), (6, self.rename_prim),
            (6, self.reparent), (10, self.select_variant), (6, self.change_role), (8, self.change_rate),
            (6, self.change_quality), (8, self.change_schemas), (6, self.change_frame), (6, self.change_context),
            (6, self.retype_joint), (8, self.change_joint), (5, self.change_controller), (5, self.remove_prim),
            (6, self.copy_prim), (6, self.add_sensor), (5, self.add_link), (4, self.write_nonsense),
            (4, self.clear_property), (3, self.several), (2, self.break_stage), (3, self.restore),
        )  # fmt: skip

    def edit(self) -> str:
        """Does one edit that is possible, and says what it was."""
        weights, kinds = zip(*self._kinds, strict=True)
        while True:
            kind = self._random.choices(kinds, weights)[0]
            if len(self._prims()) > MOST_PRIMS:
                kind = self.restore
            layer = (
                self._stage.GetSessionLayer() if self._random.random() < 0.1 else self._stage.GetRootLayer()
            )
            try:
                with Usd.EditContext(self._stage, layer):
                    done = kind()
            except Tf.ErrorException:
                # OpenUSD refuses it: no edit, another one.
                continue
            if done:
                return f"{done}{' (session layer)' if layer == self._stage.GetSessionLayer() else ''}"

    def remember(self) -> tuple[Any, Any]:
        """Returns what `undo` takes the stage back to."""
        copies = (Sdf.Layer.CreateAnonymous("root.usda"), Sdf.Layer.CreateAnonymous("session.usda"))
        for copy, layer in zip(copies, self._layers(), strict=True):
            copy.TransferContent(layer)
        return copies

    def undo(self, remembered: tuple[Any, Any]) -> None:
        """Takes the stage back."""
        with Sdf.ChangeBlock():
            for copy, layer in zip(remembered, self._layers(), strict=True):
                layer.TransferContent(copy)

    # --- Kinds -------------------------------------------------------------------------------------------------------

    def activate(self) -> str:
        prim = self._any_prim()
        prim.SetActive(not prim.IsActive())
        return f"{'activate' if prim.IsActive() else 'deactivate'} {prim.GetPath()}"

    def retype(self) -> str:
        prim, kind = self._interface()
        return self._set(prim, f"ros:{kind}:type", self._pick(TYPES), Sdf.ValueTypeNames.String)

    def rename_interface(self) -> str:
        prim, kind = self._interface()
        return self._set(prim, f"ros:{kind}:name", self._pick(NAMES), Sdf.ValueTypeNames.String)

    def rename_prim(self) -> str:
        prim = self._any_prim()
        name = f"{prim.GetName()[:12]}_{self._random.randrange(100)}"
        return self._move(prim.GetPath(), prim.GetPath().GetParentPath().AppendChild(name))

    def reparent(self) -> str:
        prim, parent = self._any_prim(), self._any_prim(top=True)
        if parent.GetPath().HasPrefix(prim.GetPath()):
            return ""
        return self._move(prim.GetPath(), parent.GetPath().AppendChild(prim.GetName()))

    def select_variant(self) -> str:
        prims = [prim for prim in self._prims() if prim.HasVariantSets()]
        if not prims:
            return ""
        prim = self._pick(prims)
        variant = self._pick(("bare", "lidar", "both", "none_such"))
        prim.GetVariantSet("head").SetVariantSelection(variant)
        return f"select {prim.GetPath()}:head={variant}"

    def change_role(self) -> str:
        prim, kind = self._interface()
        roles = ("publisher", "subscription", "server", "client", "onlooker")
        return self._set(prim, f"ros:{kind}:role", self._pick(roles), Sdf.ValueTypeNames.Token)

    def change_rate(self) -> str:
        prim, _ = self._interface("RosTopicAPI")
        return self._set(prim, "ros:topic:publish_rate", self._pick(RATES), Sdf.ValueTypeNames.Double)

    def change_quality(self) -> str:
        prim, _ = self._interface("RosTopicAPI")
        if self._random.random() < 0.3:
            depth = self._pick((1, 5, 50, 0, -3))
            return self._set(prim, "ros:topic:qos:depth", depth, Sdf.ValueTypeNames.Int)
        policy = self._pick(tuple(QUALITY))
        return self._set(
            prim, f"ros:topic:qos:{policy}", self._pick(QUALITY[policy]), Sdf.ValueTypeNames.Token
        )

    def change_schemas(self) -> str:
        prim, schema = self._any_prim(), self._pick(SCHEMAS)
        applied = list(prim.GetPrimTypeInfo().GetAppliedAPISchemas())
        if applied and self._random.random() < 0.5:
            schema = self._pick(applied)
            prim.RemoveAppliedSchema(schema)
            return f"remove {schema} from {prim.GetPath()}"
        prim.AddAppliedSchema(schema)
        return f"add {schema} to {prim.GetPath()}"

    def change_frame(self) -> str:
        prim = self._with_schema("RosFrameAPI")
        what = self._random.randrange(3)
        if what == 0:
            return self._set(prim, "ros:frame:id", self._pick(FRAME_IDS), Sdf.ValueTypeNames.String)
        if what == 1:
            return self._set(prim, "ros:frame:static", self._pick((True, False)), Sdf.ValueTypeNames.Bool)
        if any(
            "PhysicsRigidBodyAPI" in each.GetPrimTypeInfo().GetAppliedAPISchemas()
            for each in Usd.PrimRange(prim)
        ):
            return ""  # Where a body stands is state on a host's stage, and no change of the graph.
        place = tuple(round(self._random.uniform(-1.0, 1.0), 3) for _ in range(3))
        UsdGeom.XformCommonAPI(prim).SetTranslate(place)
        return f"move {prim.GetPath()} to {place}"

    def change_context(self) -> str:
        prim = self._with_schema("RosContextAPI")
        if self._random.random() < 0.3:
            frame = self._pick(("map", "world", "odom", "bad id", ""))
            return self._set(prim, "ros:context:parent_frame", frame, Sdf.ValueTypeNames.String)
        return self._set(prim, "ros:context:namespace", self._pick(NAMESPACES), Sdf.ValueTypeNames.String)

    def retype_joint(self) -> str:
        prim, kind = self._joint(), self._pick(JOINT_TYPES)
        prim.SetTypeName(f"Physics{kind}Joint")
        return f"make {prim.GetPath()} a Physics{kind}Joint"

    def change_joint(self) -> str:
        prim, what = self._joint(), self._random.randrange(7)
        if what == 0:
            limit = self._pick(("physics:lowerLimit", "physics:upperLimit"))
            return self._set(
                prim, limit, self._pick((-180.0, -10.0, 5.0, float("nan"), 400.0)), Sdf.ValueTypeNames.Float
            )
        if what == 1:
            return self._set(prim, "physics:axis", self._pick(("X", "Y", "Z", "W")), Sdf.ValueTypeNames.Token)
        if what == 2:
            place = tuple(round(self._random.uniform(-0.5, 0.5), 3) for _ in range(3))
            return self._set(prim, "physics:localPos0", place, Sdf.ValueTypeNames.Point3f)
        if what in (3, 4):
            end = self._pick(("physics:body0", "physics:body1"))
            target = self._pick((*(each.GetPath() for each in self._prims()), Sdf.Path("/World/nothing")))
            targets = [] if self._random.random() < 0.2 else [target]
            prim.CreateRelationship(end, custom=False).SetTargets(targets)
            return f"{prim.GetPath()}.{end} -> {[str(each) for each in targets]}"
        if what == 5:
            name = self._pick(("hinge", "shoulder", "bad name", ""))
            return self._set(prim, "ros:joint:name", name, Sdf.ValueTypeNames.String)
        attribute = self._pick(("physics:jointEnabled", "physics:excludeFromArticulation"))
        return self._set(prim, attribute, self._pick((True, False)), Sdf.ValueTypeNames.Bool)

    def change_controller(self) -> str:
        prim = self._pick([prim for prim in self._prims() if "Control" in str(_schemas(prim))] or [None])
        if prim is None:
            return ""
        relationships = prim.GetAuthoredRelationships()
        if relationships and self._random.random() < 0.6:
            relationship, target = self._pick(relationships), self._any_prim()
            relationship.SetTargets([target.GetPath()])
            return f"{relationship.GetPath()} -> {target.GetPath()}"
        name = self._pick(("wheel_separation", "wheel_radius", "cmd_vel_timeout"))
        value = self._pick((0.5, 0.0, -1.0, float("nan")))
        return self._set(prim, f"ros:diff_drive:{name}", value, Sdf.ValueTypeNames.Double)

    def remove_prim(self) -> str:
        path = self._any_prim().GetPath()
        return f"remove {path}" if self._stage.RemovePrim(path) else ""

    def copy_prim(self) -> str:
        prim, parent = self._any_prim(), self._any_prim(top=True)
        layer = self._stage.GetRootLayer()
        if not layer.GetPrimAtPath(prim.GetPath()) or not layer.GetPrimAtPath(parent.GetPath()):
            return ""
        target = parent.GetPath().AppendChild(f"{prim.GetName()[:12]}_copy{self._random.randrange(5)}")
        if target.HasPrefix(prim.GetPath()) or layer.GetPrimAtPath(target):
            return ""
        Sdf.CopySpec(layer, prim.GetPath(), layer, target)
        return f"copy {prim.GetPath()} to {target}"

    def add_sensor(self) -> str:
        parent = self._any_prim(top=True)
        path = parent.GetPath().AppendChild(f"sensor_{self._random.randrange(6)}")
        with Sdf.ChangeBlock():
            spec = Sdf.CreatePrimInLayer(self._stage.GetEditTarget().GetLayer(), path)
            spec.specifier, spec.typeName = Sdf.SpecifierDef, "Xform"
            spec.SetInfo("apiSchemas", Sdf.TokenListOp.Create(prependedItems=["RosFrameAPI", "RosTopicAPI"]))
            for name, value in (
                ("role", "publisher"),
                ("name", self._pick(("extra", "scan", "more/data"))),
                ("type", self._pick(TYPES[:8])),
            ):
                kind = Sdf.ValueTypeNames.Token if name == "role" else Sdf.ValueTypeNames.String
                if f"ros:topic:{name}" not in spec.attributes:
                    Sdf.AttributeSpec(spec, f"ros:topic:{name}", kind)
                spec.attributes[f"ros:topic:{name}"].default = value
        return f"add a sensor {path}"

    def add_link(self) -> str:
        """A body, and a joint that hangs it from another one."""
        bodies = [prim for prim in self._prims() if "PhysicsRigidBodyAPI" in _schemas(prim)]
        if not bodies:
            return ""
        parent = self._pick(bodies)
        path = parent.GetPath().GetParentPath().AppendChild(f"link_{self._random.randrange(20)}")
        UsdGeom.Xform.Define(self._stage, path).GetPrim().AddAppliedSchema("PhysicsRigidBodyAPI")
        joint = self._stage.DefinePrim(f"{path}_joint", "PhysicsRevoluteJoint")
        joint.CreateRelationship("physics:body0", custom=False).SetTargets([parent.GetPath()])
        joint.CreateRelationship("physics:body1", custom=False).SetTargets([path])
        return f"add {path} on {parent.GetPath()}"

    def write_nonsense(self) -> str:
        """A value of another type than the attribute is to have."""
        prim, kind = self._interface()
        name = self._pick(("type", "name", "role", "publish_rate", "starts_enabled", "frame_id"))
        prim.RemoveProperty(f"ros:{kind}:{name}")
        return self._set(
            prim, f"ros:{kind}:{name}", self._pick((3, -1, 2_000_000_000)), Sdf.ValueTypeNames.Int
        )

    def clear_property(self) -> str:
        prim = self._any_prim()
        names = [each.GetName() for each in prim.GetAuthoredProperties() if ":" in each.GetName()]
        names = [name for name in names if not name.startswith("xformOp")]
        if not names:
            return ""
        name = self._pick(names)
        return f"clear {prim.GetPath()}.{name}" if prim.RemoveProperty(name) else ""

    def several(self) -> str:
        """Edits in one notice: what a tool does that changes a robot at once."""
        kinds = (self.retype, self.rename_interface, self.change_rate, self.change_quality, self.activate)
        with Sdf.ChangeBlock():
            done = [self._pick(kinds)() for _ in range(3)]
        return "; ".join(each for each in done if each)

    def break_stage(self) -> str:
        """What is refused: a stage without a default prim, or without any of the robots it had."""
        if self._random.random() < 0.5:
            self._stage.GetRootLayer().ClearDefaultPrim()
            return "clear the default prim"
        contexts = [prim for prim in self._prims() if "RosContextAPI" in _schemas(prim)]
        with Sdf.ChangeBlock():
            for prim in contexts:
                prim.SetActive(False)
        return "deactivate all contexts"

    def restore(self) -> str:
        """The stage as it was at first: an editor's undo of everything."""
        with Sdf.ChangeBlock():
            self._stage.GetRootLayer().TransferContent(self._pristine)
            self._stage.GetSessionLayer().Clear()
        return "restore the stage"

    # --- Own ---------------------------------------------------------------------------------------------------------

    def _layers(self) -> tuple[Any, Any]:
        return self._stage.GetRootLayer(), self._stage.GetSessionLayer()

    def _prims(self) -> list[Any]:
        return [prim for prim in self._stage.TraverseAll() if prim.GetPath().pathElementCount > 1]

    def _any_prim(self, *, top: bool = False) -> Any:
        prims = self._prims()
        return self._pick([*prims, self._stage.GetPrimAtPath("/World")] if top or not prims else prims)

    def _pick(self, choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def _with_schema(self, schema: str) -> Any:
        return self._pick([prim for prim in self._prims() if schema in _schemas(prim)] or [self._any_prim()])

    def _interface(self, schema: str = "") -> tuple[Any, str]:
        found = [
            (prim, kind)
            for prim in self._prims()
            for each, kind in INTERFACES.items()
            if each in _schemas(prim) and schema in ("", each)
        ]
        return self._pick(found or [(self._any_prim(), "topic")])

    def _joint(self) -> Any:
        found = [prim for prim in self._prims() if str(prim.GetTypeName()).endswith("Joint")]
        return self._pick(found or [self._any_prim()])

    def _set(self, prim: Any, name: str, value: Any, kind: Any) -> str:
        attribute = prim.CreateAttribute(name, kind, custom=False)
        try:
            attribute.Set(value)
        except Tf.ErrorException:
            # The attribute is of another type already: written over as a user of the text would.
            prim.RemoveProperty(name)
            prim.CreateAttribute(name, kind, custom=False).Set(value)
        return f"{prim.GetPath()}.{name} = {value!r}"[:200]

    def _move(self, path: Any, target: Any) -> str:
        """Renames or reparents in the layer; every other time targets of relationships follow."""
        layer = self._stage.GetRootLayer()
        if not layer.GetPrimAtPath(path) or layer.GetPrimAtPath(target) or target.HasPrefix(path):
            return ""
        if self._random.random() < 0.5:
            editor = Usd.NamespaceEditor(self._stage)
            if not (editor.MovePrimAtPath(path, target) and editor.CanApplyEdits() and editor.ApplyEdits()):
                return ""
            return f"move {path} to {target}, with what refers to it"
        edits = Sdf.BatchNamespaceEdit()
        edits.Add(Sdf.NamespaceEdit(path, target))
        return f"move {path} to {target}" if layer.Apply(edits) else ""


def _schemas(prim: Any) -> list[str]:
    return list(prim.GetPrimTypeInfo().GetAppliedAPISchemas())
