"""Two imports of one asset: the bridge's own converter and Newton's, both simulated by MuJoCo on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pxr import Usd

pytest.importorskip("newton", reason="Newton has an environment of its own: make test-newton")

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.base import Backend, BackendContext
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.backends.newton import NewtonBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands

ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
STEP = 2_000_000
STEPS = 1500
JOINTS = [f"joint_{number}" for number in range(1, 7)]


def arm_without_speed_limits() -> Usd.Stage:
    """The bridge's own backend brings targets no faster than those, which Newton's solver does not know."""
    stage = Usd.Stage.Open(str(ARM))
    (layer,) = (each for each in stage.GetUsedLayers() if each.identifier.endswith("physx.usda"))
    stage.MuteLayer(layer.identifier)
    return stage


def answer(backend: Backend, plan: BridgePlan, target: np.ndarray) -> np.ndarray:
    """Returns (STEPS, D) positions after all drives were told `target` (D,) at once."""
    backend.open(BackendContext(plan=plan, report=lambda *_: None, options={"dt": "0.002"}))
    backend.step(0, Commands(plan.layout))
    commands = Commands(plan.layout)
    commands.joint_position[:] = target
    positions = []
    for step in range(1, STEPS + 1):
        state = backend.step(step * STEP, commands)
        commands = Commands(plan.layout)
        positions.append(state.joint_position.copy())
    backend.close()
    return np.array(positions)


@pytest.mark.parametrize("scale", [0.5, -0.4])
def test_the_arm_answers_a_step_alike(scale: float) -> None:
    plan = load_plan(arm_without_speed_limits(), physics=True)
    assert np.isinf(plan.layout.max_velocity).all()
    rows = [plan.layout.dofs.index(name) for name in JOINTS]
    target = np.full(len(plan.layout.dofs), np.nan)
    target[rows] = scale * np.array([1.0, 0.8, -0.9, 1.2, 0.7, -1.0])
    ours, theirs = (answer(backend, plan, target) for backend in (MujocoBackend(), NewtonBackend()))
    ranges = (plan.layout.upper - plan.layout.lower)[rows]
    assert np.isfinite(ranges).all()
    moved = np.ptp(ours[:, rows], axis=0)
    assert (moved > 0.1).all(), "a joint that hardly moves would show nothing"
    apart = np.abs(ours - theirs)[:, rows].max(axis=0) / ranges
    assert (apart < 0.02).all(), apart
