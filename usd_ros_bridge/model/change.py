"""Differences between two plans, rows that they have in common, and reports of changes of a running bridge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan

ChangeKind = Literal["added", "removed", "changed"]
ItemKind = Literal["robot", "topic", "service", "action", "controller", "joint", "frame"]
Value = str | int | float | bool | None | tuple["Value", ...]
"""Any part of a plan as JSON says it; None is "there is none" (a limit, a rate)."""

CHANGE_MARKS: dict[ChangeKind, str] = {"added": "+", "removed": "-", "changed": "~"}
ITEM_KINDS: tuple[ItemKind, ...] = ("robot", "topic", "service", "action", "controller", "joint", "frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A changed field.

    Attributes:
        field: Its name in the plan; parts of parts with a dot (`qos.depth`).
        old: Old value, SI units.
        new: New value.
    """

    field: str
    old: Value
    new: Value

    def __str__(self) -> str:
        return f"{self.field} {value_text(self.old)} -> {value_text(self.new)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDifference:
    """A robot, interface, controller, joint or frame that was added, removed or changed.

    Attributes:
        kind: Kind of item.
        change: Added, removed or changed.
        label: Kind in more detail (`publisher`, `service server`, `frame`).
        name: As the new plan names it; as the old one did where it is gone.
        path: Prim path, likewise.
        robot: Namespace of its robot, likewise; "" where it belongs to none.
        detail: The most important attribute: the type of an interface or joint, the schema of a controller, the parent
            of a frame.
        fields: Changed fields of a changed item.
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
    """All differences between two plans. False if there are none.

    Attributes:
        items: By kind, robots first and frames last, then by name.
        degraded_added: What only the new asset has that is not simulated as authored (REP 0158 section 1.4).
        degraded_removed: What only the old asset has.
    """

    items: tuple[ItemDifference, ...] = ()
    degraded_added: tuple[Diagnostic, ...] = ()
    degraded_removed: tuple[Diagnostic, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.degraded_added or self.degraded_removed)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ItemDifference]:
        return iter(self.items)

    def of(self, change: ChangeKind) -> tuple[ItemDifference, ...]:
        """Return the items that were added, removed or changed."""
        return tuple(item for item in self.items if item.change == change)

    def __str__(self) -> str:
        """One line for a log: how many."""
        if not self:
            return "no difference"
        counts = [f"{len(self.of(change))} {change}" for change in CHANGE_MARKS]
        if self.degraded_added or self.degraded_removed:
            counts.append(
                f"not simulated: {len(self.degraded_added)} more, {len(self.degraded_removed)} fewer"
            )
        return ", ".join(counts)


def value_text(value: Value) -> str:
    """Return a value as short text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value) or '""'


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """A change that was carried out; the new plan may be equal to the old one.

    Attributes:
        why: The request, for people (`variants`, `an edit of the stage`, `robot.usda changed`).
        opened: Interfaces that were opened, as `publisher /rover/scan`.
        closed: Interfaces that were closed, likewise.
        kept: Number of unchanged interfaces, with their peers, counters and schedules.
        found: Diagnostics that the old plan did not have.
        planning_s: Wall seconds from the request to the new plan.
        swap_s: Wall seconds that the change took between two ticks.
    """

    why: str
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    kept: int = 0
    found: tuple[Diagnostic, ...] = ()
    planning_s: float = 0.0
    swap_s: float = 0.0

    def __str__(self) -> str:
        """One line for a log."""
        parts = [f"{len(self.opened)} opened", f"{len(self.closed)} closed", f"{self.kept} unchanged"]
        return f"{self.why}: {', '.join(parts)}"


Rows = NDArray[np.intp]


class CommonRows(NamedTuple):
    """Rows of the layouts of two plans that stand for the same joint or body.

    Attributes:
        dofs: (N,) in the new plan.
        old_dofs: (N,) in the old one.
        bodies: (M,) in the new plan.
        old_bodies: (M,) in the old one.
    """

    dofs: Rows
    old_dofs: Rows
    bodies: Rows
    old_bodies: Rows


def common_rows(new: BridgePlan, old: BridgePlan) -> CommonRows:
    """Return what two plans have in common: degrees of freedom by joint, else by name; bodies by prim path.

    A name may go from one joint to another: the second `finger` of a robot is the only one when the first has gone.
    """
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for keys_of in (_dof_joints, _dof_names):
        of_old = keys_of(old)
        for key, row in keys_of(new).items():
            known = of_old.get(key, -1)
            if known >= 0 and row not in pairs and known not in taken:
                pairs[row] = known
                taken.add(known)
    bodies = {
        row: old.layout.body_index[path]
        for path, row in new.layout.body_index.items()
        if path in old.layout.body_index
    }
    return CommonRows(*_arrays(pairs), *_arrays(bodies))


def _dof_names(plan: BridgePlan) -> dict[tuple[str, str], int]:
    return {
        (robot.path, dof.name): dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
    }


def _dof_joints(plan: BridgePlan) -> dict[tuple[str, str], int]:
    """A joint with one degree of freedom has it whatever its axis is now."""
    return {
        (joint.path, dof.axis if len(joint.dofs) > 1 else "transX"): dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
    }


def _arrays(pairs: dict[int, int]) -> tuple[Rows, Rows]:
    return np.array(list(pairs), dtype=np.intp), np.array(list(pairs.values()), dtype=np.intp)


def same(one: Any, other: Any) -> bool:
    """Return whether two values hold the same.

    Data classes count field by field, also those that compare by identity because they hold arrays; fields that are
    marked as no part of a comparison are left out.
    """
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    # Most values first: whole plans are compared while the bridge runs.
    if kind in _PLAIN:
        return bool(one == other) or (one != one and other != other)
    if kind is tuple or kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    names = _compared_fields(one.__class__)
    if names is not None:
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other) or (one != one and other != other)


_PLAIN = frozenset({bool, float, int, str})


@cache
def _compared_fields(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a data class that count, None for another class."""
    return tuple(each.name for each in fields(kind) if each.compare) if is_dataclass(kind) else None


def _same_arrays(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
