"""Codecs and type look-up, message by message, with rclpy's field checks on."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from geometry_msgs.msg import AccelStamped, PoseStamped, TransformStamped, TwistStamped, WrenchStamped
from nav_msgs.msg import Odometry
from numpy.testing import assert_allclose
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import (
    CameraInfo,
    CompressedImage,
    FluidPressure,
    Image,
    Imu,
    JointState,
    LaserScan,
    MagneticField,
    NavSatFix,
    PointCloud2,
    Range,
    Temperature,
)
from std_msgs.msg import Bool, String

from builders.plans import PlanBuilder, rover
from case_tables import each_case
from ros_plans import CAMERA, plan, topic
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.message_types import MESSAGE_TYPES, is_own_type
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.ros.codecs import ACTIONS, CODECS, NO_CODEC
from usd_ros_bridge.ros.codecs.encoding import NoSourceError
from usd_ros_bridge.ros.codecs.message_encoder import (
    MAX_TEMPLATES,
    EncodedMessages,
    MessageEncoder,
    pack_text,
)
from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.wire.cdr_layout import TemplateError
from usd_ros_bridge.runtime.odometry import Odometry as OdometryValues
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial import scalar
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import compose

SPIN = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 2.0])


class Turning(NullBackend):
    """The base stands turned by 90 degrees about z, moves along x and turns about z."""

    def step(self, time_ns, commands):
        state = super().step(time_ns, commands)
        state.body_pose[0] = [3.0, 4.0, 0.0, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]
        state.body_twist = np.full((2, 6), np.nan)
        state.body_twist[0] = SPIN
        state.joint_velocity, state.joint_effort = np.array([0.5]), np.array([np.nan])
        return state


def read(encoded, message_class):
    """Returns what a subscriber reads of an encoded message."""
    return deserialize_message(
        bytes(encoded) if isinstance(encoded, bytearray) else serialize_message(encoded), message_class
    )


def make_encoder(made, message_class, encoding, reports, messages=None):
    topic = made.topics[0]
    return MessageEncoder(
        topic.path,
        message_class,
        encoding,
        frame_id=topic.frame_id,
        report=lambda *each: reports.append(each),
        messages=EncodedMessages() if messages is None else messages,
    )


STAMP_NS = 7_000_000_123
PRIM = "/arm/arm/it_publisher"


@pytest.fixture
def encode(monkeypatch):
    """`encode(type, message, **topic)`: the message, written twice in place, checked against message objects."""
    opened = []

    def fill(type_name, message, **more):
        made = plan(topic("publisher", "/arm/it", type_name, publish_rate=10.0, **more))
        runtime = Runtime(made, Turning()).open()
        opened.append(runtime)
        assert runtime.tick(1)
        encoding = CODECS[type_name].encode(made.topics[0], made)
        reports = []
        encoder = make_encoder(made, type(message), encoding, reports)
        for stamp_ns in (1, STAMP_NS):
            values = encoding.values(runtime.snapshot)
            encoded = encoder.encode(values, stamp_ns)
        assert isinstance(encoded, bytearray), reports
        written = read(encoded, type(message))
        assert written == deserialize_message(
            serialize_message(encoder.make_message(values, STAMP_NS)), type(message)
        )
        assert (written.header.stamp.sec, written.header.stamp.nanosec) == (7, 123)
        assert written.header.frame_id == made.topics[0].frame_id
        return written

    yield fill
    for runtime in opened:
        runtime.close()


def test_pose_and_transform_show_the_body_in_the_world(encode):
    pose = encode("geometry_msgs/msg/PoseStamped", PoseStamped()).pose
    assert (pose.position.x, pose.position.y) == (3.0, 4.0)
    assert pose.orientation.z == pytest.approx(np.sqrt(0.5))
    shown = encode("geometry_msgs/msg/TransformStamped", TransformStamped(), child_frame_id="base")
    assert shown.child_frame_id == "base"
    assert (shown.transform.translation.x, shown.transform.translation.y) == (3.0, 4.0)


def test_twist_is_that_of_the_prim_in_the_axes_of_its_frame(encode):
    twist = encode(
        "geometry_msgs/msg/TwistStamped", TwistStamped(), body_from_prim=Pose((1.0, 0.0, 0.0))
    ).twist
    # A point 1 m ahead of a base that looks along world y: 2 rad/s about z carries it along world -x at 2 m/s.
    assert [twist.linear.x, twist.linear.y] == pytest.approx([0.0, 1.0], abs=1e-9)
    assert twist.angular.z == pytest.approx(2.0)


def test_twist_in_an_external_frame_has_the_axes_of_the_world(encode):
    twist = encode("geometry_msgs/msg/TwistStamped", TwistStamped(), frame_id="map").twist
    assert [twist.linear.x, twist.linear.y, twist.angular.z] == pytest.approx([1.0, 0.0, 2.0])


class Roaming(NullBackend):
    """Every body has another pose and another twist at every step."""

    def step(self, time_ns, commands):
        state = super().step(time_ns, commands)
        random = np.random.default_rng(time_ns)
        state.body_pose[:] = random.uniform(-1.0, 1.0, state.body_pose.shape)
        state.body_pose[:, 3:] /= np.linalg.norm(state.body_pose[:, 3:], axis=1, keepdims=True)
        state.body_twist = random.uniform(-1.0, 1.0, (len(state.body_pose), 6))
        return state


AHEAD, TURNED = Pose((1.0, 0.5, 0.0)), Pose((0.0, 0.0, 0.0), (0.5, -0.5, 0.5, -0.5))
TWISTS = {
    "own": ("base", Pose()),
    "ahead": ("base", AHEAD),
    "of_mast": ("mast", Pose()),
    "turned": ("turned", Pose()),
    "external": ("map", Pose()),
}
"""Frame of the header, and the prim in its body."""


def roaming_robots():
    """Two robots of two bodies; each shows the twist of its base in the axes of other frames, and as Odometry."""
    builder = PlanBuilder()
    for path in ("/one", "/two"):
        robot = builder.robot(path, namespace=path)
        for body in ("base", "mast"):
            robot.body(body)
        carrier = robot.body_row("base")
        robot.frames.append(
            replace(robot.frames[0], id="turned", carrier=carrier, carrier_from_frame=TURNED, static=True)
        )
        for name, (frame, where) in TWISTS.items():
            robot.topic(
                name, "geometry_msgs/msg/TwistStamped", "publisher", frame_id=frame, body_from_prim=where
            )
        robot.topic("odom", "nav_msgs/msg/Odometry", "publisher", frame_id="odom", child_frame_id="base")
    return builder.build()


@pytest.mark.parametrize("order", [1, -1])
def test_messages_that_show_one_twist_differ_where_bodies_axes_or_levers_do(order):
    made = roaming_robots()
    encodings = [(each, CODECS[each.type].encode(each, made)) for each in made.topics][::order]
    with Runtime(made, Roaming()) as runtime:
        for time_ns in (1, 2):
            assert runtime.tick(time_ns)
            snapshot = runtime.snapshot
            for shown, encoding in encodings:
                base = shown.body
                rotation, twist = snapshot.body(base)[3:], snapshot.twist(base)
                axes = {
                    "mast": snapshot.body(base + 1)[3:],
                    "turned": scalar.multiply(rotation, TURNED.rotation),
                    "map": (0.0, 0.0, 0.0, 1.0),
                }.get(shown.frame_id, rotation)
                if shown.body_from_prim == AHEAD:
                    twist = scalar.velocity_at(rotation, twist, AHEAD.translation)
                assert encoding.values(snapshot)[-1] == scalar.in_axes(axes, twist), (shown.path, time_ns)


def test_acceleration_of_a_point_off_centre_is_centripetal(encode):
    accel = encode(
        "geometry_msgs/msg/AccelStamped", AccelStamped(), body_from_prim=Pose((1.0, 0.0, 0.0))
    ).accel
    assert [accel.linear.x, accel.linear.y, accel.linear.z] == pytest.approx([-4.0, 0.0, 0.0], abs=1e-9)


def test_known_velocities_are_shown_and_unknown_efforts_are_empty(encode):
    states = encode("sensor_msgs/msg/JointState", JointState())
    assert (list(states.name), list(states.position)) == (["hinge"], [0.0])
    assert (list(states.velocity), list(states.effort)) == ([0.5], [])


def test_odometry_and_imu_have_the_twist_in_their_own_frame(encode):
    odometry = encode("nav_msgs/msg/Odometry", Odometry(), child_frame_id="base")
    assert odometry.child_frame_id == "base"
    assert odometry.pose.pose.orientation.w == pytest.approx(1.0)
    assert [odometry.twist.twist.linear.x, odometry.twist.twist.linear.y] == pytest.approx(
        [0.0, -1.0], abs=1e-9
    )
    imu = encode("sensor_msgs/msg/Imu", Imu(), body_from_prim=Pose((1.0, 0.0, 0.0)))
    force = imu.linear_acceleration
    assert [force.x, force.y, force.z] == pytest.approx([-4.0, 0.0, 9.81], abs=1e-9)


def test_odometry_is_that_of_the_child_frame(encode):
    shown = encode(
        "nav_msgs/msg/Odometry", Odometry(), child_frame_id="tip", body_from_child=Pose((1.0, 0.0, 0.0))
    )
    linear, angular = shown.twist.twist.linear, shown.twist.twist.angular
    # 2 rad/s carry a point 1 m ahead to the left; the base itself goes to the right at 1 m/s.
    assert [linear.x, linear.y, angular.z] == pytest.approx([0.0, 1.0, 2.0], abs=1e-9)


class Slipping(KinematicBackend):
    """A rover that nobody commands: in a second it goes 1 m ahead or turns by 1 rad; its wheels turn by 0.8 m."""

    capabilities = replace(KinematicBackend.capabilities, commands=False)

    def __init__(self, *, turning):
        super().__init__()
        self.turning = turning

    def step(self, time_ns, commands):
        state = super().step(time_ns, commands)
        gone = (time_ns - 1) * 1e-9
        state.joint_position[:2] = 0.8 / 0.05 * gone
        place = (
            [0.0, 0.0, 0.0, 0.0, 0.0, np.sin(gone / 2), np.cos(gone / 2)]
            if self.turning
            else [gone, *[0.0] * 5, 1.0]
        )
        state.body_pose[0] = compose(self.start, np.array(place))
        return state

    def open(self, context):
        super().open(context)
        self.start = context.plan.layout.body_pose[0].copy()


@pytest.mark.parametrize("turning", [False, True])
def test_odometry_that_no_drive_names_is_the_true_motion_of_the_body(turning):
    builder = PlanBuilder()
    robot = rover(builder).robots[-1]
    robot.options["base_transform"] = "odometry"
    reckoned = robot.topic("odom", "nav_msgs/msg/Odometry", "publisher", child_frame_id="base_link")
    robot.topic("truth", "nav_msgs/msg/Odometry", "publisher", child_frame_id="base_link")
    tip = {"child_frame_id": "tip", "body_from_child": Pose((0.5, 0.0, 0.2))}
    robot.topic("tip", "nav_msgs/msg/Odometry", "publisher", **tip)
    wheels = ("left_wheel_joint", "right_wheel_joint")
    parameters = {
        "wheel_separation": 0.4, "wheel_radius": 0.05, "left_wheels": wheels[:1], "right_wheels": wheels[1:],
        "cmd_vel_timeout": 0.5,
    }  # fmt: skip
    robot.controller("drive", "RosControlDiffDriveAPI", wheels, interfaces=[reckoned], parameters=parameters)
    made = builder.build()
    odom, truth, at_tip = (CODECS[each.type].encode(each, made) for each in made.topics)
    with Runtime(made, Slipping(turning=turning)) as runtime:
        for tick in range(11):
            assert runtime.tick(1 + tick * 100_000_000)
        snapshot = runtime.snapshot
        assert_allclose(odom.values(snapshot)[0], [0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], atol=1e-9)
        half = 0.5 if turning else 0.0
        turned = [0.0, 0.0, np.sin(half), np.cos(half)]
        gone = 0.0 if turning else 1.0
        assert_allclose(truth.values(snapshot)[0], [gone, 0.0, 0.0, *turned], atol=1e-9)
        ahead = [gone + 0.5 * (np.cos(2 * half) - 1.0), 0.5 * np.sin(2 * half), 0.0]
        assert_allclose(at_tip.values(snapshot)[0], [*ahead, *turned], atol=1e-9)


def test_camera_info_is_that_of_the_camera(encode):
    info = encode("sensor_msgs/msg/CameraInfo", CameraInfo(), camera=0)
    assert (info.width, info.height, info.k[0], info.p[5]) == (640, 480, 500.0, 510.0)


class Sensing:
    """Stands for a snapshot whose sensor gives these arrays."""

    def __init__(self, **arrays):
        arrays = {name: np.asarray(values) for name, values in arrays.items()}
        self.sample = SensorSample(prim=PRIM, stamp_ns=STAMP_NS, arrays=arrays)

    def sense(self, prim):
        return self.sample if prim == self.sample.prim else None


def sensed(message_class, *snapshots, reports=None, **more):
    """The messages of a sensor, in place where that is possible, and the way they were published."""
    type_name = f"{message_class.__module__.partition('.')[0]}/msg/{message_class.__name__}"
    made = plan(topic("publisher", "/arm/it", type_name, publish_rate=10.0, **more))
    encoding = (CODECS[type_name].encode_measured or CODECS[type_name].encode)(made.topics[0], made)
    assert encoding.sensed
    gathered = [] if reports is None else reports
    encoder = make_encoder(made, message_class, encoding, gathered)
    shown = []
    for snapshot in snapshots:
        values = encoding.values(snapshot)
        time_ns = encoding.stamp_ns(snapshot)
        encoded = encoder.encode(values, time_ns)
        message = read(encoded, message_class)
        # Compared as text, in which NaN equals NaN.
        expected = serialize_message(encoder.make_message(values, time_ns))
        assert repr(message) == repr(deserialize_message(expected, message_class))
        assert not hasattr(message, "header") or message.header.stamp.sec == 7
        shown.append((message, isinstance(encoded, bytearray)))
    return shown


@each_case(
    ("pixels", "encoding"),
    [
        (np.arange(24, dtype=np.uint8).reshape(2, 4, 3), "rgb8"),
        (np.arange(32, dtype=np.uint8).reshape(2, 4, 4)[:, ::-1], "rgba8"),
        (np.arange(8, dtype=np.uint8).reshape(2, 4), "mono8"),
        (np.arange(8, dtype=np.uint16).reshape(2, 4), "mono16"),
        (np.linspace(0.0, 1e3, 8, dtype=np.float32).reshape(2, 4), "32FC1"),
    ],
)
def test_image_is_what_the_sensor_saw(pixels, encoding):
    for image, in_place in sensed(Image, Sensing(data=pixels), Sensing(data=pixels)):
        assert in_place
        assert (image.height, image.width, image.encoding, image.is_bigendian) == (2, 4, encoding, 0)
        assert image.step == pixels[0].nbytes
        assert bytes(image.data) == pixels.tobytes()


def test_image_of_no_known_kind_is_refused():
    with pytest.raises(ValueError, match="float64"):
        sensed(Image, Sensing(data=np.zeros((2, 2))))
    with pytest.raises(ValueError, match="'data'"):
        sensed(Image, Sensing(pixels=np.zeros((2, 2))))


def test_scan_has_its_increment_and_its_ranges():
    numbers = {"angle_min": -1.0, "angle_max": 1.0, "range_min": 0.1, "range_max": np.inf}
    ranges = np.array([1.0, np.inf, 3.0, np.nan, 5.0], dtype=np.float32)
    ((scan, in_place), (bright, _)) = sensed(
        LaserScan,
        Sensing(ranges=ranges, **numbers),
        Sensing(ranges=ranges[::-1], intensities=np.arange(5.0), **numbers, scan_time=0.5),
    )
    assert in_place
    assert (scan.angle_min, scan.angle_max, scan.angle_increment) == (-1.0, 1.0, 0.5)
    assert (scan.range_min, scan.range_max) == (pytest.approx(0.1), np.inf)
    np.testing.assert_array_equal(scan.ranges, ranges)
    assert (list(scan.intensities), scan.scan_time) == ([], 0.0)
    assert (list(bright.intensities), bright.scan_time) == ([0.0, 1.0, 2.0, 3.0, 4.0], 0.5)


@each_case("missing", ["angle_min", "angle_max", "range_min", "range_max"])
def test_scan_without_an_angle_or_a_range_limit_is_refused(missing):
    numbers = {"angle_min": -1.0, "angle_max": 1.0, "range_min": 0.1, "range_max": 10.0}
    del numbers[missing]
    with pytest.raises(ValueError, match=f"no array named '{missing}'"):
        sensed(LaserScan, Sensing(ranges=np.ones(3, np.float32), **numbers))


@each_case("orientation", [(0, 0, 0, 0), (0, 0, 0, 2), (0, np.nan, 0, 1)])
def test_imu_without_an_orientation_is_refused_unless_it_says_so(orientation):
    numbers = {"orientation": orientation, "angular_velocity": np.zeros(3), "linear_acceleration": np.ones(3)}
    with pytest.raises(ValueError, match="which is no unit quaternion"):
        sensed(Imu, Sensing(**numbers))
    unknown = np.array([-1.0, *[0.0] * 8])
    ((shown, _),) = sensed(Imu, Sensing(**numbers, orientation_covariance=unknown))
    assert shown.orientation_covariance[0] == -1.0


@pytest.mark.parametrize("columns", [3, 4])
def test_cloud_is_unorganised_and_says_whether_it_is_dense(columns):
    points = np.arange(5 * columns, dtype=np.float32).reshape(5, columns)
    hole = points.copy()
    hole[2] = np.nan
    (dense, in_place), (sparse, _) = sensed(PointCloud2, Sensing(points=points), Sensing(points=hole))
    assert in_place
    assert [field.name for field in dense.fields] == ["x", "y", "z", "intensity"][:columns]
    assert (dense.height, dense.width, dense.point_step, dense.row_step) == (1, 5, 4 * columns, 20 * columns)
    assert (dense.is_dense, sparse.is_dense) == (True, False)
    assert bytes(dense.data) == points.tobytes()


def test_cloud_in_rows_is_organised_and_another_number_of_rows_another_message():
    points = np.arange(36, dtype=np.float32).reshape(12, 3)
    shown = sensed(
        PointCloud2, *(Sensing(points=points, height=rows) for rows in (3, 2, 1)), Sensing(points=points)
    )
    assert [(cloud.height, cloud.width, cloud.row_step) for cloud, _ in shown] == [
        (3, 4, 48), (2, 6, 72), (1, 12, 144), (1, 12, 144),
    ]  # fmt: skip
    assert all(in_place and bytes(cloud.data) == points.tobytes() for cloud, in_place in shown)
    with pytest.raises(ValueError, match="12 points cannot be organised in 5 rows"):
        sensed(PointCloud2, Sensing(points=points, height=5))


def test_measured_imu_shows_the_sample_and_its_covariances():
    numbers = {
        "orientation": [0.0, 0.0, 0.6, 0.8],
        "angular_velocity": [1.0, 2.0, 3.0],
        "linear_acceleration": [4.0, 5.0, 6.0],
    }
    known = {f"{name}_covariance": np.arange(9.0) + index for index, name in enumerate(numbers)}
    (bare, in_place), (full, _) = sensed(Imu, Sensing(**numbers), Sensing(**numbers, **known))
    assert in_place
    assert (bare.orientation.z, bare.orientation.w) == (0.6, 0.8)
    assert (full.angular_velocity.y, full.linear_acceleration.z) == (2.0, 6.0)
    assert bare.orientation_covariance.tolist() == [0.0] * 9
    assert full.linear_acceleration_covariance.tolist() == known["linear_acceleration_covariance"].tolist()
    with pytest.raises(ValueError, match="has 4 numbers, and should have 3"):
        sensed(Imu, Sensing(**numbers | {"angular_velocity": np.zeros(4)}))


def test_camera_info_of_a_camera_that_takes_pictures_has_their_stamp():
    ((info, in_place),) = sensed(CameraInfo, Sensing(), camera=0)
    assert in_place
    assert (info.width, info.header.stamp.nanosec) == (640, STAMP_NS % 10**9)


@each_case("distance", [1.5, np.inf, -np.inf])
def test_range_is_what_the_sensor_measured(distance):
    sample = Sensing(range=distance, field_of_view=0.25, min_range=0.125, max_range=4.0, radiation_type=1)
    ((shown, in_place),) = sensed(Range, sample)
    assert in_place
    assert (shown.range, shown.field_of_view, shown.min_range, shown.max_range) == (
        distance,
        0.25,
        0.125,
        4.0,
    )
    assert shown.radiation_type == Range.INFRARED


def test_fix_is_one_and_says_whether_its_covariance_is_known():
    covariance = np.diag([1.0, 1.0, 4.0]).reshape(9)
    position = [48.0, 11.5, 520.0]
    (bare, in_place), (known, _) = sensed(
        NavSatFix, Sensing(position=position), Sensing(position=position, position_covariance=covariance)
    )
    assert in_place
    assert [known.latitude, known.longitude, known.altitude] == position
    assert (known.status.status, known.status.service) == (0, 1)
    assert bare.position_covariance_type == NavSatFix.COVARIANCE_TYPE_UNKNOWN
    assert known.position_covariance_type == NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
    assert known.position_covariance.tolist() == covariance.tolist()


def test_forces_contacts_field_and_pressure_are_what_the_sensors_measured():
    ((wrench, _),) = sensed(WrenchStamped, Sensing(wrench=np.arange(6.0)))
    assert (wrench.wrench.force.y, wrench.wrench.torque.z) == (1.0, 5.0)
    assert [bool(shown.data) for shown, _ in sensed(Bool, Sensing(data=True), Sensing(data=False))] == [
        True,
        False,
    ]
    ((field, _),) = sensed(
        MagneticField, Sensing(magnetic_field=[0.0, 2e-5, 1e-5], magnetic_field_covariance=np.arange(9.0))
    )
    assert (field.magnetic_field.y, field.magnetic_field_covariance[8]) == (2e-5, 8.0)
    ((air, _),) = sensed(FluidPressure, Sensing(fluid_pressure=9e4, variance=4.0))
    assert (air.fluid_pressure, air.variance) == (9e4, 4.0)
    ((heat, _),) = sensed(Temperature, Sensing(temperature=21.5, variance=0.25))
    assert (heat.temperature, heat.variance) == (21.5, 0.25)


def test_compressed_data_is_passed_on_with_the_format_it_comes_with_or_that_of_its_file():
    jpeg, png = np.array([0xFF, 0xD8, 0xFF], np.uint8), np.frombuffer(b"\x89PNG1", np.uint8)
    said = np.frombuffer(b"rgb8; jpeg compressed bgr8", np.uint8)
    shown = sensed(CompressedImage, Sensing(data=jpeg, format=said), Sensing(data=jpeg), Sensing(data=png))
    assert [each.format for each, _ in shown] == ["rgb8; jpeg compressed bgr8", "jpeg", "png"]
    assert bytes(shown[2][0].data) == png.tobytes()


def test_pixels_of_a_backend_are_compressed_beside_the_tick():
    pytest.importorskip("PIL", reason="pillow is not installed: make setup")
    made = plan(topic("publisher", "/arm/it", "sensor_msgs/msg/CompressedImage", publish_rate=10.0))
    encoding = CODECS["sensor_msgs/msg/CompressedImage"].encode(made.topics[0], made)
    written = []
    for stamp in (1, 2, 3):
        snapshot = Sensing(data=np.full((48, 64, 3), 40 * stamp, np.uint8))
        snapshot.sample = replace(snapshot.sample, stamp_ns=stamp)
        deadline = time.monotonic() + 60.0
        while encoding.stamp_ns(snapshot) != stamp:
            assert time.monotonic() < deadline, "the compressed picture did not come"
            time.sleep(0.001)
        message = CompressedImage()
        (data,) = encoding.values(snapshot)
        encoding.prepare(message, (data,))
        written.append((encoding.stamp_ns(snapshot), message.format, data.tobytes()[:2]))
    assert written == [(stamp, "rgb8; jpeg compressed bgr8", b"\xff\xd8") for stamp in (1, 2, 3)]


def test_sizes_that_come_and_go_take_message_objects_and_one_that_stays_does_not():
    clouds = [Sensing(points=np.full((size, 3), size, dtype=np.float32)) for size in range(MAX_TEMPLATES + 3)]
    shown = sensed(PointCloud2, *clouds, clouds[-1], clouds[-1], clouds[1], clouds[-1])
    assert [message.width for message, _ in shown] == [*range(MAX_TEMPLATES + 3), 6, 6, 1, 6]
    assert [in_place for _, in_place in shown] == [True] * MAX_TEMPLATES + [False] * 3 + [True] * 4


def test_what_has_no_template_goes_out_as_message_objects_with_one_report(monkeypatch):
    def refuse(message):
        raise TemplateError(f"{type(message).__name__} is odd")

    monkeypatch.setattr("usd_ros_bridge.ros.codecs.message_encoder.Template", refuse)
    reports = []
    image = Sensing(data=np.zeros((2, 2), dtype=np.uint8))
    for message, in_place in sensed(Image, image, image, image, reports=reports):
        assert not in_place
        assert message.encoding == "mono8"
    assert [kind for kind, _ in reports] == [f"template:{PRIM}"]
    assert "Image is odd" in reports[0][1]


@each_case(
    ("type_name", "more"),
    [
        ("sensor_msgs/msg/JointState", {"dofs": ()}),
        ("sensor_msgs/msg/CameraInfo", {"camera": 7}),
        ("nav_msgs/msg/Odometry", {"body": -1}),
    ],
)
def test_what_has_no_source_says_so(type_name, more):
    made = plan(topic("publisher", "/arm/it", type_name, publish_rate=10.0, **more))
    with pytest.raises(NoSourceError):
        CODECS[type_name].encode(made.topics[0], made)


@each_case("type_name", sorted(name for name, codec in CODECS.items() if codec.decode))
def test_every_decoder_takes_a_default_message(type_name):
    sample = CODECS[type_name].decode(import_interface(type_name, AmentCatalog())())
    assert type(sample).__module__ in ("usd_ros_bridge.model.state", "usd_ros_bridge.model.goals")


def test_only_types_without_codec_can_be_replaced():
    assert all(is_own_type(each) for each in (*CODECS, *ACTIONS))
    unknown = {each for each in MESSAGE_TYPES if not is_own_type(each)}
    assert not unknown & {*CODECS}
    # Published by the bridge's own means.
    assert {each for each in MESSAGE_TYPES if is_own_type(each)} - {*CODECS} == {"tf2_msgs/msg/TFMessage"}


def test_what_planning_says_of_a_type_its_codec_can_do():
    for type_name, meaning in MESSAGE_TYPES.items():
        codec = CODECS.get(type_name, NO_CODEC)
        assert bool(meaning.shows) == (codec.encode_attribute is not None), type_name
        assert not meaning.commands or codec.decode, type_name
        assert not meaning.sensor or codec.encode, type_name
    assert all(codec.encode or codec.decode or codec.encode_attribute for codec in CODECS.values())


@each_case("type_name", sorted(name for name, codec in CODECS.items() if codec.encode))
def test_every_encoded_type_is_installed(type_name):
    assert AmentCatalog().contains(type_name)


@each_case(
    "type_name",
    ["os/msg/system", "std_msgs/msg/string", "std_msgs/String", "../msg/X", "std_msgs/msg/Gone", ""],
)
def test_types_outside_of_the_index_are_refused(type_name):
    assert not AmentCatalog().contains(type_name)
    with pytest.raises(InterfaceTypeError, match="not installed"):
        import_interface(type_name, AmentCatalog())


@pytest.mark.process
def test_looking_up_types_imports_none():
    code = (
        "import sys; from usd_ros_bridge.ros.interface_types import AmentCatalog; c = AmentCatalog();"
        "before = set(sys.modules);"
        "assert c.contains('sensor_msgs/msg/Image') and not c.contains('antigravity/msg/Fly');"
        "assert set(sys.modules) == before, set(sys.modules) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_robots_of_a_kind_write_into_one_message_and_read_as_their_own():
    """Frames of one length share, others do not; what is sent is each robot's own either way."""
    messages, reports, encoders = EncodedMessages(), [], []
    for frame in ("one", "two", "three", "рама"):
        made = plan(
            topic("publisher", "/arm/it", "geometry_msgs/msg/PoseStamped", publish_rate=10.0, frame_id=frame)
        )
        encoding = CODECS["geometry_msgs/msg/PoseStamped"].encode(made.topics[0], made)
        encoders.append((frame, make_encoder(made, PoseStamped, encoding, reports, messages)))
    buffers = []
    for stamp_ns in (STAMP_NS, 2 * STAMP_NS):
        for number, (frame, encoder) in enumerate(encoders, 1):
            values = ([float(number * place) for place in range(7)],)
            encoded = encoder.encode(values, stamp_ns)
            shown = read(encoded, PoseStamped)
            assert shown == read(encoder.make_message(values, stamp_ns), PoseStamped)
            assert (shown.header.frame_id, shown.pose.orientation.w) == (frame, 6.0 * number)
            buffers.append(id(encoded))
    assert buffers[0] == buffers[1]
    assert len(set(buffers)) == 3
    assert not reports


