"""Figures of docs/explanation/benchmarks.md against benchmarks/results.json, with their rounding."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from fnmatch import fnmatch
from typing import Any

import pytest

from markdown_docs import ROOT, codes, page_text, rows, section

sys.path.insert(0, str(ROOT))

pytest.importorskip("rich", reason="rich is not installed: make setup")

from benchmarks.registry import NAMES

pytestmark = pytest.mark.docs

ENTRIES: list[Any] = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
RESULTS, KILTED = (
    {each["name"]: each for each in ENTRIES if each["machine"]["rclpy"].startswith(major)} for major in "79"
)
PAGE = page_text("benchmarks.md")
RUN = section(PAGE, "A run")
SHORT = section(PAGE, "In short")
FIRST, *SUBSECTIONS = RUN.split("\n### ")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")

TABLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "": (
        ("frames.1000.tick",),
        ("frames.1000.naive_ratio",),
        ("frames.10000.tick",),
        ("step.nothing_due",),
        ("step.all_due",),
        ("joint_states.10.cpu_ratio", "joint_states.10.latency_ratio"),
        ("joint_states.100.cpu_ratio", "joint_states.100.latency_ratio"),
        ("joint_states.1000.cpu_ratio", "joint_states.1000.latency_ratio"),
        ("memory.10.resident", "memory.1000.resident"),
        ("memory.10.resident_reference", "memory.1000.resident_reference"),
        (
            "joint_states.10.executable_ratio",
            "joint_states.100.executable_ratio",
            "joint_states.1000.executable_ratio",
        ),
        ("fleet.1000.plan",),
        ("fleet.1000.plan_ratio",),
        ("fleet.1000.tick",),
        ("fleet.1000.resident",),
        ("image.1080p.arrived", "image.1080p.latency"),
        ("startup.first_tf", "startup.first_tf_joint_states"),
        ("controllers.trajectory.cubic.tick", "controllers.trajectory.quintic.tick"),
        ("controllers.trajectory.cubic.tick_paced", "controllers.trajectory.quintic.tick_paced"),
        ("controllers.trajectory_deviation.cubic", "controllers.trajectory_deviation.quintic"),
        ("controllers.diff_drives.tick_idle", "controllers.diff_drives.tick_idle_p99"),
        ("controllers.diff_drives.tick", "controllers.diff_drives.tick_p99"),
        ("controllers.odometry_circle.error", "controllers.odometry_clothoid.error"),
        ("controllers.service.round_trip", "controllers.service.plain"),
        ("goals.1000.astray", "goals.1000.unanswered", "goals.1000.left"),
        ("goals.1000.memory",),
        ("goals.1000.tf_pause",),
        ("goals.1000.tf_pause_shared_memory",),
    ),
    "Physics and sensors": (
        ("physics.arm.steps", "physics.rover.steps"),
        ("physics.arm.bare", "physics.rover.bare"),
        ("physics.arm.bulk", "physics.rover.bulk"),
        ("physics.arm.overhead", "physics.rover.overhead"),
        ("physics.arm.overhead_commanded", "physics.rover.overhead_commanded"),
        ("sensors.scan",),
        ("sensors.cloud",),
        ("cameras.rgb", "cameras.depth"),
        ("cameras.rgb_rays",),
        ("rates.scan", "rates.image", "rates.imu", "rates.tf"),
        ("rates.scan_jitter", "rates.image_jitter", "rates.imu_jitter", "rates.tf_jitter"),
        ("rates.loaded.tf_lost",),
        ("rates.loaded.tf_jitter",),
        ("rates.factor", "rates.cpu"),
    ),
    "Robot descriptions": (
        ("urdf.60.plain.first",),
        ("urdf.60.plain.again",),
        ("urdf.60.plain.first_from_file", "urdf.60.plain.again_from_file"),
        ("urdf.60.textured.first", "urdf.60.textured.again"),
    ),
    "Live change": (
        ("live_change.kinematic.lost", "live_change.mujoco.lost"),
        ("live_change.kinematic.late", "live_change.mujoco.late"),
        ("live_change.kinematic.late_steady", "live_change.mujoco.late_steady"),
        ("live_change.kinematic.late_own", "live_change.mujoco.late_own"),
        ("live_change.kinematic.latency", "live_change.mujoco.latency"),
        ("live_change.kinematic.latency_worst", "live_change.mujoco.latency_worst"),
        ("live_change.kinematic.swap", "live_change.mujoco.swap"),
        ("live_change.kinematic.swap_worst", "live_change.mujoco.swap_worst"),
        ("live_change.kinematic.left", "live_change.mujoco.left"),
        ("live_change.kinematic.memory", "live_change.mujoco.memory"),
    ),
    "Sweeps": (
        ("sweep.throughput",),
        ("sweep.all_workers", "sweep.single_run"),
        ("sweep.overhead",),
        ("sweep.hand_out",),
    ),
}
"""Results of each row of the page's tables, by subsection. A single figure for several results is the largest."""

