"""The state that a simulation starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.balls import Balls
from usd_ros_bridge.backends.mujoco.poses import pose_of, wxyz, xyzw
from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.physics import Dof, Joint, PhysicsScene
from usd_ros_bridge.model.transforms import quaternion_conjugate, rotate

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

_SHOWN = 3
"""Joints that a report names; of others it gives the number."""
_OUTSIDE = 1e-3
"""rad or m: as far outside its limits as a joint may start without a report: single precision, and sag."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """Everything that MuJoCo's own reset does not know.

    Attributes:
        qpos: (nq,) positions.
        qvel: (nv,) velocities.
        ctrl: (nu,) targets of the drives.
        free_dof: (F,) addresses in `qvel` of the free joints.
        weight: (F,) how much of gravity acts on those bodies.
        trees: By free joint, the addresses in `qvel` of everything that hangs from the body, its own included.
        leapfrog: Whether what flies freely starts half a step early.
    """

    qpos: FloatArray
    qvel: FloatArray
    ctrl: FloatArray
    free_dof: IndexArray
    weight: FloatArray
    trees: tuple[IndexArray, ...]
    leapfrog: bool = True

    def apply(self, model: Any, data: Any) -> None:
        """Puts `data` to the start.

        What flies freely gets half a step's worth of gravity less: MuJoCo's integrators move by the velocity at the
        end of a step, so that a fall would be ahead by `g t dt / 2` (10 mm after 1 s at 2 ms). Velocities taken half a
        step early make it exact, as the leapfrog scheme does. An asset with MuJoCo's own options
        starts as MuJoCo does.
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
            for address, tree, weight in zip(self.free_dof.tolist(), self.trees, self.weight, strict=True):
                if not data.qfrc_constraint[tree].any():
                    data.qvel[address : address + 3] -= weight * half
            mujoco.mj_forward(model, data)


def make_start(
    model: Any,
    scene: PhysicsScene,
    *,
    addresses: tuple[IndexArray, IndexArray],
    frees: tuple[IndexArray, IndexArray],
    balls: Balls,
    servos: tuple[IndexArray, IndexArray],
    body_ids: IndexArray,
    report: Report,
) -> Start:
    """Returns the start that the scene authors.

    Args:
        model: The compiled model.
        scene: The scene.
        addresses: Of the degrees of freedom in `qpos` and `qvel`.
        frees: Of the free joints, by body, likewise.
        balls: Ball joints.
        servos: Position and velocity actuators by degree of freedom.
        body_ids: MuJoCo's bodies by body.
        report: Told of joints that start outside their limits.
    """
    qpos, qvel, ctrl = model.qpos0.copy(), np.zeros(model.nv), np.zeros(model.nu)
    dofs = [(joint, dof) for joint in scene.joints for dof in joint.dofs]
    moved: list[tuple[str, float, float]] = []
    for index, (joint, dof) in enumerate(dofs):
        if addresses[0][index] >= 0:
            start = _within_limits(joint, dof)
            qpos[addresses[0][index]] = start + dof.reference
            if abs(start - dof.position) > _OUTSIDE:
                moved.append((joint.path, dof.position, start))
            qvel[addresses[1][index]] = dof.velocity
        if dof.drive is not None:
            targets = dof.drive.target_position, dof.drive.target_velocity
            for actuators, target in zip(servos, targets, strict=True):
                if actuators[index] >= 0:
                    ctrl[actuators[index]] = target
    _report_moved(moved, report)
    if len(balls):
        angles = np.array([[dofs[index][1].position for index in row] for row in balls.dofs])
        rates = np.array([[dofs[index][1].velocity for index in row] for row in balls.dofs])
        balls.put(qpos, angles)
        balls.spin(qvel, angles, rates)
    trees = []
    for index in np.flatnonzero(frees[0] >= 0).tolist():
        body, place, address = scene.bodies[index], frees[0][index], frees[1][index]
        world_from_body = pose_of(body.world_from_body)
        qpos[place : place + 3], qpos[place + 3 : place + 7] = world_from_body[:3], wxyz(world_from_body[3:])
        qvel[address : address + 3] = body.linear_velocity
        turn = quaternion_conjugate(xyzw(qpos[place + 3 : place + 7]))
        qvel[address + 3 : address + 6] = rotate(turn, np.array(body.angular_velocity, dtype=np.float64))
        tree = model.body_rootid[model.dof_bodyid] == body_ids[index]
        trees.append(np.flatnonzero(tree).astype(np.intp))
    return Start(
        qpos=qpos,
        qvel=qvel,
        ctrl=ctrl,
        free_dof=frees[1][frees[1] >= 0],
        weight=np.array(
            [
                # Half a step's gravity would wake it.
                0.0 if scene.bodies[index].starts_asleep else scene.bodies[index].gravity_scale
                for index in np.flatnonzero(frees[0] >= 0).tolist()
            ]
        ),
        trees=tuple(trees),
        leapfrog=not scene.mujoco_options,
    )


def _within_limits(joint: Joint, dof: Dof) -> float:
    """Returns where a joint starts: from far outside its limits it would be flung back."""
    if joint.closes_loop or dof.lower > dof.upper:
        return dof.position
    return min(max(dof.position, dof.lower), dof.upper)


def _report_moved(moved: list[tuple[str, float, float]], report: Report) -> None:
    """Reports joints (path, authored start, start) that start elsewhere, a whole fleet in one line."""
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