@each_case("text", ["", "a", "base_link", "рама"])
def test_a_packed_text_is_that_of_rclpy(text):
    encapsulation = 4
    packed = pack_text(text)
    assert bytes(serialize_message(String(data=text)))[encapsulation:][: len(packed)] == packed


CONSTANTS = {
    "geometry_msgs/msg/TransformStamped": {"child_frame_id": "another"},
    "nav_msgs/msg/Odometry": {"child_frame_id": "another"},
    "sensor_msgs/msg/CameraInfo": {"camera": 1},
}


@each_case("type_name", CONSTANTS)
def test_messages_with_other_names_or_constants_are_not_shared(type_name):
    messages, reports, buffers = EncodedMessages(), [], {}
    message_class = import_interface(type_name, AmentCatalog())
    kept = []
    for number, more in enumerate(({}, CONSTANTS[type_name])):
        made = plan(topic("publisher", "/arm/it", type_name, publish_rate=10.0, **{"camera": 0} | more))
        made = replace(made, scene=replace(made.scene, cameras=(CAMERA, replace(CAMERA, fx=501.0))))
        encoding = CODECS[type_name].encode(made.topics[0], made)
        encoder = make_encoder(made, message_class, encoding, reports, messages)
        values = tuple((0.5,) * {"twist.twist": 6}.get(path, 7) for path in encoding.blocks)
        encoded = encoder.encode(values, STAMP_NS)
        assert read(encoded, message_class) == read(encoder.make_message(values, STAMP_NS), message_class)
        buffers[number] = id(encoded)
        kept.append(encoder)
    assert buffers[0] != buffers[1]
    assert not reports


