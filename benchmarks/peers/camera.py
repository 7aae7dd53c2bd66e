"""A bridge whose backend has a camera: 1920x1080 rgb8 images, each numbered in its first bytes, at a steady rate.

`python -m benchmarks.peers.camera TRANSPORT FILE`; TRANSPORT is `bridge` (what the bridge's own process sets up) or
`default` (the middleware's). At the end of its input it writes FILE, an .npy of when each image was made.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping

import numpy as np

from benchmarks.harness import BenchmarkError
from benchmarks.peers import input_ended, tell
from benchmarks.video import HEIGHT, RATE, TOPIC, WIDTH
from builders.plans import PlanBuilder
from usd_ros_bridge import Bridge
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros.transport import use_large_message_transport

_IMAGE = "sensor_msgs/msg/Image"
_NUMBER_BYTES = 8


class Camera:
    """Makes images: the same picture, with another number in it each time, in the same memory.

    Attributes:
        made_ns: When each was made, nanoseconds since the epoch; its index is the number.
    """

    def __init__(self) -> None:
        self.made_ns: list[int] = []
        self._image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)

    def measure(self) -> Mapping[str, np.ndarray]:
        """Returns the next image."""
        number = np.array([len(self.made_ns)], dtype="<u8").view(np.uint8)
        self._image.reshape(-1)[:_NUMBER_BYTES] = number
        self.made_ns.append(time.time_ns())
        return {"data": self._image}


def main() -> None:
    """Runs until the end of the input."""
    transport, file = sys.argv[1:3]
    if transport == "bridge" and not use_large_message_transport():
        raise BenchmarkError("the bridge's transport is not in use: the environment names another one")
    ended = input_ended()
    builder = PlanBuilder()
    robot = builder.robot("/robot", namespace="/robot", tf_outputs=())
    robot.body("base_link")
    topic = robot.topic(
        "image",
        _IMAGE,
        "publisher",
        publish_rate=RATE,
        frame_id="base_link",
        qos=QosPlan(reliability="best_effort"),
    )
    assert topic.name == TOPIC
    plan, camera = builder.build(), Camera()
    backend = ArrayBackend(plan.layout, sensors={topic.path: camera.measure})
    with Bridge(plan, backend) as bridge:
        spinning = threading.Thread(target=bridge.spin, name="spins")
        spinning.start()
        while not ended.is_set() and not _matched(bridge):
            ended.wait(0.05)
        tell("matched")
        ended.wait()
        bridge.stop()
        spinning.join()
    np.save(file, np.array(camera.made_ns, dtype=np.int64))
    tell("written")


def _matched(bridge: Bridge) -> bool:
    return any(row.name == TOPIC and row.matched for row in bridge.status().interfaces)


if __name__ == "__main__":
    main()
