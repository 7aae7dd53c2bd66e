"""Actions of the plan: servers that reject goals while nothing handles them, and clients."""

from __future__ import annotations

from typing import Any

from rclpy.action import ActionClient as RosActionClient
from rclpy.action import ActionServer as RosActionServer
from rclpy.action import GoalResponse

from usd_ros_bridge.model.plan import ActionPlan
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.status import InterfaceStatus

NO_HANDLER = "no handler is bound to this action"


class ActionServer:
    """Rejects every goal, so that no client waits for a result that will not come."""

    def __init__(self, plan: ActionPlan, action_class: Any, domain: Domain, report: Report) -> None:
        """Stores what to serve; `open` creates the server."""
        self.plan = plan
        self._class = action_class
        self._domain = domain
        self._report = report
        self._server: Any = None
        self._goals = 0

    def open(self) -> None:
        """Creates the server."""
        self._server = RosActionServer(
            self._domain.node, self._class, self.plan.name, self._execute, goal_callback=self._on_goal
        )

    def close(self) -> None:
        """Destroys the server. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.destroy()

    def status(self) -> InterfaceStatus:
        """Returns a row."""
        return _row(self.plan, self._domain, count=self._goals, reason=NO_HANDLER)

    def _on_goal(self, goal: Any) -> Any:  # noqa: ARG002 - rclpy's signature
        self._goals += 1
        self._report(
            f"action.rejected:{self.plan.path}",
            f"{self.plan.path}: a goal for {self.plan.name} was rejected: {NO_HANDLER}",
        )
        return GoalResponse.REJECT

    def _execute(self, goal_handle: Any) -> Any:
        # rclpy demands it, and calls it for accepted goals only.
        goal_handle.abort()
        return self._class.Result()


class ActionClient:
    """A client, there for whoever binds to its prim."""

    def __init__(self, plan: ActionPlan, action_class: Any, domain: Domain) -> None:
        """Stores what to call; `open` creates the client."""
        self.plan = plan
        self._class = action_class
        self._domain = domain
        self._client: Any = None

    def open(self) -> None:
        """Creates the client."""
        self._client = RosActionClient(self._domain.node, self._class, self.plan.name)

    def close(self) -> None:
        """Destroys the client. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.destroy()

    def status(self) -> InterfaceStatus:
        """Returns a row."""
        return _row(self.plan, self._domain, count=0, reason="nothing here calls it")


def _row(plan: ActionPlan, domain: Domain, *, count: int, reason: str) -> InterfaceStatus:
    # An action is three services and two topics; whoever uses it uses this one.
    goal_service = domain.node.resolve_service_name(f"{plan.name}/_action/send_goal")
    server = plan.role == "server"
    return InterfaceStatus(
        kind="action",
        role=plan.role,
        path=plan.path,
        name=plan.name,
        type=plan.type,
        domain_id=domain.domain_id,
        matched=domain.node.count_clients(goal_service)
        if server
        else domain.node.count_services(goal_service),
        count=count,
        state="silent",
        reason=reason,
    )
