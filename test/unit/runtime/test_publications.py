"""Publications in a tick: batches publish as each member would, whatever is due, enabled, added or at fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from builders.plans import rover
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.runtime.publications import Publication, Publications, Publish
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot

PERIOD_NS = 10_000_000


class Named(Publication):
    """A publication that notes that it was published, and may be put into a batch."""

    def __init__(self, name: str, published: list[str], key: object | None = None) -> None:
        super().__init__()
        self.letter = name
        self.batch_key = key
        self.published = published
        self.is_broken = False
        self.then: Callable[[], None] = lambda: None
        self.batches: list[str] = []
        self.resets = 0

    def publish(self, snapshot: Snapshot) -> bool:
        assert snapshot
        self.published.append(self.letter)
        self.then()
        if self.is_broken:
            raise ValueError("broken")
        return True

    def reset(self) -> None:
        self.resets += 1

    def make_batch(self, members: Sequence[Publication], publications: Publications) -> Publish:
        named = [each for each in members if isinstance(each, Named)]
        self.batches.append("".join(each.letter for each in named))
        return NamedBatch(named, publications).publish


class NamedBatch:
    """Notes who was published together; those that are broken fail alone."""

    def __init__(self, members: list[Named], publications: Publications) -> None:
        self.members = members
        self.publications = publications

    def publish(self, snapshot: Snapshot) -> None:
        sound = [each for each in self.members if not each.is_broken]
        sound[0].published.append("".join(each.letter for each in sound))
        for each in sound:
            each.mark(snapshot.time_ns)
        self.publications.publish_each([each for each in self.members if each.is_broken], snapshot)


class Stage:
    """A runtime with publications, and what they did tick by tick."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.runtime = Runtime(rover().build(), KinematicBackend()).open()
        self.ticks = 0

    def add(self, names: str, key: object | None = None, *, rate: float | None = 100.0) -> list[Named]:
        added = [Named(name, self.published, key) for name in names]
        for each in added:
            self.runtime.add_publication(each, name=each.letter, rate=rate)
        return added

    def tick(self) -> list[str]:
        self.published.clear()
        self.ticks += 1
        self.runtime.tick(self.ticks * PERIOD_NS)
        return list(self.published)

    def counts(self) -> dict[str, int]:
        return {each.name: each.published for each in self.runtime.status().publications}


class Alone(Stage):
    """As `Stage`, but its publications are asked without a runtime: that enables what no controller disables."""

    def __init__(self) -> None:
        super().__init__()
        # A snapshot has no time before the first tick.
        self.runtime.tick(1)

    def add(
        self,
        names: str,
        key: object | None = None,
        *,
        rate: float | None = 100.0,
        on_arrival: bool = False,
    ) -> list[Named]:
        added = [Named(name, self.published, key) for name in names]
        for each in added:
            self.publications.add(each, name=each.letter, rate=rate, on_arrival=on_arrival)
        return added

    def tick(self, *, arrived: bool = False) -> list[str]:
        self.published.clear()
        self.ticks += 1
        self.publications.choose(self.ticks * PERIOD_NS, arrived=arrived)
        self.publications.publish(self.runtime.snapshot, self.ticks * PERIOD_NS)
        return list(self.published)

    @property
    def publications(self) -> Publications:
        return self.runtime.publications


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def alone() -> Alone:
    return Alone()


def test_a_batch_is_published_where_its_first_member_is(stage: Stage) -> None:
    stage.add("a")
    stage.add("b", 1)
    stage.add("c", 2)
    stage.add("d")
    stage.add("e", 1)
    stage.add("f", 2)
    stage.add("g", 3)
    assert stage.tick() == ["a", "be", "cf", "d", "g"]
    assert stage.counts() == dict.fromkeys("abcdefg", 1)


@pytest.mark.parametrize("rate", [None, 100.0])
def test_publications_of_every_tick_have_batches_as_those_of_a_rate(stage: Stage, rate: float | None) -> None:
    stage.add("abc", 1, rate=rate)
    assert stage.tick() == ["abc"]


def test_a_batch_has_those_that_are_due(stage: Stage) -> None:
    stage.add("ab", 1, rate=100.0)
    stage.add("cd", 1, rate=50.0)
    stage.add("e", 1, rate=25.0)
    assert [stage.tick() for _ in range(5)] == [["abcde"], ["ab"], ["abcd"], ["ab"], ["abcde"]]
    assert stage.counts() == {"a": 5, "b": 5, "c": 3, "d": 3, "e": 2}


