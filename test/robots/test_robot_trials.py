"""Imported robots drive, turn and grip as they are told: twins of real ones, and robots from packages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: run `make setup`")
pytest.importorskip("mujoco", reason="mujoco is not installed: run `make setup`")

from robot_trials import Robot, import_robot, read_list, table, try_robot

HERE = Path(__file__).parent
TWINS = read_list(HERE / "twins.yaml")
PACKAGED = {
    "tiago": Robot(name="tiago", file="", traits="two wheels, casters, arm"),
    "panda_gripper": Robot(name="panda_gripper", file="", traits="gripper (MJCF)"),
}


@pytest.fixture(autouse=True)
def domain(other_domain_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goals go over the middleware, in this process."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(other_domain_id))


@pytest.mark.skipif(
    not os.environ.get("USD_ROS_CONVERTER"), reason="USD_ROS_CONVERTER: `make test-robots` sets it"
)
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_twins_of_real_robots(twin: Robot, tmp_path: Path) -> None:
    check(twin, import_robot(twin, HERE / "twins", tmp_path / twin.name))


@pytest.mark.parametrize("name", PACKAGED)
def test_robots_from_packages(name: str, sources: Mapping[str, Path], tmp_path: Path) -> None:
    check(PACKAGED[name], import_robot(PACKAGED[name], sources[name], tmp_path / name))


def check(robot: Robot, asset: Path) -> None:
    trial = try_robot(asset, robot)
    print(table([(robot, trial)]))
    missed = {limit: value for limit, value in trial.missed().items() if limit not in robot.misses}
    assert not missed, (robot.name, missed, trial)
    assert trial.goals[1] or trial.turned > 0.0
