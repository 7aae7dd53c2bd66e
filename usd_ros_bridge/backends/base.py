"""The interface between the bridge and a backend: a simulator, a kinematic model, a topic, a recording.

A backend never sees rclpy. It names the topics that it needs (`BackendInput`), receives `Commands` and returns `State`.
Other distributions register backends in the entry-point group `usd_ros_bridge.backends`. Options are `key=value` texts.
A backend declares them in a dataclass (`option_type`), or parses them with `parse_options`; errors list the possible
values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BackendError, choices, did_you_mean, quoted
from usd_ros_bridge.model.actuation import UnmovedByInterface
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, SensorSample, State
from usd_ros_bridge.ranges import NumberRange
from usd_ros_bridge.reporting import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a backend.

    Attributes:
        joint_driven: Bodies below a joint follow from joint positions; State.body_pose then holds the root bodies
            (and animated Xforms) only. False: every row of State.body_pose is measured.
        kinematic: Commands move bodies and joints directly; a Twist may move a base.
        topic_driven: The state arrives on topics; the loop ticks on arrival and does not wait for a deadline.
        commands: `step` executes commands. False: command subscriptions exist, but drop what they receive.
        every_step: Call `Backend.step` at every step, even if nothing arrived and nothing is due. False: the state
            follows from time and commands alone, one long step equals many short ones. The bridge then skips steps
            in which nothing happens.
        sensors: Prim paths of the interfaces that `SensorBackend.sense` measures.
        services: Prim paths of the service servers whose requests `ServiceBackend.serve` answers.
        actions: Prim paths of the action servers whose goals `ActionBackend.execute` executes.
        step_ns: Length of the backend's own fixed time step, nanoseconds: the backend owns time, the loop steps it on
            that grid and publishes its time on /clock. 0: the backend follows the time that it is given.
        async_sensors: Those of `sensors` that are measured asynchronously, at their own rate: the bridge calls `sense`
            at every tick, which returns a new sample as soon as there is one, with the stamp of the measured state.
        unmoved: By kind of command, the degrees of freedom that it does not move, and why. A controller that cannot
            move its joints stays inactive and refuses goals. Empty: every command moves its joint.
        odometry: Prim paths of the robots whose base the backend poses in the odometry frame: that pose is shown as
            odometry, instead of what wheels give.
        sensors_of_host: The sensors are the host's: they come before those of plug-ins.
        lockstep: Asynchronous sensors of plug-ins are waited for in each tick that they are due in, as the backend
            waits for its own.
        noise: Sensors have noise.
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
    async_sensors: frozenset[str] = frozenset()
    unmoved: UnmovedByInterface = field(default_factory=dict)
    odometry: frozenset[str] = frozenset()
    sensors_of_host: bool = False
    lockstep: bool = False
    noise: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInput:
    """A topic that a backend needs. The bridge subscribes, decodes and passes samples to `Backend.receive`.

    Attributes:
        key: First argument of `receive`.
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
    """Arguments of `Backend.open`.

    Attributes:
        plan: The plan, with its layout and scene.
        options: The caller's `key=value` options, as text.
        values: An instance of the backend's `option_type`, made of the options; None if it declares none.
        report: For warnings at run time.
        seed: Seed for anything random.
    """

    plan: BridgePlan
    report: Report
    options: Mapping[str, str] = field(default_factory=dict)
    values: Any = None
    seed: int = 0


@runtime_checkable
class Backend(Protocol):
    """Move robots. Constructed without arguments; acquires in `open`, frees in `close`. One thread at a time."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities; they do not change while the backend is open."""
        ...

    def open(self, context: BackendContext) -> None:
        """Prepare for `step`.

        Raises:
            BackendError: An option is unknown or its value is not possible; the message names what is.
        """
        ...

    def inputs(self) -> tuple[BackendInput, ...]:
        """Return the topics that this backend needs. Called once, after `open`."""
        ...

    def receive(self, key: str, sample: object) -> None:
        """Receive a sample of the input `key`; called from the thread that steps, before `step`."""
        ...

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advance to bridge time `time_ns` and return the state.

        Args:
            time_ns: Never less than at the last call, except after `reset`. For a backend that owns time, a multiple of
                its `step_ns`: the backend makes the steps since the last call. The first call after `open` or `reset`
                makes one step from the initial state, whatever its time.
            commands: Targets; NaN commands nothing. Not kept. A position with a velocity is that of `time_ns`.

        Returns:
            The state; the arrays belong to the backend and change at the next call.
        """
        ...

    def reset(self) -> None:
        """Go back to the initial state; the next `step` may be at any time."""
        ...

    def close(self) -> None:
        """Free everything. Idempotent."""
        ...


def option_type(backend: object) -> type | None:
    """Return the dataclass that declares a backend's options: its attribute `option_type`. None if there is none.

    The type of a field is bool, int, float, str or a Literal of texts, each also `| None`. All have defaults. Its
    metadata may hold `help`, one line. `__post_init__` may raise ValueError with the possible values.
    """
    found = getattr(backend, "option_type", None)
    return found if isinstance(found, type) and is_dataclass(found) else None


class InputlessBackend:
    """A base of backends that need no topics of their own: commands come through the plan's subscriptions."""

    def inputs(self) -> tuple[BackendInput, ...]:
        """Return no inputs."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Do nothing: there are no inputs."""


