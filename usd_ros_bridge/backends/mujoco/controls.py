"""Actuators, tendons and sites of mjcPhysics: what MuJoCo has words for is handed on as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.poses import place, pose_of
from usd_ros_bridge.model.physics import Actuator, PhysicsScene, Range, Sphere, Tendon, TendonPoint

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.built import Built

IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

_GROUP: Final = 5
"""Of sites, and of the shapes that tendons wrap around: neither lidars nor cameras see it."""
_TRANSMISSIONS: Final = {
    "joint": mujoco.mjtTrn.mjTRN_JOINT,
    "joint_in_parent": mujoco.mjtTrn.mjTRN_JOINTINPARENT,
    "tendon": mujoco.mjtTrn.mjTRN_TENDON,
    "site": mujoco.mjtTrn.mjTRN_SITE,
    "slider_crank": mujoco.mjtTrn.mjTRN_SLIDERCRANK,
    "body": mujoco.mjtTrn.mjTRN_BODY,
}
_DYNAMICS: Final = {
    "none": mujoco.mjtDyn.mjDYN_NONE,
    "integrator": mujoco.mjtDyn.mjDYN_INTEGRATOR,
    "filter": mujoco.mjtDyn.mjDYN_FILTER,
    "filterexact": mujoco.mjtDyn.mjDYN_FILTEREXACT,
    "muscle": mujoco.mjtDyn.mjDYN_MUSCLE,
    "user": mujoco.mjtDyn.mjDYN_USER,
}
_GAINS: Final = {
    "fixed": mujoco.mjtGain.mjGAIN_FIXED,
    "affine": mujoco.mjtGain.mjGAIN_AFFINE,
    "muscle": mujoco.mjtGain.mjGAIN_MUSCLE,
    "user": mujoco.mjtGain.mjGAIN_USER,
}
_BIASES: Final = {
    "none": mujoco.mjtBias.mjBIAS_NONE,
    "affine": mujoco.mjtBias.mjBIAS_AFFINE,
    "muscle": mujoco.mjtBias.mjBIAS_MUSCLE,
    "user": mujoco.mjtBias.mjBIAS_USER,
}


def actuated_dofs(scene: PhysicsScene, offsets: list[int]) -> frozenset[int]:
    """Return the flattened indices of the degrees of freedom that actuators act on by themselves."""
    return frozenset(
        offsets[actuator.joint] + place
        for actuator in scene.actuators
        if actuator.joint >= 0
        for place in range(len(scene.joints[actuator.joint].dofs))
    )


def add_actuators(built: Built) -> None:
    """Add sites, tendons and actuators; to be called when all bodies, joints and loops are there."""
    scene = built.scene
    for site in scene.sites:
        made = built.body(site.body).add_site(name=site.path, group=_GROUP)
        place(made, pose_of(site.body_from_site))
    for wrap in scene.wraps:
        _add_wrap(built, wrap)
    left_out = set[int]()
    for number, tendon in enumerate(scene.tendons):
        if not _add_tendon(built, tendon):
            left_out.add(number)
    for actuator in scene.actuators:
        name = "" if actuator.tendon in left_out else _add_actuator(built, actuator)
        if not name:
            built.report(
                f"mujoco.actuator:{actuator.path}",
                f"{actuator.path} is left out: what it acts on is not in the model",
            )
        built.control_names.append(name)


def _add_wrap(built: Built, wrap: Any) -> None:
    shape = wrap.shape
    sphere = isinstance(shape, Sphere)
    made = built.body(wrap.body).add_geom(
        name=f"{wrap.path}:wrap",
        type=mujoco.mjtGeom.mjGEOM_SPHERE if sphere else mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[shape.radius, 0.0 if sphere else shape.half_height, 0.0],
        contype=0,
        conaffinity=0,
        mass=0.0,
        group=_GROUP,
    )
    place(made, pose_of(wrap.body_from_shape))


def _add_tendon(built: Built, tendon: Tendon) -> bool:
    """Add a tendon; return False, with a report, where a joint of it is not in the model."""
    joints = [(built.joint_names[built.offsets[joint]], coefficient) for joint, coefficient in tendon.joints]
    if not all(name for name, _ in joints):
        built.report(
            f"mujoco.tendon:{tendon.path}", f"{tendon.path} is left out: a joint of it is not in the model"
        )
        return False
    made = built.spec.add_tendon(name=tendon.path)
    for name, coefficient in joints:
        made.wrap_joint(name, coefficient)
    for point in tendon.points:
        _add_point(built, made, point)
    for name in ("stiffness", "damping"):
        set_first(made, name, getattr(tendon, name))
    made.springlength = tendon.spring_length
    made.frictionloss = tendon.friction
    made.armature = tendon.armature
    made.margin = tendon.margin
    made.group = tendon.group
    made.width = tendon.width
    made.rgba = np.array(tendon.color, dtype=np.float32)
    _set_range(made, "limited", "range", tendon.limits)
    _set_range(made, "actfrclimited", "actfrcrange", tendon.force_limits)
    for key, values in tendon.solver.items():
        getattr(made, key)[: len(values)] = values
    return True


def _add_point(built: Built, made: Any, point: TendonPoint) -> None:
    sites = built.scene.sites
    if point.divisor:
        made.wrap_pulley(point.divisor)
    elif point.shape >= 0:
        side = sites[point.side_site].path if point.side_site >= 0 else ""
        made.wrap_geom(f"{built.scene.wraps[point.shape].path}:wrap", side)
    else:
        made.wrap_site(sites[point.site].path)


def _add_actuator(built: Built, actuator: Actuator) -> str:
    """Add an actuator; return its name, "" where what it acts on is not in the model."""
    target, other = _targets(built, actuator)
    if not target:
        return ""
    made = built.spec.add_actuator(
        name=actuator.path,
        target=target,
        trntype=_TRANSMISSIONS[actuator.transmission],
        gear=actuator.gear,
        cranklength=actuator.crank_length,
        dyntype=_DYNAMICS[actuator.dynamics[0]],
        gaintype=_GAINS[actuator.gain[0]],
        biastype=_BIASES[actuator.bias[0]],
        actdim=actuator.activation_dimension,
        actearly=int(actuator.acts_early),
        group=actuator.group,
        inheritrange=actuator.inherit_range,
    )
    if other:
        setattr(made, "slidersite" if actuator.transmission == "slider_crank" else "refsite", other)
    for name, (_, values) in (
        ("dynprm", actuator.dynamics),
        ("gainprm", actuator.gain),
        ("biasprm", actuator.bias),
    ):
        parameters = getattr(made, name)
        parameters[:] = 0.0
        parameters[: len(values)] = values
    _set_range(made, "ctrllimited", "ctrlrange", actuator.control_range)
    _set_range(made, "forcelimited", "forcerange", actuator.force_range)
    _set_range(made, "actlimited", "actrange", actuator.activation_range)
    if actuator.inherit_range:
        # MuJoCo fills in the range; which of the two, depends on the dynamics.
        integrates = actuator.dynamics[0] == "integrator"
        setattr(made, "actlimited" if integrates else "ctrllimited", 1)
    if actuator.length_range is not None:
        made.lengthrange = actuator.length_range
    return actuator.path


def _targets(built: Built, actuator: Actuator) -> tuple[str, str]:
    """Return the names of what an actuator acts on, and of the site that it is measured from or slides on."""
    scene = built.scene
    if actuator.joint >= 0:
        first = built.offsets[actuator.joint]
        balls = [ball.name for ball in built.balls if ball.first == first]
        single = len(scene.joints[actuator.joint].dofs) == 1
        return (built.joint_names[first] if single else (balls or [""])[0]), ""
    if actuator.tendon >= 0:
        return scene.tendons[actuator.tendon].path, ""
    if actuator.site >= 0:
        other = scene.sites[actuator.other_site].path if actuator.other_site >= 0 else ""
        return scene.sites[actuator.site].path, other
    return scene.bodies[actuator.body].path, ""


def _set_range(made: Any, limited: str, name: str, bounds: Range | None) -> None:
    setattr(made, limited, int(bounds is not None))
    if bounds is not None:
        setattr(made, name, bounds)


def set_first(made: Any, name: str, value: float) -> None:
    """Set a coefficient that later versions of MuJoCo have as a polynomial: its linear part is the first."""
    if np.ndim(getattr(made, name)):
        getattr(made, name)[0] = value
    else:
        setattr(made, name, value)


# --- In the model -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Controls:
    """Where the scene's actuators are in a compiled model.

    Attributes:
        ids: (A,) actuator in the model of each of the scene's, -1 for one that is not there.
        takers: By kind of command (position, velocity, effort): the degree of freedom (flattened index), the actuator
            of the scene that takes it, and factor and offset: the control is `factor * (command + offset)`.
    """

    ids: IndexArray
    takers: dict[str, list[tuple[int, int, float, float]]]


def find_controls(built: Built, ids: IndexArray) -> Controls:
    """Return where the actuators of a compiled model are.

    Args:
        built: What the model was built from.
        ids: (A,) actuator in the model of each of the scene's, -1 for none.
    """
    takers: dict[str, list[tuple[int, int, float, float]]] = {"position": [], "velocity": [], "effort": []}
    dofs = [dof for joint in built.scene.joints for dof in joint.dofs]
    for number, (actuator, found) in enumerate(zip(built.scene.actuators, ids.tolist(), strict=True)):
        if actuator.interface and found >= 0:
            dof = built.offsets[actuator.joint]
            # Lengths of transmissions are MuJoCo's own coordinates.
            offset = dofs[dof].reference if actuator.interface == "position" else 0.0
            takers[actuator.interface].append((dof, number, actuator.control_per_command, offset))
    return Controls(ids=ids, takers=takers)
