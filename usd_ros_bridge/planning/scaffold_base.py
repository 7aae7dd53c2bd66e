"""Plan the base and the ground of robots: fixed joints to the world, their removal, a ground plane, a physics scene."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.physics import WORLD_BODY, Collider, Joint, PhysicsScene, Plane
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.model.scaffold import (
    Decision,
    JointFrame,
    Opinion,
    Outcome,
    Property,
    Survey,
    free_name,
)
from usd_ros_bridge.planning.drive_wheels import rounded_core
from usd_ros_bridge.planning.joint_loads import lowest_points
from usd_ros_bridge.planning.names import parent_path, prim_name
from usd_ros_bridge.planning.robot_scaffold import converter_of
from usd_ros_bridge.spatial.transforms import FloatArray, pose_array, rotate

FramesIn = Callable[[str, Mapping[str, int]], Mapping[str, JointFrame]]
"""Looks up joint frames in a body: its path, and by joint the end that says where the joint is."""
PoseIn = Callable[[str, str], JointFrame]
"""Looks up the pose of a prim in another: the paths of the outer and the inner one."""

CLEARANCE = 0.001
"""m between the lowest collider of robots that float and the ground: contacts begin without a push."""
FIXED_CLEARANCE = 0.01
"""m for robots that are fixed to the world: their drives give way a little to the weight."""
_NEAR = 0.05
"""m: how far below a robot a static collider may end and still be its ground."""
_SIZE = 20.0
"""m: sides of the part of the plane that is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anchor:
    """A joint that hangs a body from the world."""

    path: str
    body: str
    child_end: int
    moves: bool


def _say(outcome: Outcome, subject: str, text: str, path: str) -> Decision:
    return Decision(outcome=outcome, subject=subject, text=text, path=path)


def anchors(scene: PhysicsScene, robot: int) -> list[_Anchor]:
    """Return the joints between bodies of a robot and the world."""

    def anchor(joint: Joint) -> _Anchor | None:
        ends = (joint.body0, joint.body1)
        if ends.count(WORLD_BODY) != 1:
            return None
        child_end = 1 if joint.body0 == WORLD_BODY else 0
        body = scene.bodies[ends[child_end]]
        if body.robot != robot:
            return None
        moves = bool(joint.dofs) or joint.type == "distance"
        return _Anchor(path=joint.path, body=body.path, child_end=child_end, moves=moves)

    return [found for joint in scene.joints if (found := anchor(joint)) is not None]


def carried_mass(scene: PhysicsScene, path: str) -> float:
    """Return the mass (kg) of a body and of all that hangs from it."""
    masses = [body.inertial.mass for body in scene.bodies]
    for number in reversed(range(len(scene.bodies))):
        parent = scene.bodies[number].parent
        if parent != WORLD_BODY:
            masses[parent] += masses[number]
    return masses[next(number for number, body in enumerate(scene.bodies) if body.path == path)]


def _names(found: Collection[_Anchor]) -> str:
    return ", ".join(prim_name(each.path) for each in found)


def ghost_of(survey: Survey, robot: RobotPlan, held: Collection[_Anchor]) -> str:
    """Return the path of the link without mass at the root of a converted robot, "" where there is none.

    A converter has made an Xform of it, and has fixed the links below it to the world.
    """
    if not converter_of(survey, robot):
        return ""
    xforms = {xform.path for xform in survey.xforms}
    return next((above for each in held if (above := parent_path(each.body)) in xforms), "")


def describe_base(plan: BridgePlan, index: int, survey: Survey) -> list[Decision]:
    """Say what ties a converted robot to the world."""
    robot = plan.robots[index]
    held = anchors(plan.physics, index) if plan.physics is not None else []
    if not held or not converter_of(survey, robot):
        return []
    ghost = ghost_of(survey, robot, held)
    bodies = ", ".join(prim_name(each.body) for each in held)
    if ghost:
        text = f"the root link {prim_name(ghost)} has no mass: the converter makes it an Xform and fixes {bodies} to it"
    else:
        text = f"the converter fixes the root link {bodies} to the world by {_names(held)}"
    return [_say("note", "base", f"{text}; with --free-base the robot floats", robot.path)]


