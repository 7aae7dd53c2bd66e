"""Control plans: which controls a plan gives to the page, as data, without ROS and without a browser."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from usd_ros_bridge.model.actuation import INTERFACES, find_unmoved
from usd_ros_bridge.model.controller_schemas import (
    DIFF_DRIVE,
    GRIPPER,
    JOINT_TRAJECTORY_CONTROLLER,
    CommandInterface,
    uses_interface,
)
from usd_ros_bridge.model.message_types import (
    FLOAT64_MULTI_ARRAY,
    FOLLOW_JOINT_TRAJECTORY,
    GRIPPER_COMMAND,
    GRIPPERS,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    SET_BOOL,
    TRIGGER,
    TWIST_STAMPED,
    TWISTS,
)
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    ControllerPlan,
    DofPlan,
    InterfacePlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
    followers_of,
)

_Interface = TypeVar("_Interface", bound=InterfacePlan)

JOINT_STATES_BACKEND: Final = "joint_states"
WITHOUT_COMMANDS: Final = frozenset({JOINT_STATES_BACKEND, "null", "playback"})
"""Backends that take no commands. Services work anyway."""

AS_DRIVEN: Final = "as driven"
"""Label of sliders of which each has the kind of command that its own joint takes."""

_WITHOUT_FORCES: Final = frozenset({"kinematic"})
_WITH_FORCES: Final = frozenset({"mujoco", "newton"})
_ANGULAR_SPANS: Final[Mapping[CommandInterface, float]] = {
    "position": math.pi,
    "velocity": 10.0,
    "effort": 10.0,
}
_LINEAR_SPANS: Final[Mapping[CommandInterface, float]] = {"position": 1.0, "velocity": 1.0, "effort": 100.0}
"""How far sliders go where the joint has no limit, in SI units."""
LINEAR_SPEED: Final = 1.0
ANGULAR_SPEED: Final = 1.5
"""How far the sliders of a pad go where its controller has no limit, m/s and rad/s."""

_UNITS: Final[Mapping[tuple[CommandInterface, bool], str]] = {
    ("position", True): "rad",
    ("velocity", True): "rad/s",
    ("effort", True): "N m",
    ("position", False): "m",
    ("velocity", False): "m/s",
    ("effort", False): "N",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSlider:
    """A slider for one degree of freedom, in SI units.

    Attributes:
        name: Name of the joint in messages of the control's topic or action.
        row: Row in the plan's layout.
        kind: What it commands.
        angular: The joint turns; else it slides.
        lower: Least value.
        upper: Greatest value.
        initial: Value while nothing is measured: the position at rest, or 0.
    """

    name: str
    row: int
    kind: CommandInterface
    angular: bool
    lower: float
    upper: float
    initial: float

    @property
    def unit(self) -> str:
        """Return the unit, as `rad/s`."""
        return _UNITS[self.kind, self.angular]

    def clamp(self, value: float) -> float:
        """Return a value within the limits; the initial one if it is no finite number."""
        return min(max(value, self.lower), self.upper) if math.isfinite(value) else self.initial


@dataclass(frozen=True, slots=True, kw_only=True)
class SliderSet:
    """Sliders that a control shows together: one for each joint that a kind of command moves.

    Attributes:
        label: Kind of the commands, or AS_DRIVEN.
        sliders: The sliders, in the order of the joints.
    """

    label: str
    sliders: tuple[JointSlider, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """A control of the page.

    Attributes:
        path: Prim path of the interface.
        robot: Index in BridgePlan.robots, -1 where it belongs to none.
        name: Absolute name of the topic, service or action.
        type: Its type.
        domain_id: Its domain, None for the default one.
    """

    path: str
    robot: int
    name: str
    type: str
    domain_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTopicControl(ControlPlan):
    """Sliders that command joints on a topic: JointState, Float64MultiArray.

    Attributes:
        qos: Quality of service of the subscription.
        sets: What can be shown, the default first.
        measured: Topic with the measured JointState under the same names, "" for none.
    """

    qos: QosPlan
    sets: tuple[SliderSet, ...]
    measured: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSourceControl(ControlPlan):
    """Sliders that are the source of the joint states, as those of joint_state_publisher_gui.

    Attributes:
        sliders: One for each joint, but not for those that follow others.
    """

    sliders: tuple[JointSlider, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwistControl(ControlPlan):
    """A pad that drives on a topic of twists.

    Attributes:
        qos: Quality of service of the subscription.
        frame_id: Frame of the twist, for messages with a header.
        linear: Greatest speed, m/s.
        angular: Greatest turn rate, rad/s.
        lateral: Sideways commands have an effect.
        timeout: Seconds until the controller brakes without a command, 0 if it never does.
    """

    qos: QosPlan
    frame_id: str
    linear: float
    angular: float
    lateral: bool
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryControl(ControlPlan):
    """Sliders whose positions are sent as a trajectory: as a goal, or on a topic where there is no action.

    Attributes:
        sliders: All joints of the controller.
        measured: Topic with the measured JointState under the same names, "" for none.
        qos: Quality of service of the topic, None for an action.
    """

    sliders: tuple[JointSlider, ...]
    measured: str = ""
    qos: QosPlan | None = None

    @property
    def is_action(self) -> bool:
        """Return whether a goal is sent, with feedback and a result."""
        return self.type == FOLLOW_JOINT_TRAJECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class GripperControl(ControlPlan):
    """Buttons that open and close a gripper, and sliders.

    Attributes:
        sliders: One for each joint; one for all where the action has one position.
        opened: Positions where the gripper is open, by slider.
        closed: Positions where it is closed.
        measured: Topic with the measured JointState under the same names, "" for none.
    """

    sliders: tuple[JointSlider, ...]
    opened: tuple[float, ...]
    closed: tuple[float, ...]
    measured: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceControl(ControlPlan):
    """Buttons that call a SetBool or a Trigger."""


def plan_controls(
    plan: BridgePlan, *, backend: str = "auto", joint_states_topic: str = "joint_states"
) -> tuple[ControlPlan, ...]:
    """Return the controls of a plan: sources of joint states, pads, joint topics, goals, grippers, services.

    Args:
        plan: The plan, with physics if known.
        backend: Backend of the bridge.
        joint_states_topic: Option `topic` of the backend `joint_states`.
    """
    found: list[ControlPlan] = []
    if backend == JOINT_STATES_BACKEND:
        found += _joint_sources(plan, joint_states_topic)
    if backend not in WITHOUT_COMMANDS:
        ranges = _Ranges(plan, forces=_has_forces(plan, backend))
        index = _Index(plan)
        found += _twist_controls(index)
        found += _joint_topics(index, ranges)
        found += _trajectories(index, ranges)
        found += _grippers(index, ranges)
    found += _services(plan)
    return tuple(found)


def _has_forces(plan: BridgePlan, backend: str) -> bool:
    """Return whether drives decide which commands have an effect."""
    physics = plan.physics
    if physics is None or backend in _WITHOUT_FORCES:
        return False
    return backend in _WITH_FORCES or (physics.needs_forces and not physics.falling_body)


class _Index:
    """What belongs to an interface, by its prim and robot: a fleet has thousands of interfaces."""

    def __init__(self, plan: BridgePlan) -> None:
        self.plan = plan
        self._states: dict[int, list[tuple[TopicPlan, frozenset[str]]]] = {}
        self._users: dict[str, list[ControllerPlan]] = {}
        self._topics = _by_path(plan.topics)
        self._actions = _by_path(plan.actions)
        for topic in plan.topics:
            if topic.enabled and topic.role == "publisher" and topic.type == JOINT_STATE:
                names = plan.joint_names(topic) if topic.dofs else plan.layout.dofs
                self._states.setdefault(topic.robot, []).append((topic, frozenset(names)))
        for controller in plan.controllers:
            for path in controller.interfaces:
                self._users.setdefault(path, []).append(controller)

    def measured(self, interface: InterfacePlan, pairs: Sequence[tuple[str, int]]) -> str:
        """Return the topic of joint states that has most of these joints under the same names, "" for none."""
        best, most = "", 0
        for topic, names in self._states.get(interface.robot, ()):
            count = sum(name in names for name, _ in pairs) if topic.domain_id == interface.domain_id else 0
            if count > most:
                best, most = topic.name, count
        return best

    def controller(self, topic: TopicPlan) -> ControllerPlan | None:
        """Return the first controller that uses a topic, None for none."""
        users = self._users.get(topic.path, ())
        return next((each for each in users if uses_interface(each.schema, topic)), None)

    def topics(self, controller: ControllerPlan, types: Collection[str]) -> list[TopicPlan]:
        """Return the subscriptions of a controller that are of some types."""
        return _used(self._topics, controller, types, "subscription")

    def actions(self, controller: ControllerPlan, types: Collection[str]) -> list[ActionPlan]:
        """Return the action servers of a controller that are of some types."""
        return _used(self._actions, controller, types, "server")


def _by_path(interfaces: Iterable[_Interface]) -> dict[str, list[_Interface]]:
    found: dict[str, list[_Interface]] = {}
    for each in interfaces:
        found.setdefault(each.path, []).append(each)
    return found


def _used(
    interfaces: Mapping[str, Sequence[_Interface]],
    controller: ControllerPlan,
    types: Collection[str],
    role: str,
) -> list[_Interface]:
    return [
        each
        for path in controller.interfaces
        for each in interfaces.get(path, ())
        if each.enabled and each.type in types and each.role == role
    ]


# --- Joints ---------------------------------------------------------------------------------------------------------


class _Ranges:
    """Sliders for the degrees of freedom of a plan."""

    def __init__(self, plan: BridgePlan, *, forces: bool) -> None:
        self._dofs = {dof.row: dof for robot in plan.robots for joint in robot.joints for dof in joint.dofs}
        unmoved = find_unmoved(plan.physics, plan.asset) if forces and plan.physics is not None else {}
        self._unmoved = {
            kind: frozenset(row for group in groups for row in group.rows) for kind, groups in unmoved.items()
        }
        self._kinds: tuple[CommandInterface, ...] = INTERFACES if forces else ("position", "velocity")

    def slider(self, name: str, row: int, kind: CommandInterface) -> JointSlider | None:
        """Return a slider, None for a row that is no degree of freedom of a robot's tree."""
        dof = self._dofs.get(row)
        return None if dof is None else _slider(name, dof, kind)

    def sliders(self, pairs: Iterable[tuple[str, int]], kind: CommandInterface) -> tuple[JointSlider, ...]:
        """Return a slider for each name and row."""
        made = (self.slider(name, row, kind) for name, row in pairs)
        return tuple(each for each in made if each is not None)

    def sets(self, pairs: Sequence[tuple[str, int]]) -> tuple[SliderSet, ...]:
        """Return what sliders can command, by kind; first what each joint's drive is for."""
        by_kind = {
            kind: self.sliders((pair for pair in pairs if self._moves(pair[1], kind)), kind)
            for kind in self._kinds
        }
        own = [
            next((each for each in by_kind[kind] if each.row == row), None)
            for _, row in pairs
            for kind in (self._own_kind(row),)
            if kind is not None
        ]
        driven = tuple(each for each in own if each is not None)
        first = {each.kind for each in driven}
        sets = [SliderSet(label=kind, sliders=sliders) for kind, sliders in by_kind.items() if sliders]
        if len(first) > 1:
            return (SliderSet(label=AS_DRIVEN, sliders=driven), *sets)
        return tuple(sorted(sets, key=lambda each: each.label not in first))

    def _own_kind(self, row: int) -> CommandInterface | None:
        return next((kind for kind in self._kinds if self._moves(row, kind)), None)

    def _moves(self, row: int, kind: CommandInterface) -> bool:
        return row not in self._unmoved.get(kind, ())


