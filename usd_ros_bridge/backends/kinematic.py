"""The kinematic backend: commands move joints and bases directly, without forces."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.backend_options import option_parsers
from usd_ros_bridge.backends.base import (
    BackendContext,
    Capabilities,
    InputlessBackend,
    option_value,
    parse_options,
)
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.model.change import CommonRows, common_rows
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, Layout, State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, compose, normalized, rotate, twist_exponential


@dataclass(frozen=True, slots=True, eq=False)
class Followers:
    """Mimic rules with resolved leaders: `position[rows] = multipliers * position[leaders] + offsets`."""

    rows: NDArray[np.intp]
    leaders: NDArray[np.intp]
    multipliers: FloatArray
    offsets: FloatArray

    def apply(self, position: FloatArray, velocity: FloatArray) -> None:
        """Write positions and velocities of the followers, in place."""
        if self.rows.size:
            position[self.rows] = self.multipliers * position[self.leaders] + self.offsets
            velocity[self.rows] = self.multipliers * velocity[self.leaders]


class MimicRules:
    """Mimic rules of all robots. A joint in a circular chain has no rule; planning reports it."""

    def __init__(self, plan: BridgePlan) -> None:
        self._rules = {
            dof.row: dof.mimic
            for robot in plan.robots
            for joint in robot.joints
            for dof in joint.dofs
            if dof.mimic is not None
        }

    def resolve(self, followers: Collection[int], known: Set[int]) -> dict[int, tuple[int, float, float]]:
        """Resolve chains: find the first leader of each follower that is in `known` or follows nothing.

        The cost is linear in the number of joints.

        Args:
            followers: Layout rows.
            known: Layout rows with values of their own.

        Returns:
            The leader's row, multiplier and offset, by follower; followers in `known` and circular chains are left out.
        """
        # A row of the current chain has no rule yet: a chain that returns to it is circular.
        found: dict[int, tuple[int, float, float] | None] = {}
        for follower in followers:
            chain = []
            row = follower
            while row in self._rules and row not in known and row not in found:
                found[row] = None
                chain.append(row)
                row = self._rules[row].leader
            above = found.get(row, (row, 1.0, 0.0))
            for step in reversed(chain):
                if above is None:
                    break
                leader, multiplier, offset = above
                rule = self._rules[step]
                above = (leader, rule.multiplier * multiplier, rule.multiplier * offset + rule.offset)
                found[step] = above
        return {row: resolved for row in followers if (resolved := found.get(row)) is not None}

    def followers(self, known: Collection[int] | None = None) -> Followers:
        """Return all followers; with `known`, those outside of it whose leader is in it."""
        given = known if isinstance(known, Set) else frozenset(known or ())
        rules = self.resolve(sorted(self._rules), given)
        entries = [(row, *rule) for row, rule in rules.items() if known is None or rule[0] in given]
        return Followers(
            rows=np.array([entry[0] for entry in entries], dtype=np.intp),
            leaders=np.array([entry[1] for entry in entries], dtype=np.intp),
            multipliers=np.array([entry[2] for entry in entries], dtype=np.float64),
            offsets=np.array([entry[3] for entry in entries], dtype=np.float64),
        )


_SECONDS = 1e-9
_NONE: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class KinematicBackend(InputlessBackend):
    """Move joints and bodies as commanded.

    - A position target is clamped to the limits and reached at the authored maximum velocity, at once where there is
      none, as in ros2_control's mock hardware (mock_components/GenericSystem).
    - A velocity target is clamped to the maximum velocity and integrated up to the limits; it holds until the joint's
      next command. If a command has both, the position counts, as in GenericSystem.
    - Efforts are ignored, and reported once: there are no masses.
    - Mimic joints follow their leaders; commands for them are ignored.
    - The velocity is that of the motion of the last step.
    - A body twist holds until replaced and is integrated exactly (a constant twist makes a perfect arc).
    - Kinematic bodies and Xforms follow their time samples until they are commanded.
    """

    capabilities = Capabilities(kinematic=True, every_step=False)

    def __init__(self) -> None:
        self._context: BackendContext | None = None
        self._loop = True
        self._model: _Model | None = None

    def open(self, context: BackendContext) -> None:
        """Make the initial state of the plan."""
        values = parse_options("kinematic", context.options, option_parsers("kinematic"))
        self._context, self._loop = context, option_value(values, "loop", bool, True)
        self.reset()

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advance by the time since the last step; the first step only sets the time."""
        assert self._model is not None, "the backend is not open"
        return self._model.step(time_ns, commands)

    def reset(self) -> None:
        """Go back to the initial state and forget all targets."""
        assert self._context is not None, "the backend is not open"
        self._model = _Model(self._context.plan, self._context.report, loop=self._loop)

    def close(self) -> None:
        """Free the state."""
        self._context = self._model = None

    def new_instance(self) -> KinematicBackend:
        """Return another backend, not open."""
        return KinematicBackend()

    def transfer_state(self, old: KinematicBackend) -> None:
        """Copy the state of another backend by name: joints, bodies, and their targets."""
        assert self._context is not None, "the backend is not open"
        assert old._context is not None, "the old backend is not open"
        assert self._model is not None
        assert old._model is not None
        plan, old_plan = self._context.plan, old._context.plan
        self._model.transfer_state(old._model, common_rows(plan, old_plan), old_plan.layout)


