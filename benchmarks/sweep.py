"""Sweeps: steps a second of all workers against those of a single run, and what a run costs besides its steps."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from usd_ros_bridge.sweep.ray_cluster import RayCluster
from usd_ros_bridge.sweep.run_specs import plan_runs
from usd_ros_bridge.sweep.sweep_description import RunMetric, Signal, Sweep, TopicCommand
from usd_ros_bridge.sweep.sweep_engine import SweepResult, run_sweep
from usd_ros_bridge.sweep.sweep_run import RunWorker

THROUGHPUT = Target(0.9, "at least")
OVERHEAD = Target(0.3)
ROVER = "/World/rover"


def rover_sweep(*, runs: int, duration: float) -> Sweep:
    """Returns a sweep of the rover, which drives straight on at speeds of its own."""
    return Sweep(
        name="benchmark",
        asset=str(ROOT / "examples" / "rover" / "world.usda"),
        duration=duration,
        backend="mujoco",
        parameters={"speed": tuple(0.1 + 0.4 * number / runs for number in range(runs))},
        commands=(TopicCommand(at=0.0, topic="cmd_vel", message={"linear": {"x": "${speed}"}}, every=0.1),),
        metrics={"x": RunMetric(signal=Signal(kind="position", body=ROVER, axis="x"))},
    )


def run(options: Options) -> Iterator[Result]:
    """Yields throughput and overhead. Nothing else may run on the machine meanwhile."""
    cores = len(os.sched_getaffinity(0))
    duration = options.scaled(20, 1)
    sweep = rover_sweep(runs=cores * options.scaled(10, 2), duration=float(duration))
    ratios, rates, singles, overheads, waits = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder, RayCluster() as cluster:
        cluster.open(workers=cores)
        for number in range(options.repeats):
            # In turns: what the machine does at the time counts for both.
            single, overhead = _single_run(sweep, options)
            rate, wait = _all_workers(sweep, Path(folder, str(number)), cores)
            singles.append(single)
            rates.append(rate)
            ratios.append(rate / (cores * single))
            overheads.append(overhead)
            waits.append(wait)
    yield median_result(
        "sweep.single_run", singles, "steps/s", compared_with="one run of the rover, in this process"
    )
    yield median_result(
        "sweep.all_workers",
        rates,
        "steps/s",
        compared_with=f"{cores} workers, from the first begin of a run to the last end of one, set-ups included",
    )
    yield median_result(
        "sweep.throughput",
        ratios,
        "x",
        target=THROUGHPUT,
        compared_with=f"sweep.all_workers as a part of {cores} cores x sweep.single_run",
    )
    yield median_result(
        "sweep.overhead",
        overheads,
        "s",
        target=OVERHEAD,
        compared_with="wall-clock time of a run after the first of a worker, without that of its steps",
    )
    yield median_result(
        "sweep.hand_out",
        waits,
        "s",
        compared_with="wall-clock time of a run as the sweep sees it, without set-up and steps as its worker sees them",
    )


def _single_run(sweep: Sweep, options: Options) -> tuple[float, float]:
    """Returns the steps a second of a run in this process, and the seconds of a later run besides its steps."""
    specs = plan_runs(replace(sweep, parameters={"speed": 0.3}, repeats=options.scaled(4, 2)))
    worker = RunWorker(sweep)
    try:
        rates, overheads = [], []
        for spec in specs:
            begin = time.perf_counter()
            outcome = worker.run(spec)
            overheads.append(time.perf_counter() - begin - outcome.run_time)
            if outcome.outcome != "completed":
                raise BenchmarkError(f"a run {outcome.outcome}: {outcome.reason}")
            rates.append(outcome.steps / outcome.run_time)
    finally:
        worker.close()
    return statistics.median(rates), statistics.median(overheads[1:])


def _all_workers(sweep: Sweep, output: Path, cores: int) -> tuple[float, float]:
    """Returns the steps a second of all workers while all are at work, and what handing out a run costs, seconds."""
    result = run_sweep(sweep, output=output, workers=cores)
    if result.outcomes != {"completed": result.total}:
        raise BenchmarkError(f"not all runs were completed: {dict(result.outcomes)}")
    return _rate(result), _hand_out(result)


def _rate(result: SweepResult) -> float:
    # Without the start of the workers, which a sweep has once: the first run of each opens the asset.
    rows = result.table().to_pylist()
    begins = [row["started"].timestamp() for row in rows]
    ends = [begin + row["wall_time"] for begin, row in zip(begins, rows, strict=True)]
    return sum(row["steps"] for row in rows) / (max(ends) - min(begins))


def _hand_out(result: SweepResult) -> float:
    return statistics.median(
        row["wall_time"] - row["setup_time"] - row["run_time"] for row in result.table().to_pylist()
    )