def _slider(name: str, dof: DofPlan, kind: CommandInterface) -> JointSlider:
    angular = dof.axis.startswith("rot")
    lower, upper = _limits(dof, kind, (_ANGULAR_SPANS if angular else _LINEAR_SPANS)[kind])
    slider = JointSlider(
        name=name, row=dof.row, kind=kind, angular=angular, lower=lower, upper=upper, initial=0.0
    )
    at_rest = dof.position if kind == "position" and math.isfinite(dof.position) else 0.0
    return replace(slider, initial=slider.clamp(at_rest))


def _limits(dof: DofPlan, kind: CommandInterface, span: float) -> tuple[float, float]:
    if kind == "position":
        lower = dof.lower if math.isfinite(dof.lower) else min(-span, dof.upper - 2.0 * span)
        upper = dof.upper if math.isfinite(dof.upper) else max(span, lower + 2.0 * span)
        return (lower, upper) if lower < upper else (lower, lower)
    greatest = dof.max_velocity if kind == "velocity" else dof.max_effort
    limit = greatest if math.isfinite(greatest) and greatest > 0.0 else span
    return -limit, limit


def _commanded(plan: BridgePlan, topic: TopicPlan) -> list[tuple[str, int]]:
    """Return name and row of the joints that a topic commands, in the order of its messages."""
    followers = followers_of(plan, topic.robot)
    names = plan.joint_names(topic)
    return [pair for pair in zip(names, topic.dofs, strict=True) if pair[1] not in followers]


