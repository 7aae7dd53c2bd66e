"""Sensor models, one function each: attributes in degrees and metres to a Sensor in SI units, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from math import atan, inf, isnan, isqrt, nan, radians
from typing import Any, Final, cast

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.sensors import (
    SENSOR_ATTRIBUTES,
    BarometerSensor,
    CameraModel,
    CameraSensor,
    ContactSensor,
    DepthCloudSensor,
    GnssSensor,
    ImuSensor,
    MagnetometerSensor,
    RangeSensor,
    RaySensor,
    Sensor,
    ThermometerSensor,
    WrenchSensor,
)
from usd_ros_bridge.spatial.scalar import Vector3

MAX_RAYS: Final = 1 << 20
MAX_RINGS: Final = 4096
FULL_TURN: Final = 360.1
"""Degrees that are still one turn: 2 * 3.1416 rad are 360.0008 degrees, and datasheets round more roughly."""
DEPTH_ENCODING: Final = "32FC1"
COLOR_ENCODING: Final = "rgb8"
RADIATIONS: Final = ("ultrasound", "infrared")
EARTH_FIELD: Final = (0.0, 20e-6, -44e-6)
"""T in east, north, up: about what there is in central Europe."""
_OF_ALL_ON_A_CAMERA: Final = (
    "resolution",
    "encoding",
    "cloud_stride",
    "compression",
    "jpeg_quality",
    "png_level",
)
"""What a camera may author for everything on it; the resolution is read with the camera itself."""
ABSOLUTE_ZERO: Final = -273.15
MAX_CELSIUS: Final = 10_000.0
COMPRESSIONS: Final[Mapping[bool, tuple[str, ...]]] = {
    False: ("jpeg", "png"),
    True: ("png", "compressedDepth"),
}
"""How a picture of colour, and one of depth, may be compressed; the first is the default."""
NO_ORIENTATION: Final = (-1.0, 0.0, 0.0)
"""An Imu's first covariance that says that it estimates none (REP 145)."""


