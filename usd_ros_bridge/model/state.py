"""State and commands: the numbers that move, as numpy arrays in SI units, which row is what, and time samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

_NAN: Final = float("nan")
_NOTHING: Final = np.array(_NAN)


def _empty(*shape: int) -> FloatArray:
    return np.zeros(shape)


def read_only(array: FloatArray) -> FloatArray:
    """Return a view of an array through which nobody can write."""
    view: FloatArray = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Which row of the state's arrays is which body and which degree of freedom. Fixed for the life of a plan.

    Bodies are the rigid bodies of the plan and the time-sampled Xforms that carry a frame or an interface.

    Attributes:
        bodies: B prim paths.
        dofs: D names, unique within a robot only.
        dof_joints: D prim paths of the joints that the degrees of freedom belong to.
        body_pose: (B, 7) `world_from_body` at rest.
        joint_position: (D,) positions at rest, rad or m.
        lower: (D,) limits, -inf where there is none.
        upper: (D,) limits, inf where there is none.
        max_velocity: (D,) rad/s or m/s, inf where there is none.
        kinematic: (B,) bool, bodies that are moved and not driven (physics:kinematicEnabled, animated Xforms).
    """

    bodies: tuple[str, ...] = ()
    dofs: tuple[str, ...] = ()
    dof_joints: tuple[str, ...] = ()
    body_pose: FloatArray = field(default_factory=lambda: _empty(0, 7))
    joint_position: FloatArray = field(default_factory=lambda: _empty(0))
    lower: FloatArray = field(default_factory=lambda: _empty(0))
    upper: FloatArray = field(default_factory=lambda: _empty(0))
    max_velocity: FloatArray = field(default_factory=lambda: _empty(0))
    kinematic: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    body_index: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_index", {path: row for row, path in enumerate(self.bodies)})


