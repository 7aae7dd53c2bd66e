"""Lanes: emitters in a row are asked at once, and as if each had been asked, whatever changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.lanes import LEAST_AGE
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.testing.plans import rover

PERIOD_NS = 10_000_000


class Singer:
    """An emitter that may be in a row, and notes who was asked how."""

    def __init__(self, name: str, asked: list[Any], row: object | None = None) -> None:
        self.name = name
        self.row = row
        self.asked = asked
        self.broken = False
        self.answer: Callable[[Sequence[Singer]], Sequence[int] | None] = lambda all_: range(len(all_))

    def emit(self, snapshot: Snapshot) -> bool:
        assert snapshot
        self.asked.append(self.name)
        if self.broken:
            raise ValueError("broken")
        return True

    def chorus(
        self, emitters: Sequence[Singer], failed: Callable[[int, Exception], None]
    ) -> Callable[[Snapshot], Sequence[int] | None]:
        def sing(snapshot: Snapshot) -> Sequence[int] | None:
            assert snapshot
            self.asked.append("".join(each.name for each in emitters))
            for index, each in enumerate(emitters):
                if each.broken:
                    failed(index, ValueError("broken"))
            return self.answer(emitters)

        return sing


class Stage:
    """A runtime with singers, and what they did tick by tick."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.runtime = Runtime(rover().build(), KinematicBackend()).open()
        self.singers: dict[str, Singer] = {}
        self.tick_number = 0

    def add(
        self, names: str, row: object | None = None, *, rate: float | None = 100.0, gate: Gate | None = None
    ) -> list[Singer]:
        added = [Singer(name, self.asked, row) for name in names]
        for each in added:
            self.singers[each.name] = each
            self.runtime.emissions.add(each, name=each.name, rate=rate, gate=gate)
        return added

    def tick(self) -> list[Any]:
        self.asked.clear()
        self.tick_number += 1
        self.runtime.tick(self.tick_number * PERIOD_NS)
        return list(self.asked)

    def published(self) -> dict[str, int]:
        return {each.name: each.published for each in self.runtime.status().emitters}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_those_in_a_row_are_asked_at_once_where_the_first_of_them_is(stage: Stage) -> None:
    row, other = object(), object()
    stage.add("a")
    stage.add("b", row)
    stage.add("c", other)
    stage.add("d")
    stage.add("e", row)
    stage.add("f", other)
    stage.add("g", object())
    assert stage.tick() == ["a", "be", "cf", "d", "g"]
    assert stage.published() == dict.fromkeys("abcdefg", 1)


def test_a_row_is_found_when_emitters_say_so_and_another_one_before_long(stage: Stage) -> None:
    singers = stage.add("abc")
    assert stage.tick() == ["a", "b", "c"]
    row = object()
    for each in singers[:2]:
        each.row = row
    assert stage.tick() == ["a", "b", "c"]
    stage.runtime.emissions.regroup()
    assert stage.tick() == ["ab", "c"]
    singers[2].row = row
    stage.runtime.emissions.regroup()
    ticks = [stage.tick() for _ in range(LEAST_AGE + 1)]
    assert ticks == [["ab", "c"]] * LEAST_AGE + [["abc"]]


def test_the_first_row_is_found_at_the_next_tick(stage: Stage) -> None:
    singers = stage.add("ab")
    first = singers[0].emit

    def join(snapshot: Snapshot) -> bool:
        if singers[0].row is None:
            singers[0].row = singers[1].row = object()
            stage.runtime.emissions.regroup()
        return first(snapshot)

    stage.runtime.remove_emitter(singers[0])
    singers[0].emit = join  # type: ignore[method-assign]
    stage.runtime.emissions.add(singers[0], name="a", rate=100.0)
    assert stage.tick() == ["b", "a"]
    assert stage.tick() == ["ba"]


@pytest.mark.parametrize("rate", [None, 100.0])
def test_emitters_of_every_tick_have_rows_as_those_of_a_rate(stage: Stage, rate: float | None) -> None:
    stage.add("abc", object(), rate=rate)
    assert stage.tick() == ["abc"]


