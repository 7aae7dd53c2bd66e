"""A storm of goals with cancellations, preemptions and killed clients leaves nothing behind and nothing open."""

from __future__ import annotations

import pytest
from goal_storm import Storm, storm

from effort import examples

pytestmark = pytest.mark.storm

GOALS = examples(60)
KILLS = max(2, GOALS // 100)
MEGABYTE = 2**20
BUSY = ("schedule.stall", "loop.overrun")
STALL_S = 5.0
"""`make bench` measures how evenly transforms are sent. Here they must not stop."""


@pytest.mark.storm
@pytest.mark.timeout(max(300, 2 * GOALS))
def test_every_goal_ends_once_and_nothing_leaks() -> None:
    made: Storm = storm(GOALS, kills=KILLS)
    assert sum(made.asked.values()) == GOALS
    assert made.goals >= GOALS
    assert sum(made.outcomes.values()) == made.goals, "every goal ends in a terminal state"
    assert (made.unfinished, made.changed, made.unanswered) == (0, 0, 0)
    assert all(made.outcomes.values()), made.outcomes
    assert [each for each in made.warnings if not each.startswith(BUSY)] == []
    before, after = made.before, made.after
    assert before is not None
    assert after is not None
    assert (before.goals, after.goals) == (0, 0)
    assert after.entities == before.entities
    assert after.threads <= before.threads + 1
    assert after.descriptors <= before.descriptors + 1
    # Blocks of Python's are a few hundred bytes at most: what it keeps for each goal would show.
    assert after.blocks - before.blocks < max(2000, GOALS)
    assert after.rss - before.rss < MEGABYTE
    assert made.longest_gap < STALL_S, "transforms go on"