def test_batches_of_rates_that_meet_are_made_once(stage: Stage) -> None:
    named: list[Named] = []
    for first, rate in zip("acegi", (100.0, 50.0, 100.0 / 3.0, 20.0, 100.0 / 7.0), strict=True):
        named += stage.add(first + chr(ord(first) + 1), 1, rate=rate)
    rounds, made = [], []
    for _ in range(2):
        rounds.append([stage.tick() for _ in range(210)])
        assert all(len(published) == 1 for published in rounds[-1]), "all that is due is one batch"
        made.append(sum(len(each.batches) for each in named))
    assert made == [16, 16]
    assert rounds[0] == rounds[1]


def test_disabled_publications_are_left_out_until_they_are_enabled(stage: Stage) -> None:
    publications = stage.runtime.publications
    stage.add("abc", 1)
    stage.add("x")
    assert stage.tick() == ["abc", "x"]
    # A runtime without controllers enables everything: its publications alone are asked.
    publications.disable(frozenset("cx"))
    assert [each.enabled for each in publications.status(0)] == [True, True, False, False]
    stage.published.clear()
    publications.choose(5 * PERIOD_NS)
    publications.publish(stage.runtime.snapshot, 5 * PERIOD_NS)
    assert stage.published == ["ab"]
    publications.disable(frozenset())
    stage.ticks = 6
    assert stage.tick() == ["abc", "x"]


def test_a_publication_that_is_added_under_a_disabled_name_waits_until_it_is_enabled(alone: Alone) -> None:
    alone.add("ab", 1)
    alone.publications.disable(frozenset("bcd"))
    alone.add("c", 1)
    alone.add("d", rate=None)
    alone.add("e", 1)
    assert alone.tick() == ["ae"]
    assert [each.enabled for each in alone.publications.status(0)] == [True, False, False, False, True]
    alone.publications.disable(frozenset("b"))
    assert alone.tick() == ["d", "ace"]


def test_a_publication_that_is_removed_while_disabled_is_enabled_when_it_comes_back(alone: Alone) -> None:
    _, b, c = alone.add("abc", 1)
    assert alone.tick() == ["abc"]
    alone.publications.disable(frozenset("bc"))
    assert alone.tick() == ["a"]
    alone.publications.remove(b)
    alone.publications.disable(frozenset("c"))
    assert alone.tick() == ["a"]
    alone.publications.add(b, name="b", rate=100.0)
    assert alone.tick() == ["ab"]
    alone.publications.remove(c)
    alone.publications.add(c, name="c", rate=100.0)
    assert alone.tick() == ["ab"]
    alone.publications.disable(frozenset())
    assert alone.tick() == ["abc"]
    assert (b.count, c.count) == (4, 2)


def test_a_disabled_publication_waits_for_the_first_arrival_after_it_is_enabled(alone: Alone) -> None:
    alone.publications.disable(frozenset("a"))
    a, b = alone.add("ab", on_arrival=True)
    assert alone.tick(arrived=True) == ["b"]
    assert alone.tick(arrived=True) == ["b"]
    alone.publications.disable(frozenset("b"))
    assert alone.tick(arrived=True) == ["a"]
    alone.publications.disable(frozenset())
    assert sorted(alone.tick(arrived=True)) == ["a", "b"]
    assert alone.tick() == []
    alone.publications.disable(frozenset("a"))
    alone.publications.remove(a)
    assert alone.tick(arrived=True) == ["b"]
    assert (a.count, b.count) == (2, 4)


def test_a_publication_that_is_changed_while_disabled_stays_disabled(alone: Alone) -> None:
    (a,) = alone.add("a")
    alone.add("b")
    alone.publications.disable(frozenset("a"))
    for rate, on_arrival in ((50.0, False), (None, False), (50.0, True), (100.0, False)):
        alone.publications.change(a, rate=rate, on_arrival=on_arrival)
        assert alone.tick(arrived=True) == ["b"]
    alone.publications.disable(frozenset())
    assert sorted(alone.tick(arrived=True)) == ["a", "b"]


