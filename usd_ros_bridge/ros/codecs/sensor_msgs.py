"""sensor_msgs: JointState, Imu and CameraInfo of a state, and what a backend's sensors measure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from usd_ros_bridge.backends.image_compression import compressed_image
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import JointStateSample, SensorSample
from usd_ros_bridge.ros.codecs.encoding import (
    Carrier,
    Encoding,
    MessageCodec,
    NoSourceError,
    Values,
    array_of,
    numbers_of,
    sensed,
    sensed_at,
    stamp_ns,
)
from usd_ros_bridge.ros.codecs.std_msgs import show_number
from usd_ros_bridge.ros.wire.cdr_reader import JointStateReader
from usd_ros_bridge.runtime.kinematics import selection
from usd_ros_bridge.runtime.snapshot import UNKNOWN, Snapshot, UnknownFilter
from usd_ros_bridge.spatial.scalar import Mounting, imu, unit_fault
from usd_ros_bridge.spatial.transforms import FloatArray

_SCAN_LIMITS = ("angle_min", "angle_max", "range_min", "range_max")
_SCAN_NUMBERS = ("angle_min", "angle_max", "time_increment", "scan_time", "range_min", "range_max")
_IMAGE_ENCODINGS = {
    ("uint8", 1): "mono8",
    ("uint8", 3): "rgb8",
    ("uint8", 4): "rgba8",
    ("uint16", 1): "mono16",
    ("float32", 1): "32FC1",
}
_POINT_FIELDS = ("x", "y", "z", "intensity")
_POINT_FIELD_FLOAT32 = 7
_IMU_BLOCKS = (
    "orientation",
    "orientation_covariance",
    "angular_velocity",
    "angular_velocity_covariance",
    "linear_acceleration",
    "linear_acceleration_covariance",
)
_RANGE_NUMBERS = ("field_of_view", "min_range", "max_range", "range")
_FIX_BLOCKS = ("latitude", "longitude", "altitude", "position_covariance", "position_covariance_type")
_UNKNOWN_COVARIANCE = (0.0,) * 9
_DIAGONAL_KNOWN = 2
"""NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN."""


def encode_joint_state(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """JointState of the joints of the publisher's context: rad or m, per second, N m or N.

    Velocity and effort are empty where the backend does not have them, and NaN for single joints that it does not know.
    """
    if not topic.dofs:
        raise NoSourceError("its context has no movable joint")
    names = list(plan.joint_names(topic))
    rows = selection(topic.dofs)
    known = UnknownFilter(len(names))
    # Those of a lone robot: the snapshot has filtered velocities and efforts already.
    are_all = isinstance(rows, slice) and len(topic.dofs) == len(plan.layout.dofs)

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.name = names

    def values(snapshot: Snapshot) -> Values:
        position, velocity, effort = _joint_arrays(snapshot)
        if are_all:
            return known(position), velocity, effort
        return (
            known(position[rows]),
            UNKNOWN if velocity is UNKNOWN else known(velocity[rows]),
            UNKNOWN if effort is UNKNOWN else known(effort[rows]),
        )

    return Encoding(
        values=values,
        prepare=prepare,
        sequences=("position", "velocity", "effort"),
        constants=lambda: tuple(names),
        arrays=_joint_arrays if isinstance(rows, slice) else None,
        rows=rows if isinstance(rows, slice) else None,
    )


def _joint_arrays(snapshot: Snapshot) -> tuple[FloatArray, FloatArray, FloatArray]:
    return snapshot.state.joint_position, snapshot.joint_velocity, snapshot.joint_effort


def decode_joint_state(message: Any) -> JointStateSample:
    """JointState to targets or states by name; what is wrong with its lengths is for the receiver to judge."""
    return JointStateSample(
        stamp_ns=stamp_ns(message),
        names=tuple(message.name),
        position=np.array(message.position, dtype=np.float64),
        velocity=np.array(message.velocity, dtype=np.float64),
        effort=np.array(message.effort, dtype=np.float64),
    )


def encode_imu(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Imu of an ideal sensor (REP 145): specific force in the sensor frame, so that gravity points up at rest.

    Covariances stay zero, which the message defines as unknown.
    """
    row, mounting = topic.body, Mounting(Carrier(topic).body_from_prim)

    def values(snapshot: Snapshot) -> Values | None:
        measured = imu(snapshot.body(row)[3:], snapshot.twist(row), snapshot.acceleration(row), mounting)
        orientation, _, force = measured
        return measured if isfinite(sum(orientation) + sum(force)) else None

    blocks = ("orientation", "angular_velocity", "linear_acceleration")
    return Encoding(values=values, blocks=blocks)


