"""Sensors planned from attributes: defaults, units, places, frames, and what becomes of values that are no good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stage_text import at, body, plan_text, prim
from case_tables import each_case
from usd_ros_bridge.model.message_types import MESSAGE_TYPES
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.sensors import (
    BarometerSensor,
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

PATH = "/World/base/sensor"
MINE = "1.4.sensor"
TURNED = 'double xformOp:rotateX = 90\nuniform token[] xformOpOrder = ["xformOp:rotateX"]'


def publisher(
    type_name: str, *content: str, name: str = "sensor", topic: str = "it", frame: bool = True
) -> str:
    """A publisher on a prim that is a frame of its own, as text; attributes as `type name = value`, without prefix."""
    schemas = "RosTopicAPI RosFrameAPI" if frame else "RosTopicAPI"
    plain = ("xformOp", "rel ", "uniform ")
    lines = [line if any(word in line for word in plain) else _own(*line.split(" ", 1)) for line in content]
    return prim(
        "Xform", name, schemas,
        'token ros:topic:role = "publisher"', f'string ros:topic:name = "{topic}"',
        f'string ros:topic:type = "{type_name}"', "double ros:topic:publish_rate = 10", *lines,
    )  # fmt: skip


def _own(kind: str, rest: str) -> str:
    return f"custom {kind} usd_ros_bridge:{rest}"


def robot(*content: str, above: Sequence[str] = (), beside: Sequence[str] = ()) -> str:
    """A robot of one free body, as text."""
    base = body("base", "float physics:mass = 1", *content)
    return prim("Xform", "World", "RosContextAPI", *above, base, *beside)


def planned(
    type_name: str, *attributes: str, above: Sequence[str] = (), **options: Any
) -> tuple[Sensor, BridgePlan]:
    """Returns the one sensor of a robot, and the plan."""
    plan = plan_text(robot(publisher(type_name, *attributes, **options), above=above))
    (sensor,) = plan.physics.sensors
    return sensor, plan


def found(plan: BridgePlan, *codes: str) -> list[tuple[str, str, str]]:
    """Returns code, severity and the attribute's last part of diagnostics about sensors."""
    return [
        (each.code, each.severity, each.attribute.rpartition("usd_ros_bridge:")[2])
        for each in plan.diagnostics
        if each.code.startswith((MINE, "2.7.sensor", *codes))
    ]


def test_scan_by_default() -> None:
    sensor, plan = planned("sensor_msgs/msg/LaserScan")
    assert isinstance(sensor, RaySensor)
    assert (sensor.path, sensor.type, sensor.rate, sensor.body) == (
        PATH,
        "sensor_msgs/msg/LaserScan",
        10.0,
        0,
    )
    assert np.rad2deg([sensor.angle_min, sensor.angle_max]) == pytest.approx([-180.0, 179.0])
    assert (sensor.samples, sensor.rings, sensor.elevation_min, sensor.elevation_max) == (360, 1, 0.0, 0.0)
    assert (sensor.range_min, sensor.range_max, sensor.exclude_robot, sensor.noise_stddev) == (
        0.12,
        12.0,
        True,
        0.0,
    )
    assert not found(plan)


def test_scan_as_authored() -> None:
    sensor, plan = planned(
        "sensor_msgs/msg/LaserScan", "double lidar:angle_min = -45", "double lidar:angle_max = 45",
        "int lidar:samples = 91", "double lidar:range_min = 0", "double lidar:range_max = inf",
        "bool lidar:exclude_robot = false", "double lidar:noise_stddev = 0.02",
    )  # fmt: skip
    assert isinstance(sensor, RaySensor)
    assert [sensor.angle_min, sensor.angle_max] == pytest.approx([-np.pi / 4.0, np.pi / 4.0])
    assert (sensor.samples, sensor.range_min, sensor.range_max) == (91, 0.0, np.inf)
    assert (sensor.exclude_robot, sensor.noise_stddev) == (False, 0.02)
    assert not found(plan)


