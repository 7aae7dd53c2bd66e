"""What differs between two plans: data only, made for people, logs and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["added", "removed", "changed"]
ItemKind = Literal["robot", "topic", "service", "action", "controller", "joint", "frame"]
Value = str | int | float | bool | None | tuple["Value", ...]
"""Any part of a plan as JSON says it; None is "there is none" (a limit, a rate)."""

CHANGE_MARKS: dict[ChangeKind, str] = {"added": "+", "removed": "-", "changed": "~"}
ITEM_KINDS: tuple[ItemKind, ...] = ("robot", "topic", "service", "action", "controller", "joint", "frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that is another one now.

    Attributes:
        field: Its name in the plan; parts of parts with a dot (`qos.depth`).
        old: As it was, SI units.
        new: As it is.
    """

    field: str
    old: Value
    new: Value

    def __str__(self) -> str:
        return f"{self.field} {value_text(self.old)} -> {value_text(self.new)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDifference:
    """A robot, interface, controller, joint or frame that came, went or is another one.

    Attributes:
        kind: What it is.
        change: What became of it.
        label: What it is, closer (`publisher`, `service server`, `frame`).
        name: As the new plan names it; as the old one did where it is gone.
        path: Prim path, likewise.
        robot: Namespace of its robot, likewise; "" where it belongs to none.
        detail: What tells most about it: the type of an interface or joint, the schema of a controller, the parent of
            a frame.
        fields: What changed, where it is still there.
    """

    kind: ItemKind
    change: ChangeKind
    label: str
    name: str
    path: str
    robot: str = ""
    detail: str = ""
    fields: tuple[FieldChange, ...] = ()

    def __str__(self) -> str:
        """One line for a log."""
        # Names of the others say which robot they belong to.
        owner = f" of {self.robot}" if self.kind in {"joint", "frame"} else ""
        head = f"{CHANGE_MARKS[self.change]} {self.label} {self.name}{owner}"
        if self.change == "changed":
            return f"{head}: {', '.join(map(str, self.fields))}"
        return f"{head} ({self.detail})" if self.detail else head


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """Everything that differs between two plans. False where nothing does.

    Attributes:
        items: By kind, robots first and frames last, then by name.
    """

    items: tuple[ItemDifference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ItemDifference]:
        return iter(self.items)

    def of(self, change: ChangeKind) -> tuple[ItemDifference, ...]:
        """Returns the items that were added, removed or changed."""
        return tuple(item for item in self.items if item.change == change)

    def __str__(self) -> str:
        """One line for a log: how many."""
        if not self.items:
            return "no difference"
        return ", ".join(f"{len(self.of(change))} {change}" for change in CHANGE_MARKS)


def value_text(value: Value) -> str:
    """Returns a value as short text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value) or '""'
