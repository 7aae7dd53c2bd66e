"""`inspect` is a list on a narrow terminal, and shortens no name at any width."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.views import NARROW, TerminalConsole, print_plan
from usd_ros_bridge.model.plan import BridgePlan

ROOT = Path(__file__).parents[3]
WIDTHS = [60, 80, 119, 120, 200]


@pytest.fixture(scope="module")
def plans() -> list[BridgePlan]:
    assets = ("examples/arm/arm.usda", "test/assets/error_controllers.usda")
    return [load_plan(str(ROOT / asset)) for asset in assets]


def printed(plan: BridgePlan, width: int) -> str:
    stream = io.StringIO()
    print_plan(plan, TerminalConsole(file=stream, width=width))
    return stream.getvalue()


def names_in(plan: BridgePlan) -> list[str]:
    named = [*plan.topics, *plan.services, *plan.actions]
    frames = [frame.id for robot in plan.robots for frame in robot.frames]
    joints = [joint.name for robot in plan.robots for joint in robot.joints]
    return [*(each.name for each in named), *(each.type for each in named), *frames, *joints]


def test_a_narrow_terminal_gets_a_line_for_each_name_and_nothing_is_cut(plans: list[BridgePlan]) -> None:
    for plan, width in itertools.product(plans, [width for width in WIDTHS if width < NARROW]):
        text = printed(plan, width)
        assert "┃" not in text
        assert [name for name in names_in(plan) if name not in text] == []
        for diagnostic in plan.diagnostics:
            for part in (diagnostic.path, diagnostic.attribute, diagnostic.message, diagnostic.remedy):
                assert part in text
        assert [topic.name for topic in plan.topics if f"  {topic.name}\n" not in text] == []


def test_a_wide_terminal_gets_tables_that_wrap_and_never_cut(plans: list[BridgePlan]) -> None:
    for plan, width in itertools.product(plans, [width for width in WIDTHS if width >= NARROW]):
        text = printed(plan, width)
        assert "┃" in text
        assert "…" not in text
        letters = re.sub(r"[\s│┃]", "", text)
        frames = [frame.id for robot in plan.robots for frame in robot.frames]
        assert [name for name in frames if name not in letters] == []


def test_the_numbers_come_last(plans: list[BridgePlan]) -> None:
    for plan, width in itertools.product(plans, WIDTHS):
        last = printed(plan, width).strip().splitlines()[-1]
        assert f"{len(plan.topics)} topics" in last.replace("\n", " ")
