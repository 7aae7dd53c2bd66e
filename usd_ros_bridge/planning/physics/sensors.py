"""Interfaces that measure: what a backend is to measure for each, in SI units, from `usd_ros_bridge:` attributes.

REP 0158 leaves sensor models to extensions (section 1.4); docs/reference/sensors.md has the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import COMPRESSED_IMAGE, IMAGE, POINT_CLOUD, message_type
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Joint
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.sensor_schemas import IMAGES, SENSOR_MODELS
from usd_ros_bridge.model.sensors import CameraSensor, Sensor, image_path
from usd_ros_bridge.planning.names import Nearest
from usd_ros_bridge.planning.physics.sensor_models import (
    COLOR_ENCODING,
    DEPTH_ENCODING,
    PREFIX,
    SensorValues,
    barometer,
    camera,
    contact,
    depth_cloud,
    gnss,
    imu,
    lidar,
    magnetometer,
    range_finder,
    thermometer,
    wrench,
)
from usd_ros_bridge.planning.stage_index import WorldPoses, as_poses
from usd_ros_bridge.spatial import transforms
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

_OPTICAL: Final = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
"""`camera_from_optical`: half a turn about X (REP 0158 section 2.8)."""
_APART_M: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Position of the world's origin on earth (WGS 84): degrees, m, and rad from east to the world's X."""

    latitude: float
    longitude: float
    altitude: float = 0.0
    heading: float = 0.0


def plan_sensors(
    physics: PhysicsRecords,
    plan: BridgePlan,
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    findings: DiagnosticCollector,
    *,
    poses: WorldPoses | None = None,
) -> tuple[Sensor, ...]:
    """Return what is to be measured for the plan's publishers, in their order.

    Args:
        physics: The stage's sensors.
        plan: The interfaces.
        bodies: All bodies of the scene.
        joints: All joints of the scene.
        findings: Collector of faults.
        poses: Where prims are. None: pictures are taken from where their interfaces are, whose prims are then taken
            for optical frames.
    """
    return _Planner(physics, plan, bodies, joints, findings, poses).plan()


