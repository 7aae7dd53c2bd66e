"""A fleet: 1,000 robots of 30 links, from the stage to the plan, in a tick, and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import peer

ROBOTS = 1000
FEWER = 100
LINKS = 30
PLAN = Target(3.0)
PLAN_RATIO = Target(11.0)
TICK = Target(15.0)
RESIDENT = Target(600.0)
_TIMEOUT = 300.0


def run(options: Options) -> Iterator[Result]:
    """Yields planning, its growth, a tick and memory: each run in a process of its own, fewer and more in turns."""
    robots = options.scaled(ROBOTS, FEWER)
    fewer = options.scaled(FEWER, FEWER // 10)
    with tempfile.TemporaryDirectory() as folder:
        stages = {count: _write(Path(folder, str(count)), count) for count in (fewer, robots)}
        small = []
        large = []
        untuned = []
        for _ in range(options.repeats):
            small.append(_run(stages[fewer], fewer, 0))
            large.append(_run(stages[robots], robots, options.scaled(50, 5)))
            untuned.append(_run(stages[robots], robots, 0, tuned=False))
    yield from _results(robots, fewer, small, large, untuned)


def _results(
    robots: int,
    fewer: int,
    small: list[dict[str, Any]],
    large: list[dict[str, Any]],
    untuned: list[dict[str, Any]],
) -> Iterator[Result]:
    name = f"fleet.{robots}"
    size = f"{robots} robots of {LINKS} links"
    seconds, seconds_fewer = ([run["planned"]["seconds"] for run in runs] for runs in (large, small))
    yield median_result(
        f"{name}.plan",
        seconds,
        "s",
        target=PLAN,
        compared_with=f"{size}, by reference, in a tuned process; imports not counted",
    )
    yield median_result(
        f"{name}.plan_untuned",
        [run["planned"]["seconds"] for run in untuned],
        "s",
        compared_with="the same in the process of a host that does not call tune_process, in turns with it",
    )
    yield median_result(
        f"{name}.plan_ratio",
        [more / less for more, less in zip(seconds, seconds_fewer, strict=True)],
        "x",
        target=PLAN_RATIO,
        compared_with=f"{fewer} robots in the same run: {robots // fewer} is linear",
    )
    for figure, key, words in (
        ("tick", "seconds", "all /tf and joint_states, no subscriber, write forced"),
        ("tick_idle", "idle_seconds", "the same tick with the writes left out, as nobody listens"),
    ):
        values = [run["ticked"][key] * 1e3 for run in large]
        yield median_result(
            f"{name}.{figure}",
            values,
            "ms",
            target=TICK if figure == "tick" else None,
            compared_with=f"{size}: {words}",
        )
    resident = [run["ticked"]["resident_mb"] for run in large]
    yield median_result(
        f"{name}.resident",
        resident,
        "MB",
        target=RESIDENT,
        compared_with=f"{size}: VmRSS of a fresh process with stage, plan and open bridge, after ticks",
    )


def _write(folder: Path, robots: int) -> Path:
    from builders.stages import write_fleet

    return write_fleet(folder, robots=robots, links=LINKS, publish_rate=100.0)


def _run(stage: Path, robots: int, ticks: int, *, tuned: bool = True) -> dict[str, Any]:
    """Plans the fleet in a fresh process, and ticks it there where `ticks` is not 0."""
    with peer("fleet", str(stage), str(ticks), "tuned" if tuned else "untuned") as process:
        told = {"planned": process.wait_for("planned", _TIMEOUT)}
        if told["planned"]["robots"] != robots:
            raise BenchmarkError(f"{told['planned']['robots']} robots were planned, not {robots}")
        if ticks:
            told["ticked"] = process.wait_for("ticked", _TIMEOUT)
        return told
