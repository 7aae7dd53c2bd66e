"""The conformance test for authors of codecs: built-in codecs pass it, and faulty ones do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

from builders.plans import PlanBuilder
from usd_ros_bridge.plugins import Registry
from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.testing.codec_conformance import CodecConformance


class OfFleet(CodecConformance):
    """Three robots of two joints, each of which publishes the type."""

    examples = 20
    child_frame_id = ""

    def make_plan(self):
        builder = PlanBuilder()
        for path in ("/one", "/two", "/six"):
            robot = builder.robot(path, namespace=path)
            for body in ("base", "upper", "lower"):
                robot.body(body)
            robot.joint("shoulder", "base", "upper")
            robot.joint("elbow", "upper", "lower")
            robot.topic(
                "it",
                self.type_name,
                "publisher",
                publish_rate=10.0,
                frame_id="base",
                child_frame_id=self.child_frame_id,
            )
        return builder.build()


class TestJointState(OfFleet):
    type_name = "sensor_msgs/msg/JointState"

    def values_of(self, sample):
        return sample.position, sample.velocity, sample.effort


class TestTwistStamped(OfFleet):
    type_name = "geometry_msgs/msg/TwistStamped"

    def values_of(self, sample):
        return (sample.twist,)


@pytest.mark.every_type
class TestPoseStamped(OfFleet):
    type_name = "geometry_msgs/msg/PoseStamped"

    def values_of(self, sample):
        return (sample.frame_from_body,)


class TestTransformStamped(OfFleet):
    type_name = "geometry_msgs/msg/TransformStamped"
    child_frame_id = "base"


@pytest.mark.every_type
class TestAccelStamped(OfFleet):
    type_name = "geometry_msgs/msg/AccelStamped"


class TestImu(OfFleet):
    type_name = "sensor_msgs/msg/Imu"


class TestOdometry(OfFleet):
    type_name = "nav_msgs/msg/Odometry"
    child_frame_id = "base"


@pytest.mark.every_type
class TestRange(OfFleet):
    type_name = "sensor_msgs/msg/Range"

    def measure(self, topic, rng):  # noqa: ARG002 - CodecConformance.measure
        names = ("range", "field_of_view", "min_range", "max_range")
        return {name: rng.uniform(0.0, 1.0, ()).astype(np.float32) for name in names}


class TestLaserScan(OfFleet):
    type_name = "sensor_msgs/msg/LaserScan"

    def measure(self, topic, rng):  # noqa: ARG002 - CodecConformance.measure
        names = ("angle_min", "angle_max", "range_min", "range_max")
        limits = {name: rng.uniform(0.0, 1.0, ()).astype(np.float32) for name in names}
        count = rng.integers(2, 5)
        return {"ranges": rng.uniform(0.0, 1.0, count).astype(np.float32), **limits}


@pytest.mark.every_type
class TestTwist(CodecConformance):
    type_name = "geometry_msgs/msg/Twist"


class TestFloat64MultiArray(CodecConformance):
    type_name = "std_msgs/msg/Float64MultiArray"


# --- Faults ---------------------------------------------------------------------------------------------------------


TWIST = "geometry_msgs/msg/TwistStamped"
JOINTS = "sensor_msgs/msg/JointState"


def encoded(type_name, change):
    """A codec of the type whose encodings are changed."""
    encode = CODECS[type_name].encode
    return replace(
        CODECS[type_name],
        encode=lambda topic, plan: replace(encode(topic, plan), **change(encode(topic, plan))),
    )


def rows_of_others(encoding):
    return {"arrays": lambda snapshot: [each[::-1] for each in encoding.arrays(snapshot)]}


def other_values(encoding):
    return {"values": lambda snapshot: (tuple(encoding.values(snapshot)[0])[:5],)}


def reordered(sample):
    return replace(sample, twist=sample.twist[::-1])


FAULTS = {
    "no source": (
        TestTwistStamped,
        lambda: replace(CODECS[TWIST], encode=None),
        "test_numbers_in_place_are_those_of_rclpy",
        "nothing here makes messages",
    ),
    "too few values": (
        TestTwistStamped,
        lambda: encoded(TWIST, other_values),
        "test_the_state_is_encoded_alone_and_in_a_batch",
        "",
    ),
    "rows of another robot": (
        TestJointState,
        lambda: encoded(JOINTS, rows_of_others),
        "test_the_state_is_encoded_alone_and_in_a_batch",
        "differs from a lone message",
    ),
    "texts that change without being constants": (
        TestTransformStamped,
        lambda: encoded("geometry_msgs/msg/TransformStamped", changing_texts),
        "test_numbers_in_place_are_those_of_rclpy",
        "other bytes than rclpy's",
    ),
    "a decoder in another order": (
        TestTwistStamped,
        lambda: replace(
            CODECS[TWIST], decode=lambda message: reordered(CODECS[TWIST].decode(message)), reader=None
        ),
        "test_decoding_returns_what_was_encoded",
        "not equal",
    ),
    "a reader that differs from the decoder": (
        TestTwistStamped,
        lambda: replace(CODECS[TWIST], decode=lambda message: reordered(CODECS[TWIST].decode(message))),
        "test_the_reader_reads_as_the_decoder",
        "not equal",
    ),
    "no field of that name": (
        TestTwistStamped,
        lambda: encoded(TWIST, lambda _: {"blocks": ("twist.linar",)}),
        "test_numbers_in_place_are_those_of_rclpy",
        "linar",
    ),
}


def changing_texts(_):
    """A child frame that is another one in every message."""
    names = iter(range(10, 10_000_000))

    def prepare(message, values):
        message.child_frame_id = str(next(names))[-2:]

    return {"prepare": prepare}


@each_case("fault", FAULTS)
def test_a_faulty_codec_fails(fault, monkeypatch):
    base, make, test, words = FAULTS[fault]
    found = make()
    builtin = {**CODECS}
    builtin[base.type_name] = found
    registry = Registry("none", "codec", builtin, check=lambda _: "")
    monkeypatch.setattr("usd_ros_bridge.testing.codec_conformance.CODECS", registry)
    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.factory.CODECS", registry)
    with pytest.raises(Exception, match=f"(?i){words}"):
        getattr(base(), test)()
