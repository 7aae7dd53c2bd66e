"""Rates: the example rover simulated in real time, all that it measures listened to by another process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.harness import ROOT, Options, Result, Target, median_result
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
_SECONDS, _QUICK_SECONDS = 15, 4


def run(options: Options) -> Iterator[Result]:
    """Yields by how much each rate is off the authored one, what the bridge takes of a core, and how fast time is."""
    bridge = [sys.executable, "-m", "usd_ros_bridge.cli", "run", str(ASSET), "--backend", "mujoco"]
    topics = [f"{topic}={type_name}" for topic, type_name, _ in AUTHORED.values()]
    listener = [sys.executable, "-m", "benchmarks.peers.rates", CMD_VEL, *topics]
    off: dict[str, list[float]] = {name: [] for name in AUTHORED}
    cores, factors = [], []
    for _ in range(options.repeats):
        with (
            Child(listener, name="the listener") as peer,
            Child(bridge, name="the bridge on the rover") as rover,
        ):
            peer.wait_for("begun", timeout=60.0)
            cpu, begin = rover.cpu_seconds(), time.monotonic()
            time.sleep(options.scaled(_SECONDS, _QUICK_SECONDS))
            cores.append(100.0 * (rover.cpu_seconds() - cpu) / (time.monotonic() - begin))
            peer.close_input()
            counted = peer.wait_for("counted")
        for name, (topic, _, rate) in AUTHORED.items():
            off[name].append(100.0 * abs(counted["rates"][topic] - rate) / rate)
        factors.append(counted["factor"])
    for name, (_, _, rate) in AUTHORED.items():
        yield median_result(
            f"rates.{name}",
            off[name],
            "%",
            target=OFF,
            compared_with=f"the authored {rate:g} Hz, as another process hears it while it drives the rover",
        )
    yield median_result("rates.cpu", cores, "%", compared_with="one core: the process of the bridge")
    yield median_result("rates.factor", factors, "x", compared_with="real time")
