"""Collections: members of the UsdCollectionAPI collections that controllers target (REP 0158 section 4.2.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pxr import Tf, Usd

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.opening import first_line
from usd_ros_bridge.usd.traversal import PREDICATE


def collection_members(
    stage: Usd.Stage, targets: Iterable[str], order: Mapping[str, int], diagnostics: list[Diagnostic]
) -> dict[str, tuple[str, ...]]:
    """Returns the prims of each collection that exists, by collection path (`/Robot.collection:arm`).

    Args:
        stage: The stage.
        targets: Collection paths.
        order: Position of each prim in traversal order, the order of members: a collection has none of its own.
        diagnostics: Takes collections that OpenUSD cannot evaluate; they have no members.
    """
    found: dict[str, tuple[str, ...]] = {}
    for target in sorted(set(targets)):
        collection = Usd.CollectionAPI.GetCollection(stage, target)
        if not collection:
            continue
        try:
            query = collection.ComputeMembershipQuery()
            members = Usd.CollectionAPI.ComputeIncludedPaths(query, stage, PREDICATE)
        except Tf.ErrorException as error:
            path, _, name = target.partition(".")
            diagnostics.append(_broken_collection(path, name, error))
            members = ()
        paths = {path.pathString for path in members if path.IsPrimPath()}
        found[target] = tuple(sorted(paths & order.keys(), key=order.__getitem__))
    return found


def _broken_collection(path: str, attribute: str, error: Exception) -> Diagnostic:
    """Return the diagnostic of a collection that OpenUSD cannot evaluate."""
    return Diagnostic(
        code="4.2.3.collection",
        severity="error",
        path=path,
        attribute=attribute,
        message=f"is no collection that OpenUSD can use: {first_line(error)}; it has no members",
        remedy="author includes and excludes as relationships",
    )
