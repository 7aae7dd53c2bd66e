"""Controllers: trajectories, fleets of differential drives, odometry and services, one after another."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import diff_drives, services, trajectories
from benchmarks.harness import Options, Result


def run(options: Options) -> Iterator[Result]:
    """Yields the figures of each."""
    for part in (trajectories, diff_drives, services):
        yield from part.run(options)
