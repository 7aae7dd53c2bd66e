"""`run --no-ros`: record an asset without a node. Diagnostics and news go to standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from usd_ros_bridge.cli.common import installed_types, load_asset
from usd_ros_bridge.errors import OptionError, escaped
from usd_ros_bridge.model.diagnostics import grouped, refuse
from usd_ros_bridge.options import OPTIONS, NodeOptions, make_node_options
from usd_ros_bridge.process_settings import ended_by_signals, missing_requirements_explained


def run_offline(given: Mapping[str, Any]) -> None:
    """Run the bridge without ROS 2's middleware until its duration is over, or SIGINT or SIGTERM.

    Args:
        given: Options that were given, by their names in the table.

    Raises:
        BridgeError: The caller's mistake.
        StrictError: The asset has what `strict` or `degraded` refuses.
    """
    with missing_requirements_explained():
        from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge, check_duration
    defaults = {name: option.value(option.parameter_default) for name, option in OPTIONS.items()}
    options = make_node_options(defaults | dict(given), node_namespace="")
    if options.bridge.record is None:
        raise OptionError("--no-ros leaves only a recording: name its file (--record FILE.mcap)")
    check_duration(options.bridge)
    with ended_by_signals() as ending:
        plan = load_asset(
            options.asset,
            read_options=options.read,
            plan_options=options.plan,
            catalog=installed_types(),
            physics=options.backend != "joint_states",
        )
        _print_diagnostics(options, plan.diagnostics)
        bridge = OfflineBridge(
            plan, options.backend, options=options.bridge, report=_print_line, inform=_print_line
        )
        with bridge:
            ending.stop = bridge.stop
            if not ending.asked:
                bridge.spin()
                print(f"{bridge.runtime.now_ns * 1e-9:.9g} s recorded to {options.bridge.record}")


def _print_diagnostics(options: NodeOptions, diagnostics: Any) -> None:
    for group in grouped(each for each in diagnostics if each.severity != "info"):
        print(escaped(str(group)), file=sys.stderr)
    refuse(options.asset, diagnostics, strict=options.strict, degraded=options.degraded)


def _print_line(_: str, message: str) -> None:
    print(f"usd_ros_bridge: {escaped(message)}", file=sys.stderr)