def test_a_turn_does_not_repeat_its_first_ray_whatever_the_samples() -> None:
    sensor, _ = planned("sensor_msgs/msg/LaserScan", "int lidar:samples = 720", "double lidar:angle_min = 0")
    assert isinstance(sensor, RaySensor)
    assert np.rad2deg(sensor.angle_max) == pytest.approx(359.5)


@each_case(
    ("first", "last", "turn"),
    [(-180.0, 180.1, 360.0), (-180.0, 180.0, 360.0), (0.0, 360.0008, 360.0), (-90.0, 90.1, 180.1)],
)
def test_a_span_of_a_little_more_than_a_turn_is_one(first: float, last: float, turn: float) -> None:
    ends = f"double lidar:angle_min = {first}", f"double lidar:angle_max = {last}"
    for type_name in ("sensor_msgs/msg/LaserScan", "sensor_msgs/msg/PointCloud2"):
        sensor, plan = planned(type_name, *ends)
        assert isinstance(sensor, RaySensor)
        assert np.rad2deg(sensor.angle_max - sensor.angle_min) == pytest.approx(turn, abs=1e-9)
        assert not found(plan)


def test_cloud_by_default_and_as_authored() -> None:
    sensor, _ = planned("sensor_msgs/msg/PointCloud2")
    assert isinstance(sensor, RaySensor)
    assert (sensor.samples, sensor.rings) == (1024, 16)
    assert np.rad2deg([sensor.elevation_min, sensor.elevation_max]) == pytest.approx([-15.0, 15.0])
    sensor, plan = planned(
        "sensor_msgs/msg/PointCloud2", "int lidar:rings = 4", "int lidar:samples = 8", "double lidar:elevation_min = 0",
        "double lidar:elevation_max = 30",
    )  # fmt: skip
    assert isinstance(sensor, RaySensor)
    assert (sensor.samples, sensor.rings, sensor.elevation_min) == (8, 4, 0.0)
    assert sensor.elevation_max == pytest.approx(np.pi / 6.0)
    assert not found(plan)


@each_case(
    ("attribute", "field", "default"),
    [
        ("int lidar:samples = 0", "samples", 360),
        ("int lidar:samples = 2000000", "samples", 360),
        ("double lidar:range_min = -1", "range_min", 0.12),
        ("double lidar:range_max = nan", "range_max", 12.0),
        ("double lidar:range_max = 0.1", "range_max", 12.0),
        ("double lidar:angle_min = inf", "angle_min", -np.pi),
        ("double lidar:angle_max = -200", "angle_max", np.deg2rad(179.0)),
        ("double lidar:angle_max = 200", "angle_max", np.deg2rad(179.0)),
        ("double lidar:angle_max = 180.11", "angle_max", np.deg2rad(179.0)),
        ("double lidar:noise_stddev = -0.1", "noise_stddev", 0.0),
        ('string lidar:samples = "many"', "samples", 360),
        ('string lidar:exclude_robot = "yes"', "exclude_robot", True),
    ],
)  # fmt: skip
def test_a_value_that_is_not_possible_gives_an_error_and_the_default(
    attribute: str, field: str, default: float
) -> None:
    sensor, plan = planned("sensor_msgs/msg/LaserScan", attribute)
    assert getattr(sensor, field) == pytest.approx(default)
    name = attribute.split(" ")[1]
    assert found(plan) == [(MINE, "error", name)]


def test_a_name_that_means_nothing_is_a_warning() -> None:
    _, plan = planned("sensor_msgs/msg/LaserScan", "int lidar:samples = 90", "int lidar:rings = 3")
    assert found(plan) == [(f"{MINE}.name", "warning", "lidar:rings")]