def encode_measured_imu(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Imu of a backend's sensor (REP 145); covariances that it does not give are zero, which means unknown."""

    def read(sample: SensorSample) -> Values:
        _check_orientation(sample)
        return [
            part
            for name, count in (("orientation", 4), ("angular_velocity", 3), ("linear_acceleration", 3))
            for part in (
                numbers_of(sample, name, count),
                numbers_of(sample, f"{name}_covariance", 9, _UNKNOWN_COVARIANCE),
            )
        ]

    return sensed(topic, _IMU_BLOCKS, read)


def _check_orientation(sample: SensorSample) -> None:
    """Check the orientation of a measured Imu.

    Raises:
        ValueError: It is no unit quaternion, and its covariance does not begin with -1, which means that there is none.
    """
    fault = unit_fault(numbers_of(sample, "orientation", 4))
    if not fault:
        return
    covariance = numbers_of(sample, "orientation_covariance", 9, _UNKNOWN_COVARIANCE)
    if covariance[0] != -1.0:
        raise ValueError(
            f"orientation of the sensor at {sample.prim} is {fault}: where it measures none, "
            "orientation_covariance begins with -1"
        )


def encode_camera_info(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """CameraInfo of an ideal pinhole camera: plumb_bob with zero distortion, R the identity, P = [K | 0]."""
    if not 0 <= topic.camera < len(plan.scene.cameras):
        raise NoSourceError("no UsdGeomCamera is at or above it")
    camera = plan.scene.cameras[topic.camera]
    width, height = int(camera.width), int(camera.height)
    fx, fy, cx, cy = (float(value) for value in (camera.fx, camera.fy, camera.cx, camera.cy))

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.width, message.height = width, height
        message.distortion_model = "plumb_bob"
        message.d = array("d", [0.0] * 5)
        message.k = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
        message.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        message.p = [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]

    constants = width, height, np.array((fx, fy, cx, cy)).tobytes()
    return Encoding(values=lambda snapshot: (), prepare=prepare, constants=lambda: constants)  # noqa: ARG005 - Encoding.values


def encode_measured_camera_info(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """CameraInfo of a camera that a backend takes pictures with: stamped as the picture is."""
    return replace(encode_camera_info(topic, plan), stamp_ns=sensed_at(topic), sensed=True)


def encode_image(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Image of a backend's camera: rgb8, rgba8, mono8, mono16, or 32FC1 (depth in m), as shape and type say."""

    def prepare(message: Any, values: Values) -> None:
        (pixels,) = values
        channels = pixels.shape[2] if pixels.ndim == 3 else 1
        message.height, message.width = pixels.shape[:2]
        message.encoding = _IMAGE_ENCODINGS[pixels.dtype.name, channels]
        message.is_bigendian = 0
        message.step = pixels.shape[1] * channels * pixels.dtype.itemsize

    def read(sample: SensorSample) -> Values:
        pixels = array_of(sample, "data")
        channels = pixels.shape[2] if pixels.ndim == 3 else 1
        if pixels.ndim not in (2, 3) or (pixels.dtype.name, channels) not in _IMAGE_ENCODINGS:
            raise ValueError(
                f"an image is (H, W, C) or (H, W), uint8, uint16 or float32; {pixels.shape} {pixels.dtype} is none"
            )
        return (pixels,)

    return sensed(topic, (), read, prepare=prepare, sequences=("data",))


def encode_compressed_image(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """CompressedImage of a backend's camera; pixels that a backend gives are compressed beside the tick.

    One picture is compressed at a time: those that are measured meanwhile are left out, but for the newest.
    """
    compressor = _Compressor()

    def newest(snapshot: Snapshot) -> SensorSample | None:
        sample = snapshot.sense(topic.path)
        return sample if sample is None or array_of(sample, "data").ndim == 1 else compressor.newest(sample)

    def values(snapshot: Snapshot) -> Values | None:
        sample = newest(snapshot)
        if sample is None:
            return None
        data = array_of(sample, "data")
        if data.dtype != np.uint8:
            raise ValueError(f"compressed data is (N,) uint8; {data.shape} {data.dtype} is not")
        text = sample.arrays.get("format")
        compressor.format = _file_format(data) if text is None else text.tobytes().decode()
        return (data,)

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.format = compressor.format

    def stamp_ns(snapshot: Snapshot) -> int:
        sample = newest(snapshot)
        return -1 if sample is None else sample.stamp_ns

    return Encoding(
        values=values, prepare=prepare, sequences=("data",), stamp_ns=stamp_ns, sensed=True, varying=True
    )


class _Compressor:
    """Compress pixels in a thread of its own, which starts with the first picture and ends with the publisher.

    Attributes:
        format: Of the message that is being made.
    """

    def __init__(self) -> None:
        self.format = ""
        self._executor: ThreadPoolExecutor | None = None
        self._pending: Future[SensorSample] | None = None
        self._asked_ns = -1
        self._done: SensorSample | None = None

    def newest(self, sample: SensorSample) -> SensorSample | None:
        """Return the newest picture that is compressed, None before there is one; start to compress `sample` if idle.

        Raises:
            Exception: What compressing raised, once.
        """
        pending = self._pending
        if pending is not None and pending.done():
            self._pending = None
            self._done = pending.result()
        if self._pending is None and sample.stamp_ns != self._asked_ns:
            self._asked_ns = sample.stamp_ns
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="usd_ros_bridge.images")
            # The backend may write into its array at the next step.
            self._pending = self._executor.submit(_compress, sample, array_of(sample, "data").copy())
        return self._done


def _compress(sample: SensorSample, pixels: Any) -> SensorSample:
    return replace(sample, arrays=compressed_image(pixels))


def _file_format(data: Any) -> str:
    return "png" if data[:4].tobytes() == b"\x89PNG" else "jpeg"


def encode_laser_scan(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """LaserScan of a backend's sensor: beams evenly spaced from `angle_min` to `angle_max`, both included."""

    def read(sample: SensorSample) -> Values:
        ranges = array_of(sample, "ranges").astype(np.float32, copy=False)
        intensities = sample.arrays.get("intensities", UNKNOWN).astype(np.float32, copy=False)
        if ranges.ndim != 1 or intensities.shape not in (ranges.shape, (0,)):
            raise ValueError(f"ranges {ranges.shape} and intensities {intensities.shape} must be (N,) both")
        arrays = sample.arrays
        for name in _SCAN_LIMITS:
            if name not in arrays:
                array_of(sample, name)
        numbers = [float(arrays.get(name, 0.0)) for name in _SCAN_NUMBERS]
        increment = (numbers[1] - numbers[0]) / max(len(ranges) - 1, 1)
        return (*((number,) for number in numbers), (increment,), ranges, intensities)

    return sensed(topic, (*_SCAN_NUMBERS, "angle_increment"), read, sequences=("ranges", "intensities"))


def encode_point_cloud(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """PointCloud2 of a backend's sensor: x, y, z in m and, where measured, intensity; in rows where it is organised."""

    def prepare(message: Any, values: Values) -> None:
        from sensor_msgs.msg import PointField

        points = values[-1]
        message.height, message.width, columns = points.shape
        message.fields = [
            PointField(name=name, offset=4 * index, datatype=_POINT_FIELD_FLOAT32, count=1)
            for index, name in enumerate(_POINT_FIELDS[:columns])
        ]
        message.point_step = 4 * columns
        message.row_step = message.point_step * message.width

    def read(sample: SensorSample) -> Values:
        points = array_of(sample, "points").astype(np.float32, copy=False)
        if points.ndim != 2 or points.shape[1] not in (3, 4):
            raise ValueError(f"points are (N, 3), or (N, 4) with the intensity; {points.shape} is neither")
        rows = int(sample.arrays.get("height", 1))
        if rows < 1 or len(points) % rows:
            raise ValueError(f"{len(points)} points cannot be organised in {rows} rows")
        dense = bool(np.isfinite(points).all())
        return (dense,), points.reshape(rows, -1, points.shape[1])

    return sensed(topic, ("is_dense",), read, prepare=prepare, sequences=("data",))


def encode_range(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Range of a backend's sensor, as REP 117 has it: inf for nothing, -inf for too near."""

    def read(sample: SensorSample) -> Values:
        kind = int(sample.arrays.get("radiation_type", 0))
        return (kind,), *(numbers_of(sample, name, 1) for name in _RANGE_NUMBERS)

    return sensed(topic, ("radiation_type", *_RANGE_NUMBERS), read)


def encode_nav_sat_fix(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """NavSatFix of a backend's sensor: an unaugmented GPS fix; a covariance of zeros is unknown, else diagonal."""

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.status.status = message.status.STATUS_FIX
        message.status.service = message.status.SERVICE_GPS

    def read(sample: SensorSample) -> Values:
        covariance = numbers_of(sample, "position_covariance", 9, _UNKNOWN_COVARIANCE)
        known = _DIAGONAL_KNOWN if any(covariance) else 0
        latitude, longitude, altitude = numbers_of(sample, "position", 3)
        return (latitude,), (longitude,), (altitude,), covariance, (known,)

    return sensed(topic, _FIX_BLOCKS, read, prepare=prepare)


def encode_magnetic_field(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """MagneticField of a backend's sensor, T; a covariance that it does not give is zero, which means unknown."""

    def read(sample: SensorSample) -> Values:
        covariance = numbers_of(sample, "magnetic_field_covariance", 9, _UNKNOWN_COVARIANCE)
        return numbers_of(sample, "magnetic_field", 3), covariance

    return sensed(topic, ("magnetic_field", "magnetic_field_covariance"), read)


def encode_fluid_pressure(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """FluidPressure of a backend's sensor, Pa; a variance that it does not give is zero, which means unknown."""

    def read(sample: SensorSample) -> Values:
        return numbers_of(sample, "fluid_pressure", 1), numbers_of(sample, "variance", 1, (0.0,))

    return sensed(topic, ("fluid_pressure", "variance"), read)


def encode_temperature(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Temperature of a backend's sensor, degrees Celsius; a variance that it does not give is zero: unknown."""

    def read(sample: SensorSample) -> Values:
        return numbers_of(sample, "temperature", 1), numbers_of(sample, "variance", 1, (0.0,))

    return sensed(topic, ("temperature", "variance"), read)


CODECS: Mapping[str, MessageCodec] = {
    "sensor_msgs/msg/CameraInfo": MessageCodec(
        encode=encode_camera_info, encode_measured=encode_measured_camera_info
    ),
    "sensor_msgs/msg/CompressedImage": MessageCodec(encode=encode_compressed_image),
    "sensor_msgs/msg/FluidPressure": MessageCodec(encode=encode_fluid_pressure),
    "sensor_msgs/msg/Illuminance": MessageCodec(encode_attribute=show_number("illuminance")),
    "sensor_msgs/msg/Image": MessageCodec(encode=encode_image),
    "sensor_msgs/msg/Imu": MessageCodec(encode=encode_imu, encode_measured=encode_measured_imu),
    "sensor_msgs/msg/JointState": MessageCodec(
        encode=encode_joint_state,
        decode=decode_joint_state,
        reader=lambda: JointStateReader(JointStateSample),
    ),
    "sensor_msgs/msg/LaserScan": MessageCodec(encode=encode_laser_scan),
    "sensor_msgs/msg/MagneticField": MessageCodec(encode=encode_magnetic_field),
    "sensor_msgs/msg/NavSatFix": MessageCodec(encode=encode_nav_sat_fix),
    "sensor_msgs/msg/PointCloud2": MessageCodec(encode=encode_point_cloud),
    "sensor_msgs/msg/Range": MessageCodec(encode=encode_range),
    "sensor_msgs/msg/RelativeHumidity": MessageCodec(encode_attribute=show_number("relative_humidity")),
    "sensor_msgs/msg/Temperature": MessageCodec(
        encode=encode_temperature, encode_attribute=show_number("temperature")
    ),
}
