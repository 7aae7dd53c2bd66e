"""What the joints of a scene move and carry: inertia at rest, and weight.

For `scaffold`, which makes drives of it. The inertia of a joint is its entry on the diagonal of the mass matrix: of all
bodies outboard of it, with every other joint held still.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Dof, Inertial, Joint, PhysicsScene
from usd_ros_bridge.planning.drive_wheels import rounded_core
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose_array, rotate

_AXLE = 1e-3
"""m: wheels that are this far ahead of each other are on one axle."""
_TIPPING = 0.1
"""Acceleration at which a robot on one axle is to stay upright, in g: the weight moves by this share of its height."""
_LEVEL = 0.02
"""Share of a robot's height by which the feet that it stands on may differ in height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLoad:
    """What a joint with one degree of freedom moves.

    Attributes:
        inertia: kg m^2, or kg: of what is outboard, with the joints that mimic this one, and the armature.
        weight: N m, or N: the most that gravity can load the joint with, with everything outboard stretched out
            across its axis.
        mass: kg that are outboard.
    """

    inertia: float
    weight: float
    mass: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Axis:
    """The axis of a joint in the world: `direction` is a unit vector through `anchor`."""

    dof: Dof
    anchor: FloatArray
    direction: FloatArray

    @property
    def turns(self) -> bool:
        return self.dof.axis.startswith("rot")

    def lever(self, point: FloatArray) -> FloatArray:
        """Return the velocity of a point per unit of the joint's velocity."""
        turned: FloatArray = np.cross(self.direction, point - self.anchor) if self.turns else self.direction
        return turned


def _axis(scene: PhysicsScene, joint: Joint) -> _Axis:
    dof = joint.dofs[0]
    # A joint has the sign of body1's motion, whichever end is the child.
    pose = pose_array(joint.body0_from_joint)
    if joint.body0 != WORLD_BODY:
        pose = compose(pose_array(scene.bodies[joint.body0].world_from_body), pose)
    unit = np.eye(3)["XYZ".index(dof.axis[-1])]
    return _Axis(dof=dof, anchor=pose[:3], direction=rotate(pose[3:], unit))


def _tensor(inertial: Inertial, rotation: FloatArray) -> FloatArray:
    """Return a body's inertia about its centre of mass, in the world's axes."""
    axes = rotate(rotation, rotate(np.array(inertial.principal), np.eye(3)))
    tensor: FloatArray = axes.T @ np.diag(inertial.diagonal) @ axes
    return tensor


def _leader(scene: PhysicsScene, number: int) -> tuple[int, float]:
    """Return the joint that a joint follows at last, and its velocity per velocity of that one."""
    factor, seen = 1.0, {number}
    while (rule := scene.joints[number].dofs[0].mimic) is not None and rule.joint not in seen:
        if len(scene.joints[rule.joint].dofs) != 1:
            break
        number, factor = rule.joint, factor * rule.multiplier
        seen.add(number)
    return number, factor


def joint_loads(scene: PhysicsScene) -> dict[int, JointLoad]:
    """Return what each joint of a tree moves, by its index; joints with several degrees of freedom are left out.

    Args:
        scene: At rest.
    """
    gravity = float(np.linalg.norm(scene.gravity))
    axes = {
        number: _axis(scene, joint)
        for number, joint in enumerate(scene.joints)
        if len(joint.dofs) == 1 and not joint.closes_loop
    }
    inertia: dict[int, float] = defaultdict(float)
    weight: dict[int, float] = defaultdict(float)
    mass: dict[int, float] = defaultdict(float)
    for body in scene.bodies:
        pose = pose_array(body.world_from_body)
        center = pose[:3] + rotate(pose[3:], np.array(body.inertial.center))
        tensor = _tensor(body.inertial, pose[3:])
        linear: dict[int, FloatArray] = defaultdict(lambda: np.zeros(3))
        angular: dict[int, FloatArray] = defaultdict(lambda: np.zeros(3))
        outer, length = center, 0.0
        for number in joints_inboard(scene, body):
            if number not in axes:
                continue
            axis = axes[number]
            leader, factor = _leader(scene, number)
            linear[leader] += factor * axis.lever(center)
            angular[leader] += factor * axis.direction * axis.turns
            reach = float(np.linalg.norm(axis.lever(outer))) + length if axis.turns else 1.0
            weight[number] += body.inertial.mass * gravity * body.gravity_scale * reach
            mass[number] += body.inertial.mass
            length += float(np.linalg.norm(axis.anchor - outer))
            outer = axis.anchor
        for number, v in linear.items():
            w = angular[number]
            inertia[number] += body.inertial.mass * float(v @ v) + float(w @ tensor @ w)
    for number, axis in axes.items():
        leader, factor = _leader(scene, number)
        inertia[leader] += factor**2 * axis.dof.armature
    return {
        number: JointLoad(inertia=inertia[number], weight=weight[number], mass=mass[number])
        for number in axes
    }


