"""Sensors that backends measure for interfaces, and camera models, in SI units. REP 0158 leaves their models open.

Attributes are authored under `usd_ros_bridge:` on the interface's prim (docs/reference/sensors.md). Noise is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

SENSOR_ATTRIBUTES: Final[Mapping[str, str]] = {
    "lidar": "angle_min angle_max samples elevation_min elevation_max rings range_min range_max exclude_robot "
    "noise_stddev",
    "range": "range_min range_max field_of_view samples rings exclude_robot noise_stddev radiation_type",
    "imu": "angular_velocity_stddev linear_acceleration_stddev orientation_stddev orientation_covariance_diagonal "
    "angular_velocity_covariance_diagonal linear_acceleration_covariance_diagonal",
    "wrench": "joint force_stddev torque_stddev",
    "contact": "threshold",
    "gnss": "horizontal_stddev vertical_stddev position_covariance_diagonal",
    "magnetometer": "field noise_stddev",
    "barometer": "sea_level_pressure noise_stddev",
    "thermometer": "sea_level_temperature temperature noise_stddev",
    "camera": "resolution encoding cloud_stride compression jpeg_quality png_level",
    "georeference": "latitude longitude altitude heading",
}
"""Attributes of each group `usd_ros_bridge:GROUP:`, in the order of docs/reference/sensors.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """Base of all sensors.

    Attributes:
        path: Prim path of the interface.
        type: Interface type (`sensor_msgs/msg/LaserScan`).
        rate: Hz, as authored on the interface.
        body: Index in PhysicsScene.bodies of what carries it, -1 for the world.
        body_from_sensor: Sensor frame in that body (in the world): axes as the interface's message defines them.
        noise_stddev: Standard deviation of the measured quantity (m, N, rad/s ...); 0 for none.
    """

    path: str
    type: str
    rate: float
    body: int = -1
    body_from_sensor: Pose = IDENTITY_POSE
    noise_stddev: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySensor(Sensor):
    """LaserScan, PointCloud2 or Range: rays in the sensor's frame, X forward, Z up.

    Attributes:
        angle_min: Azimuth of the first ray about Z, rad.
        angle_max: Azimuth of the last ray, rad, included.
        samples: Rays per ring, at least 1.
        elevation_min: Elevation of the lowest ring, rad.
        elevation_max: Elevation of the highest ring, rad, included.
        rings: Rings; 1 for a LaserScan. The lowest comes first.
        range_min: Nearest valid range, m.
        range_max: Farthest valid range, m.
        exclude_robot: Rays pass through all bodies of the robot that carries the sensor, instead of the
            carrying body alone.
    """

    angle_min: float
    angle_max: float
    samples: int
    elevation_min: float = 0.0
    elevation_max: float = 0.0
    rings: int = 1
    range_min: float = 0.0
    range_max: float = float("inf")
    exclude_robot: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSensor(RaySensor):
    """Range: the nearest of a cone of rays about X: one along the axis, and `rings` circles of `samples` each.

    Attributes:
        field_of_view: Full opening angle, rad.
        radiation: Kind of radiation.
    """

    field_of_view: float = 0.0
    radiation: Literal["ultrasound", "infrared"] = "ultrasound"


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthCloudSensor(RaySensor):
    """PointCloud2 of a camera: `rings` rows of `samples` points each, the top row first, in its optical frame.

    `body_from_sensor` is that frame (Z forward, X right, Y down). The ray of column i and row j goes through
    `((i - cx) / fx, (j - cy) / fy, 1)`: it is that of a pixel of the camera.

    Attributes:
        fx: Focal length in columns.
        fy: Focal length in rows.
        cx: Principal point in columns, from the centre of the first one.
        cy: Principal point in rows, from the centre of the first one.
    """

    fx: float
    fy: float
    cx: float
    cy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImuSensor(Sensor):
    """Imu (REP 145). Covariances are the diagonals of the message's matrices; zeros mean unknown.

    Attributes:
        gyro_stddev: rad/s.
        accel_stddev: m/s^2.
        orientation_stddev: rad.
        orientation_covariance: rad^2.
        angular_velocity_covariance: (rad/s)^2.
        linear_acceleration_covariance: (m/s^2)^2.
    """

    gyro_stddev: float = 0.0
    accel_stddev: float = 0.0
    orientation_stddev: float = 0.0
    orientation_covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    angular_velocity_covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    linear_acceleration_covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrenchSensor(Sensor):
    """WrenchStamped: on a joint what body1 exerts on body0 there, else the contact forces on the body.

    `noise_stddev` is that of the force. The torque is about the joint frame's origin in body1, or about the origin of
    `body_from_sensor`; both are in the axes of the header's frame.

    Attributes:
        joint: Index in PhysicsScene.joints of the joint that carries it, -1 for the contacts of `body`.
        torque_stddev: N m.
        frame_body: Index in PhysicsScene.bodies of what carries the header's frame, -1 for the world.
        body_from_frame: The header's frame in that body (in the world).
    """

    joint: int = -1
    torque_stddev: float = 0.0
    frame_body: int = -1
    body_from_frame: Pose = IDENTITY_POSE


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactSensor(Sensor):
    """Bool: contact of the body with anything.

    Attributes:
        threshold: Sum of the normal forces that must be exceeded, N.
    """

    threshold: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraSensor(Sensor):
    """Image or CompressedImage of a camera.

    `body_from_sensor` is its optical frame (REP 0158 section 2.8): Z forward, X right, Y down. It follows from the
    UsdGeomCamera, turned by half a turn about X, wherever the interface's prim is.

    Attributes:
        camera: Index in Scene.cameras.
        depth: 32FC1 in m along the optical axis, instead of rgb8: `usd_ros_bridge:camera:encoding` says which; where
            it is not authored, a topic with "depth" in a segment of its name is one.
        segmentation: Which surface each pixel shows, for a sensor model of a plug-in, instead of colour.
        compression: How a CompressedImage is encoded, as image_transport's plugins do; "" for an Image.
        jpeg_quality: 1 to 100.
        png_level: 1 (fast) to 9 (small).
    """

    camera: int
    depth: bool = False
    segmentation: bool = False
    compression: Literal["", "jpeg", "png", "compressedDepth"] = ""
    jpeg_quality: int = 95
    png_level: int = 3


