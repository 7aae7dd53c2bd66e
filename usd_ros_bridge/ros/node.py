"""The bridge as a node of its own: the executables `bridge` and `robot_state_publisher`, and `usd_ros_bridge run`."""

from __future__ import annotations

from contextlib import closing, nullcontext

from usd_ros_bridge.process_settings import (
    Ending,
    announce,
    ended_by_signals,
    ending_at_once,
    fail,
    own_process,
    run_interruptibly,
    tune_process,
)

_planner = None
# A signal while modules are imported is no traceback, and neither is a missing one.
with own_process() if __name__ == "__main__" else nullcontext(), ending_at_once():
    if __name__ == "__main__":
        from usd_ros_bridge.planner_process import start_planner

        _planner = start_planner()

    import gc
    import sys
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager, ExitStack
    from dataclasses import replace
    from functools import partial
    from typing import Any, NoReturn

    from rclpy.utilities import remove_ros_args

    from usd_ros_bridge.api import load_plan
    from usd_ros_bridge.backends.registry import load_backend
    from usd_ros_bridge.errors import BridgeError, OptionError, escaped
    from usd_ros_bridge.export.rviz import start_lines
    from usd_ros_bridge.model.actuation import REPORTED_AT_RUN_TIME
    from usd_ros_bridge.model.diagnostics import grouped, refuse
    from usd_ros_bridge.model.plan import BridgePlan, TfOutput
    from usd_ros_bridge.options import BRIDGE, OPTIONS, BridgeOptions, NodeOptions, Role, make_node_options
    from usd_ros_bridge.planner_process import PlanJob, PlannerError, PlannerProcess
    from usd_ros_bridge.planning.names import namespace_fault
    from usd_ros_bridge.reporting import describe, log_warning
    from usd_ros_bridge.ros import parameters
    from usd_ros_bridge.ros.backend_choice import AUTO, wants_physics
    from usd_ros_bridge.ros.bridge import Bridge
    from usd_ros_bridge.ros.bridge_status import BridgeStatus
    from usd_ros_bridge.ros.compat import ROS_ERRORS, parameter_overrides
    from usd_ros_bridge.ros.description.robot_description import declare_description
    from usd_ros_bridge.ros.domains import Domains
    from usd_ros_bridge.ros.endpoints.handlers import are_installed
    from usd_ros_bridge.ros.foxglove.server_address import check_server
    from usd_ros_bridge.ros.interface_types import AmentCatalog
    from usd_ros_bridge.ros.transport import (
        SEGMENT_BYTES,
        WITHOUT_IMAGES_BYTES,
        keep_to_udp_where_shared_memory_is_full,
        use_large_message_transport,
    )
    from usd_ros_bridge.start_phases import NODE, OPENING, Progress, StartPhases
    from usd_ros_bridge.usd.session import DeferredStage

_WITHOUT_STAGE = frozenset({AUTO, "joint_states", "kinematic", "mujoco", "null", "playback"})
"""Backends that need a plan and no stage. Any other one may import the stage by itself."""

_WITHOUT_IMAGES = frozenset({"joint_states", "null"})
"""Backends without cameras, whose messages are smaller than images."""

_DIAGNOSTICS_SHOWN = 100
"""Groups of diagnostics of one severity and code that are logged at the start."""

View = Callable[[Callable[[], BridgeStatus]], AbstractContextManager[object]]
"""`view(status)` shows what `status()` returns, again and again, while the context that it returns is entered."""