def needs_physics(backend: object) -> bool:
    """Return whether a backend needs `plan.physics` in `open`: its attribute `needs_physics` is true.

    It is an attribute of the class, because it is read before the backend is opened.
    """
    return bool(getattr(backend, "needs_physics", False))


@runtime_checkable
class SensorBackend(Protocol):
    """A backend that measures the sensors in `Capabilities.sensors`.

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
        """Return the newest measurement of the interface at `prim`, None before the first one.

        Called from the thread that steps, after `step`, at most once per step and prim. The arrays belong to the
        backend and may change at the next step.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RayHits:
    """What rays hit.

    Attributes:
        distance: (N,) m along each ray, inf without a hit.
        surface: (N,) index in `RayCaster.surfaces`, -1 without a hit.
        normal: (N, 3) unit normal of the surface in the world, NaN without a hit or if the backend has none.
    """

    distance: NDArray[np.float64]
    surface: NDArray[np.intp]
    normal: NDArray[np.float64]


class RayCaster(Protocol):
    """Cast rays for one thread.

    Attributes:
        surfaces: Prim paths of the colliders that rays can hit.
        bodies: Prim path of the body of each, "" for one of the world.
    """

    surfaces: tuple[str, ...]
    bodies: tuple[str, ...]

    def cast(
        self,
        poses: Any,
        origins: NDArray[np.float64],
        directions: NDArray[np.float64],
        *,
        reach: float,
        body: str = "",
        robot: bool = False,
    ) -> RayHits:
        """Cast rays in a state.

        Args:
            poses: The state, of `RayBackend.copy_poses`.
            origins: (N, 3) in the world, m; or (3,) for all rays.
            directions: (N, 3) unit vectors in the world.
            reach: Longest distance, m.
            body: Prim path of a body that rays pass through, "" for none.
            robot: Rays pass through all bodies of its robot.
        """
        ...


@runtime_checkable
class RayBackend(Protocol):
    """A backend that casts rays for sensor models of plug-ins."""

    def ray_caster(self) -> RayCaster:
        """Return a caster for one thread."""
        ...

    def copy_poses(self) -> Any:
        """Return a copy of the state that poses follow from; from the thread that steps, after `step`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BodyContacts:
    """Contacts of a body, in the world frame.

    Attributes:
        point: (N, 3) m.
        force: (N, 3) force on the body, N.
        normal_force: (N,) part of it along the normal, N.
        surfaces: Prim path of the collider that each contact is with, "" if unknown.
    """

    point: NDArray[np.float64]
    force: NDArray[np.float64]
    normal_force: NDArray[np.float64]
    surfaces: tuple[str, ...]


@runtime_checkable
class ContactBackend(Protocol):
    """A backend that knows the contacts of bodies, for sensor models of plug-ins."""

    def contacts(self, body: str) -> BodyContacts:
        """Return the contacts of a body; from the thread that steps, after `step`.

        Raises:
            KeyError: There is no such body.
        """
        ...


@runtime_checkable
class RenderBackend(Protocol):
    """A backend that renders images for sensor models of plug-ins, at the rate of their publishers.

    The plan's physics has a CameraSensor for each image that a model needs (`image_path` in `model/sensors.py`).
    """

    def image(self, path: str) -> SensorSample | None:
        """Return the newest image: `data` as of a sensor_msgs/msg/Image, None before the first one.

        Segmentation is (H, W) int32: index in `image_surfaces`, -1 for nothing. From the thread that steps, after
        `step`, once per step and image.
        """
        ...

    def image_surfaces(self) -> tuple[str, ...]:
        """Return the prim paths that segmentation distinguishes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntityState:
    """Motion of a body in the world frame.

    Attributes:
        pose: (7,) `world_from_body`.
        twist: (6,) linear then angular velocity of the body's origin.
        acceleration: (6,) likewise, None for an unknown one.
    """

    pose: NDArray[np.float64]
    twist: NDArray[np.float64]
    acceleration: NDArray[np.float64] | None = None


