"""docs/reference/sensors.md against the sensor models: every attribute, its default, and the types that have it."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from markdown_docs import codes, page_text, rows, section
from usd_ros_bridge.backends.base import SensorBackend
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import MESSAGE_TYPES
from usd_ros_bridge.model.records import CameraRecord, attribute_fields
from usd_ros_bridge.model.sensors import SENSOR_ATTRIBUTES, CameraModel
from usd_ros_bridge.planning.physics import sensor_models, sensors
from usd_ros_bridge.planning.physics.sensor_models import EARTH_FIELD, MAX_RAYS, PREFIX, SensorValues

pytestmark = pytest.mark.docs

PAGE = page_text("sensors.md")
MEASURED = [name for name, meaning in MESSAGE_TYPES.items() if meaning.sensor]
CAMERA = CameraModel(
    path="/camera", width=640, height=480, fx=500.0, fy=500.0, cx=320.0, cy=240.0, near=0.1, far=10.0
)  # fmt: skip
COMMON = {"path": "/it", "type": "", "rate": 1.0}
OF_THE_NOISE = {"gnss", "imu"}


class Asked(SensorValues):
    """Notes the default of every attribute that a model asks for."""

    def __init__(self, group: str, values: dict[str, Any] | None = None) -> None:
        super().__init__("/it", group, values or {}, DiagnosticCollector())
        self.group = group
        self.defaults: dict[str, Any] = {}

    def number(self, name: str, default: float, **limits: Any) -> float:
        self.defaults[name] = default
        return super().number(name, default, **limits)

    def count(self, name: str, default: int, **limits: Any) -> int:
        self.defaults[name] = default
        return super().count(name, default, **limits)

    def flag(self, name: str, default: bool) -> bool:
        self.defaults[name] = default
        return super().flag(name, default)

    def choice(self, name: str, default: str, choices: Any) -> str:
        self.defaults[name] = default
        return super().choice(name, default, choices)

    def three(self, name: str, default: Any, **limits: Any) -> tuple[float, float, float]:
        self.defaults[name] = tuple(default)
        return super().three(name, default, **limits)

    @property
    def documented(self) -> dict[str, str]:
        """Defaults as the tables write them, by attribute."""
        return {
            f"{PREFIX}{self.group}:{name}": _written(self.group, name, value)
            for name, value in self.defaults.items()
        }


def _written(group: str, name: str, value: Any) -> str:
    if name.endswith("covariance_diagonal") and group in OF_THE_NOISE:
        return "of the noise"
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    if isinstance(value, tuple):
        return "(" + ", ".join(_number(each) for each in value) + ")"
    return _number(value)


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.10g}".replace("e-05", "e-5")


def table_of(title: str) -> dict[str, str]:
    """Default by attribute of a section's table."""
    text = section(PAGE, title)
    first = "of" if "| of |" in text else "attribute"
    cells = [row[1:] if first == "of" else row for row in rows(text, first)]
    return {codes(row[0])[0]: row[2] for row in cells}


def test_lidars() -> None:
    expected = {}
    for type_name, rings in (("LaserScan", False), ("PointCloud2", True)):
        asked = Asked("lidar")
        sensor_models.lidar(COMMON, asked, rings=rings)
        asked.defaults["angle_max"] = 179.0  # of 360 samples
        expected |= {(type_name, name): text for name, text in asked.documented.items()}
    actual = {}
    for of, attribute, _, default, _ in rows(section(PAGE, "LaserScan and PointCloud2"), "of"):
        for type_name in ("LaserScan", "PointCloud2") if of == "both" else (of,):
            actual[type_name, codes(attribute)[0]] = default
    assert actual == expected
    assert f"at most {MAX_RAYS:,}" in PAGE


ON_A_JOINT = {"joint": 0, "frame_body": 0, "body_from_frame": None}


@pytest.mark.parametrize(
    ("title", "group", "model", "more"),
    [
        ("Range", "range", sensor_models.range_finder, {}),
        ("Imu", "imu", sensor_models.imu, {}),
        ("WrenchStamped", "wrench", sensor_models.wrench, ON_A_JOINT),
        ("Contact", "contact", sensor_models.contact, {}),
    ],
)
def test_models(title: str, group: str, model: Any, more: dict[str, Any]) -> None:
    asked = Asked(group)
    model(COMMON, asked, **more)
    table = table_of(title)
    if group == "wrench":
        assert table.pop(f"{PREFIX}wrench:joint") == "the joint at or above the prim"
    assert table == asked.documented


def test_earth() -> None:
    gnss, field, air, origin = (Asked(name) for name in ("gnss", "magnetometer", "barometer", "georeference"))
    sensor_models.gnss(COMMON, gnss, latitude=0.0, longitude=0.0, altitude=0.0, heading=0.0)
    sensor_models.magnetometer(COMMON, field)
    sensor_models.barometer(COMMON, air, 0.0)
    heat = Asked("thermometer")
    sensor_models.thermometer(COMMON, heat, 0.0)
    table = table_of("NavSatFix, MagneticField, FluidPressure, Temperature")
    # Nothing stands for a temperature that is not authored.
    assert math.isnan(heat.defaults.pop("temperature"))
    assert table.pop(f"{PREFIX}thermometer:temperature") == ""
    georeference = {name: table.pop(name) for name in list(table) if ":georeference:" in name}
    assert table == gnss.documented | field.documented | air.documented | heat.documented
    assert f"({', '.join(_number(each) for each in EARTH_FIELD)})" in PAGE
    fields = sensors.Origin.__dataclass_fields__
    assert [name.rpartition(":")[2] for name in georeference] == list(fields)
    assert list(georeference.values()) == ["", "", "0", "0"]
    assert origin.documented == {}


def test_cameras() -> None:
    asked = Asked("camera")
    sensor_models.camera(COMMON, asked, camera=0, default="rgb8", topic="/image/compressed")
    records = {spec.name: spec for _, spec in attribute_fields(CameraRecord)}
    resolution = records["usd_ros_bridge:camera:resolution"]
    table = table_of("Image, CompressedImage and CameraInfo")
    assert table.pop("usd_ros_bridge:camera:resolution") == str(resolution.fallback)
    cloud = Asked("camera")
    sensor_models.depth_cloud(COMMON, cloud, CAMERA)
    assert table == asked.documented | cloud.documented


def test_the_names_that_the_reader_knows_are_those_of_the_tables() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    documented = {name for line in lines for name in re.findall(rf"`{PREFIX}(\w+:\w+)`", line)}
    known = {f"{group}:{name}" for group, names in SENSOR_ATTRIBUTES.items() for name in names.split()}
    assert documented == known


def test_every_type_that_is_measured_is_here() -> None:
    for type_name in MEASURED:
        name = type_name.rpartition("/")[2]
        assert f"{name}" in PAGE, type_name


def test_hosts_see_the_arrays_of_every_type() -> None:
    table = {codes(row[0])[0] for row in rows(section(page_text("embedding.md"), "Sensors"), "type")}
    assert table == {*MEASURED, "sensor_msgs/msg/CameraInfo"}
    told = SensorBackend.__doc__
    assert told is not None
    assert all(f"- {type_name}: " in told for type_name in table)
