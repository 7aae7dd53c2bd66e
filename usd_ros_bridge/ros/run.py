"""Runs the bridge as a node of its own: what `ros2 run usd_ros_bridge bridge` and `usd_ros_bridge run` do."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.model.diagnostics import escaped, has_errors
from usd_ros_bridge.model.errors import OptionError, StrictError
from usd_ros_bridge.model.options import PlanOptions, ReadOptions
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning.names import namespace_fault
from usd_ros_bridge.ros import parameters
from usd_ros_bridge.ros.backend_choice import AUTO, wants_physics
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.description_parameter import declare_description
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.parameters import NodeOptions
from usd_ros_bridge.ros.roles import BRIDGE, Role
from usd_ros_bridge.ros.signals import Ending, ended_by_signals, run_interruptibly
from usd_ros_bridge.ros.simulation.spawn_options import SpawnOptions
from usd_ros_bridge.ros.status import BridgeStatus
from usd_ros_bridge.ros.transport import (
    keep_to_udp_where_shared_memory_is_full,
    use_large_message_transport,
)
from usd_ros_bridge.ros.types import AmentCatalog
from usd_ros_bridge.runtime.report import log_warning
from usd_ros_bridge.runtime.time_control import TimeOptions
from usd_ros_bridge.usd import quiet

_DIAGNOSTICS_SHOWN = 100
"""Diagnostics of one severity and code that are logged at the start."""

View = Callable[[Callable[[], BridgeStatus]], AbstractContextManager[object]]
"""`view(status)` shows what `status()` returns, again and again, while the context that it returns is entered."""


def run_node(
    *,
    asset: str | None = None,
    backend: str | None = None,
    backend_options: Mapping[str, str] | None = None,
    real_time_factor: float | None = None,
    paused: bool = False,
    read_options: ReadOptions | None = None,
    plan_options: PlanOptions | None = None,
    strict: bool = False,
    watch: bool = False,
    ros_args: Sequence[str] = (),
    role: Role = BRIDGE,
    view: View | None = None,
) -> None:
    """Runs a bridge in a node of its own, in the main thread, until SIGINT or SIGTERM.

    What is given here wins over the node's parameters, and those over their defaults.

    Args:
        asset: The asset; None for the parameter's.
        backend: Name of the backend; None for the parameter's.
        backend_options: Options of the backend, added to the parameter's.
        real_time_factor: Seconds of bridge time in a second where the backend owns time; None for the parameter's.
        paused: Have time that the backend owns stand still at first.
        read_options: How the asset is opened; fields at their default are the parameters' to decide.
        plan_options: How it is planned; fields at their default are the parameters' to decide.
        strict: Refuse an asset with errors.
        watch: Read files of the asset again where they change.
        ros_args: ROS arguments (`--ros-args ...`).
        role: What the node is.
        view: Shows the running bridge.

    Raises:
        BridgeError: The caller's mistake.
        StrictError: The asset has errors and `strict` was asked for.
    """
    namespace = plan_options.namespace.strip("/") if plan_options is not None else ""
    fault = namespace_fault("/" + namespace)
    if fault:
        # Before rclpy sees it: that would add lines of its own.
        raise OptionError(f"namespace {namespace!r} {fault}")
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
            given = declare_description(node) if role.description_parameter else ""
            options = parameters.options_from(values, node_namespace=node.get_namespace())
            if given and not (asset or options.asset):
                raise OptionError(
                    "robot_description is made from the parameter asset, an OpenUSD file: give that"
                )
            options = _overlaid(options, asset, backend, backend_options, read_options, plan_options, strict)
            timed = _timed(options.time, real_time_factor, paused=paused)
            options = replace(options, time=timed, watch=watch or options.watch)
            if options.watch:
                options = replace(options, read=replace(options.read, private_copies=True))
            # Before anything is said about the asset, so that a mistyped name is the one line that is printed.
            if options.backend != AUTO:
                load_backend(options.backend)
            plan = _load(options, node)
            bridge = Bridge(
                plan,
                options.backend,
                backend_options=options.backend_options,
                tf_rate=options.tf_rate,
                publish_description=options.description.publish,
                mesh_directory=options.description.meshes,
                publish_diagnostics=options.diagnostics.publish,
                diagnostics_rate=options.diagnostics.rate,
                controller_rate=options.plan.controller_rate,
                time_options=options.time,
                spawning=SpawnOptions(roots=options.spawn_roots),
                handlers=options.handlers,
                watch=options.watch,
                remote_control=options.remote_control,
                domains=domains,
            )
            _run(bridge, ending, view, options.time)
        finally:
            domains.close()


def _run(bridge: Bridge, ending: Ending, view: View | None, time: TimeOptions) -> None:
    try:
        bridge.open()
        # What there is by now stays: a search of all of it, now and then, would hold up a tick.
        gc.freeze()
        ending.stop = bridge.stop
        if bridge.time is None and (time.paused or time.real_time_factor != 1.0):
            bridge.node.get_logger().info(
                f"real_time_factor and pause mean nothing here: the backend {bridge.status().backend} follows time"
            )
        bridge.node.get_logger().info(escaped(bridge.summary()))
        with view(bridge.status) if view is not None else nullcontext():
            if not ending.asked:
                bridge.spin()
    finally:
        bridge.close()


def _overlaid(
    options: NodeOptions,
    asset: str | None,
    backend: str | None,
    backend_options: Mapping[str, str] | None,
    read_options: ReadOptions | None,
    plan_options: PlanOptions | None,
    strict: bool,
) -> NodeOptions:
    options = replace(
        options,
        asset=asset or options.asset,
        strict=strict or options.strict,
        backend=backend or options.backend,
        backend_options={**options.backend_options, **(backend_options or {})},
        read=parameters.overlaid(options.read, read_options),
        plan=parameters.overlaid(options.plan, plan_options),
    )
    if not options.asset:
        raise OptionError("no asset given: set the parameter asset (--ros-args -p asset:=robot.usda)")
    return options


def _timed(options: TimeOptions, real_time_factor: float | None, *, paused: bool) -> TimeOptions:
    factor = options.real_time_factor if real_time_factor is None else real_time_factor
    return replace(options, real_time_factor=factor, paused=paused or options.paused)


def _load(options: NodeOptions, node: Any) -> BridgePlan:
    logger, follows_clock = node.get_logger(), bool(node.get_clock().ros_time_is_active)

    def load() -> BridgePlan:
        with quiet():
            return load_plan(
                os.fspath(options.asset),
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
