"""The benchmarks that there are, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module

from benchmarks.harness import BenchmarkError, Options, Result

Benchmark = Callable[[Options], Iterator[Result]]

NAMES = (
    "frames",
    "step",
    "joint_states",
    "fleet",
    "image",
    "cameras",
    "startup",
    "memory",
    "controllers",
    "goals",
    "physics",
    "sensors",
    "rates",
    "live_change",
    "urdf",
    "recording",
    "sweep",
    "view",
    "shards",
)
FLEET = ("shards",)
"""They have a file of results of their own."""


def load(name: str) -> Benchmark:
    """Returns a benchmark; what it needs is imported here and not before.

    Raises:
        BenchmarkError: It cannot be imported, as a part that it needs is missing.
    """
    try:
        benchmark: Benchmark = import_module(f"benchmarks.{name}").run
    except ImportError as error:
        raise BenchmarkError(f"{name} cannot be imported: {error}") from error
    return benchmark


def benchmarks() -> Mapping[str, Benchmark]:
    """Returns all, imported when they run."""
    return {name: partial(_run, name) for name in NAMES}


def _run(name: str, options: Options) -> Iterator[Result]:
    yield from load(name)(options)
