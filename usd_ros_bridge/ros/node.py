"""The executables `bridge` and `robot_state_publisher`. Light to import, so that signals count from the start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from usd_ros_bridge.errors import BridgeError, OptionError, StrictError, escaped
from usd_ros_bridge.options import BRIDGE, Role
from usd_ros_bridge.ros.signals import ending_at_once

EXIT_STRICT = 1
EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None, *, role: Role = BRIDGE) -> NoReturn:
    """Run the node and exit: 0, 1 (strict), or 2 (the caller's mistake, in one line on stderr).

    Args:
        arguments: What follows the executable's name; None for those of the process.
        role: What the node is.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    status = 0
    with ending_at_once():
        try:
            _run(given, role)
        except BridgeError as error:
            print(f"usd_ros_bridge: {escaped(' '.join(str(error).split()))}", file=sys.stderr)
            status = EXIT_STRICT if isinstance(error, StrictError) else EXIT_USAGE
    sys.exit(status)


def _run(arguments: list[str], role: Role) -> None:
    from rclpy.utilities import remove_ros_args

    from usd_ros_bridge.reporting import describe
    from usd_ros_bridge.ros.compat import ROS_ERRORS
    from usd_ros_bridge.ros.run import run_node

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
    run_node(given={"asset": asset} if asset else None, ros_args=arguments, role=role)


def _help(role: Role) -> str:
    """Return what --help prints: the usage, and each parameter with its default."""
    from usd_ros_bridge.options import OPTIONS

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


if __name__ == "__main__":
    main()
