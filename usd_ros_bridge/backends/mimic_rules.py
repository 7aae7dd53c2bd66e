"""Mimic rules: joints that follow others, for backends without a physics engine."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.transforms import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Followers:
    """Mimic rules with resolved leaders: `position[rows] = multipliers * position[leaders] + offsets`."""

    rows: NDArray[np.intp]
    leaders: NDArray[np.intp]
    multipliers: FloatArray
    offsets: FloatArray

    def apply(self, position: FloatArray, velocity: FloatArray) -> None:
        """Write positions and velocities of the followers, in place."""
        if self.rows.size:
            position[self.rows] = self.multipliers * position[self.leaders] + self.offsets
            velocity[self.rows] = self.multipliers * velocity[self.leaders]


class MimicRules:
    """Mimic rules of all robots. A joint in a circular chain has no rule; planning reports it."""

    def __init__(self, plan: BridgePlan) -> None:
        self._rules = {
            dof.row: dof.mimic
            for robot in plan.robots
            for joint in robot.joints
            for dof in joint.dofs
            if dof.mimic is not None
        }

    def resolve(self, followers: Collection[int], known: Set[int]) -> dict[int, tuple[int, float, float]]:
        """Resolve chains: find the first leader of each follower that is in `known` or follows nothing.

        The cost is linear in the number of joints.

        Args:
            followers: Layout rows.
            known: Layout rows with values of their own.

        Returns:
            The leader's row, multiplier and offset, by follower; followers in `known` and circular chains are left out.
        """
        # A row of the current chain has no rule yet: a chain that returns to it is circular.
        found: dict[int, tuple[int, float, float] | None] = {}
        for follower in followers:
            chain = []
            row = follower
            while row in self._rules and row not in known and row not in found:
                found[row] = None
                chain.append(row)
                row = self._rules[row].leader
            above = found.get(row, (row, 1.0, 0.0))
            for step in reversed(chain):
                if above is None:
                    break
                leader, multiplier, offset = above
                rule = self._rules[step]
                above = (leader, rule.multiplier * multiplier, rule.multiplier * offset + rule.offset)
                found[step] = above
        return {row: resolved for row in followers if (resolved := found.get(row)) is not None}

    def followers(self, known: Collection[int] | None = None) -> Followers:
        """Return all followers; with `known`, those outside of it whose leader is in it."""
        given = known if isinstance(known, Set) else frozenset(known or ())
        rules = self.resolve(sorted(self._rules), given)
        entries = [(row, *rule) for row, rule in rules.items() if known is None or rule[0] in given]
        return Followers(
            rows=np.array([entry[0] for entry in entries], dtype=np.intp),
            leaders=np.array([entry[1] for entry in entries], dtype=np.intp),
            multipliers=np.array([entry[2] for entry in entries], dtype=np.float64),
            offsets=np.array([entry[3] for entry in entries], dtype=np.float64),
        )
