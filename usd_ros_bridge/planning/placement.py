"""Placement of interfaces: robot, body, frame ids, joints and camera of each topic, service and action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import JOINT_STATE_BROADCASTER
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import JOINT_STATE, ODOMETRY, message_type
from usd_ros_bridge.model.plan import (
    WORLD,
    ActionPlan,
    ControllerPlan,
    DofPlan,
    RobotPlan,
    Scene,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.frames import PlacedFrames
from usd_ros_bridge.planning.interfaces import CHILD, InterfaceDraft
from usd_ros_bridge.planning.names import Nearest
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex, as_poses
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.transforms import IDENTITY


def header_prefix(namespace: str, options: PlanOptions) -> str:
    """Return what stands before frame ids in headers of a robot with this namespace ("" for no robot)."""
    return global_prefix(namespace, options) if options.tf_output == "global" else options.frame_prefix


def global_prefix(namespace: str, options: PlanOptions) -> str:
    """Return what stands before frame ids on the global topics."""
    bare = namespace.strip("/")
    return f"{bare}/{options.frame_prefix}" if bare else options.frame_prefix


def narrow_to_broadcasters(
    topics: Iterable[TopicPlan], controllers: Iterable[ControllerPlan]
) -> tuple[TopicPlan, ...]:
    """Return topics whose joints, and their order, are those of the joint state broadcaster that owns the publisher.

    An authored `ros:joint_state_broadcaster:frame_id` is the header's, too. So it is with a broadcaster that is off at
    first.
    """
    owners = {
        path: controller
        for controller in controllers
        if controller.schema == JOINT_STATE_BROADCASTER and controller.switchable and not controller.implied
        for path in controller.interfaces
    }
    return tuple(
        replace(
            topic,
            dofs=owners[topic.path].dofs,
            joints=owners[topic.path].joints,
            frame_id=owners[topic.path].parameters["frame_id"] or topic.frame_id,
        )
        if topic.role == "publisher" and topic.path in owners and not topic.implicit
        else topic
        for topic in topics
    )


def check_joints(
    topics: Iterable[TopicPlan], robots: Sequence[RobotPlan], findings: DiagnosticCollector
) -> None:
    """Report topics about joints in nested contexts that have none: joints outside of a context are not its own."""
    for topic in topics:
        if (
            topic.enabled
            and message_type(topic.type).of_joints
            and not topic.dofs
            and topic.robot >= 0
            and topic.context_path != robots[topic.robot].path
        ):
            findings.warning(
                "2.2.joints",
                topic.path,
                "its context has no joint that moves; "
                + ("nothing is published" if topic.role == "publisher" else "what it receives is ignored"),
                "move it to the context whose joints it is about",
            )


@dataclass(frozen=True, slots=True, eq=False)
class InterfacePlacer:
    """Complete interfaces once robots and frames are planned."""

    index: StageIndex
    robots: Sequence[RobotPlan]
    frames: PlacedFrames
    joints: RobotJoints
    body_rows: Mapping[str, int]
    scene: Scene
    options: PlanOptions
    findings: DiagnosticCollector
    body_paths: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_paths", tuple(self.body_rows))

    def place(
        self, drafts: Sequence[InterfaceDraft]
    ) -> tuple[tuple[TopicPlan, ...], tuple[ServicePlan, ...], tuple[ActionPlan, ...]]:
        """Return topics, services and actions, each in the order given."""
        robots = [-1 if d.context is None else self.joints.robot_of_root[d.context.root] for d in drafts]
        bodies = [self._body(draft, robot) for draft, robot in zip(drafts, robots, strict=True)]
        poses = self._body_from_prim(drafts, bodies)
        cameras = {camera.path: number for number, camera in enumerate(self.scene.cameras)}
        camera_at = Nearest(cameras)
        topics, services, actions = [], [], []
        for draft, robot, body, body_from_prim in zip(drafts, robots, bodies, poses, strict=True):
            common: dict[str, Any] = {
                "path": draft.path,
                "role": draft.role,
                "name": draft.name,
                "type": draft.type,
                "domain_id": draft.domain_id,
                "enabled": not draft.reason,
                "reason": draft.reason,
                "context_path": draft.context.path if draft.context else "",
                "robot": robot,
                "body": self.body_rows.get(body, -1),
                "body_from_prim": body_from_prim,
                "starts_enabled": draft.starts_enabled,
            }
            if draft.kind == "service":
                services.append(ServicePlan(**common))
            elif draft.kind == "action":
                actions.append(ActionPlan(**common))
            else:
                topics.append(self._topic(draft, robot, body, cameras.get(camera_at(draft.path), -1), common))
        return tuple(topics), tuple(services), tuple(actions)

    def _body(self, draft: InterfaceDraft, robot: int) -> str:
        carrier = self.index.carrier_at(draft.path)
        if carrier:
            return carrier
        if robot < 0:
            return ""
        frame = self.frames.at(draft.path)
        bodies = self.index.bodies
        if frame is not None and frame.carrier >= 0 and frame.path not in bodies:
            return self.body_paths[frame.carrier]
        base = self.robots[robot].base_row
        return self.body_paths[base] if base >= 0 else ""

    def _body_from_prim(self, drafts: Sequence[InterfaceDraft], bodies: Sequence[str]) -> list[Pose]:
        poses = self.index.poses
        prims = poses.find_rows([draft.path for draft in drafts])
        carriers = poses.find_rows(bodies)
        result = poses.relative(carriers, prims)
        result[prims == carriers] = IDENTITY
        return as_poses(result)

    def _topic(
        self, draft: InterfaceDraft, robot: int, body: str, camera: int, common: dict[str, Any]
    ) -> TopicPlan:
        plan = self.robots[robot] if robot >= 0 else None
        dofs = self.joints.below(draft.path) if plan is not None else ()
        if (draft.type, draft.role) == (JOINT_STATE, "publisher"):
            dofs = self.joints.reported(draft.path) if plan is not None else ()
        if draft.role == "subscription":
            dofs = tuple(dof for dof in dofs if dof.mimic is None)
        child, body_from_child = self._child(draft, plan, body)
        return TopicPlan(
            **common,
            publish_rate=draft.publish_rate,
            frame_id=self._frame_id(draft, plan),
            child_frame_id=child,
            body_from_child=body_from_child,
            qos=draft.qos,
            dofs=tuple(dof.row for dof in dofs),
            joints=self._local_names(draft, dofs),
            camera=camera,
            implicit=draft.implicit,
            source=draft.source,
        )

    def _local_names(self, draft: InterfaceDraft, dofs: Sequence[DofPlan]) -> tuple[str, ...]:
        context = draft.context
        if context is None or context.path == context.root:
            return ()
        return tuple(dof.name for dof in dofs)

    def _frame_id(self, draft: InterfaceDraft, robot: RobotPlan | None) -> str:
        prefix = header_prefix("" if robot is None else robot.namespace, self.options)
        if draft.type == ODOMETRY:
            odom = draft.override_frame_id or "odom"
            moves = robot is not None and robot.base_transform == "odometry" and odom == robot.odom_frame
            return odom if draft.override_frame_id and not moves else prefix + odom
        if draft.override_frame_id:
            return draft.override_frame_id
        top = WORLD if robot is None else robot.parent_frame
        if message_type(draft.type).in_world:
            return top
        frame = self.frames.at(draft.path)
        return top if frame is None else prefix + frame.id

    def _child(self, draft: InterfaceDraft, robot: RobotPlan | None, body: str) -> tuple[str, Pose]:
        """Return the child frame of a message, and `body_from_child`: the authored one, else that of the body."""
        if not message_type(draft.type).has_child_frame:
            return "", IDENTITY_POSE
        frame = self.frames.at(body) if body else self.frames.at(draft.path)
        of_robot = draft.type == ODOMETRY and robot is not None and robot.base >= 0
        if of_robot and robot is not None and body == self.body_paths[robot.base_row]:
            frame = robot.frames[robot.base]
        if draft.child_frame_id:
            own = () if robot is None else robot.frames
            frame = next((each for each in own if each.id == draft.child_frame_id), None)
        if frame is None:
            return draft.child_frame_id, IDENTITY_POSE
        child = header_prefix("" if robot is None else robot.namespace, self.options) + frame.id
        carried = body in self.body_rows and frame.carrier == self.body_rows[body]
        if draft.child_frame_id and body in self.body_rows and not carried:
            self.findings.warning(
                "2.4.child_frame_id",
                draft.path,
                f"the frame {quoted(draft.child_frame_id)} does not move with {body}; it is not used",
                "name a frame of the body, or move the interface to the other one",
                attribute=CHILD,
            )
            return self._child(replace(draft, child_frame_id=""), robot, body)
        return child, frame.carrier_from_frame if carried else IDENTITY_POSE