def test_range_finder() -> None:
    sensor, _ = planned("sensor_msgs/msg/Range")
    assert isinstance(sensor, RangeSensor)
    assert np.rad2deg(sensor.field_of_view) == pytest.approx(15.0)
    assert (sensor.range_min, sensor.range_max, sensor.radiation) == (0.02, 4.0, "ultrasound")
    sensor, plan = planned(
        "sensor_msgs/msg/Range", "double range:field_of_view = 2", 'token range:radiation_type = "infrared"',
        "double range:range_max = 1.5",
    )  # fmt: skip
    assert isinstance(sensor, RangeSensor)
    assert (sensor.radiation, sensor.range_max) == ("infrared", 1.5)
    assert not found(plan)
    _, plan = planned("sensor_msgs/msg/Range", 'token range:radiation_type = "radar"')
    assert found(plan) == [(MINE, "error", "range:radiation_type")]


def test_imu_has_the_covariance_of_its_noise_or_the_authored_one() -> None:
    sensor, _ = planned("sensor_msgs/msg/Imu")
    assert isinstance(sensor, ImuSensor)
    assert (sensor.gyro_stddev, sensor.orientation_covariance) == (0.0, (0.0, 0.0, 0.0))
    sensor, plan = planned(
        "sensor_msgs/msg/Imu", "double imu:angular_velocity_stddev = 2", "double imu:linear_acceleration_stddev = 0.1",
        "double imu:orientation_stddev = 1", "double3 imu:orientation_covariance_diagonal = (-1, 0, 0)",
        "double3 imu:linear_acceleration_covariance_diagonal = (1, 2, 3)",
    )  # fmt: skip
    assert isinstance(sensor, ImuSensor)
    assert [sensor.gyro_stddev, sensor.orientation_stddev] == pytest.approx(np.deg2rad([2.0, 1.0]))
    assert sensor.angular_velocity_covariance == pytest.approx((np.deg2rad(2.0) ** 2,) * 3)
    assert (sensor.orientation_covariance, sensor.linear_acceleration_covariance) == ((-1, 0, 0), (1, 2, 3))
    assert not found(plan)
    _, plan = planned("sensor_msgs/msg/Imu", "double3 imu:angular_velocity_covariance_diagonal = (1, -1, 1)")
    assert found(plan) == [(MINE, "error", "imu:angular_velocity_covariance_diagonal")]


def test_places_are_those_of_the_prims_in_their_bodies() -> None:
    """Stage units and the up-axis do not matter: a Y-up stage in centimetres has the same sensor."""
    text = robot(publisher("sensor_msgs/msg/Imu", at(10, 20, 30)))
    plan = plan_text(text, meters=0.01, up="Y")
    (sensor,) = plan.physics.sensors
    assert sensor.body_from_sensor.translation == pytest.approx((0.1, 0.2, 0.3))
    plan = plan_text(prim("Xform", "World", "RosContextAPI", publisher("sensor_msgs/msg/Imu", at(1, 2, 3))))
    (sensor,) = plan.physics.sensors
    assert (sensor.body, sensor.body_from_sensor.translation) == (-1, (1.0, 2.0, 3.0))


def test_a_sensor_away_from_its_headers_frame_is_a_warning() -> None:
    _, plan = planned("sensor_msgs/msg/LaserScan", at(0.1, 0.0, 0.0), frame=False)
    assert found(plan) == [("2.7.sensor", "warning", "")]
    _, plan = planned("sensor_msgs/msg/LaserScan", frame=False)
    assert not found(plan)


HINGED = body(
    "arm", "float physics:mass = 1",
    prim("PhysicsRevoluteJoint", "hinge", "", "rel physics:body0 = </World/base>", "rel physics:body1 = </World/arm>",
         publisher("geometry_msgs/msg/WrenchStamped", "double wrench:force_stddev = 0.5", frame=False)),
)  # fmt: skip


def test_wrench_is_that_of_the_joint_it_is_on_in_the_axes_of_its_header() -> None:
    plan = plan_text(robot(beside=[HINGED]))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, WrenchSensor)
    assert plan.physics.joints[sensor.joint].path == "/World/arm/hinge"
    assert plan.physics.bodies[sensor.frame_body].path == "/World/arm"
    assert (sensor.noise_stddev, sensor.torque_stddev) == (0.5, 0.0)


