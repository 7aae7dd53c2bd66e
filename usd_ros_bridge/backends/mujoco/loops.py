"""Joints that no body hangs by, distance joints and mimic rules become equalities and tendons."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.bodies import add_split_off
from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.joints import add_dof, parent_from_child
from usd_ros_bridge.backends.mujoco.poses import FloatArray, place, pose_of
from usd_ros_bridge.backends.mujoco.statics import is_static
from usd_ros_bridge.model.physics import Joint
from usd_ros_bridge.model.transforms import compose
from usd_ros_bridge.model.transforms import pose as make_pose

_STEPS = 3.0
"""Time steps in which an equality makes good what it is off by; MuJoCo asks for two at least."""
_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
_LEVER = 0.1
"""m: how far apart the two points are that make a hinge."""
_ROD = 1e-6
"""m: difference of the limits below which a distance joint is a rod."""
_SITE_GROUP = 5


def add_loops(built: Built) -> None:
    """Adds everything that closes loops, once all bodies are there.

    So does a joint that a kinematic body hangs by: the body goes where it is told, and pulls on the other.
    """
    scene = built.scene
    loose = {index for index, joint in enumerate(scene.joints) if joint.closes_loop}
    carrying = {index: body for body in scene.bodies for index in body.joints}
    loose |= {
        index for index in range(len(scene.joints)) if index not in carrying or carrying[index].kinematic
    }
    for index, joint in enumerate(scene.joints):
        if joint.type == "distance":
            _add_distance(built, joint)
        elif index in loose:
            _close(built, index, joint, keep_dofs=index in built.mimicked)
    _add_mimics(built)


def _close(built: Built, index: int, joint: Joint, *, keep_dofs: bool) -> None:
    if is_static(built, joint.body0) and is_static(built, joint.body1):
        return
    if joint.type == "fixed" or not joint.dofs:
        _weld(built, joint)
    elif keep_dofs or not _is_plain(joint):
        _split(built, index, joint)
    else:
        _connect(built, joint)


def _is_plain(joint: Joint) -> bool:
    """Returns whether points that coincide make the joint: a hinge or ball joint without limits or drives."""
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


def _weld(built: Built, joint: Joint) -> None:
    sites = _sites(built, joint, joint.path)
    equality = _equality(built, mujoco.mjtEq.mjEQ_WELD, joint.path, sites, joint)
    equality.data[10] = float(joint.solver.get("torque_scale", 1.0))


def _connect(built: Built, joint: Joint) -> None:
    """Makes one point coincide for a ball joint, two on the axis for a hinge."""
    sites = _sites(built, joint, joint.path)
    _equality(built, mujoco.mjtEq.mjEQ_CONNECT, joint.path, sites, joint)
    if joint.type == "spherical":
        return
    unit = np.zeros(3)
    unit["XYZ".index(joint.dofs[0].axis[-1])] = _LEVER
    name = f"{joint.path}:axis"
    _equality(built, mujoco.mjtEq.mjEQ_CONNECT, name, _sites(built, joint, name, offset=unit), joint)


def _split(built: Built, index: int, joint: Joint) -> None:
    """Hangs a share of one body from the other by the joint, and welds it to the rest.

    So any joint can close a loop, with its limits, drives and state.
    """
    inverted = is_static(built, joint.body1)
    child, parent = (joint.body0, joint.body1) if inverted else (joint.body1, joint.body0)
    share = add_split_off(built, child, parent, name=f"{joint.path}:share")
    place(share, parent_from_child(child, joint))
    frame = pose_of(joint.body0_from_joint if inverted else joint.body1_from_joint)
    dofs = range(len(joint.dofs))
    offset = built.offsets[index]
    for number in reversed(dofs) if inverted else dofs:
        add_dof(built, share, joint, frame, number, offset, inverted=inverted)
    names = f"{joint.path}:0", f"{joint.path}:1"
    for body, name in zip((built.body(child), share), names, strict=True):
        _add_site(body, name, frame)
    _equality(built, mujoco.mjtEq.mjEQ_WELD, joint.path, names, joint)


def _sites(built: Built, joint: Joint, name: str, offset: FloatArray | None = None) -> tuple[str, str]:
    """Adds a site to each body where the joint frame is, or `offset` (3,) from there in the frame's axes."""
    names = f"{name}:0", f"{name}:1"
    sides = ((joint.body0, joint.body0_from_joint), (joint.body1, joint.body1_from_joint))
    for site, (body, frame) in zip(names, sides, strict=True):
        pose = pose_of(frame)
        if offset is not None:
            pose = compose(pose, make_pose(offset))
        _add_site(built.body(body), site, pose)
    return names


def _add_site(body: Any, name: str, pose: FloatArray) -> None:
    site = body.add_site(name=name, group=_SITE_GROUP)
    place(site, pose)


def _equality(built: Built, kind: Any, name: str, objects: tuple[str, str], joint: Joint) -> Any:
    equality = built.spec.add_equality(
        name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, name1=objects[0], name2=objects[1]
    )
    _stiffen(built, equality, joint)
    return equality


def _stiffen(built: Built, equality: Any, joint: Joint) -> None:
    """Sets how an equality gives way: as its joint says, else so little that it looks rigid."""
    for name, stiff in (("solref", (_STEPS * built.spec.option.timestep, 1.0)), ("solimp", _SOLIMP)):
        values = joint.solver.get(name, stiff)
        getattr(equality, name)[: len(values)] = values


def _add_distance(built: Built, joint: Joint) -> None:
    """Strings a tendon between the ends, whose length is limited; a rod where both limits are the same."""
    lower, upper = joint.distance if joint.distance is not None else (0.0, math.inf)
    if lower <= 0.0 and math.isinf(upper):
        return
    tendon = built.spec.add_tendon(name=joint.path)
    for site in _sites(built, joint, joint.path):
        tendon.wrap_site(site)
    tendon.group = _SITE_GROUP
    if upper - lower < _ROD:
        equality = built.spec.add_equality(
            name=joint.path,
            type=mujoco.mjtEq.mjEQ_TENDON,
            objtype=mujoco.mjtObj.mjOBJ_TENDON,
            name1=joint.path,
        )
        equality.data[:5] = 0.0
        _stiffen(built, equality, joint)
        built.rods[joint.path] = 0.5 * (lower + upper)
        return
    tendon.limited = 1
    tendon.range = [max(lower, 0.0), upper if math.isfinite(upper) else 1e9]
    tendon.solref_limit = [_STEPS * built.spec.option.timestep, 1.0]
    tendon.solimp_limit = _SOLIMP


def _add_mimics(built: Built) -> None:
    offsets = built.offsets
    for index, joint in enumerate(built.scene.joints):
        for number, dof in enumerate(joint.dofs):
            if dof.mimic is None:
                continue
            follower = built.joint_names[offsets[index] + number]
            leader = built.joint_names[offsets[dof.mimic.joint] + dof.mimic.dof]
            if not follower or not leader or follower == leader:
                built.report(
                    f"mujoco.mimic:{joint.path}",
                    f"{joint.path} does not follow: {'it' if not follower else 'its leader'} is no joint of the model",
                )
                continue
            equality = built.spec.add_equality(
                name=f"{follower}:mimic",
                type=mujoco.mjtEq.mjEQ_JOINT,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                name1=follower,
                name2=leader,
            )
            powers = (dof.mimic.offset, dof.mimic.multiplier, *dof.mimic.polynomial)
            equality.data[:5] = 0.0
            equality.data[: len(powers)] = powers
            _stiffen(built, equality, joint)
