"""Handlers of installed packages: found by their entry points, never because an asset names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import OptionError, choices
from usd_ros_bridge.ros.domains import Report
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.runtime.report import describe

ENTRY_POINT_GROUP = "usd_ros_bridge.handlers"


def installed_handlers() -> tuple[str, ...]:
    """Returns the names of all that is installed, sorted."""
    return tuple(sorted(_entries()))


def bind_installed(handlers: Handlers, selected: Sequence[str] | None, report: Report) -> None:
    """Has installed packages bind what they serve. One that fails is reported and binds nothing.

    Args:
        handlers: Where to bind.
        selected: Names of entry points, None for all.
        report: For those that fail.

    Raises:
        OptionError: A name is not installed.
    """
    entries = _entries()
    for name in selected or ():
        if name not in entries:
            raise OptionError(f"handlers {quoted(name)} are not installed; there are: {choices(entries)}")
    for name in sorted(entries if selected is None else set(selected)):
        owner = f"package {name}"
        try:
            bind: Callable[[Any], object] = entries[name].load()
            bind(handlers.registry(owner))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - no package keeps a bridge from opening
            handlers.drop(owner)
            report(f"handlers:{name}", f"the handlers {name} bind nothing: {describe(error)}")


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