def test_rows_are_those_of_who_is_due(stage: Stage) -> None:
    row = object()
    stage.add("ab", row, rate=100.0)
    stage.add("cd", row, rate=50.0)
    stage.add("e", row, rate=25.0)
    assert [stage.tick() for _ in range(5)] == [["abcde"], ["ab"], ["abcd"], ["ab"], ["abcde"]]
    assert stage.published() == {"a": 5, "b": 5, "c": 3, "d": 3, "e": 2}


def test_who_is_behind_a_closed_gate_is_not_asked_along(stage: Stage) -> None:
    gate = Gate(True)
    row = object()
    stage.add("ab", row)
    stage.add("c", row, gate=gate)
    assert stage.tick() == ["abc"]
    gate.turn(False)
    assert stage.tick() == ["ab"]
    gate.turn(True)
    assert stage.tick() == ["abc"]
    assert stage.published() == {"a": 3, "b": 3, "c": 2}


def test_what_publishes_is_counted_and_what_fails_too(stage: Stage) -> None:
    singers = stage.add("abc", object())
    singers[1].broken = True
    singers[0].answer = lambda _: [0, 2]
    assert stage.tick() == ["abc"]
    assert stage.published() == {"a": 1, "b": 0, "c": 1}
    assert [each.errors for each in stage.runtime.status().emitters] == [0, 1, 0]
    assert [each.kind for each in stage.runtime.status().reports] == ["emitter.error:b"]


def test_a_chorus_that_cannot_or_raises_leaves_it_to_each(stage: Stage) -> None:
    singers = stage.add("abc", object())
    singers[2].broken = True
    singers[0].answer = lambda _: None
    assert stage.tick() == ["abc", "a", "b", "c"]

    def fail(_: Sequence[Singer]) -> Sequence[int]:
        raise ValueError("nobody's fault")

    singers[0].answer = fail
    assert stage.tick() == ["abc", "a", "b", "c"]
    assert stage.published() == {"a": 2, "b": 2, "c": 0}


def test_who_is_removed_while_others_are_asked_is_not_asked_any_more(stage: Stage) -> None:
    first, second = object(), object()
    (a, _), (_, d) = stage.add("ab", first), stage.add("cd", second)

    def remove(emitters: Sequence[Singer]) -> Sequence[int]:
        stage.runtime.remove_emitter(d)
        return range(len(emitters))

    a.answer = remove
    assert stage.tick() == ["ab", "c"]
    assert stage.tick() == ["ab", "c"]
    stage.runtime.remove_emitter(a)
    assert stage.tick() == ["b", "c"]


def test_lanes_of_rates_that_meet_are_found_once(stage: Stage) -> None:
    row, made = object(), list[Any]()
    for first, rate in zip("acegi", (100.0, 50.0, 100.0 / 3.0, 20.0, 100.0 / 7.0), strict=True):
        for each in stage.add(first + chr(ord(first) + 1), row, rate=rate):
            each.chorus = _counting(each.chorus, made)  # type: ignore[method-assign]
    rounds = []
    for _ in range(2):
        made.clear()
        rounds.append([stage.tick() for _ in range(210)])
        assert all(len(asked) == 1 for asked in rounds[-1]), "all that is due is in one row"
        counted, expected = len(made), 16 if len(rounds) == 1 else 0
        assert counted == expected
    assert rounds[0] == rounds[1]


def _counting(chorus: Callable[..., Any], made: list[Any]) -> Callable[..., Any]:
    def count(*arguments: Any) -> Any:
        made.append(arguments[0])
        return chorus(*arguments)

    return count


def test_after_a_reset_choruses_are_new(stage: Stage) -> None:
    made: list[Any] = []
    (a, *_) = stage.add("ab", object())
    a.chorus = _counting(a.chorus, made)  # type: ignore[method-assign]
    stage.tick()
    stage.tick()
    assert len(made) == 1
    stage.runtime.reset()
    stage.tick()
    assert len(made) == 2
