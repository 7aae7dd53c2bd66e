"""Server for the Foxglove app: what a bridge publishes, its parameters and services, and what the app publishes."""

from __future__ import annotations

import operator
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import foxglove
from foxglove import Service
from foxglove.websocket import Capability

from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.foxglove.client_publishing import ENCODINGS, ClientPublishers
from usd_ros_bridge.ros.foxglove.live_channels import LiveChannels
from usd_ros_bridge.ros.foxglove.mesh_assets import MeshAssets
from usd_ros_bridge.ros.foxglove.parameter_access import ParameterAccess
from usd_ros_bridge.ros.foxglove.push_connection import PushConnection
from usd_ros_bridge.ros.foxglove.server_link import ServerLink
from usd_ros_bridge.ros.foxglove.service_calls import OfferedService, ServiceCalls
from usd_ros_bridge.ros.foxglove.websocket_gate import WebSocketGate
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.web_requests import RequestRule, is_loopback

TIME_RATE: Final = 25.0
"""Highest rate at which clients get bridge time, Hz."""

APP_ORIGIN: Final = "https://app.foxglove.dev"
"""Origin of the app in a browser."""

STOP_S: Final = 0.6
"""Time for clients to be disconnected. foxglove-sdk waits for clients that do not read, without an end."""

WAITING_BYTES: Final = 2**28
"""Bytes of messages that wait for a client that reads too slowly, about; the oldest are dropped."""

_LEAST_WAITING, _MOST_WAITING = 64, 1024
_CHANNELS_A_MESSAGE = 100
"""Channels that foxglove-sdk advertises in one message."""


