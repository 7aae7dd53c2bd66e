"""The standard simulation interfaces over DDS with the rover's world in MuJoCo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from simulation_client import FAILED, OK, PAUSED, Simulator, seconds
from simulation_interfaces.srv import GetEntityBounds, GetEntityState, ResetSimulation, StepSimulation

from usd_ros_bridge import load_plan

WORLD = Path(__file__).resolve().parents[2] / "examples" / "rover" / "world.usda"


@pytest.fixture(scope="module")
def world():
    return load_plan(WORLD, physics=True)


@pytest.fixture
def simulator(start, ros_harness, world):
    options = {"gl": "none"}
    start(world, "mujoco", backend_options=options, start_paused=True)
    return Simulator(ros_harness)


def pose(simulator, entity):
    response = simulator.ask(GetEntityState, entity=entity)
    assert response.result.result == OK, response.result.error_message
    p, q = response.state.pose.position, response.state.pose.orientation
    return np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])


def test_robot_props_and_links_are_entities(simulator):
    assert simulator.state() == PAUSED
    assert simulator.entities(filter="^[^/]+$") == ["rover", "crate"]
    assert simulator.entities(filter="wheel") == ["rover/left_wheel", "rover/right_wheel"]


def test_robot_is_put_elsewhere_with_all_that_hangs_from_it(simulator):
    simulator.ask(StepSimulation, steps=500)
    rover, wheel = pose(simulator, "rover"), pose(simulator, "rover/left_wheel")
    assert simulator.put("rover", xyz=(1.0, 0.0, 0.0), frame="rover").result == OK
    forward = pose(simulator, "rover")[:3] - rover[:3]
    assert np.linalg.norm(forward) == pytest.approx(1.0)
    np.testing.assert_allclose(pose(simulator, "rover/left_wheel")[:3] - wheel[:3], forward, atol=1e-9)
    simulator.ask(StepSimulation, steps=100)
    # It stands where it was put: nothing pushes it.
    np.testing.assert_allclose(pose(simulator, "rover")[:3], rover[:3] + forward, atol=5e-3)


def test_wheel_goes_nowhere_by_itself(simulator):
    refused = simulator.put("rover/left_wheel", xyz=(0.0, 0.0, 1.0))
    assert refused.result == FAILED
    assert "left_wheel" in refused.error_message


def test_dropped_crate_comes_to_rest_on_the_floor(simulator):
    box = simulator.ask(GetEntityBounds, entity="crate").bounds
    half = box.points[0].z
    before = pose(simulator, "crate")
    assert simulator.put("crate", xyz=(before[0], before[1], half + 0.5)).result == OK
    assert simulator.ask(StepSimulation, steps=1000).result.result == OK
    state = simulator.ask(GetEntityState, entity="crate").state
    assert seconds(state) == pytest.approx(2.0)
    assert state.pose.position.z == pytest.approx(half, abs=5e-3)
    assert abs(state.twist.linear.z) < 1e-2
    assert simulator.ask(ResetSimulation).result.result == OK
    np.testing.assert_allclose(pose(simulator, "crate"), before, atol=1e-12)