PROSE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"bridge takes ([\d.]+) us of CPU", ("joint_states.10.cpu",)),
    (r"C\+\+ node takes ([\d.]+)\.", ("joint_states.10.cpu_reference",)),
    (r"receives and sends takes ([\d.]+)\.", ("joint_states.10.relay_cpu",)),
)

IN_SHORT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"1,000 frames takes ([\d.]+) us .*: ([\d.]+) times less",
        ("frames.1000.tick", "frames.1000.naive_ratio"),
    ),
    (r"1,000 robots of 30 links takes ([\d.]+) ms", ("fleet.1000.tick",)),
    (
        r"takes ([\d.]+), ([\d.]+) and ([\d.]+) times the CPU of the C\+\+ node for 10, 100 and 1,000 joints",
        ("joint_states.10.cpu_ratio", "joint_states.100.cpu_ratio", "joint_states.1000.cpu_ratio"),
    ),
)

OTHER_PAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "backends.md",
        r"arm makes ([\d,]+) steps .* rover makes ([\d,]+),",
        ("physics.arm.steps", "physics.rover.steps"),
    ),
    (
        "backends.md",
        r"part of a step is ([\d.]+) us for the arm, and ([\d.]+) us",
        ("physics.arm.overhead", "physics.arm.overhead_commanded"),
    ),
    (
        "sensors.md",
        r"makes ([\d.]+) images of 640x480 in a second, ([\d.]+) with .*, ([\d.]+) with .*, and ([\d.]+) by rays",
        ("cameras.rgb", "cameras.rgb_smooth", "cameras.rgb_shadows", "cameras.rgb_rays"),
    ),
    ("fast_dds.md", r"Jazzy, .* \d+ % \| all, ([\d.]+) ms", ("image.1080p.latency",)),
)
"""Pages of the reference that cite figures."""


def is_rounded(text: str, value: float) -> bool:
    """Return whether a written number is a value, rounded to the digits that are written."""
    written = Decimal(text.replace(",", ""))
    return abs(Decimal(str(value)) - written) <= Decimal(10) ** int(written.as_tuple().exponent) / 2


def assert_figures(texts: list[str], names: tuple[str, ...]) -> None:
    values = [RESULTS[name]["value"] for name in names]
    if len(texts) == 1:
        values = [max(values)]
    assert len(texts) == len(values), (names, texts)
    for text, value in zip(texts, values, strict=True):
        assert is_rounded(text, value), (names, text, value)


def section_of_run(subsection: str) -> str:
    if not subsection:
        return FIRST
    (text,) = (each for each in SUBSECTIONS if each.startswith(subsection + "\n"))
    return text


def test_written_figures_are_compared_by_their_digits() -> None:
    cases = {
        ("30", 30.24): True,
        ("30.2", 30.24): True,
        ("31", 30.24): False,
        ("30.3", 30.24): False,
        ("1.6e-15", 1.554e-15): True,
        ("82,736", 82736.4): True,
        ("0", 0.0): True,
        ("0", 1.0): False,
    }
    assert {case: is_rounded(*case) for case in cases} == cases


