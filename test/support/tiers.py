"""Tiers of the tests: `make test`, `make test-all`, `make test-long`. What a test does decides, not where it stands.

A mark says what a test does. Fixtures set marks (`MARK_OF_FIXTURE`), and modules or tests name them. A test without any
of these marks is in the first tier. There, a test that starts a process fails: it lacks a mark.
"""

from __future__ import annotations

import multiprocessing.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Mark(NamedTuple):
    """What a test does, and the tier that runs it.

    Attributes:
        tier: One of `TIERS`.
        meaning: For `pytest --markers`.
    """

    tier: str
    meaning: str


TIERS = {
    "test": "core, in one process a worker: about 4 minutes on two cores",
    "all": "processes, storms, attacks, leaks, all message types, documents, apps: about 15 minutes on two cores",
    "long": "followed pages and random examples: about 5 minutes on two cores",
}
MARKS = {
    "process": Mark("all", "starts a process"),
    "storm": Mark("all", "floods a bridge, attacks it, or checks for leaks"),
    "every_type": Mark("all", "goes over all installed message types"),
    "app": Mark("all", "tests an app: page, terminal, recordings, sweeps, fleets, reports, import, graph"),
    "heavy": Mark(
        "all", "needs more than about a second of CPU, and an example of its kind is in the first tier"
    ),
    "docs": Mark("all", "compares a page of the documents, or another file of the project, with the code"),
    "project": Mark("all", "tests tools, packaging or benchmarks of the project"),
    "walk": Mark("long", "follows a page of the documents"),
    "random": Mark("long", "tries many random examples: TEST_EFFORT says how many"),
}
SAMPLE = "sample"
"""The mark of a test that `make test` runs in spite of its other marks: one started node, one followed page."""
MARK_OF_FIXTURE = {
    "bridge_process": "process",
    "mesh_server": "process",
    "own_network": "process",
    "planner": "process",
    "program": "process",
    "suite": "process",
}

_MODULE_MARKS = re.compile(r"^pytestmark = (?:\[[^\]]*\]|.*$)", re.MULTILINE)
_MARK = re.compile(r"\bmark\.(\w+)")
_SLOWEST = 10
_MEMORY_OF_WORKER = 2 << 30
"""Memory that a worker may take, bytes: MuJoCo's models, OpenUSD's stages and the middleware."""
_CONTROL_GROUP = Path("/sys/fs/cgroup")
_CPU = "cpu_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    parser.getgroup("usd_ros_bridge").addoption(
        "--tier", default="", help=f"run only tests of these tiers, separated by commas: {', '.join(TIERS)}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and refuse a tier that does not exist."""
    for name, mark in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {mark.meaning} (tier {mark.tier})")
    config.addinivalue_line("markers", f"{SAMPLE}: is in the tier test in spite of its other marks")
    unknown = sorted(_chosen(config) - {*TIERS})
    if unknown:
        raise pytest.UsageError(f"--tier {', '.join(unknown)}: there is {', '.join(TIERS)}")


def _chosen(config: pytest.Config) -> set[str]:
    return {each for each in str(config.getoption("--tier")).split(",") if each}


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how long the chosen tiers take, and what is left to the others."""
    chosen = _chosen(config)
    if not chosen:
        return []
    left = [f"tier {name} is left out: {text}" for name, text in TIERS.items() if name not in chosen]
    return [*(f"tier {name}: {text}" for name, text in TIERS.items() if name in chosen), *left]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a module of other tiers: half of the time of a short run would be imports."""
    chosen = _chosen(config)
    if not chosen or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    names = {name for line in _MODULE_MARKS.findall(text) for name in _MARK.findall(line)}
    if not names & {*MARKS}:
        return None
    possible = {_tier(names)}
    # Marks of single tests can lead to a later tier, or to the first.
    if f"mark.{SAMPLE}" in text:
        possible.add("test")
    possible |= {MARKS[name].tier for name in _MARK.findall(text) if name in MARKS and _is_later(name, names)}
    return True if not possible & chosen else None