@dataclass(slots=True, kw_only=True, eq=False)
class State:
    """State that a backend measures. Arrays belong to the backend; readers neither keep nor change them.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds.
        joint_position: (D,) rad or m.
        joint_velocity: (D,) rad/s or m/s; NaN where unknown.
        joint_effort: (D,) N m or N; NaN where unknown.
        body_pose: (B, 7) `world_from_body`, x y z, quaternion x y z w. Rows that the robot's joints determine may be
            stale where the backend's capabilities say `joint_driven`: the runtime computes those.
        body_twist: (B, 6) linear then angular velocity of the body's origin in the world frame, or None: the
            runtime differentiates poses.
        robot_time_ns: (R,) time of each robot's state where they differ (states that arrive by topic), -1 where
            the robot has no state yet: its moving parts are then not shown. None: `time_ns` holds for all.
    """

    time_ns: int
    joint_position: FloatArray
    joint_velocity: FloatArray
    joint_effort: FloatArray
    body_pose: FloatArray
    body_twist: FloatArray | None = None
    robot_time_ns: NDArray[np.int64] | None = None

    @classmethod
    def initial(cls, layout: Layout) -> State:
        """Return the authored state of a layout in new arrays: velocities are zero, efforts are unknown."""
        dofs = len(layout.dofs)
        return cls(
            time_ns=0,
            joint_position=layout.joint_position.astype(np.float64, copy=True),
            joint_velocity=np.zeros(dofs),
            joint_effort=np.full(dofs, np.nan),
            body_pose=layout.body_pose.astype(np.float64, copy=True),
            body_twist=np.zeros((len(layout.bodies), 6)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepCommands:
    """Commands of the step to come, for `Bridge.before_step`. NaN commands nothing: the last command holds.

    The arrays are read-only, and valid during the callback: copy what you keep.

    Attributes:
        joint_position: (D,) targets, rad or m.
        joint_velocity: (D,) targets, rad/s or m/s.
        joint_effort: (D,) feed-forward efforts, N m or N.
        actuator_control: (A,) controls of the actuators of the plan's physics, each in its own unit.
        body_twist: (B, 6) linear then angular velocity in the body's own frame.
        body_pose: (B, 7) `world_from_body` to jump to.
    """

    joint_position: FloatArray
    joint_velocity: FloatArray
    joint_effort: FloatArray
    actuator_control: FloatArray
    body_twist: FloatArray
    body_pose: FloatArray


class Commands:
    """Commands of the next step. NaN commands nothing: the last command holds.

    Reading the property of an array counts as writing. Arrays that were not read are neither searched nor cleared: the
    first read after `clear` fills them with NaN. So read the property in each tick, and do not keep the array.

    Attributes:
        joint_position: (D,) targets, rad or m.
        joint_velocity: (D,) targets, rad/s or m/s.
        joint_effort: (D,) feed-forward efforts, N m or N.
        actuator_control: (A,) controls of the actuators of the plan's physics, each in its own unit.
        body_twist: (B, 6) linear then angular velocity in the body's own frame (geometry_msgs/Twist of a base).
        body_pose: (B, 7) `world_from_body` to jump to.
        silent: Everything is NaN, and a backend can skip it. Only the runtime sets this; False means unknown.
        has_position: `joint_position` may hold a number: it was read since the last `clear`.
        has_velocity: `joint_velocity` may, likewise.
        has_effort: `joint_effort` may, likewise.
        has_controls: `actuator_control` may, likewise.
        has_bodies: `body_twist` or `body_pose` may, likewise.
    """

    __slots__ = (
        "_actuator_control",
        "_body_pose",
        "_body_twist",
        "_joint_effort",
        "_joint_position",
        "_joint_velocity",
        "has_bodies",
        "has_controls",
        "has_effort",
        "has_position",
        "has_velocity",
        "silent",
    )

    def __init__(self, layout: Layout, *, actuators: int = 0) -> None:
        """Command nothing.

        Args:
            layout: The plan's.
            actuators: A, the number of actuators of the plan's physics.
        """
        dofs, bodies = len(layout.dofs), len(layout.bodies)
        self._joint_position = np.empty(dofs)
        self._joint_velocity = np.empty(dofs)
        self._joint_effort = np.empty(dofs)
        self._body_twist = np.empty((bodies, 6))
        self._body_pose = np.empty((bodies, 7))
        self._actuator_control = np.empty(actuators)
        self.has_position = self.has_velocity = self.has_effort = False
        self.has_controls = self.has_bodies = self.silent = False

    @property
    def joint_position(self) -> FloatArray:
        """(D,) targets, rad or m."""
        if not self.has_position:
            self.has_position = True
            self._joint_position.fill(_NAN)
        return self._joint_position

    @property
    def joint_velocity(self) -> FloatArray:
        """(D,) targets, rad/s or m/s."""
        if not self.has_velocity:
            self.has_velocity = True
            self._joint_velocity.fill(_NAN)
        return self._joint_velocity

    @property
    def joint_effort(self) -> FloatArray:
        """(D,) feed-forward efforts, N m or N."""
        if not self.has_effort:
            self.has_effort = True
            self._joint_effort.fill(_NAN)
        return self._joint_effort

    @property
    def actuator_control(self) -> FloatArray:
        """(A,) controls of the actuators of the plan's physics, each in its own unit."""
        if not self.has_controls:
            self.has_controls = True
            self._actuator_control.fill(_NAN)
        return self._actuator_control

    @property
    def body_twist(self) -> FloatArray:
        """(B, 6) linear then angular velocity in the body's own frame (geometry_msgs/Twist of a base)."""
        if not self.has_bodies:
            self._clear_bodies()
        return self._body_twist

    @property
    def body_pose(self) -> FloatArray:
        """(B, 7) `world_from_body` to jump to."""
        if not self.has_bodies:
            self._clear_bodies()
        return self._body_pose

    def clear(self) -> None:
        """Command nothing. Arrays are filled with NaN when they are read."""
        self.has_position = self.has_velocity = self.has_effort = False
        self.has_controls = self.has_bodies = self.silent = False

    def step_commands(self) -> StepCommands:
        """Return read-only arrays of what is commanded. This does not count as reading them."""
        return StepCommands(
            joint_position=_shown(self._joint_position, known=self.has_position),
            joint_velocity=_shown(self._joint_velocity, known=self.has_velocity),
            joint_effort=_shown(self._joint_effort, known=self.has_effort),
            actuator_control=_shown(self._actuator_control, known=self.has_controls),
            body_twist=_shown(self._body_twist, known=self.has_bodies),
            body_pose=_shown(self._body_pose, known=self.has_bodies),
        )

    def _clear_bodies(self) -> None:
        self.has_bodies = True
        self._body_twist.fill(_NAN)
        self._body_pose.fill(_NAN)


def _shown(array: FloatArray, *, known: bool) -> FloatArray:
    """Return an array of commands for reading. Values written before the last `clear` are no commands."""
    return read_only(array) if known else np.broadcast_to(_NOTHING, array.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointStateSample:
    """A decoded sensor_msgs/msg/JointState: a state from outside, or targets by name.

    Attributes:
        stamp_ns: Header stamp, nanoseconds; 0 where none was set.
        names: Joint names.
        position: (len(names),) or (0,).
        velocity: (len(names),) or (0,).
        effort: (len(names),) or (0,).
    """

    stamp_ns: int
    names: tuple[str, ...]
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwistSample:
    """A decoded geometry_msgs/msg/Twist or TwistStamped.

    Attributes:
        stamp_ns: Header stamp, nanoseconds; 0 where none was set.
        twist: (6,) linear m/s then angular rad/s, in the body's own frame.
    """

    stamp_ns: int
    twist: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoseSample:
    """A decoded geometry_msgs/msg/PoseStamped.

    Attributes:
        stamp_ns: Header stamp, nanoseconds; 0 where none was set.
        frame_id: Frame that the pose is given in.
        frame_from_body: (7,) pose.
    """

    stamp_ns: int
    frame_id: str
    frame_from_body: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArraySample:
    """A decoded std_msgs/msg/Float64MultiArray.

    Attributes:
        values: (N,) in the order of the subscription's joints.
    """

    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SensorSample:
    """Measurement of a backend's sensor.

    Attributes:
        prim: Prim path of the sensor.
        stamp_ns: Bridge time of the state that was measured, nanoseconds.
        arrays: Measured arrays by name; the sensor's codec says which and in what units.
    """

    prim: str
    stamp_ns: int
    arrays: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoseTrack:
    """Time samples of a body or animated Xform.

    Attributes:
        row: Layout row of the body.
        time: (T,) seconds (time code over timeCodesPerSecond), increasing.
        world_from_body: (T, 7) poses in the ROS world.
        carrier: Layout row of the nearest body or animated Xform above, which carries it; -1 for the world.
        carrier_from_body: (T, 7) poses in that; None where the world carries it.
    """

    row: int
    time: NDArray[np.float64]
    world_from_body: NDArray[np.float64]
    carrier: int = -1
    carrier_from_body: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointTrack:
    """Time samples of one degree of freedom.

    Attributes:
        row: Layout row of the degree of freedom.
        time: (T,) seconds (time code over timeCodesPerSecond), increasing.
        position: (T,) rad or m.
    """

    row: int
    time: NDArray[np.float64]
    position: NDArray[np.float64]