@pytest.mark.parametrize("subsection", TABLES)
def test_the_tables_of_the_run(subsection: str) -> None:
    table = rows(section_of_run(subsection), "figure")
    expected = TABLES[subsection]
    assert len(table) == len(expected)
    for (label, median, target, verdict), names in zip(table, expected, strict=True):
        results = [RESULTS[name] for name in names]
        assert_figures(NUMBER.findall(median), names)
        targets = list(dict.fromkeys(each["target"] for each in results if each["target"] is not None))
        written = [float(number.replace(",", "")) for number in NUMBER.findall(target)]
        assert list(dict.fromkeys(written)) == targets, label
        if not targets:
            assert verdict == "", label
            continue
        missed = [each for each in results if each["met"] is False]
        assert verdict.startswith("missed" if missed else "met"), label
        if percents := re.findall(r"(\d+)(?= ?%|, \d+ %)", verdict):
            lacks = [abs(each["value"] - each["target"]) / each["target"] * 100 for each in missed]
            assert [float(each) for each in percents] == pytest.approx(lacks, abs=0.6), label


def test_sentences() -> None:
    of_this_page = [(RUN, *each) for each in PROSE] + [(SHORT, *each) for each in IN_SHORT]
    for text, pattern, names in [*of_this_page, *((page_text(page), *of) for page, *of in OTHER_PAGES)]:
        match = re.search(pattern, " ".join(text.split()))
        assert match, pattern
        assert_figures(list(match.groups()), names)
    assert "nothing due takes under a microsecond" in SHORT
    assert RESULTS["step.nothing_due"]["value"] < 1.0


def test_the_machine_of_the_run() -> None:
    machines = [each["machine"] for each in ENTRIES]
    loads = sorted(machine["load_average"] for machine in machines)
    assert f"load average {loads[0]:.2f} to {loads[-1]:.2f}" in RUN
    (cpu,) = {machine["cpu"] for machine in machines}
    (python,) = {machine["python"].rpartition(".")[0] for machine in machines}
    assert "Jazzy" in RUN
    assert cpu in RUN
    assert f"Python {python}" in RUN


def test_every_subsection_of_the_run_is_held_to_the_results() -> None:
    assert {"", *(each.partition("\n")[0] for each in SUBSECTIONS)} == TABLES.keys()


def patterns(cell: str) -> list[str]:
    """Return the names in a cell. A later name lacks the beginning that it shares with the first one."""
    first, *others = codes(cell)
    segments = first.split(".")
    assert segments[0] in NAMES, cell
    found = [first]
    for other in others:
        own = other.split(".")
        found.append(other if own[0] in NAMES else ".".join([*segments[: -len(own)], other]))
    return found


def test_every_result_is_explained_with_its_target() -> None:
    explained = set()
    for cell, _, target in rows(section(PAGE, "All figures"), "figure"):
        found = [name for pattern in patterns(cell) for name in RESULTS if fnmatch(name, pattern)]
        explained |= set(found)
        written = [float(number.replace(",", "")) for number in NUMBER.findall(target)]
        if found:
            targets = [RESULTS[name]["target"] for name in found]
            assert written == list(dict.fromkeys(each for each in targets if each is not None)), cell
    assert explained == RESULTS.keys()


def test_the_figures_of_two_distributions() -> None:
    # The C++ node and Ray are in the environment of Jazzy alone.
    of_both = {name for name in RESULTS if not name.endswith("_reference") and not name.startswith("sweep.")}
    assert of_both == KILTED.keys()
    table = rows(section(PAGE, "Jazzy beside Kilted"), "Jazzy beside Kilted")
    assert len(table) > 10
    for cell, *cells in table:
        (name,) = codes(cell)
        here, there = RESULTS[name]["value"], KILTED[name]["value"]
        for text, value in zip(cells, (here, there, here / there), strict=True):
            (number,) = NUMBER.findall(text)
            assert is_rounded(number, value), (name, text)
