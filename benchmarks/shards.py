"""A fleet in shards: one stage of 2,000 robots, served by one process, by two and by four, on the same machine.

Fewer robots in one process, robots with subscribers that are reached by UDP, and three processes are measured, too: for
the cost model.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Result
from benchmarks.processes import UDP_ON_LOOPBACK, Child, peer, shared_memory_files
from usd_ros_bridge.ros_domains import remove_abandoned

LINKS = 30
RATE = 20.0
"""Of every topic, Hz: one process reaches it with all robots."""
ROBOTS = 2000
TOPICS = 2
"""Of a robot, those that move: /tf and joint states."""
SAMPLE = 16
"""Robots that the observer listens to where no more is said."""
_PHASES = ("idle", "moving", "row")
_TIMEOUT = 600.0
_SECONDS, _QUICK_SECONDS = 4.0, 2.0
_MARGIN_S = 0.5
"""Between the beginning of a phase and that of the observer's count, and between their ends."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """One arrangement.

    Attributes:
        robots: In all processes together.
        shards: Processes.
        udp: Robots with a subscriber by UDP, as on another machine. 0: SAMPLE robots have one by shared memory.
    """

    robots: int
    shards: int
    udp: int = 0

    @property
    def name(self) -> str:
        """Its part of a figure's name."""
        return f"{self.robots}x{self.shards}{f'_udp{self.udp}' if self.udp else ''}"

    @property
    def listened(self) -> list[str]:
        """Robots that the observer listens to, evenly chosen."""
        count = min(self.udp or SAMPLE, self.robots)
        return [f"robot_{self.robots * number // count}" for number in range(count)]


FITTED = (
    Fleet(200, 1),
    # What they send in a tick fits into the receive buffer that Linux gives a socket, 208 kB.
    Fleet(200, 1, udp=50),
    Fleet(500, 1),
    Fleet(1000, 1),
    Fleet(2000, 1),
    Fleet(2000, 2),
    Fleet(2000, 4),
)
CHECKED = (Fleet(2000, 3),)
"""The cost model predicts it: it is not fitted to it."""
QUICK = (Fleet(48, 1), Fleet(48, 1, udp=24), Fleet(48, 2))


def run(options: Options) -> Iterator[Result]:
    """Yields what each arrangement takes, one after another. Each is measured once."""
    seconds = _QUICK_SECONDS if options.quick else _SECONDS
    fleets = QUICK if options.quick else (*FITTED, *CHECKED)
    with tempfile.TemporaryDirectory() as folder:
        for fleet in fleets:
            stage = _write(Path(folder, str(fleet.robots)), fleet.robots)
            before = shared_memory_files()
            told = _measure(stage, fleet, seconds)
            # To close thousands of publishers takes long: the processes are killed.
            remove_abandoned(before)
            yield from _results(fleet, told)


def _write(folder: Path, robots: int) -> Path:
    from builders.stages import write_fleet

    path = folder / "fleet.usda"
    return path if path.exists() else write_fleet(folder, robots=robots, links=LINKS, publish_rate=RATE)


def _measure(stage: Path, fleet: Fleet, seconds: float) -> dict[str, Any]:
    """Returns what each shard tells, event by event, what the observer received, and `ready`, `settled` in seconds."""
    environment = UDP_ON_LOOPBACK if fleet.udp else {}
    with ExitStack() as stack:
        observer = stack.enter_context(
            peer("fleet_observer", ",".join(fleet.listened), environment=environment)
        )
        observer.wait_for("ready", _TIMEOUT)
        begin = time.monotonic()
        shards = [
            stack.enter_context(
                peer("shard", str(stage), f"{number + 1}/{fleet.shards}", str(RATE), environment=environment)
            )
            for number in range(fleet.shards)
        ]
        told: dict[str, Any] = {"open": [each.wait_for("open", _TIMEOUT) for each in shards]}
        told["ready"] = time.monotonic() - begin
        if sum(each["robots"] for each in told["open"]) != fleet.robots:
            raise BenchmarkError(f"the shards do not serve {fleet.robots} robots: {told['open']}")
        told["described"] = _all(shards, "describe", "described", _TIMEOUT)
        told["settled"] = time.monotonic() - begin
        _wait_for_messages(observer, len(fleet.listened) * TOPICS)
        # Of robots with many subscribers, these could not follow ticks without a pause.
        for phase in _PHASES[:2] if fleet.udp else _PHASES:
            told[phase], told[f"{phase}_received"] = _phase(shards, observer, phase, seconds)
    return told


def _phase(
    shards: Sequence[Child], observer: Child, phase: str, seconds: float
) -> tuple[list[dict[str, Any]], Any]:
    """Returns what each shard tells of a phase, and what the observer counted meanwhile."""
    for each in shards:
        each.say(f"{phase} {seconds}")
    time.sleep(_MARGIN_S)
    observer.say(f"count {seconds - 2 * _MARGIN_S}")
    told = [each.wait_for(phase, _TIMEOUT) for each in shards]
    counted = observer.wait_for("counted", _TIMEOUT)
    return told, counted


