"""Plans made by hand: what these tests need of a robot, without reading an asset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    DofPlan,
    EdgePlan,
    FramePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    Scene,
    ServicePlan,
    TfOutput,
    TopicPlan,
)
from usd_ros_bridge.model.sensors import CameraModel
from usd_ros_bridge.model.state import Layout
from usd_ros_bridge.spatial.pose import Pose

CAMERA = CameraModel(
    path="/arm/camera", width=640, height=480, fx=500.0, fy=510.0, cx=320.0, cy=240.0, near=0.1, far=10.0
)
UNLIMITED = float("inf")


def arm(
    namespace: str = "/arm", *, domain_id: int | None = None, path: str = "/arm", row: int = 0, index: int = 0,
    outputs: tuple[TfOutput, ...] | None = None,
) -> RobotPlan:  # fmt: skip
    """A free base with one hinge about z, a link 1 m out on it, and a static frame on the link."""
    body = 2 * index
    hinge = JointPlan(
        name="hinge",
        path=f"{path}/hinge",
        type="revolute",
        parent="base",
        child="link",
        parent_path=f"{path}/base",
        child_path=f"{path}/link",
        axis="Z",
        body0_from_joint=Pose((1.0, 0.0, 0.0)),
        dofs=(DofPlan(name="hinge", row=row, axis="rotZ", lower=-1.0, upper=1.0),),
    )
    namespaced = TfOutput(tf=f"{namespace}/tf", tf_static=f"{namespace}/tf_static")
    return RobotPlan(
        path=path,
        namespace=namespace,
        domain_id=domain_id,
        tf_outputs=(namespaced,) if outputs is None else outputs,
        frames=(
            FramePlan(
                id="base",
                parent="world",
                path=f"{path}/base",
                static=False,
                parent_from_frame=Pose(),
                carrier=body,
            ),
            FramePlan(
                id="link",
                parent="base",
                path=f"{path}/link",
                static=False,
                parent_from_frame=Pose((1.0, 0.0, 0.0)),
                parent_index=0,
                edge=0,
                carrier=body + 1,
            ),
            FramePlan(
                id="tool",
                parent="link",
                path=f"{path}/link/tool",
                static=True,
                parent_from_frame=Pose((0.5, 0.0, 0.0)),
                parent_index=1,
                carrier=body + 1,
                carrier_from_frame=Pose((0.5, 0.0, 0.0)),
            ),
        ),
        joints=(hinge,),
        edges=(
            EdgePlan(
                parent_path=f"{path}/base",
                child_path=f"{path}/link",
                joints=(0,),
                rest=Pose((1.0, 0.0, 0.0)),
                rigid=False,
            ),
        ),
        joint_state_rows=(row,),
        bodies=(body, body + 1),
        base=0,
        base_row=body,
    )


def layout(*paths: str) -> Layout:
    """The layout of arms at `paths`."""
    count = len(paths)
    poses = np.zeros((2 * count, 7))
    poses[:, 6] = 1.0
    poses[1::2, 0] = 1.0
    return Layout(
        bodies=tuple(f"{path}/{name}" for path in paths for name in ("base", "link")),
        dofs=("hinge",) * count,
        dof_joints=tuple(f"{path}/hinge" for path in paths),
        body_pose=poses,
        joint_position=np.zeros(count),
        lower=np.full(count, -1.0),
        upper=np.full(count, 1.0),
        max_velocity=np.full(count, UNLIMITED),
        kinematic=np.zeros(2 * count, dtype=bool),
    )


def plan(*interfaces: TopicPlan | ServicePlan | ActionPlan, **changes: Any) -> BridgePlan:
    """One arm with these interfaces."""
    made = BridgePlan(
        asset="arm.usda",
        robots=(arm(),),
        topics=tuple(each for each in interfaces if isinstance(each, TopicPlan)),
        services=tuple(each for each in interfaces if isinstance(each, ServicePlan)),
        actions=tuple(each for each in interfaces if isinstance(each, ActionPlan)),
        layout=layout("/arm"),
        scene=Scene(cameras=(CAMERA,)),
    )
    return replace(made, **changes)


def publisher(name: str, type_name: str, *, rate: float = 50.0, **more: Any) -> TopicPlan:
    """A publisher of the arm's first context."""
    return topic("publisher", name, type_name, publish_rate=rate, **more)


def subscription(name: str, type_name: str, **more: Any) -> TopicPlan:
    """A subscription of the arm's first context."""
    return topic("subscription", name, type_name, **more)


def topic(role: str, name: str, type_name: str, **more: Any) -> TopicPlan:
    values: dict[str, Any] = {"robot": 0, "body": 0, "frame_id": "base", "dofs": (0,), "qos": QosPlan()}
    return TopicPlan(path=f"/arm{name}_{role}", role=role, name=name, type=type_name, **{**values, **more})


JOINT_STATES = publisher("/arm/joint_states", "sensor_msgs/msg/JointState")
JOINT_COMMANDS = subscription("/arm/joint_commands", "sensor_msgs/msg/JointState")
