"""Loop joints, distance joints and mimic rules: equality constraints and tendons."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.bodies import split_body
from usd_ros_bridge.backends.mujoco.joints import add_dofs, parent_from_child
from usd_ros_bridge.backends.mujoco.spec_builder import (
    AUXILIARY_GROUP,
    SpecBuilder,
    add_site,
    set_pose,
    set_solver_values,
)
from usd_ros_bridge.model.physics import Joint
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose_array
from usd_ros_bridge.spatial.transforms import pose as make_pose

_STEPS = 3.0
"""Time steps in which an equality corrects its error; MuJoCo requires at least two."""
_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
_LEVER = 0.1
"""m: distance of the two points that make a hinge."""
_ROD = 1e-6
"""m: difference of the limits below which a distance joint is a rod."""


def add_loops(builder: SpecBuilder) -> None:
    """Add all joints that close loops, after all bodies.

    The joint of a kinematic body is one of them: the body follows its commands, and pulls the other one.
    """
    scene = builder.scene
    loose = {index for index, joint in enumerate(scene.joints) if joint.closes_loop}
    carrying = {index: body for body in scene.bodies for index in body.joints}
    loose |= {
        index for index in range(len(scene.joints)) if index not in carrying or carrying[index].kinematic
    }
    for index, joint in enumerate(scene.joints):
        if joint.type == "distance":
            _add_distance(builder, joint)
        elif index in loose:
            _close(builder, index, joint, keep_dofs=index in builder.mimicked)
    _add_mimics(builder)


def _close(builder: SpecBuilder, index: int, joint: Joint, *, keep_dofs: bool) -> None:
    if builder.is_static(joint.body0) and builder.is_static(joint.body1):
        return
    if joint.type == "fixed" or not joint.dofs:
        _weld(builder, joint)
    elif keep_dofs or not _is_plain(joint):
        _split(builder, index, joint)
    else:
        _connect(builder, joint)


def _is_plain(joint: Joint) -> bool:
    """Return whether coincident points make the joint: a hinge or ball joint without limits or drives."""
    if joint.type not in ("revolute", "continuous", "spherical"):
        return False
    return all(
        dof.drive is None
        and dof.mimic is None
        and math.isinf(dof.lower)
        and math.isinf(dof.upper)
        and not (dof.friction or dof.stiffness or dof.damping or dof.armature)
        for dof in joint.dofs
    )


def _weld(builder: SpecBuilder, joint: Joint) -> None:
    sites = _sites(builder, joint, joint.path)
    equality = _equality(builder, mujoco.mjtEq.mjEQ_WELD, joint.path, sites, joint)
    equality.data[10] = float(joint.solver.get("torque_scale", 1.0))


def _connect(builder: SpecBuilder, joint: Joint) -> None:
    """Make one point coincide for a ball joint, two points on the axis for a hinge."""
    sites = _sites(builder, joint, joint.path)
    _equality(builder, mujoco.mjtEq.mjEQ_CONNECT, joint.path, sites, joint)
    if joint.type == "spherical":
        return
    unit = np.zeros(3)
    unit["XYZ".index(joint.dofs[0].axis[-1])] = _LEVER
    name = f"{joint.path}:axis"
    _equality(builder, mujoco.mjtEq.mjEQ_CONNECT, name, _sites(builder, joint, name, offset=unit), joint)


def _split(builder: SpecBuilder, index: int, joint: Joint) -> None:
    """Attach a part of one body to the other one by the joint, and weld it to the rest.

    So any joint can close a loop, with its limits, drives and state.
    """
    inverted = builder.is_static(joint.body1)
    child, parent = (joint.body0, joint.body1) if inverted else (joint.body1, joint.body0)
    share = split_body(builder, child, parent, name=f"{joint.path}:share")
    set_pose(share, parent_from_child(child, joint))
    frame = pose_array(joint.body0_from_joint if inverted else joint.body1_from_joint)
    add_dofs(builder, share, index, frame, inverted=inverted)
    names = f"{joint.path}:0", f"{joint.path}:1"
    for body, name in zip((builder.body(child), share), names, strict=True):
        add_site(body, name, frame)
    _equality(builder, mujoco.mjtEq.mjEQ_WELD, joint.path, names, joint)


def _sites(
    builder: SpecBuilder, joint: Joint, name: str, offset: FloatArray | None = None
) -> tuple[str, str]:
    """Add a site to each body at the joint frame, or at `offset` (3,) in the frame's axes."""
    names = f"{name}:0", f"{name}:1"
    sides = ((joint.body0, joint.body0_from_joint), (joint.body1, joint.body1_from_joint))
    for site, (body, frame) in zip(names, sides, strict=True):
        pose = pose_array(frame)
        if offset is not None:
            pose = compose(pose, make_pose(offset))
        add_site(builder.body(body), site, pose)
    return names


