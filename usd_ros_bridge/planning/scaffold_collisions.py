"""Plan collision filters: for bodies of a robot that overlap at rest, which engines would drive apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.scaffold import Decision, Opinion, Property, Survey
from usd_ros_bridge.planning.names import prim_name

_SHOWN = 6
"""Pairs that are named."""


def filter_overlaps(
    plan: BridgePlan, survey: Survey, overlaps: Mapping[tuple[str, str], float]
) -> tuple[list[Opinion], list[Decision]]:
    """Filter the collisions of bodies that overlap at rest.

    Args:
        plan: With physics.
        survey: Of the same stage.
        overlaps: Depth (m) by the paths of two bodies of one robot.
    """
    assert plan.physics is not None
    owners = {body.path: plan.robots[body.robot].path for body in plan.physics.bodies if body.robot >= 0}
    partners: dict[str, list[str]] = defaultdict(list)
    by_robot: dict[str, list[str]] = defaultdict(list)
    for (first, second), depth in sorted(overlaps.items(), key=lambda item: -item[1]):
        # Either of the two may carry the filter, but nothing below an instance.
        carrier, other = (first, second) if first not in survey.closed else (second, first)
        if carrier in survey.closed:
            continue
        partners[carrier].append(other)
        by_robot[owners[carrier]].append(f"{prim_name(first)} and {prim_name(second)} ({1e3 * depth:.3g} mm)")
    opinions = [
        Opinion(
            path=path,
            schemas=("PhysicsFilteredPairsAPI",),
            properties=(
                Property(
                    name="physics:filteredPairs", type_name="rel", value=tuple(sorted(others)), prepended=True
                ),
            ),
        )
        for path, others in sorted(partners.items())
    ]
    decisions = []
    for robot, pairs in by_robot.items():
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        text = f"{', '.join(pairs[:_SHOWN])}{more} overlap at rest: they do not collide with each other"
        decisions.append(Decision(outcome="written", subject="collisions", text=text, path=robot))
    return opinions, decisions
