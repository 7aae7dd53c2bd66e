"""Base links: the body whose pose is the robot's, and the source of its transform."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.model.controller_schemas import CONTROLLERS, schema_name
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import ODOMETRY
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.contexts import BASE_TRANSFORM, Context
from usd_ros_bridge.planning.interfaces import InterfaceDraft
from usd_ros_bridge.planning.kinematics.joint_graph import RobotTree
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.stage_index import StageIndex

BaseTransform = Literal["ground_truth", "odometry", "none"]


@dataclass(frozen=True, slots=True)
class Base:
    """A robot's base.

    Attributes:
        body: Root body, "" where the robot has none.
        free: Whether nothing ties it to the world.
        tree: Index of its tree, -1 for a single body.
    """

    body: str = ""
    free: bool = False
    tree: int = -1


def choose_bases(
    kinematics: KinematicModel,
    index: StageIndex,
    *,
    wheels: Collection[str],
    needing: Iterable[str],
    wanting: Collection[str],
) -> list[Base]:
    """Return the base of each robot.

    Args:
        kinematics: The trees.
        index: The stage.
        wheels: Joints that differential drives turn: their tree is the base's.
        needing: Prims that need a frame; the bodies that carry them can be bases of robots without joints.
        wanting: Contexts with an interface of the whole robot that needs a body.
    """
    singles: dict[str, list[str]] = {}
    for path in [*index.articulation_roots, *map(index.body_at, needing)]:
        if path in kinematics.owners:
            singles.setdefault(kinematics.owners[path], []).append(path)
    only: dict[str, list[str]] = {}
    for body, owner in kinematics.owners.items():
        only.setdefault(owner, []).append(body)
    bases = []
    for robot in kinematics.robots:
        root = robot.context.path
        if robot.trees:
            bases.append(_base_of_trees(robot, wheels))
        elif root in index.bodies:
            bases.append(Base(root, free=True))
        elif root in singles:
            bases.append(Base(min(singles[root], key=index.order), free=True))
        elif root in wanting and len(only.get(root, ())) == 1:
            bases.append(Base(only[root][0], free=True))
        else:
            bases.append(Base())
    return bases


def _base_of_trees(robot: RobotTree, wheels: Collection[str]) -> Base:
    """Return the base in the tree with the wheels, else the context's own body, else in the largest, else the first."""

    def rank(number: int) -> tuple[bool, bool, int, int]:
        tree = robot.trees[number]
        driven = any(joint.path in wheels for edge in tree.edges for joint in edge.joints)
        return driven, robot.context.path in tree.bodies, len(tree.bodies), -number

    number = max(range(len(robot.trees)), key=rank)
    tree = robot.trees[number]
    return Base(tree.root or tree.edges[0].child, free=bool(tree.root), tree=number)


def wheel_joints(records: StageRecords) -> set[str]:
    """Return the joints that controllers of a base name, whatever else is wrong with them: wheels."""
    targets = [
        target
        for record in records.controllers
        if (schema := CONTROLLERS[schema_name(type(record))]).claims_base
        for name in schema.joints
        for target in getattr(record, name) or ()
    ]
    return {path for target in targets for path in records.collections.get(target, (target,))}


def odometry_owners(plans: Iterable[ControllerPlan], interfaces: Iterable[InterfaceDraft]) -> dict[int, str]:
    """Return the odometry frame of each robot whose base an active controller with an odometry publisher moves."""
    odometry = {
        draft.path: draft for draft in interfaces if draft.type == ODOMETRY and draft.role == "publisher"
    }
    result: dict[int, str] = {}
    for plan in plans:
        if CONTROLLERS[plan.schema].claims_base and plan.enabled and plan.robot >= 0:
            for path in plan.interfaces:
                draft = odometry.get(path)
                if draft is not None and not draft.reason:
                    result.setdefault(plan.robot, draft.override_frame_id or "odom")
    return result


def resolve_base_transforms(
    bases: Sequence[Base],
    contexts: Sequence[Context],
    owners: Mapping[int, str],
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> tuple[list[BaseTransform], dict[int, str]]:
    """Return each robot's base transform, and the odometry frame of those whose base has an odometry parent.

    Args:
        bases: Bases of the robots.
        contexts: Their outermost contexts: what they author counts where the caller leaves the choice (`auto`).
        owners: Odometry frame of the robots that a differential drive owns.
        options: The caller's choice.
        findings: Collector of faults.
    """
    transforms: list[BaseTransform] = []
    odom_frames: dict[int, str] = {}
    for robot, (base, context) in enumerate(zip(bases, contexts, strict=True)):
        wanted = context.base_transform if options.base_transform == "auto" else options.base_transform
        chosen: BaseTransform = "ground_truth"
        if wanted == "none":
            # Of a robot that is anchored: its place in the world.
            chosen = "none"
        elif base.free:
            if wanted != "auto":
                chosen = wanted
            elif robot in owners:
                chosen = "odometry"
        elif context.base_transform == "odometry":
            findings.warning(
                "2.1.base_transform",
                context.path,
                "base_transform 'odometry' has no effect: the robot has no base that moves",
                "remove it, or free the base",
                attribute=BASE_TRANSFORM,
            )
        if chosen == "odometry":
            odom_frames[robot] = owners.get(robot, "odom")
        transforms.append(chosen)
    return transforms, odom_frames
