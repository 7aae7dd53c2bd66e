"""Builds StageRecords by hand, as reading a stage would, without OpenUSD."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from usd_ros_bridge.model import records as r
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, JointPlan, TopicPlan
from usd_ros_bridge.model.stage import (
    PlainLinkRecord,
    PoseTrackRecord,
    StageMetrics,
    StageRecords,
    ValueTrackRecord,
    XformRecord,
)
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.spatial.transforms import normalized, pose, to_matrix

MKS = StageMetrics(meters_per_unit=1.0, up_axis="Z", time_codes_per_second=1.0)
IDENTITY = (0.0, 0.0, 0.0, 1.0)


def turn(axis: str, degrees: float) -> tuple[float, float, float, float]:
    """A quaternion x y z w."""
    half = np.radians(degrees) / 2
    xyz = [0.0, 0.0, 0.0]
    xyz["XYZ".index(axis)] = float(np.sin(half))
    return (xyz[0], xyz[1], xyz[2], float(np.cos(half)))


@dataclass
class Stage:
    """A stage that grows prim by prim; parents come first and are added where they are missing."""

    metrics: StageMetrics = MKS
    default_prim: str | None = "/robot"
    parts: dict[str, list[Any]] = field(default_factory=dict)
    xforms: dict[str, XformRecord] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    collections: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def xform(
        self,
        path: str,
        at: Any = (0.0, 0.0, 0.0),
        rot: Any = IDENTITY,
        scale: Any = (1.0, 1.0, 1.0),
        *,
        type_name: str = "Xform",
        animated: bool = False,
        resets: bool = False,
        matrix: Any = None,
        kept_name: str = "",
    ) -> str:
        if path in self.xforms:
            return path
        parent = path.rpartition("/")[0]
        if parent:
            self.xform(parent)
        above = np.eye(4) if resets or not parent else np.reshape(self.xforms[parent].world_from_prim, (4, 4))
        local = to_matrix(pose(at, normalized(np.array(rot, dtype=float))))
        local[:3, :3] *= np.array(scale)
        world = above @ local if matrix is None else np.array(matrix, dtype=float)
        self.xforms[path] = XformRecord(
            path=path,
            type_name=type_name,
            world_from_prim=tuple(world.reshape(-1).tolist()),
            animated=animated,
            resets_stack=resets,
            kept_name=kept_name,
        )
        self.order[path] = len(self.order)
        return path

    def add(self, group: str, record: Any) -> Any:
        self.order.setdefault(record.path, len(self.order))
        self.parts.setdefault(group, []).append(record)
        return record

    def context(self, path: str = "/robot", namespace: str | None = "robot", **values: Any) -> str:
        self.xform(path)
        self.add("contexts", r.ContextRecord(path=path, namespace=namespace, **values))
        return path

    def body(self, path: str, at: Any = (0.0, 0.0, 0.0), rot: Any = IDENTITY, **values: Any) -> str:
        xform = {
            k: values.pop(k) for k in ("scale", "animated", "resets", "matrix", "kept_name") if k in values
        }
        self.xform(path, at, rot, **xform)
        self.add("bodies", r.RigidBodyRecord(path=path, **values))
        return path

    def link(
        self,
        path: str,
        at: Any = (0.0, 0.0, 0.0),
        rot: Any = IDENTITY,
        *,
        converted: bool = False,
        **values: Any,
    ) -> str:
        """Adds an Xform that may stand for a link without mass."""
        self.xform(path, at, rot, **values)
        self.add("plain_links", PlainLinkRecord(path=path, converted=converted))
        return path

    def joint(
        self,
        path: str,
        body0: str | None = None,
        body1: str | None = None,
        type_name: str = "Revolute",
        **values: Any,
    ) -> str:
        values.setdefault("axis", "Z" if type_name in ("Revolute", "Prismatic", "Spherical") else None)
        if type_name in ("Revolute", "Prismatic") and "lower_limit" not in values:
            values.update(lower_limit=-90.0, upper_limit=90.0)
        name = "PhysicsJoint" if type_name == "Generic" else f"Physics{type_name}Joint"
        self.add(
            "joints",
            r.JointRecord(
                path=path,
                type_name=name,
                body0=(body0,) if body0 else None,
                body1=(body1,) if body1 else None,
                **values,
            ),
        )
        return path

    def topic(
        self, path: str, type_name: str = "std_msgs/msg/String", *, name: str | None = None, **values: Any
    ) -> str:
        self.xform(path)
        values.setdefault("role", "publisher")
        if values["role"] == "publisher":
            values.setdefault("publish_rate", 10.0)
        name = path.rpartition("/")[2] if name is None else name
        self.add("topics", r.TopicRecord(path=path, name=name, type=type_name, **values))
        return path

    def service(
        self, path: str, type_name: str = "std_srvs/srv/SetBool", *, name: str = "", **values: Any
    ) -> str:
        self.xform(path)
        values.setdefault("role", "server")
        self.add(
            "services",
            r.ServiceRecord(path=path, name=name or path.rpartition("/")[2], type=type_name, **values),
        )
        return path

    def action(
        self,
        path: str,
        type_name: str = "control_msgs/action/FollowJointTrajectory",
        *,
        name: str = "",
        **values: Any,
    ) -> str:
        self.xform(path)
        values.setdefault("role", "server")
        self.add(
            "actions",
            r.ActionRecord(path=path, name=name or path.rpartition("/")[2], type=type_name, **values),
        )
        return path

    def frame(self, path: str, at: Any = (0.0, 0.0, 0.0), rot: Any = IDENTITY, **values: Any) -> str:
        xform = {k: values.pop(k) for k in ("type_name", "animated", "resets", "matrix") if k in values}
        self.xform(path, at, rot, **xform)
        self.add("frames", r.FrameRecord(path=path, **values))
        return path

    def controller(self, record: r.ControllerRecord) -> str:
        self.xform(record.path)
        self.add("controllers", record)
        return record.path

    def camera(self, path: str, **values: Any) -> str:
        self.xform(path, type_name="Camera")
        self.add("cameras", r.CameraRecord(path=path, **values))
        return path

    def pose_track(self, path: str, times: Any, matrices: Any) -> None:
        self.add(
            "pose_tracks",
            PoseTrackRecord(
                path=path,
                time_codes=np.array(times, dtype=float),
                world_from_prim=np.array(matrices, dtype=float),
            ),
        )

    def value_track(self, path: str, attribute: str, times: Any, values: Any) -> None:
        self.add(
            "value_tracks",
            ValueTrackRecord(
                path=path,
                attribute=attribute,
                time_codes=np.array(times, dtype=float),
                values=np.array(values, dtype=float),
            ),
        )

    def records(self) -> StageRecords:
        return StageRecords(
            asset="test.usda",
            default_prim=self.default_prim,
            metrics=self.metrics,
            xforms=self.xforms,
            order=self.order,
            collections=self.collections,
            **{k: tuple(v) for k, v in self.parts.items()},
        )

    def plan(self, catalog: Any = None, **options: Any) -> BridgePlan:
        return make_plan(self.records(), PlanOptions(**options), catalog=catalog)


def arm(stage: Stage | None = None, root: str = "/robot", *, context: bool = True) -> Stage:
    """A context with base (fixed to the world), link_1 (revolute Z at 0.5 m) and link_2 (prismatic Z at 1 m)."""
    stage = stage or Stage()
    if context:
        stage.context(root, namespace=root.rpartition("/")[2])
    stage.body(f"{root}/base")
    stage.body(f"{root}/link_1", (0.0, 0.0, 0.5))
    stage.body(f"{root}/link_2", (0.0, 0.0, 1.0))
    stage.joint(f"{root}/anchor", None, f"{root}/base", "Fixed")
    stage.joint(f"{root}/pan", f"{root}/base", f"{root}/link_1", local_pos0=(0.0, 0.0, 0.5))
    stage.joint(
        f"{root}/lift",
        f"{root}/link_1",
        f"{root}/link_2",
        "Prismatic",
        local_pos0=(0.0, 0.0, 0.5),
        lower_limit=-0.1,
        upper_limit=0.4,
    )
    return stage


def rover(stage: Stage | None = None, root: str = "/robot", *, context: bool = True) -> Stage:
    """A floating base with two driven wheels; cmd_vel and odom beside them; no controller."""
    stage = stage or Stage()
    if context:
        stage.context(root, namespace=root.rpartition("/")[2])
    stage.body(f"{root}/base", (1.0, 2.0, 0.1))
    for name, y in (("left", 0.25), ("right", -0.25)):
        stage.body(f"{root}/{name}", (1.0, 2.0 + y, 0.1))
        stage.joint(
            f"{root}/{name}_wheel",
            f"{root}/base",
            f"{root}/{name}",
            axis="Y",
            local_pos0=(0.0, y, 0.0),
            lower_limit=None,
            upper_limit=None,
            drives=(r.DriveRecord(path=f"{root}/{name}_wheel", axis="angular", damping=10.0),),
        )
    stage.topic(f"{root}/cmd_vel", "geometry_msgs/msg/Twist", role="subscription")
    stage.topic(f"{root}/odom", "nav_msgs/msg/Odometry", publish_rate=50.0)
    return stage


def diff_drive(root: str = "/robot", **values: Any) -> r.DiffDriveRecord:
    defaults: dict[str, Any] = {
        "subscriber": (f"{root}/cmd_vel",),
        "odom": (f"{root}/odom",),
        "left_wheels": (f"{root}/left_wheel",),
        "right_wheels": (f"{root}/right_wheel",),
        "wheel_separation": 0.5,
        "wheel_radius": 0.1,
    }
    return r.DiffDriveRecord(path=f"{root}/drive", **{**defaults, **values})


def found(plan: BridgePlan, code: str) -> list[Diagnostic]:
    return [diagnostic for diagnostic in plan.diagnostics if diagnostic.code == code]


def frames(plan: BridgePlan, robot: int = 0) -> dict[str, FramePlan]:
    return {frame.id: frame for frame in plan.robots[robot].frames}


def joints(plan: BridgePlan, robot: int = 0) -> dict[str, JointPlan]:
    return {joint.name: joint for joint in plan.robots[robot].joints}


def topics(plan: BridgePlan) -> dict[str, TopicPlan]:
    return {topic.path: topic for topic in plan.topics}
