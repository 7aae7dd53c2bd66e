"""Command sinks: turn received samples into commands of joints and bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.controllers.joint_commands import BOUND, NamedTargets, PositionLimits, actuators_of
from usd_ros_bridge.controllers.twist_commands import FASTEST
from usd_ros_bridge.errors import BridgeError, quoted
from usd_ros_bridge.model.actuation import NO_DRIVE, topic_fault
from usd_ros_bridge.model.message_types import (
    CodecPlugin,
    CommandKind,
    is_own_type,
    message_type,
    plugin_fault,
    spell_type,
)
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan, followers_of
from usd_ros_bridge.model.state import (
    ArraySample,
    Commands,
    JointStateSample,
    Layout,
    PoseSample,
    TwistSample,
)
from usd_ros_bridge.plugins import PluginEntry, Registry, load_entry
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, normalized

Resolve = Callable[[TopicPlan, str, int], FloatArray]
"""`resolve(topic, frame_id, stamp_ns)`: `world_from_frame` (7,). Raises UnknownFrameError."""


_JointKey = tuple[str, str]
"""Joint, and name of the degree of freedom: the same in every plan of a stage."""


class Sink(Protocol):
    """Turn samples that arrived into commands."""

    def apply(self, sample: object, commands: Commands) -> None:
        """Write what `sample` asks for into `commands`; called in the tick."""


@runtime_checkable
class MovingSink(Sink, Protocol):
    """A sink that sets in motion what moves on when no samples come any more."""

    def release(self, layout: Layout, commands: Commands) -> None:
        """Stop what moves; `layout` is that of the plan that is live. Called in the tick."""

    def continue_from(self, before: Any) -> None:
        """Know what a sink of this class, of the plan before, has moved."""


class UnknownFrameError(Exception):
    """A frame's pose is unknown; the message says why."""


