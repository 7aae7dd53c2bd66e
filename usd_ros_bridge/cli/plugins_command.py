"""`usd_ros_bridge plugins`: what is built in and what other distributions bring, with faults."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import click

from usd_ros_bridge import __version__
from usd_ros_bridge.errors import escaped
from usd_ros_bridge.plugins import PluginEntry, Registry
from usd_ros_bridge.requirements import find_requirement

State = Literal["built in", "ready", "installed", "disabled", "conflict"]
EXIT_FAULTY = 1

_REGISTRIES = {
    "controllers": "usd_ros_bridge.model.controller_schemas:CONTROLLERS",
    "sensors": "usd_ros_bridge.model.sensor_schemas:SENSOR_MODELS",
    "codecs": "usd_ros_bridge.ros.codecs:ALL_CODECS",
    "handlers": "usd_ros_bridge.ros.endpoints.handlers:HANDLERS",
    "backends": "usd_ros_bridge.backends.registry:BACKENDS",
    "exporters": "usd_ros_bridge.model.exporters:EXPORTERS",
    "commands": "usd_ros_bridge.cli.command_group:COMMANDS",
}
"""Where the registry of each group is."""
_COLOURS: dict[State, str] = {"disabled": "red", "conflict": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """One entry of a registry, as `plugins` shows it.

    Attributes:
        entry: The entry.
        state: Whether it can be used. Without a check, entries of others are "installed".
        reason: Why it is disabled, or which entry has precedence.
    """

    entry: PluginEntry
    state: State
    reason: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--check", is_flag=True, help="Import all plug-ins, and exit with status 1 if one has a fault.")
def plugins(as_json: bool, check: bool) -> None:
    """List what is built in and all plug-ins: group, name, distribution, version and state.

    Plug-ins are only imported with --check.
    """
    rows = plugin_rows(check=check)
    if as_json:
        click.echo(json.dumps([_as_json(each) for each in rows], indent=2))
    else:
        _print_table(rows)
    if check and any(each.state == "disabled" for each in rows):
        sys.exit(EXIT_FAULTY)


def plugin_rows(*, check: bool) -> list[PluginRow]:
    """Return all entries of all groups.

    Args:
        check: Import those of other distributions, and find their faults.
    """
    return [_row(registry, entry, check=check) for registry in registries() for entry in registry.entries()]


def registries() -> Iterator[Registry[Any]]:
    """Return the registry of each group. Without ROS, those that need it have only the entries of others."""
    for group, value in _REGISTRIES.items():
        yield _find_registry(group, value)


def _find_registry(group: str, value: str) -> Registry[Any]:
    module, _, attribute = value.partition(":")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        if find_requirement(error) is None:
            raise
        found = None
    return (
        found
        if isinstance(found, Registry)
        else Registry(group, group.removesuffix("s"), {}, check=lambda _: "")
    )


def _row(registry: Registry[Any], entry: PluginEntry, *, check: bool) -> PluginRow:
    if entry.conflict:
        return PluginRow(entry=entry, state="conflict", reason=entry.conflict)
    if entry.builtin:
        return PluginRow(entry=entry, state="built in")
    if not check:
        return PluginRow(entry=entry, state="installed")
    fault = registry.fault(entry.name)
    return PluginRow(entry=entry, state="disabled" if fault else "ready", reason=fault)


def _version(entry: PluginEntry) -> str:
    return __version__ if entry.builtin else entry.version


def _as_json(row: PluginRow) -> dict[str, Any]:
    entry = row.entry
    return {
        "group": entry.group,
        "name": entry.name,
        "origin": entry.origin,
        "version": _version(entry),
        "value": entry.value,
        "state": row.state,
        "reason": row.reason,
    }


def _print_table(rows: list[PluginRow]) -> None:
    cells = [
        (
            each.entry.group,
            each.entry.name,
            f"{each.entry.origin} {_version(each.entry)}".rstrip(),
            each.state,
        )
        for each in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, values in zip(rows, cells, strict=True):
        line = "  ".join(f"{value:<{width}}" for value, width in zip(values, widths, strict=True)).rstrip()
        reason = f": {row.reason}" if row.reason else ""
        click.secho(escaped(line + reason), fg=_COLOURS.get(row.state))
