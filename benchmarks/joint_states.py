"""Joint states in, /tf out: the bridge as robot_state_publisher, at 500 Hz, with one subscriber in another process."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import Child, peer
from benchmarks.robots import write_chain, write_urdf

RATE = 500.0
NODE = "usd_ros_bridge.ros.node"
RELAY = "benchmarks.peers.relay"
REFERENCE = "robot_state_publisher"
EXECUTABLE = "executable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Figures of robot_state_publisher, and the bridge's targets relative to them.

    Attributes:
        cpu_us: CPU time of the process per /tf message.
        latency_us: Median from the stamp of the joint states to the arrival of the /tf message.
        cpu_ratio: Greatest ratio of the bridge's CPU time to that.
        latency_ratio: Greatest ratio of the bridge's latency to that.
    """

    cpu_us: float
    latency_us: float
    cpu_ratio: float
    latency_ratio: float


# Medians of runs of the C++ node (Release build, Fast DDS 3.2) on a quiet 2-core x86-64 machine in November 2026: this
# same driver, rate and chain. They stand in where none is installed to run beside the bridge.
REFERENCES = {
    10: Reference(cpu_us=120.0, latency_us=212.0, cpu_ratio=1.0, latency_ratio=1.15),
    100: Reference(cpu_us=173.0, latency_us=278.0, cpu_ratio=0.9, latency_ratio=1.0),
    1000: Reference(cpu_us=690.0, latency_us=727.0, cpu_ratio=0.33, latency_ratio=0.45),
}
RECORDED = f"{REFERENCE} (C++, Release) as recorded on another quiet 2-core machine; none is installed here"
BESIDE = f"{REFERENCE} run beside it, in turns whose order rotates; the median of the ratios of each round"

_WARM_UP_SECONDS = 1.0
_LEAST_ARRIVED = 0.5


@dataclass(frozen=True, slots=True)
class _Run:
    cpu_us: float
    latency_us: float


def run(options: Options) -> Iterator[Result]:
    """Yields CPU time and latency for 10, 100 and 1,000 joints, their ratios, and what the middleware alone takes."""
    executable = find_reference()
    sizes = (10,) if options.quick else tuple(REFERENCES)
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[tuple[str, int], list[_Run]] = {}
        for number in range(options.repeats):
            for joints in sizes:
                contenders: dict[str, list[str] | None] = {
                    "bridge": bridge_command(Path(folder), joints),
                    EXECUTABLE: _executable_command(Path(folder), joints),
                    "relay": [sys.executable, "-m", RELAY, str(joints)],
                    "hop": None,
                }
                if executable is not None:
                    contenders[REFERENCE] = reference_command(Path(folder), joints, executable)
                # What runs after what is part of the noise: each contender is the first in turn.
                for name in rotated(list(contenders), number):
                    measured = _measure(contenders[name], name, joints, Path(folder), options)
                    runs.setdefault((name, joints), []).append(measured)
    for joints in sizes:
        yield from _results(joints, runs)


def rotated(names: list[str], number: int) -> list[str]:
    """Returns the names in the order of a round: each round begins with the next one."""
    first = number % len(names)
    return names[first:] + names[:first]


def find_reference() -> Path | None:
    """Returns the executable of robot_state_publisher, None where it is not installed."""
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        prefix = get_package_prefix(REFERENCE)
    except PackageNotFoundError:
        return None
    executable = Path(prefix, "lib", REFERENCE, REFERENCE)
    return executable if executable.exists() else None


def _results(joints: int, runs: dict[tuple[str, int], list[_Run]]) -> Iterator[Result]:
    bridge, hop = runs["bridge", joints], runs["hop", joints]
    beside = runs.get((REFERENCE, joints), [])
    recorded = REFERENCES[joints]
    name = f"joint_states.{joints}"
    words = BESIDE if beside else RECORDED
    for figure, bound in (("cpu", recorded.cpu_ratio), ("latency", recorded.latency_ratio)):
        values = [getattr(each, f"{figure}_us") for each in bridge]
        references = [getattr(each, f"{figure}_us") for each in beside]
        recorded_us: float = getattr(recorded, f"{figure}_us")
        stands_for = references or [recorded_us] * len(values)
        reference_us = statistics.median(stands_for)
        yield median_result(f"{name}.{figure}", values, "us", compared_with=f"{reference_us:.4g} us: {words}")
        ratios = [value / other for value, other in zip(values, stands_for, strict=True)]
        yield median_result(f"{name}.{figure}_ratio", ratios, "x", target=Target(bound), compared_with=words)
        if references:
            yield median_result(
                f"{name}.{figure}_reference",
                references,
                "us",
                compared_with=f"{recorded_us:g} us as recorded",
            )
    for figure in ("cpu", "latency"):
        values = [getattr(each, f"{figure}_us") for each in bridge]
        relays = [getattr(each, f"{figure}_us") for each in runs["relay", joints]]
        yield median_result(
            f"{name}.relay_{figure}",
            relays,
            "us",
            compared_with="rclpy alone, a constant /tf for each joint states: what the middleware takes of any node",
        )
        yield median_result(
            f"{name}.own_{figure}",
            [value - relay for value, relay in zip(values, relays, strict=True)],
            "us",
            compared_with="the bridge less that relay, run by run: what the bridge itself adds",
        )
    executables = [each.cpu_us for each in runs[EXECUTABLE, joints]]
    yield median_result(
        f"{name}.executable_ratio",
        [value / each.cpu_us for value, each in zip(executables, bridge, strict=True)],
        "x",
        compared_with="CPU time of this package's executable robot_state_publisher over that of the bridge",
    )
    yield median_result(
        f"{name}.one_hop",
        [each.latency_us for each in hop],
        "us",
        compared_with="the same joint states straight to the listener: what the middleware alone takes",
    )