def test_wrench_of_a_joint_that_a_relationship_names() -> None:
    sensor_text = publisher(
        "geometry_msgs/msg/WrenchStamped", "rel usd_ros_bridge:wrench:joint = </World/arm/hinge>", TURNED, name="here"
    )  # fmt: skip
    bare = HINGED.replace("RosTopicAPI", "Unknown")
    plan = plan_text(robot(sensor_text, beside=[bare]))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, WrenchSensor)
    assert plan.physics.joints[sensor.joint].path == "/World/arm/hinge"
    assert sensor.body_from_frame.rotation == pytest.approx((np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    plan = plan_text(robot(sensor_text.replace("/World/arm/hinge", "/World/nowhere")))
    assert not plan.physics.sensors
    assert found(plan) == [(f"{MINE}.joint", "warning", "")]


@each_case("kind", ["PhysicsDistanceJoint", "PhysicsFixedJoint"])
def test_a_joint_that_carries_nothing_measures_nothing(kind: str) -> None:
    excluded = "" if kind == "PhysicsDistanceJoint" else "uniform bool physics:excludeFromArticulation = true"
    joint = prim(
        kind, "rod", "", "rel physics:body0 = </World/base>", "rel physics:body1 = </World/arm>", excluded,
        publisher("geometry_msgs/msg/WrenchStamped", frame=False),
    )  # fmt: skip
    plan = plan_text(robot(beside=[HINGED.replace("RosTopicAPI", "Unknown"), joint]))
    assert not plan.physics.sensors
    assert found(plan) == [(f"{MINE}.joint", "warning", "")]


def test_wrench_on_a_body_is_that_of_its_contacts() -> None:
    sensor, plan = planned("geometry_msgs/msg/WrenchStamped")
    assert isinstance(sensor, WrenchSensor)
    assert (sensor.joint, sensor.body, sensor.frame_body) == (-1, 0, 0)
    assert not found(plan)


def test_bool_is_about_contact_where_the_prim_says_so() -> None:
    sensor, plan = planned("std_msgs/msg/Bool", "double contact:threshold = 3")
    assert isinstance(sensor, ContactSensor)
    assert sensor.threshold == 3.0
    assert not found(plan)
    plan = plan_text(robot(publisher("std_msgs/msg/Bool")))
    assert not plan.physics.sensors


GEOREFERENCE = (
    "custom double usd_ros_bridge:georeference:latitude = 48.1",
    "custom double usd_ros_bridge:georeference:longitude = 11.5",
    "custom double usd_ros_bridge:georeference:altitude = 520",
    "custom double usd_ros_bridge:georeference:heading = 90",
)


def test_fix_needs_a_georeference() -> None:
    sensor, plan = planned(
        "sensor_msgs/msg/NavSatFix", "double gnss:horizontal_stddev = 2", "double gnss:vertical_stddev = 3",
        above=GEOREFERENCE,
    )  # fmt: skip
    assert isinstance(sensor, GnssSensor)
    assert (sensor.latitude, sensor.longitude, sensor.altitude) == (48.1, 11.5, 520.0)
    assert sensor.heading == pytest.approx(np.pi / 2.0)
    assert (sensor.noise_stddev, sensor.position_covariance) == (2.0, (4.0, 4.0, 9.0))
    assert not found(plan)
    plan = plan_text(robot(publisher("sensor_msgs/msg/NavSatFix")))
    assert not plan.physics.sensors
    assert found(plan) == [(f"{MINE}.origin", "warning", "")]


def test_a_georeference_with_a_part_missing_or_wrong() -> None:
    _, plan = planned("sensor_msgs/msg/NavSatFix", above=GEOREFERENCE[:1])
    assert found(plan) == [(f"{MINE}.origin", "warning", "")]
    sensor, plan = planned(
        "sensor_msgs/msg/NavSatFix", above=[GEOREFERENCE[0].replace("48.1", "91"), GEOREFERENCE[1]]
    )  # fmt: skip
    assert isinstance(sensor, GnssSensor)
    assert (sensor.latitude, sensor.longitude) == (0.0, 11.5)
    assert found(plan) == [(MINE, "error", "georeference:latitude")]


def test_temperature() -> None:
    sensor, plan = planned(
        "sensor_msgs/msg/Temperature", "double thermometer:noise_stddev = 2", above=GEOREFERENCE
    )
    assert isinstance(sensor, ThermometerSensor)
    assert (sensor.altitude, sensor.noise_stddev, sensor.sea_level_temperature) == (520.0, 2.0, 15.0)
    assert sensor.temperature is None
    assert not found(plan)
    sensor, plan = planned("sensor_msgs/msg/Temperature", "double thermometer:temperature = 60")
    assert isinstance(sensor, ThermometerSensor)
    assert sensor.temperature == 60.0
    _, plan = planned("sensor_msgs/msg/Temperature", "double thermometer:temperature = -300")
    assert found(plan) == [(MINE, "error", "thermometer:temperature")]


def test_field_and_pressure() -> None:
    sensor, _ = planned("sensor_msgs/msg/MagneticField", "double3 magnetometer:field = (0, 1e-5, 0)")
    assert isinstance(sensor, MagnetometerSensor)
    assert sensor.field == (0.0, 1e-5, 0.0)
    sensor, plan = planned(
        "sensor_msgs/msg/FluidPressure", "double barometer:noise_stddev = 5", above=GEOREFERENCE
    )  # fmt: skip
    assert isinstance(sensor, BarometerSensor)
    assert (sensor.altitude, sensor.noise_stddev, sensor.sea_level_pressure) == (520.0, 5.0, 101_325.0)
    assert not found(plan)


def camera(*content: str) -> str:
    return prim("Camera", "camera", "", at(1.0, 0.0, 0.5), *content)


OPTICAL = ("double xformOp:rotateX = 180", 'uniform token[] xformOpOrder = ["xformOp:rotateX"]')


@each_case("frame", [OPTICAL, ()])
def test_pictures_are_taken_in_the_optical_frame_of_the_camera(frame: Sequence[str]) -> None:
    picture = publisher("sensor_msgs/msg/Image", *frame)
    plan = plan_text(robot(camera(picture)))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, CameraSensor)
    assert (sensor.body, sensor.camera, sensor.depth) == (0, 0, False)
    assert sensor.body_from_sensor.translation == pytest.approx((1.0, 0.0, 0.5))
    assert np.abs(sensor.body_from_sensor.rotation) == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)


