"""The joint_states backend: the state of each robot arrives on a topic, as for robot_state_publisher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.backend_options import option_parsers
from usd_ros_bridge.backends.base import (
    BackendContext,
    BackendInput,
    Capabilities,
    option_value,
    parse_options,
)
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.errors import did_you_mean, quoted
from usd_ros_bridge.model.change import CommonRows, common_rows
from usd_ros_bridge.model.message_types import JOINT_STATE
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, JointStateSample, State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray

DEFAULT_TOPIC = "joint_states"
SENSOR_DATA_DEPTH = 5
"""rclcpp::SensorDataQoS, which robot_state_publisher asks for."""

RESTART_NS = 1_000_000_000
"""Least difference of a stamp that goes back because time started over (a recording that loops)."""

UNKNOWN_NS = -1
_ON_ARRIVAL_NS = -2

MAX_ASSIGNMENTS = 16
"""Most lists of names that are cached for a robot: usually one for each publisher."""


class JointStatesBackend:
    """Set robots to received joint states, with the stamps of the messages.

    As in robot_state_publisher: a message whose arrays have unequal lengths, or without positions, is ignored with a
    warning; unknown names are ignored; a mimic joint follows its leader in the same message unless the message names
    it; limits clamp nothing; a stamp of zero means the time of arrival. Joints that no message has named are at rest;
    a robot has no state before its first message. Messages of several publishers are merged into one state with the
    newest stamp; a message older than the state of a joint that it names is ignored. The first one of equal names in
    a message counts.

    Options: `topic` (default `joint_states`), relative to each robot's namespace or absolute; `ignore_timestamp`
    (default false) accepts every message with its stamp, however old that is.
    """

    capabilities = Capabilities(topic_driven=True, commands=False, every_step=False)

    def __init__(self) -> None:
        self._plan: BridgePlan | None = None
        self._state: State | None = None
        self._animated: AnimatedBodies | None = None
        self._robots: dict[str, _Robot] = {}
        self._receivers: tuple[_Robot, ...] = ()
        self._topic = DEFAULT_TOPIC

    def open(self, context: BackendContext) -> None:
        """Make the initial state; robots with joints have no state until their first message."""
        values = parse_options("joint_states", context.options, option_parsers("joint_states"))
        self._topic = option_value(values, "topic", str, DEFAULT_TOPIC)
        any_stamp = option_value(values, "ignore_timestamp", bool, False)
        self._plan = context.plan
        mimic = MimicRules(context.plan)
        self._robots = {
            f"{DEFAULT_TOPIC}:{index}": _Robot(
                context.plan, index, mimic, context.report, any_stamp=any_stamp
            )
            for index, robot in enumerate(context.plan.robots)
            if any(joint.dofs for joint in robot.joints)
        }
        self._receivers = tuple(self._robots.values())
        self.reset()

    def inputs(self) -> tuple[BackendInput, ...]:
        """Return one topic for each robot with joints that move."""
        return tuple(
            BackendInput(
                key=key,
                robot=robot.index,
                topic=self._topic,
                type=JOINT_STATE,
                reliability="best_effort",
                depth=SENSOR_DATA_DEPTH,
            )
            for key, robot in self._robots.items()
        )

    def receive(self, key: str, sample: object) -> None:
        """Apply a robot's joint states."""
        assert isinstance(sample, JointStateSample)
        assert self._state is not None, "the backend is not open"
        self._robots[key].receive(sample, self._state)

    def assignment(self, key: str) -> tuple[JointAssignment, int] | None:
        """Return which joints the last message of an input moved, and its stamp.

        None if more than a newer message with the same names decides what the robot does next.

        Args:
            key: Key of the input.
        """
        robot = self._robots.get(key)
        return None if robot is None or self._animated is not None else robot.assignment()

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - ignored
        """Return the received state; robots without joints have `time_ns`."""
        state = self._state
        assert state is not None, "the backend is not open"
        assert state.robot_time_ns is not None
        state.time_ns = time_ns
        state.robot_time_ns.fill(time_ns)
        if self._animated is not None:
            self._animated.update(state, time_ns)
        for robot in self._receivers:
            state.robot_time_ns[robot.index] = robot.time_at(time_ns)
        return state

    def reset(self) -> None:
        """Forget all messages."""
        assert self._plan is not None, "the backend is not open"
        self._state = State.initial(self._plan.layout)
        self._state.body_twist = None
        self._state.joint_velocity.fill(np.nan)
        self._animated = AnimatedBodies(self._plan) or None
        self._state.robot_time_ns = np.full(len(self._plan.robots), UNKNOWN_NS, dtype=np.int64)
        for robot in self._robots.values():
            robot.reset()

    def close(self) -> None:
        """Free the state."""
        self._state = None

    def new_instance(self) -> JointStatesBackend:
        """Return another backend, not open."""
        return JointStatesBackend()

    def transfer_state(self, old: JointStatesBackend) -> None:
        """Copy the positions of another backend by name, with their stamps."""
        assert self._plan is not None, "the backend is not open"
        assert old._plan is not None, "the old backend is not open"
        assert self._state is not None
        assert old._state is not None
        common = common_rows(self._plan, old._plan)
        if self._animated is not None and old._animated is not None:
            self._animated.transfer_state(old._animated)
        for name in ("joint_position", "joint_velocity", "joint_effort"):
            getattr(self._state, name)[common.dofs] = getattr(old._state, name)[common.old_dofs]
        old_robots = {old._plan.robots[each.index].path: each for each in old._robots.values()}
        for robot in self._robots.values():
            old_robot = old_robots.get(self._plan.robots[robot.index].path)
            if old_robot is not None:
                robot.transfer_state(old_robot, common)


