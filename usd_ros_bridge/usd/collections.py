"""Collections: members of the UsdCollectionAPI collections that controllers target (REP 0158 section 4.2.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pxr import Usd

from usd_ros_bridge.usd.traversal import PREDICATE


def collection_members(
    stage: Usd.Stage, targets: Iterable[str], order: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """Returns the prims of each collection that exists, by collection path (`/Robot.collection:arm`).

    Args:
        stage: The stage.
        targets: Collection paths.
        order: Position of each prim in traversal order, the order of members: a collection has none of its own.
    """
    found: dict[str, tuple[str, ...]] = {}
    for target in sorted(set(targets)):
        collection = Usd.CollectionAPI.GetCollection(stage, target)
        if not collection:
            continue
        query = collection.ComputeMembershipQuery()
        members = Usd.CollectionAPI.ComputeIncludedPaths(query, stage, PREDICATE)
        paths = {path.pathString for path in members if path.IsPrimPath()}
        found[target] = tuple(sorted(paths & order.keys(), key=order.__getitem__))
    return found
