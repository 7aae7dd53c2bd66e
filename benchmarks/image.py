"""Images: 1920x1080 rgb8 at 30 Hz to another process, best effort, through the bridge's own publisher."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import peer
from benchmarks.video import HEIGHT, RATE, TOPIC, WIDTH

ARRIVED = Target(95.0, "at least")
LATENCY = Target(25.0)
STREAM = f"{WIDTH}x{HEIGHT} rgb8 at {RATE:g} Hz, best effort, depth 5, rclpy subscription in another process"
_WARM_UP_SECONDS = 1.0
_LEAST_MADE = 0.5


@dataclass(frozen=True, slots=True)
class _Run:
    arrived_percent: float
    latency_ms: float


def run(options: Options) -> Iterator[Result]:
    """Yields how many arrive and how late, and how many do with the middleware's default transports."""
    own, default = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            own.append(_measure("bridge", Path(folder), options))
            default.append(_measure("default", Path(folder), options))
    beside = "the same with the middleware's default transports"
    yield median_result(
        "image.1080p.arrived",
        [each.arrived_percent for each in own],
        "%",
        target=ARRIVED,
        compared_with=f"{STREAM}; {beside}, in turns",
    )
    if not all(np.isfinite(each.latency_ms) for each in own):
        raise BenchmarkError("image.1080p.latency: a run in which no image arrived has none")
    yield median_result(
        "image.1080p.latency",
        [each.latency_ms for each in own],
        "ms",
        target=LATENCY,
        compared_with="the stamp, from before the image is encoded, to the callback of the subscription; median",
    )
    yield median_result(
        "image.1080p.arrived_default", [each.arrived_percent for each in default], "%", compared_with=beside
    )


def _measure(transport: str, folder: Path, options: Options) -> _Run:
    heard_file, made_file = folder / "heard.npy", folder / "made.npy"
    with ExitStack() as stack:
        listener = stack.enter_context(peer("listen", TOPIC, "image", str(heard_file)))
        listener.wait_for("ready")
        camera = stack.enter_context(peer("camera", transport, str(made_file)))
        camera.wait_for("matched")
        listener.wait_for("matched")
        time.sleep(_WARM_UP_SECONDS)
        begin = time.time_ns()
        time.sleep(options.scaled(5, 2))
        end = time.time_ns()
        # What was made in time may arrive after it: the camera ends first, and the listener hears it out.
        camera.close_input()
        camera.wait_for("written")
        time.sleep(0.2)
        listener.close_input()
        listener.wait_for("written")
    return _judge(np.load(made_file), np.load(heard_file), begin, end)


def _judge(made_ns: np.ndarray, heard: np.ndarray, begin: int, end: int) -> _Run:
    """Compares the images that were made between `begin` and `end` with those that were heard."""
    numbers = np.flatnonzero((made_ns >= begin) & (made_ns < end))
    expected = RATE * (end - begin) / 1e9
    if len(numbers) < _LEAST_MADE * expected:
        raise BenchmarkError(
            f"{len(numbers)} of {expected:.0f} images were made: the bridge does not keep up"
        )
    if (heard[:, 2] < 0).any():
        raise BenchmarkError("an image arrived that is not of the size that was sent")
    rows = heard[np.isin(heard[:, 2], numbers)]
    latency_ms = float(np.median(rows[:, 0] - rows[:, 1])) / 1e6 if len(rows) else float("nan")
    return _Run(arrived_percent=100.0 * len(np.unique(rows[:, 2])) / len(numbers), latency_ms=latency_ms)
