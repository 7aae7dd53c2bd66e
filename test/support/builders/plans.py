"""Builds plans by hand: robots of bodies and joints, with frames, topics and time samples, without a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from usd_ros_bridge.model.plan import (
    WORLD,
    ActionPlan,
    BridgePlan,
    ControllerPlan,
    DofPlan,
    EdgePlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    MimicPlan,
    RobotPlan,
    Scene,
    TfOutput,
    TopicPlan,
)
from usd_ros_bridge.model.records import DofAxis, JointType
from usd_ros_bridge.model.state import Layout, State
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, pose, pose_array

Axis = Literal["X", "Y", "Z"]
_ANGULAR: dict[str, DofAxis] = {"X": "rotX", "Y": "rotY", "Z": "rotZ"}
_LINEAR: dict[str, DofAxis] = {"X": "transX", "Y": "transY", "Z": "transZ"}


def as_pose(array: FloatArray) -> Pose:
    """Returns a pose (7,) as the plan's type."""
    x, y, z, qx, qy, qz, qw = (float(value) for value in array)
    return Pose((x, y, z), (qx, qy, qz, qw))


@dataclass(slots=True)
class _Body:
    path: str
    robot: int
    pose: Pose
    kinematic: bool = False


@dataclass(slots=True, kw_only=True)
class RobotBuilder:
    """One robot. Bodies and joints are named without path; parents before children."""

    plan: PlanBuilder
    index: int
    path: str
    namespace: str
    joints: list[JointPlan] = field(default_factory=list)
    edges: list[EdgePlan] = field(default_factory=list)
    frames: list[FramePlan] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def body(self, name: str, where: Pose = Pose(), *, kinematic: bool = False) -> str:  # noqa: B008 - frozen
        """Adds a body and its frame; without a joint it hangs from the world. Returns its path."""
        path = f"{self.path}/{name}"
        row = len(self.plan.bodies)
        self.plan.bodies.append(_Body(path, self.index, where, kinematic))
        self.frames.append(
            FramePlan(
                id=name,
                parent=WORLD,
                path=path,
                static=False,
                parent_from_frame=where,
                carrier=row,
            )
        )
        return path

    def joint(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        axis: Axis = "Z",
        kind: JointType = "revolute",
        body0_from_joint: Pose = Pose(),  # noqa: B008 - frozen
        body1_from_joint: Pose = Pose(),  # noqa: B008 - frozen
        inverted: bool = False,
        position: float = 0.0,
        limits: tuple[float, float] = (-np.inf, np.inf),
        max_velocity: float = np.inf,
        max_effort: float = np.inf,
        mimic: tuple[str, float, float] | None = None,
        dofs: Sequence[DofAxis] | None = None,
    ) -> JointPlan:
        """Adds a joint as an edge of its own; a `parent` of "" is the world. Returns it."""
        axes = self._axes(kind, axis, dofs)
        rows = [len(self.plan.dofs) + i for i in range(len(axes))]
        suffixes = [""] if len(axes) == 1 else [f"_{a[0]}{a[-1].lower()}" for a in axes]
        rule = None
        if mimic is not None:
            rule = MimicPlan(leader=self.row(mimic[0]), multiplier=mimic[1], offset=mimic[2])
        joint = JointPlan(
            name=name,
            path=f"{self.path}/joints/{name}",
            type=kind,
            parent=parent or WORLD,
            child=child,
            parent_path=f"{self.path}/{parent}" if parent else "",
            child_path=f"{self.path}/{child}",
            inverted=inverted,
            axis=axis if len(axes) == 1 else None,
            body0_from_joint=body0_from_joint,
            body1_from_joint=body1_from_joint,
            dofs=tuple(
                DofPlan(
                    name=name + suffix,
                    row=row,
                    axis=dof_axis,
                    position=position,
                    lower=limits[0],
                    upper=limits[1],
                    max_velocity=max_velocity,
                    max_effort=max_effort,
                    mimic=rule,
                )
                for dof_axis, row, suffix in zip(axes, rows, suffixes, strict=True)
            ),
        )
        self.plan.dofs.extend((dof, joint.path) for dof in joint.dofs)
        self.joints.append(joint)
        self._edge((len(self.joints) - 1,), joint)
        return joint

    def merge(self, count: int) -> EdgePlan:
        """Makes one edge of the last `count` joints, which join the same two bodies. Returns it."""
        merged = self.edges[-count:]
        del self.edges[-count:]
        last = self.joints[merged[-1].joints[0]]
        self._edge(tuple(index for edge in merged for index in edge.joints), last)
        return self.edges[-1]

    def fixed_frame(self, name: str, parent: str, where: Pose = Pose(), *, static: bool = True) -> FramePlan:  # noqa: B008
        """Adds a frame that is fixed to the frame `parent` by rigid parenting. Returns it."""
        index = next(i for i, frame in enumerate(self.frames) if frame.id == parent)
        above = self.frames[index]
        carried = compose(pose_array(above.carrier_from_frame), pose_array(where))
        frame = FramePlan(
            id=name,
            parent=parent,
            path=f"{above.path}/{name}",
            static=static,
            parent_from_frame=where,
            parent_index=index,
            carrier=above.carrier,
            carrier_from_frame=as_pose(carried),
        )
        self.frames.append(frame)
        return frame

    def row(self, dof: str) -> int:
        """Returns the layout row of a degree of freedom by its name."""
        return next(d.row for joint in self.joints for d in joint.dofs if d.name == dof)

    def body_row(self, name: str) -> int:
        """Returns the layout row of a body by its name."""
        return next(i for i, body in enumerate(self.plan.bodies) if body.path == f"{self.path}/{name}")

    def topic(self, name: str, kind: str, role: str, **options: Any) -> TopicPlan:
        """Adds a topic at the robot's context, for all its joints and its first body. Returns it."""
        row = next((i for i, body in enumerate(self.plan.bodies) if body.robot == self.index), -1)
        values: dict[str, Any] = {
            "robot": self.index,
            "body": row,
            "dofs": tuple(dof.row for joint in self.joints for dof in joint.dofs),
            **options,
        }
        topic = TopicPlan(
            path=f"{self.path}/{name}",
            role=role,
            name=f"{self.namespace.rstrip('/')}/{name}",
            type=kind,
            **values,
        )
        self.plan.topics.append(topic)
        return topic

    def action(self, name: str, kind: str) -> ActionPlan:
        """Adds an action server at the robot's context. Returns it."""
        action = ActionPlan(
            path=f"{self.path}/{name}",
            role="server",
            name=f"{self.namespace.rstrip('/')}/{name}",
            type=kind,
            robot=self.index,
        )
        self.plan.actions.append(action)
        return action

    def controller(
        self,
        name: str,
        schema: str,
        joints: Sequence[str] = (),
        *,
        interfaces: Sequence[InterfacePlan] = (),
        **options: Any,
    ) -> ControllerPlan:
        """Adds a controller of joints, which it claims; `options` are fields of ControllerPlan. Returns it."""
        rows = tuple(self.row(joint) for joint in joints)
        values: dict[str, Any] = {"robot": self.index, "claims": rows, **options}
        controller = ControllerPlan(
            path=f"{self.path}/{name}",
            schema=schema,
            interfaces=tuple(interface.path for interface in interfaces),
            joints=tuple(joints),
            dofs=rows,
            **values,
        )
        self.plan.controllers.append(controller)
        return controller

    def build(self) -> RobotPlan:
        """Returns the robot."""
        rows = [i for i, body in enumerate(self.plan.bodies) if body.robot == self.index]
        joined = {edge.child_path for edge in self.edges}
        root = next((row for row in rows if self.plan.bodies[row].path not in joined), -1)
        base = next((i for i, frame in enumerate(self.frames) if frame.carrier == root >= 0), -1)
        values: dict[str, Any] = {
            "joint_state_rows": tuple(dof.row for joint in self.joints for dof in joint.dofs),
            "bodies": tuple(rows),
            "base": base,
            "base_row": root if root >= 0 else (rows[0] if rows else -1),
            "tf_outputs": (TfOutput(tf="/tf", tf_static="/tf_static"),),
            **self.options,
        }
        return RobotPlan(
            path=self.path,
            namespace=self.namespace,
            domain_id=None,
            frames=tuple(self._joined_frames()),
            joints=tuple(self.joints),
            edges=tuple(self.edges),
            **values,
        )

    def _axes(self, kind: JointType, axis: Axis, dofs: Sequence[DofAxis] | None) -> tuple[DofAxis, ...]:
        if dofs is not None:
            return tuple(dofs)
        if kind in ("fixed", "distance"):
            return ()
        if kind == "spherical":
            return ("rotX", "rotY", "rotZ")
        return (_LINEAR[axis],) if kind == "prismatic" else (_ANGULAR[axis],)

    def _edge(self, joints: tuple[int, ...], last: JointPlan) -> None:
        ends = (pose_array(last.body0_from_joint), pose_array(last.body1_from_joint))
        start, end = ends[::-1] if last.inverted else ends
        self.edges.append(
            EdgePlan(
                parent_path=last.parent_path,
                child_path=last.child_path,
                joints=joints,
                rest=as_pose(compose(start, inverse(end))),
                rigid=last.type != "distance" and not any(self.joints[index].dofs for index in joints),
            )
        )

    def _joined_frames(self) -> list[FramePlan]:
        place = {frame.path: index for index, frame in enumerate(self.frames)}
        by_child = {edge.child_path: index for index, edge in enumerate(self.edges)}
        joined = []
        for frame in self.frames:
            edge_index = by_child.get(frame.path, -1)
            if edge_index < 0:
                joined.append(frame)
                continue
            edge = self.edges[edge_index]
            parent = place.get(edge.parent_path, -1)
            freely = not edge.rigid and not any(self.joints[index].dofs for index in edge.joints)
            joined.append(
                replace(
                    frame,
                    parent=self.frames[parent].id if parent >= 0 else WORLD,
                    parent_index=parent,
                    edge=-1 if freely else edge_index,
                    static=edge.rigid,
                    parent_from_frame=edge.rest,
                )
            )
        return joined


