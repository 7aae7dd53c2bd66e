"""Robots: their rows in the state's arrays, and the RobotPlan of each with its tree, frames and joints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import (
    AxisLetter,
    ControllerPlan,
    EdgePlan,
    FramePlan,
    JointPlan,
    RobotPlan,
    TfOutput,
)
from usd_ros_bridge.model.records import ContextRecord
from usd_ros_bridge.model.stage import StageMetrics
from usd_ros_bridge.model.state import Layout
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.base_link import Base, BaseTransform
from usd_ros_bridge.planning.frames import PlacedFrames
from usd_ros_bridge.planning.kinematics.joint_graph import RobotTree
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import join, robot_name
from usd_ros_bridge.planning.placement import global_prefix
from usd_ros_bridge.planning.stage_index import StageIndex, as_poses
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray


def assign_rows(
    index: StageIndex,
    kinematics: KinematicModel,
    bases: Iterable[Base],
    controllers: Iterable[ControllerPlan],
    needing: Iterable[str],
) -> dict[str, int]:
    """Return the row of each body: those in trees, and what carries a frame or an interface or is commanded."""
    bodies = {body for robot in kinematics.robots for body in robot.bodies}
    bodies.update(base.body for base in bases)
    bodies.update(str(controller.parameters.get("body", "")) for controller in controllers)
    bodies.update(map(index.carrier_at, needing))
    bodies.discard("")
    return {path: row for row, path in enumerate(index.sort(bodies))}


def build_layout(
    index: StageIndex, kinematics: KinematicModel, body_rows: Mapping[str, int], world_from_body: FloatArray
) -> Layout:
    """Return the layout with everything at rest."""
    of_joints = {path: kinematics.dofs[row] for path, row in kinematics.joint_rows.items()}
    dofs = [dof for of_joint in of_joints.values() for dof in of_joint]
    return Layout(
        bodies=tuple(body_rows),
        dofs=tuple([dof.name for dof in dofs]),
        dof_joints=tuple([path for path, of_joint in of_joints.items() for _ in of_joint]),
        body_pose=world_from_body,
        joint_position=_column([dof.position for dof in dofs]),
        lower=_column([dof.lower for dof in dofs]),
        upper=_column([dof.upper for dof in dofs]),
        max_velocity=_column([dof.max_velocity for dof in dofs]),
        kinematic=np.array(
            [path not in index.bodies or bool(index.bodies[path].kinematic_enabled) for path in body_rows],
            dtype=bool,
        ),
    )


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)


SMALLEST_ROBOT_M = 0.05
"""Largest distance between the bodies of a robot, m, below which a stage without metersPerUnit looks mistaken."""


def check_sizes(
    metrics: StageMetrics,
    robots: Iterable[RobotPlan],
    world_from_body: FloatArray,
    findings: DiagnosticCollector,
) -> None:
    """Report a robot that is far too small on a stage that authors no unit: its sizes are in metres.

    OpenUSD takes such a stage for centimetres. A robot that was modelled in them has bodies further apart than 5 cm.
    """
    if "metersPerUnit" in metrics.authored:
        return
    for robot in robots:
        rows = sorted({frame.carrier for frame in robot.frames if frame.carrier >= 0})
        if len(rows) < 2:
            continue
        size = float(np.max(np.ptp(world_from_body[rows, :3], axis=0)))
        if not 0.0 < size < SMALLEST_ROBOT_M:
            continue
        findings.warning(
            "1.1.size",
            "",
            f"the bodies of {robot.path} are {size:.2g} m apart at most: its sizes look like metres, and a stage "
            "without metersPerUnit is in centimetres",
            "author metersPerUnit = 1 on the root layer",
            attribute="metersPerUnit",
        )
        return


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
                base=frames.bases[number],
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
