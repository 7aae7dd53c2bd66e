"""Graph client: what the page needs of ROS 2, in contexts of its own. To the bridge it is a peer as any other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from usd_ros_bridge.model.plan import ActionPlan, QosPlan, ServicePlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.service import ServiceClient
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface
from usd_ros_bridge.ros.workers import Workers

NODE_NAME = "usd_ros_bridge_view"
DELIVERY_S = 1.0
"""Time that readers have to acknowledge what was published last, seconds."""


class GraphClient:
    """Create subscriptions, publishers and clients, and destroy them. Callbacks run in the thread of their domain.

    Nothing here waits: calls return futures, whose callbacks run in threads of the client.
    """

    def __init__(self, *, domain_id: int | None = None, report: Report) -> None:
        """Store the arguments; `open` makes the node.

        Args:
            domain_id: The default domain; None for the process's (ROS_DOMAIN_ID).
            report: For callbacks that raise.
        """
        self._domains = Domains(node_name=NODE_NAME, domain_id=domain_id, report=report)
        self._report = report
        self._catalog = AmentCatalog()
        self._workers = Workers()
        self._opened: dict[int, tuple[Domain, Any]] = {}

    def open(self) -> GraphClient:
        """Make the node of the default domain."""
        self._domains.get(None)
        return self

    def close(self) -> None:
        """Destroy everything, once readers have what was published. Calls in progress fail. Idempotent."""
        self._wait_for_readers()
        for _, entity in tuple(self._opened.values()):
            self.destroy(entity)
        self._workers.close()
        self._domains.stop()
        self._domains.close()

    def node(self, domain_id: int | None = None) -> Any:
        """Return the rclpy node of a domain, for what this class has no method for, such as the graph's names."""
        return self._domains.get(domain_id).node

    def type_of(self, name: str) -> Any:
        """Return the class of a message, service or action type.

        Raises:
            InterfaceTypeError: It is not installed.
        """
        return import_interface(name, self._catalog)

    def subscribe(
        self,
        topic: str,
        type_name: str,
        callback: Callable[[Any], object],
        *,
        qos: QosPlan | None = None,
        raw: bool = False,
        domain_id: int | None = None,
    ) -> Any:
        """Subscribe to a topic. Return the rclpy subscription, for `destroy`.

        Args:
            topic: Absolute name.
            type_name: As `sensor_msgs/msg/LaserScan`.
            callback: Called with each message, or with its bytes, in the thread of the domain.
            qos: What is asked for; None: best effort and volatile, which any publisher matches.
            raw: Call with the serialized message.
            domain_id: The domain, None for the default one.

        Raises:
            InterfaceTypeError: The type is not installed.
        """
        domain = self._domains.get(domain_id)
        profile = qos_profiles.profile(qos or qos_profiles.permissive(QosPlan()))
        entity = domain.node.create_subscription(self.type_of(type_name), topic, callback, profile, raw=raw)
        return self._keep(domain, entity)

    def publisher(
        self, topic: str, type_name: str, *, qos: QosPlan | None = None, domain_id: int | None = None
    ) -> Any:
        """Return a new rclpy publisher; arguments and errors as of `subscribe`, reliable by default."""
        domain = self._domains.get(domain_id)
        profile = qos_profiles.profile(qos or QosPlan())
        return self._keep(domain, domain.node.create_publisher(self.type_of(type_name), topic, profile))

    def timer(self, period_s: float, callback: Callable[[], object], *, domain_id: int | None = None) -> Any:
        """Return a new rclpy timer on wall time, for `destroy`.

        Args:
            period_s: Seconds.
            callback: Called in the thread of the domain.
            domain_id: The domain, None for the default one.
        """
        from rclpy.clock import Clock, ClockType

        domain = self._domains.get(domain_id)
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        return self._keep(domain, domain.node.create_timer(period_s, callback, clock=clock))

    def client(self, service: str, type_name: str, *, domain_id: int | None = None) -> Any:
        """Return a new rclpy service client, for what waits for the answer itself; errors as of `subscribe`."""
        domain = self._domains.get(domain_id)
        return self._keep(domain, domain.node.create_client(self.type_of(type_name), service))

    def service_client(self, service: str, type_name: str, *, domain_id: int | None = None) -> ServiceClient:
        """Return a new service client with time-outs, for `destroy`; errors as of `subscribe`.

        Its `call(request, timeout=...)` waits for a server, and for the answer, without blocking the caller.
        """
        domain = self._domains.get(domain_id)
        plan = ServicePlan(path=service, role="client", name=service, type=type_name)
        client = ServiceClient(plan, self.type_of(type_name), domain, workers=self._workers)
        client.open()
        self._keep(domain, client)
        return client

    def action_client(self, action: str, type_name: str, *, domain_id: int | None = None) -> ActionClient:
        """Return a new action client, for `destroy`; errors as of `subscribe`.

        Its `call(goal, feedback=..., timeout=...)` sends a goal once there is a server, without blocking the caller.
        """
        domain = self._domains.get(domain_id)
        plan = ActionPlan(path=action, role="client", name=action, type=type_name)
        client = ActionClient(plan, self.type_of(type_name), domain, self._report, workers=self._workers)
        client.open()
        self._keep(domain, client)
        return client

    def has_service(self, name: str, *, domain_id: int | None = None) -> bool:
        """Return whether a server of a service has been discovered."""
        return bool(self._domains.get(domain_id).node.count_services(name))

    def adopt(self, entity: Any, *, domain_id: int | None = None) -> Any:
        """Destroy an entity that was made for a node of this client together with all others. Return it."""
        return self._keep(self._domains.get(domain_id), entity)

    def destroy(self, entity: Any) -> None:
        """Destroy what a method of this class returned. A second call has no effect."""
        found = self._opened.pop(id(entity), None)
        if found is None:
            return
        if isinstance(entity, (ServiceClient, ActionClient)):
            entity.close()
        else:
            found[0].destroy(entity)

    def _wait_for_readers(self) -> None:
        """Wait until reliable readers have acknowledged all messages, for at most `DELIVERY_S` in all.

        With its publisher, a message that was lost on the way would be gone: the zero that stops a robot, too.
        """
        from rclpy.duration import Duration
        from rclpy.publisher import Publisher

        end_s = time.monotonic() + DELIVERY_S
        for _, entity in tuple(self._opened.values()):
            if isinstance(entity, Publisher):
                entity.wait_for_all_acked(Duration(seconds=max(end_s - time.monotonic(), 0.0)))

    def _keep(self, domain: Domain, entity: Any) -> Any:
        self._opened[id(entity)] = (domain, entity)
        return entity
