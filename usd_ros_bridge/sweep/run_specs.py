"""The runs of a sweep: parameters and seed of each, in an order that depends on the sweep alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.sweep.distributions import Discrete, Scalar
from usd_ros_bridge.sweep.sweep_description import SAMPLED, Sweep, is_distribution, values_of

MAX_RUNS: Final = 1_000_000
_SAMPLING_STREAM: Final = 2**32 - 1
"""Spawn key of the numbers that sample parameters: no run has this index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A run of a sweep.

    Attributes:
        index: Position among the runs.
        id: Name, unique in the sweep.
        parameters: Value of each parameter.
        seed: Seed of everything random in the run, 0 to 2**31 - 1.
    """

    index: int
    id: str
    parameters: Mapping[str, Scalar]
    seed: int


def plan_runs(sweep: Sweep) -> tuple[RunSpec, ...]:
    """Return the runs of a sweep: for each point its repeats. The same sweep has the same runs.

    Raises:
        OptionError: The values of the parameters do not fit the sampling, or there are more than a million runs.
    """
    _check_count(sweep)
    points = list(_points(sweep))
    width = len(str(max(len(points) * sweep.repeats - 1, 0)))
    return tuple(
        RunSpec(
            index=index, id=f"run_{index:0{width}d}", parameters=points[index // sweep.repeats], seed=seed
        )
        for index, seed in enumerate(_seeds(sweep.seed, len(points) * sweep.repeats))
    )


def _seeds(seed: int, count: int) -> Iterator[int]:
    for index in range(count):
        word = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1)[0]
        yield int(word) & 0x7FFFFFFF


def _check_count(sweep: Sweep) -> None:
    if sweep.repeats < 1:
        raise OptionError(f"repeats: {sweep.repeats} is below 1")
    method, count = sweep.sampling.method, len(sweep.points)
    if count and method != "list":
        raise OptionError(f"points: they are of the method list, and sampling.method is {method}")
    if method in SAMPLED:
        count = sweep.sampling.count
        if count < 1:
            raise OptionError(f"sampling.count: {method} needs the number of points to draw, 1 or more")
    elif method == "grid":
        count = 1
        for name, parameter in sweep.parameters.items():
            count *= len(_listed(name, parameter, method))
    if count * sweep.repeats > MAX_RUNS:
        raise OptionError(f"{count * sweep.repeats} runs are more than {MAX_RUNS}")


def _points(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    method = sweep.sampling.method
    if method in SAMPLED:
        yield from _drawn(sweep)
    elif method == "list":
        yield from _given(sweep)
    elif method == "zip":
        yield from _zipped(sweep)
    else:
        lists = [_listed(name, parameter, method) for name, parameter in sweep.parameters.items()]
        for values in product(*lists):
            yield dict(zip(sweep.parameters, values, strict=True))


def _listed(name: str, parameter: Any, method: str) -> list[Scalar]:
    values = values_of(parameter)
    if values is None:
        raise OptionError(
            f"parameters.{name}: {method} needs values, and this is a distribution; "
            f"sampling.method: use one of {', '.join(SAMPLED)}"
        )
    if not values:
        raise OptionError(f"parameters.{name}: there are no values")
    return list(values)


def _zipped(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    lists = {name: _listed(name, parameter, "zip") for name, parameter in sweep.parameters.items()}
    length = max((len(values) for values in lists.values()), default=1)
    for name, values in lists.items():
        if len(values) not in (1, length):
            raise OptionError(
                f"parameters.{name}: {len(values)} values beside {length} of another parameter; "
                "zip needs as many of each, or one"
            )
    for row in range(length):
        yield {name: values[row if len(values) > 1 else 0] for name, values in lists.items()}


def _given(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    fixed = {name: _listed(name, parameter, "list") for name, parameter in sweep.parameters.items()}
    for name, values in fixed.items():
        if len(values) > 1 and not all(name in point for point in sweep.points):
            raise OptionError(f"parameters.{name}: list takes one value, the others are those of points")
    if not sweep.points:
        raise OptionError("points: list needs the parameters of each point")
    names = sweep.parameter_names
    for row, point in enumerate(sweep.points):
        complete = {name: values[0] for name, values in fixed.items()} | dict(point)
        for name in names:
            if name not in complete:
                raise OptionError(f"points[{row}]: the parameter {quoted(name)} is missing")
        yield {name: complete[name] for name in names}


def _drawn(sweep: Sweep) -> Iterator[dict[str, Scalar]]:
    distributions: dict[str, Any] = {}
    for name, parameter in sweep.parameters.items():
        values = values_of(parameter)
        distributions[name] = parameter if values is None else Discrete(tuple(values))
    # A constant takes no dimension: adding one leaves the others as they are.
    varied = [
        name
        for name, each in distributions.items()
        if is_distribution(sweep.parameters[name]) or len(each.values) > 1
    ]
    shares = _unit_sample(sweep, len(varied))
    for row in shares:
        share = dict(zip(varied, row.tolist(), strict=True))
        point = {}
        for name, each in distributions.items():
            try:
                point[name] = each.quantile(share.get(name, 0.0))
            except OptionError as error:
                raise OptionError(f"parameters.{name}: {error}") from None
        yield point


def _unit_sample(sweep: Sweep, dimensions: int) -> NDArray[np.float64]:
    """Return (count, dimensions) numbers in [0, 1)."""
    count, method = sweep.sampling.count, sweep.sampling.method
    if not dimensions:
        return np.zeros((count, 0))
    rng = np.random.default_rng(np.random.SeedSequence(sweep.seed, spawn_key=(_SAMPLING_STREAM,)))
    if method == "random":
        return rng.random((count, dimensions))
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"{method} needs scipy: {error}") from error
    if method == "latin_hypercube":
        sampler = qmc.LatinHypercube(d=dimensions, seed=rng)
        sample = sampler.random(count)
    else:
        # A power of two is drawn, which keeps the balance of the sequence, and its first points are taken.
        sampler = qmc.Sobol(d=dimensions, scramble=True, seed=rng)
        sample = sampler.random_base2((count - 1).bit_length())[:count]
    return np.asarray(np.minimum(sample, np.nextafter(1.0, 0.0)), dtype=np.float64)
