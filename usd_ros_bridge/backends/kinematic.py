"""The kinematic backend: commands move joints and bases as asked, without forces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.protocol import BackendContext, BackendInput, Capabilities, Report
from usd_ros_bridge.backends.rest import MimicRules, rest_state
from usd_ros_bridge.backends.settings import flag, parse_settings, setting
from usd_ros_bridge.backends.timeline import AnimatedRows
from usd_ros_bridge.model.carry import CommonRows, carry, common_rows
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, Layout, State
from usd_ros_bridge.model.transforms import FloatArray, compose, normalized, rotate, twist_exponential

_SECONDS = 1e-9
_NONE: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class KinematicBackend:
    """Joints go where they are told, bodies move as they are told.

    - A position target is clamped to the limits and reached at the authored maximum velocity, at once where there is
      none, as ros2_control's mock hardware (mock_components/GenericSystem) mirrors commands.
    - A velocity target is clamped to the maximum velocity and integrated up to the limits; it holds until the joint's
      next command. Where a command gives both, the position is what counts, as in GenericSystem.
    - Efforts have no meaning without masses: reported once, ignored.
    - Mimic joints follow their leaders; what is commanded of them is ignored.
    - The reported velocity is that of the motion that was made.
    - A body twist holds until replaced and is integrated exactly (a constant twist makes a perfect arc).
    - Kinematic bodies and Xforms with time samples go where these say, until they are commanded.
    """

    capabilities = Capabilities(kinematic=True, every_step=False)

    def __init__(self) -> None:
        self._context: BackendContext | None = None
        self._loop = True
        self._model: _Model | None = None

    def open(self, context: BackendContext) -> None:
        """Takes the state at rest from the plan."""
        values = parse_settings("kinematic", context.options, {"loop": flag})
        self._context, self._loop = context, setting(values, "loop", bool, True)
        self.reset()

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing: commands come through the plan's own subscriptions."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:
        """Moves everything by the time since the last step; the first step takes none."""
        assert self._model is not None, "the backend is not open"
        return self._model.step(time_ns, commands)

    def reset(self) -> None:
        """Goes back to the state at rest and forgets all targets."""
        assert self._context is not None, "the backend is not open"
        self._model = _Model(self._context.plan, self._context.report, loop=self._loop)

    def close(self) -> None:
        """Lets the state go."""
        self._context = self._model = None

    def successor(self) -> KinematicBackend:
        """Returns another one, not open yet."""
        return KinematicBackend()

    def take_over(self, other: KinematicBackend) -> None:
        """Goes on from where another stands, by name: joints, bodies, and what they are on their way to."""
        assert self._context is not None, "the backend is not open"
        assert other._context is not None, "the other backend is not open"
        assert self._model is not None
        assert other._model is not None
        plan, old = self._context.plan, other._context.plan
        self._model.take_over(other._model, common_rows(plan, old), old.layout)


class _Model:
    """The state and everything that moves it, from rest."""

    def __init__(self, plan: BridgePlan, report: Report, *, loop: bool) -> None:
        self._report = report
        self._state = rest_state(plan)
        self._joints = _Joints(plan)
        self._joints.follow(self._state)
        self._bodies = _Bodies(plan.layout)
        self._animated = AnimatedRows(plan, loop=loop)
        self._last_ns: int | None = None

    def step(self, time_ns: int, commands: Commands) -> State:
        seconds = 0.0 if self._last_ns is None else (time_ns - self._last_ns) * _SECONDS
        self._last_ns = time_ns
        if not commands.silent and commands.has_effort and _any_number(commands.joint_effort):
            self._report(
                "kinematic.effort", "effort commands are ignored: the kinematic backend has no forces"
            )
        self._joints.step(seconds, commands, self._state)
        if self._animated and not commands.silent and commands.has_bodies:
            for rows in (commands.body_pose, commands.body_twist):
                self._animated.release(_commanded(rows), self._state)
        self._bodies.step(seconds, commands, self._state)
        self._animated.show_at(self._state, time_ns)
        self._state.time_ns = time_ns
        return self._state

    def take_over(self, other: _Model, common: CommonRows, old_layout: Layout) -> None:
        state, old = self._state, other._state
        state.time_ns, self._last_ns = old.time_ns, other._last_ns
        for name in ("joint_position", "joint_velocity"):
            carry(getattr(state, name), common.dofs, getattr(old, name), common.old_dofs)
        assert state.body_twist is not None
        assert old.body_twist is not None
        # What was never moved stands where the asset says that it does now.
        stays = (old.body_pose == old_layout.body_pose).all(axis=-1)[common.old_bodies]
        moved, old_moved = common.bodies[~stays], common.old_bodies[~stays]
        carry(state.body_pose, moved, old.body_pose, old_moved)
        carry(state.body_twist, moved, old.body_twist, old_moved)
        self._joints.take_over(other._joints, common, state)
        self._bodies.take_over(other._bodies, common, state)
        self._animated.take_over(other._animated)


class _Joints:
    """Targets of all degrees of freedom, and how they are approached.

    A fleet of them costs little more than one, so what is spared here is calls: a tick of an arm that follows a
    trajectory spends more on those than on all else.
    """

    def __init__(self, plan: BridgePlan) -> None:
        layout = plan.layout
        count = len(layout.dofs)
        self._lower, self._upper = layout.lower, layout.upper
        self._max_velocity = np.where(layout.max_velocity > 0.0, layout.max_velocity, np.inf)
        unlimited = np.isinf(self._max_velocity)
        self._reach_at_once = np.where(unlimited, np.inf, 0.0)
        self._bounded = bool(np.isfinite(self._lower).any() or np.isfinite(self._upper).any())
        self._limited = not unlimited.all()
        self._followers = MimicRules(plan).followers()
        self._target = np.full(count, np.nan)
        self._targeted = np.zeros(count, dtype=bool)
        self._all_targeted = False
        self._velocity = np.full(count, np.nan)
        self._any_velocity = False
        self._moving = False

    def follow(self, state: State) -> None:
        """Applies the mimic rules to the state at rest."""
        self._followers.follow(state.joint_position, state.joint_velocity)

    def take_over(self, other: _Joints, common: CommonRows, state: State) -> None:
        """Goes on from where others stand, within the limits that hold now."""
        if self._bounded:
            _clip(state.joint_position, self._lower, self._upper)
        carry(self._target, common.dofs, other._target, common.old_dofs)
        carry(self._velocity, common.dofs, other._velocity, common.old_dofs)
        if self._bounded:
            _clip(self._target, self._lower, self._upper)
        self._targeted[common.dofs] = other._targeted[common.old_dofs]
        self._all_targeted = bool(self._targeted.size and self._targeted.all())
        self._any_velocity = _any_number(self._velocity)
        self._moving = True
        self.follow(state)

    def step(self, seconds: float, commands: Commands, state: State) -> None:
        if not commands.silent:
            self._take(commands)
        if not self._moving:
            return
        before = state.joint_position
        after = self._target if self._all_targeted else np.where(self._targeted, self._target, before)
        moved = after - before
        if self._limited:
            reach = self._max_velocity * seconds if seconds > 0.0 else self._reach_at_once
            near = np.abs(moved) <= reach
            if not _all(near):
                # The target itself where it is within reach: adding the distance would miss it by a rounding error.
                _clip(moved, -reach, reach)
                after = np.where(near, after, before + moved)
                moved = after - before
        if self._any_velocity:
            after = self._integrate(before, after, seconds)
            moved = after - before
        state.joint_position[:] = after
        if seconds > 0.0:
            np.divide(moved, seconds, out=state.joint_velocity)
        self._followers.follow(state.joint_position, state.joint_velocity)
        # One step more than the motion itself takes: its velocity must come back to zero.
        self._moving = self._any_velocity or _any(moved)

    def _take(self, commands: Commands) -> None:
        # A number that equals itself is none of NaN.
        given = commands.joint_position == commands.joint_position
        if _any(given):
            self._moving = True
            np.copyto(self._target, commands.joint_position, where=given)
            if not self._all_targeted:
                self._targeted |= given
                self._all_targeted = _all(self._targeted)
            if self._bounded:
                _clip(self._target, self._lower, self._upper)
            if self._any_velocity:
                np.copyto(self._velocity, np.nan, where=given)
                self._any_velocity = _any_number(self._velocity)
        if not _all(given):
            self._take_velocity(commands.joint_velocity, given)

    def _take_velocity(self, commanded: FloatArray, placed: NDArray[np.bool_]) -> None:
        """Takes the velocities of joints that no position is given for."""
        given = (commanded == commanded) & ~placed
        if not _any(given):
            return
        self._moving = self._any_velocity = True
        np.copyto(self._velocity, commanded, where=given)
        if self._limited:
            _clip(self._velocity, -self._max_velocity, self._max_velocity)
        self._targeted &= ~given
        self._all_targeted = False

    def _integrate(self, before: FloatArray, after: FloatArray, seconds: float) -> FloatArray:
        """Moves joints with velocity targets, up to their limits; one that starts outside may only come back."""
        moved = before + self._velocity * seconds
        if self._bounded:
            _clip(moved, np.minimum(self._lower, before), np.maximum(self._upper, before))
        return np.where(moved == moved, moved, after)


def _clip(values: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Brings values within limits, in place; NaN stays. np.clip takes three times as long for a few."""
    np.maximum(values, lower, out=values)
    np.minimum(values, upper, out=values)


