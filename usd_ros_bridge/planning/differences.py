"""Two plans to what differs between them: the ROS interface as a reviewer, a log or CI wants to see it change."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from usd_ros_bridge.model.difference import (
    ITEM_KINDS,
    ChangeKind,
    FieldChange,
    ItemDifference,
    PlanDifference,
    Value,
)
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning.plan_items import Item, PlanItems

TOLERANCE = 1e-9
"""Up to where numbers are the same, absolute and relative: rounding of transforms that are composed anew."""


def difference(old: BridgePlan, new: BridgePlan) -> PlanDifference:
    """Compares the ROS interfaces of two plans.

    What has the same name in the same robot is the same, wherever its prim is; what has another name is the same where
    its prim is. Robots are the same by namespace, then by prim path, and where each plan has just one. Prim paths
    are compared as seen from the robot's own: a robot that moved as a whole changed one path.

    Args:
        old: The plan before.
        new: The plan after.

    Returns:
        What was added, removed and changed. Neither the asset's name, the diagnostics nor what engines simulate is
        compared.
    """
    before, after = PlanItems(old), PlanItems(new)
    robots = list(_paired(before.robots(), after.robots()))
    for number, (one, other) in enumerate(robots):
        for side, item in ((before, one), (after, other)):
            if item is not None:
                side.numbers[item.robot] = number
    joints = _alike(robots, before.bare_joints, after.bare_joints)
    frames = _alike(robots, before.bare_frames, after.bare_frames)
    pairs = [
        *robots,
        *_paired(before.interfaces(), after.interfaces()),
        *_paired(before.controllers(), after.controllers()),
        *_paired(before.joints(but=joints.keys()), after.joints(but=set(joints.values()))),
        *_paired(before.frames(but=frames.keys()), after.frames(but=set(frames.values()))),
    ]
    compared = (_compare(before, one, after, other) for one, other in pairs)
    return PlanDifference(items=tuple(sorted((item for item in compared if item is not None), key=_order)))


def _alike(
    robots: Iterable[tuple[Item | None, Item | None]],
    of_old: Callable[[int], list[Any]],
    of_new: Callable[[int], list[Any]],
) -> dict[int, int]:
    """Returns robots of the new plan by those of the old one that need no closer look: most, as a rule."""
    return {
        old.robot: new.robot
        for old, new in robots
        if old is not None and new is not None and of_old(old.robot) == of_new(new.robot)
    }


def _order(item: ItemDifference) -> tuple[int, str, str, str]:
    return ITEM_KINDS.index(item.kind), item.name, item.label, item.path


# --- Pairs --------------------------------------------------------------------------------------------------------


def _paired(old: Sequence[Item], new: Sequence[Item]) -> Iterator[tuple[Item | None, Item | None]]:
    """Yields counterparts, then what has none: key after key, each among what those before have left."""
    left, right = list(old), list(new)
    for level in range(max((len(item.keys) for item in (*old, *new)), default=0)):
        waiting: dict[Hashable, deque[Item]] = defaultdict(deque)
        for item in left:
            if item.keys[level] is not None:
                waiting[item.keys[level]].append(item)
        taken: set[Item] = set()
        rest = []
        for item in right:
            candidates = waiting.get(item.keys[level])
            if candidates:
                taken.add(candidates[0])
                yield candidates.popleft(), item
            else:
                rest.append(item)
        left, right = [item for item in left if item not in taken], rest
    yield from ((item, None) for item in left)
    yield from ((None, item) for item in right)


def _compare(
    before: PlanItems, old: Item | None, after: PlanItems, new: Item | None
) -> ItemDifference | None:
    if old is None or new is None:
        if old is not None:
            return _difference(old, before, "removed")
        return None if new is None else _difference(new, after, "added")
    changes = []
    if before.relative_path(old) != after.relative_path(new):
        changes.append(FieldChange(field="path", old=old.path, new=new.path))
    was, now = old.facts(), new.facts()
    changes += [
        FieldChange(field=field, old=was.get(field), new=now.get(field))
        for field in dict.fromkeys((*was, *now))
        if not _same(field, was.get(field), now.get(field))
    ]
    return _difference(new, after, "changed", tuple(changes)) if changes else None


def _difference(
    item: Item, side: PlanItems, change: ChangeKind, changes: tuple[FieldChange, ...] = ()
) -> ItemDifference:
    return ItemDifference(
        kind=item.kind, change=change, label=item.label, name=item.name, path=item.path,
        robot=side.plan.robots[item.robot].namespace if item.robot >= 0 else "",
        detail=item.detail, fields=changes,
    )  # fmt: skip


def _same(field: str, old: Value, new: Value) -> bool:
    if isinstance(old, tuple) and isinstance(new, tuple):
        if len(old) != len(new):
            return False
        if all(_same("", a, b) for a, b in zip(old, new, strict=True)):
            return True
        # A quaternion and its negative are one rotation.
        return field.endswith("rotation") and all(
            _same("", a, _negative(b)) for a, b in zip(old, new, strict=True)
        )
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return old == new


def _negative(value: Value) -> Value:
    return -value if isinstance(value, float) else value
