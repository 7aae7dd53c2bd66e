"""Merging: the things of robots and of their copies in one order, that of the stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from usd_ros_bridge.planning.copies import Fleet
from usd_ros_bridge.planning.robot_stamp import Shift

_LAST: Final = 1 << 60


class Unlike(Exception):  # noqa: N818 (never leaves planning: the robots are planned one by one then)
    """A copy's plan is not its original's with other names."""


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Things of one kind in the order of the whole stage.

    Attributes:
        sources: Which of the original things each is, or is a copy of.
        owners: Root of the copy that each belongs to, "" for the original thing.
        paths: Prim path of each.
        rows: Number of each original thing among all.
    """

    sources: Sequence[int]
    owners: Sequence[str]
    paths: Sequence[str]
    rows: Sequence[int]

    def shifts(self) -> dict[str, Shift]:
        """Returns by root of the copy how far the numbers of its things are from those of the original's.

        Raises:
            Unlike: Something stands between the things of one robot.
        """
        shifts: dict[str, Shift] = {}
        for row, (source, owner) in enumerate(zip(self.sources, self.owners, strict=True)):
            if owner and shifts.setdefault(owner, Shift(row - source)).by != row - source:
                raise Unlike
        return shifts


def copies_of(fleet: Fleet) -> dict[str, list[str]]:
    """Returns the roots of the copies by root of the original, in traversal order."""
    copies: dict[str, list[str]] = {}
    for copy, original in fleet.originals.items():
        copies.setdefault(original, []).append(copy)
    return copies


def merge(fleet: Fleet, paths: Sequence[str], phases: Sequence[int] = ()) -> Merged:
    """Returns things of the distinct robots, at `paths`, among those of the copies, in traversal order.

    Things of a later phase come after all of an earlier one.
    """
    order, root_of, copies = fleet.index.records.order, fleet.contexts.root_of, copies_of(fleet)
    sources, owners, all_paths = list(range(len(paths))), [""] * len(paths), list(paths)
    members: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        root = root_of(path)
        if root in copies:
            members.setdefault(root, []).append(number)
    for original, of_robot in members.items():
        suffixes = [paths[number][len(original) :] for number in of_robot]
        for copy in copies[original]:
            sources += of_robot
            owners += [copy] * len(of_robot)
            all_paths += [copy + suffix for suffix in suffixes]
    keys = np.array([order.get(path, _LAST) for path in all_paths], dtype=np.int64)
    late = np.array([phases[source] for source in sources] if phases else [0] * len(sources), dtype=np.int64)
    ranked = np.lexsort((keys, late)).tolist()
    rows = [0] * len(paths) + [-1]
    for row, number in enumerate(ranked):
        if number < len(paths):
            rows[number] = row
    return Merged(
        [sources[number] for number in ranked],
        [owners[number] for number in ranked],
        [all_paths[number] for number in ranked],
        rows,
    )