class FoxgloveServer:
    """foxglove-sdk's WebSocket server for a bridge.

    foxglove-sdk calls `Listener` in threads of its own. ROS entities are created and destroyed in the threads of their
    domains.
    """

    def __init__(
        self,
        options: BridgeOptions,
        domains: Domains,
        *,
        plan: Callable[[], BridgePlan],
        channels: LiveChannels,
        workers: Workers,
        report: Report,
        inform: Report,
    ) -> None:
        """Store the arguments; `open` starts.

        Args:
            options: Options of the bridge.
            domains: Domains of the bridge.
            plan: Return the plan in use.
            channels: Channels of the bridge's topics.
            workers: Wait for answers.
            report: For what goes wrong.
            inform: For the address of the server.
        """
        self._options = options
        self._report = report
        self._inform = inform
        self._plan = plan
        self._channels = channels
        # Without control, no function is there that could change anything, whatever clients send.
        self._controls = options.foxglove_control
        self._listener = ControlListener(self) if self._controls else Listener(self)
        self._meshes = MeshAssets(options.mesh_directory) if options.publish_description else None
        rule = RequestRule(
            options.foxglove_host, origins=(APP_ORIGIN, *options.foxglove_origins), any_port=True
        )
        self._gate = WebSocketGate(rule, report=report)
        self._port = 0
        self._push = PushConnection(failed=partial(_report_push, report))
        # Parts refer to the link and not to this object, so that a closed server is freed at once.
        self.link = ServerLink(domains.main, report=report)
        self.parameters = ParameterAccess(domains.main, changed=self._push.notify, notify=self.link.warn)
        self.services = ServiceCalls(domains, workers=workers, report=report)
        self.publishers = ClientPublishers(
            domains, plan=plan, is_own=channels.has_topic, workers=workers, notify=self.link.warn
        )

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self, services: Iterable[OfferedService], *, now_ns: Callable[[], int] | None) -> None:
        """Start the server.

        Args:
            services: What clients may call.
            now_ns: Return bridge time, nanoseconds, where it is not wall time; else None.

        Raises:
            BridgeError: foxglove-sdk is too old.
            OptionError: The server cannot have its address.
        """
        self._port = self._gate.listen(self._options.foxglove_host, self._options.foxglove)
        capabilities = []
        if self._controls:
            capabilities = [Capability.Parameters, Capability.Services]
            self.parameters.open()
        if self._drives:
            capabilities.append(Capability.ClientPublish)
        if now_ns is not None:
            capabilities.append(Capability.Time)
        self._channels.set_time(now_ns or time.time_ns)
        self._channels.start()
        _, offered = self.services.change(services if self._controls else ())
        host, server = self._start_server(capabilities, offered)
        _stop_logging()
        self.link.attach(server)
        self._push.set_address(host, server.port)
        self._gate.start((host, server.port))
        self._tell_address()

    def _start_server(self, capabilities: list[Capability], services: list[Service]) -> tuple[str, Any]:
        """Start foxglove-sdk's server behind the gate. Return its address and the server.

        Raises:
            BridgeError: foxglove-sdk is too old, or cannot start its server.
        """
        fault = ""
        for host in _inner_addresses():
            try:
                return host, foxglove.start_server(
                    name=f"usd_ros_bridge: {escaped(self._plan().asset)}",
                    host=host,
                    port=0,
                    capabilities=capabilities,
                    server_listener=self._listener,
                    supported_encodings=list(ENCODINGS),
                    services=services,
                    asset_handler=None if self._meshes is None else self._meshes.read,
                    context=self._channels.context,
                    message_backlog_size=backlog_size(self._plan()),
                )
            except TypeError as error:
                raise BridgeError(
                    "foxglove-sdk is older than 0.30, which the server needs: pip install --upgrade foxglove-sdk"
                ) from error
            except (RuntimeError, OverflowError, ValueError) as error:
                fault = describe(error)
        raise BridgeError(f"the server for Foxglove cannot be started: {fault}")

    def close(self) -> None:
        """Disconnect all clients and end the server, within a second. Idempotent."""
        self._listener.close()
        # First what clients wait for: the server ends when they do not wait any more.
        self.parameters.close()
        self.services.close()
        server = self.link.detach()
        if server is not None:
            stopping = threading.Thread(
                target=_stop, args=(server,), name="usd_ros_bridge-foxglove-stop", daemon=True
            )
            stopping.start()
            stopping.join(STOP_S)
        # This also disconnects clients that do not read, for which foxglove-sdk waits.
        self._gate.close()
        self._port = 0
        self._push.close()
        self.publishers.close()
        self._channels.close()

    @property
    def port(self) -> int:
        """The port for clients, 0 while the server is closed."""
        return self._port

    # --- For the bridge ----------------------------------------------------------------------------------------

    def change_services(self, services: Iterable[OfferedService]) -> None:
        """Offer other services: the plan has changed."""
        if not self._controls:
            return
        gone, new = self.services.change(services)
        if gone:
            self.link.call(lambda server: server.remove_services(gone))
        if new:
            self.link.call(lambda server: server.add_services(new))

    # --- For the listener --------------------------------------------------------------------------------------

    def follow_parameters(self) -> None:
        """Send changed parameters to clients from here on."""
        self._push.start()

    def take_pushed(self, names: Sequence[str]) -> frozenset[str] | None:
        """Return the parameters to send now if these names are the server's request to itself, else None."""
        return self._push.take_changed() if self._push.token in names else None

    def send_first(self, topic: str) -> None:
        """Send a client that has just subscribed to a topic what it has missed."""
        self._channels.send_latched(topic)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _tell_address(self) -> None:
        host = self._options.foxglove_host
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        looks = "; apps only look: --foxglove-control (foxglove_control) lets them drive"
        self._inform(
            "foxglove",
            f"Foxglove: open a connection to ws://{shown}:{self.port} (Foxglove WebSocket)"
            f"{'' if self._controls else looks}",
        )
        if not is_loopback(host):
            can = "drive the robots, call services and set parameters" if self._drives else "see everything"
            self._report(
                "foxglove.open", f"everybody who reaches {shown}:{self.port} can {can}: there is no password"
            )

    @property
    def _drives(self) -> bool:
        return self._controls and self._options.remote_control == "all"


class Listener:
    """Functions that foxglove-sdk calls for clients that look, in its threads. None waits for long, and none raises.

    foxglove-sdk keeps it as long as a client is connected: one that does not read keeps the server from ending.
    """

    # foxglove-sdk calls this while it holds a lock that another thread may wait for with Python's global lock. A
    # function in C does not let go of that: neither thread waits for the other.
    on_unsubscribe = operator.is_

    def __init__(self, server: FoxgloveServer) -> None:
        """Args: server: The server."""
        self._server: FoxgloveServer | None = server

    def close(self) -> None:
        """Do nothing from here on. Idempotent."""
        self._server = None

    def on_subscribe(self, client: Any, channel: Any) -> None:  # noqa: ARG002 - foxglove-sdk's
        """Send what a client has missed of a topic."""
        if (server := self._server) is not None:
            server.send_first(channel.topic)


