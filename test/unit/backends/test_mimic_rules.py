"""What backends share: joints that follow others."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np
import pytest

from builders.plans import PlanBuilder
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.model.plan import BridgePlan


class Counted(Set[int]):
    """Counts how often it is asked for a row."""

    def __init__(self, *rows: int) -> None:
        self.rows = frozenset(rows)
        self.asked = 0

    def __contains__(self, row: object) -> bool:
        self.asked += 1
        return row in self.rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def chain(count: int) -> BridgePlan:
    """Returns a plan in which each joint follows the one before: `position = 0.5 - position of the one before`."""
    robot = PlanBuilder().robot()
    robot.body("base")
    for index in range(count):
        robot.body(f"link{index}")
        mimic = (f"a{index - 1}", -1.0, 0.5) if index else None
        robot.joint(f"a{index}", "base", f"link{index}", mimic=mimic)
    return robot.plan


COUNT = 1000


@pytest.fixture(scope="module")
def rules() -> MimicRules:
    return MimicRules(chain(COUNT))


@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_is_walked_once_whoever_asks_first(rules: MimicRules, order: int) -> None:
    known = Counted(0)
    found = rules.resolve(range(1, COUNT)[::order], known)
    assert known.asked <= 2 * COUNT
    assert found[1] == (0, -1.0, 0.5)
    assert found[2] == (0, 1.0, 0.0)
    assert found[COUNT - 1] == (0, -1.0, 0.5)


def test_a_chain_ends_at_what_is_known(rules: MimicRules) -> None:
    found = rules.resolve([500, 501, 502, 499], frozenset({500}))
    assert found == {501: (500, -1.0, 0.5), 502: (500, 1.0, 0.0), 499: (0, -1.0, 0.5)}


def test_all_follow_the_head_at_once(rules: MimicRules) -> None:
    position, velocity = np.zeros(COUNT), np.zeros(COUNT)
    position[0], velocity[0] = 0.2, 1.0
    rules.followers().apply(position, velocity)
    np.testing.assert_allclose(position, [0.2, 0.3] * (COUNT // 2))
    np.testing.assert_allclose(velocity, [1.0, -1.0] * (COUNT // 2))


def test_with_known_values_only_what_has_a_known_leader_follows(rules: MimicRules) -> None:
    followers = rules.followers([10, 12])
    assert followers.rows.tolist() == [11, *range(13, COUNT)]
    assert set(followers.leaders.tolist()) == {10, 12}