@runtime_checkable
class EntityBackend(Protocol):
    """A backend whose bodies can be read and moved by path, even those without a row in the layout.

    All methods are called from the thread that steps, between two steps.
    """

    def entities(self) -> tuple[str, ...]:
        """Return the prim paths of all bodies."""
        ...

    def entity_state(self, path: str) -> EntityState:
        """Return the current motion of a body.

        Raises:
            KeyError: There is no such body.
        """
        ...

    def set_entity_state(
        self, path: str, *, pose: NDArray[np.float64] | None = None, twist: NDArray[np.float64] | None = None
    ) -> str:
        """Set the state of a body; its descendants move with it.

        Returns:
            "", or why it is not possible: joints determine the pose of a body below a joint.

        Raises:
            KeyError: There is no such body.
        """
        ...

    def entity_bounds(self, path: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the lowest and highest corner (3,) of the colliders of a body and of its descendants.

        The box is aligned with the body's axes, m; None without colliders.

        Raises:
            KeyError: There is no such body.
        """
        ...


@runtime_checkable
class StateTransferBackend(Protocol):
    """A backend that can transfer its state to another instance when the asset changes: entities came or went."""

    def new_instance(self) -> Backend:
        """Return another backend of the same type, not open."""
        ...

    def transfer_state(self, old: Any) -> None:
        """Copy the state of another, open instance, by name: time, bodies, joints and targets that both have.

        Called once, after `open` and before the first `step`, from the thread that steps.
        """
        ...


@runtime_checkable
class ServiceBackend(Protocol):
    """A backend that serves the services in `Capabilities.services`."""

    def serve(self, prim: str, request: object, response: object) -> object:
        """Answer a request to the server at `prim`; called from the thread that steps, before `step`.

        Args:
            prim: Prim path of the server.
            request: A request of the server's type.
            response: A response to fill in.

        Returns:
            A response of the server's type, or None for the one that was filled in. An exception is answered as a
            refusal and reported.
        """
        ...


class Goal(Protocol):
    """An accepted goal, for a handler or a backend. From any thread."""

    @property
    def request(self) -> Any:
        """Return the goal message."""
        ...

    @property
    def cancel_requested(self) -> bool:
        """Return whether the execution should end: the client asked, time is up, or the bridge closes."""
        ...

    @property
    def time_ns(self) -> int:
        """Return bridge time, nanoseconds."""
        ...

    def feedback(self, feedback: Any) -> None:
        """Send a feedback message to the client."""
        ...


@runtime_checkable
class ActionBackend(Protocol):
    """A backend that executes goals of the actions in `Capabilities.actions`."""

    def execute(self, prim: str, goal: Goal) -> object:
        """Execute one goal to its end; called in a thread of its own, not the one that steps.

        Args:
            prim: Prim path of the server.
            goal: The goal; `feedback` and the result are messages of the server's type.

        Returns:
            The result: the goal has succeeded, or is canceled if that was requested. An exception aborts the goal
            and is reported.
        """
        ...


T = TypeVar("T")

OptionParser = Callable[[str], object]
"""Parse an option's text; raise ValueError with the possible values."""

_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

_LONGEST_COUNT = 18
_SEGMENT = r"[A-Za-z_][A-Za-z0-9_]*"
_TOPIC_NAME = re.compile(rf"/?{_SEGMENT}(/{_SEGMENT})*")


def flag(text: str) -> bool:
    """Parse a truth value."""
    value = _FLAGS.get(text.strip().lower())
    if value is None:
        raise ValueError("true or false")
    return value


def number_in(possible: NumberRange) -> OptionParser:
    """Return a parser of a number in a range."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if value not in possible:
            raise ValueError(f"a number: {possible}")
        return value

    return parse


def count_in(possible: NumberRange) -> OptionParser:
    """Return a parser of a whole number in a range."""

    def parse(text: str) -> int:
        text = text.strip()
        value = int(text) if text.isdecimal() and len(text) <= _LONGEST_COUNT else -1
        if value not in possible:
            raise ValueError(f"a whole number: {possible}")
        return value

    return parse


def topic_name(text: str) -> str:
    """Parse a topic name, relative or absolute."""
    name = text.strip()
    if not _TOPIC_NAME.fullmatch(name):
        raise ValueError("a topic name")
    return name


_declared_options: dict[str, frozenset[str]] = {}


def declare_options(backend: str, names: Iterable[str]) -> None:
    """Declare the options of a backend: another backend that is given one of them says whose it is."""
    _declared_options[backend] = frozenset(names)


def parse_options(
    backend: str, options: Mapping[str, str], parsers: Mapping[str, OptionParser]
) -> dict[str, object]:
    """Parse a backend's options.

    Args:
        backend: Name of the backend, for messages.
        options: Texts by key.
        parsers: Parsers by key.

    Returns:
        Values by key, of the given options only.

    Raises:
        BackendError: A key is unknown or a value not possible.
    """
    values = {}
    for key, text in options.items():
        parser = parsers.get(key)
        if parser is None:
            raise BackendError(
                f"backend {backend} has no option {quoted(key)}; {_meant(key, backend, parsers)}"
            )
        try:
            values[key] = parser(text)
        except ValueError as error:
            raise BackendError(
                f"option {key} of backend {backend} is {quoted(text)}, but must be {error}"
            ) from None
    return values


def _meant(key: str, backend: str, parsers: Mapping[str, OptionParser]) -> str:
    """Return what an option that a backend does not have may stand for: one of its own, or another backend's."""
    own = f"its options: {choices(parsers)}"
    if question := did_you_mean(key, parsers):
        return f"{question} {own}"
    owners = [name for name, options in _declared_options.items() if name != backend and key in options]
    return f"it is an option of {', '.join(owners)}; {own}" if owners else own


def option_value(values: Mapping[str, object], key: str, kind: type[T], default: T) -> T:
    """Return a parsed option, or `default`."""
    value = values.get(key, default)
    assert isinstance(value, kind)
    return value
