"""Isaac's lists: the joints and links that a robot reports (isaac:physics:robotJoints, isaac:physics:robotLinks)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from usd_ros_bridge.model.records import IsaacRobotRecord
from usd_ros_bridge.planning.paths import Nearest, ancestors, is_below


class ReportedPrims:
    """Which prims robots report. A list that names a robot means what that one reports; no list means everything.

    Attributes:
        limited: Whether any robot has a list.
    """

    def __init__(self, robots: Iterable[IsaacRobotRecord], field: str, known: Container[str]) -> None:
        """Expand the lists.

        Args:
            robots: The robots of a stage.
            field: `joints` or `links`.
            known: The prims that may be listed. A list without any of them is out of date, and limits nothing.
        """
        self._lists: dict[str, Sequence[str]] = {r.path: getattr(r, field) or () for r in robots}
        self._known = known
        self._members: dict[str, frozenset[str]] = {}
        self._whole: dict[str, tuple[str, ...]] = {}
        for path in self._lists:
            members: set[str] = set()
            whole: list[str] = []
            self._expand(path, members, whole, {path})
            if whole or any(member in known for member in members):
                self._members[path] = frozenset(members)
                self._whole[path] = tuple(whole)
        self._nearest = Nearest(self._members)
        self.limited = bool(self._members)

    def reports(self, path: str) -> bool:
        """Return whether the outermost robot with a list that a prim is in reports the prim."""
        robot = self._nearest(path) if self.limited else ""
        if not robot:
            return True
        robot = next((each for each in reversed([*ancestors(robot)]) if each in self._members), robot)
        return path in self._members[robot] or any(is_below(path, root) for root in self._whole[robot])

    def listed(self) -> list[str]:
        """Return every prim that is named by a list which counts, once."""
        return list(dict.fromkeys(each for robot in self._members for each in self._lists[robot]))

    def _expand(self, robot: str, members: set[str], whole: list[str], seen: set[str]) -> None:
        for target in self._lists[robot]:
            members.add(target)
            if target not in self._lists or target in seen:
                continue
            seen.add(target)
            if self._lists[target]:
                self._expand(target, members, whole, seen)
            else:
                whole.append(target)
