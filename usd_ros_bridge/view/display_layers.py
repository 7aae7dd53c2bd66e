"""Layers of the page: what an asset publishes, and how the page can show it. Pure: a plan in, records out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from usd_ros_bridge.model import message_types as types
from usd_ros_bridge.model.plan import (
    STARTS_DISABLED,
    SWITCHED_OFF,
    ActionPlan,
    BridgePlan,
    InterfacePlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.model.sensors import ContactSensor
from usd_ros_bridge.view.tool_paths import tool_frame

LayerKind = Literal[
    "scan",
    "cloud",
    "image",
    "camera",
    "odometry",
    "pose",
    "path",
    "trajectory",
    "range",
    "imu",
    "wrench",
    "contact",
    "trail",
    "values",
]


KINDS: Final[dict[str, LayerKind]] = {
    types.LASER_SCAN: "scan",
    types.POINT_CLOUD: "cloud",
    types.IMAGE: "image",
    types.COMPRESSED_IMAGE: "image",
    types.CAMERA_INFO: "camera",
    types.ODOMETRY: "odometry",
    types.POSE_STAMPED: "pose",
    types.TRANSFORM_STAMPED: "pose",
    types.PATH: "path",
    types.RANGE: "range",
    types.IMU: "imu",
    types.WRENCH_STAMPED: "wrench",
}
"""Layer of each type that is drawn. Other types are shown as text."""

SHOWN_AT_START: Final[frozenset[LayerKind]] = frozenset(
    {"scan", "cloud", "image", "odometry", "path", "trajectory", "range", "contact"}
)
MAX_ROBOTS_SHOWN: Final = 8
"""With more robots, all layers are off at the start."""
MAX_IMAGES_SHOWN: Final = 2
"""With more pictures, they are off at the start: the bridge renders a picture only for subscribers."""

NEWEST: Final = QosPlan(reliability="best_effort", depth=1)
"""The newest message is all that the page needs; nothing is sent again for it."""
LATCHED: Final = QosPlan(durability="transient_local", depth=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayLayer:
    """Something that the page can show, and a check box of it.

    Attributes:
        key: Unique in a plan, stable from one plan to the next.
        kind: How it is shown.
        label: Text of the check box: the name as far as the robot's namespace does not say it.
        hint: More about it: full name, type and rate.
        robot: Index in `plan.robots`, -1 for none.
        path: Prim path of what publishes; of the frame for a trail.
        topic: Absolute name; "" for a trail, which comes from /tf.
        type: Message type; the action's for the feedback of an action.
        domain_id: Domain id, None for the process's default.
        qos: What is asked for.
        frame: Frame id without prefix: of the header as planned; of what leaves a trail or follows a trajectory.
        joints: Names of the joints in the messages of a trajectory, with their layout rows.
        rate: Hz as planned, None if unknown.
        shown: On at the start.
    """

    key: str
    kind: LayerKind
    label: str
    hint: str = ""
    robot: int = -1
    path: str = ""
    topic: str = ""
    type: str = ""
    domain_id: int | None = None
    qos: QosPlan = NEWEST
    frame: str = ""
    joints: tuple[tuple[str, int], ...] = ()
    rate: float | None = None
    shown: bool = False


def display_layers(plan: BridgePlan) -> tuple[DisplayLayer, ...]:
    """Return the layers of a plan, each topic once, in the order of the plan's robots.

    Args:
        plan: With `plan.physics`, contact sensors are layers, too.
    """
    found: dict[str, DisplayLayer] = {}
    trajectories = tuple(_trajectory_layers(plan))
    tools: dict[int, str] = {}
    for layer in trajectories:
        tools.setdefault(layer.robot, layer.frame)
    for layer in (*_topic_layers(plan), *trajectories, *_trail_layers(plan, tools)):
        found.setdefault(layer.key, layer)
    images = sum(layer.kind == "image" for layer in found.values())
    layers = [
        replace(layer, shown=_is_shown(layer.kind, len(plan.robots), images)) for layer in found.values()
    ]
    return tuple(sorted(layers, key=lambda layer: layer.robot if layer.robot >= 0 else len(plan.robots)))


def feedback_topic(action: str) -> str:
    """Return the topic of an action's feedback, which every node may subscribe to."""
    return f"{action}/_action/feedback"


def can_be_on(interface: InterfacePlan) -> bool:
    """Return whether an interface exists, or may be switched on while the bridge runs."""
    return interface.enabled or interface.reason in (STARTS_DISABLED, SWITCHED_OFF)


