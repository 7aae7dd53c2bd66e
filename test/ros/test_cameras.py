"""The rover's camera over DDS: pictures, and CameraInfo that belongs to each."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.mujoco.gl_context import find_gl

WORLD = Path(__file__).resolve().parents[2] / "examples" / "rover" / "world.usda"


@pytest.fixture(scope="module")
def world():
    return load_plan(WORLD, physics=True)


@pytest.fixture(params=[pytest.param("auto", marks=pytest.mark.process), "none"])
def gl(request):
    # OpenGL is tried in a process: a driver may end it.
    if request.param == "auto" and find_gl("auto").kind is None:
        pytest.skip(f"there is no OpenGL here: {find_gl('auto').reason}")
    return request.param


HEARD_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Keeps what arrives while the test is held up: what is lost after that was lost on the way."""


def stamp(message):
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def listen(harness, plan):
    """Returns what arrives of the images and the CameraInfos."""
    heard = {}
    for kind in (Image, CameraInfo):
        (topic,) = (each for each in plan.topics if each.type == f"sensor_msgs/msg/{kind.__name__}")
        heard[kind] = []
        harness.node.create_subscription(kind, topic.name, heard[kind].append, HEARD_QOS)
    return heard[Image], heard[CameraInfo]


def test_each_picture_has_a_camera_info_of_its_stamp(start, ros_harness, world, gl):
    images, infos = listen(ros_harness, world)
    start(world, "mujoco", backend_options={"gl": gl})
    ros_harness.wait_for(lambda: len(images) >= 12, timeout=30.0, what="twelve images")
    last = stamp(images[-1])
    ros_harness.wait_for(lambda: infos and stamp(infos[-1]) >= last, what="the CameraInfo of the last one")
    pictured = [stamp(image) for image in images[2:]]
    assert pictured == sorted(set(pictured))
    # Best effort may lose one of a kind; not one more.
    assert len(set(pictured) - {stamp(info) for info in infos}) <= 1
    image, info, camera = images[-1], infos[-1], world.scene.cameras[0]
    assert image.header.frame_id == info.header.frame_id == "camera_optical_frame"
    assert (image.encoding, image.width, image.height, image.step) == ("rgb8", 640, 480, 1920)
    assert (info.width, info.height) == (640, 480)
    np.testing.assert_allclose(info.k, [camera.fx, 0.0, 319.5, 0.0, camera.fx, 239.5, 0.0, 0.0, 1.0])
    red, green, blue = np.moveaxis(np.frombuffer(image.data, np.uint8).reshape(480, 640, 3).astype(int), 2, 0)
    assert (blue[:100] > red[:100]).all(), "there is no sky above"
    assert ((red > green + 60) & (red > blue + 60)).sum() > 500, "the red cylinder is not in front"


def test_nothing_is_rendered_while_nobody_listens_and_no_thread_is_left(start, ros_harness, world):
    def threads():
        return [each for each in threading.enumerate() if each.name.startswith("usd_ros_bridge.cameras")]

    running = start(world, "mujoco", backend_options={"gl": "none"}, start_paused=True)
    running.bridge.time.step(250).result(20.0)
    assert threads() == []
    running.bridge.time.resume()
    images, _ = listen(ros_harness, world)
    ros_harness.wait_for(lambda: len(images) > 0, timeout=30.0, what="an image")
    assert len(threads()) == 1
    running.close()
    assert threads() == []


@pytest.mark.heavy
def test_lockstep_gives_the_same_pictures_again(start, ros_harness, world):
    runs = []
    (topic,) = (each for each in world.topics if each.type == "sensor_msgs/msg/Image")
    for _ in range(2):
        images, _ = listen(ros_harness, world)
        options = {"gl": "none", "lockstep": "true"}
        running = start(world, "mujoco", backend_options=options, start_paused=True)
        ros_harness.wait_for(
            lambda it=running: ros_harness.hears(it.bridge, topic.name), what="a subscription"
        )
        running.bridge.time.step(250)
        ros_harness.wait_for(lambda heard=images: heard and stamp(heard[-1]) >= 0.46e9, what="half a second")
        running.close()
        runs.append({stamp(image): bytes(image.data) for image in images})
        for subscription in list(ros_harness.node.subscriptions):
            ros_harness.node.destroy_subscription(subscription)
    # Best effort: what one run lost, the other may have.
    both = runs[0].keys() & runs[1].keys()
    assert len(both) >= 5, [sorted(run) for run in runs]
    for at in both:
        assert runs[0][at] == runs[1][at]


COMPRESSED = """#usda 1.0
(
    subLayers = [@%s@]
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
over "World"
{
    over "rover"
    {
%s
    }
}
"""


def compressed_world(folder, *, png=False):
    """Returns the plan of the world with a CompressedImage beside the Image of the same camera."""
    plain = load_plan(WORLD)
    (image,) = (each for each in plain.topics if each.type == "sensor_msgs/msg/Image")
    nested = ""
    names = image.path.removeprefix("/World/rover/").split("/")
    for name in names:
        nested += f'over "{name}" {{\n'
    more = 'custom token usd_ros_bridge:camera:compression = "png"' if png else ""
    nested += (
        f"""def Xform "compressed" (prepend apiSchemas = ["RosTopicAPI"]) {{
        token ros:topic:role = "publisher"
        string ros:topic:name = "image_raw/compressed"
        string ros:topic:type = "sensor_msgs/msg/CompressedImage"
        double ros:topic:publish_rate = {image.publish_rate}
        {more}
    }}
    """
        + "}\n" * len(names)
    )
    asset = folder / "compressed.usda"
    asset.write_text(COMPRESSED % (WORLD, nested), encoding="utf-8")
    return load_plan(asset, physics=True)


@pytest.mark.parametrize("png", [False, True])
def test_a_compressed_image_is_the_image_of_the_same_stamp(start, ros_harness, tmp_path, png):
    pillow = pytest.importorskip("PIL.Image", reason="pillow is not installed: make setup")
    plan = compressed_world(tmp_path, png=png)
    (topic,) = (each for each in plan.topics if each.type == "sensor_msgs/msg/CompressedImage")
    images, _ = listen(ros_harness, plan)
    compressed = ros_harness.listen(CompressedImage, topic.name, HEARD_QOS)
    start(plan, "mujoco", backend_options={"gl": "none"})

    def pairs():
        by_stamp = {stamp(image): image for image in list(images)}
        return [(by_stamp[stamp(each)], each) for each in list(compressed) if stamp(each) in by_stamp]

    ros_harness.wait_for(lambda: len(pairs()) >= 3, timeout=30.0, what="three pairs")
    for image, small in pairs():
        assert small.header.frame_id == image.header.frame_id
        assert small.format == f"rgb8; {'png' if png else 'jpeg'} compressed bgr8"
        decoded = np.asarray(pillow.open(io.BytesIO(bytes(small.data)))).astype(int)
        raw = np.frombuffer(image.data, np.uint8).reshape(decoded.shape).astype(int)
        assert np.abs(decoded - raw).mean() <= (0.0 if png else 2.0)
        assert len(small.data) < len(image.data) / 3
