"""Actuators: those of drives, and the actuators, tendons and sites of MuJoCo's own schemas (mjcPhysics).

A drive becomes a position servo, a velocity servo and a motor. They are independent: a controller may command a
position, a velocity and a feed-forward effort at once; the joint's effort limit bounds their sum.
"""

from __future__ import annotations

import math
from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.mujoco_options import enum_members
from usd_ros_bridge.backends.mujoco.spec_builder import (
    AUXILIARY_GROUP,
    SpecBuilder,
    add_site,
    set_linear,
    set_pose,
    set_solver_values,
)
from usd_ros_bridge.model.physics import Actuator, Dof, Range, Sphere, Tendon, TendonPoint
from usd_ros_bridge.spatial.transforms import pose_array


def limit_effort(joint: Any, dof: Dof) -> None:
    """Limit the sum of all actuators of a joint of a specification (its `actfrcrange`)."""
    if dof.effort_range is not None:
        joint.actfrclimited = 1
        joint.actfrcrange = np.clip(dof.effort_range, -dof.max_effort, dof.max_effort)
    elif math.isfinite(dof.max_effort) and dof.max_effort > 0.0:
        joint.actfrclimited = 1
        joint.actfrcrange = [-dof.max_effort, dof.max_effort]


def add_drive(builder: SpecBuilder, joint: str, dof: Dof, index: int) -> None:
    """Add the actuators of a degree of freedom: servos for its drive, and a motor.

    A degree of freedom with actuators of the asset gets no motor.

    Args:
        builder: The specification.
        joint: Name of MuJoCo's joint.
        dof: The degree of freedom.
        index: Its flattened index.
    """
    if dof.mimic is not None or dof.max_effort <= 0.0:
        return
    stiffness, damping = (dof.drive.stiffness, dof.drive.damping) if dof.drive is not None else (0.0, 0.0)
    if stiffness > 0.0:
        position = _add_drive_actuator(builder, joint, index, "position")
        position.gainprm[0], position.biasprm[1] = stiffness, -stiffness
        position.biasprm[0] = stiffness * dof.reference
    if damping > 0.0:
        velocity = _add_drive_actuator(builder, joint, index, "velocity")
        velocity.gainprm[0], velocity.biasprm[2] = damping, -damping
    if index not in builder.actuated:
        motor = _add_drive_actuator(builder, joint, index, "motor")
        if dof.drive is not None and dof.drive.constant_effort:
            motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            motor.biasprm[0] = dof.drive.constant_effort


def _add_drive_actuator(builder: SpecBuilder, joint: str, index: int, kind: str) -> Any:
    name = f"{joint}:{kind}"
    builder.actuator_names[kind][index] = name
    affine = kind != "motor"
    return builder.spec.add_actuator(
        name=name,
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE if affine else mujoco.mjtBias.mjBIAS_NONE,
    )


_TRANSMISSIONS: Final = enum_members(
    "Trn", "TRN", "joint", "joint_in_parent", "tendon", "site", "slider_crank", "body"
)
_DYNAMICS: Final = enum_members("Dyn", "DYN", "none", "integrator", "filter", "filterexact", "muscle", "user")
_GAINS: Final = enum_members("Gain", "GAIN", "fixed", "affine", "muscle", "user")
_BIASES: Final = enum_members("Bias", "BIAS", "none", "affine", "muscle", "user")


def add_actuators(builder: SpecBuilder) -> None:
    """Add sites, tendons and actuators, after all bodies, joints and loops."""
    scene = builder.scene
    for site in scene.sites:
        add_site(builder.body(site.body), site.path, pose_array(site.body_from_site))
    for wrap in scene.wraps:
        _add_wrap(builder, wrap)
    left_out = set[int]()
    for number, tendon in enumerate(scene.tendons):
        if not _add_tendon(builder, tendon):
            left_out.add(number)
    for actuator in scene.actuators:
        name = "" if actuator.tendon in left_out else _add_actuator(builder, actuator)
        if not name:
            builder.report(
                f"mujoco.actuator:{actuator.path}",
                f"{actuator.path} is left out: what it acts on is not in the model",
            )
        builder.control_names.append(name)


def _add_wrap(builder: SpecBuilder, wrap: Any) -> None:
    shape = wrap.shape
    sphere = isinstance(shape, Sphere)
    made = builder.body(wrap.body).add_geom(
        name=f"{wrap.path}:wrap",
        type=mujoco.mjtGeom.mjGEOM_SPHERE if sphere else mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[shape.radius, 0.0 if sphere else shape.half_height, 0.0],
        contype=0,
        conaffinity=0,
        mass=0.0,
        group=AUXILIARY_GROUP,
    )
    set_pose(made, pose_array(wrap.body_from_shape))


def _add_tendon(builder: SpecBuilder, tendon: Tendon) -> bool:
    """Add a tendon. Return False, with a report, where one of its joints is not in the model."""
    joints = [
        (builder.joint_names[builder.offsets[joint]], coefficient) for joint, coefficient in tendon.joints
    ]
    if not all(name for name, _ in joints):
        builder.report(
            f"mujoco.tendon:{tendon.path}", f"{tendon.path} is left out: a joint of it is not in the model"
        )
        return False
    made = builder.spec.add_tendon(name=tendon.path)
    for name, coefficient in joints:
        made.wrap_joint(name, coefficient)
    for point in tendon.points:
        _add_point(builder, made, point)
    for name in ("stiffness", "damping"):
        set_linear(made, name, getattr(tendon, name))
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
        set_solver_values(made, key, values)
    return True


def _add_point(builder: SpecBuilder, made: Any, point: TendonPoint) -> None:
    sites = builder.scene.sites
    if point.divisor:
        made.wrap_pulley(point.divisor)
    elif point.shape >= 0:
        side = sites[point.side_site].path if point.side_site >= 0 else ""
        made.wrap_geom(f"{builder.scene.wraps[point.shape].path}:wrap", side)
    else:
        made.wrap_site(sites[point.site].path)


def _add_actuator(builder: SpecBuilder, actuator: Actuator) -> str:
    """Add an actuator. Return its name, "" where its target is not in the model."""
    target, other = _targets(builder, actuator)
    if not target:
        return ""
    made = builder.spec.add_actuator(
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
        # MuJoCo fills in the range; the dynamics decide which of the two.
        integrates = actuator.dynamics[0] == "integrator"
        setattr(made, "actlimited" if integrates else "ctrllimited", 1)
    if actuator.length_range is not None:
        made.lengthrange = actuator.length_range
    return actuator.path


def _targets(builder: SpecBuilder, actuator: Actuator) -> tuple[str, str]:
    """Return the names of an actuator's target, and of its reference or slider site."""
    scene = builder.scene
    if actuator.joint >= 0:
        first = builder.offsets[actuator.joint]
        balls = [ball.name for ball in builder.balls if ball.first == first]
        single = len(scene.joints[actuator.joint].dofs) == 1
        return (builder.joint_names[first] if single else (balls or [""])[0]), ""
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
