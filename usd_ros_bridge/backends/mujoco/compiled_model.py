"""The compiled model and its index maps. Elements that MuJoCo refuses are left out, with one report each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.initial_state import InitialState, make_initial_state
from usd_ros_bridge.backends.mujoco.joints import BallJoints
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder, damper_tendon, drive_tendon
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.physics import Dof, PhysicsScene
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

MOST_LEFT_OUT: Final = 100
"""Elements that may be left out: each costs another attempt to compile."""

_ELEMENT: Final = re.compile(r"[Ee]lement name '(.*?)', id")
_KINDS: Final = ("geoms", "joints", "meshes", "tendons", "equalities", "actuators", "pairs")
_REFERENCES: Final = {
    "geoms": ("meshname",),
    "equalities": ("name1", "name2"),
    "actuators": ("target", "refsite", "slidersite"),
    "pairs": ("geomname1", "geomname2"),
}
"""Attributes of elements that name other elements."""
_SOFTEST, _HARDEST = 0.01, 0.95
"""Impedance of soft limits that the time step resolves, and the impedance above which limits stay hard."""
_RESOLVED = 0.2
"""Greatest square of the time step over a spring's period, or over a damper's time constant."""
_INERTIA_CHANGE = 2.0
"""Factor by which the inertia that scales an acceleration drive may change without a report."""


class JointControl(NamedTuple):
    """An actuator of the asset that executes commands of a joint: control = factor * (command + offset).

    Attributes:
        dof: Flattened index of the degree of freedom.
        actuator: Actuator of the scene.
        factor: Control per command.
        offset: Added to the command.
    """

    dof: int
    actuator: int
    factor: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledModel:
    """A compiled model and the ids and addresses of all parts of the scene; -1 for parts that it does not have.

    Positions, velocities and targets need no signs: MuJoCo's `qpos` of a degree of freedom is the position of body1
    relative to body0 in the asset's sense, even where the tree runs child first. Both are 0 at the same position,
    except for joints with a reference of MuJoCo's own (`qpos_at_zero`).

    Attributes:
        model: The model.
        scene: The scene.
        body_ids: (len(scene.bodies),) body of each body.
        qpos_of_dof: (N,) address in `qpos` of each degree of freedom of the scene, all joints in order.
        dof_of_dof: (N,) address in `qvel`, likewise.
        free_qpos: (len(scene.bodies),) address in `qpos` of the free joint: x y z, quaternion w x y z.
        free_dof: (len(scene.bodies),) address in `qvel` of the free joint: linear velocity of the origin in the world,
            then angular velocity in the body.
        position_actuator: (N,) actuator whose control is a position target.
        velocity_actuator: (N,) actuator whose control is a velocity target.
        motor_actuator: (N,) actuator whose control is an effort.
        control_ids: (len(scene.actuators),) actuator of each of the asset's actuators.
        joint_controls: By kind of command (position, velocity, effort), the asset's actuators that execute it.
        mocap_ids: (len(scene.bodies),) mocap body of kinematic bodies.
        geom_ids: By collider; a decomposed mesh has several.
        visual_geoms: By visual.
        balls: Ball joints: their degrees of freedom have no address above.
        dofs: (N,) the degrees of freedom.
        initial: The initial state.
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
    control_ids: IndexArray
    joint_controls: dict[str, list[JointControl]]
    mocap_ids: IndexArray
    geom_ids: tuple[IndexArray, ...]
    visual_geoms: tuple[IndexArray, ...]
    balls: BallJoints
    dofs: tuple[Dof, ...]
    initial: InitialState

    def start(self, data: Any) -> None:
        """Set `data` (MjData) to the initial state: time 0, authored positions, velocities and targets."""
        self.initial.apply(self.model, data)

    def qpos_at_zero(self, dofs: IndexArray) -> FloatArray:
        """Return `qpos` at position 0 of degrees of freedom that have an address: `ref` of MuJoCo's joints."""
        zero: FloatArray = self.model.qpos0[self.qpos_of_dof[dofs]]
        return zero

    def put(self, qpos: FloatArray, positions: FloatArray) -> None:
        """Write positions of the degrees of freedom, ball joints included, to `qpos`.

        Args:
            qpos: (nq,) is overwritten.
            positions: (N,) rad or m.
        """
        present = np.flatnonzero(self.qpos_of_dof >= 0)
        qpos[self.qpos_of_dof[present]] = positions[present] + self.qpos_at_zero(present)
        if len(self.balls):
            self.balls.write_angles(qpos, positions[self.balls.dofs])