def joints_inboard(scene: PhysicsScene, body: Body) -> list[int]:
    """Return the joints between a body and the root of its tree, from the body inwards."""
    found: list[int] = []
    while body.joints:
        found += reversed(body.joints)
        if body.parent == WORLD_BODY:
            break
        body = scene.bodies[body.parent]
    return found


def lowest_point(scene: PhysicsScene, collider: Collider) -> FloatArray | None:
    """Return the lowest point of a collider in the world; None where it has no end."""
    points = _undersides(scene, collider)
    return None if points is None else points[points[:, 2].argmin()]


def _undersides(scene: PhysicsScene, collider: Collider) -> FloatArray | None:
    """Return points (N, 3) in the world that span a collider from below; None where it has no end."""
    points, margin = rounded_core(collider.shape)
    if points is None:
        return None
    pose = pose_array(collider.body_from_shape)
    if collider.body != WORLD_BODY:
        pose = compose(pose_array(scene.bodies[collider.body].world_from_body), pose)
    world: FloatArray = pose[:3] + rotate(pose[3:], points) - np.array([0.0, 0.0, margin])
    return world


def lowest_points(scene: PhysicsScene) -> dict[int, FloatArray]:
    """Return the lowest point of the colliders of each body, in the world; of static ones by WORLD_BODY."""
    found: dict[int, FloatArray] = {}
    for collider in scene.colliders:
        lowest = lowest_point(scene, collider)
        if lowest is not None and (collider.body not in found or lowest[2] < found[collider.body][2]):
            found[collider.body] = lowest
    return found


def sliding_colliders(
    scene: PhysicsScene, bodies: Sequence[int], wheels: Sequence[int] = ()
) -> list[Collider]:
    """Return what a robot on wheels drags over the ground: colliders rigid with its base, level with its lowest point.

    A robot with one axle leans to where its weight is, also as it speeds up and brakes, or to both sides, unless
    something supports it there. The collider that then touches first is dragged, too.

    Args:
        scene: At rest.
        bodies: The robot's, by index in the scene.
        wheels: Joints of its driven wheels.
    """
    own = [(each, lowest_point(scene, each)) for each in scene.colliders if each.body in bodies]
    lowest = [(each, point) for each, point in own if point is not None]
    if not lowest:
        return []
    bottom = min(float(point[2]) for _, point in lowest)
    level = _level(scene, bodies, bottom)

    def is_rigid(collider: Collider) -> bool:
        inboard = joints_inboard(scene, scene.bodies[collider.body])
        return not any(scene.joints[joint].dofs for joint in inboard)

    standing = [(each, point) for each, point in lowest if point[2] <= level]
    dragged = [each for each, _ in standing if is_rigid(each)]
    axle = _axle(scene, wheels)
    if axle is not None:
        turned = {body for joint in wheels for body in (scene.joints[joint].body0, scene.joints[joint].body1)}
        supports = [
            float((point - axle[0]) @ axle[1])
            for each, point in standing
            if is_rigid(each) or each.body not in turned
        ]
        rigid = [each for each, _ in lowest if is_rigid(each)]
        center = _center(scene, bodies)
        weight = float((center - axle[0]) @ axle[1])
        for side in (1.0, -1.0):
            leans = weight * side > -_TIPPING * (center[2] - bottom) or not supports
            if leans and not any(way * side > _AXLE for way in supports):
                dragged += _first_touching(scene, rigid, axle[0], side * axle[1], bottom)
    return dragged