class ControlListener(Listener):
    """The functions for clients that also drive."""

    def on_client_advertise(self, client: Any, channel: Any) -> None:
        """Create a publisher."""
        if (server := self._server) is not None:
            server.publishers.advertise(
                client.id,
                channel.id,
                topic=channel.topic,
                encoding=channel.encoding,
                type_name=channel.schema_name,
            )

    def on_client_unadvertise(self, client: Any, channel: int) -> None:
        """Destroy a publisher."""
        if (server := self._server) is not None:
            server.publishers.unadvertise(client.id, channel)

    def on_message_data(self, client: Any, channel: int, data: bytes) -> None:
        """Publish a message."""
        if (server := self._server) is not None:
            server.publishers.receive(client.id, channel, data)

    def on_get_parameters(
        self,
        client: Any,  # noqa: ARG002 - foxglove-sdk's
        names: list[str],
        request: str | None = None,  # noqa: ARG002
    ) -> list[Any]:
        """Return parameters."""
        server = self._server
        return [] if server is None else server.parameters.get(names)

    def on_set_parameters(
        self,
        client: Any,  # noqa: ARG002 - foxglove-sdk's
        parameters: list[Any],
        request: str | None = None,  # noqa: ARG002
    ) -> list[Any]:
        """Set parameters. Return them as they are: foxglove-sdk sends them to the clients that subscribe to them."""
        server = self._server
        if server is None:
            return []
        changed = server.take_pushed([each.name for each in parameters])
        if changed is None:
            return server.parameters.set(parameters)
        return server.parameters.get(sorted(changed)) if changed else []

    def on_parameters_subscribe(self, names: list[str]) -> None:  # noqa: ARG002 - foxglove-sdk's
        """Begin to send changed parameters."""
        if (server := self._server) is not None:
            server.follow_parameters()

    def on_parameters_unsubscribe(self, names: list[str]) -> None:
        """Do nothing: the server sends changes to nobody then."""


class TimeBroadcast(Publication):
    """Send clients bridge time. A publication that publishes nothing: it has a rate."""

    def __init__(self, link: ServerLink) -> None:
        """Args: link: Link to the server."""
        super().__init__()
        self._link = link

    def publish(self, snapshot: Snapshot) -> bool:
        """Send clients the time of a snapshot."""
        time_ns = max(snapshot.time_ns, 0)
        self._link.call(lambda server: server.broadcast_time(time_ns))
        return False


def backlog_size(plan: BridgePlan) -> int:
    """Return how many messages may wait for a client that reads slowly: fewer where they are images."""
    largest = max((4 * each.width * each.height for each in plan.scene.cameras), default=1)
    topics = len(plan.topics) + 8 * len(plan.robots)
    # What is advertised to a new client waits in a queue of the same size.
    least = _LEAST_WAITING + topics // _CHANNELS_A_MESSAGE
    return max(least, min(_MOST_WAITING, WAITING_BYTES // largest))


def _report_push(report: Report, reason: str) -> None:
    report(
        "foxglove.push",
        f"Foxglove is not notified of changed parameters, only when it asks for them: {reason}",
    )


def _inner_addresses() -> Iterator[str]:
    """Yield addresses for foxglove-sdk's server, best first. It takes connections of every web page.

    On Linux all of 127.0.0.0/8 is this machine: no page can try 2^24 addresses with 28,000 ports each. Elsewhere there
    is 127.0.0.1 alone: a page that tries all ports, for minutes, finds the server.
    """
    if sys.platform == "linux":
        yield ".".join(map(str, (127, *(secrets.choice(range(1, 255)) for _ in range(3)))))
    yield "127.0.0.1"


def _stop(server: Any) -> None:
    try:
        server.stop()
    except (RuntimeError, BridgeError):
        # It is in use in another thread, for a moment: foxglove-sdk drops it with the last reference.
        return


def _stop_logging() -> None:
    """Stop the log lines of foxglove-sdk's threads.

    They wait for Python's global lock, with locks that Python's threads wait for: the process may stand still.
    """
    from foxglove._foxglove_py import disable_logging

    disable_logging()
