"""Sensors: what one measurement costs on the rover in its world, cameras left out (`cameras` has those)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.sensors import CameraSensor, ImuSensor, RaySensor, Sensor, WrenchSensor
from usd_ros_bridge.model.state import Commands

ASSET = ROOT / "examples" / "rover" / "world.usda"
SCAN, CLOUD = Target(150.0), Target(5.0)
RINGS, SAMPLES, ELEVATION = 16, 1024, 0.2618
NOISE_M = 0.01
_SETTLING = 500


def run(options: Options) -> Iterator[Result]:
    """Yields the median time of a measurement by kind of sensor, each of a state of its own."""
    plan = load_plan(ASSET, physics=True)
    sensors = _sensors(plan)
    assert plan.physics is not None
    reports: list[str] = []
    backend = MujocoBackend()
    backend.open(
        BackendContext(
            plan=replace(plan, physics=replace(plan.physics, sensors=tuple(sensors.values()))),
            report=lambda kind, message: reports.append(f"{kind}: {message}"),
            options={"lockstep": "true"},
        )
    )
    try:
        clock = _Clock(backend, plan)
        for name, unit, target, words in (
            ("scan", "us", SCAN, "the rover's own: 360 beams, its bodies left out"),
            ("scan_noisy", "us", None, f"the same with a deviation of {NOISE_M} m"),
            (
                "cloud",
                "ms",
                CLOUD,
                f"{RINGS} rings of {SAMPLES}, beside the loop and waited for, the copy included",
            ),
            ("cloud_noisy", "ms", None, f"the same with a deviation of {NOISE_M} m"),
            ("imu", "us", None, "the rover's own; forces of the state computed first"),
            ("contacts", "us", None, "the wrench of all contacts of the base, while it stands on its caster"),
        ):
            scale = 1e6 if unit == "us" else 1e3
            count = options.scaled(200 if unit == "us" else 50, 5)
            times = [clock.measure(sensors[name].path, count) * scale for _ in range(options.repeats)]
            yield median_result(f"sensors.{name}", times, unit, target=target, compared_with=words)
    finally:
        backend.close()
    if reports:
        raise BenchmarkError(reports[0])


class _Clock:
    """Steps a backend, and takes the time of its measurements alone."""

    def __init__(self, backend: MujocoBackend, plan: BridgePlan) -> None:
        self._backend = backend
        self._commands = Commands(plan.layout)
        self._commands.silent = True
        self._time_ns = 0
        for _ in range(_SETTLING):
            self._step(backend.capabilities.step_ns)

    def measure(self, prim: str, count: int) -> float:
        """Returns the median seconds of `count` measurements, one in each tenth of a second of simulated time."""
        times = []
        for _ in range(count):
            self._step(100_000_000)
            begin = time.perf_counter_ns()
            sample = self._backend.sense(prim)
            times.append(time.perf_counter_ns() - begin)
            if sample is None or sample.stamp_ns != self._time_ns:
                raise BenchmarkError(f"{prim} did not measure the state at {self._time_ns} ns")
        return statistics.median(times) / 1e9

    def _step(self, period_ns: int) -> None:
        self._time_ns += period_ns
        self._backend.step(self._time_ns, self._commands)


def _sensors(plan: BridgePlan) -> dict[str, Sensor]:
    """Returns the rover's sensors and others beside them, on paths of their own."""
    assert plan.physics is not None
    own = [each for each in plan.physics.sensors if not isinstance(each, CameraSensor)]
    scans = [each for each in own if isinstance(each, RaySensor)]
    imus = [each for each in own if isinstance(each, ImuSensor)]
    if len(scans) != 1 or len(imus) != 1:
        raise BenchmarkError(
            f"{ASSET.name} has {len(scans)} lidars and {len(imus)} IMUs, and not one of each"
        )
    scan, imu = scans[0], imus[0]
    cloud = replace(
        scan, path="/cloud", type="sensor_msgs/msg/PointCloud2", samples=SAMPLES, rings=RINGS,
        elevation_min=-ELEVATION, elevation_max=ELEVATION,
    )  # fmt: skip
    contacts = WrenchSensor(
        path="/contacts", type="geometry_msgs/msg/WrenchStamped", rate=imu.rate, body=scan.body
    )
    return {
        "scan": scan,
        "scan_noisy": replace(scan, path="/scan_noisy", noise_stddev=NOISE_M),
        "cloud": cloud,
        "cloud_noisy": replace(cloud, path="/cloud_noisy", noise_stddev=NOISE_M),
        "imu": imu,
        "contacts": contacts,
    }