def arm_of_joints(*names):
    robot = PlanBuilder().robot("/arm")
    bodies = ["base", *(f"link_{number}" for number in range(len(names)))]
    for body in bodies:
        robot.body(body)
    for name, parent, child in zip(names, bodies, bodies[1:], strict=False):
        robot.joint(name, parent, child)
    robot.topic("joint_states", "sensor_msgs/msg/JointState", "publisher", publish_rate=10.0)
    return robot.plan.build()


@each_case("dofs", [(0, 1, 2), (2, 0, 1), (1, 2), (1,)])
def test_joint_states_are_in_the_order_of_the_topic(dofs):
    made = arm_of_joints("one", "two", "three")
    shown = replace(made.topics[0], dofs=dofs)
    encoding = CODECS["sensor_msgs/msg/JointState"].encode(shown, made)
    with Runtime(made, NullBackend()) as runtime:
        assert runtime.tick(1)
        state = runtime.snapshot.state
        state.joint_position, state.joint_velocity = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, np.nan])
        runtime.snapshot.begin(state)
        position, velocity, effort = encoding.values(runtime.snapshot)
    rows = list(dofs)
    assert position.tolist() == state.joint_position[rows].tolist()
    np.testing.assert_array_equal(velocity, state.joint_velocity[rows])
    assert not effort.size


