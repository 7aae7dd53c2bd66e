"""A backend that follows another goes on from its state, bit for bit where the scene is the same."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed")

from open_backend import arm, with_physics

from open_backends import OpenBackend
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import StateTransferBackend
from usd_ros_bridge.backends.mujoco.backend import MujocoBackend
from usd_ros_bridge.model.physics import Drive
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.usd import open_stage
from usd_ros_bridge.usd.edit.spawn import Spawner

ROVER = Path(__file__).resolve().parents[4] / "examples" / "rover"


def opened(plan, backend=None):
    return OpenBackend(plan, backend or MujocoBackend(), gl="none").backend


def drive(plan, speed):
    commands = Commands(plan.layout)
    wheels = [row for row, name in enumerate(plan.layout.dofs) if "wheel" in name]
    assert wheels
    commands.joint_velocity[wheels] = speed
    return commands


def run(backend, plan, steps, speed=None):
    step_ns = backend.capabilities.step_ns
    commands = Commands(plan.layout) if speed is None else drive(plan, speed)
    for _ in range(steps):
        state = backend.step(backend.simulation.time_ns + step_ns, commands)
        commands = Commands(plan.layout)
    return state


def test_what_is_closed_is_freed_without_a_search_of_the_collector():
    backend = opened(load_plan(ROVER / "world.usda", physics=True))
    run(backend, load_plan(ROVER / "world.usda", physics=True), 2)
    simulation = weakref.ref(backend.simulation)
    gc.disable()
    try:
        backend.close()
        assert simulation() is None
    finally:
        gc.enable()


def test_successor_goes_on_bit_for_bit():
    plan = load_plan(ROVER / "world.usda", physics=True)
    first = opened(plan)
    assert isinstance(first, StateTransferBackend)
    run(first, plan, 300, speed=4.0)
    second = opened(plan, first.new_instance())
    second.transfer_state(first)
    expected, found = run(first, plan, 300), run(second, plan, 300)
    assert found.time_ns == expected.time_ns
    np.testing.assert_array_equal(found.body_pose, expected.body_pose)
    np.testing.assert_array_equal(found.joint_velocity, expected.joint_velocity)
    # The command of before still holds: it drives.
    assert np.abs(found.joint_velocity).max() > 3.0
    first.close()
    second.close()


def test_what_both_have_is_found_by_name_whatever_its_row():
    stage = open_stage(str(ROVER / "world.usda"))
    before = load_plan(stage, physics=True)
    first = opened(before)
    run(first, before, 300, speed=4.0)
    place = np.array([-5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    Spawner(stage).spawn("aaa", ROVER / "rover.usda", namespace="other", world_from_prim=place)
    after = load_plan(stage, physics=True)
    assert len(after.layout.bodies) > len(before.layout.bodies)
    second = opened(after, first.new_instance())
    second.transfer_state(first)
    for path in first.entities():
        np.testing.assert_array_equal(second.entity_state(path).pose, first.entity_state(path).pose)
        np.testing.assert_allclose(
            second.entity_state(path).twist, first.entity_state(path).twist, atol=1e-12
        )
    np.testing.assert_allclose(second.entity_state("/aaa").pose, place, atol=1e-9)
    expected, found = run(first, before, 200), run(second, after, 200)
    rows = [after.layout.body_index[path] for path in before.layout.bodies]
    np.testing.assert_allclose(found.body_pose[rows], expected.body_pose, atol=1e-6)
    first.close()
    second.close()


def test_reset_of_a_successor_is_the_asset_at_rest():
    plan = load_plan(ROVER / "world.usda", physics=True)
    first = opened(plan)
    rest = first.entity_state("/World/rover").pose.copy()
    run(first, plan, 200, speed=4.0)
    second = opened(plan, first.new_instance())
    second.transfer_state(first)
    assert np.abs(second.entity_state("/World/rover").pose - rest).max() > 1e-3
    second.reset()
    np.testing.assert_array_equal(second.entity_state("/World/rover").pose, rest)
    first.close()
    second.close()


def driven_arm(targets, **options):
    """An arm without gravity whose drives have targets; a second target adds a second joint."""
    builder = arm(**options)
    for name in list(targets)[1:]:
        robot = builder.robots[0]
        robot.body(f"{name}_link")
        robot.joint(name, "link", f"{name}_link", axis="Y", **options)
    drives = {
        name: Drive(stiffness=1e4, damping=1e2, target_position=target) for name, target in targets.items()
    }
    return with_physics(builder.build(), drives=drives)


def followed(before, after, steps, commands=None):
    """The state of a backend on a plan that goes on from one on another plan for some steps."""
    first = opened(before)
    first.step(first.capabilities.step_ns, commands or Commands(before.layout))
    second = opened(after, first.new_instance())
    second.transfer_state(first)
    return run(second, after, steps)


def test_a_joint_that_is_added_goes_to_its_authored_target():
    before, after = (
        driven_arm(targets, max_velocity=1.0) for targets in ({"elbow": 0.0}, {"elbow": 0.0, "wrist": 0.3})
    )
    state = followed(before, after, 400)
    assert state.joint_position[after.layout.dofs.index("wrist")] == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize(("fastest", "expected"), [(0.5, 0.2), (2.0, 0.8), (np.inf, 1.0)])
def test_a_changed_maximum_velocity_is_that_of_the_target_on_its_way(fastest, expected):
    before, after = (driven_arm({"elbow": 0.0}, max_velocity=limit) for limit in (1.0, fastest))
    commands = Commands(before.layout)
    commands.joint_position[:] = 1.0
    state = followed(before, after, 200, commands)
    assert state.joint_position[0] == pytest.approx(expected, abs=0.06)