def compile_model(builder: SpecBuilder) -> CompiledModel:
    """Compile a specification and look up all its parts.

    Args:
        builder: The specification; elements that MuJoCo refuses are removed from it.

    Raises:
        BackendError: MuJoCo refuses it; the message is MuJoCo's, in one line.
    """
    try:
        model = _compile_spec(builder)
    except (ValueError, mujoco.FatalError) as error:
        raise BackendError(f"MuJoCo refuses the asset: {' '.join(str(error).split())}") from error
    if "total_mass" in builder.scene.solver:
        mujoco.mj_setTotalmass(model, builder.scene.solver["total_mass"])
        mujoco.mj_setConst(model, mujoco.MjData(model))
    compiled = _index_model(builder, model)
    data = mujoco.MjData(model)
    compiled.start(data)
    for name, length in builder.rod_lengths.items():
        tendon, equality = model.tendon(name).id, model.equality(name).id
        model.eq_data[equality, 0] = length - model.tendon_length0[tendon]
    _scale_acceleration_drives(builder, compiled, data)
    _soften_limits(compiled)
    return compiled


def _index_model(builder: SpecBuilder, model: Any) -> CompiledModel:
    scene, kinds = builder.scene, mujoco.mjtObj
    body_ids = _ids(model, kinds.mjOBJ_BODY, [body.path for body in scene.bodies])
    joints = _ids(model, kinds.mjOBJ_JOINT, builder.joint_names)
    free = _ids(model, kinds.mjOBJ_JOINT, builder.free_names)
    actuators = {
        kind: _ids(model, kinds.mjOBJ_ACTUATOR, names) for kind, names in builder.actuator_names.items()
    }
    control_ids = _ids(model, kinds.mjOBJ_ACTUATOR, builder.control_names)
    addresses = _at(model.jnt_qposadr, joints), _at(model.jnt_dofadr, joints)
    free_addresses = _at(model.jnt_qposadr, free), _at(model.jnt_dofadr, free)
    balls = BallJoints(model, builder.balls)
    return CompiledModel(
        model=model,
        scene=scene,
        body_ids=body_ids,
        qpos_of_dof=addresses[0],
        dof_of_dof=addresses[1],
        free_qpos=free_addresses[0],
        free_dof=free_addresses[1],
        position_actuator=actuators["position"],
        velocity_actuator=actuators["velocity"],
        motor_actuator=actuators["motor"],
        control_ids=control_ids,
        joint_controls=_find_joint_controls(builder, control_ids),
        mocap_ids=_at(model.body_mocapid, body_ids),
        geom_ids=tuple(_ids(model, kinds.mjOBJ_GEOM, names) for names in builder.geom_names),
        visual_geoms=tuple(_ids(model, kinds.mjOBJ_GEOM, names) for names in builder.visual_names),
        balls=balls,
        dofs=tuple(dof for joint in scene.joints for dof in joint.dofs),
        initial=make_initial_state(
            model,
            scene,
            addresses=addresses,
            free_addresses=free_addresses,
            balls=balls,
            servos=(actuators["position"], actuators["velocity"]),
            body_ids=body_ids,
            report=builder.report,
        ),
    )


def _ids(model: Any, kind: Any, names: list[str]) -> IndexArray:
    return np.array([mujoco.mj_name2id(model, kind, name) if name else -1 for name in names], dtype=np.intp)


def _at(addresses: Any, ids: IndexArray) -> IndexArray:
    """Return the addresses of ids, -1 for those that are -1."""
    if not len(addresses):
        return np.full(len(ids), -1, dtype=np.intp)
    return np.where(ids >= 0, np.asarray(addresses, dtype=np.intp)[ids], -1)


