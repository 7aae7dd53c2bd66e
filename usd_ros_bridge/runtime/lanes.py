"""Lanes: which of the emitters that are due are asked together, because their messages are made together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import cast

from usd_ros_bridge.runtime.emission import Emission
from usd_ros_bridge.runtime.endpoints import Chorus, RowEmitter

_MOST_PROGRAMS = 32
"""How many sets of emitters that are due together are kept: what five rates make of their meetings."""

LEAST_AGE = 50
"""Ticks that lanes are kept though a row grew: thousands of topics may get their subscribers one after another."""


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
        fresh: Whether they are right; `useful` makes them so.
    """

    __slots__ = ("_age", "_failed", "_grown", "_programs", "_useful", "fresh")

    def __init__(self, failed: Callable[[Emission, Exception], None]) -> None:
        """Has no lanes yet.

        Args:
            failed: Told of an emission that could not be published by a chorus.
        """
        self._failed = failed
        self._programs: dict[Hashable, list[Lane]] = {}
        self._useful = False
        self._grown = False
        self._age = 0
        self.fresh = True

    def forget(self) -> None:
        """Has lanes found anew: emitters came or went, or a gate turned."""
        self.fresh = False

    def clear(self) -> None:
        """Lets go of all lanes; those that are needed are found anew."""
        self.fresh = False
        self._programs.clear()

    def grow(self) -> None:
        """Has lanes found anew before long: a row grew. Till then they are right, but for who could be asked along."""
        self._grown = True

    def useful(self, emissions: Iterable[Emission]) -> bool:
        """Returns whether any of all emissions is in a row; to be asked once a tick, before `of`."""
        self._age += 1
        if not self.fresh or (self._grown and (not self._useful or self._age > LEAST_AGE)):
            self.fresh, self._grown, self._age = True, False, 0
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
