"""Bridge in the process of a test, stepped by the test: bridge time passes only there, as fast as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.registry import lockstep_options
from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.backend_choice import choose
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.bridge_time import with_sim_time
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.recording.message_definitions import type_name
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge, deliver_message
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.testing.message_store import MessageStore, StoredTopic, brief
from usd_ros_bridge.testing.transform_buffer import (
    TOLERANCE,
    TransformBuffer,
    check_transform,
    expect_transform,
    only_namespace,
)

COMMAND_S = 0.1
"""Distance of the messages that `run_for` repeats, seconds of bridge time: no controller gives up meanwhile."""
LOWEST_RATE = 100.0
HIGHEST_RATE = 1000.0
"""Bounds of the default rate of ticks, Hz: the rate of controllers, and what tests can afford."""


class LockstepBridge:
    """A bridge that ticks only while a test waits in `run_for` or `run_until`, in simulated time that begins at 0.

    Without ROS, nothing of the middleware is opened: no node, no thread, no socket. The same calls give the same
    messages in every run. Messages are read with `messages` and `last`.

    Attributes:
        ros: Whether the bridge has a node in the domain of the test, with services, actions and parameters.
        warnings: What the bridge warned of, `(kind, message)`.
        news: What the bridge logged besides, `(kind, message)`.
    """

    def __init__(
        self,
        plan: BridgePlan,
        backend: str | Backend = "auto",
        *,
        options: BridgeOptions | None = None,
        ros: bool = False,
        tick: float | None = None,
    ) -> None:
        """Store the arguments; `open` acquires.

        Args:
            plan: Plan to run.
            backend: Name of an installed backend, `auto`, or a backend that is not open yet.
            options: Options of the bridge. None: the defaults.
            ros: Whether the bridge has a node.
            tick: Distance of ticks, seconds of bridge time. None: 0.01, or less if a topic of the plan asks for more.
        """
        self.ros = ros
        self.warnings: list[tuple[str, str]] = []
        self.news: list[tuple[str, str]] = []
        self._plan = plan
        self._backend = backend
        self._options = options or BridgeOptions()
        self._tick_ns = max(1, round(tick * SECOND_NS)) if tick else _tick_ns(plan, self._options)
        self._target_ns = 0
        self._resources = ExitStack()
        self._store = MessageStore(named=self._named)
        self._main_domain: int | None = None
        self._opened: Bridge | OfflineBridge | None = None
        self._runtime: Runtime | None = None
        self._buffers: dict[str, TransformBuffer] = {}
        self._added: dict[str, int] = {}

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> LockstepBridge:
        """Open the bridge, and tick once: at time 0, or after the first step of a backend that owns time.

        Raises:
            BridgeError: As `Bridge.open` and `OfflineBridge.open`.
        """
        opened: Bridge | OfflineBridge = self._with_ros() if self.ros else self._without_ros()
        with ExitStack() as stack:
            stack.callback(opened.close)
            opened.open()
            self._resources = stack.pop_all()
        self._opened = opened
        self._runtime = opened.parts.runtime if isinstance(opened, Bridge) else opened.runtime
        self._plan = opened.plan
        step_ns = self._runtime.capabilities.step_ns
        if step_ns:
            # A tick between two grid points of the backend would be none.
            self._tick_ns = max(1, self._tick_ns // step_ns) * step_ns
        opened.step(step_ns)
        return self

    def close(self) -> None:
        """Close the bridge. Messages stay readable. Idempotent."""
        self._opened = self._runtime = None
        self._resources.close()

    def __enter__(self) -> LockstepBridge:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Return whether it is open."""
        return self._opened is not None

    @property
    def bridge(self) -> Bridge:
        """Return the bridge with its node: `status`, `change`, `on_service` and the rest.

        Raises:
            BridgeError: It is not open, or has no node.
        """
        if not isinstance(self._opened, Bridge):
            raise BridgeError("this bridge has no node: open it with ros=True")
        return self._opened

    @property
    def plan(self) -> BridgePlan:
        """Return the plan that it runs."""
        return self._plan

    # --- Time --------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Return bridge time: that of the last tick, seconds."""
        return self.time_ns / SECOND_NS

    @property
    def time_ns(self) -> int:
        """Return bridge time: that of the last tick, nanoseconds."""
        time_ns = self._open_runtime.time_ns
        return 0 if time_ns is None else time_ns

    def step(self) -> None:
        """Tick once."""
        self._run_to((self.time_ns // self._tick_ns + 1) * self._tick_ns)

    def run_for(self, seconds: float, *, commands: Mapping[str, Any] | None = None) -> None:
        """Let bridge time pass. It takes as long as the machine needs.

        Args:
            seconds: Bridge time that passes, seconds.
            commands: Messages that are sent again every 0.1 s meanwhile, as by a joystick, by target as of `send`.
        """
        # From the time that was asked for last: a first step, or a step that does not divide it, adds up to nothing.
        end_ns = self._target_ns + round(seconds * SECOND_NS)
        while commands and self._target_ns < end_ns:
            for target, message in commands.items():
                self.send(target, message)
            self._run_to(min(end_ns, self._target_ns + round(COMMAND_S * SECOND_NS)))
        self._run_to(end_ns)

    def run_until(self, condition: Callable[[], Any], *, timeout: float = 10.0, what: str = "") -> Any:
        """Let bridge time pass until a condition holds. Return its value.

        Args:
            condition: Asked after each tick.
            timeout: Seconds of bridge time. After that the test fails.
            what: What is awaited, for the message.
        """
        __tracebackhide__ = True
        end_ns = self.time_ns + round(timeout * SECOND_NS)
        while not (value := condition()):
            if self.time_ns >= end_ns:
                pytest.fail(f"{what or 'the condition'}: not within {timeout:g} s of bridge time")
            self.step()
        return value

    # --- Messages ----------------------------------------------------------------------------------------------

    def send(self, target: str, message: Any) -> None:
        """Deliver a message to a subscription of the plan, as a peer's would be: the next tick applies it.

        Args:
            target: Prim path or absolute name of the subscription.
            message: A message, or a mapping of its fields.

        Raises:
            BridgeError: There is no such subscription, nothing takes its messages, or the message does not fit.
        """
        deliver_message(self._open_runtime, self._plan, target, message)

    def topics(self) -> dict[str, str]:
        """Return the topics that the bridge publishes on: type by absolute name."""
        return {each.name: type_name(each.message_class) for each in self._store.topics()}

    def publishes(self, topic: str) -> bool:
        """Return whether the bridge publishes on a topic."""
        return self._store.get(_absolute(topic)) is not None

    def messages(self, topic: str) -> list[Any]:
        """Return the messages of a topic, oldest first. Of large ones, the last 64 MiB.

        Args:
            topic: Absolute name.

        Raises:
            BridgeError: The bridge has no publisher of that name.
        """
        return self._topic(topic).since(0)

    def last(self, topic: str) -> Any:
        """Return the newest message of a topic, None if there is none yet.

        Args:
            topic: Absolute name.

        Raises:
            BridgeError: The bridge has no publisher of that name.
        """
        return self._topic(topic).last()

    def wait_for_message(
        self, topic: str, where: Callable[[Any], bool] | None = None, *, timeout: float = 10.0
    ) -> Any:
        """Let bridge time pass until a message comes. Of a latched topic, the last one counts, too. Return it.

        Args:
            topic: Absolute name.
            where: Whether a message is the one that is awaited. None: any.
            timeout: Seconds of bridge time. After that the test fails.
        """
        __tracebackhide__ = True
        try:
            stored = self._topic(topic)
        except BridgeError as error:
            pytest.fail(str(error))
        begin = seen = stored.count - int(stored.latched and stored.count > 0)
        last = None
        end_ns = self.time_ns + round(timeout * SECOND_NS)
        while True:
            for message in stored.since(seen):
                last = message
                if where is None or where(message):
                    return message
            seen = stored.count
            if self.time_ns >= end_ns:
                break
            self.step()
        if last is None:
            pytest.fail(f"no message on {stored.name} within {timeout:g} s of bridge time")
        pytest.fail(
            f"none of {seen - begin} messages on {stored.name} within {timeout:g} s of bridge time is as awaited; "
            f"the last one: {brief(last)}"
        )

    # --- Transforms --------------------------------------------------------------------------------------------

    def tf_buffer(self, namespace: str | None = None) -> TransformBuffer:
        """Return the transforms that the bridge has published so far.

        Args:
            namespace: Namespace of the robot whose transforms they are, "" for /tf. None: the only one.

        Raises:
            UnknownTransformError: There are none, or those of several namespaces.
        """
        found = {
            each.name.rpartition("/")[0].strip("/"): each
            for each in self._store.topics()
            if type_name(each.message_class) == TF_MESSAGE and each.name.endswith(("/tf", "/tf_static"))
        }
        name = only_namespace(found, namespace, where=self._plan.asset)
        prefix = f"/{name}" if name else ""
        buffer = self._buffers.setdefault(name, TransformBuffer(f"{prefix}/tf"))
        for topic in ("tf_static", "tf"):
            stored = self._store.get(f"{prefix}/{topic}")
            if stored is None:
                continue
            for message in stored.since(self._added.get(stored.name, 0)):
                buffer.add(message.transforms, static=topic == "tf_static")
            self._added[stored.name] = stored.count
        return buffer

    def assert_transform(
        self,
        target: str,
        source: str,
        *,
        xyz: Iterable[float] | None = None,
        rpy: Iterable[float] | None = None,
        tolerance: float = TOLERANCE,
        namespace: str | None = None,
    ) -> None:
        """Check the pose of one frame in another one, as it was published last.

        Args:
            target: Frame in which the pose is.
            source: Frame whose pose it is.
            xyz: Expected position, metres. None: any.
            rpy: Expected angles about fixed x, y and z axes, in this order, as in URDF, radians. None: any.
            tolerance: Largest difference: metres of the position, radians of the rotation between the two.
            namespace: As for `tf_buffer`.
        """
        __tracebackhide__ = True
        expected = expect_transform(target, source, xyz, rpy, tolerance)
        try:
            fault = check_transform(self.tf_buffer(namespace), expected)
        except BridgeError as error:
            fault = str(error)
        if fault:
            pytest.fail(f"{fault}\n  at {self.time:.9g} s of bridge time")

    # --- Own ---------------------------------------------------------------------------------------------------

    @property
    def _open_runtime(self) -> Runtime:
        if self._runtime is None:
            raise BridgeError("the bridge is not open")
        return self._runtime

    def _run_to(self, time_ns: int) -> None:
        opened = self._opened
        if opened is None:
            raise BridgeError("the bridge is not open")
        self._target_ns = max(self._target_ns, time_ns)
        now, step_ns = self.time_ns, self._open_runtime.capabilities.step_ns
        while now < time_ns:
            target = min((now // self._tick_ns + 1) * self._tick_ns, time_ns)
            opened.step(target)
            # What is shorter than a step of the backend is left for the next call.
            if step_ns and self.time_ns == now:
                return
            now = max(self.time_ns, target)

    def _without_ros(self) -> OfflineBridge:
        return OfflineBridge(
            self._plan,
            self._backend,
            options=self._options,
            tap=self._store,
            report=self._warn,
            inform=self._tell,
        )

    def _with_ros(self) -> Bridge:
        options = self._options
        choice = choose(self._plan, self._backend, inform=lambda *_: None)
        # As without ROS: time waits for sensors.
        options = replace(options, backend_options=lockstep_options(choice.name, options.backend_options))
        domains = Domains(
            node_name=options.node_name,
            namespace=options.node_namespace,
            domain_id=options.domain_id,
            ros_args=options.ros_args,
            parameter_overrides=with_sim_time(options.parameter_overrides, options.use_sim_time),
            threaded=options.threaded,
            report=self._warn,
        )
        domains.set_tap(self._store)
        return Bridge(
            choice.plan, self._backend, options=options, node=domains, report=self._warn, inform=self._tell
        )

    def _named(self, topic: str, domain_id: int) -> str:
        # The first publisher is one of the main domain.
        if self._main_domain is None:
            self._main_domain = domain_id
        return topic if domain_id == self._main_domain else f"/domain_{domain_id}{topic}"

    def _topic(self, topic: str) -> StoredTopic:
        found = self._store.get(_absolute(topic))
        if found is None:
            there = alternatives(_absolute(topic), (each.name for each in self._store.topics()))
            raise BridgeError(f"{self._plan.asset} has no publisher of {quoted(_absolute(topic))}; {there}")
        return found

    def _warn(self, kind: str, message: str) -> None:
        self.warnings.append((kind, message))

    def _tell(self, kind: str, message: str) -> None:
        self.news.append((kind, message))


def _absolute(topic: str) -> str:
    return topic if topic.startswith("/") else f"/{topic}"


def _tick_ns(plan: BridgePlan, options: BridgeOptions) -> int:
    """Return a distance of ticks at which every topic has its rate, nanoseconds."""
    rates = [each.publish_rate or 0.0 for each in plan.topics if each.enabled and each.role == "publisher"]
    rate = min(HIGHEST_RATE, max(LOWEST_RATE, options.tf_rate or 0.0, *rates))
    return round(SECOND_NS / rate)