def _find_joint_controls(builder: SpecBuilder, control_ids: IndexArray) -> dict[str, list[JointControl]]:
    controls: dict[str, list[JointControl]] = {"position": [], "velocity": [], "effort": []}
    dofs = [dof for joint in builder.scene.joints for dof in joint.dofs]
    for number, (actuator, control_id) in enumerate(
        zip(builder.scene.actuators, control_ids.tolist(), strict=True)
    ):
        if actuator.interface and control_id >= 0:
            dof = builder.offsets[actuator.joint]
            # Lengths of transmissions are in MuJoCo's own coordinates.
            offset = dofs[dof].reference if actuator.interface == "position" else 0.0
            factor = actuator.control_per_command
            controls[actuator.interface].append(JointControl(dof, number, factor, offset))
    return controls


# --- Gains and limits that depend on the inertia ------------------------------------------------------------------


def _scale_acceleration_drives(builder: SpecBuilder, compiled: CompiledModel, data: Any) -> None:
    """Scale the gains of acceleration drives to forces, by the joint-space inertia in the initial state.

    That is the diagonal of the mass matrix: what the drive moves while the other joints hold still. It changes with the
    pose; a large change is reported.

    Args:
        builder: The specification.
        compiled: The model; its gains are changed.
        data: MjData in the initial state.
    """
    chosen = [
        index
        for index, dof in enumerate(compiled.dofs)
        if dof.drive is not None and dof.drive.acceleration and compiled.dof_of_dof[index] >= 0
    ]
    if not chosen:
        return
    model = compiled.model
    inertia = _joint_inertia(model, data, compiled.dof_of_dof[chosen])
    for index, scale in zip(chosen, inertia.tolist(), strict=True):
        for actuator in (compiled.position_actuator[index], compiled.velocity_actuator[index]):
            if actuator >= 0:
                model.actuator_gainprm[actuator] *= scale
                model.actuator_biasprm[actuator] *= scale
    _report_inertia_changes(builder, compiled, chosen, inertia)


def _joint_inertia(model: Any, data: Any, dofs: IndexArray) -> FloatArray:
    """Return the diagonal of the mass matrix at addresses `dofs` in `qvel`, for the poses of `data`."""
    unit, product = np.zeros(model.nv), np.zeros(model.nv)
    result = np.empty(len(dofs))
    for number, address in enumerate(dofs.tolist()):
        unit[address] = 1.0
        mujoco.mj_mulM(model, data, product, unit)
        result[number] = product[address]
        unit[address] = 0.0
    return result


def _report_inertia_changes(
    builder: SpecBuilder, compiled: CompiledModel, chosen: list[int], inertia: FloatArray
) -> None:
    """Compare the inertia in a few other poses, always the same ones."""
    model, random = compiled.model, np.random.default_rng(0)
    data = mujoco.MjData(model)
    compiled.initial.apply(model, data)
    least, most = inertia.copy(), inertia.copy()
    present = np.flatnonzero(compiled.qpos_of_dof >= 0)
    zero = compiled.qpos_at_zero(present)
    lower = np.array([max(compiled.dofs[index].lower, -math.pi) for index in present])
    upper = np.array([min(compiled.dofs[index].upper, math.pi) for index in present])
    for _ in range(8):
        data.qpos[compiled.qpos_of_dof[present]] = zero + random.uniform(lower, np.maximum(lower, upper))
        mujoco.mj_forward(model, data)
        now = _joint_inertia(model, data, compiled.dof_of_dof[chosen])
        np.minimum(least, now, out=least)
        np.maximum(most, now, out=most)
    changed = (most > _INERTIA_CHANGE * inertia) | (least * _INERTIA_CHANGE < inertia)
    for number in np.flatnonzero(changed).tolist():
        name = builder.joint_names[chosen[number]]
        builder.report(
            f"mujoco.acceleration_drive:{name}",
            f"{name}: its acceleration drive is scaled by the inertia at the start, {inertia[number]:.3g} kg m^2 (or "
            f"kg), which goes from {least[number]:.3g} to {most[number]:.3g} with the pose",
        )


