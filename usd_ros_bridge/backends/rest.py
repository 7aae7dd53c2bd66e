"""The state at rest, as every backend starts with it."""

from __future__ import annotations

import numpy as np

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


class MimicRules:
    """Joints that follow others: `position = multiplier * leader + offset`, chains resolved to the first leader.

    A follower whose chain never ends has no rule; planning reports it.
    """

    def __init__(self, plan: BridgePlan) -> None:
        """Collects the rules of all robots."""
        direct = {
            dof.row: dof.mimic
            for robot in plan.robots
            for joint in robot.joints
            for dof in joint.dofs
            if dof.mimic is not None
        }
        self.direct = {row: (rule.leader, rule.multiplier, rule.offset) for row, rule in direct.items()}
        resolved = []
        for follower in sorted(direct):
            rule = self.resolve(follower, frozenset())
            if rule is not None:
                resolved.append((follower, *rule))
        self.followers = np.array([row[0] for row in resolved], dtype=np.intp)
        self.leaders = np.array([row[1] for row in resolved], dtype=np.intp)
        self.multipliers = np.array([row[2] for row in resolved], dtype=np.float64)
        self.offsets = np.array([row[3] for row in resolved], dtype=np.float64)

    def resolve(self, follower: int, known: frozenset[int]) -> tuple[int, float, float] | None:
        """Walks up from a follower to the first leader that is in `known` or follows nothing.

        Args:
            follower: Layout row.
            known: Layout rows whose values are given, followers or not.

        Returns:
            The leader's row, multiplier and offset; None where the chain never ends.
        """
        leader, multiplier, offset = follower, 1.0, 0.0
        seen = set()
        while leader in self.direct and (leader == follower or leader not in known):
            if leader in seen:
                return None
            seen.add(leader)
            leader, factor, summand = self.direct[leader]
            offset += multiplier * summand
            multiplier *= factor
        return leader, multiplier, offset

    def apply(self, position: FloatArray, velocity: FloatArray) -> None:
        """Makes all followers follow, in place."""
        if self.followers.size:
            position[self.followers] = self.multipliers * position[self.leaders] + self.offsets
            velocity[self.followers] = self.multipliers * velocity[self.leaders]