@dataclass(frozen=True, slots=True, eq=False)
class JointAssignment:
    """Rows of the values of one list of names: `state[rows] = multipliers * values[sources] + offsets`.

    Attributes:
        names: Names of a message.
        rows: (N,) rows in the layout, mimic joints included.
        sources: (N,) which of the message's values.
        multipliers: (N,).
        offsets: (N,) rad or m.
        named: How many of the rows are named by the message; they are the first ones.
        where: The rows, as a slice where possible.
        block: That slice if the values are copied in order, unchanged.
    """

    names: tuple[str, ...]
    rows: NDArray[np.intp]
    sources: NDArray[np.intp]
    multipliers: FloatArray
    offsets: FloatArray
    named: int
    where: slice | NDArray[np.intp]
    block: slice | None


class _Robot:
    """Messages of one robot: names to rows, mimic rules, stamps."""

    def __init__(
        self, plan: BridgePlan, index: int, mimic: MimicRules, report: Report, *, any_stamp: bool
    ) -> None:
        self.index = index
        self._any_stamp = any_stamp
        robot = plan.robots[index]
        self._path = robot.path
        self._report = report
        self._mimic = mimic
        self._rows = {plan.layout.dofs[dof.row]: dof.row for joint in robot.joints for dof in joint.dofs}
        self._time_ns = UNKNOWN_NS
        self._suggested = False
        self._row_time = np.zeros(len(plan.layout.dofs), dtype=np.int64)
        self._assignments: dict[tuple[str, ...], JointAssignment] = {}
        self._nothing = self._assign(())
        self.reset()

    def reset(self) -> None:
        self._time_ns = UNKNOWN_NS
        self._row_time.fill(0)
        self._last, self._last_ns = self._nothing, 0
        self._blank = (False, False)

    def transfer_state(self, old: _Robot, common: CommonRows) -> None:
        old._row_time[old._last.where] = old._last_ns
        self._time_ns = old._time_ns
        self._row_time[common.dofs] = old._row_time[common.old_dofs]

    def time_at(self, time_ns: int) -> int:
        """Return the time of the state; a message without a stamp has the time of the tick that applied it."""
        if self._time_ns == _ON_ARRIVAL_NS:
            self._time_ns = time_ns
        return self._time_ns

    def assignment(self) -> tuple[JointAssignment, int] | None:
        if self._last_ns <= 0 or self._last_ns != self._time_ns:
            return None
        return self._last, self._time_ns

    def receive(self, sample: JointStateSample, state: State) -> None:
        names, stamp_ns, assignment = sample.names, sample.stamp_ns, self._last
        count, velocities, efforts = len(names), len(sample.velocity), len(sample.effort)
        if len(sample.position) != count or velocities not in (0, count) or efforts not in (0, count):
            self._report_lengths(sample)
            return
        # Readers return the same tuple for the same names: comparing a thousand strings costs more than the rest.
        if names is not assignment.names:
            assignment = self._find(names)
        if not assignment.named:
            return
        if 0 < stamp_ns > self._time_ns:
            self._time_ns = stamp_ns
        elif not self._is_in_time(assignment, stamp_ns):
            return
        if assignment is not self._last:
            # The stamps of a lone publisher need no rows: write them when another publisher's message arrives.
            self._row_time[self._last.where] = self._last_ns
            self._blank = (False, False)
        self._last, self._last_ns = assignment, stamp_ns
        where = assignment.block
        if where is None:
            self._apply(assignment, sample, state)
            return
        state.joint_position[where] = sample.position
        # Skip two writes for publishers that send neither: the values are NaN already.
        if velocities or not self._blank[0]:
            state.joint_velocity[where] = sample.velocity if velocities else np.nan
        if efforts or not self._blank[1]:
            state.joint_effort[where] = sample.effort if efforts else np.nan
        self._blank = (not velocities, not efforts)

    def _find(self, names: tuple[str, ...]) -> JointAssignment:
        found = self._assignments.get(names)
        if found is None:
            if len(self._assignments) >= MAX_ASSIGNMENTS:
                self._assignments.clear()
            found = self._assignments[names] = self._assign(names)
        return found

    def _is_in_time(self, assignment: JointAssignment, stamp_ns: int) -> bool:
        """Return whether to apply a message that is not newer than the last one.

        True without a stamp, if stamps are ignored, if time started over, and if its joints have no newer state.
        Otherwise a newer message has overtaken it.
        """
        if stamp_ns == 0:
            self._time_ns = _ON_ARRIVAL_NS
        elif self._any_stamp:
            self._time_ns = stamp_ns
        elif stamp_ns < self._time_ns - RESTART_NS:
            self._start_over(stamp_ns)
        elif stamp_ns < self._time_ns:
            self._row_time[self._last.where] = self._last_ns
            return not (self._row_time[assignment.where] > stamp_ns).any()
        return True

    @staticmethod
    def _apply(assignment: JointAssignment, sample: JointStateSample, state: State) -> None:
        rows, sources, named = assignment.rows, assignment.sources, assignment.named
        state.joint_position[rows] = assignment.multipliers * sample.position[sources] + assignment.offsets
        state.joint_velocity[rows] = (
            assignment.multipliers * sample.velocity[sources] if len(sample.velocity) else np.nan
        )
        state.joint_effort[rows] = np.nan
        if len(sample.effort):
            state.joint_effort[rows[:named]] = sample.effort[sources[:named]]

    def _report_lengths(self, sample: JointStateSample) -> None:
        lengths = f"{len(sample.position)}/{len(sample.velocity)}/{len(sample.effort)}"
        self._report(
            f"joint_states.length:{self._path}",
            f"joint states of {self._path}: a message with {len(sample.names)} names and {lengths} "
            "positions/velocities/efforts is ignored",
        )

    def _start_over(self, stamp_ns: int) -> None:
        self._report(
            f"joint_states.backwards:{self._path}",
            f"joint states of {self._path}: stamps went back by {(self._time_ns - stamp_ns) * 1e-9:.3f} s: "
            "starting over",
        )
        self._time_ns = stamp_ns
        self._row_time.fill(0)
        self._last_ns = 0

    def _assign(self, names: tuple[str, ...]) -> JointAssignment:
        """Find rows and sources of a list of names; cached, because publishers rarely change them."""
        source_by_row: dict[int, int] = {}
        for source, name in enumerate(names):
            if name in self._rows:
                source_by_row.setdefault(self._rows[name], source)
        self._report_unknown(names)
        entries = [(row, source, 1.0, 0.0) for row, source in source_by_row.items()]
        given = frozenset(source_by_row)
        for follower, rule in self._mimic.resolve(self._rows.values(), given).items():
            if rule[0] in given:
                entries.append((follower, source_by_row[rule[0]], rule[1], rule[2]))
        rows, sources, multipliers, offsets = zip(*entries, strict=True) if entries else ((), (), (), ())
        in_order = len(entries) == len(names) and all(
            source == index and row == rows[0] + index and multiplier == 1.0 and offset == 0.0
            for index, (row, source, multiplier, offset) in enumerate(entries)
        )
        block = slice(rows[0], rows[0] + len(rows)) if entries and in_order else None
        return JointAssignment(
            names=names,
            rows=np.array(rows, dtype=np.intp),
            sources=np.array(sources, dtype=np.intp),
            multipliers=np.array(multipliers, dtype=np.float64),
            offsets=np.array(offsets, dtype=np.float64),
            named=len(source_by_row),
            where=np.array(rows, dtype=np.intp) if block is None else block,
            block=block,
        )

    def _report_unknown(self, names: tuple[str, ...]) -> None:
        unknown = [name for name in names if name not in self._rows]
        if unknown:
            # Once: a publisher may change its names in every message.
            question = "" if self._suggested else did_you_mean(unknown[0], self._rows)
            self._suggested = True
            self._report(
                f"joint_states.unknown:{self._path}",
                f"joint states of {self._path}: {len(unknown)} name(s) are not of this robot and are ignored: "
                + ", ".join(quoted(name) for name in unknown[:5])
                + (f"; {question}" if question else ""),
            )