def _joint_sources(plan: BridgePlan, topic: str) -> Iterator[JointSourceControl]:
    ranges = _Ranges(plan, forces=False)
    for index, robot in enumerate(plan.robots):
        followers = followers_of(plan, index)
        pairs = [(plan.layout.dofs[row], row) for row in robot.joint_state_rows if row not in followers]
        sliders = ranges.sliders(pairs, "position")
        if sliders:
            yield JointSourceControl(
                path=robot.path,
                robot=index,
                name=_resolved(robot, topic),
                type=JOINT_STATE,
                domain_id=robot.domain_id,
                sliders=sliders,
            )


def _resolved(robot: RobotPlan, topic: str) -> str:
    return topic if topic.startswith("/") else f"{robot.namespace.rstrip('/')}/{topic}"


def _joint_topics(index: _Index, ranges: _Ranges) -> Iterator[JointTopicControl]:
    for topic in _subscriptions(index.plan, {JOINT_STATE, FLOAT64_MULTI_ARRAY}):
        pairs = _commanded(index.plan, topic)
        if topic.type == FLOAT64_MULTI_ARRAY:
            # A message has a number for every joint, or it is ignored.
            kind = topic.command_interface
            sets: tuple[SliderSet, ...] = (SliderSet(label=kind, sliders=ranges.sliders(pairs, kind)),)
        else:
            sets = ranges.sets(pairs)
        if sets and sets[0].sliders:
            yield JointTopicControl(
                **_fields(topic), qos=topic.qos, sets=sets, measured=index.measured(topic, pairs)
            )