@each_case(
    ("names", "frame", "shared"),
    [
        (("one", "two"), "ab", True),
        (("one", "two"), "ba", True),
        (("one", "six"), "ab", False),
        (("two", "one"), "ab", False),
        (("one",), "ab", False),
        (("one", "two", "three"), "ab", False),
        (("one", "two"), "abc", False),
    ],
)
def test_joint_states_are_shared_by_robots_with_the_same_names(names, frame, shared):
    """Also where they are written in turn: what one robot sends has nothing of another's."""
    messages, reports, encoders = EncodedMessages(), [], []
    for own_names, own_frame in ((("one", "two"), "ab"), (names, frame)):
        made = arm_of_joints(*own_names)
        made = replace(made, topics=(replace(made.topics[0], frame_id=own_frame),))
        encoding = CODECS["sensor_msgs/msg/JointState"].encode(made.topics[0], made)
        encoders.append((own_names, own_frame, make_encoder(made, JointState, encoding, reports, messages)))
    buffers = []
    for turn in range(1, 4):
        for number, (own_names, own_frame, encoder) in enumerate(encoders):
            position = np.arange(len(own_names)) + 10.0 * turn + number
            encoded = encoder.encode((position, np.zeros(0), -position), turn * STAMP_NS)
            buffers.append(id(encoded))
            shown = read(encoded, JointState)
            assert (tuple(shown.name), shown.header.frame_id) == (own_names, own_frame)
            assert (list(shown.position), list(shown.velocity)) == (position.tolist(), [])
            assert list(shown.effort) == (-position).tolist()
    assert len(set(buffers)) == (1 if shared else 2)
    assert not reports