def _any_number(values: FloatArray) -> bool:
    return _any(values == values)


def _any(values: NDArray[np.generic]) -> bool:
    """Returns whether any differs from zero. For a few, any() and all() of numpy take five times as long."""
    return bool(np.count_nonzero(values))


def _all(values: NDArray[np.generic]) -> bool:
    return bool(np.count_nonzero(values) == values.size)


class _Bodies:
    """Twists that bodies hold, and jumps."""

    def __init__(self, layout: Layout) -> None:
        self._twist = np.zeros((len(layout.bodies), 6))
        self._rows = np.zeros(0, dtype=np.intp)

    def take_over(self, other: _Bodies, common: CommonRows, state: State) -> None:
        """Goes on as others move."""
        carry(self._twist, common.bodies, other._twist, common.old_bodies)
        assert state.body_twist is not None
        self._rows = np.flatnonzero(self._twist.any(axis=-1) | state.body_twist.any(axis=-1))

    def step(self, seconds: float, commands: Commands, state: State) -> None:
        if not commands.silent and commands.has_bodies:
            self._take(commands, state)
        if self._rows.size:
            self._move(seconds, state)

    def _take(self, commands: Commands, state: State) -> None:
        jumps = _commanded(commands.body_pose)
        if jumps.size:
            state.body_pose[jumps, :3] = commands.body_pose[jumps, :3]
            state.body_pose[jumps, 3:] = normalized(commands.body_pose[jumps, 3:])
        twists = _commanded(commands.body_twist)
        if twists.size:
            self._twist[twists] = commands.body_twist[twists]
            # Bodies that were told to stop stay in: their velocity has yet to be shown as zero.
            assert state.body_twist is not None
            self._rows = np.flatnonzero(self._twist.any(axis=-1) | state.body_twist.any(axis=-1))

    def _move(self, seconds: float, state: State) -> None:
        rows, twist = self._rows, self._twist[self._rows]
        pose = compose(state.body_pose[rows], twist_exponential(twist * seconds))
        pose[:, 3:] = normalized(pose[:, 3:])
        state.body_pose[rows] = pose
        assert state.body_twist is not None
        state.body_twist[rows, :3] = rotate(pose[:, 3:], twist[:, :3])
        state.body_twist[rows, 3:] = rotate(pose[:, 3:], twist[:, 3:])


def _commanded(rows: FloatArray) -> NDArray[np.intp]:
    """Returns the indices of rows that are complete; one column tells nearly all that are not, at once."""
    first = rows[:, 0]
    known = first == first
    if not _any(known):
        return _NONE
    candidates = np.flatnonzero(known)
    return candidates[~np.isnan(rows[candidates]).any(axis=-1)]
