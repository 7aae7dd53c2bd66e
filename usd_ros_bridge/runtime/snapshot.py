"""Snapshot: the state of one tick, and what follows from it, computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from usd_ros_bridge.model.change import CommonRows
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import SensorSample, State
from usd_ros_bridge.runtime.body_motion import STILL, BodyMotion, MotionTracker, TimeArray
from usd_ros_bridge.runtime.chains import Chains
from usd_ros_bridge.runtime.frame_poses import WORLD, FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.odometry import Odometry, OdometryTable
from usd_ros_bridge.spatial.scalar import Floats, in_axes
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray

UNKNOWN: FloatArray = np.zeros(0)
"""Stands for numbers that are all unknown."""


class UnknownFilter:
    """Replace arrays that are all NaN by `UNKNOWN`."""

    def __init__(self, count: int) -> None:
        """Store the arguments.

        Args:
            count: Numbers in every array that it is asked about.
        """
        self._nothing = np.full(count, np.nan).tobytes()

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return (count,) `values`, or UNKNOWN."""
        if not values.size or (first := values[0]) == first:
            return values
        # Arrays of np.full are recognized by their bytes, at a fifth of the cost.
        if values.tobytes() == self._nothing or np.isnan(values).all():
            return UNKNOWN
        return values


Sense = Callable[[str], SensorSample | None]
"""`sense(prim)`: the newest sample of the sensor at a prim path."""

_ORIGIN: list[float] = IDENTITY.tolist()
UNKNOWN_NS = -1
"""`robot_time_ns` of a robot of which nothing has been measured yet."""


