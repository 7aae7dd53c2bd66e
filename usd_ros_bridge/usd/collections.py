"""Collections: members of the UsdCollectionAPI collections that controllers target (REP 0158 section 4.2.3)."""

from __future__ import annotations

from collections.abc import Iterable

from pxr import Usd

from usd_ros_bridge.usd.traversal import PREDICATE


def collection_members(stage: Usd.Stage, targets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the prims of each collection that exists, by collection path (`/Robot.collection:arm`).

    Members come in traversal order, as OpenUSD computes membership: a set has no order of its own.
    """
    found: dict[str, tuple[str, ...]] = {}
    for target in sorted(set(targets)):
        collection = Usd.CollectionAPI.GetCollection(stage, target)
        if not collection:
            continue
        query = collection.ComputeMembershipQuery()
        members = Usd.CollectionAPI.ComputeIncludedPaths(query, stage, PREDICATE)
        found[target] = tuple(path.pathString for path in members if path.IsPrimPath())
    return found