class _Planner:
    def __init__(
        self,
        physics: PhysicsRecords,
        plan: BridgePlan,
        bodies: Sequence[Body],
        joints: Sequence[Joint],
        findings: DiagnosticCollector,
        poses: WorldPoses | None,
    ) -> None:
        self._physics = physics
        self._plan = plan
        self._joints = joints
        self._findings = findings
        self._poses = poses
        self._body_paths = [body.path for body in bodies]
        self._body_of_row = {body.row: index for index, body in enumerate(bodies) if body.row >= 0}
        self._joint_of = {joint.path: index for index, joint in enumerate(joints)}
        self._joint_at = Nearest(self._joint_of)
        self._carrying = {index for body in bodies for index in body.joints}
        self._origin = _origin(physics, findings)
        self._of_plugins = {sensor.path for sensor in plan.sensors}

    def plan(self) -> tuple[Sensor, ...]:
        sensors = []
        for topic in self._plan.topics:
            kind = message_type(topic.type).sensor
            is_free = topic.role == "publisher" and topic.enabled and topic.path not in self._of_plugins
            if not is_free or not kind or topic.source:
                continue
            sensor = self._sensor(topic, kind, self._values(topic, kind))
            if sensor is not None:
                sensors.append(sensor)
        return (*sensors, *self._plugin_images())

    def _plugin_images(self) -> list[Sensor]:
        """Return the images that sensor models of plug-ins need, which no publisher shows."""
        topics = {topic.path: topic for topic in self._plan.topics}
        images: list[Sensor] = []
        for sensor in self._plan.sensors:
            model, topic = SENSOR_MODELS.get(sensor.schema), topics[sensor.path]
            kinds = [kind for kind in IMAGES if model is not None and kind in model.needs]
            for kind in kinds if topic.camera >= 0 and topic.enabled else ():
                common = self._common(topic)
                common["body_from_sensor"] = self._optical(topic, common)
                common |= {"path": image_path(topic.path, kind), "type": IMAGE}
                images.append(
                    CameraSensor(
                        **common,
                        camera=topic.camera,
                        depth=kind == "depth",
                        segmentation=kind == "segmentation",
                    )
                )
        return images

    def _values(self, topic: TopicPlan, group: str) -> SensorValues:
        record = self._physics.sensors.get(topic.path)
        return SensorValues(topic.path, group, {} if record is None else record.values, self._findings)

    def _sensor(self, topic: TopicPlan, kind: str, values: SensorValues) -> Sensor | None:
        common = self._common(topic)
        if topic.type == POINT_CLOUD and topic.camera >= 0 and not values:
            return self._depth_cloud(topic, common)
        make = _MODELS.get(kind)
        if make is not None:
            self._check_frame(topic)
            return make(common, values)
        if kind == "gnss":
            return self._gnss(common, values)
        if kind in _ATMOSPHERE:
            altitude = 0.0 if self._origin is None else self._origin.altitude
            return _ATMOSPHERE[kind](common, values, altitude)
        if kind == "wrench":
            return self._wrench(topic, common, values)
        if kind == "contact":
            # Any truth value may be published as a Bool: an attribute says that it is about contact.
            return self._contact(common, values) if values else None
        return self._camera(topic, common, values)

    # --- Where --------------------------------------------------------------------------------------------------

    def _common(self, topic: TopicPlan) -> dict[str, Any]:
        body, pose = self._place(topic.body, topic.body_from_prim)
        if topic.body >= 0 and body == WORLD_BODY:
            self._findings.warning(
                "2.7.sensor",
                topic.path,
                f"{quoted(self._plan.layout.bodies[topic.body])} is moved by time samples and is no rigid body: the "
                "sensor stays where it is at rest",
                "put the sensor on a rigid body",
            )
        return {
            "path": topic.path,
            "type": topic.type,
            "rate": topic.publish_rate or 0.0,
            "body": body,
            "body_from_sensor": pose,
        }

    def _place(self, row: int, carrier_from_prim: Pose) -> tuple[int, Pose]:
        """Return a body, and a pose in it, of a row of the layout and a pose in that; the world where it has none."""
        if row < 0:
            return WORLD_BODY, carrier_from_prim
        body = self._body_of_row.get(row, WORLD_BODY)
        if body != WORLD_BODY:
            return body, carrier_from_prim
        return body, _pose(transforms.compose(self._plan.layout.body_pose[row], _array(carrier_from_prim)))

    def _header_frame(self, topic: TopicPlan) -> tuple[int, Pose] | None:
        """Return the carrier's row and the header's frame in it; None where it is no frame of the robot."""
        if topic.robot < 0:
            return None
        robot = self._plan.robots[topic.robot]
        prefixes = {"", *(output.prefix for output in robot.tf_outputs)}
        for frame in robot.frames:
            if topic.frame_id in {prefix + frame.id for prefix in prefixes}:
                return frame.carrier, frame.carrier_from_frame
        return None

    def _check_frame(self, topic: TopicPlan, measured_in: Pose | None = None) -> None:
        """Warn where what is measured at the prim, or in another frame of its body, would be shown elsewhere."""
        frame = self._header_frame(topic)
        if frame is None:
            return
        row, pose = frame
        measured = measured_in or topic.body_from_prim
        apart = row != topic.body or not np.allclose(
            _turned_up(_array(pose)),
            _turned_up(_array(measured)),
            rtol=0.0,
            atol=_APART_M,
        )
        if apart:
            self._findings.warning(
                "2.7.sensor",
                topic.path,
                f"the sensor measures elsewhere than in the frame that its header names, {quoted(topic.frame_id)}: "
                f"{self._offset(row, pose, topic.body, measured)}",
                "apply RosFrameAPI to this prim, or move it there; on a camera, to a child that is turned by 180 "
                "degrees about X",
            )

    def _offset(self, frame_row: int, frame: Pose, row: int, measured: Pose) -> str:
        """Return where something measures in a frame: position (m) and angle (degrees) at rest."""
        poses = self._plan.layout.body_pose
        here, there = (
            _array(pose) if of < 0 else transforms.compose(poses[of], _array(pose))
            for of, pose in ((frame_row, frame), (row, measured))
        )
        offset = transforms.relative(here, there)
        x, y, z = (f"{round(each, 4) + 0.0:g}" for each in offset[:3].tolist())
        angle = math.degrees(2.0 * math.acos(min(1.0, abs(float(offset[6])))))
        return f"it is at ({x}, {y}, {z}) m in it, turned by {angle:.0f} degrees"

    # --- Kinds --------------------------------------------------------------------------------------------------

    def _gnss(self, common: dict[str, Any], values: SensorValues) -> Sensor | None:
        if self._origin is not None:
            return gnss(common, values, **_fields(self._origin))
        self._findings.warning(
            "1.4.sensor.origin",
            common["path"],
            "the asset does not say where on earth it is; no fix is published",
            f"author {PREFIX}georeference:latitude and :longitude on the default prim or the PhysicsScene",
        )
        return None

    def _wrench(self, topic: TopicPlan, common: dict[str, Any], values: SensorValues) -> Sensor | None:
        named = values.path_of("joint")
        path = named or self._joint_at(topic.path)
        joint = self._joint_of.get(path, -1)
        if path and joint not in self._carrying:
            reason = (
                "is no joint of the scene" if joint < 0 else "carries no body: it closes a loop, or is cut"
            )
        elif path and self._joints[joint].type == "distance":
            reason = "is a distance joint, in which nothing is measured"
        else:
            reason = ""
        if reason:
            self._findings.warning(
                "1.4.sensor.joint", topic.path, f"{quoted(path)} {reason}", "name another joint"
            )
            return None
        if joint < 0 and common["body"] == WORLD_BODY:
            self._refuse_world(topic.path)
            return None
        frame = self._header_frame(topic)
        body, pose = (WORLD_BODY, IDENTITY_POSE) if frame is None else self._place(*frame)
        return wrench(common, values, joint=joint, frame_body=body, body_from_frame=pose)

    def _contact(self, common: dict[str, Any], values: SensorValues) -> Sensor | None:
        if common["body"] == WORLD_BODY:
            self._refuse_world(common["path"])
            return None
        return contact(common, values)

    def _refuse_world(self, path: str) -> None:
        self._findings.warning(
            "1.4.sensor.joint", path, "it is on no rigid body and on no joint", "put it on one of them"
        )

    def _camera(self, topic: TopicPlan, common: dict[str, Any], values: SensorValues) -> Sensor | None:
        if topic.camera < 0:
            return None
        common["body_from_sensor"] = self._optical(topic, common)
        self._check_frame(topic, common["body_from_sensor"])
        deep = any("depth" in segment for segment in topic.name.split("/"))
        return camera(
            common,
            values,
            camera=topic.camera,
            default=DEPTH_ENCODING if deep else COLOR_ENCODING,
            topic=topic.name if topic.type == COMPRESSED_IMAGE else None,
        )

    def _depth_cloud(self, topic: TopicPlan, common: dict[str, Any]) -> Sensor:
        common["body_from_sensor"] = self._optical(topic, common)
        self._check_frame(topic, common["body_from_sensor"])
        return depth_cloud(common, self._values(topic, "camera"), self._plan.scene.cameras[topic.camera])

    def _optical(self, topic: TopicPlan, common: Mapping[str, Any]) -> Pose:
        """Return the optical frame of a topic's camera in the body that carries the topic."""
        poses, path = self._poses, self._plan.scene.cameras[topic.camera].path
        here: Pose = common["body_from_sensor"]
        if poses is not None and poses.is_usable(path):
            body = common["body"]
            carrier = self._body_paths[body] if body != WORLD_BODY else ""
            body_from_camera = transforms.relative(
                poses.world_from_prim[poses.row(carrier)], poses.world_from_prim[poses.row(path)]
            )
            return _pose(transforms.compose(body_from_camera, _OPTICAL))
        return _pose(transforms.compose(_array(here), _OPTICAL)) if path == topic.path else here


