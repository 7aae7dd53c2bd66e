"""Run context: a run as its driver, signals and metrics see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from usd_ros_bridge.backends.base import Backend, BodyContacts, ContactBackend, EntityBackend
from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State, StepCommands
from usd_ros_bridge.ros.endpoints.handlers import Binding
from usd_ros_bridge.ros.recording.latest_messages import LatestMessages
from usd_ros_bridge.ros.recording.offline_bridge import SubscriptionWriter, find_writers
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.step_callbacks import AfterStep, BeforeStep
from usd_ros_bridge.runtime.tick_access import JointCommandWriter, JointRows
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.sweep.distributions import Scalar
from usd_ros_bridge.sweep.function_loader import load_function
from usd_ros_bridge.sweep.randomization import DRIVER_STREAM, run_generator
from usd_ros_bridge.sweep.run_specs import RunSpec


class RunBridge(Protocol):
    """The bridge of a run, open: an OfflineBridge, or a live one."""

    @property
    def plan(self) -> BridgePlan:
        """The plan."""
        ...

    @property
    def runtime(self) -> Runtime:
        """The runtime."""
        ...

    def step(self, time_ns: int | None = None) -> bool:
        """Tick once. Return whether the backend gave a state."""
        ...

    def before_step(self, callback: BeforeStep) -> Binding:
        """Call a function before each step."""
        ...

    def after_step(self, callback: AfterStep) -> Binding:
        """Call a function after each step."""
        ...


class MeasuredBody(NamedTuple):
    """What measures a body.

    Attributes:
        start: `world_from_body` at the start, 7 numbers.
        pose: Returns it now.
        twist: Returns its linear then angular velocity in the world, 6 numbers.
    """

    start: Sequence[float]
    pose: Callable[[], Sequence[float]]
    twist: Callable[[], Sequence[float]]


class RunContext:
    """A run, for drivers and functions of a sweep. Use it in the thread of the run, and not after the run.

    Attributes:
        spec: The run: index, id, parameters and seed.
        plan: The plan, with the changes of this run.
        drawn: Values of the randomisation by name.
        rng: Random numbers of the driver: those of this run's seed.
        metrics: Metrics that the driver sets (`set_metric`).
        snapshot: State of the last step.
        time_ns: Time of the run, nanoseconds.
        stop_reason: Why the driver ended the run, None while it has not.
        failed: Whether the driver ended the run as failed.
    """

    def __init__(
        self,
        bridge: RunBridge,
        spec: RunSpec,
        *,
        drawn: Mapping[str, Scalar],
        directory: str,
        messages: LatestMessages | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            bridge: Open.
            spec: The run.
            drawn: Values of the randomisation.
            directory: Folder that the paths of functions count from.
            messages: What the asset publishes; None for a live bridge.
        """
        self.spec = spec
        self.plan: BridgePlan = bridge.plan
        self.drawn = drawn
        self.rng = run_generator(spec.seed, DRIVER_STREAM)
        self.metrics: dict[str, float] = {}
        self.snapshot: Snapshot = bridge.runtime.snapshot
        self.time_ns = 0
        self.stop_reason: str | None = None
        self.failed = False
        self._bridge = bridge
        self._directory = directory
        self._messages = messages
        self._joints = JointRows(self.plan)
        self._commands = JointCommandWriter(bridge.runtime)
        self._targets: dict[str, FloatArray] = {}
        self._writers: dict[str, tuple[SubscriptionWriter, ...]] = {}

    # --- The run -----------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time of the run, seconds; 0 before the first step."""
        return self.time_ns / SECOND_NS

    @property
    def parameters(self) -> Mapping[str, Scalar]:
        """Parameters of the run by name."""
        return self.spec.parameters

    def stop(self, reason: str = "") -> None:
        """End the run before the next step, as stopped."""
        self.stop_reason = reason or "the driver stopped the run"

    def fail(self, reason: str) -> None:
        """End the run before the next step, as failed."""
        self.stop_reason, self.failed = reason, True

    def set_metric(self, name: str, value: float) -> None:
        """Set a metric of the run, beside those of the sweep."""
        self.metrics[name] = float(value)

    # --- State -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """State of the last step, or at the start before the first one. Do not change it; copy what you keep."""
        return self.snapshot.state if self.snapshot.tick else State.initial(self.plan.layout)

    def joint_position(self, joint: str) -> float:
        """Return the position of a joint, rad or m, by its name or prim path.

        Raises:
            BridgeError: There is no such joint.
        """
        return float(self.state.joint_position[self.joint_row(joint)])

    def joint_velocity(self, joint: str) -> float:
        """Return the velocity of a joint, rad/s or m/s; NaN if unknown."""
        return float(self.state.joint_velocity[self.joint_row(joint)])

    def joint_effort(self, joint: str) -> float:
        """Return the effort of a joint, N m or N; NaN if unknown."""
        return float(self.state.joint_effort[self.joint_row(joint)])

    def body_pose(self, body: str) -> FloatArray:
        """Return `world_from_body` (7,): x y z in metres, quaternion x y z w. By prim path.

        Raises:
            BridgeError: There is no such body.
        """
        motion = self.body_motion(body)
        return np.array(motion.pose() if self.snapshot.tick else motion.start)

    def body_twist(self, body: str) -> FloatArray:
        """Return (6,) linear then angular velocity of a body's origin in the world, m/s and rad/s."""
        motion = self.body_motion(body)
        return np.array(motion.twist()) if self.snapshot.tick else np.zeros(6)

    def contacts(self, body: str) -> BodyContacts:
        """Return the contacts of a body.

        Raises:
            BridgeError: The backend knows no contacts.
        """
        backend = self.backend
        if not isinstance(backend, ContactBackend):
            raise BridgeError("the backend knows no contacts; use the backend mujoco")
        self.body_motion(body)
        return backend.contacts(body)

    @property
    def backend(self) -> Backend:
        """The backend, open."""
        return self._bridge.runtime.backend

    def message(self, topic: str) -> Any:
        """Return the newest message that the asset publishes on a topic; None before there is one.

        The first call starts the measuring: nothing is measured and published that nobody reads.

        Args:
            topic: Absolute name, or the end of one that only one topic has: `scan`.

        Raises:
            BridgeError: Nothing publishes on it, or the driver is a launch file, whose nodes subscribe.
        """
        if self._messages is None:
            raise BridgeError("messages are read by nodes in a run of a launch file")
        return self._messages.read(topic)

    # --- Commands ----------------------------------------------------------------------------------------------

    def send(self, topic: str, message: Any) -> None:
        """Send a message to a subscription, as a peer would: the next step applies it.

        Args:
            topic: Name or prim path of the subscription. A name without `/` may be the end of a name.
            message: A message, or a mapping of its fields.

        Raises:
            BridgeError: There is no such subscription, or the message does not fit.
        """
        writers = self._writers.get(topic)
        if writers is None:
            writers = find_writers(self._bridge.runtime, self.plan, self._topic(topic))
            self._writers[topic] = writers
        for each in writers:
            each.write(message)

    def set_joint_position(self, targets: Mapping[str, float]) -> None:
        """Set target positions by joint, rad or m. A target holds until the next one.

        Raises:
            BridgeError: A joint is unknown or cannot be moved so, or a target is not finite.
        """
        self._commands.set_position(targets)

    def set_joint_velocity(self, targets: Mapping[str, float]) -> None:
        """Set target velocities by joint, rad/s or m/s; as `set_joint_position`."""
        self._commands.set_velocity(targets)

    def set_joint_effort(self, targets: Mapping[str, float]) -> None:
        """Set efforts by joint, N m or N; as `set_joint_position`."""
        self._commands.set_effort(targets)

    # --- For signals -------------------------------------------------------------------------------------------

    def body_motion(self, body: str) -> MeasuredBody:
        """Return what measures a body, by its prim path: of a robot, or a thing that nothing of the plan is about.

        Raises:
            BridgeError: There is no such body.
        """
        layout, snapshot, backend = self.plan.layout, self.snapshot, self.backend
        row = layout.body_index.get(body)
        if row is not None:
            start: list[float] = layout.body_pose[row].tolist()
            return MeasuredBody(start, partial(snapshot.body, row), partial(snapshot.twist, row))
        entities = backend if isinstance(backend, EntityBackend) else None
        others = () if entities is None else entities.entities()
        if entities is None or body not in others:
            there = dict.fromkeys((*layout.bodies, *others))
            raise BridgeError(f"there is no body {quoted(body)}; {alternatives(body, there)}")
        state = entities.entity_state

        def pose() -> list[float]:
            numbers: list[float] = state(body).pose.tolist()
            return numbers

        def twist() -> list[float]:
            numbers: list[float] = state(body).twist.tolist()
            return numbers

        return MeasuredBody(pose(), pose, twist)

    def joint_row(self, joint: str) -> int:
        """Return the row of a joint in the layout, by its name or prim path.

        Raises:
            BridgeError: There is no such joint.
        """
        return self._joints.find(joint)

    def follow_targets(self, name: str) -> FloatArray:
        """Return (D,) the last targets of all joints, kept up to date; NaN before the first one.

        Args:
            name: `joint_position` or `joint_velocity`.
        """
        if not self._targets:
            self._bridge.before_step(self._store_targets)
        return self._targets.setdefault(name, np.full(len(self.plan.layout.dofs), np.nan))

    def load_function(self, function: str | Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the sweep.

        Raises:
            OptionError: There is no such file, module or function.
        """
        return load_function(function, self._directory)

    def _store_targets(self, _: int, commands: StepCommands) -> None:
        for name, targets in self._targets.items():
            commanded: FloatArray = getattr(commands, name)
            np.copyto(targets, commanded, where=~np.isnan(commanded))

    def _topic(self, topic: str) -> str:
        """Return the name of a subscription that may be given by its end."""
        if topic.startswith("/"):
            return topic
        named = [each.name for each in self.plan.topics if each.role == "subscription" and each.enabled]
        found = sorted({each for each in named if each.endswith(f"/{topic}")})
        if len(found) > 1:
            raise BridgeError(f"{quoted(topic)} may be {' or '.join(found[:4])}: write the whole name")
        if not found:
            raise BridgeError(f"there is no subscription {quoted(topic)}; {alternatives(topic, named)}")
        return found[0]
