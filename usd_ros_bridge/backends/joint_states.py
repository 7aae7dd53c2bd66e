"""The joint_states backend: each robot's state arrives on a topic, as for robot_state_publisher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.protocol import BackendContext, BackendInput, Capabilities, Report
from usd_ros_bridge.backends.rest import MimicRules, rest_state
from usd_ros_bridge.backends.settings import flag, parse_settings, setting, topic_name
from usd_ros_bridge.backends.timeline import AnimatedRows
from usd_ros_bridge.model.carry import CommonRows, carry, common_rows
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, JointStateSample, State
from usd_ros_bridge.model.transforms import FloatArray

DEFAULT_TOPIC = "joint_states"
JOINT_STATE = "sensor_msgs/msg/JointState"
SENSOR_DATA_DEPTH = 5
"""rclcpp::SensorDataQoS, which robot_state_publisher asks for."""

RESTART_NS = 1_000_000_000
"""A stamp this much older than the last means that time started over (a recording that loops)."""

UNKNOWN_NS = -1
_ON_ARRIVAL_NS = -2

MAX_ASSIGNMENTS = 16
"""How many lists of names are remembered for a robot: one a publisher, and hardly ever more."""


class JointStatesBackend:
    """Shows robots as their joint states say, with the stamps of those messages.

    As robot_state_publisher does: a message whose arrays have unequal lengths, or that has no positions, is ignored
    with a warning; names that the robot does not have are ignored; a mimic joint follows its leader in the same
    message unless the message names it itself; limits clamp nothing; a stamp of zero means the time of arrival. A
    robot's joints that no message has named yet are shown at rest, and nothing is shown before the first message.
    Messages of several publishers add up to one state, whose time is the newest stamp; one that is older than what is
    known of a joint that it names is ignored. Of a name that a message holds twice, the first counts.

    Options: `topic` (default `joint_states`), relative to each robot's namespace or absolute; `ignore_timestamp`
    (default false) shows what every message says with the stamp that it has, however old that is.
    """

    capabilities = Capabilities(topic_driven=True, commands=False, every_step=False)

    def __init__(self) -> None:
        self._plan: BridgePlan | None = None
        self._state: State | None = None
        self._animated: AnimatedRows | None = None
        self._robots: dict[str, _Robot] = {}
        self._fed: tuple[_Robot, ...] = ()
        self._topic = DEFAULT_TOPIC

    def open(self, context: BackendContext) -> None:
        """Takes the state at rest; robots with joints are unknown until their first message."""
        values = parse_settings(
            "joint_states", context.options, {"topic": topic_name, "ignore_timestamp": flag}
        )
        self._topic = setting(values, "topic", str, DEFAULT_TOPIC)
        any_stamp = setting(values, "ignore_timestamp", bool, False)
        self._plan = context.plan
        mimic = MimicRules(context.plan)
        self._robots = {
            f"{DEFAULT_TOPIC}:{index}": _Robot(
                context.plan, index, mimic, context.report, any_stamp=any_stamp
            )
            for index, robot in enumerate(context.plan.robots)
            if any(joint.dofs for joint in robot.joints)
        }
        self._fed = tuple(self._robots.values())
        self.reset()

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs one topic for each robot that has joints that move."""
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
        """Takes a robot's joint states."""
        assert isinstance(sample, JointStateSample)
        assert self._state is not None, "the backend is not open"
        self._robots[key].receive(sample, self._state)

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - the robot's own controllers command
        """Returns what has arrived; robots without joints have the time asked for."""
        state = self._state
        assert state is not None, "the backend is not open"
        assert state.robot_time_ns is not None
        state.time_ns = time_ns
        state.robot_time_ns.fill(time_ns)
        assert self._animated is not None
        self._animated.show_at(state, time_ns)
        for robot in self._fed:
            state.robot_time_ns[robot.index] = robot.time_at(time_ns)
        return state

    def reset(self) -> None:
        """Forgets all messages."""
        assert self._plan is not None, "the backend is not open"
        self._state = rest_state(self._plan)
        self._state.body_twist = None
        self._state.joint_velocity.fill(np.nan)
        self._animated = AnimatedRows(self._plan)
        self._state.robot_time_ns = np.full(len(self._plan.robots), UNKNOWN_NS, dtype=np.int64)
        for robot in self._robots.values():
            robot.reset()

    def close(self) -> None:
        """Lets the state go."""
        self._state = None

    def successor(self) -> JointStatesBackend:
        """Returns another one, not open yet."""
        return JointStatesBackend()

    def take_over(self, other: JointStatesBackend) -> None:
        """Goes on with what another knows: positions by name, and how old they are."""
        assert self._plan is not None, "the backend is not open"
        assert other._plan is not None, "the other backend is not open"
        assert self._state is not None
        assert other._state is not None
        common = common_rows(self._plan, other._plan)
        assert self._animated is not None
        assert other._animated is not None
        self._animated.take_over(other._animated)
        for name in ("joint_position", "joint_velocity", "joint_effort"):
            carry(getattr(self._state, name), common.dofs, getattr(other._state, name), common.old_dofs)
        of_old = {other._plan.robots[each.index].path: each for each in other._robots.values()}
        for robot in self._robots.values():
            old = of_old.get(self._plan.robots[robot.index].path)
            if old is not None:
                robot.take_over(old, common)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Where the values of one list of names go: `state[rows] = multipliers * values[sources] + offsets`.

    `where` are the rows again: as a slice, which `block` is, too, where the values go there side by side, in order and
    as they are.
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
    """One robot's messages: names to rows, mimic rules, stamps."""

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
        self._row_time = np.zeros(len(plan.layout.dofs), dtype=np.int64)
        self._assignments: dict[tuple[str, ...], _Assignment] = {}
        self._nothing = self._assign(())
        self.reset()

    def reset(self) -> None:
        self._time_ns = UNKNOWN_NS
        self._row_time.fill(0)
        self._last, self._last_ns = self._nothing, 0
        self._blank = (False, False)

    def take_over(self, other: _Robot, common: CommonRows) -> None:
        other._row_time[other._last.where] = other._last_ns
        self._time_ns = other._time_ns
        self._row_time[common.dofs] = other._row_time[common.old_dofs]

    def time_at(self, time_ns: int) -> int:
        """Returns the time of the state; a message without a stamp arrived at the tick that took it."""
        if self._time_ns == _ON_ARRIVAL_NS:
            self._time_ns = time_ns
        return self._time_ns

    def receive(self, sample: JointStateSample, state: State) -> None:
        names, stamp_ns, assignment = sample.names, sample.stamp_ns, self._last
        count, velocities, efforts = len(names), len(sample.velocity), len(sample.effort)
        if len(sample.position) != count or velocities not in (0, count) or efforts not in (0, count):
            self._report_lengths(sample)
            return
        # Readers hand out the same tuple for the same names: comparing a thousand strings costs more than the rest.
        if names is not assignment.names:
            assignment = self._find(names)
        if not assignment.named:
            return
        if 0 < stamp_ns > self._time_ns:
            self._time_ns = stamp_ns
        elif not self._is_in_time(assignment, stamp_ns):
            return
        if assignment is not self._last:
            # One publisher's stamps need no row each: written once another's message comes in between.
            self._row_time[self._last.where] = self._last_ns
            self._blank = (False, False)
        self._last, self._last_ns = assignment, stamp_ns
        where = assignment.block
        if where is None:
            self._spread(assignment, sample, state)
            return
        state.joint_position[where] = sample.position
        # Two writes less for those who send neither: what they did not send before is unknown already.
        if velocities or not self._blank[0]:
            state.joint_velocity[where] = sample.velocity if velocities else np.nan
        if efforts or not self._blank[1]:
            state.joint_effort[where] = sample.effort if efforts else np.nan
        self._blank = (not velocities, not efforts)

    def _find(self, names: tuple[str, ...]) -> _Assignment:
        found = self._assignments.get(names)
        if found is None:
            if len(self._assignments) >= MAX_ASSIGNMENTS:
                self._assignments.clear()
            found = self._assignments[names] = self._assign(names)
        return found

    def _is_in_time(self, assignment: _Assignment, stamp_ns: int) -> bool:
        """Whether a message that is no newer than the last one tells anything new.

        It does where it has no stamp, where stamps are ignored, where time started over, and where nothing newer is
        known of its joints; else it was overtaken on its way.
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
    def _spread(assignment: _Assignment, sample: JointStateSample, state: State) -> None:
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

    def _assign(self, names: tuple[str, ...]) -> _Assignment:
        """Finds rows and sources of a list of names; publishers rarely change theirs, so this is kept."""
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
        return _Assignment(
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
            self._report(
                f"joint_states.unknown:{self._path}",
                f"joint states of {self._path}: {len(unknown)} name(s) are not of this robot and are ignored: "
                + ", ".join(quoted(name) for name in unknown[:5]),
            )
