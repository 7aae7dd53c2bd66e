"""What backends share: the state at rest, and joints that follow others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.model.transforms import FloatArray


def rest_state(plan: BridgePlan) -> State:
    """Returns the authored state in arrays of its own: nothing moves, efforts are unknown."""
    layout = plan.layout
    dofs = len(layout.dofs)
    return State(
        time_ns=0,
        joint_position=layout.joint_position.astype(np.float64, copy=True),
        joint_velocity=np.zeros(dofs),
        joint_effort=np.full(dofs, np.nan),
        body_pose=layout.body_pose.astype(np.float64, copy=True),
        body_twist=np.zeros((len(layout.bodies), 6)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Followers:
    """Degrees of freedom that follow others: `position[rows] = multipliers * position[leaders] + offsets`."""

    rows: NDArray[np.intp]
    leaders: NDArray[np.intp]
    multipliers: FloatArray
    offsets: FloatArray

    def follow(self, position: FloatArray, velocity: FloatArray) -> None:
        """Makes them follow, in place."""
        if self.rows.size:
            position[self.rows] = self.multipliers * position[self.leaders] + self.offsets
            velocity[self.rows] = self.multipliers * velocity[self.leaders]


class MimicRules:
    """Joints that follow others, chains resolved. One whose chain never ends has no rule; planning reports it."""

    def __init__(self, plan: BridgePlan) -> None:
        """Collects the rules of all robots."""
        self._rules = {
            dof.row: dof.mimic
            for robot in plan.robots
            for joint in robot.joints
            for dof in joint.dofs
            if dof.mimic is not None
        }

    def resolve(self, follower: int, known: Collection[int]) -> tuple[int, float, float] | None:
        """Walks up from a follower to the first leader that is in `known` or follows nothing.

        Args:
            follower: Layout row.
            known: Layout rows whose values are given, followers or not.

        Returns:
            The leader's row, multiplier and offset; None where `follower` follows nothing or the chain never ends.
        """
        leader, multiplier, offset = follower, 1.0, 0.0
        seen: set[int] = set()
        while leader in self._rules and (leader == follower or leader not in known):
            if leader in seen:
                return None
            seen.add(leader)
            rule = self._rules[leader]
            offset += multiplier * rule.offset
            multiplier *= rule.multiplier
            leader = rule.leader
        return (leader, multiplier, offset) if seen else None

    def followers(self, known: Collection[int] | None = None) -> Followers:
        """Returns all that follow; with `known`, those not in it whose leader is."""
        entries = []
        for row in sorted(self._rules):
            rule = self.resolve(row, known or ())
            if rule is not None and (known is None or (row not in known and rule[0] in known)):
                entries.append((row, *rule))
        return Followers(
            rows=np.array([entry[0] for entry in entries], dtype=np.intp),
            leaders=np.array([entry[1] for entry in entries], dtype=np.intp),
            multipliers=np.array([entry[2] for entry in entries], dtype=np.float64),
            offsets=np.array([entry[3] for entry in entries], dtype=np.float64),
        )