@each_case(
    ("topic", "encoding", "depth"),
    [
        ("image_raw", "", False),
        ("depth/image_rect_raw", "", True),
        ("aligned_depth_to_color/image_raw", "", True),
        ("depth/image_rect_raw", "rgb8", False),
        ("image_raw", "32FC1", True),
    ],
)
def test_an_image_is_one_of_depth_by_its_encoding_or_its_name(topic: str, encoding: str, depth: bool) -> None:
    authored = [f'token camera:encoding = "{encoding}"'] if encoding else []
    plan = plan_text(robot(camera(publisher("sensor_msgs/msg/Image", *OPTICAL, *authored, topic=topic))))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, CameraSensor)
    assert sensor.depth is depth
    assert not found(plan)


def test_what_an_image_cannot_be_is_an_error_and_a_camera_may_say_it_for_all() -> None:
    plan = plan_text(
        robot(camera(publisher("sensor_msgs/msg/Image", *OPTICAL, 'token camera:encoding = "bgr8"')))
    )
    assert found(plan) == [(MINE, "error", "camera:encoding")]
    deep = camera(
        'custom token usd_ros_bridge:camera:encoding = "32FC1"',
        "custom int2 usd_ros_bridge:camera:resolution = (320, 240)",
        publisher("sensor_msgs/msg/Image", *OPTICAL),
    )  # fmt: skip
    plan = plan_text(robot(deep))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, CameraSensor)
    assert sensor.depth
    assert not found(plan)


