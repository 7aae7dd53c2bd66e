"""Succession: a simulation goes on from the state of another, of a scene in which bodies came or went."""

from __future__ import annotations

from typing import Any

import mujoco

from usd_ros_bridge.backends.mujoco.simulation import Simulation

_WIDTH = {
    int(mujoco.mjtJoint.mjJNT_FREE): (7, 6),
    int(mujoco.mjtJoint.mjJNT_BALL): (4, 3),
    int(mujoco.mjtJoint.mjJNT_SLIDE): (1, 1),
    int(mujoco.mjtJoint.mjJNT_HINGE): (1, 1),
}
"""How many positions and velocities a joint has."""


def take_over(new: Simulation, old: Simulation) -> None:
    """Copies time, and the state of all joints, kinematic bodies and actuators that both have, by their names."""
    new.time_ns = old.time_ns
    new.data.time = old.data.time
    _copy_joints(new, old)
    for index, known in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_BODY, new.model.nbody):
        to, source = int(new.model.body_mocapid[index]), int(old.model.body_mocapid[known])
        if to >= 0 and source >= 0:
            new.data.mocap_pos[to] = old.data.mocap_pos[source]
            new.data.mocap_quat[to] = old.data.mocap_quat[source]
    for index, known in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_ACTUATOR, new.model.nu):
        new.data.ctrl[index] = old.data.ctrl[known]
        count = int(new.model.actuator_actnum[index])
        if count and count == old.model.actuator_actnum[known]:
            to, source = int(new.model.actuator_actadr[index]), int(old.model.actuator_actadr[known])
            new.data.act[to : to + count] = old.data.act[source : source + count]
    new.kinematic.take_over(old.kinematic)
    new.refresh()


def _copy_joints(new: Simulation, old: Simulation) -> None:
    for index, known in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_JOINT, new.model.njnt):
        kind = int(new.model.jnt_type[index])
        if kind != int(old.model.jnt_type[known]):
            continue
        positions, velocities = _WIDTH[kind]
        to, source = int(new.model.jnt_qposadr[index]), int(old.model.jnt_qposadr[known])
        new.data.qpos[to : to + positions] = old.data.qpos[source : source + positions]
        if positions == 1:
            # Where position 0 is in MuJoCo's coordinate may have been edited.
            new.data.qpos[to] += new.model.qpos0[to] - old.model.qpos0[source]
        to, source = int(new.model.jnt_dofadr[index]), int(old.model.jnt_dofadr[known])
        for name in ("qvel", "qacc_warmstart"):
            getattr(new.data, name)[to : to + velocities] = getattr(old.data, name)[
                source : source + velocities
            ]


def _common(model: Any, other: Any, kind: Any, count: int) -> list[tuple[int, int]]:
    """Returns the ids, in a model and in another, of what has the same name in both."""
    names = [(index, mujoco.mj_id2name(model, kind, index)) for index in range(count)]
    found = [(index, mujoco.mj_name2id(other, kind, name)) for index, name in names if name]
    return [(index, known) for index, known in found if known >= 0]
