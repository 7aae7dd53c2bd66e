"""The protocol between the bridge and what moves the robot: a simulator, a kinematic model, a topic, a recording.

A backend never sees rclpy. It says what it needs from outside (`BackendInput`), takes `Commands`, gives `State`.
Other distributions register theirs under the entry-point group `usd_ros_bridge.backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, SensorSample, State

ENTRY_POINT_GROUP = "usd_ros_bridge.backends"

Report = Callable[[str, str], None]
"""`report(kind, message)`: a warning for people, shown once per kind and counted after that. Any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do.

    Attributes:
        joint_driven: Bodies below a joint follow from joint positions; State.body_pose then holds the root bodies
            (and animated Xforms) only. False: every row of State.body_pose is measured.
        kinematic: Commands move bodies and joints directly; a Twist may move a base.
        topic_driven: The state arrives by an input; the loop ticks on arrival and does not wait for a deadline.
        commands: `step` heeds commands. False: command subscriptions exist, but what they receive is dropped.
        every_step: `Backend.step` is to be called at every step, even where nothing arrived and nothing is due. False
            where the state follows from time and commands alone, so that one long step does what many short ones do:
            steps in which nothing happens then cost next to nothing.
        sensors: Prim paths of the interfaces whose measurements `SensorBackend.sense` gives.
        services: Prim paths of the service servers whose requests `ServiceBackend.serve` answers.
        actions: Prim paths of the action servers whose goals `ActionBackend.follow` follows.
        step_ns: Length of the backend's own fixed time step, nanoseconds, where it owns time: the loop then steps it on
            that grid and tells everybody else the time on /clock. 0 where it follows the time that it is given.
        beside: Those of `sensors` that are measured beside the loop, at their own rate: `sense` is asked for them at
            every tick and returns a new sample as soon as there is one, with the stamp of the state it shows.
    """

    joint_driven: bool = True
    kinematic: bool = False
    topic_driven: bool = False
    commands: bool = True
    every_step: bool = True
    sensors: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    step_ns: int = 0
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInput:
    """A topic that a backend needs. The bridge subscribes, decodes and hands samples to `Backend.receive`.

    Attributes:
        key: What `receive` is called with.
        robot: Index in BridgePlan.robots: decides the domain and the namespace of a relative topic name.
        topic: Topic name, relative to the robot's namespace or absolute.
        type: Interface type; its codec decides the type of sample (JointState: JointStateSample).
        reliability: Quality of service.
        depth: Queue size, keep last.
    """

    key: str
    robot: int
    topic: str
    type: str
    reliability: Literal["reliable", "best_effort"] = "best_effort"
    depth: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """What a backend is opened with.

    Attributes:
        plan: The plan, with its layout and scene.
        options: The caller's `key=value` options, as text.
        report: For warnings at run time.
        seed: Seed for anything random.
    """

    plan: BridgePlan
    report: Report
    options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


@runtime_checkable
class Backend(Protocol):
    """Moves robots. Constructed without arguments; acquires in `open`, releases in `close`. One thread at a time."""

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do; fixed once open."""
        ...

    def open(self, context: BackendContext) -> None:
        """Gets ready to step.

        Raises:
            BackendError: An option is unknown or its value is not possible; the message names what is.
        """
        ...

    def inputs(self) -> tuple[BackendInput, ...]:
        """Returns the topics that this backend needs. Called once, after `open`."""
        ...

    def receive(self, key: str, sample: object) -> None:
        """Takes one sample of the input `key`; called from the thread that steps, before `step`."""
        ...

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advances to bridge time `time_ns` and returns the state there.

        Args:
            time_ns: Never less than at the last call, except after `reset`. Of a backend that owns time a multiple of
                its `step_ns`, as many steps on as that is later than at the last call; the first call after `open` or
                `reset` is one step on from the state at rest, whatever its time.
            commands: Targets; NaN commands nothing. Not kept.

        Returns:
            The state; the arrays belong to the backend and change at the next call.
        """
        ...

    def reset(self) -> None:
        """Goes back to the state at rest; the next `step` may be at any time."""
        ...

    def close(self) -> None:
        """Releases everything. Idempotent."""
        ...


def needs_physics(backend: object) -> bool:
    """Returns whether a backend simulates: its `needs_physics` is true, and `plan.physics` is there in `open`.

    An attribute of the class, because it is asked for before the backend is opened.
    """
    return bool(getattr(backend, "needs_physics", False))


@runtime_checkable
class SensorBackend(Protocol):
    """A backend that measures: what `Backend` does, and the arrays of the sensors in `Capabilities.sensors`.

    Names and units of the arrays, by the type of the interface:

    - sensor_msgs/msg/Image: `data`, (H, W, C) uint8 or (H, W) uint8, uint16 or float32 (depth in m).
    - sensor_msgs/msg/CompressedImage: `data` (N,) uint8, a JPEG or PNG; optional `format` (N,) uint8, the message's
      format in UTF-8. Pixels as of an Image are compressed by the bridge (`backends/image_compression.py`).
    - sensor_msgs/msg/LaserScan: `ranges` (N,) float32 in m, `angle_min`, `angle_max` (rad), `range_min`, `range_max`
      (m); optional: `intensities` (N,) float32, `time_increment`, `scan_time` (s). Scalars are 0-d arrays.
    - sensor_msgs/msg/PointCloud2: `points`, (N, 3) float32 in m in the sensor's frame, or (N, 4) with the intensity.
      Optional: `height` (0-d int), the rows of an organised cloud, of which N is a multiple.
    - sensor_msgs/msg/Imu: `orientation` (4,) x, y, z, w of world_from_sensor, `angular_velocity` (3,) rad/s and
      `linear_acceleration` (3,) m/s^2, specific force, both in the sensor's frame; optional: their covariances
      `orientation_covariance`, `angular_velocity_covariance`, `linear_acceleration_covariance` (9,).
    - sensor_msgs/msg/Range: `range` 0-d in m (inf: nothing, -inf: too near), `field_of_view` (rad), `min_range`,
      `max_range` (m), `radiation_type` 0-d (0 ultrasound, 1 infrared).
    - sensor_msgs/msg/NavSatFix: `position` (3,) latitude and longitude in degrees, altitude in m;
      `position_covariance` (9,) m^2, east, north, up.
    - sensor_msgs/msg/CameraInfo: none; its stamp is that of the image of the same camera.
    - sensor_msgs/msg/MagneticField: `magnetic_field` (3,) T in the sensor's frame; optional `magnetic_field_covariance`
      (9,).
    - sensor_msgs/msg/FluidPressure: `fluid_pressure` and `variance`, 0-d, Pa and Pa^2.
    - sensor_msgs/msg/Temperature: `temperature` and `variance`, 0-d, degrees Celsius and K^2.
    - std_msgs/msg/Bool: `data`, 0-d bool.
    - geometry_msgs/msg/WrenchStamped: `wrench` (6,) force in N, then torque in N m, in the axes of the header's frame.
    """

    def sense(self, prim: str) -> SensorSample | None:
        """Returns the newest measurement of the interface at `prim`; None: there is none yet.

        Called from the thread that steps, after `step`, at most once per step and prim. The arrays belong to the
        backend and may change at the next step.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntityState:
    """How a body moves, in the world frame.

    Attributes:
        pose: (7,) `world_from_body`.
        twist: (6,) linear then angular velocity of the body's origin.
        acceleration: (6,) likewise, None where it is not known.
    """

    pose: NDArray[np.float64]
    twist: NDArray[np.float64]
    acceleration: NDArray[np.float64] | None = None