def bridge_command(folder: Path, joints: int) -> list[str]:
    """Returns the command of the bridge's node on a chain, which is written to a folder."""
    parameters = {"asset": _asset(folder, joints), "backend": "joint_states", "tf_rate": 2.0 * RATE}
    return [sys.executable, "-m", NODE, "--ros-args", *_given(parameters)]


def _executable_command(folder: Path, joints: int) -> list[str]:
    start = "from usd_ros_bridge.entry_points import robot_state_publisher; robot_state_publisher()"
    parameters = {"asset": _asset(folder, joints), "publish_frequency": 2.0 * RATE}
    return [sys.executable, "-c", start, "--ros-args", *_given(parameters)]


def _asset(folder: Path, joints: int) -> Path:
    asset = folder / f"chain_{joints}.usda"
    if not asset.exists():
        write_chain(asset, joints)
    return asset


def _given(parameters: Mapping[str, object]) -> list[str]:
    return [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]


def reference_command(folder: Path, joints: int, executable: Path) -> list[str]:
    """Returns the command of robot_state_publisher on the same chain."""
    parameters = folder / f"chain_{joints}.yaml"
    if not parameters.exists():
        urdf = folder / f"chain_{joints}.urdf"
        write_urdf(urdf, joints)
        text = urdf.read_text(encoding="utf-8").replace("'", "''")
        parameters.write_text(
            f"/**:\n  ros__parameters:\n    publish_frequency: {2.0 * RATE}\n    robot_description: '{text}'\n",
            encoding="utf-8",
        )
    return [str(executable), "--ros-args", "--params-file", str(parameters)]


def _measure(command: list[str] | None, name: str, joints: int, folder: Path, options: Options) -> _Run:
    """Runs a contender between a driver and a listener; None: the listener hears the driver itself."""
    seconds = options.scaled(4, 1)
    heard = folder / "heard.npy"
    topic, kind = ("/joint_states", "joint_states") if command is None else ("/tf", "tf")
    with ExitStack() as stack:
        listener = stack.enter_context(peer("listen", topic, kind, str(heard)))
        listener.wait_for("ready")
        contender = None if command is None else stack.enter_context(Child(command, name=name))
        driver = stack.enter_context(peer("drive", str(joints), str(RATE)))
        try:
            listener.wait_for("heard", timeout=60.0)
        except BenchmarkError:
            # What ended says more than who waits for it.
            for child in (contender, driver):
                if child is not None:
                    child.check_alive()
            raise
        time.sleep(_WARM_UP_SECONDS)
        begin, cpu = time.time_ns(), contender.cpu_seconds() if contender else 0.0
        time.sleep(seconds)
        end, cpu_after = time.time_ns(), contender.cpu_seconds() if contender else 0.0
        driver.check_alive()
        listener.close_input()
        listener.wait_for("written")
    rows = np.load(heard)
    rows = rows[(rows[:, 0] >= begin) & (rows[:, 0] < end)]
    return judge(rows, (cpu_after - cpu) * 1e6, name, joints, (end - begin) / 1e9)


def judge(rows: np.ndarray, cpu_us: float, name: str, joints: int, seconds: float) -> _Run:
    """Turns what was heard into a run, where it is what it should be."""
    expected = RATE * seconds
    if len(rows) < _LEAST_ARRIVED * expected:
        raise BenchmarkError(f"{name}, {joints} joints: {len(rows)} of {expected:.0f} messages arrived")
    if name != "hop" and not (rows[:, 2] == joints).all():
        counts = sorted(set(rows[:, 2].tolist()))
        raise BenchmarkError(f"{name}: messages of {counts} transforms where {joints} were expected")
    latency_us = float(np.median(rows[:, 0] - rows[:, 1])) / 1e3
    return _Run(cpu_us=cpu_us / len(rows), latency_us=latency_us)
