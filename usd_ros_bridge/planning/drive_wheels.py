"""Wheels by their names: which joints of a robot make a differential drive, and its dimensions from geometry.

For `scaffold`, where nothing is declared; a declared drive has all of this itself.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.physics import (
    Box,
    Capsule,
    Cone,
    Mesh,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
    cone_mesh,
)
from usd_ros_bridge.model.plan import BridgePlan, JointPlan, RobotPlan
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    inverse,
    pose_array,
    relative,
    rotate,
)

ALIGNED = 0.95
"""Cosine from which on two directions are the same."""

_WHEEL = re.compile(r"wheel|tyre|(?<![a-z])tire", re.IGNORECASE)
_NO_DRIVEN_WHEEL = re.compile(r"cast[eo]r|swivel|steer|fork|kingpin|idler|passive", re.IGNORECASE)
_STEERING = re.compile(r"steer|kingpin", re.IGNORECASE)
_PASSIVE = re.compile(r"cast[eo]r|swivel|idler|passive", re.IGNORECASE)
_SIDES = {"left": re.compile(r"left", re.IGNORECASE), "right": re.compile(r"right", re.IGNORECASE)}
_TOKENS = {
    "left": frozenset(["l", "fl", "rl", "bl", "ml", "lf", "lr", "lb", "lm", "lh"]),
    "right": frozenset(["r", "fr", "rr", "br", "mr", "rf", "rb", "rm", "rh"]),
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_AXES = {"rotX": 0, "rotY": 1, "rotZ": 2}
_SLIDES = ("transX", "transY", "transZ")
_CIRCLE = 64
_SPREAD = 0.02
"""Relative difference up to which wheels count as equally large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveGeometry:
    """A differential drive.

    Attributes:
        left: Joints of the wheels on the left, +Y of the base (REP 103).
        right: Joints on the right.
        separation: Between the middles of the wheels' sides, m.
        radius: m.
        remarks: Points to check.
    """

    left: tuple[JointPlan, ...]
    right: tuple[JointPlan, ...]
    separation: float
    radius: float
    remarks: tuple[str, ...] = ()


