"""What backends share: the state at rest, and joints that follow others."""

from __future__ import annotations

from collections.abc import Collection, Set
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

    def resolve(self, followers: Collection[int], known: Set[int]) -> dict[int, tuple[int, float, float]]:
        """Walks up from followers to the first leaders that are in `known` or follow nothing.

        A chain costs as many steps as it has joints, however many followers it is walked for.

        Args:
            followers: Layout rows.
            known: Layout rows whose values are given, followers or not.

        Returns:
            The leader's row, multiplier and offset, by follower: of those not in `known` that follow something, and
            whose chain ends.
        """
        # What is being walked has no rule yet: who comes back to it is in a circle.
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
        """Returns all that follow; with `known`, those not in it whose leader is."""
        given = known if isinstance(known, Set) else frozenset(known or ())
        rules = self.resolve(sorted(self._rules), given)
        entries = [(row, *rule) for row, rule in rules.items() if known is None or rule[0] in given]
        return Followers(
            rows=np.array([entry[0] for entry in entries], dtype=np.intp),
            leaders=np.array([entry[1] for entry in entries], dtype=np.intp),
            multipliers=np.array([entry[2] for entry in entries], dtype=np.float64),
            offsets=np.array([entry[3] for entry in entries], dtype=np.float64),
        )
