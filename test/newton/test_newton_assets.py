"""Every asset in Newton's wheel that has joints, in MuJoCo: bodies are where joint frames put them, and it steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

newton = pytest.importorskip("newton", reason="Newton has an environment of its own: make test-newton")

from builders.poses import mujoco_pose_errors  # noqa: E402
from usd_ros_bridge.api import load_plan  # noqa: E402 - only where Newton is
from usd_ros_bridge.backends.base import BackendContext  # noqa: E402
from usd_ros_bridge.backends.mujoco import MujocoBackend  # noqa: E402
from usd_ros_bridge.model.state import Commands  # noqa: E402

WHEEL = Path(newton.__file__).parent
ASSETS = sorted(path for path in WHEEL.rglob("*.usd*") if path.suffix in (".usd", ".usda", ".usdc"))
STEPS = 100
STEP = 2_000_000


def test_the_wheel_has_the_assets_that_are_meant() -> None:
    assert len(ASSETS) > 60


@pytest.mark.parametrize("asset", ASSETS, ids=lambda path: str(path.relative_to(WHEEL)))
def test_joints_are_where_their_frames_put_them(asset: Path) -> None:
    plan = load_plan(asset, physics=True)
    assert plan.physics is not None
    if not plan.physics.joints:
        pytest.skip("has no joints")
    errors = mujoco_pose_errors(plan)
    assert np.isfinite(errors).all()
    assert errors.max(initial=0.0) <= 1e-9
    said: list[str] = []
    backend = MujocoBackend()
    backend.open(BackendContext(plan=plan, report=lambda _, message: said.append(message)))
    nothing = Commands(plan.layout)
    for step in range(STEPS):
        state = backend.step(step * STEP, nothing)
    backend.close()
    assert np.isfinite(state.joint_position).all()
    assert np.isfinite(state.body_pose).all()