def test_a_cloud_on_a_camera_is_that_of_its_pixels() -> None:
    cloud = publisher("sensor_msgs/msg/PointCloud2", *OPTICAL, "int camera:cloud_stride = 8")
    lens = ("float focalLength = 24", "float horizontalAperture = 24", "float verticalAperture = 18")
    plan = plan_text(robot(camera(*lens, "float2 clippingRange = (0.3, 9)", cloud)))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, DepthCloudSensor)
    assert (sensor.samples, sensor.rings) == (80, 60)
    (model,) = plan.scene.cameras
    # Each ray is that of a pixel, the fourth of eight.
    for column, row in ((0, 0), (79, 59)):
        ours = (column - sensor.cx) / sensor.fx, (row - sensor.cy) / sensor.fy
        pixel = (8 * column + 3 - model.cx) / model.fx, (8 * row + 3 - model.cy) / model.fy
        assert ours == pytest.approx(pixel)
    assert (model.fx, model.cx, model.cy) == pytest.approx((640.0, 319.5, 239.5))
    assert (sensor.angle_min, sensor.angle_max) == pytest.approx((-math.atan(0.5), math.atan(0.5)))
    assert (sensor.elevation_min, sensor.elevation_max) == pytest.approx(
        (-math.atan(0.375), math.atan(0.375))
    )
    assert (sensor.range_min, sensor.range_max, sensor.exclude_robot) == (pytest.approx(0.3), 9.0, False)
    assert sensor.body_from_sensor.translation == pytest.approx((1.0, 0.0, 0.5))
    assert np.abs(sensor.body_from_sensor.rotation) == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)
    assert not found(plan)


@each_case(
    ("width", "stride", "expected", "is_reported"),
    [
        (8192, "", 8, False),
        (8192, "int camera:cloud_stride = 1", 8, True),
        (1080, "int camera:cloud_stride = 1", 1, False),
    ],
)
def test_the_number_of_points_on_a_camera_is_bounded(
    width: int, stride: str, expected: int, is_reported: bool
) -> None:
    cloud = publisher("sensor_msgs/msg/PointCloud2", *OPTICAL, *([stride] if stride else []))
    size = f"custom int2 usd_ros_bridge:camera:resolution = ({width}, {width})"
    plan = plan_text(robot(camera(size, cloud)))
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, DepthCloudSensor)
    assert (sensor.samples, sensor.rings) == (width // expected,) * 2
    assert found(plan) == ([(MINE, "error", "camera:cloud_stride")] if is_reported else [])


def test_a_lidar_below_a_camera_is_one_where_it_says_so_and_a_turned_cloud_is_a_warning() -> None:
    lidar = publisher("sensor_msgs/msg/PointCloud2", *OPTICAL, "int lidar:rings = 2")
    plan = plan_text(robot(camera(lidar)))
    assert [type(each) for each in plan.physics.sensors] == [RaySensor]
    plan = plan_text(robot(camera(publisher("sensor_msgs/msg/PointCloud2"))))
    assert found(plan) == [("2.7.sensor", "warning", "")]


def test_subscriptions_and_what_is_disabled_measure_nothing() -> None:
    listens = publisher("sensor_msgs/msg/LaserScan").replace('"publisher"', '"subscription"')
    broken = publisher("sensor_msgs/msg/LaserScan", name="broken", topic="a b")
    plan = plan_text(robot(listens, broken))
    assert not plan.physics.sensors


def test_every_type_that_is_measured_has_its_group() -> None:
    assert {each.sensor for each in MESSAGE_TYPES.values()} - {""} == {
        "lidar", "range", "imu", "wrench", "contact", "gnss", "magnetometer", "barometer", "camera",
        "thermometer",
    }  # fmt: skip