def free_base(
    plan: BridgePlan, index: int, survey: Survey, frames_in: FramesIn, *, interfaces: bool = True
) -> tuple[list[Opinion], list[Decision]]:
    """Let a robot float: switch off the joint that fixes its base, and fix other links at the world to the base.

    Args:
        plan: With physics.
        index: Of the robot.
        survey: Of the same stage.
        frames_in: Looks up joint frames in the base.
        interfaces: The layer names all joints (REP 0158 section 2.10): a joint that is switched off, too.
    """
    assert plan.physics is not None
    robot = plan.robots[index]
    held = anchors(plan.physics, index)
    if not held:
        return [], [_say("left out", "free base", f"{robot.path} is not fixed to the world", robot.path)]
    closed = [each for each in held if each.path in survey.closed]
    if closed:
        text = f"{_names(closed)} is below an instance, where nothing can be authored"
        return [], [_say("left out", "free base", text, robot.path)]
    moving = [each for each in held if each.moves]
    fixed = [each for each in held if not each.moves]
    # Wheels of a root link without mass move in what is fixed to that link.
    if moving and not (fixed and ghost_of(survey, robot, held)):
        text = f"{robot.path} hangs from the world by joints that move, {_names(moving)}, and has no base of its own"
        return [], [_say("left out", "free base", text, robot.path)]
    base = max(fixed, key=lambda each: carried_mass(plan.physics, each.body))  # type: ignore[arg-type]
    others = [each for each in held if each.body != base.body]
    unnamed = {each.path for each in held if interfaces and each.path not in survey.named_joints}
    opinions = [_switched_off(each, named=each.path in unnamed) for each in held if each.body == base.body]
    frames = frames_in(base.body, {each.path: each.child_end for each in others})
    opinions += [_end_at(each, base.body, frames[each.path]) for each in others]
    # They are one tree now, which has one root.
    opinions += [
        Opinion(path=each.body, removed_schemas=("PhysicsArticulationRootAPI",))
        for each in others
        if each.body in survey.articulation_roots and base.body in survey.articulation_roots
    ]
    held_by = _names([each for each in held if each.body == base.body])
    text = f"{robot.path} floats: {held_by}, which fixes {prim_name(base.body)} to the world, is switched off"
    if others:
        text += f"; {_names(others)} hold to {prim_name(base.body)} instead of the world"
    return opinions, [_say("written", "free base", text, robot.path)]


def _switched_off(anchor: _Anchor, *, named: bool) -> Opinion:
    off = Property(name="physics:jointEnabled", type_name="bool", value=False)
    name = Property(name="ros:joint:name", type_name="string", value=prim_name(anchor.path), custom=True)
    return Opinion(path=anchor.path, properties=(off, name) if named else (off,))


def _end_at(anchor: _Anchor, base: str, frame: JointFrame) -> Opinion:
    """Return the opinions that move the end of a joint at the world to a body."""
    end = 1 - anchor.child_end
    return Opinion(
        path=anchor.path,
        properties=(
            Property(name=f"physics:body{end}", type_name="rel", value=(base,)),
            *_frame_properties(frame, end),
        ),
    )


def _frame_properties(frame: JointFrame, end: int) -> tuple[Property, Property]:
    return (
        Property(name=f"physics:localPos{end}", type_name="point3f", value=frame.position),
        Property(name=f"physics:localRot{end}", type_name="quatf", value=frame.rotation),
    )


def fix_base(
    plan: BridgePlan, index: int, survey: Survey, pose_in: PoseIn
) -> tuple[list[Opinion], list[Decision]]:
    """Fix the base of a robot to the world where it is at rest.

    Args:
        plan: With physics.
        index: Of the robot.
        survey: Of the same stage.
        pose_in: Looks up the base's pose.
    """
    assert plan.physics is not None
    robot = plan.robots[index]
    held = anchors(plan.physics, index)
    if held:
        text = f"{robot.path} is held by {_names(held)} already"
        return [], [_say("left out", "fixed base", text, robot.path)]
    if robot.base_row < 0:
        return [], [_say("left out", "fixed base", f"{robot.path} has no body to fix", robot.path)]
    base = plan.layout.bodies[robot.base_row]
    path = f"{robot.path}/{free_name('FixedBase', survey.children.get(robot.path, frozenset()))}"
    properties = [Property(name="physics:body1", type_name="rel", value=(base,))]
    # An end that is no body is where its prim is: the robot moves with its root.
    outer = robot.path if base != robot.path else parent_path(robot.path)
    if outer:
        properties.append(Property(name="physics:body0", type_name="rel", value=(outer,)))
    properties += _frame_properties(pose_in(outer or "/", base), 0)
    opinion = Opinion(path=path, define="PhysicsFixedJoint", properties=tuple(properties))
    return [opinion], [
        _say("written", "fixed base", f"{prim_name(base)} is fixed to the world where it is, by {path}", path)
    ]


# --- Ground -------------------------------------------------------------------------------------------------------


