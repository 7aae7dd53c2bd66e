"""A stage as read: where prims are, its time samples, its units, and every record in traversal order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.records import (
    ActionRecord,
    ActuatedRecord,
    ArticulationRootRecord,
    CameraRecord,
    ContextRecord,
    ControllerRecord,
    FrameRecord,
    GearRecord,
    IsaacJointRecord,
    IsaacLinkRecord,
    IsaacRobotRecord,
    IsaacSiteRecord,
    JointRecord,
    Matrix4,
    RackRecord,
    Record,
    RigidBodyRecord,
    SensorModelRecord,
    ServiceRecord,
    TopicRecord,
)

Pause = Callable[[], None]
"""Called often during long reads, to let other threads run."""


class RobotRoot(NamedTuple):
    """Root prim of a robot, and its namespace as authored: it may be none that ROS accepts."""

    path: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class XformRecord(Record):
    """Transform of a prim at the stage's default time (the earliest sample where only samples exist).

    Attributes:
        type_name: USD type of the prim, "" for a typeless one.
        world_from_prim: Local-to-world matrix as composed, scale included, in stage units and the stage's up-axis.
            All NaN where the prim, or what carries it, is oriented by a quaternion of zero length or has an op that
            OpenUSD cannot use.
        animated: The prim's own transform has time samples that differ.
        resets_stack: Its xformOpOrder starts with `!resetXformStack!`.
        instance_proxy: The prim lies below an instance.
        kept_name: The prim's name before a converter, which kept it as the display name: USD cannot carry it.
    """

    type_name: str
    world_from_prim: Matrix4
    animated: bool = False
    resets_stack: bool = False
    instance_proxy: bool = False
    kept_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLinkRecord(Record):
    """An Xform without a body, without geometry and without references of its own: perhaps a link without mass.

    Those of URDF converters are all there; others where they are in a body.

    Attributes:
        converted: A URDF converter's layer defines it: then it is a link.
    """

    converted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoseTrackRecord(Record):
    """Time samples of an animated prim, baked at every sample of the prim and its animated ancestors.

    Attributes:
        time_codes: (T,) time codes, increasing.
        world_from_prim: (T, 4, 4) local-to-world matrices for column vectors, in stage units.
    """

    time_codes: NDArray[np.float64]
    world_from_prim: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueTrackRecord(Record):
    """Time samples of one scalar attribute of a joint (`state:angular:physics:position` and similar ones), as authored.

    Attributes:
        attribute: USD name of the attribute.
        time_codes: (T,) time codes, increasing.
        values: (T,) values in degrees or stage units.
    """

    attribute: str
    time_codes: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMetrics:
    """Units and axes of the stage's root layer, with OpenUSD's fallbacks where nothing is authored.

    Attributes:
        authored: Names of the metadata that are authored (metersPerUnit, kilogramsPerUnit, upAxis, timeCodesPerSecond).
        start_time_code: First time code of the stage, None where not authored.
        end_time_code: Last time code of the stage, None where not authored.
        mjc_angle: `mjc:compiler:angle` of the first PhysicsScene, `degree` where not authored.
    """

    meters_per_unit: float = 0.01
    kilograms_per_unit: float = 1.0
    up_axis: str = "Y"
    time_codes_per_second: float = 24.0
    authored: frozenset[str] = frozenset()
    start_time_code: float | None = None
    end_time_code: float | None = None
    mjc_angle: str = "degree"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageRecords:
    """All input of planning from a stage. All tuples are in traversal order.

    Attributes:
        asset: The asset as the caller named it.
        default_prim: Path of the default prim, None where there is none.
        xforms: By prim path: every prim that another record names (interfaces, contexts, bodies, frames, cameras,
            relationship targets that exist) and all their ancestors. A path that is not here does not exist.
        plain_links: Xforms that may stand for links.
        order: Position in traversal order, by prim path, of the prims in `xforms` and `left_out`, of every joint and
            actuator.
        left_out: Root prims of robots that are not composed, as nobody serves them.
        repeats: Root of a model by root of each instance, which is composed from the same specs: but for those of the
            root itself, the records of the two differ in paths alone.
        asset_names: `assetInfo.name` by path, of the prims that may be a robot's root and author one.
        sources: USD value type by path of each attribute that a publisher names as its source; "" where there is no
            such attribute.
        sensor_models: Prims of sensor models that plug-ins bring.
        scene_values: What those models read of any prim, by USD name, by path.
        collections: Members of each collection that a relationship targets, by `/Prim.collection:name`.
        physics: Records for engines; None if they were not read.
        diagnostics: Faults that reading found: wrong value types, broken composition, refused references, units.
            `physics` has its own.
    """

    asset: str
    default_prim: str | None = None
    metrics: StageMetrics = field(default_factory=StageMetrics)
    xforms: Mapping[str, XformRecord] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)
    contexts: tuple[ContextRecord, ...] = ()
    left_out: tuple[ContextRecord | IsaacRobotRecord, ...] = ()
    topics: tuple[TopicRecord, ...] = ()
    services: tuple[ServiceRecord, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    frames: tuple[FrameRecord, ...] = ()
    controllers: tuple[ControllerRecord, ...] = ()
    bodies: tuple[RigidBodyRecord, ...] = ()
    articulation_roots: tuple[ArticulationRootRecord, ...] = ()
    joints: tuple[JointRecord, ...] = ()
    gears: tuple[GearRecord | RackRecord, ...] = ()
    actuators: tuple[ActuatedRecord, ...] = ()
    isaac_robots: tuple[IsaacRobotRecord, ...] = ()
    isaac_links: tuple[IsaacLinkRecord, ...] = ()
    isaac_joints: tuple[IsaacJointRecord, ...] = ()
    isaac_sites: tuple[IsaacSiteRecord, ...] = ()
    cameras: tuple[CameraRecord, ...] = ()
    plain_links: tuple[PlainLinkRecord, ...] = ()
    sensor_models: tuple[SensorModelRecord, ...] = ()
    scene_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pose_tracks: tuple[PoseTrackRecord, ...] = ()
    value_tracks: tuple[ValueTrackRecord, ...] = ()
    repeats: Mapping[str, str] = field(default_factory=dict)
    asset_names: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    collections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    physics: PhysicsRecords | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
