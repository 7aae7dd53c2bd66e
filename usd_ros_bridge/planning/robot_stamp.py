"""One robot's plan as a stamp: the same robot again, with other paths, names and rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import (
    ControllerPlan,
    DofPlan,
    EdgePlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    Pose,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.planning.interfaces import ODOMETRY
from usd_ros_bridge.planning.robots import tf_outputs
from usd_ros_bridge.planning.topics import PLACED_IN_WORLD, header_prefix

AnyInterface = TypeVar("AnyInterface", bound=InterfacePlan)


class Rows(Protocol):
    """New row by old row; -1, which is no row, stays."""

    def __getitem__(self, row: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Shift:
    """Rows that all move by the same number."""

    by: int

    def __getitem__(self, row: int) -> int:
        return row + self.by if row >= 0 else row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Imprint:
    """What one copy has of its own.

    Attributes:
        root: Path of its context.
        number: Its index among the robots.
        name: Its name in its URDF.
        namespace: Its effective namespace.
        frame_id: Id of the context's frame.
        bodies: Rows of bodies.
        dofs: Rows of degrees of freedom.
        cameras: Indices of cameras.
        world_from_frame: The context's frame and those that nothing moves, in the world, by index among the robot's.
        world_from_prim: Prims of interfaces that nothing moves, in the world, by path in the original.
    """

    root: str
    number: int
    name: str
    namespace: str
    frame_id: str
    bodies: Shift
    dofs: Shift
    cameras: Shift
    world_from_frame: Mapping[int, Pose]
    world_from_prim: Mapping[str, Pose]


class RobotStamp:
    """Plans copies of one robot."""

    def __init__(
        self, robot: RobotPlan, frame_id: str, literal: Collection[str], options: PlanOptions
    ) -> None:
        """Takes the robot apart.

        Args:
            robot: The original.
            frame_id: Id of its context's frame.
            literal: Paths of topics whose frame_id is the same in every copy.
            options: The caller's decisions.
        """
        self._robot = robot
        self._frame_id = frame_id
        self._literal = literal
        self._options = options
        paths: dict[str, int] = {}

        def place(path: str) -> int:
            return paths.setdefault(path[len(robot.path) :], len(paths))

        self._frames = [(frame, place(frame.path)) for frame in robot.frames]
        self._joints = [
            (joint, place(joint.path), place(joint.parent_path), place(joint.child_path))
            for joint in robot.joints
        ]
        self._edges = [(edge, place(edge.parent_path), place(edge.child_path)) for edge in robot.edges]
        self._suffixes = tuple(paths)

    def robot(self, imprint: Imprint) -> RobotPlan:
        """Returns the plan of a copy."""
        robot, bodies, dofs = self._robot, imprint.bodies, imprint.dofs
        paths = [imprint.root + suffix for suffix in self._suffixes]
        return replace(
            robot,
            path=imprint.root,
            name=imprint.name,
            namespace=imprint.namespace,
            tf_outputs=tf_outputs(imprint.namespace, self._options),
            frames=self._stamp_frames(imprint, paths),
            joints=self._stamp_joints(imprint, paths),
            edges=tuple(
                [
                    EdgePlan(
                        parent_path=paths[parent],
                        child_path=paths[child],
                        joints=edge.joints,
                        rest=edge.rest,
                        rigid=edge.rigid,
                    )
                    for edge, parent, child in self._edges
                ]
            ),
            joint_state_rows=tuple([dofs[row] for row in robot.joint_state_rows]),
            bodies=tuple([bodies[row] for row in robot.bodies]),
            base_row=bodies[robot.base_row],
        )

    def _stamp_frames(self, imprint: Imprint, paths: Sequence[str]) -> tuple[FramePlan, ...]:
        own, other, world = self._frame_id, imprint.frame_id, imprint.world_from_frame
        by = imprint.bodies.by
        frames = []
        for number, (frame, path) in enumerate(self._frames):
            frames.append(
                FramePlan(
                    id=other if frame.id == own else frame.id,
                    parent=other if frame.parent == own else frame.parent,
                    path=paths[path],
                    static=frame.static,
                    parent_from_frame=world[number]
                    if frame.path == self._robot.path
                    else frame.parent_from_frame,
                    parent_index=frame.parent_index,
                    edge=frame.edge,
                    carrier=frame.carrier + by if frame.carrier >= 0 else -1,
                    carrier_from_frame=frame.carrier_from_frame if frame.carrier >= 0 else world[number],
                )
            )
        return tuple(frames)

    def _stamp_joints(self, imprint: Imprint, paths: Sequence[str]) -> tuple[JointPlan, ...]:
        own, other, dofs = self._frame_id, imprint.frame_id, imprint.dofs
        return tuple(
            [
                JointPlan(
                    name=joint.name,
                    local_name=joint.local_name,
                    path=paths[path],
                    type=joint.type,
                    parent=other if joint.parent == own else joint.parent,
                    child=other if joint.child == own else joint.child,
                    parent_path=paths[parent],
                    child_path=paths[child],
                    inverted=joint.inverted,
                    axis=joint.axis,
                    body0_from_joint=joint.body0_from_joint,
                    body1_from_joint=joint.body1_from_joint,
                    dofs=tuple([_stamp_dof(dof, dofs) for dof in joint.dofs]),
                )
                for joint, path, parent, child in self._joints
            ]
        )

    def topic(self, topic: TopicPlan, imprint: Imprint) -> TopicPlan:
        """Returns the plan of a copy's topic."""
        old = header_prefix(self._robot.namespace, self._options)
        new = header_prefix(imprint.namespace, self._options)

        def renamed(frame_id: str) -> str:
            bare = frame_id[len(old) :]
            return new + (imprint.frame_id if bare == self._frame_id and bare else bare)

        frame_id = topic.frame_id
        if topic.path not in self._literal and topic.type not in PLACED_IN_WORLD:
            frame_id = new + frame_id[len(old) :] if topic.type == ODOMETRY else renamed(frame_id)
        return replace(
            self.interface(topic, imprint),
            frame_id=frame_id,
            child_frame_id=topic.child_frame_id and renamed(topic.child_frame_id),
            dofs=tuple([imprint.dofs[row] for row in topic.dofs]),
            camera=imprint.cameras[topic.camera],
            source=topic.source and self._moved(topic.source, imprint),
        )

    def interface(self, plan: AnyInterface, imprint: Imprint) -> AnyInterface:
        """Returns the plan of a copy's interface, but for what only topics have."""
        own = self._robot.namespace + "/"
        name = plan.name
        return replace(
            plan,
            path=self._moved(plan.path, imprint),
            name=f"{imprint.namespace}/{name[len(own) :]}" if name.startswith(own) else name,
            context_path=self._moved(plan.context_path, imprint),
            robot=imprint.number,
            body=imprint.bodies[plan.body],
            body_from_prim=imprint.world_from_prim.get(plan.path, plan.body_from_prim),
        )

    def controller(self, plan: ControllerPlan, imprint: Imprint) -> ControllerPlan:
        """Returns the plan of a copy's controller."""
        parameters = plan.parameters
        if "body" in parameters:
            parameters = {**parameters, "body": self._moved(parameters["body"], imprint)}
        return replace(
            plan,
            path=self._moved(plan.path, imprint),
            interfaces=tuple([self._moved(path, imprint) for path in plan.interfaces]),
            dofs=tuple([imprint.dofs[row] for row in plan.dofs]),
            claims=tuple(
                [
                    self._moved(claim, imprint) if isinstance(claim, str) else imprint.dofs[claim]
                    for claim in plan.claims
                ]
            ),
            parameters=parameters,
            robot=imprint.number,
        )

    def _moved(self, path: str, imprint: Imprint) -> str:
        return imprint.root + path[len(self._robot.path) :]


def _stamp_dof(dof: DofPlan, rows: Rows) -> DofPlan:
    mimic = dof.mimic
    return DofPlan(
        name=dof.name,
        row=rows[dof.row],
        axis=dof.axis,
        position=dof.position,
        lower=dof.lower,
        upper=dof.upper,
        max_velocity=dof.max_velocity,
        max_effort=dof.max_effort,
        mimic=mimic and replace(mimic, leader=rows[mimic.leader]),
    )


def renumbered_robot(robot: RobotPlan, bodies: Rows, dofs: Rows) -> RobotPlan:
    """Returns a robot that is no copy, with rows as they are once copies of others have theirs."""
    return replace(
        robot,
        frames=tuple([replace(frame, carrier=bodies[frame.carrier]) for frame in robot.frames]),
        joints=tuple(
            [
                replace(joint, dofs=tuple([_stamp_dof(dof, dofs) for dof in joint.dofs]))
                for joint in robot.joints
            ]
        ),
        joint_state_rows=tuple([dofs[row] for row in robot.joint_state_rows]),
        bodies=tuple([bodies[row] for row in robot.bodies]),
        base_row=bodies[robot.base_row],
    )
