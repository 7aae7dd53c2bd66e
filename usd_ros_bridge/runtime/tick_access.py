"""The tick as other threads see it: the state of the last one, and joint commands for the next one.

Nothing of this costs a tick anything while nobody uses it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.joint_commands import PositionLimits
from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, quoted
from usd_ros_bridge.model.controller_schemas import CommandInterface
from usd_ros_bridge.model.plan import BridgePlan, followers_of
from usd_ros_bridge.model.state import Layout, State
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray

IDLE_S: Final = 1.0
"""Seconds without a reader after which ticks copy their state no more."""
_POLL_S: Final = 2e-3
"""Seconds between two checks whether ticks run at all."""


class JointRows:
    """Rows of degrees of freedom by the names that people use: joint names and prim paths."""

    def __init__(self, plan: BridgePlan) -> None:
        """Index the joints of a plan."""
        self.plan = plan
        self._robots = [each.path for each in plan.robots]
        self._by_robot: list[dict[str, int]] = []
        self._all: dict[str, list[int]] = {}
        for robot in plan.robots:
            rows: dict[str, int] = {}
            for joint in robot.joints:
                for dof in joint.dofs:
                    rows[plan.layout.dofs[dof.row]] = dof.row
                if len(joint.dofs) == 1:
                    rows.setdefault(joint.path, joint.dofs[0].row)
            self._by_robot.append(rows)
            for name, row in rows.items():
                self._all.setdefault(name, []).append(row)

    def find(self, name: str, robot: str = "") -> int:
        """Return the row of a degree of freedom.

        Args:
            name: Name in joint_states, or the prim path of a joint.
            robot: Prim path of its robot; "": the only one that has such a joint.

        Raises:
            BridgeError: There is no such joint or robot, or several robots have one; the message lists what there is.
        """
        if robot:
            if robot not in self._robots:
                raise BridgeError(f"there is no robot {quoted(robot)}; {alternatives(robot, self._robots)}")
            rows = self._by_robot[self._robots.index(robot)]
            if name not in rows:
                raise BridgeError(f"{robot} has no joint {quoted(name)}; {alternatives(name, _names(rows))}")
            return rows[name]
        found = self._all.get(name, ())
        if not found:
            raise BridgeError(f"there is no joint {quoted(name)}; {alternatives(name, _names(self._all))}")
        if len(found) > 1:
            raise BridgeError(f"{len(found)} robots have a joint {quoted(name)}: name one of them by `robot`")
        return found[0]


def _names(rows: Iterable[str]) -> list[str]:
    """Return the joint names of an index, without the paths."""
    return [name for name in rows if not name.startswith("/")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TickState:
    """The state of one tick: all numbers are of the same moment. A copy, which never changes.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds.
        layout: Which row is what.
        joint_position: (D,) rad or m.
        joint_velocity: (D,) rad/s or m/s; NaN where unknown.
        joint_effort: (D,) N m or N; NaN where unknown.
        body_pose: (B, 7) `world_from_body`, x y z, quaternion x y z w.
        body_twist: (B, 6) linear then angular velocity of the body's origin in the world; None if the backend does not
            measure it.
        robot_time_ns: (R,) time of each robot's state where they differ; None: `time_ns` holds for all.
        joints: Rows of joints by name.
    """

    time_ns: int
    layout: Layout
    joint_position: FloatArray
    joint_velocity: FloatArray
    joint_effort: FloatArray
    body_pose: FloatArray
    body_twist: FloatArray | None
    robot_time_ns: NDArray[np.int64] | None
    joints: JointRows

    def position(self, joint: str, *, robot: str = "") -> float:
        """Return the position of a joint, rad or m; arguments and errors as those of `JointRows.find`."""
        return float(self.joint_position[self.joints.find(joint, robot)])

    def velocity(self, joint: str, *, robot: str = "") -> float:
        """Return the velocity of a joint, rad/s or m/s; NaN if unknown."""
        return float(self.joint_velocity[self.joints.find(joint, robot)])

    def effort(self, joint: str, *, robot: str = "") -> float:
        """Return the effort of a joint, N m or N; NaN if unknown."""
        return float(self.joint_effort[self.joints.find(joint, robot)])

    def pose(self, body: str) -> FloatArray:
        """Return `world_from_body` (7,) of a body, by its prim path.

        Raises:
            BridgeError: There is no such body.
        """
        row = self.layout.body_index.get(body)
        if row is None:
            raise BridgeError(f"there is no body {quoted(body)}; {alternatives(body, self.layout.bodies)}")
        pose: FloatArray = self.body_pose[row]
        return pose


class StateBuffer(Publication):
    """Copy the state in each tick as long as somebody reads it. `read` is thread-safe."""

    __slots__ = ("_added", "_joints", "_latest", "_read_at", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        """Store the arguments; the first `read` begins.

        Args:
            runtime: Open.
        """
        super().__init__()
        self._runtime = runtime
        self._latest: TickState | None = None
        self._joints = JointRows(runtime.plan)
        self._read_at = 0.0
        self._added: Future[None] | None = None

    def read(self) -> TickState:
        """Return the state of the last tick that has ended; within a tick, what that has so far.

        The first call after a pause waits for the end of the tick in progress.

        Raises:
            BridgeError: The bridge is closed.
        """
        self._read_at = time.monotonic()
        latest = self._latest
        return latest if latest is not None else self._begin()

    def publish(self, snapshot: Snapshot) -> bool:
        """Copy the state of this tick. See `Publication.publish`."""
        self._latest = self._copy(snapshot)
        if time.monotonic() - self._read_at > IDLE_S:
            # Not at once: publications are being published.
            self._runtime.post(self._end)
        return False

    def reset(self) -> None:
        """Drop the state: time starts over."""
        self._latest = None

    def _begin(self) -> TickState:
        runtime = self._runtime
        if runtime.ticking == threading.get_ident():
            return self._copy(runtime.snapshot)
        added = self._added
        if added is None or added.done():
            added = self._added = runtime.tick_queue.submit(self._add)
        while not added.done():
            wait((added,), timeout=_POLL_S)
            # A host may step rarely: between its ticks, nothing changes.
            if not added.done() and runtime.ticking is None and runtime.lock.acquire(blocking=False):
                try:
                    if runtime.ticking is None and not runtime.stopped:
                        return self._copy(runtime.snapshot)
                finally:
                    runtime.lock.release()
        added.result()
        return self._latest or self._copy(runtime.snapshot)

    def _add(self) -> None:
        """Begin to copy; in the tick thread, between two ticks."""
        self._latest = self._copy(self._runtime.snapshot)
        if not self.is_added:
            self._runtime.add_publication(self, name="state for handlers")

    def _end(self) -> None:
        """Copy no more, unless somebody reads again."""
        if time.monotonic() - self._read_at > IDLE_S:
            self._runtime.remove_publication(self)
            self._latest = None

    def _copy(self, snapshot: Snapshot) -> TickState:
        plan = snapshot.plan
        if self._joints.plan is not plan:
            self._joints = JointRows(plan)
        if snapshot.tick:
            state, poses = snapshot.state, snapshot.body_pose
        else:
            state = State.initial(plan.layout)
            state.time_ns, poses = self._runtime.now_ns, state.body_pose
        return TickState(
            time_ns=state.time_ns,
            layout=plan.layout,
            joint_position=_fixed(state.joint_position),
            joint_velocity=_fixed(state.joint_velocity),
            joint_effort=_fixed(state.joint_effort),
            body_pose=_fixed(poses),
            body_twist=None if state.body_twist is None else _fixed(state.body_twist),
            robot_time_ns=None if state.robot_time_ns is None else state.robot_time_ns.copy(),
            joints=self._joints,
        )


class JointCommandWriter:
    """Command joints by name, at the next tick. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        """Store the arguments.

        Args:
            runtime: Open.
        """
        self._runtime = runtime
        self._joints = JointRows(runtime.plan)

    def set_position(self, targets: Mapping[str, float], *, robot: str = "") -> None:
        """Set target positions, rad or m. Those beyond a limit are clamped, and reported.

        Args:
            targets: By name in joint_states, or prim path of the joint. A target holds until the next one.
            robot: Prim path of the robot; "": the only one that has such joints.

        Raises:
            BridgeError: A joint is unknown or cannot be moved so, a target is not finite, or the backend takes no
                commands. Then none is set.
        """
        self._set("position", targets, robot)

    def set_velocity(self, targets: Mapping[str, float], *, robot: str = "") -> None:
        """Set target velocities, rad/s or m/s; as `set_position`."""
        self._set("velocity", targets, robot)

    def set_effort(self, targets: Mapping[str, float], *, robot: str = "") -> None:
        """Set efforts, N m or N; as `set_position`."""
        self._set("effort", targets, robot)

    def _set(self, interface: CommandInterface, targets: Mapping[str, float], robot: str) -> None:
        plan = self._runtime.plan
        if self._joints.plan is not plan:
            self._joints = JointRows(plan)
        joints = self._joints
        rows = [joints.find(name, robot) for name in targets]
        self._check(plan, interface, dict(zip(targets, rows, strict=True)))
        values = np.array([float(each) for each in targets.values()])
        if not np.isfinite(values).all():
            wrong = next(name for name, value in targets.items() if not np.isfinite(value))
            raise OptionError(f"the {interface} of joint {quoted(wrong)} is not finite")
        if interface == "position":
            limits = PositionLimits(plan, rows, list(targets))
            values = limits.clamp_command(values, "a handler", self._runtime.reporter.report)
        self._runtime.post(lambda: self._write(interface, joints, rows, values))

    def _check(self, plan: BridgePlan, interface: CommandInterface, rows: Mapping[str, int]) -> None:
        capabilities = self._runtime.capabilities
        if not capabilities.commands:
            raise BridgeError("the backend takes no commands")
        followers = followers_of(plan)
        for name, row in rows.items():
            if row in followers:
                raise BridgeError(f"joint {quoted(name)} follows another joint: it cannot be commanded")
            for each in capabilities.unmoved.get(interface, ()):
                if row in each.rows:
                    raise BridgeError(f"joint {quoted(name)} cannot be moved by {interface}: {each.reason}")

    def _write(
        self, interface: CommandInterface, joints: JointRows, rows: list[int], values: FloatArray
    ) -> None:
        """Write the commands; in the tick. Those for a plan that has changed meanwhile are dropped."""
        runtime = self._runtime
        if runtime.plan is joints.plan:
            target: FloatArray = getattr(runtime.commands, f"joint_{interface}")
            target[rows] = values


def _fixed(values: FloatArray) -> FloatArray:
    copied = np.array(values, dtype=np.float64)
    copied.flags.writeable = False
    return copied
