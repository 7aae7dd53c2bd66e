"""Assets of this repository: where they are, and plans of them, made once in a process."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.usd import quiet

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
ASSETS = ROOT / "test" / "assets"
ARM = EXAMPLES / "arm" / "arm.usda"
FLEET = EXAMPLES / "fleet" / "fleet.usda"
ROVER = EXAMPLES / "rover" / "rover.usda"
ROVER_IN_WORLD = EXAMPLES / "rover" / "world.usda"


@functools.cache
def plan_of(asset: Path, *variants: str, physics: bool = True, **options: Any) -> BridgePlan:
    """Return the plan of an asset. Tests share it: do not change its arrays.

    It has no stage: a stage that lives keeps its layers, and edits of them, for later tests.

    Args:
        asset: The file.
        variants: Choices as `/Prim/Path:set=variant`.
        physics: Plan what engines simulate, too.
        options: Fields of PlanOptions.
    """
    with quiet():
        plan = load_plan(asset, variants=variants, plan_options=PlanOptions(**options), physics=physics)
    return replace(plan, stage=None)
