"""`usd_ros_bridge run`: the bridge on an asset, with a live table where there is a terminal."""

from __future__ import annotations

import sys
from typing import Any

import click

from usd_ros_bridge.cli.common import asset_options, given_options, table_options
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.process_settings import ending_at_once

_LIVE_ROS_ARGS = ["--ros-args", "--disable-stdout-logs"]
"""Log lines would break the live table. It shows the reports that they carry."""


@click.command()
@asset_options
@table_options("backend", "backend_options", "real_time_factor", "beyond_limits", "start_paused", "watch")
@click.pass_obj
def run(ros_args: list[str] | None, /, **options: Any) -> None:
    """Run the bridge on ASSET. Arguments after --ros-args go to ROS 2."""
    with ending_at_once():
        try:
            from usd_ros_bridge.ros.node import run_node
        except ImportError as error:
            raise BridgeError(
                f"ROS 2 is not importable here ({error}); source a ROS 2 installation or use `make setup`"
            ) from error
        from usd_ros_bridge.cli.live_view import live_view

        on_terminal = sys.stdout.isatty()
        run_node(
            given=given_options(options),
            ros_args=[*(ros_args or []), *(_LIVE_ROS_ARGS if on_terminal else [])],
            view=live_view if on_terminal else None,
        )
