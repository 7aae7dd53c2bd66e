"""Codecs and type look-up, message by message, with rclpy's field checks on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from geometry_msgs.msg import AccelStamped, PoseStamped, TransformStamped, TwistStamped
from rclpy.serialization import deserialize_message, serialize_message
from ros_plans import plan, topic
from sensor_msgs.msg import JointState

from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import Pose
from usd_ros_bridge.ros.codecs import DECODERS, ENCODERS
from usd_ros_bridge.ros.codecs.protocol import NoSourceError
from usd_ros_bridge.ros.types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.runtime.core import Runtime

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


@pytest.fixture
def encode():
    """`encode(type, message, **topic)`: the message, filled from the turning base and serialized once."""
    opened = []

    def fill(type_name, message, **more):
        made = plan(topic("publisher", "/arm/it", type_name, publish_rate=10.0, **more))
        runtime = Runtime(made, Turning()).open()
        opened.append(runtime)
        assert runtime.tick(1)
        encoder = ENCODERS[type_name](made.topics[0], made)
        assert encoder(runtime.snapshot, message)
        return deserialize_message(serialize_message(message), type(message))

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


def test_acceleration_of_a_point_off_centre_is_centripetal(encode):
    accel = encode(
        "geometry_msgs/msg/AccelStamped", AccelStamped(), body_from_prim=Pose((1.0, 0.0, 0.0))
    ).accel
    assert [accel.linear.x, accel.linear.y, accel.linear.z] == pytest.approx([-4.0, 0.0, 0.0], abs=1e-9)


def test_known_velocities_are_shown_and_unknown_efforts_are_empty(encode):
    states = encode("sensor_msgs/msg/JointState", JointState())
    assert (list(states.name), list(states.position)) == (["hinge"], [0.0])
    assert (list(states.velocity), list(states.effort)) == ([0.5], [])


@pytest.mark.parametrize(
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
        ENCODERS[type_name](made.topics[0], made)


@pytest.mark.parametrize("type_name", sorted(DECODERS))
def test_every_decoder_takes_a_default_message(type_name):
    sample = DECODERS[type_name](import_interface(type_name, AmentCatalog())())
    assert type(sample).__module__ == "usd_ros_bridge.model.state"


@pytest.mark.parametrize("type_name", sorted(ENCODERS))
def test_every_encoded_type_is_installed(type_name):
    assert AmentCatalog().contains(type_name)


@pytest.mark.parametrize(
    "type_name",
    ["os/msg/system", "std_msgs/msg/string", "std_msgs/String", "../msg/X", "std_msgs/msg/Gone", ""],
)
def test_types_outside_of_the_index_are_refused(type_name):
    assert not AmentCatalog().contains(type_name)
    with pytest.raises(InterfaceTypeError, match="not installed"):
        import_interface(type_name, AmentCatalog())


def test_looking_up_types_imports_none():
    code = (
        "import sys; from usd_ros_bridge.ros.types import AmentCatalog; c = AmentCatalog();"
        "before = set(sys.modules);"
        "assert c.contains('sensor_msgs/msg/Image') and not c.contains('antigravity/msg/Fly');"
        "assert set(sys.modules) == before, set(sys.modules) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
