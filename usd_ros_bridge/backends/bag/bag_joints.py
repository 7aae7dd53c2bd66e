"""Recorded joint states by layout row: joints that come in the same messages share their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.bag.bag_clock import LARGEST, BagClock, in_order
from usd_ros_bridge.backends.bag.bag_source import JointSeries, TimeArray
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.errors import did_you_mean, quoted
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray

_SHOWN: Final = 5
"""Names in a report."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointTracks:
    """Positions of joints at the same times.

    Attributes:
        time_ns: (N,) nanoseconds since the bag's first message, increasing.
        rows: (J,) layout rows.
        position: (N, J) rad or m, finite.
        velocity: (N, J) rad/s or m/s, not finite where unknown; None if nothing is known.
        effort: (N, J) N m or N, likewise.
    """

    time_ns: TimeArray
    rows: NDArray[np.intp]
    position: FloatArray
    velocity: FloatArray | None = None
    effort: FloatArray | None = None

    def select(
        self, messages: NDArray[np.bool_] | NDArray[np.intp], columns: NDArray[np.intp]
    ) -> JointTracks:
        """Return some joints at some times."""
        where = np.ix_(np.flatnonzero(messages) if messages.dtype == bool else messages, columns)
        return JointTracks(
            time_ns=self.time_ns[where[0][:, 0]],
            rows=self.rows[columns],
            position=self.position[where],
            velocity=None if self.velocity is None else self.velocity[where],
            effort=None if self.effort is None else self.effort[where],
        )


class RecordedJoints:
    """Which column of which joint states is which layout row.

    Attributes:
        used: Series with a joint of a robot.
    """

    def __init__(
        self,
        plan: BridgePlan,
        joint_rows: Mapping[str, Sequence[tuple[RobotPlan, Mapping[str, int]]]],
        series: Sequence[JointSeries],
    ) -> None:
        """Find the joints of robots.

        Args:
            plan: The plan.
            joint_rows: By topic, the robots that it is of, with layout rows by joint name.
            series: Joint states of those topics.
        """
        self._plan = plan
        self._joint_rows = joint_rows
        self._series = series
        self._columns: dict[int, dict[int, int]] = {}
        """By layout row, its column by number of the series."""
        for number, each in enumerate(series):
            for _, rows in joint_rows[each.topic]:
                for column, name in enumerate(each.names):
                    if name in rows:
                        # The first one of equal names in a message counts.
                        self._columns.setdefault(rows[name], {}).setdefault(number, column)
        numbers = {number for columns in self._columns.values() for number in columns}
        self.used = [series[number] for number in sorted(numbers)]

    def covered(self) -> set[int]:
        """Return the layout rows that are recorded, or follow one that is."""
        rows = set(self._columns)
        return rows | set(MimicRules(self._plan).followers(rows).rows.tolist())

    def report_names(self, report: Report) -> None:
        """Report joints in the bag that the robots do not have."""
        for topic, robots in self._joint_rows.items():
            known = {name for _, rows in robots for name in rows}
            names = dict.fromkeys(name for each in self._series if each.topic == topic for name in each.names)
            unknown = [name for name in names if name not in known]
            if not unknown:
                continue
            shown = ", ".join(f"{quoted(n)} {did_you_mean(n, known)}".strip() for n in unknown[:_SHOWN])
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            paths = " and ".join(robot.path for robot, _ in robots[:_SHOWN])
            report(
                f"playback.bag_joints:{topic}",
                f"{topic} in the bag names joints that {paths} does not have: {shown}{more}",
            )

    def tracks(self, clock: BagClock) -> Iterator[JointTracks]:
        """Return all rows: those that come from the same series together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for row in sorted(self._columns):
            groups.setdefault(tuple(sorted(self._columns[row])), []).append(row)
        for numbers, rows in groups.items():
            times = [clock.times(self._series[number]) for number in numbers]
            position = self._joined(numbers, rows, "position")
            assert position is not None
            tracks = JointTracks(
                time_ns=times[0] if len(times) == 1 else np.concatenate(times),
                rows=np.array(rows, dtype=np.intp),
                position=position,
                velocity=self._joined(numbers, rows, "velocity"),
                effort=self._joined(numbers, rows, "effort"),
            )
            log_ns = np.concatenate([self._series[number].log_ns for number in numbers])
            yield from _finite_tracks(tracks, log_ns)

    def _joined(self, numbers: Sequence[int], rows: Sequence[int], name: str) -> FloatArray | None:
        """Return the values (N, J) of rows in series, one after another; None if no series has any."""
        arrays: list[FloatArray | None] = [getattr(self._series[number], name) for number in numbers]
        if all(array is None for array in arrays):
            return None
        found = []
        for number, array in zip(numbers, arrays, strict=True):
            columns = [self._columns[row][number] for row in rows]
            if array is None:
                found.append(np.full((len(self._series[number].log_ns), len(rows)), np.nan))
            elif columns == list(range(array.shape[1])):
                found.append(array)
            else:
                found.append(array[:, columns])
        return found[0] if len(found) == 1 else np.concatenate(found)


def _finite_tracks(tracks: JointTracks, log_ns: TimeArray) -> Iterator[JointTracks]:
    """Return tracks in order of time; a joint with positions that are not finite gets times of its own."""
    finite = np.abs(tracks.position) <= LARGEST
    whole = finite.all(axis=0)
    order = in_order(tracks.time_ns, log_ns)
    if whole.all() and order is None:
        yield tracks
        return
    if whole.any():
        messages = np.arange(len(tracks.time_ns)) if order is None else order
        yield tracks.select(messages, np.flatnonzero(whole))
    for column in np.flatnonzero(~whole & finite.any(axis=0)):
        kept = np.flatnonzero(finite[:, column])
        own = in_order(tracks.time_ns[kept], log_ns[kept])
        yield tracks.select(kept if own is None else kept[own], np.array([column]))
