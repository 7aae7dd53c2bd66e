"""Run the bridge as a node of its own: `ros2 run usd_ros_bridge bridge` and `usd_ros_bridge run`."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.errors import OptionError, StrictError, escaped
from usd_ros_bridge.model.diagnostics import has_errors
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BRIDGE, BridgeOptions, NodeOptions, Role, make_node_options
from usd_ros_bridge.planning.names import namespace_fault
from usd_ros_bridge.process_settings import tune_process
from usd_ros_bridge.reporting import log_warning
from usd_ros_bridge.ros import parameters
from usd_ros_bridge.ros.backend_choice import AUTO, wants_physics
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.bridge_status import BridgeStatus
from usd_ros_bridge.ros.description.robot_description import declare_description
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.interface_types import AmentCatalog
from usd_ros_bridge.ros.signals import Ending, ended_by_signals, run_interruptibly
from usd_ros_bridge.ros.transport import (
    keep_to_udp_where_shared_memory_is_full,
    use_large_message_transport,
)
from usd_ros_bridge.usd.session import quiet

_DIAGNOSTICS_SHOWN = 100
"""Diagnostics of one severity and code that are logged at the start."""

View = Callable[[Callable[[], BridgeStatus]], AbstractContextManager[object]]
"""`view(status)` shows what `status()` returns, again and again, while the context that it returns is entered."""


def run_node(
    *,
    given: Mapping[str, Any] | None = None,
    ros_args: Sequence[str] = (),
    role: Role = BRIDGE,
    view: View | None = None,
) -> None:
    """Run a bridge in a node of its own, in the main thread, until SIGINT or SIGTERM.

    Args:
        given: Options that win over the node's parameters, by name. `backend_options` are added to the parameter's.
        ros_args: ROS arguments (`--ros-args ...`).
        role: What the node is.
        view: Show the running bridge.

    Raises:
        BridgeError: The caller's mistake.
        StrictError: The asset has errors and `strict` was asked for.
    """
    given = given or {}
    namespace = given.get("namespace", "").strip("/")
    fault = namespace_fault("/" + namespace)
    if fault:
        # Before rclpy sees it: that would add lines of its own.
        raise OptionError(f"namespace {namespace!r} {fault}")
    tune_process()
    with ended_by_signals() as ending:
        # Read by the middleware with its first node, which is before any parameter can be.
        without_shared_memory = keep_to_udp_where_shared_memory_is_full()
        use_large_message_transport(discovery_thread=True)
        domains = Domains(
            node_name=role.node_name, namespace=namespace or None, ros_args=ros_args, report=log_warning
        )
        try:
            node = domains.main.node
            if without_shared_memory:
                node.get_logger().warning(without_shared_memory)
            values = parameters.declare(node, role.defaults)
            values |= {
                **given,
                "backend_options": values["backend_options"] | given.get("backend_options", {}),
            }
            description = declare_description(node) if role.description_parameter else ""
            _check_asset(values["asset"], description)
            options = make_node_options(values, node_namespace=node.get_namespace())
            # Before anything is said about the asset, so that a mistyped name is the one line that is printed.
            if options.backend != AUTO:
                load_backend(options.backend)
            plan = _load(options, node)
            bridge = Bridge(plan, options.backend, options=options.bridge, node=domains)
            _run(bridge, ending, view, options.bridge)
        finally:
            domains.close()


def _check_asset(asset: str, description: str) -> None:
    if asset:
        return
    if description:
        raise OptionError("robot_description is made from the parameter asset, an OpenUSD file: give that")
    raise OptionError("no asset given: set the parameter asset (--ros-args -p asset:=robot.usda)")


def _run(bridge: Bridge, ending: Ending, view: View | None, options: BridgeOptions) -> None:
    try:
        bridge.open()
        # What there is by now stays: a search of all of it, now and then, would hold up a tick.
        gc.freeze()
        ending.stop = bridge.stop
        if bridge.time is None and (options.start_paused or options.real_time_factor != 1.0):
            bridge.node.get_logger().info(
                f"real_time_factor and pause mean nothing here: the backend {bridge.status().backend} follows time"
            )
        bridge.node.get_logger().info(escaped(bridge.summary()))
        with view(bridge.status) if view is not None else nullcontext():
            if not ending.asked:
                bridge.spin()
    finally:
        bridge.close()


def _load(options: NodeOptions, node: Any) -> BridgePlan:
    logger, follows_clock = node.get_logger(), bool(node.get_clock().ros_time_is_active)

    def load() -> BridgePlan:
        with quiet():
            return load_plan(
                options.asset,
                read_options=options.read,
                plan_options=options.plan,
                catalog=AmentCatalog(),
                # Here and not when the bridge opens, so that what is wrong with it counts for `strict`.
                physics=wants_physics(options.backend, follows_clock=follows_clock),
            )

    plan = run_interruptibly(load)
    shown = Counter[tuple[str, str]]()
    for diagnostic in plan.diagnostics:
        sort = (diagnostic.severity, diagnostic.code)
        shown[sort] += 1
        if shown[sort] > _DIAGNOSTICS_SHOWN:
            continue
        # One line each: rclpy keeps a severity per calling line, and refuses another one there.
        if diagnostic.severity == "error":
            logger.error(str(diagnostic))
        elif diagnostic.severity == "warning":
            logger.warning(str(diagnostic))
        else:
            logger.info(str(diagnostic))
    hidden = sum(max(count - _DIAGNOSTICS_SHOWN, 0) for count in shown.values())
    if hidden:
        logger.warning(
            f"{hidden} more diagnostics of the asset are not shown, only {_DIAGNOSTICS_SHOWN} of each code: "
            "usd_ros_bridge inspect shows all"
        )
    if options.strict and has_errors(plan.diagnostics):
        raise StrictError(f"{options.asset} has errors, and strict was asked for")
    return plan