def plan_ground(plan: BridgePlan, survey: Survey) -> tuple[list[Opinion], list[Decision]]:
    """Put a ground plane below the lowest collider of the robots, and add a physics scene where there is none.

    Args:
        plan: With physics, the robots' bases as they will be.
        survey: Of the same stage.
    """
    assert plan.physics is not None
    scene = plan.physics
    opinions, decisions = _physics_scene(scene, survey)
    lowest = [
        (float(point[2]), scene.bodies[body])
        for body, point in lowest_points(scene).items()
        if body != WORLD_BODY and scene.bodies[body].robot >= 0
    ]
    if not lowest:
        return opinions, [*decisions, _say("left out", "ground", "no robot has a collider to stand on", "/")]
    height, body = min(lowest, key=lambda each: each[0])
    present = next((each for each in scene.colliders if _is_ground(each, height, scene)), None)
    if present is not None:
        top = _top(present)
        decisions.append(_say("left out", "ground", f"{present.path} is there already", present.path))
        if top is not None and top > height + CLEARANCE:
            text = f"{prim_name(body.path)} starts {top - height:.4g} m inside of {present.path}: raise the robot"
            decisions.append(_say("note", "ground", text, body.path))
        return opinions, decisions
    floats = plan.robots[body.robot].base >= 0
    level = math.floor((height - (CLEARANCE if floats else FIXED_CLEARANCE)) * 1e4) / 1e4
    path = f"/{free_name('GroundPlane', survey.root_prims)}"
    opinions += _ground(path, level, survey)
    text = (
        f"{path} at a height of {level:.4g} m, {1e3 * (height - level):.2g} mm below {prim_name(body.path)}"
    )
    decisions.append(_say("written", "ground", text, path))
    return opinions, decisions


def _ground(path: str, level: float, survey: Survey) -> list[Opinion]:
    """Return a plane that collides and one that is seen.

    It has no physics material, as a ground that Isaac Sim or a scene brings: engines average the default with those
    of wheels and feet.
    """
    up = survey.up_axis
    height, size = level / survey.meters, _SIZE / survey.meters
    place = (0.0, height, 0.0) if up == "Y" else (0.0, 0.0, height)
    extent = (
        Property(name="axis", type_name="token", value=up, uniform=True),
        Property(name="length", type_name="double", value=size),
        Property(name="width", type_name="double", value=size),
    )
    return [
        Opinion(
            path=path,
            define="Xform",
            properties=(
                Property(name="xformOp:translate", type_name="double3", value=place),
                Property(name="xformOpOrder", type_name="token[]", value=["xformOp:translate"], uniform=True),
            ),
        ),
        Opinion(
            path=f"{path}/collision",
            define="Plane",
            schemas=("PhysicsCollisionAPI",),
            properties=(
                *extent,
                Property(name="physics:approximation", type_name="token", value="none", uniform=True),
                Property(name="purpose", type_name="token", value="guide", uniform=True),
            ),
        ),
        Opinion(
            path=f"{path}/visual",
            define="Plane",
            properties=(
                *extent,
                Property(name="primvars:displayColor", type_name="color3f[]", value=[(0.5, 0.5, 0.5)]),
            ),
        ),
    ]


def _physics_scene(scene: PhysicsScene, survey: Survey) -> tuple[list[Opinion], list[Decision]]:
    if survey.has_physics_scene:
        text = "that of the asset has no gravity: nothing is pressed on the ground"
        return [], [] if any(scene.gravity) else [_say("note", "physics scene", text, "/")]
    path = f"/{free_name('PhysicsScene', survey.root_prims)}"
    down = (0.0, -1.0, 0.0) if survey.up_axis == "Y" else (0.0, 0.0, -1.0)
    opinion = Opinion(
        path=path,
        define="PhysicsScene",
        properties=(
            Property(name="physics:gravityDirection", type_name="vector3f", value=down),
            Property(name="physics:gravityMagnitude", type_name="float", value=9.81 / survey.meters),
        ),
    )
    return [opinion], [_say("written", "physics scene", f"{path}, gravity 9.81 m/s^2 downwards", path)]


def _world_bounds(collider: Collider) -> tuple[FloatArray, FloatArray] | None:
    """Return the lowest and highest coordinates of a static collider; None where it has no end."""
    points, margin = rounded_core(collider.shape)
    if points is None:
        return None
    pose = pose_array(collider.body_from_shape)
    world: FloatArray = pose[:3] + rotate(pose[3:], points)
    return world.min(axis=0) - margin, world.max(axis=0) + margin


def _top(collider: Collider) -> float | None:
    """Return the height of a static collider's highest point; of an endless plane, of its origin."""
    if isinstance(collider.shape, Plane):
        return float(collider.body_from_shape.translation[2])
    bounds = _world_bounds(collider)
    return None if bounds is None else float(bounds[1][2])


def _is_ground(collider: Collider, height: float, scene: PhysicsScene) -> bool:
    """Return whether a collider is static and below the robots: a plane, or a floor that reaches below all of them."""
    if collider.body != WORLD_BODY:
        return False
    if isinstance(collider.shape, Plane):
        up = rotate(pose_array(collider.body_from_shape)[3:], np.array([0.0, 0.0, 1.0]))
        return bool(up[2] > 0.5)
    bounds = _world_bounds(collider)
    if bounds is None or abs(float(bounds[1][2]) - height) > _NEAR:
        return False
    roots = np.array([body.world_from_body.translation[:2] for body in scene.bodies if body.robot >= 0])
    low, high = bounds[0][:2], bounds[1][:2]
    return bool((roots >= low).all() and (roots <= high).all())