def test_a_fault_is_counted_and_reported_and_stops_no_other(stage: Stage) -> None:
    named = stage.add("abc", 1)
    named[1].is_broken = True
    stage.add("d")[0].is_broken = True
    stage.add("e")
    assert stage.tick() == ["ac", "b", "d", "e"]
    assert stage.counts() == {"a": 1, "b": 0, "c": 1, "d": 0, "e": 1}
    assert [each.errors for each in stage.runtime.status().publications] == [0, 1, 0, 1, 0]
    assert [each.kind for each in stage.runtime.status().reports] == ["emitter.error:b", "emitter.error:d"]


def test_a_publication_that_is_removed_by_another_is_not_published_any_more(stage: Stage) -> None:
    a, b, c = stage.add("abc")
    a.then = lambda: stage.runtime.remove_publication(b)
    assert stage.tick() == ["a", "c"]
    stage.runtime.remove_publication(c)
    assert stage.tick() == ["a"]
    stage.runtime.add_publication(b, name="b", rate=100.0)
    a.then = lambda: None
    assert stage.tick() == ["a", "b"]


def test_batches_are_made_anew_after_a_change_and_counters_go_on(stage: Stage) -> None:
    a, b, _ = stage.add("abc", 1)
    stage.tick()
    stage.runtime.remove_publication(b)
    assert stage.tick() == ["ac"]
    stage.runtime.add_publication(b, name="b", rate=None)
    assert stage.tick() == ["b", "ac"]
    a.batch_key = None
    stage.runtime.publications.regroup()
    assert stage.tick() == ["b", "a", "c"]
    stage.runtime.change_publication(b, rate=100.0)
    assert stage.tick() == ["a", "cb"]
    assert stage.counts() == {"a": 5, "c": 5, "b": 4}


def test_one_whose_batch_changes_within_a_tick_is_published_once_in_it_and_in_its_new_batch_from_the_next(
    stage: Stage,
) -> None:
    (a,) = stage.add("a")
    b, c, d = stage.add("bcd", 1)
    stage.add("e", 2)
    assert stage.tick() == ["a", "bcd", "e"]

    def regroup() -> None:
        d.batch_key = 2
        stage.runtime.publications.regroup()

    a.then = regroup
    assert sorted("".join(stage.tick())) == list("abcde")
    a.then = lambda: None
    assert stage.tick() == ["a", "bc", "de"]
    # One of a batch may ask for it, too.
    b.batch_key = c.batch_key = None
    b.then = stage.runtime.publications.regroup
    stage.runtime.publications.regroup()
    assert stage.tick() == ["a", "b", "c", "de"]
    assert stage.tick() == ["a", "b", "c", "de"]
    assert stage.counts() == dict.fromkeys("abcde", 5)
    assert not stage.runtime.status().reports


@pytest.mark.parametrize("rate", [None, 100.0])
def test_what_one_of_every_tick_removes_or_adds_counts_in_the_same_tick_or_the_next(
    stage: Stage, rate: float | None
) -> None:
    (a,) = stage.add("a", rate=None)
    b, c = stage.add("bc", rate=rate)
    (late,) = [Named("d", stage.published)]

    def change() -> None:
        if b.is_added:
            stage.runtime.remove_publication(b)
            stage.runtime.add_publication(late, name="d", rate=rate)

    a.then = change
    assert [each for each in stage.tick() if each != "d"] == ["a", "c"]
    assert stage.tick() == ["a", "c", "d"]
    assert (b.count, c.count) == (0, 2)
    assert not stage.runtime.status().reports


def test_a_reset_reaches_every_publication(stage: Stage) -> None:
    named = stage.add("ab", 1)
    stage.tick()
    stage.runtime.reset()
    assert [each.resets for each in named] == [1, 1]
    stage.ticks = 0
    assert stage.tick() == ["ab"]


def test_what_a_publication_shows_is_read_in_its_tick(stage: Stage) -> None:
    seen: list[Any] = []

    class Reader(Publication):
        def publish(self, snapshot: Snapshot) -> bool:
            seen.append(snapshot.time_ns)
            return False

    stage.runtime.add_publication(Reader(), name="reader", rate=50.0)
    for _ in range(3):
        stage.tick()
    assert seen == [PERIOD_NS, 3 * PERIOD_NS]
    assert stage.counts() == {"reader": 0}
