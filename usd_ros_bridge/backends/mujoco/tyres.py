"""Tyres: a wheel touches a floor in its middle, with the torsional friction of a line.

A cylinder touches a flat floor along a line, and MuJoCo has one contact at each end of it. Where the wheel also turns
about the vertical, both slide, in opposite directions. The middle of the wheel is not held, and a robot turns too
little by up to the width over the separation of its wheels. An ellipsoid in the cylinder touches in the middle. With
torsional friction it slips as much as Coulomb's friction along the line, and one contact costs less than two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.contacts import (
    MOST_CLASSES,
    MOST_PAIRS,
    CollisionFilter,
    add_geom_pair,
    can_touch,
    set_contact,
)
from usd_ros_bridge.backends.mujoco.spec_builder import AUXILIARY_GROUP, SpecBuilder, set_pose
from usd_ros_bridge.model.physics import WORLD_BODY, Collider, Cylinder
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose_array, rotate

_TORSION: Final = 0.5 / math.sqrt(2.0)
"""Torsional friction (m) over sliding friction and width: 1 / sqrt(8).

Two wheels, s apart, turn a robot. Along a line of the width w, friction has the moment mu N w / 4; where a
force F is needed, its middle slips by w F / (2 mu N) for each radian. With F = mu N w / (2 s) that is w^2 / (4 s). At a
point with the torsional friction T, the moment is T N and, in an elliptic cone, the slip T F / (mu^2 N). With
F = 2 T N / s that is 2 T^2 / (mu^2 s).
"""
_RADIUS: Final = 0.1
"""m: contacts of smaller wheels are stiffer in proportion. At rest a contact is 0.4 mm deep, whatever a robot weighs. A
wheel rolls with a radius that is less by half of that: odometry is wrong by 0.2 % with a radius of 0.1 m.
"""
_FLOOR: Final = 10.0
"""A box is a floor from this half extent of its top on, in radii of the wheel: on curbs the edges of a wheel matter."""
MOST_FLOORS: Final = 8
"""Floors with tyres, the largest: each pair of a wheel and a floor takes time in every step."""
_ALONG: Final = 1.0 - 1e-6
"""Least cosine between the axes of a wheel and its joint."""
_TURNING: Final = ("revolute", "continuous")
_AUTHORED: Final = frozenset({"condim", "torsional_friction"})
"""Solver attributes that describe the contacts of a collider."""

TyrePair = tuple[int, int]
"""A wheel and a floor: numbers of colliders."""


def find_tyres(builder: SpecBuilder) -> list[TyrePair]:
    """Return the wheels and floors that touch by a tyre; all geoms must have been added.

    A wheel is a cylinder, not wider than its diameter, that a revolute joint turns about its own axis. A floor is a
    static plane, or a static box with a large top.
    """
    if not builder.options.multiccd or builder.scene.mujoco_options:
        return []
    colliders = builder.scene.colliders
    wheels = [index for index, each in enumerate(colliders) if _is_wheel(builder, index, each)]
    floors = _floors(builder) if wheels else {}
    if not floors:
        return []
    filtered = CollisionFilter(builder.scene)
    pairs = [
        (wheel, floor)
        for wheel in wheels
        for floor, extent in floors.items()
        if extent >= _FLOOR * _radius(colliders[wheel])
        and can_touch(builder, wheel, floor)
        and not filtered(wheel, floor)
    ]
    if len(pairs) > MOST_PAIRS or len(CollisionFilter(builder.scene, pairs).classes()) > MOST_CLASSES:
        # The edges of wheels cost less than so many pairs.
        return []
    return pairs


def add_tyres(builder: SpecBuilder, pairs: Sequence[TyrePair]) -> None:
    """Add the tyres of wheels, and their contacts with floors; the wheels themselves must not collide with these."""
    tyres: dict[int, str] = {}
    for wheel, floor in pairs:
        collider = builder.scene.colliders[wheel]
        assert isinstance(collider.shape, Cylinder)
        if wheel not in tyres:
            tyres[wheel] = _add_tyre(builder, collider, collider.shape)
            builder.geom_names[wheel].append(tyres[wheel])
        pair = add_geom_pair(builder, (wheel, floor), (tyres[wheel], builder.geom_names[floor][0]))
        # The regularization is (1 - d) / d, with the impedance d.
        softness, impedance = min(1.0, collider.shape.radius / _RADIUS), np.array(pair.solimp)[:2]
        pair.solimp[:2] = impedance / (impedance + softness * (1.0 - impedance))
        if pair.condim == 3:
            pair.condim = 4
            pair.friction[2] = pair.friction[0] * 2.0 * collider.shape.half_height * _TORSION


def _add_tyre(builder: SpecBuilder, collider: Collider, shape: Cylinder) -> str:
    size = [shape.radius, shape.radius, shape.half_height]
    geom = builder.body(collider.body).add_geom(
        name=f"{collider.path}:tyre", type=mujoco.mjtGeom.mjGEOM_ELLIPSOID, size=size
    )
    geom.mass = 0.0
    # Neither rays nor cameras see it, and it touches what it is paired with only.
    geom.group = AUXILIARY_GROUP
    geom.contype = geom.conaffinity = 0
    set_pose(geom, pose_array(collider.body_from_shape))
    set_contact(builder, geom, collider)
    return str(geom.name)


def _radius(collider: Collider) -> float:
    assert isinstance(collider.shape, Cylinder)
    return collider.shape.radius


def _is_wheel(builder: SpecBuilder, index: int, collider: Collider) -> bool:
    """Return whether a collider is a wheel without contact parameters of its own."""
    shape = collider.shape
    if not isinstance(shape, Cylinder) or collider.body == WORLD_BODY or not builder.geom_names[index]:
        return False
    if shape.half_height > shape.radius or not _AUTHORED.isdisjoint(collider.solver):
        return False
    joints = builder.tree_joints(builder.scene.bodies[collider.body])
    if len(joints) != 1 or joints[0][1].type not in _TURNING or len(joints[0][1].dofs) != 1:
        return False
    joint = joints[0][1]
    body_from_joint = joint.body1_from_joint if joint.body1 == collider.body else joint.body0_from_joint
    motion = np.eye(3)["XYZ".index(joint.dofs[0].axis[-1])]
    turned = rotate(pose_array(body_from_joint)[3:], motion)
    axis = rotate(pose_array(collider.body_from_shape)[3:], np.array([0.0, 0.0, 1.0]))
    return abs(float(turned @ axis)) >= _ALONG and not builder.is_static(collider.body)


def _floors(builder: SpecBuilder) -> dict[int, float]:
    """Return the largest static planes and boxes, by number of the collider: the lesser half extent of the top, m."""
    found: dict[int, float] = {}
    for index, collider in enumerate(builder.scene.colliders):
        names = builder.geom_names[index]
        if len(names) != 1 or not _AUTHORED.isdisjoint(collider.solver):
            continue
        geom: Any = builder.spec.geom(names[0])
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            extent = math.inf
        elif geom.type == mujoco.mjtGeom.mjGEOM_BOX:
            extent = _top(builder, collider, np.array(geom.size))
        else:
            continue
        if builder.is_static(collider.body):
            found[index] = extent
    largest = sorted(found, key=lambda index: -found[index])[:MOST_FLOORS]
    return {index: found[index] for index in sorted(largest)}


def _top(builder: SpecBuilder, collider: Collider, half: FloatArray) -> float:
    """Return the lesser half extent (m) of the side of a box that looks up most."""
    world_from_shape = pose_array(collider.body_from_shape)
    if collider.body != WORLD_BODY:
        world_from_body = pose_array(builder.scene.bodies[collider.body].world_from_body)
        world_from_shape = compose(world_from_body, world_from_shape)
    up = np.abs(rotate(world_from_shape[3:], np.eye(3))[:, 2])
    return float(np.delete(half, int(up.argmax())).min())
