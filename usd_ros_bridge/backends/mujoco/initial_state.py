"""The initial state of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.joints import BallJoints
from usd_ros_bridge.model.physics import Body, Dof, Joint, PhysicsScene
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    IndexArray,
    pose_array,
    quaternion_conjugate,
    rotate,
    wxyz,
    xyzw,
)

_SHOWN = 3
"""Joints that a report names; the others are counted."""
_OUTSIDE = 1e-3
"""rad or m: excess of a limit without a report: rounding to single precision."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InitialState:
    """The initial state, in addition to MuJoCo's own reset.

    Attributes:
        qpos: (nq,) positions.
        qvel: (nv,) velocities.
        ctrl: (nu,) targets of the drives.
        free_dof: (F,) addresses in `qvel` of the free joints.
        gravity_scale: (F,) share of gravity that acts on those bodies.
        trees: By free joint, the addresses in `qvel` of the body and its descendants.
        leapfrog: Bodies in free flight have velocities half a step early.
    """

    qpos: FloatArray
    qvel: FloatArray
    ctrl: FloatArray
    free_dof: IndexArray
    gravity_scale: FloatArray
    trees: tuple[IndexArray, ...]
    leapfrog: bool = True

    def apply(self, model: Any, data: Any) -> None:
        """Set `data` to the initial state.

        Bodies in free flight get the velocity half a step early: MuJoCo's integrators move by the velocity at the end
        of a step, so that a fall would be ahead by `g t dt / 2` (10 mm after 1 s at 2 ms). The leapfrog scheme makes it
        exact. An asset with MuJoCo's own options starts as in MuJoCo.
        """
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = self.qpos, self.qvel, self.ctrl
        mujoco.mj_forward(model, data)
        semi_implicit = model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4
        if (
            self.leapfrog
            and semi_implicit
            and not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
        ):
            half = 0.5 * model.opt.timestep * model.opt.gravity
            for address, tree, weight in zip(
                self.free_dof.tolist(), self.trees, self.gravity_scale, strict=True
            ):
                if not data.qfrc_constraint[tree].any():
                    data.qvel[address : address + 3] -= weight * half
            mujoco.mj_forward(model, data)


def make_initial_state(
    model: Any,
    scene: PhysicsScene,
    *,
    addresses: tuple[IndexArray, IndexArray],
    free_addresses: tuple[IndexArray, IndexArray],
    balls: BallJoints,
    servos: tuple[IndexArray, IndexArray],
    body_ids: IndexArray,
    report: Report,
) -> InitialState:
    """Return the initial state that the scene authors.

    Args:
        model: The compiled model.
        scene: The scene.
        addresses: Of the degrees of freedom in `qpos` and `qvel`.
        free_addresses: Of the free joints, by body, likewise.
        balls: Ball joints.
        servos: Position and velocity actuators by degree of freedom.
        body_ids: MuJoCo's bodies by body.
        report: Receives joints that start outside their limits.
    """
    qpos, qvel, ctrl = model.qpos0.copy(), np.zeros(model.nv), np.zeros(model.nu)
    _write_joints(scene, addresses, (qpos, qvel), balls, report)
    for index, dof in enumerate(dof for joint in scene.joints for dof in joint.dofs):
        if dof.drive is not None:
            targets = dof.drive.target_position, dof.drive.target_velocity
            for actuators, target in zip(servos, targets, strict=True):
                if actuators[index] >= 0:
                    ctrl[actuators[index]] = target
    free_bodies = np.flatnonzero(free_addresses[0] >= 0).tolist()
    trees, gravity_scale = [], []
    for index in free_bodies:
        body = scene.bodies[index]
        _write_free_body(body, qpos[free_addresses[0][index] :], qvel[free_addresses[1][index] :])
        tree = model.body_rootid[model.dof_bodyid] == body_ids[index]
        trees.append(np.flatnonzero(tree).astype(np.intp))
        # Half a step of gravity would wake a sleeping body.
        gravity_scale.append(0.0 if body.starts_asleep else body.gravity_scale)
    return InitialState(
        qpos=qpos,
        qvel=qvel,
        ctrl=ctrl,
        free_dof=free_addresses[1][free_addresses[1] >= 0],
        gravity_scale=np.array(gravity_scale),
        trees=tuple(trees),
        leapfrog=not scene.mujoco_options,
    )


def _write_joints(
    scene: PhysicsScene,
    addresses: tuple[IndexArray, IndexArray],
    state: tuple[FloatArray, FloatArray],
    balls: BallJoints,
    report: Report,
) -> None:
    """Write the authored positions and velocities of all degrees of freedom to `qpos` and `qvel`."""
    qpos, qvel = state
    dofs = [(joint, dof) for joint in scene.joints for dof in joint.dofs]
    moved: list[tuple[str, float, float]] = []
    for index, (joint, dof) in enumerate(dofs):
        if addresses[0][index] >= 0:
            start = _within_limits(joint, dof)
            qpos[addresses[0][index]] = start + dof.reference
            if abs(start - dof.position) > _OUTSIDE:
                moved.append((joint.path, dof.position, start))
            qvel[addresses[1][index]] = dof.velocity
    _report_moved(moved, report)
    if len(balls):
        angles, rates = (
            np.array([[getattr(dofs[index][1], name) for index in row] for row in balls.dofs])
            for name in ("position", "velocity")
        )
        balls.write_angles(qpos, angles)
        balls.write_rates(qvel, angles, rates)


def _write_free_body(body: Body, qpos: FloatArray, qvel: FloatArray) -> None:
    """Write pose and velocity of a free body to the addresses of its joint."""
    world_from_body = pose_array(body.world_from_body)
    qpos[:3], qpos[3:7] = world_from_body[:3], wxyz(world_from_body[3:])
    qvel[:3] = body.linear_velocity
    body_from_world = quaternion_conjugate(xyzw(qpos[3:7]))
    qvel[3:6] = rotate(body_from_world, np.array(body.angular_velocity, dtype=np.float64))


def _within_limits(joint: Joint, dof: Dof) -> float:
    """Return the initial position of a joint, within its limits: the limit would throw it back otherwise."""
    if joint.closes_loop or dof.lower > dof.upper:
        return dof.position
    return min(max(dof.position, dof.lower), dof.upper)


def _report_moved(moved: list[tuple[str, float, float]], report: Report) -> None:
    """Report joints (path, authored start, start) that start elsewhere, a whole fleet in one line."""
    if not moved:
        return
    shown = ", ".join(
        f"{path} at {start:g} instead of {authored:g}" for path, authored, start in moved[:_SHOWN]
    )
    more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
    report(
        "mujoco.start",
        f"joints that would start outside their limits start at them (rad or m): {shown}{more}",
    )
