"""Common parts of all benchmarks: targets, results, statistics, and the machine."""

from __future__ import annotations

import gc
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5
QUICK_RUNS = 1

Direction = Literal["at most", "at least"]


class BenchmarkError(Exception):
    """Why a benchmark cannot run or did not measure what it says, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How benchmarks run.

    Attributes:
        quick: Show that they run: a few seconds each, figures that mean little.
        runs: Runs that the median is taken of; None for RUNS, or QUICK_RUNS.
    """

    quick: bool = False
    runs: int | None = None

    @property
    def repeats(self) -> int:
        """Number of runs for a median."""
        return self.runs or (QUICK_RUNS if self.quick else RUNS)

    def scaled(self, full: int, quick: int) -> int:
        """Returns `full`, or `quick` for a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Target:
    """Bound that a figure should reach.

    Attributes:
        bound: In the unit of the figure.
        direction: Which side of the bound is good.
    """

    bound: float
    direction: Direction = "at most"

    def met_by(self, value: float) -> bool:
        """Returns whether `value` reaches the target; NaN never does."""
        return value <= self.bound if self.direction == "at most" else value >= self.bound

    def missed_by(self, value: float) -> float:
        """Returns by what part of the bound `value` misses it: 0.25 is a quarter, inf any miss of a bound of 0."""
        if self.met_by(value):
            return 0.0
        if self.bound == 0.0:
            return float("inf")
        return abs(value - self.bound) / abs(self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure.

    Attributes:
        name: `<benchmark>.<figure>`; stable, so that results of two days compare.
        value: The median over the runs.
        unit: us, ms, s, MB, x (a ratio), % or what is counted.
        target: What it should reach; None for a figure that is there to compare with.
        compared_with: What it stands beside, and how it was measured, in words.
        spread: Least and greatest of the runs.
        load: One-minute load average as the figure was taken.
    """

    name: str
    value: float
    unit: str
    target: Target | None = None
    compared_with: str = ""
    spread: tuple[float, float] | None = None
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def met(self) -> bool | None:
        """Target reached; None without a target."""
        return None if self.target is None else self.target.met_by(self.value)

    def to_json(self, machine: Machine) -> dict[str, Any]:
        """Returns the entry of results.json."""
        return {
            "name": self.name,
            "value": _rounded(self.value),
            "unit": self.unit,
            "target": None if self.target is None else self.target.bound,
            "met": self.met,
            "compared_with": self.compared_with,
            "machine": {**asdict(machine), "load_average": round(self.load, 2)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine and software of the figures.

    Attributes:
        cpu: Model name.
        cores: Cores that this process may use.
        memory_gib: Physical memory.
        system: Operating system and version of the kernel.
        python: Version.
        numpy: Version.
        rclpy: Version, "" where it is not known.
        middleware: RMW implementation.
    """

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    numpy: str
    rclpy: str
    middleware: str

    @classmethod
    def here(cls) -> Machine:
        """Returns this machine."""
        return cls(
            cpu=_cpu_model(),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            system=" ".join([platform.system(), *re.findall(r"^\d+\.\d+", platform.release())]),
            python=platform.python_version(),
            numpy=_version("numpy"),
            rclpy=_version("rclpy", "ros-rclpy"),
            middleware=os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp"),
        )

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:g} GiB, {self.system}, Python {self.python}, "
            f"numpy {self.numpy}, rclpy {self.rclpy or 'unknown'}, {self.middleware}"
        )


def median_result(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    target: Target | None = None,
    compared_with: str = "",
) -> Result:
    """Returns the figure of several runs: their median, with the spread.

    Raises:
        BenchmarkError: There are no runs.
    """
    if not values:
        raise BenchmarkError(f"{name}: no run gave a figure")
    return Result(
        name=name,
        value=statistics.median(values),
        unit=unit,
        target=target,
        compared_with=compared_with,
        spread=(min(values), max(values)),
    )


def seconds_per_call(call: Callable[[], object], count: int) -> float:
    """Returns the mean seconds of `count` calls, from clean heap to clean heap.

    The garbage collector is left on, as in a program that runs: what the calls leave behind is part of their cost.
    What earlier code left behind is not, so it is collected first.
    """
    gc.collect()
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - begin) / count / 1e9


def count_for(call: Callable[[], object], seconds: float) -> int:
    """Returns how often `call` is to be repeated to take about `seconds`."""
    spent, count = 0.0, 1
    while spent < min(0.02, seconds):
        count *= 2
        spent = seconds_per_call(call, count) * count
    return max(1, int(count * seconds / spent))


def interleaved(calls: Sequence[Callable[[], object]], options: Options) -> Iterator[tuple[float, ...]]:
    """Yields, run by run, the mean seconds of each call: one after another, so that all see the same machine."""
    share = 0.1 if options.quick else 0.6
    for call in calls:
        call()
    counts = [count_for(call, share) for call in calls]
    for _ in range(options.repeats):
        yield tuple(seconds_per_call(call, count) for call, count in zip(calls, counts, strict=True))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _version(*names: str) -> str:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
