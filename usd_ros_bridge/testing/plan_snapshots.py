"""Plan snapshots: the plan of an asset against a golden file, `inspect --json`, that a test run can write again."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

import pytest

from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan

DIGITS = 6
"""Decimal places of numbers: fewer than differ between processors."""
MAX_LINES = 100
"""Lines of a difference that are shown."""


def snapshot_text(plan: BridgePlan) -> str:
    """Return a plan as `inspect --json` prints it, alike on every machine: no absolute paths, rounded numbers."""
    asset = plan.asset
    values = {**plan_to_json(plan), "asset": os.path.basename(asset)}  # noqa: PTH119 - it may be no path
    text = json.dumps(rounded(values), indent=1, allow_nan=False, ensure_ascii=False)
    folder = os.path.dirname(os.path.abspath(asset))  # noqa: PTH100, PTH120 - it may be no path
    return text.replace(f"{folder}/", "") + "\n"


def check_snapshot(plan: BridgePlan, file: Path, *, update: bool) -> None:
    """Compare a plan with its snapshot. The test fails if they differ, or if there is none.

    Args:
        plan: The plan.
        file: The snapshot.
        update: Write the snapshot instead.
    """
    __tracebackhide__ = True
    text = snapshot_text(plan)
    if update:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    if not file.exists():
        pytest.fail(f"there is no snapshot {file}: `pytest --update` writes it")
    kept = file.read_text(encoding="utf-8")
    if kept == text:
        return
    lines = list(
        difflib.unified_diff(
            kept.splitlines(), text.splitlines(), "snapshot", f"plan of {plan.asset}", lineterm="", n=4
        )
    )
    more = f"\n... and {len(lines) - MAX_LINES} more lines" if len(lines) > MAX_LINES else ""
    pytest.fail(
        f"the plan is not that of {file}; if that is meant, `pytest --update` writes it\n"
        + "\n".join(lines[:MAX_LINES])
        + more
    )


def rounded(value: object) -> object:
    """Return JSON data with its numbers rounded: below what float32, and other processors, make of them."""
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value
