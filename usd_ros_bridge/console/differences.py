"""`diff` for people: what differs between two plans, a line each, as the command of that name marks them."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.text import Text

from usd_ros_bridge.console.text import plain
from usd_ros_bridge.model.difference import (
    CHANGE_MARKS,
    ChangeKind,
    FieldChange,
    ItemDifference,
    PlanDifference,
    value_text,
)

_STYLES: dict[ChangeKind, str] = {"added": "green", "removed": "red", "changed": "yellow"}
_TITLES = {
    "robot": "robots",
    "topic": "topics",
    "service": "services",
    "action": "actions",
    "controller": "controllers",
    "joint": "joints",
    "frame": "frames",
}


def print_difference(found: PlanDifference, console: Console) -> None:
    """Prints everything that differs, by kind, and how much it is."""
    for kind, items in groupby(found, key=lambda item: item.kind):
        console.print(Text(_TITLES[kind], style="bold"))
        for item in items:
            # A line stays a line, for `grep`.
            console.print(_head(item), soft_wrap=True)
            for field in item.fields:
                console.print(_field(field), soft_wrap=True)
    console.print(Text(str(found), style="bold"))


def _head(item: ItemDifference) -> Text:
    owner = f" of {item.robot}" if item.kind in {"joint", "frame"} else ""
    style = _STYLES[item.change]
    return Text.assemble(
        "  ", (CHANGE_MARKS[item.change], style), f" {item.label} ", plain(item.name, style=style), plain(owner),
        "  ", plain(item.detail, style="dim"),
    )  # fmt: skip


def _field(field: FieldChange) -> Text:
    return Text.assemble(
        "      ", plain(field.field), ": ", plain(value_text(field.old), style="red"), " -> ",
        plain(value_text(field.new), style="green"),
    )  # fmt: skip