@runtime_checkable
class EntityBackend(Protocol):
    """A backend whose bodies can be looked at and moved by path, those without a row in the layout included.

    All of it is called from the thread that steps, between two steps.
    """

    def entities(self) -> tuple[str, ...]:
        """Returns the prim paths of all bodies."""
        ...

    def entity_state(self, path: str) -> EntityState:
        """Returns how a body moves now.

        Raises:
            KeyError: There is no such body.
        """
        ...

    def set_entity_state(
        self, path: str, *, pose: NDArray[np.float64] | None = None, twist: NDArray[np.float64] | None = None
    ) -> str:
        """Puts a body, and all that hangs from it by joints, elsewhere.

        Returns:
            "", or why it is not possible: a body below a joint is where its joints put it.

        Raises:
            KeyError: There is no such body.
        """
        ...

    def entity_bounds(self, path: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Returns the lowest and highest corner (3,) of a body's colliders and of all that hangs from it.

        The box is aligned with the body's own axes, m; None where nothing there collides.

        Raises:
            KeyError: There is no such body.
        """
        ...


@runtime_checkable
class SuccessorBackend(Protocol):
    """A backend that can be followed by another of its kind where the asset changed: entities came or went."""

    def successor(self) -> Backend:
        """Returns a backend of the same kind, not open yet."""
        ...

    def take_over(self, other: Any) -> None:
        """Goes on from the state of another, open one of its kind: time, bodies, joints and targets that both have.

        Called once, after `open` and before the first `step`, from the thread that steps.
        """
        ...


@runtime_checkable
class ServiceBackend(Protocol):
    """A backend that serves services: what `Backend` does, and answers for those in `Capabilities.services`."""

    def serve(self, prim: str, request: object, response: object) -> object:
        """Answers a request to the server at `prim`; called from the thread that steps, before `step`.

        Args:
            prim: Prim path of the server.
            request: A request of the server's type.
            response: A response to fill in.

        Returns:
            A response of the server's type, or None for the one that was filled in. What it raises is answered as a
            refusal and reported.
        """
        ...


class Goal(Protocol):
    """An accepted goal, as a handler or a backend sees it. From any thread."""

    @property
    def request(self) -> Any:
        """The goal message."""
        ...

    @property
    def cancel_requested(self) -> bool:
        """Whether whoever follows it should end: the client asked, the time is over, or the bridge closes."""
        ...

    @property
    def time_ns(self) -> int:
        """Bridge time, nanoseconds."""
        ...

    def feedback(self, feedback: Any) -> None:
        """Sends a feedback message to the client."""
        ...


@runtime_checkable
class ActionBackend(Protocol):
    """A backend that follows goals: what `Backend` does, and those of the actions in `Capabilities.actions`."""

    def follow(self, prim: str, goal: Goal) -> object:
        """Follows one goal to its end; called in a thread of its own, beside the one that steps.

        Args:
            prim: Prim path of the server.
            goal: The goal; `feedback` and the result are messages of the server's type.

        Returns:
            The result, which ends the goal succeeded, or canceled where that was asked for. What it raises ends the
            goal aborted and is reported.
        """
        ...
