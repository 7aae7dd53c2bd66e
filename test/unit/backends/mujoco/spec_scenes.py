"""Scenes made by hand for tests of the converter, and what they become."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel, compile_model
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Collider,
    Dof,
    Inertial,
    Joint,
    PhysicsScene,
    Shape,
)
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, pose_array, xyzw
from usd_ros_bridge.spatial.transforms import pose as make_pose

GRAVITY = 9.81
UNIT = Inertial(mass=1.0, diagonal=(0.01, 0.01, 0.01))


class Reports(dict[str, str]):
    """Keeps what is reported, by kind."""

    def __call__(self, kind: str, message: str) -> None:
        """Keeps the first message of a kind."""
        self.setdefault(kind, message)


def built(scene: PhysicsScene, reports: Reports | None = None, **options: Any) -> SpecBuilder:
    """Returns the specification of a scene; without `reports`, any report fails the test."""
    reports_here = Reports() if reports is None else reports
    made = build_spec(scene, reports_here, options=MujocoOptions(**options))
    assert reports is not None or not reports_here, dict(reports_here)
    return made


def simulated(
    scene: PhysicsScene, reports: Reports | None = None, **options: Any
) -> tuple[CompiledModel, Any, Any]:
    """Returns a scene compiled, its model, and MjData at the start."""
    compiled = compile_model(built(scene, reports, **options))
    data = mujoco.MjData(compiled.model)
    compiled.start(data)
    return compiled, compiled.model, data


def run(model: Any, data: Any, seconds: float) -> None:
    """Steps, and makes poses and efforts current."""
    mujoco.mj_step(model, data, nstep=round(seconds / model.opt.timestep))
    mujoco.mj_forward(model, data)


def mass_matrix(model: Any, data: Any) -> FloatArray:
    """Returns the mass matrix (nv, nv) of the state that was computed last."""
    full = np.zeros((model.nv, model.nv))
    for row, unit in zip(full, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, unit)
    return full


def body_pose(compiled: CompiledModel, data: Any, body: int) -> FloatArray:
    """Returns `world_from_body` (7,)."""
    found = compiled.body_ids[body]
    pose: FloatArray = np.concatenate([data.xpos[found], xyzw(data.xquat[found])])
    return pose


def apart(one: FloatArray, other: FloatArray) -> float:
    """Returns the largest difference of two poses; quaternions up to their sign."""
    sign = math.copysign(1.0, float(np.dot(one[3:], other[3:])))
    return float(np.abs(np.concatenate([one[:3] - other[:3], one[3:] - sign * other[3:]])).max())


def motion(dofs: Sequence[Dof], positions: Sequence[float]) -> FloatArray:
    """Returns the product of a joint's motions, by definition: one after another, in the joint frame."""
    total = make_pose()
    for dof, position in zip(dofs, positions, strict=True):
        unit = np.eye(3)["XYZ".index(dof.axis[-1])]
        if dof.axis.startswith("trans"):
            step = make_pose(unit * position)
        else:
            step = make_pose((0, 0, 0), (*(unit * math.sin(position / 2)), math.cos(position / 2)))
        total = compose(total, step)
    return total


def body0_from_body1(joint: Joint, positions: Sequence[float]) -> FloatArray:
    """Returns what a joint's definition says."""
    moved = compose(pose_array(joint.body0_from_joint), motion(joint.dofs, positions))
    return compose(moved, inverse(pose_array(joint.body1_from_joint)))


def random_pose(random: np.random.Generator) -> Pose:
    """Returns a pose within a metre, turned any way."""
    x, y, z = random.uniform(-1.0, 1.0, 3).tolist()
    quaternion = random.normal(size=4)
    a, b, c, d = (quaternion / np.linalg.norm(quaternion)).tolist()
    return Pose((x, y, z), (a, b, c, d))


def hinged(
    *,
    dof: Dof | None = None,
    inertial: Inertial = UNIT,
    body0_from_joint: Pose = IDENTITY_POSE,
    body1_from_joint: Pose = IDENTITY_POSE,
    joint_solver: Mapping[str, Any] | None = None,
    **others: Any,
) -> PhysicsScene:
    """Returns a body that hangs from the world by a hinge about Y."""
    joint = Joint(
        path="/joint", type="revolute", body0=WORLD_BODY, body1=0, axis="Y", dofs=(dof or Dof(axis="rotY"),),
        body0_from_joint=body0_from_joint, body1_from_joint=body1_from_joint, solver=joint_solver or {},
    )  # fmt: skip
    body = Body(path="/body", inertial=inertial, joints=(0,))
    return PhysicsScene(bodies=(body,), joints=(joint,), **others)


def collider(
    body: int, shape: Shape, *, path: str = "", pose: Pose = IDENTITY_POSE, **others: Any
) -> Collider:
    """Returns a collider, named after its body if not otherwise."""
    return Collider(
        path=path or f"/collider_{body}", body=body, body_from_shape=pose, shape=shape, **others
    )  # fmt: skip


def turned(axis: str, angle: float, translation: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Pose:
    """Returns a pose turned about X, Y or Z."""
    x, y, z = (np.eye(3)["XYZ".index(axis)] * math.sin(angle / 2)).tolist()
    return Pose(translation, (x, y, z, math.cos(angle / 2)))
