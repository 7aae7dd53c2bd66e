"""The cost of a fleet: laws fitted to the figures of `shards`, and where a larger fleet stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks import shards
from benchmarks.harness import BenchmarkError

Values = Mapping[str, float]
"""Figures by name, as in the file of results."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A process of a fleet.

    Attributes:
        robots: Its own.
        others: Those of the other processes.
        heard: Those with a subscriber on another machine.
    """

    robots: float
    others: float
    heard: float = 0.0


Term = Callable[[Shard], float]

ONE: Term = lambda _: 1.0  # noqa: E731 - a table of terms


@dataclass(frozen=True, slots=True)
class Law:
    """How a figure grows: a sum of terms with coefficients that are not negative.

    Attributes:
        figure: Last part of the figures' names.
        unit: Of the figure.
        meaning: In words, for the table.
        terms: What each coefficient is multiplied by, by what it belongs to.
    """

    figure: str
    unit: str
    meaning: str
    terms: Mapping[str, Term]


_ROBOT: Mapping[str, Term] = {"process": ONE, "robot": lambda shard: shard.robots}
_OTHERS: Mapping[str, Term] = {"robot of another process": lambda shard: shard.others}
SUBSCRIBER = "robot with a subscriber by UDP"
_HEARD: Mapping[str, Term] = {SUBSCRIBER: lambda shard: shard.heard}
_SQUARED: Mapping[str, Term] = {"square of its robots": lambda shard: shard.robots**2}

SHARD_LAWS = (
    Law("tick_idle_cpu", "ms", "tick, robots at rest: CPU", {**_ROBOT, **_HEARD}),
    Law("tick_moving_cpu", "ms", "tick, all joints move: CPU", {**_ROBOT, **_HEARD}),
    Law(
        "cpu_moving",
        "%",
        f"all threads of a process at {shards.RATE:g} Hz, of one core",
        {**_ROBOT, **_HEARD},
    ),
    Law("memory", "MB", "memory of a process (PSS)", _ROBOT),
    Law("start_cpu", "s", "CPU until a process is open", {**_ROBOT, **_SQUARED, **_OTHERS}),
    Law("describe_cpu", "s", "CPU of all descriptions, ticks not counted", {**_ROBOT, **_SQUARED}),
)


@dataclass(frozen=True, slots=True)
class Fit:
    """A law with its coefficients.

    Attributes:
        law: The law.
        coefficients: In the order of its terms.
        errors: Of each point that it is fitted to, as a part of the measured figure.
    """

    law: Law
    coefficients: tuple[float, ...]
    errors: tuple[float, ...]

    def predict(self, point: Shard) -> float:
        """Returns the figure at a point."""
        terms = self.law.terms.values()
        return sum(each * term(point) for each, term in zip(self.coefficients, terms, strict=True))

    def coefficient(self, term: str) -> float:
        """Returns the coefficient of a term, by what it belongs to."""
        return dict(zip(self.law.terms, self.coefficients, strict=True))[term]

    @property
    def worst(self) -> float:
        """The largest error of a point that it is fitted to."""
        return max(abs(each) for each in self.errors)


def fit_law(law: Law, points: Sequence[Shard], values: Sequence[float]) -> Fit:
    """Returns a law that is fitted by least squares of the relative errors.

    Raises:
        BenchmarkError: There are fewer points than coefficients, or a value is not above zero.
    """
    measured = np.array(values, dtype=np.float64)
    if len(points) < len(law.terms):
        raise BenchmarkError(f"{law.figure}: {len(points)} points do not fix {len(law.terms)} coefficients")
    if not (measured > 0.0).all():
        raise BenchmarkError(f"{law.figure}: a value is not above zero")
    table = np.array([[term(point) for term in law.terms.values()] for point in points]) / measured[:, None]
    # Terms differ by ten orders of magnitude.
    scales = table.max(axis=0)
    solution, _ = nnls(table / scales, np.ones(len(points)))
    coefficients = solution / scales
    return Fit(law, tuple(coefficients.tolist()), tuple((table @ coefficients - 1.0).tolist()))


@dataclass(frozen=True, slots=True)
class CostModel:
    """All laws, fitted.

    Attributes:
        shard: Of a process, by figure.
        robot_bytes: Of a robot's /tf and joint states together, serialized.
    """

    shard: Mapping[str, Fit]
    robot_bytes: float


def shard_of(fleet: shards.Fleet) -> Shard:
    """Returns a process of a fleet."""
    own = fleet.robots / fleet.shards
    return Shard(own, fleet.robots - own, fleet.udp / fleet.shards)


def fit_model(values: Values, fleets: Sequence[shards.Fleet] = shards.FITTED) -> CostModel:
    """Returns the model that is fitted to the figures of these fleets.

    Raises:
        BenchmarkError: A figure is missing.
    """
    shard = {}
    for law in SHARD_LAWS:
        # Processes that use UDP alone have no shared memory and are no measure of what does not depend on subscribers.
        fitted = [fleet for fleet in fleets if SUBSCRIBER in law.terms or not fleet.udp]
        measured = [value_of(values, f"shards.{fleet.name}.{law.figure}") for fleet in fitted]
        shard[law.figure] = fit_law(law, [shard_of(fleet) for fleet in fitted], measured)
    largest = fleets[-1].name
    robot_bytes = sum(value_of(values, f"shards.{largest}.bytes_{topic}") for topic in ("tf", "joint_states"))
    return CostModel(shard, robot_bytes)


def value_of(values: Values, name: str) -> float:
    """Returns a figure.

    Raises:
        BenchmarkError: It is missing.
    """
    try:
        return values[name]
    except KeyError:
        raise BenchmarkError(f"no figure {name}: run the benchmark shards") from None


# --- A larger fleet --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What a fleet runs on.

    Attributes:
        robots: All.
        machines: How many.
        cores: Of each machine, as fast as those of the measurement.
        memory_mb: Of each machine.
        network_mb_s: Each machine sends and receives as much a second, MB.
    """

    robots: int = 10_000
    machines: int = 20
    cores: int = 8
    memory_mb: float = 16_000.0
    network_mb_s: float = 125.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where a fleet stands.

    Attributes:
        shard: One process.
        tick_ms: CPU of a tick, all joints moving.
        shard_cores: CPU of one process, of one core.
        cores: CPU of a machine.
        memory_mb: Of a machine's processes, without what they know of the others' endpoints.
        start_s: CPU of a process until it is open, without the discovery of the others.
        network_mb_s: /tf and joint states of a machine's robots, if all of them leave it.
    """

    shard: Shard
    tick_ms: float
    shard_cores: float
    cores: float
    memory_mb: float
    start_s: float
    network_mb_s: float

    def loads(self, machines: Machines) -> dict[str, float]:
        """Returns which part of each resource is used: 1 is all of it."""
        return {
            "one core per process": self.shard_cores,
            "cores of a machine": self.cores / machines.cores,
            "memory of a machine": self.memory_mb / machines.memory_mb,
            "network of a machine": self.network_mb_s / machines.network_mb_s,
        }


def estimate(model: CostModel, machines: Machines, *, shards_each: int, rate: float) -> Estimate:
    """Returns where a fleet stands.

    Args:
        model: Fitted.
        machines: What it runs on.
        shards_each: Processes on each machine.
        rate: Of all topics, Hz.
    """
    processes = machines.machines * shards_each
    own = machines.robots / processes
    shard = Shard(own, machines.robots - own, own)
    cores = model.shard["cpu_moving"].predict(shard) / 100.0 * rate / shards.RATE
    return Estimate(
        shard=shard,
        tick_ms=model.shard["tick_moving_cpu"].predict(shard),
        shard_cores=cores,
        cores=cores * shards_each,
        memory_mb=model.shard["memory"].predict(shard) * shards_each,
        start_s=model.shard["start_cpu"].predict(Shard(own, 0.0)),
        network_mb_s=model.robot_bytes * own * shards_each * rate * 1e-6,
    )


def robots_at_limit(model: CostModel, machines: Machines, rate: float) -> dict[str, float]:
    """Returns how many robots take all of a resource, by what that is.

    Args:
        model: Fitted.
        machines: Cores, memory and network of one machine.
        rate: Of all topics, Hz.
    """
    cpu, memory = model.shard["cpu_moving"], model.shard["memory"]
    scale = rate / shards.RATE
    robot = cpu.coefficient("robot") + cpu.coefficient(SUBSCRIBER)
    core = (100.0 / scale - cpu.coefficient("process")) / robot
    return {
        "one core: the most of one process": core,
        f"{machines.cores} cores, a process on each: the most of a machine": core * machines.cores,
        f"{machines.memory_mb / 1000:g} GB, a process on each core": (
            machines.memory_mb - machines.cores * memory.coefficient("process")
        )
        / memory.coefficient("robot"),
        f"{machines.network_mb_s:g} MB/s, if all /tf and joint states leave the machine": machines.network_mb_s
        * 1e6
        / (model.robot_bytes * rate),
    }