class FrameResolver(Protocol):
    """Find poses of frames outside of the plan. Called in the tick: never wait."""

    def resolve(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:
        """Return where a frame is.

        Args:
            topic: The subscription that a pose came by.
            frame_id: The frame that it is given in.
            stamp_ns: When, nanoseconds; 0 for the latest time that is known.

        Returns:
            `world_from_frame` (7,).

        Raises:
            UnknownFrameError: The frame is not known.
        """

    def reset(self) -> None:
        """Drop what depends on time, which may start over."""


def own_frame(
    plan: BridgePlan, snapshot: Snapshot | None, topic: TopicPlan, frame_id: str
) -> FloatArray | None:
    """Return `world_from_frame` (7,) of the world under its names or of a frame of the topic's robot, else None.

    Args:
        plan: The plan.
        snapshot: Where its frames are; None while that is not known.
        topic: The subscription that a pose came by.
        frame_id: The frame that it is given in.
    """
    robot = plan.robots[topic.robot] if topic.robot >= 0 else None
    if frame_id in ("", robot.parent_frame if robot else "world"):
        return IDENTITY
    return None if robot is None or snapshot is None else snapshot.frame_pose(topic.robot, frame_id)


def find_frame(
    plan: BridgePlan,
    snapshot: Snapshot | None,
    resolver: FrameResolver | None,
    topic: TopicPlan,
    frame_id: str,
    stamp_ns: int,
) -> FloatArray:
    """Return `world_from_frame` (7,) of a frame of the plan's, else what a resolver says.

    Args:
        plan: The plan.
        snapshot: Where its frames are; None while that is not known.
        resolver: Knows frames that are none of the plan's; None where nobody does.
        topic: The subscription that a pose came by.
        frame_id: The frame that it is given in.
        stamp_ns: When, nanoseconds; 0 for the latest time that is known.

    Raises:
        UnknownFrameError: Nobody knows the frame.
    """
    world_from_frame = own_frame(plan, snapshot, topic, frame_id)
    if world_from_frame is not None:
        return world_from_frame
    if resolver is None:
        raise UnknownFrameError("no transform to it is known")
    return resolver.resolve(topic, frame_id, stamp_ns)


class SinkRefusal(Exception):  # noqa: N818 - an answer, never an error that a user sees as an exception
    """A subscription has no built-in sink here; the text says why, in words for a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """Arguments of built-in sinks.

    Attributes:
        plan: The plan.
        kinematics: The plan's kinematics.
        capabilities: What the backend can do.
        report: For warnings about samples.
        resolve: Finds the frame that a pose is given in.
    """

    plan: BridgePlan
    kinematics: Kinematics
    capabilities: Capabilities
    report: Report
    resolve: Resolve


class JointTargets:
    """Joint targets by name. An empty array, NaN and infinity command nothing."""

    def __init__(
        self,
        context: SinkContext,
        topic: TopicPlan,
        rows: Mapping[str, int],
        actuators: Mapping[str, int],
    ) -> None:
        self._targets = NamedTargets(topic.name, rows, context.plan, context.report, actuators=actuators)
        self._has_actuators = bool(actuators)
        layout = context.plan.layout
        self._joints = {name: (layout.dof_joints[row], layout.dofs[row]) for name, row in rows.items()}
        # Joints that velocities and efforts have moved, and the names in the last message with such.
        self._moved: tuple[set[_JointKey], set[_JointKey]] = (set(), set())
        self._last_names: list[tuple[str, ...]] = [(), ()]

    def apply(self, sample: object, commands: Commands) -> None:
        """Write position, velocity and effort targets, and controls of actuators."""
        assert isinstance(sample, JointStateSample)
        targets = (commands.joint_position, commands.joint_velocity, commands.joint_effort)
        if not self._targets.write(sample, targets):
            return
        for which, values in enumerate((sample.velocity, sample.effort)):
            if len(values) and sample.names != self._last_names[which]:
                self._last_names[which] = sample.names
                self._moved[which].update(self._joints[name] for name in sample.names if name in self._joints)
        if self._has_actuators:
            actuators, controls = self._targets.find_controls(sample)
            if actuators.size:
                commands.actuator_control[actuators] = controls

    def release(self, layout: Layout, commands: Commands) -> None:
        """Stop what velocities and efforts have moved; joints that have a position hold it."""
        for joints, written in zip(
            self._moved, (commands.joint_velocity, commands.joint_effort), strict=True
        ):
            if joints:
                keys = enumerate(zip(layout.dof_joints, layout.dofs, strict=True))
                written[[row for row, key in keys if key in joints]] = 0.0

    def continue_from(self, before: JointTargets) -> None:
        """Know what the sink before has moved: the backend goes on with it."""
        for joints, others in zip(self._moved, before._moved, strict=True):
            joints.update(others)


class JointArray:
    """Targets of the joints in order, as for a forward command controller: positions, velocities or efforts."""

    def __init__(self, context: SinkContext, topic: TopicPlan, rows: Mapping[str, int]) -> None:
        layout = context.plan.layout
        self._report = context.report
        self._topic = topic.name
        self._interface = topic.command_interface
        self._joints = {(layout.dof_joints[row], layout.dofs[row]) for row in rows.values()}
        # Joints that velocities or efforts may have moved.
        self._moved: set[_JointKey] = set()
        self._rows = np.array(list(rows.values()), dtype=np.intp)
        self._names = ", ".join(rows)
        self._limits = PositionLimits(context.plan, self._rows, list(rows))

    def apply(self, sample: object, commands: Commands) -> None:
        """Write targets, positions within the joints' limits; an array of another length is ignored."""
        assert isinstance(sample, ArraySample)
        if len(sample.values) != len(self._rows):
            self._report(
                f"sink.length:{self._topic}",
                f"{self._topic}: an array of {len(sample.values)} values is ignored: "
                f"{len(self._rows)} are needed ({self._names})",
            )
            return
        values = np.asarray(sample.values, dtype=np.float64)
        finite = np.abs(values) <= BOUND
        if self._interface == "position":
            values = self._limits.clamp_command(np.where(finite, values, np.nan), self._topic, self._report)
        else:
            self._moved = self._joints
        self._target(commands)[self._rows[finite]] = values[finite]

    def release(self, layout: Layout, commands: Commands) -> None:
        """Stop what velocities or efforts have moved; joints that have a position hold it."""
        if self._moved:
            keys = enumerate(zip(layout.dof_joints, layout.dofs, strict=True))
            self._target(commands)[[row for row, key in keys if key in self._moved]] = 0.0

    def continue_from(self, before: JointArray) -> None:
        """Copy which joints the sink before has moved: the backend keeps its commands."""
        self._moved = self._moved | before._moved

    def _target(self, commands: Commands) -> FloatArray:
        if self._interface == "position":
            return commands.joint_position
        return commands.joint_velocity if self._interface == "velocity" else commands.joint_effort


class BaseTwist:
    """The velocity of a base, in its own frame, until the next one."""

    def __init__(self, context: SinkContext, topic: TopicPlan, body: int) -> None:
        self._report = context.report
        self._topic = topic.name
        self._body = body
        self._path = context.plan.layout.bodies[body]
        self._moved = False

    def apply(self, sample: object, commands: Commands) -> None:
        """Write the twist; one that is not finite, or beyond `FASTEST`, is ignored."""
        assert isinstance(sample, TwistSample)
        if not (np.abs(sample.twist) <= FASTEST).all():
            self._report(
                f"sink.finite:{self._topic}",
                f"{self._topic}: a twist that is not finite, or beyond {FASTEST:g}, is ignored",
            )
            return
        commands.body_twist[self._body] = sample.twist
        self._moved = True

    def release(self, layout: Layout, commands: Commands) -> None:
        """Stop the body."""
        row = layout.body_index.get(self._path, -1)
        if self._moved and row >= 0:
            commands.body_twist[row] = 0.0

    def continue_from(self, before: BaseTwist) -> None:
        """Know whether the sink before has moved the body: the backend goes on with it."""
        self._moved = before._moved and before._path == self._path


class BodyPose:
    """Pose command of a kinematic body."""

    def __init__(self, context: SinkContext, topic: TopicPlan, body: int) -> None:
        self._report = context.report
        self._resolve = context.resolve
        self._topic = topic
        self._body = body

    def apply(self, sample: object, commands: Commands) -> None:
        """Write the pose in the world; one that is not finite or in an unknown frame is ignored."""
        assert isinstance(sample, PoseSample)
        name = self._topic.name
        frame_from_body = sample.frame_from_body.copy()
        frame_from_body[3:] = normalized(frame_from_body[3:])
        if not np.isfinite(frame_from_body).all():
            self._report(
                f"sink.finite:{name}", f"{name}: a pose that is not finite, or has no rotation, is ignored"
            )
            return
        try:
            world_from_frame = self._resolve(self._topic, sample.frame_id, sample.stamp_ns)
        except UnknownFrameError as error:
            self._report(
                f"sink.frame:{name}",
                f"{name}: a pose in frame {quoted(sample.frame_id)} is ignored: {error}",
            )
            return
        commands.body_pose[self._body] = compose(world_from_frame, frame_from_body)


def make_sink(context: SinkContext, topic: TopicPlan) -> Sink:
    """Return the sink of a subscription: that of a plug-in, else the built-in one.

    Raises:
        SinkRefusal: There is none for its type, or nothing here takes its commands; the text says why.
    """
    make = SINKS.get(topic.type)
    if make is not None:
        return _foreign_sink(make, context, topic)
    if disabled := SINKS.fault(topic.type):
        raise SinkRefusal(disabled)
    factory = _FACTORIES.get(message_type(topic.type).commands)
    if factory is None:
        raise SinkRefusal(f"nothing takes messages of type {topic.type}")
    if not context.capabilities.commands:
        raise SinkRefusal("the backend takes no commands")
    sink = factory(context, topic)
    fault = topic_fault(context.plan, topic, context.capabilities.unmoved)
    if fault is not None and fault.code == NO_DRIVE:
        if not fault.acts:
            raise SinkRefusal(str(fault))
        if not fault.remark:
            context.report(f"sink.drive:{topic.name}", f"{topic.name}: {fault}")
    return sink


def _foreign_sink(make: SinkFactory, context: SinkContext, topic: TopicPlan) -> Sink:
    """Return the sink that a plug-in makes. An exception of its code refuses the messages of this topic alone."""
    try:
        sink = make(context, topic)
    except SinkRefusal:
        raise
    except Exception as error:
        raise SinkRefusal(f"the sink of the codec of {topic.type} failed: {describe(error)}") from error
    if not callable(getattr(sink, "apply", None)):
        raise SinkRefusal(f"the codec of {topic.type} made a {type(sink).__name__}, no sink")
    return sink


def _load_sink(entry: PluginEntry, plugin: CodecPlugin) -> Any:
    """Import what makes the sinks of a plug-in; None if it has none."""
    if not plugin.sink:
        return None
    found = load_entry(replace(entry, value=plugin.sink))
    if not callable(found):
        raise BridgeError(f"{plugin.sink} is a {type(found).__name__}, no function")
    return found


def _joint_targets(context: SinkContext, topic: TopicPlan) -> Sink:
    actuators = actuators_of(context.plan, topic.robot, topic.context_path)
    return JointTargets(
        context, topic, _commanded_rows(context.plan, topic, allow_none=bool(actuators)), actuators
    )


def _joint_array(context: SinkContext, topic: TopicPlan) -> Sink:
    return JointArray(context, topic, _commanded_rows(context.plan, topic))


def _base_twist(context: SinkContext, topic: TopicPlan) -> Sink:
    return BaseTwist(context, topic, _moved_body(context, topic))


def _body_pose(context: SinkContext, topic: TopicPlan) -> Sink:
    return BodyPose(context, topic, _moved_body(context, topic))


SinkFactory = Callable[[SinkContext, TopicPlan], Sink]
"""Makes the sink of one subscription; raises SinkRefusal where nothing takes its messages."""

SINKS: Final[Registry[SinkFactory]] = Registry(
    "codecs",
    "codec",
    {},
    check=plugin_fault,
    spell=spell_type,
    known=is_own_type,
    convert=_load_sink,
)
"""Sinks that plug-ins bring for the types of their codecs."""

_FACTORIES: dict[CommandKind, SinkFactory] = {
    "joint_targets": _joint_targets,
    "joint_array": _joint_array,
    "body_twist": _base_twist,
    "body_pose": _body_pose,
}


def _commanded_rows(plan: BridgePlan, topic: TopicPlan, *, allow_none: bool = False) -> dict[str, int]:
    """Return the rows of the topic's joints, without those that follow others, by the names of its context."""
    followers = followers_of(plan, topic.robot)
    names = plan.joint_names(topic)
    rows = {name: row for name, row in zip(names, topic.dofs, strict=True) if row not in followers}
    if not rows and not allow_none:
        raise SinkRefusal("no joint below its context can be commanded")
    return rows


def _moved_body(context: SinkContext, topic: TopicPlan) -> int:
    """Return the row of the body that a topic moves: its own where that is free to move, else its robot's base."""
    driven = context.kinematics.driven
    base = context.plan.robots[topic.robot].base_row if topic.robot >= 0 else -1
    candidates = [row for row in (topic.body, base) if row >= 0]
    if not candidates:
        raise SinkRefusal("no body at or above the prim, and no base")
    for row in candidates:
        if driven[row]:
            continue
        if context.capabilities.kinematic or context.plan.layout.kinematic[row]:
            return row
    if all(driven[row] for row in candidates):
        fault = topic_fault(context.plan, topic, context.capabilities.unmoved)
        raise SinkRefusal(str(fault or "the body hangs from a joint; a fixed base cannot be moved"))
    raise SinkRefusal("physics moves the body, and no controller claims the topic")
