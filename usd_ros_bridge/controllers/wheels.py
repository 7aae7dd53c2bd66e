"""The wheels of differential drives: which rows they are, and which way each rolls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from usd_ros_bridge.controllers.odometry import Wheels
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, DofAxis, JointPlan, Pose
from usd_ros_bridge.model.state import FloatArray
from usd_ros_bridge.model.transforms import IDENTITY, compose, pose, rotate

_AXES: dict[DofAxis, FloatArray] = {
    "rotX": np.array([1.0, 0.0, 0.0]),
    "rotY": np.array([0.0, 1.0, 0.0]),
    "rotZ": np.array([0.0, 0.0, 1.0]),
}
_CLEAR = 0.5
"""Cosine of the angle between a wheel's axis and the line from right to left, from which on the axis tells a sense."""


def find_wheels(plan: BridgePlan, drives: Sequence[ControllerPlan]) -> Wheels:
    """Returns the wheels of drives that can run; the others have none.

    Which way a wheel rolls follows from its axis at rest: about the direction from the right to the left wheels a
    positive turn rolls ahead (right-hand rule; body1 turns relative to body0). diff_drive_controller takes every
    positive turn for ahead; an asset whose axes are mirrored from side to side would spin there.
    """
    rows: list[int] = []
    slots: list[int] = []
    signs: list[float] = []
    for index, drive in enumerate(drives):
        sides = [_side_rows(drive, name) for name in ("left_wheels", "right_wheels")]
        if not (drive.switchable and all(sides)):
            continue
        for side, of_side in enumerate(sides):
            rows += of_side
            slots += [2 * index + side] * len(of_side)
        signs += _signs(plan, drive, sides)
    return Wheels(
        rows=np.array(rows, dtype=np.intp),
        slots=np.array(slots, dtype=np.intp),
        signs=np.array(signs, dtype=np.float64),
        radius=np.array([drive.parameters.get("wheel_radius") or 1.0 for drive in drives], dtype=np.float64),
        separation=np.array(
            [drive.parameters.get("wheel_separation") or 1.0 for drive in drives], dtype=np.float64
        ),
    )


def _side_rows(drive: ControllerPlan, parameter: str) -> list[int]:
    """Returns the rows of a side's wheels; those that follow another are not commanded and are none of them."""
    row_by_name = dict(zip(drive.joints, drive.dofs, strict=True))
    return [row_by_name[name] for name in drive.parameters.get(parameter) or () if name in row_by_name]


def _signs(plan: BridgePlan, drive: ControllerPlan, sides: Sequence[list[int]]) -> list[float]:
    joints = {dof.row: (joint, dof.axis) for joint in plan.robots[drive.robot].joints for dof in joint.dofs}
    frames = [np.array([_world_from_joint(plan, joints[row][0]) for row in rows]) for rows in sides]
    to_left = frames[0][:, :3].mean(axis=0) - frames[1][:, :3].mean(axis=0)
    length = float(np.linalg.norm(to_left))
    signs = []
    for rows, of_side in zip(sides, frames, strict=True):
        for row, world_from_joint in zip(rows, of_side, strict=True):
            joint, axis = joints[row]
            along = float(rotate(world_from_joint[3:], _AXES[axis]) @ to_left) if axis in _AXES else 0.0
            backwards = (-along if joint.inverted else along) < -_CLEAR * length
            signs.append(-1.0 if backwards and length > 0.0 else 1.0)
    return signs


def _world_from_joint(plan: BridgePlan, joint: JointPlan) -> FloatArray:
    """Returns where the joint's frame in body0 is at rest."""
    body0 = joint.child_path if joint.inverted else joint.parent_path
    row = plan.layout.body_index.get(body0, -1)
    world_from_body = plan.layout.body_pose[row] if row >= 0 else IDENTITY
    return compose(world_from_body, _array(joint.body0_from_joint))


def _array(value: Pose) -> FloatArray:
    return pose(value.translation, value.rotation)