class Reckoned:
    """Stands for a snapshot whose odometry has these diagonals of its covariances."""

    def __init__(self, pose_covariance, twist_covariance):
        self.shown = OdometryValues(
            pose=[0.0] * 6 + [1.0],
            twist=[0.5] * 6,
            pose_covariance=pose_covariance,
            twist_covariance=twist_covariance,
        )

    def odometry(self, _):
        return self.shown


@each_case(
    ("pose_covariance", "twist_covariance", "shared"),
    [
        ([0.1] * 6, [0.2] * 6, True),
        ([0.1] * 5 + [0.3], [0.2] * 6, False),
        ([0.1] * 6, [0.3] + [0.2] * 5, False),
        ([0.2] * 6, [0.1] * 6, False),
    ],
)
def test_odometry_with_other_covariances_is_not_shared(pose_covariance, twist_covariance, shared):
    messages, reports = EncodedMessages(), []
    made = plan(topic("publisher", "/arm/it", "nav_msgs/msg/Odometry", publish_rate=10.0))
    drive = ControllerPlan(path="/arm/drive", schema="RosControlDiffDriveAPI", robot=0, interfaces=(PRIM,))
    made = replace(made, controllers=(drive,))
    diagonals = (([0.1] * 6, [0.2] * 6), (pose_covariance, twist_covariance))
    encoders = []
    for own in diagonals:
        encoding = CODECS["nav_msgs/msg/Odometry"].encode(made.topics[0], made)
        encoders.append((own, make_encoder(made, Odometry, encoding, reports, messages)))
    buffers = []
    for turn in range(1, 4):
        for own, encoder in encoders:
            encoded = encoder.encode(encoder.values(Reckoned(*own)), turn * STAMP_NS)
            buffers.append(id(encoded))
            shown = read(encoded, Odometry)
            assert shown.pose.covariance.tolist() == np.diag(own[0]).ravel().tolist()
            assert shown.twist.covariance.tolist() == np.diag(own[1]).ravel().tolist()
    assert len(set(buffers)) == (1 if shared else 2)
    assert not reports
