"""Read an open stage: one pass gives every record that planning needs. Nothing on the stage is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any, Final, NamedTuple

from pxr import Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.errors import AssetError, quoted
from usd_ros_bridge.model import records
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS, CONTROLLERS, schema_name
from usd_ros_bridge.model.diagnostics import (
    CONTAINED,
    NOT_UTF8_REMEDY,
    PLUGIN_REMEDY,
    Diagnostic,
    internal_fault,
)
from usd_ros_bridge.model.physics_records import Opinions
from usd_ros_bridge.model.records import Record, TopicRecord
from usd_ros_bridge.model.stage import Pause, PlainLinkRecord, StageMetrics, StageRecords, ValueTrackRecord
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.process_settings import gc_paused
from usd_ros_bridge.usd.population import WITH_INACTIVE, left_out
from usd_ros_bridge.usd.read.closed_world import AppliedNames, NameCheck, applied_names, authored_names
from usd_ros_bridge.usd.read.composition import arc_diagnostics, composition_diagnostics
from usd_ros_bridge.usd.read.instances import RobotModel, can_be_repeated, has_relocates, relationships
from usd_ros_bridge.usd.read.joint_reader import (
    GEAR_TYPES,
    JointKind,
    joint_kind,
    read_joint,
    solver_attributes,
    unknown_joint,
    value_tracks,
)
from usd_ros_bridge.usd.read.physics_reader import ACTUATOR_TYPES, PhysicsKind, PhysicsReader, physics_kind
from usd_ros_bridge.usd.read.properties import (
    PREDICATE,
    FieldReader,
    Memo,
    PrimProperties,
    PrimReader,
    collection_members,
)
from usd_ros_bridge.usd.read.samples import is_rate, sample_times
from usd_ros_bridge.usd.read.sensor_reader import read_scene_values, read_sensor_model, sensor_schemas
from usd_ros_bridge.usd.read.spec_memory import memory_of
from usd_ros_bridge.usd.read.xforms import XformReader, with_ancestors
from usd_ros_bridge.usd.text_encoding import bad_text


class Metric(NamedTuple):
    """A layer's metadata, the value that REP 0158 section 1.1 wants, and OpenUSD's where none is authored."""

    name: str
    wanted: Any
    fallback: Any
    code: str


METRICS: Final = (
    Metric("metersPerUnit", 1.0, 0.01, "1.1.meters_per_unit"),
    Metric("kilogramsPerUnit", 1.0, 1.0, "1.1.kilograms_per_unit"),
    Metric("upAxis", "Z", "Y", "1.1.up_axis"),
    Metric("timeCodesPerSecond", 1.0, 24.0, "1.1.time_codes_per_second"),
)


def _root_layers(stage: Usd.Stage) -> tuple[Any, ...]:
    # Stage metadata comes from the session layer or the root layer, never from a sublayer.
    return tuple(layer for layer in (stage.GetSessionLayer(), stage.GetRootLayer()) if layer)


def _authored(layer: Any, metric: Metric) -> Any:
    root = layer.pseudoRoot
    if root.HasInfo(metric.name):
        return root.GetInfo(metric.name)
    # OpenUSD reads a layer's framesPerSecond where timeCodesPerSecond is not authored.
    if metric.name == "timeCodesPerSecond" and root.HasInfo("framesPerSecond"):
        return root.GetInfo("framesPerSecond")
    return None


def stage_metrics(stage: Usd.Stage) -> StageMetrics:
    """Return the units and axes of a stage (OpenUSD's fallbacks where nothing is authored)."""
    authored = {
        metric.name
        for metric in METRICS
        if any(layer.pseudoRoot.HasInfo(metric.name) for layer in _root_layers(stage))
    }
    ranged = (
        any(layer.pseudoRoot.HasInfo("startTimeCode") for layer in _root_layers(stage)),
        any(layer.pseudoRoot.HasInfo("endTimeCode") for layer in _root_layers(stage)),
    )
    return StageMetrics(
        meters_per_unit=float(UsdGeom.GetStageMetersPerUnit(stage)),
        kilograms_per_unit=float(UsdPhysics.GetStageKilogramsPerUnit(stage)),
        up_axis=str(UsdGeom.GetStageUpAxis(stage)),
        time_codes_per_second=float(stage.GetTimeCodesPerSecond()),
        authored=frozenset(authored),
        start_time_code=float(stage.GetStartTimeCode()) if ranged[0] else None,
        end_time_code=float(stage.GetEndTimeCode()) if ranged[1] else None,
    )


def metric_diagnostics(stage: Usd.Stage, metrics: StageMetrics) -> list[Diagnostic]:
    """Return what departs from REP 0158 section 1.1: on the stage, and between its layers."""
    values = {
        "metersPerUnit": metrics.meters_per_unit,
        "kilogramsPerUnit": metrics.kilograms_per_unit,
        "upAxis": metrics.up_axis,
        "timeCodesPerSecond": metrics.time_codes_per_second,
    }
    found = []
    for metric in METRICS:
        authored = metric.name in metrics.authored
        if authored and values[metric.name] == metric.wanted:
            continue
        value = values[metric.name]
        state = "is" if authored else "is not authored, which means"
        effect = "" if value == metric.wanted else "; it is converted"
        found.append(
            Diagnostic(
                code=metric.code,
                severity="warning",
                path="",
                attribute=metric.name,
                message=f"{metric.name} {state} {quoted(value)}{effect}",
                remedy=f"author {metric.name} = {metric.wanted} on the root layer, and bake other units into the asset",
            )
        )
    return found + _layer_diagnostics(stage, values)


def _layer_diagnostics(stage: Usd.Stage, values: dict[str, Any]) -> list[Diagnostic]:
    """Warn of layers in other units or axes than the stage's: composition converts time codes and nothing else."""
    found = []
    own = {layer.identifier for layer in _root_layers(stage)}
    for layer in sorted(
        stage.GetUsedLayers(includeClipLayers=False), key=lambda layer: str(layer.identifier)
    ):
        if layer.identifier in own or layer.empty:
            continue
        if not is_rate(layer.timeCodesPerSecond):
            found.append(_rate_fault(layer))
        for metric in METRICS[:3]:
            value = _authored(layer, metric)
            if value is None or value == values[metric.name]:
                continue
            found.append(
                Diagnostic(
                    code=metric.code,
                    severity="warning",
                    path="",
                    attribute=metric.name,
                    message=f"the layer {quoted(layer_name(layer))} has {metric.name} {quoted(value)}, the stage "
                    f"{quoted(values[metric.name])}; OpenUSD does not convert between layers",
                    remedy="give all layers of an asset the same units and axes",
                    layer=layer.identifier,
                )
            )
    return found


def _rate_fault(layer: Sdf.Layer) -> Diagnostic:
    return Diagnostic(
        code="1.1.time_codes_per_second",
        severity="error",
        path="",
        attribute="timeCodesPerSecond",
        message=f"the layer {quoted(layer_name(layer))} has timeCodesPerSecond {quoted(layer.timeCodesPerSecond)}, "
        "no usable positive number; its time samples are left out",
        remedy="author timeCodesPerSecond = 1",
        layer=layer.identifier,
    )


def layer_name(layer: Sdf.Layer) -> str:
    """Return a layer's file name for messages."""
    return str(layer.GetDisplayName() or layer.identifier)


SCHEMAS: Final[dict[str, tuple[str, type[Record]]]] = {
    "RosContextAPI": ("contexts", records.ContextRecord),
    "RosTopicAPI": ("topics", records.TopicRecord),
    "RosServiceAPI": ("services", records.ServiceRecord),
    "RosActionAPI": ("actions", records.ActionRecord),
    "RosFrameAPI": ("frames", records.FrameRecord),
    **{name: ("controllers", each.record) for name, each in CONTROLLER_SCHEMAS.items() if each.record},
    "PhysicsRigidBodyAPI": ("bodies", records.RigidBodyRecord),
    "PhysicsArticulationRootAPI": ("articulation_roots", records.ArticulationRootRecord),
    "IsaacRobotAPI": ("isaac_robots", records.IsaacRobotRecord),
    "IsaacLinkAPI": ("isaac_links", records.IsaacLinkRecord),
    "IsaacJointAPI": ("isaac_joints", records.IsaacJointRecord),
    "IsaacSiteAPI": ("isaac_sites", records.IsaacSiteRecord),
    "IsaacReferencePointAPI": ("isaac_sites", records.IsaacSiteRecord),
}
"""Applied API schema -> where its records go and what they are."""

ACTUATORS: Final = frozenset({"MjcActuator", "NewtonActuator"})
"""Prim types that drive joints and similar ones."""

LOCATED: Final = (
    "contexts",
    "topics",
    "services",
    "actions",
    "frames",
    "controllers",
    "bodies",
    "cameras",
    "articulation_roots",
    "isaac_robots",
    "isaac_links",
    "isaac_sites",
    "plain_links",
)
"""Collections of StageRecords whose prims get an XformRecord."""

TRACKED: Final = ("contexts", "topics", "services", "actions", "frames", "bodies", "cameras")
"""Collections of StageRecords whose prims get a PoseTrackRecord where they move by time samples."""


ROOTS: Final = ("contexts", "isaac_robots")
"""Collections of StageRecords whose prims may be a robot's root, as the default prim may."""


_PHYSICS: Final = frozenset({"bodies", "articulation_roots", "gears"})
"""Collections of StageRecords that prims of prototypes are not in."""

MJC_ANGLE: Final = "mjc:compiler:angle"
"""What MuJoCo's attributes of joints are in, on the PhysicsScene."""

ROS: Final = ("contexts", "topics", "services", "actions", "frames", "controllers")
"""Collections of StageRecords whose prims have Ros*API schemas."""


GRAPH_TYPES: Final = frozenset({"OmniGraph", "ComputeGraph"})
"""Prim types of Isaac Sim's execution graphs, today's and that of older files."""

KEPT_ELEMENTS: Final = "/Geometry/custom"
"""Where urdf-usd-converter keeps the elements of a URDF that USD has no schema for: `gazebo`, `ros2_control`."""

_SHOWN_GRAPHS: Final = 3

URDF_CONVERTER: Final = "URDF USD Converter"
"""How `creator` begins in the customLayerData of what urdf-usd-converter writes."""

PARTS_OF_A_LINK: Final = frozenset({"visual", "visuals", "collision", "collisions"})
"""Prims that hold the geometry of the link above them (REP 0158 section 1.3.2)."""


class Kind(NamedTuple):
    """Kind of a prim by its type and applied schemas."""

    schemas: tuple[tuple[str, type[Record]], ...]
    joint: JointKind | None
    is_unknown: bool
    is_body: bool
    is_context: bool
    is_xform: bool
    is_scene: bool
    is_drawn: bool
    is_instancer: bool
    has_records: bool
    physics: PhysicsKind | None
    sensors: tuple[str, ...]
    names: AppliedNames
    is_graph: bool = False
    faults: tuple[str, ...] = ()


class _OpenPrim:
    """A body, or an Xform that may be a link, while what is below it is seen. A body has no record."""

    __slots__ = ("drawn", "prefix", "record")

    def __init__(self, path: str, record: PlainLinkRecord | None) -> None:
        self.prefix = path + "/"
        self.record = record
        self.drawn = False


class _PlainLinks:
    """Finder of Xforms that may stand for links, in one pass: no body, and nothing visible but in bodies below."""

    def __init__(self, prims: PrimReader) -> None:
        self._prims = prims
        self._open: list[_OpenPrim] = []
        self._found: list[PlainLinkRecord] = []
        self._bodies = 0
        layers = prims.stage.GetUsedLayers(includeClipLayers=False)
        self._converted = {layer for layer in layers if _is_converted(layer)}

    def see(self, prim: Usd.Prim, path: str, kind: Kind) -> None:
        """Take the next prim in traversal order."""
        while self._open and not path.startswith(self._open[-1].prefix):
            self._close_last()
        if kind.is_body:
            self._open.append(_OpenPrim(path, None))
            self._bodies += 1
        elif kind.is_drawn:
            self._draw(path)
        elif kind.is_xform and (self._bodies or self._converted):
            self._see_xform(prim, path)

    def close(self, root: str) -> list[PlainLinkRecord]:
        """Return what was found since the last time, nothing of which is open; with `root`, at or below that prim."""
        prefix = root + "/"
        while self._open and self._open[-1].prefix.startswith(prefix):
            self._close_last()
        found, self._found = self._found, []
        return found

    def _see_xform(self, prim: Usd.Prim, path: str) -> None:
        has_payload = prim.HasAuthoredPayloads()
        if has_payload and not prim.IsLoaded():
            self._draw(path)
        if has_payload or prim.HasAuthoredReferences() or prim.IsInstance() or prim.IsInstanceProxy():
            return
        converted = bool(self._converted) and any(
            spec.specifier == Sdf.SpecifierDef
            and spec.path.pathElementCount > 1
            and spec.layer in self._converted
            for spec in prim.GetPrimStack()
        )
        if converted or self._bodies:
            specs = self._prims.source(path, prim).specs
            self._open.append(_OpenPrim(path, PlainLinkRecord(path=path, specs=specs, converted=converted)))

    def _draw(self, path: str) -> None:
        """Note that a prim is seen, which is part of the Xforms between it and the nearest body."""
        for each in reversed(self._open):
            between = path[len(each.prefix) :].split("/")[:-1]
            if each.record is None or any(name.lower() in PARTS_OF_A_LINK for name in between):
                return
            each.drawn = True

    def _close_last(self) -> None:
        last = self._open.pop()
        if last.record is None:
            self._bodies -= 1
        elif not last.drawn:
            self._found.append(last.record)


def _is_converted(layer: Sdf.Layer) -> bool:
    return str(layer.customLayerData.get("creator", "")).startswith(URDF_CONVERTER)


class _Kinds:
    """Find the kinds of prims; each combination of prim type and applied schemas is resolved once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Kind] = {}

    def of(self, prim: Usd.Prim) -> Kind:
        """Return what a prim means to the reader."""
        info = prim.GetPrimTypeInfo()
        key = (info.GetTypeName(), *info.GetAppliedAPISchemas())
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = _kind_of(prim, key[0], key[1:])
        return kind


class _Walk:
    """The state of one pass: records by collection, and the place of every prim in traversal order.

    `originals` are robots that others are composed like, by root of the other.
    `xform_children` are the Xforms directly below bodies, which planning may make frames.
    `mjc_angle` is the first PhysicsScene's, "" where there is none.
    """

    def __init__(
        self,
        prims: PrimReader,
        *,
        physics: bool = False,
        contexts: Iterable[str] | None = None,
        most_prims: int = 0,
    ) -> None:
        self.order: dict[str, int] = {}
        self.found: dict[str, list[Any]] = {}
        self.xform_children: list[str] = []
        self.value_tracks: list[ValueTrackRecord] = []
        self.diagnostics: list[Diagnostic] = []
        self.originals: dict[str, str] = {}
        self.graphs: list[str] = []
        self.mjc_angle = ""
        self._bodies: set[str] = set()
        self._left_out: list[Usd.Prim] = []
        self._instancer = "//"
        self._models: dict[tuple[Any, ...], RobotModel] = {}
        self._last_of: dict[tuple[Any, ...], Callable[[], RobotModel | None]] = {}
        kinds = self._kinds = _Kinds()
        self._prims = prims
        self._links = _PlainLinks(prims)
        self._reader = FieldReader(self.diagnostics, prims.pause)
        self._names = NameCheck()
        self.physics: PhysicsReader | None = None
        if physics:
            # A reference to the walk would keep the stage open until the garbage collector runs.
            self.physics = PhysicsReader(prims, lambda prim: kinds.of(prim).physics, most_prims)
        self._contexts = None if contexts is None else tuple(contexts)
        self._robot = "//"
        self._physics_here = self.physics

    def run(self) -> None:
        """Visit every prim once."""
        reader, stage = self._prims, self._prims.stage
        self._names_are_specs = not has_relocates(stage)
        hidden = left_out(stage)
        prims = iter(Usd.PrimRange(stage.GetPseudoRoot(), WITH_INACTIVE if hidden else PREDICATE))
        next(prims, None)
        for prim in prims:
            path = prim.GetPath().pathString
            if hidden and not prim.IsActive():
                if path in hidden:
                    self.order[path] = len(self.order)
                    self._left_out.append(prim)
                continue
            # Where prims repeat, their specs say everything; where they do not, looking for them is in vain.
            source = reader.source(path, prim) if reader.prims_repeat else None
            kind = self._kinds.of(prim) if source is None else self._known_kind(source)
            if self.physics is not None and self._contexts is not None:
                self._choose_physics(path, kind, self._contexts)
            if source is not None and kind.is_context and self._names_are_specs:
                self._read_robot(source, kind)
                prims.PruneChildren()
            else:
                self._read_prim(prim, path, source, kind)
        self._find_links("")
        if "plain_links" in self.found:
            self.found["plain_links"].sort(key=lambda link: self.order[link.path])

    def left_out(self) -> Iterator[records.ContextRecord | records.IsaacRobotRecord]:
        """Yield the records of the roots of robots that are left out. Their faults are for those who serve them."""
        reader = FieldReader([], self._prims.pause)
        for prim in self._left_out:
            source = self._prims.source(prim.GetPath().pathString, prim)
            for collection, record_type in self._kinds.of(prim).schemas:
                record = reader.record(record_type, source) if collection in ROOTS else None
                if isinstance(record, (records.ContextRecord, records.IsaacRobotRecord)):
                    yield record

    def _choose_physics(self, path: str, kind: Kind, contexts: Sequence[str]) -> None:
        """Read no physics of the robots that `contexts` leaves out."""
        if path.startswith(self._robot):
            return
        is_left_out = False
        if kind.is_context:
            self._robot = f"{path}/"
            is_left_out = not any(f"{path}/".startswith(f"{each}/") for each in contexts)
        self._physics_here = None if is_left_out else self.physics

    def _find_links(self, root: str) -> None:
        """Add the Xforms at or below `root` that may be links: all that is below them was seen."""
        for link in self._links.close(root):
            self.add("plain_links", link)

    def _read_prim(self, prim: Usd.Prim, path: str, source: PrimProperties | None, kind: Kind) -> None:
        self.order[path] = len(self.order)
        names = authored_names(prim, source)
        self.diagnostics += self._names.check(prim, path, names, source, kind.names)
        self.diagnostics += [_plugin_fault(path, fault) for fault in kind.faults]
        if self._physics_here is not None:
            self._physics_here.opinions.see(prim, path, names, source)
            if kind.physics is not None:
                self._physics_here.visit(prim, path, kind.physics)
        if kind.is_graph or path.endswith(KEPT_ELEMENTS):
            self.graphs.append(path)
        if path.startswith(self._instancer):
            kind = _without_physics(kind)
        elif kind.is_instancer:
            self._instancer = f"{path}/"
        if kind.is_body:
            self._bodies.add(path)
        if kind.is_xform and path[: path.rindex("/")] in self._bodies:
            self.xform_children.append(path)
        self._links.see(prim, path, kind)
        if kind.is_unknown and (joint := unknown_joint(prim)) is not None:
            kind = kind._replace(joint=joint, has_records=True)
        if kind.has_records:
            before = {name: len(found) for name, found in self.found.items()}
            try:
                self._visit(source or self._prims.source(path, prim), kind)
            except CONTAINED as error:
                for name, found in self.found.items():
                    # A record of half of a prim's schemas may not fit the rest of the plan.
                    del found[before.get(name, 0) :]
                self._bodies.discard(path)
                self.diagnostics.append(internal_fault(path, "reading this prim", error))

    def _read_robot(self, source: PrimProperties, kind: Kind) -> None:
        """Read a context and all below it; of an instance of a known model, only the root."""
        root = source.path
        self._read_prim(source.prim, root, source, kind)
        prims = iter(Usd.PrimRange(source.prim, PREDICATE))
        next(prims, None)
        below = []
        for prim in prims:
            below.append((prim, self._prims.memo(prim)))
            if not self._prims.prims_repeat:
                break
        specs = tuple([memo.number for _, memo in below])
        repeats = self._prims.prims_repeat
        key = (kind, source.prim.IsInstance(), source.prim.IsInstanceProxy(), specs)
        if repeats and (known := self._known_model(key)) is not None:
            self._add_instance(known, root, below)
            return
        sources = [self._prims.source(prim.GetPath().pathString, prim, memo) for prim, memo in below]
        make_model = self._read_below(root, sources)
        if repeats:
            self._last_of[key] = make_model
        for prim in prims:
            self._read_prim(prim, prim.GetPath().pathString, None, self._kinds.of(prim))

    def _known_model(self, key: tuple[Any, ...]) -> RobotModel | None:
        """Return the model of the robots of a key, made when the second one is read; None for the first."""
        if key not in self._models and key in self._last_of:
            model = self._last_of.pop(key)()
            if model is not None:
                self._models[key] = model
        return self._models.get(key)

    def _add_instance(self, model: RobotModel, root: str, below: Sequence[tuple[Usd.Prim, Memo]]) -> None:
        """Add the records of a robot that is composed from the same specs as its model."""
        self.originals[root] = model.root
        paths = [root + suffix for suffix in model.suffixes]
        self.order.update(zip(paths, count(self.order[root])))
        self.xform_children += [root + suffix for suffix in model.xform_children]
        if self.graphs:
            of_model = [each for each in self.graphs if each.startswith(f"{model.root}/")]
            self.graphs += [root + each[len(model.root) :] for each in of_model]
        for collection, of_robot in model.instance(paths):
            self.found[collection] += of_robot
        if self._physics_here is not None:
            for path, (prim, memo) in zip(paths[1:], below, strict=True):
                kind = memo.of_specs[Kind].physics
                opinions = memo.of_specs.get(Opinions) or memo.of_reading.get(Opinions)
                self._physics_here.opinions.add(path, opinions)
                if kind is not None:
                    self._physics_here.visit(prim, path, kind, memo)

    def _read_below(self, root: str, sources: Sequence[PrimProperties]) -> Callable[[], RobotModel | None]:
        """Read a robot's prims but for the root.

        Returns:
            What makes its model, or None if it can have no other instance.
        """
        before = {name: len(found) for name, found in self.found.items()}
        said = len(self.diagnostics), len(self.value_tracks)
        children = len(self.xform_children)
        for each in sources:
            self._read_prim(each.prim, each.path, each, self._known_kind(each))
        self._find_links(root)
        records = {name: found[before.get(name, 0) :] for name, found in self.found.items()}
        has_faults = said != (len(self.diagnostics), len(self.value_tracks))
        xform_children = self.xform_children[children:]

        def make_model() -> RobotModel | None:
            if has_faults or not can_be_repeated(root, sources, records):
                return None
            return RobotModel(root, [each.path for each in sources], records, xform_children)

        return make_model

    def _known_kind(self, source: PrimProperties) -> Kind:
        kind: Kind | None = source.recall(Kind)
        if kind is None:
            kind = self._kinds.of(source.prim)
            source.remember(Kind, kind)
        return kind

    def _visit(self, source: PrimProperties, kind: Kind) -> None:
        for collection, record_type in kind.schemas:
            self.add(collection, self._reader.record(record_type, source))
        for schema in kind.sensors:
            self.add("sensor_models", read_sensor_model(source, schema))
        if kind.joint:
            self.add("joints", read_joint(self._reader, source, kind.joint))
            self.value_tracks += value_tracks(source, self.diagnostics)
        if kind.is_scene:
            self.mjc_angle = self.mjc_angle or str(solver_attributes(source).get(MJC_ANGLE, "degree"))

    def add(self, collection: str, record: Record) -> None:
        """Add a record to one of StageRecords' collections."""
        self.found.setdefault(collection, []).append(record)

    def paths(self, collections: Iterable[str]) -> list[str]:
        """Return the paths of the records in `collections`."""
        return [record.path for name in collections for record in self.found.get(name, ())]

    def targets(self) -> set[str]:
        """Return every path that a relationship of a record targets; where actuators act is no business of frames."""
        return {
            target
            for collection, found in self.found.items()
            if collection != "actuators"
            for record in found
            for name, _ in relationships(record.__class__)
            for target in getattr(record, name) or ()
        }


def _kind_of(prim: Usd.Prim, type_name: str, applied: tuple[str, ...]) -> Kind:
    schemas = [SCHEMAS[name] for name in applied if name in SCHEMAS]
    # Others than ours are imported here, when the first prim applies their schema.
    foreign = [name for name in applied if name not in SCHEMAS and CONTROLLERS.is_foreign(name)]
    faults = {name: _row_fault(name) for name in foreign}
    plugin_records: list[type[Record]] = [
        record for name in foreign if not faults[name] and (record := CONTROLLERS[name].record) is not None
    ]
    schemas += [("controllers", record) for record in plugin_records]
    if prim.IsA(UsdGeom.Camera):
        schemas.append(("cameras", records.CameraRecord))
    if type_name in ACTUATORS:
        schemas.append(("actuators", records.ActuatedRecord))
    if type_name in GEAR_TYPES:
        schemas.append(("gears", GEAR_TYPES[type_name]))
    joint = joint_kind(prim, applied)
    is_scene = prim.IsA(UsdPhysics.Scene)
    is_graph = type_name in GRAPH_TYPES
    sensors = sensor_schemas(applied, type_name)
    return Kind(
        schemas=tuple(schemas),
        joint=joint,
        is_unknown=joint is None
        and prim.GetPrimTypeInfo().GetSchemaType().isUnknown
        and type_name not in GEAR_TYPES,
        is_body=any(name == "bodies" for name, _ in schemas),
        is_context=any(name == "contexts" for name, _ in schemas),
        is_xform=type_name == "Xform",
        is_scene=is_scene,
        is_drawn=prim.IsA(UsdGeom.Boundable),
        is_instancer=prim.IsA(UsdGeom.PointInstancer),
        has_records=bool(schemas or sensors) or joint is not None or is_scene,
        physics=physics_kind(prim, type_name, applied),
        sensors=sensors,
        names=applied_names(
            [each for each in applied if each not in sensors],
            is_joint=joint is not None,
            is_camera=bool(prim.IsA(UsdGeom.Camera)),
            is_actuator=type_name in ACTUATOR_TYPES,
            foreign=foreign,
            records=plugin_records,
        ),
        is_graph=is_graph,
        faults=tuple(filter(None, faults.values())),
    )


def _row_fault(schema: str) -> str:
    """Return why prims with the schema of a plug-in cannot be read, "" where they can."""
    row = CONTROLLERS.get(schema)
    if row is None:
        return CONTROLLERS.fault(schema)
    if row.record is None:
        return f"controller {quoted(schema)} is for interfaces: it has no record"
    owner = schema_name(row.record)
    # Planning knows a controller's schema by its record.
    return "" if owner == schema else f"the record of controller {quoted(schema)} is that of {quoted(owner)}"


def _plugin_fault(path: str, fault: str) -> Diagnostic:
    return Diagnostic(
        code="4.2.3.plugin",
        severity="error",
        path=path,
        attribute="apiSchemas",
        message=f"{fault}; the controller is left out",
        remedy=PLUGIN_REMEDY,
    )


def _graph_diagnostics(stage: Usd.Stage, paths: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield one remark about all interfaces in another form than the REP's: they are not read."""
    graphs = [path for path in paths if not path.endswith(KEPT_ELEMENTS)]
    kept = [
        str(child.GetPath())
        for path in paths
        if path.endswith(KEPT_ELEMENTS)
        for child in stage.GetPrimAtPath(path).GetFilteredChildren(PREDICATE)
    ]
    parts = [
        f"{len(found)} {what} not read: {', '.join(found[:_SHOWN_GRAPHS])}"
        f"{', ...' if len(found) > _SHOWN_GRAPHS else ''}"
        for found, what in (
            (graphs, "OmniGraph graphs are" if len(graphs) > 1 else "OmniGraph graph is"),
            (kept, "elements of a robot file are" if len(kept) > 1 else "element of a robot file is"),
        )
        if found
    ]
    if parts:
        yield Diagnostic(
            code="2.graph",
            severity="info",
            path=(graphs or kept)[0],
            message="; ".join(parts),
            remedy="apply the Ros*API schemas to the robot: usd_ros_bridge scaffold writes them",
        )


def _without_physics(kind: Kind) -> Kind:
    """Return what a prim below a PointInstancer means: a part of a prototype, and no body or joint where it stands."""
    schemas = tuple(each for each in kind.schemas if each[0] not in _PHYSICS)
    return kind._replace(
        schemas=schemas,
        joint=None,
        is_unknown=False,
        is_body=False,
        has_records=bool(schemas or kind.sensors) or kind.is_scene,
    )


def _default_prim(stage: Usd.Stage, diagnostics: list[Diagnostic]) -> str | None:
    prim = stage.GetDefaultPrim()
    if prim:
        return str(prim.GetPath().pathString)
    name = stage.GetRootLayer().defaultPrim
    diagnostics.append(
        Diagnostic(
            code="1.2.5.default_prim",
            severity="warning",
            path="",
            attribute="defaultPrim",
            message=f"defaultPrim names no prim: {quoted(name)}" if name else "no defaultPrim is authored",
            remedy="set defaultPrim on the root layer: references to this asset need it (REP 0158 section 1.2.5)",
        )
    )
    return None


def _asset_names(stage: Usd.Stage, paths: Iterable[str | None]) -> dict[str, str]:
    """Return `assetInfo.name` of prims that author one as text."""
    names = {path: stage.GetPrimAtPath(path).GetAssetInfoByKey("name") for path in paths if path}
    return {path: name for path, name in names.items() if isinstance(name, str) and name}


def read_stage(
    stage: Usd.Stage,
    *,
    asset: str,
    physics: bool = False,
    contexts: Iterable[str] | None = None,
    max_prims: int = ReadOptions().max_prims,
    pause: Pause | None = None,
    again: bool = False,
) -> StageRecords:
    """Read an open stage, a host's included. The stage is not changed.

    Args:
        stage: The stage, as composed now: its variant selections, payloads and edits count.
        asset: The asset as the caller names it.
        physics: Read what engines need, too.
        contexts: Physics of robots at or below one of these prims is read, and of none other; None for all robots.
        max_prims: Most prims of the instances of PointInstancers, of which physics is read.
        pause: Called often, between prims: other threads may use the stage meanwhile.
        again: The stage was read before and will be read again: remember what layers say until they change.

    Returns:
        Records in traversal order, in the stage's own units. Faults of the asset are in `diagnostics`.

    Raises:
        AssetError: A stage that the bridge did not open has text that is not UTF-8 where all of it depends on it.
    """
    with gc_paused():
        prims = PrimReader(stage, pause, memory_of(stage) if again else None)
        walk = _Walk(prims, physics=physics, contexts=contexts, most_prims=max_prims)
        try:
            records = _read(stage, asset, prims, walk)
        except UnicodeDecodeError:
            # On a stage of a host's: the bridge replaces such text in the layers that it opens itself.
            raise AssetError(f"cannot read {quoted(asset)}: {_bad_text_of(stage)}") from None
        prims.close()
        return records


def _bad_text_of(stage: Usd.Stage) -> str:
    faults = ((layer, fault) for layer in stage.GetUsedLayers() for fault in bad_text(layer))
    layer, fault = next(faults, (stage.GetRootLayer(), None))
    where = "" if fault is None else f": {fault}"
    return f"the layer {quoted(layer_name(layer))} has text that is not UTF-8{where}; {NOT_UTF8_REMEDY}"


def _read(stage: Usd.Stage, asset: str, prims: PrimReader, walk: _Walk) -> StageRecords:
    metrics = stage_metrics(stage)
    diagnostics = [*composition_diagnostics(stage), *metric_diagnostics(stage, metrics)]
    default_prim = _default_prim(stage, diagnostics)
    walk.run()
    order = walk.order
    targets = walk.targets()
    collections = collection_members(
        stage, (target for target in targets if ".collection:" in target), order, walk.diagnostics
    )
    wanted = with_ancestors(
        path
        for path in (
            *walk.paths(LOCATED),
            *walk.xform_children,
            *targets,
            *(member for members in collections.values() for member in members),
            *((default_prim,) if default_prim else ()),
        )
        if path in order
    )
    located = sorted(wanted, key=order.__getitem__)
    xform_reader = XformReader(stage, prims.source, walk.diagnostics)
    xforms = xform_reader.read(located, walk.originals)
    hidden = tuple(walk.left_out())
    tracked = {*walk.paths(TRACKED), *(path for path, xform in xforms.items() if xform.animated)}
    pose_tracks = xform_reader.tracks(xforms, (path for path in located if path in tracked))
    return StageRecords(
        asset=asset,
        default_prim=default_prim if default_prim in order else None,
        metrics=replace(metrics, mjc_angle=walk.mjc_angle or "degree"),
        xforms=xforms,
        order={
            path: order[path]
            for path in (*located, *walk.paths(("joints", "actuators")), *(each.path for each in hidden))
        },
        left_out=hidden,
        pose_tracks=pose_tracks,
        value_tracks=tuple(walk.value_tracks),
        repeats=walk.originals,
        sources=source_types(stage, walk.found.get("topics", ()), walk.diagnostics),
        asset_names=_asset_names(stage, (default_prim, *walk.paths(ROOTS))),
        collections=collections,
        scene_values=read_scene_values(stage, walk.found.get("sensor_models", ())),
        # Its diagnostics are its own: they count where physics is planned.
        physics=None if walk.physics is None else walk.physics.records(xform_reader),
        diagnostics=(
            *diagnostics,
            *walk.diagnostics,
            *_graph_diagnostics(stage, walk.graphs),
            *arc_diagnostics(stage, walk.paths(ROS), walk.paths(("bodies", "joints")), walk.originals),
        ),
        **{name: tuple(found) for name, found in walk.found.items()},
    )


assert {name for name, _ in SCHEMAS.values()} < {field.name for field in fields(StageRecords)}


def source_types(
    stage: Usd.Stage, topics: Iterable[TopicRecord], diagnostics: list[Diagnostic]
) -> dict[str, str]:
    """Return the USD value type by path of all that publishers name as sources; "" where no attribute is there."""
    types = {}
    for path in {target for topic in topics for target in topic.source or ()}:
        attribute = stage.GetAttributeAtPath(path) if Sdf.Path(path).IsPropertyPath() else None
        types[path] = str(attribute.GetTypeName()) if attribute else ""
        if attribute:
            sample_times(attribute, diagnostics)
    return types
