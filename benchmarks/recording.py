"""Recording: what a message costs that is written to an MCAP file, and whether images in full HD lose nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from mcap.reader import make_reader
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import BenchmarkError, Options, Result, Target, interleaved, median_result
from benchmarks.robots import SwayingBackend
from benchmarks.step import PUBLISHERS, robot_plan
from benchmarks.video import CHANNELS, HEIGHT, RATE, WIDTH
from usd_ros_bridge.ros.recording.message_channels import MessageChannels
from usd_ros_bridge.ros.recording.recorder import Recorder

MESSAGE = Target(10.0)
LOST = Target(0.0)
MESSAGES = len(PUBLISHERS) + 1
_RATE = 100.0
_PERIOD_NS = int(1e9 / _RATE)


def run(options: Options) -> Iterator[Result]:
    """Yields the cost of a message, and what is lost of images."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _messages(options, Path(folder))
        yield from _images(options, Path(folder))


def _messages(options: Options, folder: Path) -> Iterator[Result]:
    backend = SwayingBackend
    with (
        stepped(
            robot_plan(_RATE, "/recorded"),
            backend(floating=(0,)),
            period_ns=_PERIOD_NS,
            forced=True,
            tf_rate=_RATE,
            record=folder / "steps.mcap",
        ) as recorded,
        stepped(
            robot_plan(_RATE, "/plain"),
            backend(floating=(0,)),
            period_ns=_PERIOD_NS,
            forced=True,
            tf_rate=_RATE,
        ) as plain,
    ):
        for each in (recorded, plain):
            each.step()
            each.check_writes(MESSAGES)
        ticks = [
            (values[0] - values[1]) / MESSAGES * 1e6
            for values in interleaved((recorded.step, plain.step), options)
        ]
        steps = options.scaled(20_000, 1_000)
        totals = [
            (_cpu_of(recorded, steps) - _cpu_of(plain, steps)) / MESSAGES * 1e6
            for _ in range(options.repeats)
        ]
    yield median_result(
        "recording.message",
        totals,
        "us",
        target=MESSAGE,
        compared_with="processor time of a message of step.all_due, copied, compressed and written to the file by the "
        "writer's thread, above that of the same tick without a recording",
    )
    yield median_result(
        "recording.message_in_tick",
        ticks,
        "us",
        compared_with="what of it the tick waits for, the interpreter's lock included",
    )


def _cpu_of(bridge: SteppedBridge, steps: int) -> float:
    """Returns the seconds of processor time of a step, with what other threads do for it."""
    channels = None if bridge.bridge.parts.recording is None else bridge.bridge.parts.recording.channels
    begin = time.process_time()
    for _ in range(steps):
        bridge.step()
    if channels is not None:
        channels.drain()
    return (time.process_time() - begin) / steps


def _images(options: Options, folder: Path) -> Iterator[Result]:
    lost, shares = [], []
    for number in range(options.repeats):
        path = folder / f"images{number}.mcap"
        sent, share = _record_images(path, options.scaled(150, 15))
        with path.open("rb") as file:
            there = sum(1 for _ in make_reader(file).iter_messages())
        path.unlink()
        lost.append(float(sent - there))
        shares.append(share)
    what = f"{WIDTH}x{HEIGHT} rgb8 at {RATE:g} Hz with the noise of a camera"
    yield median_result(
        "recording.1080p.lost",
        lost,
        "images",
        target=LOST,
        compared_with=f"{what}, of those that were published",
    )
    yield median_result(
        "recording.1080p.cpu", shares, "%", compared_with="of a core, for compression and writing"
    )


def _record_images(path: Path, count: int) -> tuple[int, float]:
    """Returns how many images were published, and the share of a core that recording took, percent."""
    faults: list[str] = []

    def report(_: str, message: str) -> None:
        faults.append(message)

    channels = MessageChannels(takes_all=True, lossless=False, report=report)
    recorder = Recorder(path, channels, report=report)
    channels.time_ns = time.time_ns
    feed = channels.open_channel(
        topic="/image", message_class=Image, profile=QoSProfile(depth=1), domain_id=0
    )
    if feed is None:
        raise BenchmarkError("the channel of the images was refused")
    images = [bytearray(serialize_message(_image(seed))) for seed in range(4)]
    channels.start()
    begun, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        feed.write(images[number % len(images)])
        time.sleep(max(0.0, begun + (number + 1) / RATE - time.perf_counter()))
    seconds = time.perf_counter() - begun
    recorder.close(None)
    share = (time.process_time() - cpu) / seconds * 100.0
    if faults:
        raise BenchmarkError(faults[0])
    return count, share


def _image(seed: int) -> Image:
    """Returns a picture with large areas and noise of two levels, as a camera's: noise is what compresses badly."""
    random = np.random.default_rng(seed)
    shade = (
        np.sin(np.linspace(0.0, 9.0, WIDTH))[None, :, None]
        * np.cos(np.linspace(0.0, 5.0, HEIGHT))[:, None, None]
    )
    pixels = 128.0 + 100.0 * shade + random.normal(0.0, 2.0, (HEIGHT, WIDTH, CHANNELS))
    image = Image(width=WIDTH, height=HEIGHT, step=WIDTH * CHANNELS, encoding="rgb8")
    image.data = np.clip(pixels, 0, 255).astype(np.uint8).tobytes()
    return image