class NoDriveError(Exception):
    """The robot has wheels, and they make no differential drive. The message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wheel:
    joint: JointPlan
    center: FloatArray
    axis: FloatArray
    radius: float | None


def is_wheel(joint: JointPlan) -> bool:
    """Return whether a joint, or the link that it moves, is named after a wheel or caster."""
    return any(_WHEEL.search(name) or _NO_DRIVEN_WHEEL.search(name) for name in (joint.name, joint.child))


def side_of(name: str) -> str:
    """Return `left` or `right` as a name says it (`left_wheel`, `wheel_FL`), "" where it says neither or both."""
    found = {side for side, pattern in _SIDES.items() if pattern.search(name)}
    if not found:
        words = {word.lower() for word in _WORDS.findall(name)}
        found = {side for side, tokens in _TOKENS.items() if words & tokens}
    return found.pop() if len(found) == 1 else ""


def find_drive(plan: BridgePlan, robot: RobotPlan) -> DriveGeometry | None:
    """Return the differential drive that a robot's wheels are named after, None where no joint is named so.

    Args:
        plan: With physics.
        robot: One of its robots.

    Raises:
        NoDriveError: Wheels are named, and they are no differential drive of known dimensions.
    """
    named: dict[str, list[JointPlan]] = defaultdict(list)
    for joint in robot.joints:
        if _turns(joint):
            named[_side(joint)].append(joint)
    named.pop("", None)
    if not named:
        return None
    if len(named) == 1:
        raise NoDriveError(f"wheels are named on the {next(iter(named))} only")
    if robot.base_row < 0 or robot.base < 0:
        raise NoDriveError("the robot's base cannot move: it is fixed to the world")
    driven = _driven(plan.physics, [*named["left"], *named["right"]])
    sides = {side: [joint for joint in named[side] if joint.path in driven] for side in ("left", "right")}
    if not all(sides.values()):
        raise NoDriveError("the wheels of one side only have a drive")
    return _measure(plan, robot, sides["left"], sides["right"])


def _side(joint: JointPlan) -> str:
    if any(_NO_DRIVEN_WHEEL.search(name) for name in (joint.name, joint.child)):
        return ""
    if not any(_WHEEL.search(name) for name in (joint.name, joint.child)):
        return ""
    return side_of(joint.name) or side_of(joint.child)


def _turns(joint: JointPlan) -> bool:
    if len(joint.dofs) != 1 or joint.dofs[0].axis not in _AXES or joint.dofs[0].mimic is not None:
        return False
    return joint.dofs[0].upper - joint.dofs[0].lower > 2.0 * math.pi


def _driven(physics: PhysicsScene | None, joints: Sequence[JointPlan]) -> frozenset[str]:
    """Return the paths of the joints with a drive; all where none has one."""
    drives = driven_joints(physics) & {joint.path for joint in joints}
    return drives or frozenset(joint.path for joint in joints)


def driven_joints(physics: PhysicsScene | None) -> frozenset[str]:
    """Return the paths of all joints with a drive or an actuator."""
    joints = physics.joints if physics is not None else ()
    actuated = {each.joint for each in physics.actuators} if physics is not None else set[int]()
    return frozenset(
        joint.path
        for number, joint in enumerate(joints)
        if number in actuated or any(dof.drive is not None for dof in joint.dofs)
    )


# --- Dimensions ---------------------------------------------------------------------------------------------------


def _measure(
    plan: BridgePlan, robot: RobotPlan, left: Sequence[JointPlan], right: Sequence[JointPlan]
) -> DriveGeometry:
    base = plan.layout.bodies[robot.base_row]
    rigid = _rigid_with(plan, robot, base)
    loose = next((joint for joint in (*left, *right) if joint.parent_path not in rigid), None)
    if loose is not None:
        raise NoDriveError(
            f"{loose.name} hangs from {loose.parent}, which moves in the base (steering, a rocker)"
        )
    wheels = [[_wheel(plan, joint) for joint in side] for side in (left, right)]
    centers = [np.mean([wheel.center for wheel in side], axis=0) for side in wheels]
    across = centers[0] - centers[1]
    length = float(np.linalg.norm(across))
    if length < 1e-6:
        raise NoDriveError("the wheels of both sides are in one place")
    to_left = rotate(inverse(plan.layout.body_pose[robot.base_row])[3:], across / length)
    if to_left[1] < ALIGNED:
        where = "on the right" if to_left[1] < -ALIGNED else "not at the side"
        raise NoDriveError(f"the wheels named left are {where} of {base} (REP 103: X ahead, Y to the left)")
    every = [wheel for side in wheels for wheel in side]
    for wheel in every:
        if abs(float(wheel.axis @ across)) < ALIGNED * length:
            raise NoDriveError(f"{wheel.joint.name} does not turn about the line from right to left")
    radius, remarks = _radius(every)
    return DriveGeometry(
        left=tuple(left),
        right=tuple(right),
        separation=_rounded(abs(float(every[0].axis @ across))),
        radius=radius,
        remarks=remarks,
    )


def _radius(wheels: Sequence[_Wheel]) -> tuple[float, tuple[str, ...]]:
    known = [wheel.radius for wheel in wheels if wheel.radius is not None]
    if not known:
        raise NoDriveError("no wheel has geometry to take the radius from")
    remarks = []
    if len(known) < len(wheels):
        remarks.append(f"{len(wheels) - len(known)} of {len(wheels)} wheels have no geometry")
    if max(known) - min(known) > _SPREAD * max(known):
        remarks.append(f"wheels measure from {min(known):.4g} to {max(known):.4g} m; their mean is taken")
    return _rounded(sum(known) / len(known)), tuple(remarks)


def _rounded(length: float) -> float:
    """Return a length to a hundredth of a millimetre: single precision is what geometry has."""
    return round(length, 5)


def _rigid_with(plan: BridgePlan, robot: RobotPlan, body: str) -> set[str]:
    """Return the bodies that keep their place in the plane of a body: those it holds, and on springs up and down."""
    neighbours: dict[str, list[str]] = defaultdict(list)
    for edge in robot.edges:
        if edge.rigid or (
            len(edge.joints) == 1 and _is_suspension(plan, robot, robot.joints[edge.joints[0]])
        ):
            neighbours[edge.parent_path].append(edge.child_path)
            neighbours[edge.child_path].append(edge.parent_path)
    found, pending = {body}, [body]
    while pending:
        for other in neighbours[pending.pop()]:
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def _is_suspension(plan: BridgePlan, robot: RobotPlan, joint: JointPlan) -> bool:
    """Return whether a joint moves a wheel's carrier along the base's Z axis."""
    if joint.type != "prismatic" or joint.dofs[0].axis not in _SLIDES:
        return False
    row = plan.layout.body_index.get(joint.child_path, -1)
    world_from_body = plan.layout.body_pose[row] if row >= 0 else IDENTITY
    body_from_joint = pose_array(joint.body0_from_joint if joint.inverted else joint.body1_from_joint)
    base_from_joint = relative(
        plan.layout.body_pose[robot.base_row], compose(world_from_body, body_from_joint)
    )
    along = rotate(base_from_joint[3:], np.eye(3)[_SLIDES.index(joint.dofs[0].axis)])
    return abs(float(along[2])) > ALIGNED


def _wheel(plan: BridgePlan, joint: JointPlan) -> _Wheel:
    axis = _AXES[joint.dofs[0].axis]
    body_from_joint = pose_array(joint.body0_from_joint if joint.inverted else joint.body1_from_joint)
    row = plan.layout.body_index.get(joint.child_path, -1)
    world_from_body = plan.layout.body_pose[row] if row >= 0 else IDENTITY
    world_from_joint = compose(world_from_body, body_from_joint)
    along, radius = 0.0, None
    points = _points_of(plan.physics, joint.child_path, body_from_joint)
    if points is not None:
        along = float(points[:, axis].min() + points[:, axis].max()) / 2.0
        radius = float(np.linalg.norm(np.delete(points, axis, axis=1), axis=1).max())
    unit = np.eye(3)[axis]
    return _Wheel(
        joint=joint,
        center=world_from_joint[:3] + rotate(world_from_joint[3:], along * unit),
        axis=rotate(world_from_joint[3:], unit),
        radius=radius,
    )


def wheel_radius(plan: BridgePlan, joint: JointPlan) -> float | None:
    """Return the radius (m) of the wheel that a joint turns, None where the wheel has no geometry."""
    return _wheel(plan, joint).radius if joint.dofs[0].axis in _AXES else None


def is_passive_wheel(joint: JointPlan) -> bool:
    """Return whether a joint, or its link, is named after a caster or another wheel that no motor moves."""
    return any(_PASSIVE.search(name) for name in (joint.name, joint.child))


def is_steering(joint: JointPlan) -> bool:
    """Return whether a joint is named after a part that steers a wheel."""
    return bool(_STEERING.search(joint.name))


def _points_of(physics: PhysicsScene | None, body: str, body_from_joint: FloatArray) -> FloatArray | None:
    """Return points (N, 3) of a body's surface in the joint's frame: of what collides, else of what is seen."""
    if physics is None:
        return None
    number = next((index for index, each in enumerate(physics.bodies) if each.path == body), None)
    if number is None:
        return None
    for group in (physics.colliders, physics.visuals):
        clouds = [
            _moved(points, relative(body_from_joint, pose_array(each.body_from_shape)))
            for each in group
            if each.body == number and (points := surface_points(each.shape)) is not None
        ]
        if clouds:
            return np.concatenate(clouds)
    return None


def _moved(points: FloatArray, frame_from_shape: FloatArray) -> FloatArray:
    moved: FloatArray = frame_from_shape[:3] + rotate(frame_from_shape[3:], points)
    return moved


def surface_points(shape: Shape) -> FloatArray | None:
    """Return points (N, 3) that span a shape; None where it has no end."""
    if isinstance(shape, Mesh):
        if not len(shape.triangles):
            return None
        used: FloatArray = shape.points[np.unique(shape.triangles)]
        return used
    if isinstance(shape, Box):
        signs = [[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]
        return np.multiply(signs, shape.half)
    if isinstance(shape, Plane):
        return None
    if isinstance(shape, Sphere):
        return np.concatenate([_circle(shape.radius, axis, 0.0) for axis in range(3)])
    rings = (shape.half_height, -shape.half_height)
    return np.concatenate([_circle(shape.radius, 2, height) for height in rings])


def rounded_core(shape: Shape) -> tuple[FloatArray | None, float]:
    """Return points (N, 3) and a radius around each that span a shape, however it is turned; no points: no end.

    The points of `surface_points` leave gaps between circles, which matter where a shape touches the ground.
    """
    if isinstance(shape, Sphere):
        return np.zeros((1, 3)), shape.radius
    if isinstance(shape, Capsule):
        return np.array([[0.0, 0.0, shape.half_height], [0.0, 0.0, -shape.half_height]]), shape.radius
    if isinstance(shape, Cone):
        return cone_mesh(shape).points, 0.0
    return surface_points(shape), 0.0


def _circle(radius: float, axis: int, height: float) -> FloatArray:
    angle = np.arange(_CIRCLE) * (2.0 * math.pi / _CIRCLE)
    points = np.zeros((_CIRCLE, 3))
    points[:, (axis + 1) % 3], points[:, (axis + 2) % 3] = radius * np.cos(angle), radius * np.sin(angle)
    points[:, axis] = height
    return points


def names_of(joints: Iterable[JointPlan]) -> str:
    """Return the joints' names as a list for people."""
    return ", ".join(joint.name for joint in joints)
