"""Whether an engine's poses are those of the asset's joint frames: a check for assets and for converters."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.transforms import FloatArray, quaternion_conjugate, quaternion_multiply

_FARTHEST = np.pi


def mujoco_pose_errors(plan: BridgePlan, *, configurations: int = 50, seed: int = 0) -> FloatArray:
    """Puts all joints of the plan's robots to random positions in MuJoCo and compares bodies with the joint frames.

    Args:
        plan: With `physics`.
        configurations: How many.
        seed: Of the positions, which are within limits, and within half a turn or metre where there is none.

    Returns:
        (configurations, B, 2) metres and radians by which each body of the layout is elsewhere in MuJoCo; NaN for
        bodies that are no rigid bodies.

    Raises:
        ValueError: The plan has no physics.
    """
    if plan.physics is None:
        raise ValueError("the plan has no physics: load_plan(asset, physics=True)")
    layout, kinematics = plan.layout, Kinematics(plan)
    compiled = compile_model(build_spec(plan.physics, lambda *_: None))
    data = mujoco.MjData(compiled.model)
    compiled.start(data)
    rows = np.array([dof.row for dof in compiled.dofs], dtype=np.intp)
    places = {body.row: body_id for body, body_id in zip(plan.physics.bodies, compiled.body_ids, strict=True)}
    ids = np.array([places.get(row, -1) for row in range(len(layout.bodies))], dtype=np.intp)
    generator = np.random.default_rng(seed)
    lower, upper = layout.lower.clip(-_FARTHEST), layout.upper.clip(max=_FARTHEST)
    errors = np.full((configurations, len(ids), 2), np.nan)
    for configuration in range(configurations):
        position = generator.uniform(lower, np.maximum(lower, upper))
        compiled.put(data.qpos, np.where(rows >= 0, position[rows], 0.0))
        mujoco.mj_kinematics(compiled.model, data)
        errors[configuration] = _errors(data, ids, kinematics.body_poses(_state(plan, position)))
    return errors


def _errors(data: Any, ids: np.ndarray, expected: FloatArray) -> FloatArray:
    rotation = np.asarray(data.xquat)[ids][:, [1, 2, 3, 0]]
    turn = quaternion_multiply(quaternion_conjugate(expected[:, 3:]), rotation)
    angle = 2.0 * np.arctan2(np.linalg.norm(turn[:, :3], axis=-1), np.abs(turn[:, 3]))
    distance = np.linalg.norm(np.asarray(data.xpos)[ids] - expected[:, :3], axis=-1)
    return np.where((ids >= 0)[:, None], np.stack((distance, angle), axis=-1), np.nan)


def _state(plan: BridgePlan, position: FloatArray) -> State:
    still = np.zeros_like(position)
    pose = plan.layout.body_pose.copy()
    return State(time_ns=0, joint_position=position, joint_velocity=still, joint_effort=still, body_pose=pose)