def _axle(scene: PhysicsScene, wheels: Sequence[int]) -> tuple[FloatArray, FloatArray] | None:
    """Return a point on the axle of wheels and the level direction across it; None where they have several."""
    if not wheels:
        return None
    axes = [_axis(scene, scene.joints[joint]) for joint in wheels]
    ahead = np.cross(axes[0].direction, [0.0, 0.0, 1.0])
    anchors = np.array([axis.anchor for axis in axes])
    return None if np.ptp(anchors @ ahead) > _AXLE else (anchors[0], ahead)


def _center(scene: PhysicsScene, bodies: Sequence[int]) -> FloatArray:
    """Return the centre of mass (3,) of bodies at rest."""
    total, moment = 0.0, np.zeros(3)
    for body in (scene.bodies[number] for number in bodies):
        pose = pose_array(body.world_from_body)
        total += body.inertial.mass
        moment += body.inertial.mass * (pose[:3] + rotate(pose[3:], np.array(body.inertial.center)))
    center: FloatArray = moment / max(total, 1e-12)
    return center


def _first_touching(
    scene: PhysicsScene, rigid: Sequence[Collider], center: FloatArray, ahead: FloatArray, bottom: float
) -> list[Collider]:
    """Return the collider that touches the ground first if a robot leans ahead about its axle."""
    leans: list[tuple[float, int, Collider]] = []
    for collider in rigid:
        points = _undersides(scene, collider)
        assert points is not None
        ways = (points - center) @ ahead
        angles = np.arctan2(points[:, 2] - bottom, np.abs(ways))[ways > _AXLE]
        leans += [(float(angles.min()), len(leans), collider)] if angles.size else []
    return [min(leans)[2]] if leans else []


def _level(scene: PhysicsScene, bodies: Sequence[int], bottom: float) -> float:
    """Return the height up to which a robot's parts count as standing on the ground."""
    height = max(float(scene.bodies[body].world_from_body.translation[2]) for body in bodies) - bottom
    return bottom + _LEVEL * height


def standing_loads(
    scene: PhysicsScene, bodies: Sequence[int], wheels: Collection[int] = ()
) -> dict[int, float]:
    """Return what the joints of the legs of a robot carry that floats, N m or N, by joint; empty without legs.

    Legs are limbs whose lowest points are level with the robot's lowest point. Half of them carry the whole robot.

    Args:
        scene: At rest.
        bodies: The robot's, by index in the scene.
        wheels: Joints that turn wheels: what stands on those has no legs.
    """
    lowest = {body: point for body, point in lowest_points(scene).items() if body in bodies}
    if not lowest:
        return {}
    bottom = min(float(point[2]) for point in lowest.values())
    level = _level(scene, bodies, bottom)
    feet = {body: point for body, point in lowest.items() if point[2] <= level}
    legs: dict[int, tuple[list[int], FloatArray]] = {}
    for body, point in feet.items():
        inboard = [joint for joint in joints_inboard(scene, scene.bodies[body]) if scene.joints[joint].dofs]
        if inboard and not set(inboard) & set(wheels):
            legs.setdefault(inboard[-1], (inboard, point))
    weight = sum(scene.bodies[body].inertial.mass for body in bodies) * float(np.linalg.norm(scene.gravity))
    share = weight / max(1.0, 0.5 * len(legs))
    return {
        joint: share * float(np.linalg.norm(_axis(scene, scene.joints[joint]).lever(point)))
        for inboard, point in legs.values()
        for joint in inboard
        if len(scene.joints[joint].dofs) == 1
    }