def _is_later(name: str, names: set[str]) -> bool:
    order = list(TIERS)
    return order.index(MARKS[name].tier) > order.index(_tier(names))


def _tier(names: set[str]) -> str:
    """Return the tier of a test with these marks: the last of their tiers."""
    if SAMPLE in names:
        return "test"
    found = {MARKS[name].tier for name in names if name in MARKS}
    return next((tier for tier in reversed(TIERS) if tier in found), "test")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Set the marks that follow from fixtures, for `-m`, too. Leave the tests of the chosen tiers."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in MARK_OF_FIXTURE:
                item.add_marker(MARK_OF_FIXTURE[fixture])
    yield
    chosen = _chosen(config)
    kept, others = [], []
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        (kept if not chosen or _tier(names) in chosen else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker a core, and fewer where memory is short."""
    return max(1, min(cores(), free_memory() // _MEMORY_OF_WORKER))


def cores(control_group: Path = _CONTROL_GROUP) -> int:
    """Return the number of cores that this process may use: `docker --cpus` limits their time, not their number."""
    found = len(os.sched_getaffinity(0))
    quota, _, period = _text(control_group / "cpu.max").partition(" ")
    return min(found, max(1, int(quota) // int(period))) if quota.isdecimal() else found


def free_memory(control_group: Path = _CONTROL_GROUP) -> int:
    """Return the memory that is free for this process, bytes: of the machine, or of its container."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(Path("/proc/meminfo")), re.MULTILINE)
    free = int(found[1]) << 10 if found else 1 << 62
    limit, used = _text(control_group / "memory.max"), _text(control_group / "memory.current")
    if limit.isdecimal() and used.isdecimal():
        # Files that were read are counted as used, until somebody needs the memory.
        cached = re.search(r"^inactive_file (\d+)$", _text(control_group / "memory.stat"), re.MULTILINE)
        free = min(free, max(int(limit) - int(used) + int(cached[1] if cached else 0), 0))
    return free


def _text(path: Path) -> str:
    """Return the text of a file, "" for one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# --- What a test costs, and what it starts --------------------------------------------------------------------------

_started: list[str] = []


def _note_process(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn"):
        return
    # The first import of mujoco asks glfw for its version, in a process: it says nothing about the test.
    if "glfwGetVersion" not in str(arguments):
        _started.append(str(arguments[0]) if arguments else event)


def _noting(start: Callable[..., int]) -> Callable[..., int]:
    def run(path: Any, *arguments: Any) -> int:
        _started.append(os.fsdecode(path))
        return start(path, *arguments)

    return run


sys.addaudithook(_note_process)
# A way to start a process that is not audited.
multiprocessing.util.spawnv_passfds = _noting(multiprocessing.util.spawnv_passfds)


_BEGIN = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Begin to measure the CPU of a test, all threads of its process included."""
    _started.clear()
    item.stash[_BEGIN] = time.process_time()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the CPU time to the last report of a test. Fail a test of the first tier that started a process."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when != "teardown":
        return
    report.user_properties.append((_CPU, round(time.process_time() - item.stash[_BEGIN], 3)))
    names = {mark.name for mark in item.iter_markers()}
    # Suites with targets of their own run without tiers.
    checked = "test" in _chosen(item.config) and SAMPLE not in names and _tier(names) == "test"
    if checked and _started and report.passed:
        report.outcome = "failed"
        report.longrepr = (
            f"this test starts {_started[0]}: give it the mark `process`, or a fixture that does"
        )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the tests that needed the most CPU. None fails for its time."""
    costs = [
        (dict(report.user_properties)[_CPU], report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and _CPU in dict(report.user_properties)
    ]
    costs.sort(reverse=True)
    if len(costs) > _SLOWEST:
        total = sum(cost for cost, _ in costs)
        terminalreporter.section(f"CPU of {len(costs)} tests: {total:.0f} s; the most of it")
        for cost, name in costs[:_SLOWEST]:
            terminalreporter.line(f"{cost:8.2f} s  {name}")