Companion = Callable[[NodeOptions, Bridge], AbstractContextManager[object]]
"""`companion(options, bridge)` runs beside an open bridge while the context that it returns is entered."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    role: Role = BRIDGE,
    planner: PlannerProcess | None = None,
    phases: StartPhases | None = None,
) -> NoReturn:
    """Run the node and exit: 0, 1 (strict), or 2 (the caller's mistake, in one line on stderr).

    Args:
        arguments: What follows the executable's name; None for those of the process.
        role: What the node is.
        planner: Plans the asset, so that this process need not load OpenUSD.
        phases: Measures the start, from before ROS 2 was imported.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    status = 0
    with ending_at_once():
        try:
            with planner or nullcontext():
                _run_arguments(given, role, planner, phases)
        except BridgeError as error:
            status = fail(error)
    sys.exit(status)


def _run_arguments(
    arguments: list[str], role: Role, planner: PlannerProcess | None, phases: StartPhases | None
) -> None:
    try:
        rest = remove_ros_args(arguments)
    except ROS_ERRORS as error:
        raise OptionError(f"ROS 2 refuses its arguments: {describe(error)}") from error
    if "--help" in rest or "-h" in rest:
        print(_help(role))
        return
    asset = rest.pop(0) if rest and not rest[0].startswith("-") else None
    if rest:
        raise OptionError(f"unexpected argument {rest[0]!r}; it takes an asset, and --ros-args: see --help")
    given = {"asset": asset} if asset else None
    run_node(given=given, ros_args=arguments, role=role, planner=planner, phases=phases)


def _help(role: Role) -> str:
    """Return what --help prints: the usage, and each parameter with its default."""
    executable = "bridge" if role is BRIDGE else role.node_name
    lines = [
        f"usage: {executable} [ASSET] [--ros-args ROS_ARGUMENTS]",
        "",
        "Serve the robots of an OpenUSD asset as ROS 2 interfaces, until SIGINT or SIGTERM.",
        "",
        "  ASSET                  the asset: a path or package://NAME/PATH; the same as -p asset:=ASSET",
        "  -h, --help             print this help",
        "",
        "ROS arguments:",
        "  -p NAME:=VALUE         set a parameter",
        "  --params-file FILE     set those of a parameter file",
        "  -r __node:=NAME        set the node's name",
        "  -r __ns:=/NAMESPACE    set the node's namespace",
        "  --log-level LEVEL      debug, info, warn, error or fatal",
        "",
        "Parameters (default):",
    ]
    for name, option in OPTIONS.items():
        default = role.defaults.get(name, option.parameter_default)
        shown = f" ({default})" if default not in ("", [""]) else ""
        lines.append(f"  {name + shown:<34} {option.help}")
    return "\n".join(lines)


def run_node(
    *,
    given: Mapping[str, Any] | None = None,
    ros_args: Sequence[str] = (),
    role: Role = BRIDGE,
    view: View | None = None,
    companions: Sequence[Companion] = (),
    planner: PlannerProcess | None = None,
    phases: StartPhases | None = None,
) -> None:
    """Run a bridge in a node of its own, in the main thread, until SIGINT or SIGTERM.

    Args:
        given: Options that win over the node's parameters, by name. `backend_options` are added to the parameter's.
        ros_args: ROS arguments (`--ros-args ...`).
        role: What the node is.
        view: Show the running bridge.
        companions: What runs beside it, as the page in a browser.
        planner: Plans the asset, so that this process need not load OpenUSD. None: the asset is planned here.
        phases: Measures the start, and shows it. Without a view, the node's log has the phases.

    Raises:
        BridgeError: The caller's mistake.
        StrictError: The asset has what `strict` or `degraded` refuses.
    """
    given, phases = given or {}, phases or StartPhases()
    phases.begin(NODE)
    namespace = given.get("namespace", "").strip("/")
    fault = namespace_fault("/" + namespace)
    if fault:
        # Before rclpy sees it: that would add lines of its own.
        raise OptionError(f"namespace {namespace!r} {fault}")
    tune_process()
    with closing(phases), ended_by_signals() as ending, planner or nullcontext():
        # Read by the middleware with its first node, which is before any parameter can be.
        without_shared_memory = keep_to_udp_where_shared_memory_is_full()
        most_bytes = SEGMENT_BYTES if _may_send_images(role, given, ros_args) else WITHOUT_IMAGES_BYTES
        use_large_message_transport(discovery_thread=True, most_bytes=most_bytes)
        domains = Domains(
            node_name=role.node_name, namespace=namespace or None, ros_args=ros_args, report=log_warning
        )
        try:
            node = domains.main.node
            if without_shared_memory:
                node.get_logger().warning(without_shared_memory)
            values = parameters.declare(node, role.defaults, given)
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
            check_server(options.bridge, given=given)
            phases.log_to(lambda text: node.get_logger().info(escaped(text)))
            plan = _load(options, node, planner, phases)
            bridge = Bridge(plan, options.backend, options=options.bridge, node=domains)
            _run(
                bridge, ending, view, [partial(each, options) for each in companions], options.bridge, phases
            )
        finally:
            # Before what the nodes log at their end.
            phases.close()
            domains.close()


def _may_send_images(role: Role, given: Mapping[str, Any], ros_args: Sequence[str]) -> bool:
    """Return whether messages may be as large as images; before there is a node that could know its parameters."""
    if are_installed(None):
        return True
    if "backend" in given:
        backends: frozenset[str] | None = frozenset({given["backend"]})
    else:
        backends = parameters.possible_values("backend", ros_args)
    default = str(role.defaults.get("backend", OPTIONS["backend"].parameter_default))
    return backends is None or not (backends or {default}) <= _WITHOUT_IMAGES


def _check_asset(asset: str, description: str) -> None:
    if asset:
        return
    if description:
        raise OptionError("robot_description is made from the parameter asset, an OpenUSD file: give that")
    raise OptionError("no asset given: set the parameter asset (--ros-args -p asset:=robot.usda)")


def _run(
    bridge: Bridge,
    ending: Ending,
    view: View | None,
    companions: Sequence[Callable[[Bridge], AbstractContextManager[object]]],
    options: BridgeOptions,
    phases: StartPhases,
) -> None:
    try:
        bridge.open(progress=phases.begin)
        # What there is by now stays: a search of all of it, now and then, would hold up a tick.
        gc.freeze()
        ending.stop = bridge.stop
        _log_unknown_parameters(bridge.node)
        if bridge.time is None and (options.start_paused or options.real_time_factor != 1.0):
            bridge.node.get_logger().info(
                f"real_time_factor and pause mean nothing here: the backend {bridge.status().backend} follows time"
            )
        for line in _rviz_lines(bridge, options):
            bridge.node.get_logger().info(escaped(line))
        bridge.node.get_logger().info(escaped(phases.finish()))
        bridge.node.get_logger().info(escaped(bridge.summary()))
        with ExitStack() as stack:
            for companion in companions:
                stack.enter_context(companion(bridge))
            if view is not None:
                stack.enter_context(view(bridge.status))
            if not ending.asked:
                announce("ready", node=bridge.node.get_fully_qualified_name(), robots=len(bridge.plan.robots))
                bridge.spin()
            if not ending.asked:
                announce("finished")
    finally:
        bridge.close()


def _rviz_lines(bridge: Bridge, options: BridgeOptions) -> tuple[str, ...]:
    """Return how RViz is started for robots whose transforms are not on /tf."""

    def named(output: TfOutput) -> TfOutput:
        resolve = bridge.node.resolve_topic_name
        return replace(output, tf=resolve(output.tf), tf_static=resolve(output.tf_static))

    robots = [replace(each, tf_outputs=tuple(map(named, each.tf_outputs))) for each in bridge.plan.robots]
    return start_lines(robots, use_sim_time=bridge.time is not None and options.publish_clock)


def _log_unknown_parameters(node: Any) -> None:
    """Report what the node was given for parameters that it does not have; a file may be written for many nodes."""
    found = parameters.unknown_parameters(node)
    for line, is_warning in found[:_DIAGNOSTICS_SHOWN]:
        # One line each: rclpy keeps a severity per calling line, and refuses another one there.
        if is_warning:
            node.get_logger().warning(escaped(line))
        else:
            node.get_logger().info(escaped(line))
    if len(found) > _DIAGNOSTICS_SHOWN:
        node.get_logger().warning(f"the node has none of {len(found) - _DIAGNOSTICS_SHOWN} more parameters")


def _load(options: NodeOptions, node: Any, planner: PlannerProcess | None, phases: StartPhases) -> BridgePlan:
    job = PlanJob(
        asset=options.asset,
        read_options=options.read,
        plan_options=options.plan,
        catalog=AmentCatalog(),
        # Here and not when the bridge opens, so that its faults count for `strict`.
        physics=wants_physics(
            options.backend,
            follows_clock=bool(node.get_clock().ros_time_is_active),
            shard=options.plan.shard,
        ),
        describes=options.bridge.publish_description,
        mesh_directory=options.bridge.mesh_directory,
    )

    def begin(name: str) -> None:
        phases.begin(name, options.asset if name == OPENING else "")

    plan = _plan_elsewhere(job, options, node, planner, begin)
    plan = plan or run_interruptibly(partial(_plan_here, job, begin))
    _log_diagnostics(plan, node.get_logger())
    refuse(options.asset, plan.diagnostics, strict=options.strict, degraded=options.degraded)
    return plan


def _plan_elsewhere(
    job: PlanJob, options: NodeOptions, node: Any, planner: PlannerProcess | None, begin: Progress
) -> BridgePlan | None:
    """Return the plan that a planner process makes; None where there is none, or the stage is needed here anyway."""
    if planner is None:
        return None
    bridge = options.bridge
    if (
        options.backend not in _WITHOUT_STAGE
        or bridge.watch
        or bridge.spawn_roots
        or are_installed(bridge.handlers)
    ):
        planner.close()
        return None
    try:
        # In the main thread: a signal ends the wait.
        plan = planner.plan(job, begin)
    except PlannerError as error:
        node.get_logger().warning(
            f"the planner process {error}: the asset is planned in the node's own process"
        )
        return None
    stage = plan.stage
    if isinstance(stage, DeferredStage) and (
        any(topic.source and topic.enabled for topic in plan.topics) or _changes_at_start(node)
    ):
        # Ticks read these values; a change reads the stage in a thread of its own. To load OpenUSD there, while this
        # thread opens services and loads their libraries, may never end: each waits for what the other holds.
        run_interruptibly(stage.open)
    return plan


def _changes_at_start(node: Any) -> bool:
    """Return whether the node was given parameters that change interfaces as soon as it runs."""
    prefixes = (parameters.ENABLED, parameters.RATE)
    return any(name.startswith(prefixes) for name in parameter_overrides(node))


def _plan_here(job: PlanJob, begin: Progress) -> BridgePlan:
    from usd_ros_bridge.usd.session import quiet

    with quiet():
        return load_plan(
            job.asset,
            read_options=job.read_options,
            plan_options=job.plan_options,
            catalog=job.catalog,
            physics=job.physics,
            progress=begin,
        )


def _log_diagnostics(plan: BridgePlan, logger: Any) -> None:
    shown = Counter[tuple[str, str]]()
    # The bridge reports the others, as they are with the backend that it opens.
    for group in grouped(each for each in plan.diagnostics if each.code not in REPORTED_AT_RUN_TIME):
        severity = group.first.severity
        sort = (severity, group.first.code)
        shown[sort] += 1
        if shown[sort] > _DIAGNOSTICS_SHOWN:
            continue
        # One line each: rclpy keeps a severity per calling line, and refuses another one there.
        if severity == "error":
            logger.error(str(group))
        elif severity == "warning":
            logger.warning(str(group))
        else:
            logger.info(str(group))
    hidden = sum(max(count - _DIAGNOSTICS_SHOWN, 0) for count in shown.values())
    if hidden:
        logger.warning(
            f"{hidden} more diagnostics of the asset are not shown, only {_DIAGNOSTICS_SHOWN} of each code: "
            "usd_ros_bridge inspect shows all"
        )


if __name__ == "__main__":
    with own_process():
        main(planner=_planner)