def _equality(builder: SpecBuilder, kind: Any, name: str, objects: tuple[str, str], joint: Joint) -> Any:
    equality = builder.spec.add_equality(
        name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, name1=objects[0], name2=objects[1]
    )
    _stiffen(builder, equality, joint)
    return equality


def _stiffen(builder: SpecBuilder, equality: Any, joint: Joint) -> None:
    """Set the solver parameters of an equality: those of its joint, else nearly rigid ones."""
    for name, stiff in (("solref", (_STEPS * builder.spec.option.timestep, 1.0)), ("solimp", _SOLIMP)):
        set_solver_values(equality, name, joint.solver.get(name, stiff))


def _add_distance(builder: SpecBuilder, joint: Joint) -> None:
    """Add a tendon of limited length between the ends; of constant length where both limits are equal."""
    lower, upper = joint.distance if joint.distance is not None else (0.0, math.inf)
    if lower <= 0.0 and math.isinf(upper):
        return
    tendon = builder.spec.add_tendon(name=joint.path)
    for site in _sites(builder, joint, joint.path):
        tendon.wrap_site(site)
    tendon.group = AUXILIARY_GROUP
    if upper - lower < _ROD:
        equality = builder.spec.add_equality(
            name=joint.path,
            type=mujoco.mjtEq.mjEQ_TENDON,
            objtype=mujoco.mjtObj.mjOBJ_TENDON,
            name1=joint.path,
        )
        equality.data[:5] = 0.0
        _stiffen(builder, equality, joint)
        builder.rod_lengths[joint.path] = 0.5 * (lower + upper)
        return
    tendon.limited = 1
    tendon.range = [max(lower, 0.0), upper if math.isfinite(upper) else 1e9]
    tendon.solref_limit = [_STEPS * builder.spec.option.timestep, 1.0]
    tendon.solimp_limit = _SOLIMP


def _add_mimics(builder: SpecBuilder) -> None:
    offsets = builder.offsets
    for index, joint in enumerate(builder.scene.joints):
        for number, dof in enumerate(joint.dofs):
            if dof.mimic is None:
                continue
            follower = builder.joint_names[offsets[index] + number]
            leader = builder.joint_names[offsets[dof.mimic.joint] + dof.mimic.dof]
            if not follower or not leader or follower == leader:
                builder.report(
                    f"mujoco.mimic:{joint.path}",
                    f"{joint.path} does not follow: {'it' if not follower else 'its leader'} is no joint of the model",
                )
                continue
            equality = builder.spec.add_equality(
                name=f"{follower}:mimic",
                type=mujoco.mjtEq.mjEQ_JOINT,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                name1=follower,
                name2=leader,
            )
            powers = (dof.mimic.offset, dof.mimic.multiplier, *dof.mimic.polynomial)
            equality.data[:5] = 0.0
            equality.data[: len(powers)] = powers
            _stiffen(builder, equality, joint)
