"""Plans of the examples, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="session")
def arm() -> BridgePlan:
    return load_plan(EXAMPLES / "arm" / "arm.usda", physics=True)


@pytest.fixture(scope="session")
def rover() -> BridgePlan:
    return load_plan(EXAMPLES / "rover" / "rover.usda", physics=True)