# --- Controllers ----------------------------------------------------------------------------------------------------


def _trajectories(index: _Index, ranges: _Ranges) -> Iterator[TrajectoryControl]:
    for controller in _controllers(index.plan, JOINT_TRAJECTORY_CONTROLLER):
        actions = index.actions(controller, {FOLLOW_JOINT_TRAJECTORY})
        topics = index.topics(controller, {JOINT_TRAJECTORY})
        pairs = list(zip(controller.joints, controller.dofs, strict=True))
        sliders = ranges.sliders(pairs, "position")
        if len(sliders) != len(pairs) or not (actions or topics):
            continue
        interface: ActionPlan | TopicPlan = actions[0] if actions else topics[0]
        yield TrajectoryControl(
            **_fields(interface),
            sliders=sliders,
            measured=index.measured(interface, pairs),
            qos=interface.qos if isinstance(interface, TopicPlan) else None,
        )


def _grippers(index: _Index, ranges: _Ranges) -> Iterator[GripperControl]:
    for controller in _controllers(index.plan, GRIPPER):
        pairs = list(zip(controller.joints, controller.dofs, strict=True))
        sliders = ranges.sliders(pairs, "position")
        actions = index.actions(controller, GRIPPERS)
        if not sliders or not actions:
            continue
        action = actions[0]
        if action.type == GRIPPER_COMMAND:
            # One position is for all joints: within the limits of each.
            lower = max(each.lower for each in sliders)
            upper = max(lower, min(each.upper for each in sliders))
            one = replace(sliders[0], lower=lower, upper=upper)
            sliders = (replace(one, initial=one.clamp(one.initial)),)
        ends = [_gripper_ends(each) for each in sliders]
        yield GripperControl(
            **_fields(action),
            sliders=sliders,
            opened=tuple(each[0] for each in ends),
            closed=tuple(each[1] for each in ends),
            measured=index.measured(action, pairs),
        )


def _gripper_ends(slider: JointSlider) -> tuple[float, float]:
    """Return where a gripper's joint is open, and where it is closed.

    No schema says so. Fingers that slide are authored at 0 where they meet, fingers that turn at 0 where they are
    open, as in the grippers of MoveIt's and ros2_control's examples.
    """
    near, far = sorted((slider.lower, slider.upper), key=abs)
    return (near, far) if slider.angular else (far, near)


def _controllers(plan: BridgePlan, schema: str) -> Iterator[ControllerPlan]:
    return (each for each in plan.controllers if each.schema == schema and each.switchable)


# --- Topics and services --------------------------------------------------------------------------------------------


def _twist_controls(index: _Index) -> Iterator[TwistControl]:
    for topic in _subscriptions(index.plan, TWISTS):
        controller = index.controller(topic)
        parameters = {} if controller is None else controller.parameters
        wheels = controller is not None and controller.schema == DIFF_DRIVE
        timeout = parameters.get("cmd_vel_timeout")
        yield TwistControl(
            **_fields(topic),
            qos=topic.qos,
            frame_id=topic.frame_id if topic.type == TWIST_STAMPED else "",
            linear=_speed(parameters.get("linear_max_velocity"), LINEAR_SPEED),
            angular=_speed(parameters.get("angular_max_velocity"), ANGULAR_SPEED),
            lateral=not wheels,
            timeout=0.0 if timeout is None else float(timeout),
        )


def _speed(limit: float | None, default: float) -> float:
    return float(limit) if limit is not None and math.isfinite(limit) and limit > 0.0 else default


def _services(plan: BridgePlan) -> Iterator[ServiceControl]:
    for service in plan.services:
        if service.enabled and service.role == "server" and service.type in (SET_BOOL, TRIGGER):
            yield ServiceControl(**_fields(service))


def _subscriptions(plan: BridgePlan, types: Iterable[str]) -> Iterator[TopicPlan]:
    wanted = frozenset(types)
    return (
        topic
        for topic in plan.topics
        if topic.enabled and topic.role == "subscription" and topic.type in wanted
    )


def _fields(interface: InterfacePlan) -> dict[str, Any]:
    return {
        "path": interface.path,
        "robot": interface.robot,
        "name": interface.name,
        "type": interface.type,
        "domain_id": interface.domain_id,
    }
