"""Rates: the example rover simulated in real time, all that it measures listened to by another process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import Child

ASSET = ROOT / "examples" / "rover" / "world.usda"
CMD_VEL = "/rover/cmd_vel"
AUTHORED = {
    "scan": ("/rover/scan", "sensor_msgs/msg/LaserScan", 10.0),
    "image": ("/rover/image_raw", "sensor_msgs/msg/Image", 15.0),
    "imu": ("/rover/imu", "sensor_msgs/msg/Imu", 200.0),
    "tf": ("/rover/tf", "tf2_msgs/msg/TFMessage", 50.0),
}
OFF = Target(1.0)
BURNING = 4
LOADED_RATE = 200.0
_SECONDS, _QUICK_SECONDS = 15, 4


def run(options: Options) -> Iterator[Result]:
    """Yields by how much each rate is off the authored one, what the bridge takes of a core, and how fast time is."""
    off: dict[str, list[float]] = {name: [] for name in AUTHORED}
    jitters: dict[str, list[float]] = {name: [] for name in AUTHORED}
    cores, factors = [], []
    for _ in range(options.repeats):
        counted = _listen(AUTHORED, options.scaled(_SECONDS, _QUICK_SECONDS))
        for name, (topic, _, rate) in AUTHORED.items():
            off[name].append(100.0 * abs(counted["rates"][topic] - rate) / rate)
            jitters[name].append(counted["jitter"][topic])
        factors.append(counted["factor"])
        cores.append(counted["cores"])
    yield from _rates(off, jitters)
    yield median_result("rates.cpu", cores, "%", compared_with="one core: the process of the bridge")
    yield median_result("rates.factor", factors, "x", compared_with="real time")
    yield from _under_load(options)


def _rates(off: dict[str, list[float]], jitters: dict[str, list[float]]) -> Iterator[Result]:
    for name, (_, _, rate) in AUTHORED.items():
        yield median_result(
            f"rates.{name}",
            off[name],
            "%",
            target=OFF,
            compared_with=f"the authored {rate:g} Hz, as another process hears it while it drives the rover",
        )
        yield median_result(
            f"rates.{name}_jitter",
            jitters[name],
            "ms",
            compared_with="the period: 99.9th percentile of the difference of an interval between arrivals",
        )


def _under_load(options: Options) -> Iterator[Result]:
    """Yields what arrives of a quick /tf while other processes burn twice as many cores as there are."""
    topic, type_name, _ = AUTHORED["tf"]
    burn = [sys.executable, "-m", "benchmarks.peers.load", "burn"]
    lost, counts, jitters = [], [], []
    for _ in range(options.repeats):
        with ExitStack() as stack:
            for number in range(BURNING):
                stack.enter_context(Child(burn, name=f"busy loop {number}")).wait_for("ready")
            counted = _listen(
                {"tf": (topic, type_name, LOADED_RATE)},
                options.scaled(_SECONDS, _QUICK_SECONDS),
                "--ros-args",
                "-p",
                f"tf_rate:={LOADED_RATE}",
            )
        lost.append(float(counted["lost"][topic]))
        counts.append(counted["counts"][topic])
        jitters.append(counted["jitter"][topic])
    if not min(counts):
        raise BenchmarkError("no /tf arrived beside busy loops")
    words = f"{BURNING} busy loops beside it, {LOADED_RATE:g} Hz"
    yield median_result(
        "rates.loaded.tf_lost",
        lost,
        "messages",
        target=Target(0.0),
        compared_with=f"{min(counts)} or more that arrived, by their stamps; {words}",
    )
    yield median_result(
        "rates.loaded.tf_jitter",
        jitters,
        "ms",
        compared_with=f"the period: 99.9th percentile of the difference of an interval between arrivals; {words}",
    )


def _listen(topics: Mapping[str, tuple[str, str, float]], seconds: float, *arguments: str) -> dict[str, Any]:
    """Runs the bridge and a listener. Returns what it counted, and `cores`: percent of a core that the bridge took."""
    bridge = [
        sys.executable,
        "-m",
        "usd_ros_bridge.cli",
        "run",
        str(ASSET),
        "--backend",
        "mujoco",
        *arguments,
    ]
    named = [f"{topic}={type_name}@{rate}" for topic, type_name, rate in topics.values()]
    listener = [sys.executable, "-m", "benchmarks.peers.rates", CMD_VEL, *named]
    with (
        Child(listener, name="the listener") as peer,
        Child(bridge, name="the bridge on the rover") as rover,
    ):
        peer.wait_for("begun", timeout=60.0)
        cpu, begin = rover.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        cores = 100.0 * (rover.cpu_seconds() - cpu) / (time.monotonic() - begin)
        peer.close_input()
        return {**peer.wait_for("counted"), "cores": cores}
