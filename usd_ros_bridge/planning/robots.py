"""RobotPlan: the trees, frames and joints of one robot put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.plan import AxisLetter, EdgePlan, FramePlan, JointPlan, RobotPlan, TfOutput
from usd_ros_bridge.model.records import ContextRecord
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.diagnostic_collector import DiagnosticCollector
from usd_ros_bridge.planning.frames import PlacedFrames
from usd_ros_bridge.planning.kinematics.joint_graph import RobotTree
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import join, robot_name
from usd_ros_bridge.planning.placement import global_prefix
from usd_ros_bridge.planning.prim_poses import as_poses
from usd_ros_bridge.spatial.pose import Pose

BaseTransform = Literal["ground_truth", "odometry", "none"]


def resolve_base_transforms(
    bases: Sequence[Base], owners: Mapping[int, str], options: PlanOptions
) -> tuple[list[BaseTransform], dict[int, str]]:
    """Return each robot's base transform, and the odometry frame of those whose base has an odometry parent.

    Args:
        bases: Bases of the robots.
        owners: Odometry frame of the robots that a differential drive owns.
        options: The caller's choice.
    """
    transforms: list[BaseTransform] = []
    odom_frames: dict[int, str] = {}
    for robot, base in enumerate(bases):
        chosen: BaseTransform = "ground_truth"
        if options.base_transform == "none":
            # Of a robot that is anchored: its place in the world.
            chosen = "none"
        elif base.free:
            if options.base_transform != "auto":
                chosen = options.base_transform
            elif robot in owners:
                chosen = "odometry"
        if chosen == "odometry":
            odom_frames[robot] = owners.get(robot, "odom")
        transforms.append(chosen)
    return transforms, odom_frames


def check_parent_frames(
    contexts: Iterable[ContextRecord], robots: Iterable[RobotPlan], findings: DiagnosticCollector
) -> None:
    """Report authored parent frames of robots whose base has an odometry frame for its parent instead."""
    authored = {record.path: record.parent_frame for record in contexts if record.parent_frame is not None}
    for robot in robots:
        if robot.path not in authored or robot.base_transform != "odometry":
            continue
        findings.warning(
            "2.1.parent_frame",
            robot.path,
            f"parent_frame {quoted(robot.parent_frame)} is not the parent of the robot's base: odometry moves it, in "
            f"{quoted(robot.odom_frame)}",
            f"have localization publish {robot.odom_frame} in it, or set base_transform to ground_truth",
            attribute="ros:context:parent_frame",
        )


def tf_outputs(namespace: str, options: PlanOptions) -> tuple[TfOutput, ...]:
    """Return where a robot's transforms go (REP 0158 section 2.1.1: one topic per robot)."""
    if not options.publish_tf:
        return ()
    own = TfOutput(
        tf=join(namespace, "tf"), tf_static=join(namespace, "tf_static"), prefix=options.frame_prefix
    )
    everyone = TfOutput(tf="/tf", tf_static="/tf_static", prefix=global_prefix(namespace, options))
    shared = TfOutput(tf="/tf", tf_static="/tf_static", prefix=options.frame_prefix)
    of_choice = {"namespaced": (own,), "global": (everyone,), "both": (own, everyone), "shared": (shared,)}
    return of_choice[options.tf_output]


def build_robots(
    kinematics: KinematicModel,
    frames: PlacedFrames,
    bases: Sequence[Base],
    base_transforms: Sequence[BaseTransform],
    odom_frames: Mapping[int, str],
    body_rows: Mapping[str, int],
    options: PlanOptions,
    *,
    implicit: bool,
    asset_names: Mapping[str, str],
) -> list[RobotPlan]:
    """Return the plans of all robots."""
    frames0 = as_poses(kinematics.solver.frames.base0_from_joint)
    frames1 = as_poses(kinematics.solver.frames.base1_from_joint)
    zeros = as_poses(kinematics.edge_zero)
    robots = []
    for number, robot in enumerate(kinematics.robots):
        context, base = robot.context, bases[number]
        base_frame = frames.by_path.get(base.body) if base.free else None
        joints = _joint_plans(robot, kinematics, frames, frames0, frames1)
        first = kinematics.edge_offsets[number]
        robots.append(
            RobotPlan(
                path=context.path,
                namespace=context.namespace,
                domain_id=context.domain_id,
                parent_frame=context.parent_frame,
                implicit=implicit,
                tf_outputs=tf_outputs(context.namespace, options),
                frames=frames.robots[number],
                joints=joints,
                edges=_edge_plans(robot, kinematics, zeros[first : first + len(robot.edges)]),
                joint_state_rows=tuple(kinematics.joint_state_rows[number]),
                bodies=_bodies(robot, base, frames.robots[number], body_rows),
                base=-1 if base_frame is None else base_frame[1],
                base_row=body_rows.get(base.body, -1),
                odom_frame=odom_frames.get(number, "odom"),
                base_transform=base_transforms[number],
                name=robot_name(context.path, asset_names),
            )
        )
    return robots


def _bodies(
    robot: RobotTree, base: Base, frames: Sequence[FramePlan], body_rows: Mapping[str, int]
) -> tuple[int, ...]:
    rows = {body_rows[body] for body in robot.bodies}
    rows.update(frame.carrier for frame in frames if frame.carrier >= 0)
    if base.body:
        rows.add(body_rows[base.body])
    return tuple(sorted(rows))


def _joint_plans(
    robot: RobotTree,
    kinematics: KinematicModel,
    frames: PlacedFrames,
    frames0: Sequence[Pose],
    frames1: Sequence[Pose],
) -> tuple[JointPlan, ...]:
    edge_of = {joint.path: edge for edge in robot.edges for joint in edge.joints}
    top = robot.context.parent_frame
    plans = []
    for joint in robot.joints:
        row = kinematics.joint_rows[joint.path]
        edge = edge_of[joint.path]
        parent_path = edge.parent or robot.anchor
        dofs = kinematics.dofs[row]
        plans.append(
            JointPlan(
                name=kinematics.names[joint.path],
                local_name=kinematics.local_names.get(joint.path, ""),
                path=joint.path,
                type=kinematics.kinds[row],
                parent=frames.ids.get(parent_path) or _frame_id(parent_path, frames, top),
                child=frames.ids.get(edge.child) or _frame_id(edge.child, frames, top),
                parent_path=parent_path,
                child_path=edge.child,
                inverted=edge.inverted,
                axis=cast(AxisLetter, dofs[0].axis[-1]) if len(dofs) == 1 else None,
                body0_from_joint=frames0[row],
                body1_from_joint=frames1[row],
                dofs=dofs,
            )
        )
    return tuple(plans)


def _frame_id(path: str, frames: PlacedFrames, top: str) -> str:
    """Return the frame of the nearest prim at or above one whose own frame was left out, `top` where there is none."""
    frame = frames.at(path) if path else None
    return top if frame is None else frame.id


def _edge_plans(robot: RobotTree, kinematics: KinematicModel, zeros: Sequence[Pose]) -> tuple[EdgePlan, ...]:
    numbers = {joint.path: number for number, joint in enumerate(robot.joints)}
    return tuple(
        [
            EdgePlan(
                parent_path=edge.parent or robot.anchor,
                child_path=edge.child,
                joints=tuple([numbers[joint.path] for joint in edge.joints]),
                rest=zero,
                rigid=kinematics.is_rigid(edge),
            )
            for edge, zero in zip(robot.edges, zeros, strict=True)
        ]
    )