class _Model:
    """The state and its motion, from the initial state."""

    def __init__(self, plan: BridgePlan, report: Report, *, loop: bool) -> None:
        self._report = report
        self._state = State.initial(plan.layout)
        self._joints = _Joints(plan)
        self._joints.follow(self._state)
        self._bodies = _Bodies(plan.layout)
        self._animated = AnimatedBodies(plan, loop=loop)
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
                self._animated.stop_samples(_commanded(rows), self._state)
        self._bodies.step(seconds, commands, self._state)
        self._animated.update(self._state, time_ns)
        self._state.time_ns = time_ns
        return self._state

    def transfer_state(self, old: _Model, common: CommonRows, old_layout: Layout) -> None:
        state, old_state = self._state, old._state
        state.time_ns, self._last_ns = old_state.time_ns, old._last_ns
        for name in ("joint_position", "joint_velocity"):
            getattr(state, name)[common.dofs] = getattr(old_state, name)[common.old_dofs]
        assert state.body_twist is not None
        assert old_state.body_twist is not None
        # A body that never moved has the pose that the asset authors now.
        stays = (old_state.body_pose == old_layout.body_pose).all(axis=-1)[common.old_bodies]
        moved, old_moved = common.bodies[~stays], common.old_bodies[~stays]
        state.body_pose[moved] = old_state.body_pose[old_moved]
        state.body_twist[moved] = old_state.body_twist[old_moved]
        self._joints.transfer_state(old._joints, common, state)
        self._bodies.transfer_state(old._bodies, common, state)
        self._animated.transfer_state(old._animated)


class _Joints:
    """Targets of all degrees of freedom.

    The cost is numpy calls, not numbers: this class makes as few as possible.
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
        """Apply the mimic rules to the initial state."""
        self._followers.apply(state.joint_position, state.joint_velocity)

    def transfer_state(self, old: _Joints, common: CommonRows, state: State) -> None:
        """Copy the targets of another backend, within the current limits."""
        if self._bounded:
            _clip(state.joint_position, self._lower, self._upper)
        self._target[common.dofs] = old._target[common.old_dofs]
        self._velocity[common.dofs] = old._velocity[common.old_dofs]
        if self._bounded:
            _clip(self._target, self._lower, self._upper)
        self._targeted[common.dofs] = old._targeted[common.old_dofs]
        self._all_targeted = bool(self._targeted.size and self._targeted.all())
        self._any_velocity = _any_number(self._velocity)
        self._moving = True
        self.follow(state)

    def step(self, seconds: float, commands: Commands, state: State) -> None:
        if not commands.silent:
            self._apply(commands)
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
        self._followers.apply(state.joint_position, state.joint_velocity)
        # One step more than the motion: its velocity has to return to zero, which a step without time does not do.
        self._moving = self._any_velocity or _any(moved) or seconds <= 0.0

    def _apply(self, commands: Commands) -> None:
        # NaN does not equal itself.
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
            self._apply_velocity(commands.joint_velocity, given)

    def _apply_velocity(self, commanded: FloatArray, positioned: NDArray[np.bool_]) -> None:
        """Set velocities of joints without a position command."""
        given = (commanded == commanded) & ~positioned
        if not _any(given):
            return
        self._moving = self._any_velocity = True
        np.copyto(self._velocity, commanded, where=given)
        if self._limited:
            _clip(self._velocity, -self._max_velocity, self._max_velocity)
        self._targeted &= ~given
        self._all_targeted = False

    def _integrate(self, before: FloatArray, after: FloatArray, seconds: float) -> FloatArray:
        """Move joints with velocity targets, up to their limits; a joint beyond a limit may only return."""
        moved = before + self._velocity * seconds
        if self._bounded:
            _clip(moved, np.minimum(self._lower, before), np.maximum(self._upper, before))
        return np.where(moved == moved, moved, after)


def _clip(values: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Clamp values in place; NaN stays. np.clip takes three times as long for few values."""
    np.maximum(values, lower, out=values)
    np.minimum(values, upper, out=values)


def _any_number(values: FloatArray) -> bool:
    return _any(values == values)


def _any(values: NDArray[np.generic]) -> bool:
    """Return whether any value is not zero. For few values, numpy's any() and all() take five times as long."""
    return bool(np.count_nonzero(values))


def _all(values: NDArray[np.generic]) -> bool:
    return bool(np.count_nonzero(values) == values.size)


class _Bodies:
    """Twists and poses of bodies."""

    def __init__(self, layout: Layout) -> None:
        self._twist = np.zeros((len(layout.bodies), 6))
        self._rows = np.zeros(0, dtype=np.intp)

    def transfer_state(self, old: _Bodies, common: CommonRows, state: State) -> None:
        """Copy the twists of another backend."""
        self._twist[common.bodies] = old._twist[common.old_bodies]
        assert state.body_twist is not None
        self._rows = np.flatnonzero(self._twist.any(axis=-1) | state.body_twist.any(axis=-1))

    def step(self, seconds: float, commands: Commands, state: State) -> None:
        if not commands.silent and commands.has_bodies:
            self._apply(commands, state)
        if self._rows.size:
            self._move(seconds, state)

    def _apply(self, commands: Commands, state: State) -> None:
        jumps = _commanded(commands.body_pose)
        if jumps.size:
            state.body_pose[jumps, :3] = commands.body_pose[jumps, :3]
            state.body_pose[jumps, 3:] = normalized(commands.body_pose[jumps, 3:])
        twists = _commanded(commands.body_twist)
        if twists.size:
            self._twist[twists] = commands.body_twist[twists]
            # Bodies that stop remain: their velocity has yet to become zero.
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
    """Return the indices of rows without NaN; the first column excludes nearly all others."""
    first = rows[:, 0]
    known = first == first
    if not _any(known):
        return _NONE
    candidates = np.flatnonzero(known)
    return candidates[~np.isnan(rows[candidates]).any(axis=-1)]