def _soften_limits(compiled: CompiledModel) -> None:
    """Make limits springs and dampers where the asset authors them.

    The force of MuJoCo's constraints is proportional to the inertia that they move: gains are scaled by the model's own
    estimate of it. The impedance is the share of the force that is not the spring's and makes the joint heavier: small,
    unless the time step cannot resolve the spring.
    """
    model = compiled.model
    for index, dof in enumerate(compiled.dofs):
        address = int(compiled.dof_of_dof[index])
        if dof.limit_stiffness <= 0.0 or address < 0:
            continue
        joint, step = int(model.dof_jntid[address]), float(model.opt.timestep)
        inverse_inertia = float(model.dof_invweight0[address])
        fastest = inverse_inertia * step * max(dof.limit_stiffness * step, dof.limit_damping)
        impedance = max(1.0 - _RESOLVED / fastest, _SOFTEST)
        if impedance > _HARDEST:
            # The time step is far too long: the limit would bounce. A hard limit is as stiff as the step allows.
            continue
        scale = inverse_inertia * (1.0 - impedance)
        stiffness, damping = dof.limit_stiffness * scale, dof.limit_damping * scale
        model.jnt_solimp[joint][:2] = impedance
        model.jnt_solref[joint] = [-stiffness, -damping]


# --- Elements that MuJoCo refuses ---------------------------------------------------------------------------------


def _compile_spec(builder: SpecBuilder) -> Any:
    """Compile a specification without the geoms, joints, tendons and similar elements that MuJoCo refuses.

    A body that MuJoCo refuses loses its joints: it is fixed to its parent.

    Raises:
        ValueError: MuJoCo refuses it for another reason.
    """
    for _ in range(MOST_LEFT_OUT):
        try:
            return builder.spec.compile()
        except (ValueError, mujoco.FatalError) as error:
            message = " ".join(str(error).split())
            match = _ELEMENT.search(message)
            left_out = _leave_out(builder, match[1]) if match is not None and match[1] else set()
            if not left_out:
                raise
            names = ", ".join(sorted(left_out))
            builder.report(
                f"mujoco.refused:{names}", f"left out, because MuJoCo refuses it: {names}: {message}"
            )
    return builder.spec.compile()


def _leave_out(builder: SpecBuilder, name: str) -> set[str]:
    """Delete the elements of a name, and those that refer to them. Return their names."""
    names = {name} if _delete(builder, {name}) else _delete_joints(builder, name)
    last = names
    while referring := _find_referring(builder, last) - names:
        _delete(builder, referring)
        names, last = names | referring, referring
    _remove_names(builder, names)
    return names


def _delete(builder: SpecBuilder, names: set[str]) -> bool:
    elements = [each for kind in _KINDS for each in getattr(builder.spec, kind) if each.name in names]
    for each in elements:
        builder.spec.delete(each)
    return bool(elements)


def _delete_joints(builder: SpecBuilder, name: str) -> set[str]:
    """Delete the joints of a body. Return their names and the body's, nothing where it has no joints."""
    body = builder.spec.body(name)
    joints = [] if body is None else list(body.joints)
    names = {name, *(each.name for each in joints if each.name)} if joints else set()
    for each in joints:
        builder.spec.delete(each)
    return names


def _find_referring(builder: SpecBuilder, names: set[str]) -> set[str]:
    referring = {
        each.name
        for kind, attributes in _REFERENCES.items()
        for each in getattr(builder.spec, kind)
        if any(getattr(each, attribute) in names for attribute in attributes)
    }
    drives = {tendon(name) for name in names for tendon in (drive_tendon, damper_tendon)}
    return referring | {each.name for each in builder.spec.tendons if each.name in drives}


def _remove_names(builder: SpecBuilder, names: set[str]) -> None:
    """Remove names of deleted elements from the builder: they have no address."""
    for by_part in (builder.geom_names, builder.visual_names):
        by_part[:] = [[each for each in part if each not in names] for part in by_part]
    actuator_names = builder.actuator_names.values()
    for by_index in (builder.joint_names, builder.free_names, builder.control_names, *actuator_names):
        by_index[:] = ["" if each in names else each for each in by_index]
    builder.balls[:] = [ball for ball in builder.balls if ball.name not in names]
    for each in names:
        builder.rod_lengths.pop(each, None)