def _origin(physics: PhysicsRecords, findings: DiagnosticCollector) -> Origin | None:
    record = physics.origin
    if record is None:
        return None
    values = SensorValues(record.path, "georeference", record.values, findings)
    missing = [name for name in ("latitude", "longitude") if name not in values]
    if missing:
        findings.warning(
            "1.4.sensor.origin",
            record.path,
            f"the georeference has no {' and no '.join(missing)}; 0 is used",
            f"author {PREFIX}georeference:latitude and :longitude",
        )
    origin = Origin(
        latitude=values.number("latitude", 0.0, low=-90.0, high=90.0),
        longitude=values.number("longitude", 0.0, low=-180.0, high=360.0),
        altitude=values.number("altitude", 0.0, low=-12_000.0, high=100_000.0),
        heading=math.radians(values.number("heading", 0.0, low=-360.0, high=360.0)),
    )
    values.close()
    return origin


_MODELS: Mapping[str, Callable[[dict[str, Any], SensorValues], Sensor]] = {
    "lidar": lambda common, values: lidar(common, values, rings=common["type"] == POINT_CLOUD),
    "range": range_finder,
    "imu": imu,
    "magnetometer": magnetometer,
}
_ATMOSPHERE: Mapping[str, Callable[[dict[str, Any], SensorValues, float], Sensor]] = {
    "barometer": barometer,
    "thermometer": thermometer,
}


def _fields(origin: Origin) -> dict[str, float]:
    return {name: getattr(origin, name) for name in ("latitude", "longitude", "altitude", "heading")}


def _array(pose: Pose) -> transforms.FloatArray:
    return np.array([*pose.translation, *pose.rotation])


def _pose(array: Iterable[float]) -> Pose:
    return as_poses(np.array([array], dtype=np.float64))[0]


def _turned_up(pose: transforms.FloatArray) -> transforms.FloatArray:
    """Return a pose whose quaternion's largest part is positive, so that equal rotations are equal numbers."""
    sign = np.sign(pose[3 + int(np.argmax(np.abs(pose[3:])))])
    return np.concatenate((pose[:3], sign * pose[3:]))
