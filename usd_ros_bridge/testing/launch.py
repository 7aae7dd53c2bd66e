"""Actions and events for launch files and launch_testing: wait until a bridge is ready, and until its messages arrive.

It needs `launch`, which a full ROS 2 installation has. `usd_ros_bridge.testing` itself does not import it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ament_index_python.packages import get_package_share_directory
from launch import Action, Event, LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    EmitEvent,
    IncludeLaunchDescription,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.event_handlers.on_action_event_base import OnActionEventBase
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.logging import get_logger
from launch.some_substitutions_type import SomeSubstitutionsType
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch_testing.actions import ReadyToTest

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.ros_domains import DomainReservation, reserve_domain
from usd_ros_bridge.testing.readiness import ReadinessObserver, ServedInterface, served_interfaces

START_S = 60.0
"""Seconds that a bridge may take to start, by default: on a busy machine, OpenUSD and physics take some of them."""

NODE_NAME = "/usd_ros_bridge"
_EXECUTABLES = frozenset({"bridge", "robot_state_publisher", "usd_ros_bridge"})
_DOMAIN_ID = "ROS_DOMAIN_ID"
_reservations: list[DomainReservation] = []


class BridgeReadyEvent(Event):
    """A bridge is ready.

    Attributes:
        action: The action that waited for it.
        plan: What the bridge serves: the message on ~/plan, read as JSON.
    """

    name = "usd_ros_bridge.testing.launch.BridgeReadyEvent"

    def __init__(self, *, action: BridgeReady, plan: Mapping[str, Any]) -> None:
        """Store the arguments."""
        self.action = action
        self.plan = plan


class InterfacesReadyEvent(BridgeReadyEvent):
    """Interfaces of a bridge exist, and have sent messages if that was asked for.

    Attributes:
        interfaces: The interfaces.
    """

    name = "usd_ros_bridge.testing.launch.InterfacesReadyEvent"

    def __init__(
        self, *, action: BridgeReady, plan: Mapping[str, Any], interfaces: tuple[ServedInterface, ...]
    ) -> None:
        """Store the arguments."""
        super().__init__(action=action, plan=plan)
        self.interfaces = interfaces


class BridgeReady(Action):
    """Wait until a bridge publishes its plan on ~/plan, and emit a BridgeReadyEvent.

    The launch ends, with the reason in its log, if that takes too long. Anything may have started the bridge.
    """

    def __init__(
        self,
        *,
        node_name: SomeSubstitutionsType = NODE_NAME,
        timeout: float = START_S,
        domain_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Store the arguments.

        Args:
            node_name: Name of the bridge's node with its namespace.
            timeout: Seconds until the launch ends.
            domain_id: Domain of the bridge; None: ROS_DOMAIN_ID.
            **kwargs: As for `launch.Action`: `condition`.
        """
        super().__init__(**kwargs)
        self._node_name = normalize_to_list_of_substitutions(node_name)
        self._timeout = timeout
        self._domain_id = domain_id
        self._observer = ReadinessObserver(timeout=timeout, domain_id=domain_id)
        self._done: asyncio.Future[None] | None = None

    def describe(self) -> str:
        """Return a description of this action."""
        return f"{type(self).__name__}({' + '.join(each.describe() for each in self._node_name)})"

    def execute(self, context: LaunchContext) -> list[LaunchDescriptionEntity] | None:
        """Begin to wait, in a thread. The action ends when the bridge is ready, or the launch ends."""
        loop = context.asyncio_loop
        node_name = perform_substitutions(context, self._node_name)
        done = self._done = loop.create_future()

        def finish(event: Event | None) -> None:
            if event is not None:
                context.emit_event_sync(event)
            if not done.done():
                done.set_result(None)

        def run() -> None:
            event = self._wait(node_name)
            # RuntimeError: the launch has ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, event)

        context.register_event_handler(OnShutdown(on_shutdown=lambda *_: self._observer.stop()))
        threading.Thread(target=run, name="wait for a bridge", daemon=True).start()
        return None

    def get_asyncio_future(self) -> asyncio.Future[None] | None:
        """Return what is done when the action has ended."""
        return self._done

    def stop(self) -> None:
        """End the wait, without an event. Thread-safe."""
        self._observer.stop()

    @property
    def has_ended(self) -> bool:
        """Return whether the action waits no more."""
        return self._done is not None and self._done.done()

    def _wait(self, node_name: str) -> Event | None:
        try:
            with self._observer:
                return self._observe(self._observer, node_name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the launch must not wait for ever
            if self._observer.is_stopped:
                return None
            reason = f"{node_name}: {error}"
            get_logger(type(self).__name__).error(reason)
            return Shutdown(reason=reason)

    def _observe(self, observer: ReadinessObserver, node_name: str) -> Event:
        return BridgeReadyEvent(action=self, plan=observer.wait_for_plan(node_name))


class WaitForInterfaces(BridgeReady):
    """Wait until a bridge is ready and its interfaces are in the graph, and emit an InterfacesReadyEvent.

    On request it waits for messages, too. Subscriptions have the QoS of the plan: sensors that publish best effort,
    and latched topics, are received.
    """

    def __init__(
        self,
        *,
        interfaces: Collection[str] | None = None,
        messages: Collection[str] | bool = False,
        **kwargs: Any,
    ) -> None:
        """Store the arguments.

        Args:
            interfaces: Names or prim paths; None: all topics, services and actions that the bridge serves.
            messages: Names or prim paths of publishers that have to send a message; True: all publishers among
                `interfaces`.
            **kwargs: As for `BridgeReady`.
        """
        super().__init__(**kwargs)
        self._interfaces = interfaces
        self._messages = messages

    def _observe(self, observer: ReadinessObserver, node_name: str) -> Event:
        plan = observer.wait_for_plan(node_name)
        wanted = served_interfaces(plan, only=self._interfaces)
        heard = wanted if self._messages is True else served_interfaces(plan, only=self._messages or ())
        observer.wait_for_interfaces(dict.fromkeys((*wanted, *heard)))
        observer.wait_for_messages(heard)
        return InterfacesReadyEvent(action=self, plan=plan, interfaces=wanted)


class OnBridgeReady(OnActionEventBase):
    """Handle a BridgeReadyEvent, of a `BridgeReady` or `WaitForInterfaces` action."""

    def __init__(
        self,
        *,
        target_action: BridgeReady | Callable[[Action], bool] | None = None,
        on_ready: Iterable[LaunchDescriptionEntity]
        | LaunchDescriptionEntity
        | Callable[[BridgeReadyEvent, LaunchContext], Any],
        **kwargs: Any,
    ) -> None:
        """Store the arguments.

        Args:
            target_action: The action that waits, or which of them; None: any.
            on_ready: What to do: entities, or a function of the event and the context that may return some.
            **kwargs: As for `launch.EventHandler`: `handle_once`.
        """
        super().__init__(
            action_matcher=target_action,
            on_event=on_ready,
            target_event_cls=BridgeReadyEvent,
            target_action_cls=BridgeReady,
            **kwargs,
        )


def bridge_test_description(
    asset: str | os.PathLike[str],
    *,
    backend: str = "",
    arguments: Mapping[str, object] | None = None,
    messages: Collection[str] | bool = False,
    actions: Iterable[LaunchDescriptionEntity] = (),
    timeout: float = START_S,
) -> LaunchDescription:
    """Return a launch description that starts a bridge, and starts the tests when all its interfaces exist.

    If ROS_DOMAIN_ID is not set, the bridge and the tests get a domain of their own, on the loopback.

    Args:
        asset: The OpenUSD asset: a path or package://NAME/PATH.
        backend: As the launch argument; "": the default.
        arguments: More arguments of bridge.launch.py.
        messages: As `WaitForInterfaces.messages`: what has to send a message before the tests start.
        actions: What else to launch, at once.
        timeout: Seconds until all of it is there. launch_testing waits 15 s unless
            `launch_testing.ready_to_test_action_timeout` says more.

    Raises:
        BridgeError: usd_ros_bridge is no installed ROS package, or an argument is unknown to its launch file.
    """
    given = {"asset": os.fspath(asset), "backend": backend, **(arguments or {})}
    source = PythonLaunchDescriptionSource(str(_launch_file()))
    namespace = str(given.get("namespace", "")).strip("/")
    node_name = str(given.get("node_name", "")) or NODE_NAME
    ready = WaitForInterfaces(
        node_name=f"{namespace}/{node_name.strip('/')}", messages=messages, timeout=timeout
    )
    texts = {name: _argument_text(value) for name, value in given.items()}

    def stop_waiting(event: Any, _: LaunchContext) -> EmitEvent | None:
        """End the launch if the bridge ends before it is ready: an asset that is not there, for example."""
        if ready.has_ended or Path(event.cmd[0]).name not in _EXECUTABLES:
            return None
        ready.stop()
        return EmitEvent(event=Shutdown(reason=f"the bridge ended with status {event.returncode}"))

    return LaunchDescription(
        [
            *_own_domain(),
            RegisterEventHandler(OnProcessExit(on_exit=stop_waiting)),
            RegisterEventHandler(OnBridgeReady(target_action=ready, on_ready=[ReadyToTest()])),
            IncludeLaunchDescription(source, launch_arguments=texts.items()),
            *actions,
            ready,
        ]
    )


def _launch_file() -> Path:
    try:
        share = get_package_share_directory("usd_ros_bridge")
    except LookupError as error:
        raise BridgeError(
            "usd_ros_bridge is no installed ROS package: source its workspace, or install its wheel"
        ) from error
    return Path(share) / "launch" / "bridge.launch.py"


def _argument_text(value: object) -> str:
    """Return a value as the text of a launch argument."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _own_domain() -> list[SetEnvironmentVariable]:
    """Return what sets a domain that no other test run of the machine uses, unless the environment has one."""
    if os.environ.get(_DOMAIN_ID):
        return []
    # It belongs to this process until its end: launch leaves the variable to the tests that run in it.
    _reservations.append(reserve_domain())
    return [
        SetEnvironmentVariable(_DOMAIN_ID, str(_reservations[-1].domain_id)),
        SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST"),
    ]