def image_path(path: str, kind: str) -> str:
    """Return the path of the CameraSensor of an image that a sensor model of a plug-in reads.

    Args:
        path: Prim path of the model's publisher.
        kind: `color`, `depth` or `segmentation`.
    """
    return f"{path}#{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GnssSensor(Sensor):
    """NavSatFix from a georeferenced origin: world X is east, Y north, Z up (REP 105) there, unless turned.

    Attributes:
        latitude: Of the world's origin, degrees (WGS 84).
        longitude: Degrees.
        altitude: m above the ellipsoid.
        heading: Of world X, rad counter-clockwise from east.
        position_covariance: m^2, the diagonal in east, north, up.
        vertical_stddev: m; `noise_stddev` is the horizontal one.
    """

    latitude: float
    longitude: float
    altitude: float = 0.0
    heading: float = 0.0
    position_covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    vertical_stddev: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnetometerSensor(Sensor):
    """MagneticField; `noise_stddev` in T.

    Attributes:
        field: Of the earth, in the world frame, T.
    """

    field: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarometerSensor(Sensor):
    """FluidPressure of the standard atmosphere; `noise_stddev` in Pa.

    Attributes:
        altitude: Of the world's origin above the sea, m.
        sea_level_pressure: Pa.
    """

    altitude: float = 0.0
    sea_level_pressure: float = 101_325.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermometerSensor(Sensor):
    """Temperature: of the standard atmosphere, or a fixed one; `noise_stddev` in K.

    Attributes:
        altitude: Of the world's origin above the sea, m.
        sea_level_temperature: Degrees Celsius.
        temperature: Degrees Celsius wherever the sensor is; None for the atmosphere's.
    """

    altitude: float = 0.0
    sea_level_temperature: float = 15.0
    temperature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraModel:
    """A pinhole camera as sensor_msgs/msg/CameraInfo describes it, from a UsdGeomCamera.

    The ray through the centre of pixel (u, v) is `((u - cx) / fx, (v - cy) / fy, 1)` in the optical frame, as in
    image_geometry and depth_image_proc. The left edge of the picture is therefore at u = -0.5, and the middle of the
    picture at `((width - 1) / 2, (height - 1) / 2)`.

    Attributes:
        path: Prim path of the camera.
        width: Pixels.
        height: Pixels.
        fx: Focal length in pixels, horizontally.
        fy: Focal length in pixels, vertically.
        cx: Principal point in pixels, from the centre of the leftmost pixels.
        cy: Principal point in pixels, from the centre of the uppermost pixels.
        near: Near clipping distance in metres.
        far: Far clipping distance in metres.
    """

    path: str
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    near: float
    far: float

    @property
    def slopes(self) -> tuple[float, float, float, float]:
        """Return where the edges of the picture are at distance 1: left, top, right, bottom, in the optical frame."""
        return (
            (-0.5 - self.cx) / self.fx,
            (-0.5 - self.cy) / self.fy,
            (self.width - 0.5 - self.cx) / self.fx,
            (self.height - 0.5 - self.cy) / self.fy,
        )