def _topic_layers(plan: BridgePlan) -> Iterator[DisplayLayer]:
    sensors = plan.physics.sensors if plan.physics is not None else ()
    contacts = {sensor.path for sensor in sensors if isinstance(sensor, ContactSensor)}
    for topic in plan.topics:
        if topic.role != "publisher" or not can_be_on(topic) or topic.type == types.TF_MESSAGE:
            continue
        kind = KINDS.get(topic.type, "values")
        if topic.type == types.BOOL and topic.path in contacts:
            kind = "contact"
        yield _layer(plan, kind, topic, rate=topic.publish_rate, frame=topic.frame_id, qos=_newest_of(topic))


def _trajectory_layers(plan: BridgePlan) -> Iterator[DisplayLayer]:
    """What controllers follow: trajectories that are sent to them, and the feedback of their actions."""
    both: tuple[TopicPlan | ActionPlan, ...] = (*plan.topics, *plan.actions)
    interfaces = {each.path: each for each in both if can_be_on(each)}
    for controller in plan.controllers:
        if not 0 <= controller.robot < len(plan.robots):
            continue
        frame = tool_frame(plan.robots[controller.robot], controller.dofs)
        joints = tuple(zip(controller.joints, controller.dofs, strict=False))
        for path in controller.interfaces if frame else ():
            interface = interfaces.get(path)
            if interface is None or interface.type not in (
                types.JOINT_TRAJECTORY,
                types.FOLLOW_JOINT_TRAJECTORY,
            ):
                continue
            yield _layer(plan, "trajectory", interface, frame=frame, joints=joints)


def _trail_layers(plan: BridgePlan, tools: Mapping[int, str]) -> Iterator[DisplayLayer]:
    """The frame whose trail shows most of a robot's motion.

    It is the base of a robot that can move, else what its trajectory controller moves, else its last moving frame.
    """
    for number, robot in enumerate(plan.robots):
        base = robot.frames[robot.base].id if robot.base >= 0 else ""
        frame = base or tools.get(number, "") or _last_moving(robot)
        if frame:
            yield DisplayLayer(
                key=f"trail:{robot.path}",
                kind="trail",
                label=f"trail of {frame}",
                hint="where the frame has been, by /tf",
                robot=number,
                path=next(each.path for each in robot.frames if each.id == frame),
                frame=frame,
                domain_id=robot.domain_id,
            )


def _last_moving(robot: RobotPlan) -> str:
    """Return the frame with most moving frames above it."""
    depths: list[int] = []
    for frame in robot.frames:
        above = depths[frame.parent_index] if frame.parent_index >= 0 else 0
        depths.append(above + (0 if frame.static else 1))
    deepest = max(depths, default=0)
    return robot.frames[depths.index(deepest)].id if deepest else ""


def _newest_of(topic: TopicPlan) -> QosPlan:
    return LATCHED if topic.qos.durability == "transient_local" else NEWEST


def _layer(
    plan: BridgePlan,
    kind: LayerKind,
    interface: TopicPlan | ActionPlan,
    *,
    frame: str,
    rate: float | None = None,
    qos: QosPlan = NEWEST,
    joints: tuple[tuple[str, int], ...] = (),
) -> DisplayLayer:
    is_action = isinstance(interface, ActionPlan)
    namespace = plan.robots[interface.robot].namespace if interface.robot >= 0 else "/"
    label = interface.name.removeprefix(f"{namespace}/") if namespace != "/" else interface.name.lstrip("/")
    return DisplayLayer(
        key=f"{kind}:{interface.domain_id}:{interface.name}",
        kind=kind,
        label=label,
        hint=f"{interface.name}, {interface.type}" + (f", {rate:g} Hz" if rate else ""),
        robot=interface.robot,
        path=interface.path,
        topic=feedback_topic(interface.name) if is_action else interface.name,
        type=interface.type,
        domain_id=interface.domain_id,
        qos=qos,
        frame=frame,
        joints=joints,
        rate=rate,
    )


def _is_shown(kind: LayerKind, robots: int, images: int) -> bool:
    """Return whether a layer is on at the start: what can be seen of a few robots."""
    if kind == "image" and images > MAX_IMAGES_SHOWN:
        return False
    return kind in SHOWN_AT_START and robots <= MAX_ROBOTS_SHOWN