class Snapshot:
    """The state of one tick and what follows from it. Reused tick by tick: keep neither it nor its arrays.

    Arrays are read-only by convention; quaternions are x y z w, poses (..., 7), everything SI.

    Attributes:
        state: What the backend measured; there from the first `begin` on, as is all that follows from it.
        time_ns: Bridge time of the state, nanoseconds.
        tick: Counts the states that were shown: what follows from a state holds as long as this does not change.
        first_ns: Bridge time of the first state since the start or the last reset, -1 before.
        common_ns: The time of every robot's state; None where they have times of their own: ask `robot_time_ns`.
    """

    state: State
    time_ns: int
    tick: int
    common_ns: int | None

    def __init__(
        self,
        plan: BridgePlan,
        kinematics: Kinematics,
        frames: FrameTable,
        *,
        joint_driven: bool,
        sense: Sense | None = None,
        odometry: OdometryTable | None = None,
        odometry_bases: Sequence[int] = (),
    ) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            kinematics: The plan's kinematics.
            frames: The plan's frames.
            joint_driven: Whether joint positions determine the bodies below joints (Capabilities.joint_driven).
            sense: Returns a sensor's newest sample by its prim path, None while there is none; None where the backend
                serves no sensors.
            odometry: What controllers know of their robots' bases.
            odometry_bases: Rows of bases whose poses are in their odometry frames: these begin where they are.
        """
        self.tick = 0
        self.first_ns = -1
        self._sense = sense
        self._odometry = odometry or OdometryTable()
        self._samples: dict[str, SensorSample | None] = {}
        self._plan = plan
        self._kinematics = kinematics
        self._frames = frames
        self._driven = kinematics.driven if joint_driven else np.zeros_like(kinematics.driven)
        self._any_driven = bool(self._driven.any())
        # Lists: a single number of a numpy array takes as long as ten of them.
        self._is_driven: list[bool] = self._driven.tolist()
        self._body_robot: list[int] = kinematics.body_robot.tolist()
        self._robot_times: list[int] | None = None
        bodies = len(plan.layout.bodies)
        self._shapes = (len(plan.layout.dofs),), (bodies, 7)
        # Arrays that were found to have these.
        self._checked: tuple[FloatArray | None, FloatArray | None] = (None, None)
        self._tracker = MotionTracker(bodies)
        self._tracking = False
        self._chains = Chains(kinematics)
        self._single: dict[int, list[float]] = {}
        self._local_twists: dict[int, Floats] = {}
        self._motions: dict[int, BodyMotion] = {}
        self._start = np.full((bodies, 7), np.nan)
        self._odometry_bases = list(odometry_bases)
        # Rows of it: a list costs a third of a row of an array.
        self._single_start: dict[int, list[float]] = {}
        self._started = np.zeros(bodies, dtype=bool)
        self._all_started = False
        self._known = UnknownFilter(len(plan.layout.dofs))
        self._velocity: FloatArray | None = None
        self._effort: FloatArray | None = None
        self._edge_pose: FloatArray | None = None
        self._body_pose: FloatArray | None = None
        self._frame_pose: FloatArray | None = None

    # --- For the runtime ---------------------------------------------------------------------------------------

    def begin(self, state: State) -> None:
        """Show `state` from here on.

        Raises:
            ValueError: Its arrays do not have the shapes of the plan's layout; the last state stays.
        """
        arrays = state.joint_position, state.body_pose
        # Most backends give the same arrays in every tick.
        if arrays[0] is not self._checked[0] or arrays[1] is not self._checked[1]:
            self._check(state)
            self._checked = arrays
        self.state = state
        self.tick += 1
        self.time_ns = state.time_ns
        if self.first_ns < 0:
            self.first_ns = state.time_ns
        times = state.robot_time_ns
        if times is None:
            self._robot_times, self.common_ns = None, state.time_ns
        else:
            self._robot_times, self.common_ns = times.tolist(), None
        # What followed from the last state.
        self._edge_pose = self._body_pose = self._frame_pose = self._velocity = self._effort = None
        if self._single:
            self._single.clear()
        if self._local_twists:
            self._local_twists.clear()
        if self._samples:
            self._samples.clear()
        if not self._all_started:
            self._store_start()
        if self._tracking:
            self._observe()
        for row, motion in self._motions.items():
            self._observe_motion(row, motion)

    def hold(self, time_ns: int) -> None:
        """Show the last state again, as standing still at `time_ns`; one that came by topic keeps its own time."""
        velocity = np.zeros(len(self._plan.layout.dofs))
        self.begin(replace(self.state, time_ns=time_ns, joint_velocity=velocity, body_twist=None))

    def reset(self) -> None:
        """Drop start poses and velocities, after a reset."""
        self._tracker.clear()
        for motion in self._motions.values():
            motion.clear()
        self.first_ns = -1
        self._started[:] = False
        self._start[:] = np.nan
        self._single_start.clear()
        self._local_twists.clear()
        self._all_started = False

    def transfer_state(self, old: Snapshot, common: CommonRows, *, same_backend: bool) -> None:
        """Continue from the snapshot of the plan before: odometry continues from where bodies started.

        Args:
            old: Snapshot of the plan before.
            common: Rows that the two plans have in common.
            same_backend: Whether the backend stays: then layouts are the same, and the old state is used, too.
        """
        self.tick = old.tick
        self._start[common.bodies] = old._start[common.old_bodies]
        self._single_start.clear()
        self._started[common.bodies] = old._started[common.old_bodies]
        if same_backend:
            self._tracker, self._tracking, self._motions = old._tracker, old._tracking, old._motions
            if hasattr(old, "state"):
                self.begin(old.state)

    def set_plan(self, plan: BridgePlan) -> None:
        """Use a plan in which nothing differs that is computed here."""
        self._plan = plan

    # --- For emitters ------------------------------------------------------------------------------------------

    @property
    def plan(self) -> BridgePlan:
        """The plan."""
        return self._plan

    @property
    def is_tracked(self) -> bool:
        """Return whether every state counts: velocities are differentiated, or a start pose is still unknown."""
        return self._tracking or bool(self._motions) or not self._all_started

    def robot_time_ns(self, robot: int) -> int:
        """Return the time of a robot's state, nanoseconds; -1 while nothing is known of it.

        Args:
            robot: Index in BridgePlan.robots; -1 (no robot) has the time of the state.
        """
        times = self._robot_times
        return self.time_ns if times is None or robot < 0 else times[robot]

    @property
    def joint_velocity(self) -> FloatArray:
        """(D,) as in the state, rad/s or m/s; UNKNOWN, which is empty, where the backend measures none."""
        if self._velocity is None:
            self._velocity = self._known(self.state.joint_velocity)
        return self._velocity

    @property
    def joint_effort(self) -> FloatArray:
        """(D,) as in the state, N m or N; UNKNOWN, which is empty, where the backend measures none."""
        if self._effort is None:
            self._effort = self._known(self.state.joint_effort)
        return self._effort

    @property
    def edge_pose(self) -> FloatArray:
        """(E, 7) `parent_from_child` of all edges of all robots."""
        if self._edge_pose is None:
            self._edge_pose = self._kinematics.edge_poses(self.state.joint_position)
        return self._edge_pose

    @property
    def body_pose(self) -> FloatArray:
        """(B, 7) `world_from_body` of all bodies, those below joints included."""
        if self._body_pose is None:
            if self._any_driven:
                self._body_pose = self._kinematics.body_poses(self.state, self.edge_pose)
            else:
                self._body_pose = self.state.body_pose
        return self._body_pose

    @property
    def body_twist(self) -> FloatArray:
        """(B, 6) linear then angular velocity of each body's origin in the world frame, m/s and rad/s.

        From the state where the backend measures it (rows that joint positions determine excepted), else
        differentiated between ticks: zeros at the first tick after it was first asked for.
        """
        self._track()
        return self._tracker.twist

    @property
    def body_acceleration(self) -> FloatArray:
        """(B, 6) linear then angular acceleration of each body's origin in the world frame, gravity left out.

        Differentiated between ticks: zeros at the first two ticks after it was first asked for.
        """
        self._track()
        return self._tracker.acceleration

    def pose(self, row: int) -> FloatArray:
        """Return `world_from_body` (7,) of one body."""
        return np.array(self.body(row))

    def body(self, row: int) -> list[float]:
        """Return `world_from_body` of one body as 7 floats, without computing others than those that carry it.

        Args:
            row: Row of the body in the layout, or WORLD; as for `twist`, `local_twist` and `acceleration`.
        """
        pose = self._single.get(row)
        if pose is None:
            if row == WORLD:
                return _ORIGIN
            pose = self._single[row] = self._find_body(row)
        return pose

    def twist(self, row: int) -> Floats:
        """Return the twist of one body as 6 floats, as in `body_twist`."""
        motion = self._motions.get(row)
        if motion is None:
            if row == WORLD:
                return STILL
            measured = self._measured_twist(row)
            # NaN where any is; three times as fast as numpy for six numbers.
            if measured is not None and not isnan(sum(measured)):
                return measured
            motion = self._motion(row)
        return motion.twist

    def local_twist(self, row: int) -> Floats:
        """Return the twist of one body in its own axes as 6 floats: computed once, for all messages that show it."""
        twist = self._local_twists.get(row)
        if twist is None:
            twist = self._local_twists[row] = in_axes(self.body(row)[3:], self.twist(row))
        return twist

    def acceleration(self, row: int) -> Floats:
        """Return the acceleration of one body as 6 floats, as in `body_acceleration`."""
        motion = self._motions.get(row)
        if motion is None:
            if row == WORLD:
                return STILL
            motion = self._motion(row)
        return motion.acceleration

    def start_pose(self, row: int) -> list[float]:
        """Return `world_from_body` of one body at the first state after opening or a reset: where odometry starts.

        Returns:
            7 floats, NaN before that state.
        """
        pose = self._single_start.get(row)
        if pose is None:
            pose = self._single_start[row] = self._start[row].tolist()
        return pose

    @property
    def start_poses(self) -> FloatArray:
        """(B, 7) `world_from_body` at the first state after opening or a reset, NaN before."""
        return self._start

    def odometry(self, robot: int) -> Odometry | None:
        """Return the odometry of a robot's controller; None without one: then its true motion counts.

        Args:
            robot: Index in BridgePlan.robots.
        """
        return self._odometry.of(robot, self.tick)

    @property
    def odometry_of_all(self) -> tuple[FloatArray, FloatArray]:
        """Poses (R, 7) and twists (R, 6) as `odometry` by robot; rows begin with NaN where there is nothing to show."""
        return self._odometry.of_all(self.tick, len(self._plan.robots))

    @property
    def all_frame_poses(self) -> FloatArray:
        """(F, 7) `parent_from_frame` of the moving frames of all robots, as FrameTable orders them."""
        if self._frame_pose is None:
            self._frame_pose = self._frames.evaluate(self)
        return self._frame_pose

    @property
    def frames_finite(self) -> bool:
        """Return whether all of `all_frame_poses` is known to be finite."""
        if self._frame_pose is None:
            self._frame_pose = self._frames.evaluate(self)
        return self._frames.finite

    def frame_poses(self, robot: int) -> FloatArray:
        """Return (F, 7) `parent_from_frame` of a robot's moving frames, in the order of `RobotFrames.moving`.

        Rows are NaN if a backend's numbers are: they are not sent to /tf.
        """
        if self._frame_pose is None:
            self._frame_pose = self._frames.evaluate(self)
        return self._frames.robot_poses[robot]

    def moving_frames(self, robot: int) -> tuple[int, ...]:
        """Return the indices in RobotPlan.frames of the rows of `frame_poses`."""
        return self._frames.robots[robot].moving

    def frame_pose(self, robot: int, frame: str) -> FloatArray | None:
        """Return `world_from_frame` (7,) of a frame of a robot by its id, None where there is none."""
        return self._frames.world_from_frame(self, robot, frame)

    def sense(self, prim: str) -> SensorSample | None:
        """Return what the sensor at a prim path measured last, None where there is nothing.

        The backend is asked at most once per sensor and tick, and only for sensors that someone asks for.
        """
        if self._sense is None:
            return None
        if prim not in self._samples:
            self._samples[prim] = self._sense(prim)
        return self._samples[prim]

    # --- Own ---------------------------------------------------------------------------------------------------

    def _check(self, state: State) -> None:
        if (state.joint_position.shape, state.body_pose.shape) != self._shapes:
            dofs, bodies = self._shapes
            raise ValueError(
                f"joint_position {state.joint_position.shape} and body_pose {state.body_pose.shape} must be "
                f"{dofs} and {bodies}"
            )

    def _find_body(self, row: int) -> list[float]:
        state = self.state
        if self._is_driven[row] and self._body_pose is None:
            return self._chains.pose(row, self.edge_pose, state.body_pose, self._single)
        poses = state.body_pose if self._body_pose is None else self._body_pose
        pose: list[float] = poses[row].tolist()
        return pose

    def _measured_twist(self, row: int) -> list[float] | None:
        twist = self.state.body_twist
        if twist is None or self._is_driven[row]:
            return None
        measured: list[float] = twist[row].tolist()
        return measured

    def _motion(self, row: int) -> BodyMotion:
        """Return how a body moves; from the first time on that it is asked for, every state counts."""
        motion = self._motions.get(row)
        if motion is None:
            motion = self._motions[row] = BodyMotion()
            self._observe_motion(row, motion)
        return motion

    def _observe_motion(self, row: int, motion: BodyMotion) -> None:
        time_ns = self.time_ns if self._robot_times is None else self.robot_time_ns(self._body_robot[row])
        motion.observe(time_ns, self._single.get(row) or self.body(row), self._measured_twist(row))

    def _body_time(self) -> TimeArray:
        """Return (B,) the time of each body's state."""
        state = self.state
        time = np.full(len(self._plan.layout.bodies), state.time_ns, dtype=np.int64)
        if state.robot_time_ns is not None:
            owned = self._kinematics.body_robot >= 0
            time[owned] = state.robot_time_ns[self._kinematics.body_robot[owned]]
        return time

    def _store_start(self) -> None:
        fresh = ~self._started & (self._body_time() >= 0)
        if fresh.any():
            self._start[fresh] = self.body_pose[fresh]
            if self._odometry_bases:
                self._start[self._odometry_bases] = IDENTITY
            self._single_start.clear()
            self._started |= fresh
        self._all_started = bool(self._started.all())

    def _track(self) -> None:
        if not self._tracking:
            self._tracking = True
            self._observe()

    def _observe(self) -> None:
        measured = self.state.body_twist
        if measured is not None and self._any_driven:
            measured = np.where(self._driven[:, None], np.nan, measured)
        self._tracker.observe(self._body_time(), self.body_pose, measured)