def lidar(common: dict[str, Any], values: SensorValues, *, rings: bool) -> Sensor:
    """Return a LaserScan (one ring in the plane) or, with `rings`, a PointCloud2."""
    count = values.count("rings", 16, high=MAX_RINGS) if rings else 1
    samples = values.count("samples", 1024 if rings else 360, high=MAX_RAYS // count)
    # A full turn that does not repeat its first ray, unless both ends are authored.
    first = values.number("angle_min", -180.0, low=-360.0, high=360.0)
    turn = 360.0 * (samples - 1) / samples
    last = values.number("angle_max", first + turn, low=-360.0, high=360.0 + FULL_TURN)
    if first + 360.0 < last <= first + FULL_TURN:
        last = first + 360.0
    if not first <= last <= first + 360.0:
        values.refuse("angle_max", f"a number of angle_min ({first:g}) to angle_min + 360", first + turn)
        last = first + turn
    low = high = 0.0
    if rings:
        low = values.number("elevation_min", -15.0, low=-90.0, high=90.0)
        high = values.number("elevation_max", max(15.0, low), low=-90.0, high=90.0)
        if high < low:
            values.refuse("elevation_max", f"a number of elevation_min ({low:g}) to 90", low)
            high = low
    near, far = _reach(values, 0.12, 12.0)
    sensor = RaySensor(
        **common,
        angle_min=radians(first),
        angle_max=radians(last),
        samples=samples,
        elevation_min=radians(low),
        elevation_max=radians(high),
        rings=count,
        range_min=near,
        range_max=far,
        exclude_robot=values.flag("exclude_robot", True),
        noise_stddev=values.number("noise_stddev", 0.0),
    )
    values.close()
    return sensor


def range_finder(common: dict[str, Any], values: SensorValues) -> Sensor:
    """Return a Range."""
    near, far = _reach(values, 0.02, 4.0)
    angle = values.number("field_of_view", 15.0, high=180.0)
    sensor = RangeSensor(
        **common,
        angle_min=radians(-angle / 2.0),
        angle_max=radians(angle / 2.0),
        samples=values.count("samples", 16, high=MAX_RINGS),
        rings=values.count("rings", 4, high=MAX_RAYS // MAX_RINGS),
        range_min=near,
        range_max=far,
        exclude_robot=values.flag("exclude_robot", True),
        noise_stddev=values.number("noise_stddev", 0.0),
        field_of_view=radians(angle),
        radiation=cast(Any, values.choice("radiation_type", RADIATIONS[0], RADIATIONS)),
    )
    values.close()
    return sensor


def imu(common: dict[str, Any], values: SensorValues) -> Sensor:
    """Return an Imu. A covariance that is not authored is that of the authored noise."""
    gyro = radians(values.number("angular_velocity_stddev", 0.0))
    accel = values.number("linear_acceleration_stddev", 0.0)
    turn = radians(values.number("orientation_stddev", 0.0, high=180.0))
    authored = values.raw("orientation_covariance_diagonal")
    none = isinstance(authored, (tuple, list)) and tuple(authored[:1]) == NO_ORIENTATION[:1]
    sensor = ImuSensor(
        **common,
        gyro_stddev=gyro,
        accel_stddev=accel,
        orientation_stddev=turn,
        orientation_covariance=NO_ORIENTATION if none else _covariance(values, "orientation", turn),
        angular_velocity_covariance=_covariance(values, "angular_velocity", gyro),
        linear_acceleration_covariance=_covariance(values, "linear_acceleration", accel),
    )
    values.close()
    return sensor


def wrench(
    common: dict[str, Any], values: SensorValues, *, joint: int, frame_body: int, body_from_frame: Any
) -> Sensor:
    """Return a WrenchStamped of a joint, or of the contacts of a body."""
    sensor = WrenchSensor(
        **common,
        joint=joint,
        frame_body=frame_body,
        body_from_frame=body_from_frame,
        noise_stddev=values.number("force_stddev", 0.0),
        torque_stddev=values.number("torque_stddev", 0.0),
    )
    values.close()
    return sensor


def contact(common: dict[str, Any], values: SensorValues) -> Sensor:
    """Return a Bool that says whether anything touches the body."""
    sensor = ContactSensor(**common, threshold=values.number("threshold", 0.0))
    values.close()
    return sensor


def gnss(
    common: dict[str, Any],
    values: SensorValues,
    *,
    latitude: float,
    longitude: float,
    altitude: float,
    heading: float,
) -> Sensor:
    """Return a NavSatFix."""
    flat = values.number("horizontal_stddev", 0.0)
    up = values.number("vertical_stddev", 0.0)
    sensor = GnssSensor(
        **common,
        latitude=latitude,
        longitude=longitude,
        altitude=altitude,
        heading=heading,
        noise_stddev=flat,
        vertical_stddev=up,
        position_covariance=values.three("position_covariance_diagonal", (flat**2, flat**2, up**2), low=0.0),
    )
    values.close()
    return sensor


def magnetometer(common: dict[str, Any], values: SensorValues) -> Sensor:
    """Return a MagneticField."""
    sensor = MagnetometerSensor(
        **common,
        field=values.three("field", EARTH_FIELD, low=-1.0, high=1.0),
        noise_stddev=values.number("noise_stddev", 0.0),
    )
    values.close()
    return sensor


def barometer(common: dict[str, Any], values: SensorValues, altitude: float) -> Sensor:
    """Return a FluidPressure; `altitude` is that of the world's origin."""
    sensor = BarometerSensor(
        **common,
        altitude=altitude,
        sea_level_pressure=values.number("sea_level_pressure", 101_325.0, low=1.0),
        noise_stddev=values.number("noise_stddev", 0.0),
    )
    values.close()
    return sensor


def thermometer(common: dict[str, Any], values: SensorValues, altitude: float) -> Sensor:
    """Return a Temperature; `altitude` is that of the world's origin."""
    fixed = values.number("temperature", nan, low=ABSOLUTE_ZERO, high=MAX_CELSIUS)
    sensor = ThermometerSensor(
        **common,
        altitude=altitude,
        sea_level_temperature=values.number(
            "sea_level_temperature", 15.0, low=ABSOLUTE_ZERO, high=MAX_CELSIUS
        ),
        temperature=None if isnan(fixed) else fixed,
        noise_stddev=values.number("noise_stddev", 0.0),
    )
    values.close()
    return sensor


def camera(
    common: dict[str, Any], values: SensorValues, *, camera: int, default: str, topic: str | None = None
) -> Sensor:
    """Return an Image, or with the name of its `topic` a CompressedImage."""
    encoding = values.choice("encoding", default, (COLOR_ENCODING, DEPTH_ENCODING))
    depth = encoding == DEPTH_ENCODING
    for name in _OF_ALL_ON_A_CAMERA:
        values.raw(name)
    compressed: dict[str, Any] = {}
    if topic is not None:
        possible = COMPRESSIONS[depth]
        # What compressed_depth_image_transport calls its topics.
        usual = possible[-1] if topic.endswith("/compressedDepth") else possible[0]
        compressed = {
            "compression": values.choice("compression", usual, possible),
            "jpeg_quality": values.count("jpeg_quality", 95, high=100),
            "png_level": values.count("png_level", 3, high=9),
        }
    sensor = CameraSensor(**common, camera=camera, depth=depth, **compressed)
    values.close()
    return sensor


def depth_cloud(common: dict[str, Any], values: SensorValues, model: CameraModel) -> Sensor:
    """Return a PointCloud2 of a camera: every so many pixels a point."""
    # One large image in a short asset would take all memory.
    least = max(1, isqrt(model.width * model.height // MAX_RAYS))
    stride = values.count("cloud_stride", max(4, least), high=max(least, min(model.width, model.height)))
    if stride < least:
        values.refuse("cloud_stride", f"{least} or more for {model.width} x {model.height} pixels", least)
        stride = least
    for name in _OF_ALL_ON_A_CAMERA:
        values.raw(name)
    columns, rows = model.width // stride, model.height // stride
    # The pixel in the middle of each square of so many; the first of two.
    first = (stride - 1) // 2
    left, top, right, bottom = model.slopes
    sensor = DepthCloudSensor(
        **common,
        angle_min=atan(left),
        angle_max=atan(right),
        samples=columns,
        elevation_min=atan(-bottom),
        elevation_max=atan(-top),
        rings=rows,
        range_min=model.near if 0.0 < model.near < inf else 0.0,
        range_max=model.far if model.near < model.far else inf,
        exclude_robot=False,
        fx=model.fx / stride,
        fy=model.fy / stride,
        cx=(model.cx - first) / stride,
        cy=(model.cy - first) / stride,
    )
    values.close()
    return sensor


def _reach(values: SensorValues, near: float, far: float) -> tuple[float, float]:
    """Return the nearest and farthest valid range; the defaults of both where they cross."""
    low = values.number("range_min", near)
    high = values.number("range_max", far if low < far else inf, endless=True)
    if low < high:
        return low, high
    values.refuse("range_max", f"more than range_min ({quoted(low)})", f"{near:g} to {far:g} m")
    return near, far


def _covariance(values: SensorValues, quantity: str, stddev: float) -> Vector3:
    return values.three(f"{quantity}_covariance_diagonal", (stddev**2,) * 3, low=0.0)


PREFIX = "usd_ros_bridge:"
MAX_SIZE = 1e9
"""Largest number that is accepted; limits may be infinite."""


class SensorValues:
    """The attributes of one group (`lidar`, `imu`, ...) of one prim, by their last name.

    Every getter returns the default where nothing is authored, and where what is authored is not possible: with an
    error that quotes it.
    """

    def __init__(
        self, path: str, group: str, values: Mapping[str, Any], findings: DiagnosticCollector
    ) -> None:
        """Store what is authored.

        Args:
            path: Prim path.
            group: Second part of the names.
            values: By USD name; other groups are left alone.
            findings: Collector of faults.
        """
        self.path = path
        self._group = group
        self._prefix = f"{PREFIX}{group}:"
        self._findings = findings
        self._values = {
            name[len(self._prefix) :]: value
            for name, value in values.items()
            if name.startswith(self._prefix)
        }
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def number(
        self,
        name: str,
        default: float,
        *,
        low: float = 0.0,
        high: float = MAX_SIZE,
        endless: bool = False,
    ) -> float:
        """Return a number of `low` to `high`, or inf where that is possible (`endless`)."""
        value = self.raw(name)
        if value is None:
            return default
        if _is_number(value) and (low <= value <= high or (endless and value == math.inf)):
            return float(value)
        self.refuse(name, f"a number of {low:g} to {high:g}", default)
        return default

    def count(self, name: str, default: int, *, high: int) -> int:
        """Return a whole number of 1 to `high`."""
        value = self.raw(name)
        if value is None:
            return default
        if _is_number(value) and 1 <= value <= high and value == int(value):
            return int(value)
        self.refuse(name, f"a whole number of 1 to {high:,}", default)
        return default

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(name, "true or false", default)
        return default

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """Return one of several words."""
        value = self.raw(name)
        if value is None or value in choices:
            return default if value is None else str(value)
        self.refuse(name, " or ".join(choices), default)
        return default

    def three(
        self, name: str, default: Sequence[float], *, low: float = -MAX_SIZE, high: float = MAX_SIZE
    ) -> tuple[float, float, float]:
        """Return three numbers of `low` to `high`."""
        value = self.raw(name)
        if value is not None:
            if _is_three(value) and all(low <= each <= high for each in value):
                return (float(value[0]), float(value[1]), float(value[2]))
            self.refuse(name, f"three numbers of {low:g} to {high:g}", tuple(default))
        return (float(default[0]), float(default[1]), float(default[2]))

    def path_of(self, name: str) -> str:
        """Return the first target of a relationship, or a path that is text; "" where there is none."""
        value = self.raw(name)
        if isinstance(value, str):
            return value
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], str):
            return value[0]
        if value:
            self.refuse(name, "a relationship", "none")
        return ""

    def raw(self, name: str) -> Any:
        """Return a value as it is authored, None where it is not."""
        self._read.add(name)
        return self._values.get(name)

    def refuse(self, name: str, wanted: str, default: object) -> None:
        """Report that a value is not possible."""
        self._findings.error(
            "1.4.sensor",
            self.path,
            f"{quoted(self._values.get(name))} is not {wanted}; {default} is used",
            f"author {wanted}",
            attribute=self._prefix + name,
        )

    def close(self) -> None:
        """Report authored names of the group that are for interfaces of other types: they have no effect here.

        The reader has reported names that the group does not have.
        """
        of_group = SENSOR_ATTRIBUTES[self._group].split()
        for name in sorted((self._values.keys() - self._read).intersection(of_group)):
            known = ", ".join(sorted(self._read))
            self._findings.warning(
                "1.4.sensor.name",
                self.path,
                f"{quoted(self._prefix + name)} means nothing on an interface of this type",
                f"known here: {known}",
                attribute=self._prefix + name,
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _is_three(value: object) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 3 and all(_is_number(each) for each in value)
