"""Fixtures of the robot tests: the converted robots, and a table of the largest errors at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

# Before any message module is imported, which is when rclpy reads it.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# The import mode "importlib" leaves sys.path alone, so the helpers beside this file would not be found.
sys.path.insert(0, str(Path(__file__).parent))

from robot_oracle import Errors, RobotOracle, load_oracle

ROBOTS = ("panda", "ur5", "solo12", "kinova")
DIRECTORY_VARIABLE = "USD_ROS_BRIDGE_ROBOTS"
RESULTS = pytest.StashKey[dict[str, dict[str, Errors]]]()


@pytest.fixture(scope="session", params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> RobotOracle:
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        pytest.skip(f"{DIRECTORY_VARIABLE} is not set: `make test-robots` converts the robots and sets it")
    return load_oracle(Path(directory) / request.param)


@pytest.fixture(scope="session")
def sources() -> Mapping[str, Path]:
    """The robots' own files, by name."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        pytest.skip(f"{DIRECTORY_VARIABLE} is not set: `make test-robots` sets it")
    content = json.loads((Path(directory) / "sources.json").read_text(encoding="utf-8"))
    return {name: Path(path) for name, path in content.items()}


@pytest.fixture
def errors(request: pytest.FixtureRequest, robot: RobotOracle) -> Errors:
    """Filled by the test, shown in the table at the end, whether the test passes or not."""
    result = Errors()
    test = request.node.originalname
    request.config.stash.setdefault(RESULTS, {}).setdefault(test, {})[robot.name] = result
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    results = terminalreporter.config.stash.get(RESULTS, {})
    for test, robots in results.items():
        terminalreporter.section(f"{test}: largest error against pinocchio")
        terminalreporter.line(
            f"{'robot':<8} {'position [m]':>12} {'angle [rad]':>12} {'frames':>7} "
            f"{'configurations':>15} {'poses':>6}  where"
        )
        for name, result in robots.items():
            terminalreporter.line(
                f"{name:<8} {result.position:>12.2e} {result.angle:>12.2e} {result.frames:>7} "
                f"{result.configurations:>15} {result.poses:>6}  {result.position_at}, {result.angle_at}"
            )