@dataclass(slots=True)
class PlanBuilder:
    """A plan of several robots. Rest poses of bodies below joints follow from the joints."""

    robots: list[RobotBuilder] = field(default_factory=list)
    bodies: list[_Body] = field(default_factory=list)
    dofs: list[tuple[DofPlan, str]] = field(default_factory=list)
    topics: list[TopicPlan] = field(default_factory=list)
    actions: list[ActionPlan] = field(default_factory=list)
    controllers: list[ControllerPlan] = field(default_factory=list)

    def robot(self, path: str = "/robot", *, namespace: str = "/", **options: Any) -> RobotBuilder:
        """Adds a robot; `options` are fields of RobotPlan."""
        robot = RobotBuilder(
            plan=self, index=len(self.robots), path=path, namespace=namespace, options=options
        )
        self.robots.append(robot)
        return robot

    def build(self, scene: Scene | None = None) -> BridgePlan:
        """Returns the plan."""
        dofs = [dof for dof, _ in self.dofs]
        layout = Layout(
            bodies=tuple(body.path for body in self.bodies),
            dofs=tuple(dof.name for dof in dofs),
            dof_joints=tuple(path for _, path in self.dofs),
            body_pose=np.array([pose_array(body.pose) for body in self.bodies]).reshape(-1, 7),
            joint_position=np.array([dof.position for dof in dofs], dtype=np.float64),
            lower=np.array([dof.lower for dof in dofs], dtype=np.float64),
            upper=np.array([dof.upper for dof in dofs], dtype=np.float64),
            max_velocity=np.array([dof.max_velocity for dof in dofs], dtype=np.float64),
            kinematic=np.array([body.kinematic for body in self.bodies], dtype=bool),
        )
        plan = BridgePlan(
            asset="built by hand",
            robots=tuple(robot.build() for robot in self.robots),
            topics=tuple(self.topics),
            actions=tuple(self.actions),
            controllers=tuple(self.controllers),
            layout=layout,
            scene=scene or Scene(),
        )
        layout.body_pose[:] = Kinematics(plan).body_poses(rest_of(plan))
        return plan


