"""The compiled model, and where everything of the scene is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.balls import Balls
from usd_ros_bridge.backends.mujoco.controls import Controls, find_controls
from usd_ros_bridge.backends.mujoco.drives import scale_acceleration_drives, soften_limits
from usd_ros_bridge.backends.mujoco.refused_parts import compile_spec
from usd_ros_bridge.backends.mujoco.starting import Start, make_start
from usd_ros_bridge.model.physics import Dof, PhysicsScene

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.built import Built

IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """A compiled model and where everything of the scene is in it. Arrays of ids hold -1 for what is not there.

    Positions, velocities and targets need no signs: MuJoCo's `qpos` of a degree of freedom is the position of body1
    relative to body0 in the asset's sense, also where the tree runs child first. It is 0 where the asset's is, but for
    joints with a reference of MuJoCo's own (`qpos_at_zero`).

    Attributes:
        model: The model.
        scene: What it was made from.
        body_ids: (len(scene.bodies),) body of each body.
        qpos_of_dof: (N,) address in `qpos` of each degree of freedom of the scene, all joints in order, dof by dof.
        dof_of_dof: (N,) address in `qvel`, likewise.
        free_qpos: (len(scene.bodies),) address in `qpos` of the free joint: x y z, quaternion w x y z.
        free_dof: (len(scene.bodies),) address in `qvel` of the free joint: linear velocity of the origin in the world,
            then angular velocity in the body.
        position_actuator: (N,) actuator whose control is a position target.
        velocity_actuator: (N,) actuator whose control is a velocity target.
        motor_actuator: (N,) actuator whose control is an effort.
        controls: Actuators of the asset's own.
        mocap_ids: (len(scene.bodies),) mocap body of kinematic bodies.
        geom_ids: By collider; a decomposed mesh has several.
        visual_geoms: By visual.
        balls: Ball joints: their degrees of freedom have no address of their own above.
        dofs: (N,) the degrees of freedom themselves.
        initial: State at the start.
    """

    model: Any
    scene: PhysicsScene
    body_ids: IndexArray
    qpos_of_dof: IndexArray
    dof_of_dof: IndexArray
    free_qpos: IndexArray
    free_dof: IndexArray
    position_actuator: IndexArray
    velocity_actuator: IndexArray
    motor_actuator: IndexArray
    controls: Controls
    mocap_ids: IndexArray
    geom_ids: tuple[IndexArray, ...]
    visual_geoms: tuple[IndexArray, ...]
    balls: Balls
    dofs: tuple[Dof, ...]
    initial: Start

    def start(self, data: Any) -> None:
        """Puts `data` (MjData) to the start: time 0, authored positions, velocities and targets; poses are current."""
        self.initial.apply(self.model, data)

    def qpos_at_zero(self, dofs: IndexArray) -> FloatArray:
        """Return `qpos` at position 0 of degrees of freedom that have an address: `ref` of MuJoCo's joints."""
        zero: FloatArray = self.model.qpos0[self.qpos_of_dof[dofs]]
        return zero

    def put(self, qpos: FloatArray, positions: FloatArray) -> None:
        """Writes positions of the degrees of freedom into `qpos`, those of ball joints included.

        Args:
            qpos: (nq,) what to write to.
            positions: (N,) rad or m.
        """
        known = np.flatnonzero(self.qpos_of_dof >= 0)
        qpos[self.qpos_of_dof[known]] = positions[known] + self.qpos_at_zero(known)
        if len(self.balls):
            self.balls.put(qpos, positions[self.balls.dofs])


def compile_model(built: Built) -> Compiled:
    """Compiles what was built and looks up where everything is.

    Raises:
        ValueError: MuJoCo refuses it.
    """
    model = compile_spec(built)
    scene = built.scene
    if "total_mass" in scene.solver:
        mujoco.mj_setTotalmass(model, scene.solver["total_mass"])
        mujoco.mj_setConst(model, mujoco.MjData(model))
    body_ids = _ids(model, mujoco.mjtObj.mjOBJ_BODY, [body.path for body in scene.bodies])
    joints = _ids(model, mujoco.mjtObj.mjOBJ_JOINT, built.joint_names)
    free = _ids(model, mujoco.mjtObj.mjOBJ_JOINT, built.free_names)
    actuators = {
        kind: _ids(model, mujoco.mjtObj.mjOBJ_ACTUATOR, names) for kind, names in built.actuator_names.items()
    }
    addresses = _at(model.jnt_qposadr, joints), _at(model.jnt_dofadr, joints)
    frees = _at(model.jnt_qposadr, free), _at(model.jnt_dofadr, free)
    balls = Balls(model, built.balls)
    compiled = Compiled(
        model=model,
        scene=scene,
        body_ids=body_ids,
        qpos_of_dof=addresses[0],
        dof_of_dof=addresses[1],
        free_qpos=frees[0],
        free_dof=frees[1],
        position_actuator=actuators["position"],
        velocity_actuator=actuators["velocity"],
        motor_actuator=actuators["motor"],
        controls=find_controls(built, _ids(model, mujoco.mjtObj.mjOBJ_ACTUATOR, built.control_names)),
        mocap_ids=_at(model.body_mocapid, body_ids),
        geom_ids=tuple(_ids(model, mujoco.mjtObj.mjOBJ_GEOM, names) for names in built.geom_names),
        visual_geoms=tuple(_ids(model, mujoco.mjtObj.mjOBJ_GEOM, names) for names in built.visual_names),
        balls=balls,
        dofs=tuple(dof for joint in scene.joints for dof in joint.dofs),
        initial=make_start(
            model,
            scene,
            addresses=addresses,
            frees=frees,
            balls=balls,
            servos=(actuators["position"], actuators["velocity"]),
            body_ids=body_ids,
            report=built.report,
        ),
    )
    data = mujoco.MjData(model)
    compiled.start(data)
    for name, length in built.rods.items():
        tendon, equality = model.tendon(name).id, model.equality(name).id
        model.eq_data[equality, 0] = length - model.tendon_length0[tendon]
    scale_acceleration_drives(built, compiled, data)
    soften_limits(compiled)
    return compiled


def _ids(model: Any, kind: Any, names: list[str]) -> IndexArray:
    return np.array([mujoco.mj_name2id(model, kind, name) if name else -1 for name in names], dtype=np.intp)


def _at(addresses: Any, ids: IndexArray) -> IndexArray:
    """Returns the addresses of those that there are, -1 for the others."""
    if not len(addresses):
        return np.full(len(ids), -1, dtype=np.intp)
    return np.where(ids >= 0, np.asarray(addresses, dtype=np.intp)[ids], -1)
