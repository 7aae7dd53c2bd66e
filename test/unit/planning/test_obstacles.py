"""Robots of other bridges as obstacles: shapes that stand where the whole stage has them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builders.carts import write_rovers, write_sliders
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.spatial.transforms import pose_array

PLACES = ((0.0, 0.0), (2.0, 0.5), (0.0, 3.0))
WRITERS = (write_sliders, write_rovers)
CODE = "2.1.obstacles"


def shard(asset: Path, number: int, *, physics: bool = True, **options: str) -> BridgePlan:
    return load_plan(asset, plan_options=PlanOptions(shard=f"{number}/3", **options), physics=physics)  # type: ignore[arg-type]


@pytest.mark.parametrize("write", WRITERS)
def test_obstacles_are_the_bodies_that_the_whole_stage_has(write, tmp_path: Path) -> None:
    asset = write(tmp_path, PLACES)
    whole = load_plan(asset, physics=True).physics
    assert whole is not None
    wanted = {body.path: body for body in whole.bodies}
    shapes = {each.path: each for each in whole.colliders}
    for number in (1, 2, 3):
        scene = shard(asset, number, other_robots="obstacles").physics
        assert scene is not None
        assert {body.path for body in scene.bodies} == set(wanted)
        for body in scene.bodies:
            is_own = body.path.startswith(f"/World/robot_{number}")
            assert body.obstacle is not is_own
            if is_own:
                continue
            assert (body.kinematic, body.row, body.robot, body.joints, body.parent) == (True, -1, -1, (), -1)
            ours, theirs = (pose_array(each.world_from_body) for each in (body, wanted[body.path]))
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert {each.path for each in scene.colliders} == set(shapes)
        for each in scene.colliders:
            assert type(each.shape) is type(shapes[each.path].shape)
            there = scene.bodies[each.body].path if each.body >= 0 else ""
            expected = shapes[each.path].body
            assert there == (whole.bodies[expected].path if expected >= 0 else "")


@pytest.mark.parametrize("write", WRITERS)
def test_all_else_of_the_plan_is_as_without_them(write, tmp_path: Path) -> None:
    asset = write(tmp_path, PLACES)
    for number in (1, 2, 3):
        left_out, obstacles = (shard(asset, number, other_robots=kind) for kind in ("leave_out", "obstacles"))
        plain, other = plan_to_json(left_out), plan_to_json(obstacles)
        found = [each for each in obstacles.diagnostics if each.code == CODE]
        assert len(found) == 1, "one for all"
        assert found[0].severity == "info"
        assert all(f"/World/robot_{each}" in found[0].message for each in (1, 2, 3) if each != number)
        assert [each for each in obstacles.diagnostics if each.code != CODE] == list(left_out.diagnostics)
        for part in (plain, other):
            del part["diagnostics"], part["physics"]
        assert plain == other
        assert left_out.physics is not None
        assert obstacles.physics is not None
        assert left_out.physics.gravity == obstacles.physics.gravity
        for name in ("joints", "sensors", "actuators", "tendons", "visuals"):
            ours, theirs = (
                [each.path for each in getattr(scene, name) if each.path.startswith(f"/World/robot_{number}")]
                for scene in (left_out.physics, obstacles.physics)
            )
            assert ours == theirs, name
            if name != "visuals":
                assert len(getattr(obstacles.physics, name)) == len(ours), name


def test_without_physics_there_are_no_obstacles(tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, PLACES)
    plain, other = (
        plan_to_json(shard(asset, 2, physics=False, other_robots=kind)) for kind in ("leave_out", "obstacles")
    )
    assert plain == other


def test_a_bridge_of_all_robots_has_none(tmp_path: Path) -> None:
    plan = load_plan(
        write_sliders(tmp_path, PLACES), plan_options=PlanOptions(other_robots="obstacles"), physics=True
    )
    assert plan.physics is not None
    assert not any(body.obstacle for body in plan.physics.bodies)
    assert CODE not in {each.code for each in plan.diagnostics}