def _all(children: Sequence[Child], word: str, event: str, seconds: float) -> list[dict[str, Any]]:
    """Tells all of them something, and returns their answers."""
    for each in children:
        each.say(f"{word} {seconds}")
    return [each.wait_for(event, seconds) for each in children]


def _wait_for_messages(observer: Child, topics: int) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        observer.say("heard")
        if observer.wait_for("heard", _TIMEOUT)["topics"] >= topics:
            return
        time.sleep(_MARGIN_S)
    raise BenchmarkError("the observer hears not all of its robots")


def _results(fleet: Fleet, told: dict[str, Any]) -> Iterator[Result]:
    processes = "one process" if fleet.shards == 1 else f"{fleet.shards} processes on the same cores"
    size = f"{fleet.robots} robots of {LINKS} links in {processes}"
    if fleet.udp:
        size += f", {fleet.udp} of them with a subscriber by UDP"
    yield from _start_results(fleet, told, size)
    for phase, words in (("idle", "at rest"), ("moving", "all joints move")):
        yield from _phase_results(fleet, told, phase, f"{size}, {words}, {RATE:g} Hz, writes forced")
    if "row" in told:
        yield from _row_results(fleet, told, size)


def _row_results(fleet: Fleet, told: dict[str, Any], size: str) -> Iterator[Result]:
    row, received = told["row"], told["row_received"]
    yield _one(fleet, "tick_row", [each["tick"] for each in row], "ms", f"{size}: one tick after another")
    yield _one(
        fleet,
        "fastest",
        [min(received["rates"])],
        "/s",
        f"{size}: ticks in a second, one after another, as the slowest of {len(fleet.listened)} robots arrives",
    )
    for topic in ("tf", "joint_states"):
        sizes = [size for name, size in received["sizes"].items() if name.endswith(f"/{topic}")]
        yield _one(
            fleet, f"bytes_{topic}", sizes, "B", f"one message of a robot of {LINKS} links, serialized"
        )


def _start_results(fleet: Fleet, told: dict[str, Any], size: str) -> Iterator[Result]:
    opened, described = told["open"], told["described"]
    yield _one(
        fleet, "ready", [told["ready"]], "s", f"{size}: from the start of all processes until all are open"
    )
    yield _one(
        fleet, "settled", [told["settled"]], "s", f"{size}: until every robot has its description, too"
    )
    yield _one(
        fleet, "plan", [each["plan"] for each in opened], "s", f"{size}: each process's way to its plan"
    )
    yield _one(
        fleet,
        "start_cpu",
        [each["cpu"] for each in opened],
        "s",
        f"{size}: CPU time of each until it is open, imports not counted",
    )
    yield _one(
        fleet,
        "describe_cpu",
        [each["cpu"] for each in described],
        "s",
        f"{size}: CPU time of each for the descriptions, ticks not counted",
    )
    memory = [each["memory_mb"] for each in told["moving"]]
    yield _one(fleet, "memory", memory, "MB", f"{size}: PSS of each, robots moving; MB of 10^6 bytes")
    yield _one(fleet, "memory_sum", [sum(memory)], "MB", f"{size}: PSS of all together")
    endpoints = [each["endpoints"] for each in opened]
    yield _one(fleet, "endpoints", endpoints, "topics", f"{size}: publishers and subscriptions of each")


def _phase_results(fleet: Fleet, told: dict[str, Any], phase: str, words: str) -> Iterator[Result]:
    shards, received = told[phase], told[f"{phase}_received"]
    ticks = f"{words}: median tick of each process"
    yield _one(fleet, f"tick_{phase}", [each["tick"] for each in shards], "ms", ticks)
    yield _one(
        fleet,
        f"tick_{phase}_cpu",
        [each["tick_cpu"] for each in shards],
        "ms",
        f"{ticks}, CPU time of its thread",
    )
    yield _one(
        fleet, f"cpu_{phase}", [each["cpu"] for each in shards], "%", f"{words}: one core; each process"
    )
    yield _one(
        fleet,
        f"cpu_{phase}_sum",
        [sum(each["cpu"] for each in shards)],
        "%",
        f"{words}: one core; all together",
    )
    yield _one(
        fleet,
        f"messages_{phase}",
        [sum(each["messages"] for each in shards)],
        "/s",
        f"{words}: messages that all publish together; {fleet.robots * TOPICS * RATE:,.0f} are due",
    )
    yield _one(
        fleet,
        f"received_{phase}",
        [statistics.mean(received["rates"])],
        "/s",
        f"{words}: of a topic, as an rclpy node in another process receives it from {len(fleet.listened)} robots",
    )


def _one(fleet: Fleet, figure: str, values: Sequence[float], unit: str, words: str) -> Result:
    """Returns a figure of one run: the median of the processes, with the extremes where there are several."""
    return Result(
        name=f"shards.{fleet.name}.{figure}",
        value=statistics.median(values),
        unit=unit,
        compared_with=words,
        spread=(min(values), max(values)) if len(values) > 1 else None,
    )