def rest_of(plan: BridgePlan) -> State:
    """Returns the state at rest of a plan."""
    layout = plan.layout
    return State(
        time_ns=0,
        joint_position=layout.joint_position.copy(),
        joint_velocity=np.zeros(len(layout.dofs)),
        joint_effort=np.full(len(layout.dofs), np.nan),
        body_pose=layout.body_pose.copy(),
    )


def rover(builder: PlanBuilder | None = None, path: str = "/rover", namespace: str = "/rover") -> PlanBuilder:
    """Returns a builder with a rover: a free base, two wheels, a mast that turns and a camera on it."""
    builder = builder or PlanBuilder()
    robot = builder.robot(path, namespace=namespace)
    robot.body("base_link", Pose((1.0, 2.0, 0.1), (0.0, 0.0, np.sin(0.25), np.cos(0.25))))
    for side, y in (("left", 0.2), ("right", -0.2)):
        robot.body(f"{side}_wheel")
        robot.joint(
            f"{side}_wheel_joint",
            "base_link",
            f"{side}_wheel",
            axis="Y",
            kind="continuous",
            body0_from_joint=Pose((0.0, y, -0.05)),
            max_velocity=20.0,
        )
    robot.body("mast")
    robot.joint(
        "mast_joint",
        "base_link",
        "mast",
        axis="Z",
        body0_from_joint=Pose((0.1, 0.0, 0.3)),
        body1_from_joint=Pose((0.02, 0.0, -0.1)),
        limits=(-1.5, 1.5),
        max_velocity=2.0,
    )
    robot.fixed_frame("camera", "mast", as_pose(pose((0.05, 0.0, 0.02), (0.5, -0.5, 0.5, -0.5))))
    return builder


def gripper(
    builder: PlanBuilder | None = None, path: str = "/gripper", namespace: str = "/gripper"
) -> PlanBuilder:
    """Returns a builder with a gripper on a fixed base: a turning palm and two fingers, the second a mimic joint."""
    builder = builder or PlanBuilder()
    robot = builder.robot(path, namespace=namespace)
    robot.body("mount")
    robot.joint("mount_joint", "", "mount", kind="fixed", body0_from_joint=Pose((0.0, 0.0, 0.5)))
    robot.body("palm")
    robot.joint("palm_joint", "mount", "palm", axis="X", position=0.3, limits=(-3.0, 3.0))
    robot.body("left_finger")
    robot.joint(
        "left_finger_joint",
        "palm",
        "left_finger",
        axis="Y",
        kind="prismatic",
        limits=(0.0, 0.04),
        max_velocity=0.1,
        max_effort=40.0,
        body0_from_joint=Pose((0.1, 0.0, 0.0)),
    )
    robot.body("right_finger")
    robot.joint(
        "right_finger_joint",
        "palm",
        "right_finger",
        axis="Y",
        kind="prismatic",
        limits=(0.0, 0.04),
        body0_from_joint=Pose((0.1, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
        mimic=("left_finger_joint", 1.0, 0.001),
    )
    return builder
