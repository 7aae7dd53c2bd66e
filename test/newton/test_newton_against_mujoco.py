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


def answer(
    backend: Backend, plan: BridgePlan, target: np.ndarray, *, substeps: int = 1, **options: str
) -> np.ndarray:
    """Returns (STEPS, D) positions after all drives were told `target` (D,) at once."""
    given = {"dt": f"{0.002 / substeps:g}", **options}
    backend.open(BackendContext(plan=plan, report=lambda *_: None, options=given))
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
    """By actuators, as in Newton. The rows of the solver are nearer to what short steps give."""
    plan = load_plan(arm_without_speed_limits(), physics=True)
    assert np.isinf(plan.layout.max_velocity).all()
    rows = [plan.layout.dofs.index(name) for name in JOINTS]
    target = np.full(len(plan.layout.dofs), np.nan)
    target[rows] = scale * np.array([1.0, 0.8, -0.9, 1.2, 0.7, -1.0])
    ours = answer(MujocoBackend(), plan, target, stiff_drives="off")
    theirs = answer(NewtonBackend(), plan, target)
    ranges = (plan.layout.upper - plan.layout.lower)[rows]
    assert np.isfinite(ranges).all()
    moved = np.ptp(ours[:, rows], axis=0)
    assert (moved > 0.1).all(), "a joint that hardly moves would show nothing"

    def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The greatest distance on the way, as a share of each joint's range."""
        return np.asarray(np.abs(one - other)[:, rows].max(axis=0) / ranges)

    assert (apart(ours, theirs) < 0.02).all(), apart(ours, theirs)
    exact = answer(MujocoBackend(), plan, target, substeps=20, stiff_drives="off")
    by_rows = answer(MujocoBackend(), plan, target)
    assert (apart(by_rows, exact) < 0.01).all(), apart(by_rows, exact)
    assert apart(by_rows, exact).max() < apart(theirs, exact).max()
