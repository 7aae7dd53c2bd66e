"""Lanes: which of the emitters that are due are asked together, because their messages are made together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import cast

from usd_ros_bridge.runtime.emission import Emission
from usd_ros_bridge.runtime.endpoints import Chorus, RowEmitter

_MOST_PROGRAMS = 8
"""How many sets of emitters that are due together are kept: those of one rate, and of several that meet."""


class Lane:
    """Emissions that are asked one after another, or all at once.

    Attributes:
        chorus: Asks them all at once; None where nothing does.
        emissions: Those, in the order of addition.
    """

    __slots__ = ("chorus", "emissions")

    def __init__(self) -> None:
        """Is empty."""
        self.chorus: Chorus | None = None
        self.emissions: list[Emission] = []


class Lanes:
    """The lanes of what is due: found once, and kept until something changes.

    Attributes:
        fresh: Whether nothing has changed since `look`.
    """

    __slots__ = ("_failed", "_programs", "_useful", "fresh")

    def __init__(self, failed: Callable[[Emission, Exception], None]) -> None:
        """Has no lanes yet.

        Args:
            failed: Told of an emission that could not be published by a chorus.
        """
        self._failed = failed
        self._programs: dict[Hashable, list[Lane]] = {}
        self._useful = False
        self.fresh = True

    def forget(self) -> None:
        """Has lanes found anew: emitters came or went, a gate turned, a row grew."""
        self.fresh = False

    def useful(self, emissions: Iterable[Emission]) -> bool:
        """Returns whether any of all emissions is in a row; from then on the lanes are `fresh`."""
        if not self.fresh:
            self.fresh = True
            self._programs.clear()
            self._useful = any(each.row() is not None for each in emissions)
        return self._useful

    def of(self, key: Hashable, due: Callable[[], Iterable[Emission | None]]) -> list[Lane]:
        """Returns the lanes of what is due, each where the first of its emissions stands.

        Args:
            key: Stands for what is due.
            due: Returns that, in the order of addition; None for what was removed.
        """
        lanes = self._programs.get(key)
        if lanes is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            lanes = self._programs[key] = self._make([each for each in due() if each is not None])
        return lanes

    def _make(self, due: Iterable[Emission]) -> list[Lane]:
        lanes: list[Lane] = []
        rows: dict[object, Lane] = {}
        alone: Lane | None = None
        for emission in due:
            row = emission.row()
            lane = alone if row is None else rows.get(row)
            if lane is None:
                lane = Lane()
                lanes.append(lane)
                if row is None:
                    alone = lane
                else:
                    rows[row], alone = lane, None
            lane.emissions.append(emission)
        for lane in rows.values():
            if len(lane.emissions) > 1:
                lane.chorus = self._chorus(lane.emissions)
        return lanes

    def _chorus(self, emissions: list[Emission]) -> Chorus:
        emitters = [cast("RowEmitter", each.emitter) for each in emissions]
        return emitters[0].chorus(emitters, lambda index, error: self._failed(emissions[index], error))
