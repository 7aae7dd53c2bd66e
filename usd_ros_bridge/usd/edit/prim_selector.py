"""Selectors of prims: a path, a glob over paths, or a collection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pxr import Sdf, Tf, Usd

from usd_ros_bridge.errors import MAX_CANDIDATES, OptionError, alternatives, did_you_mean, quoted
from usd_ros_bridge.model.path_globs import WILDCARD, glob_pattern
from usd_ros_bridge.usd.read.properties import PREDICATE
from usd_ros_bridge.usd.tf_errors import first_line

_COLLECTION: Final = ".collection:"


def select_prims(stage: Any, selector: str) -> tuple[str, ...]:
    """Return the paths of the prims that a selector names, in traversal order; those of instances included.

    Args:
        stage: A Usd.Stage.
        selector: A prim path, a glob (`*` and `?` within a name, `**` over any number of levels), or the path of a
            collection, such as `/World.collection:wheels`.

    Raises:
        OptionError: It selects nothing, or is no path.
    """
    if _COLLECTION in selector:
        return _members(stage, selector)
    if not selector.startswith("/"):
        raise OptionError(f"{quoted(selector)} is no absolute prim path; begin with /")
    if WILDCARD.search(selector) is None:
        if Sdf.Path.IsValidPathString(selector)[0] and stage.GetPrimAtPath(selector):
            return (selector,)
        near = did_you_mean(selector, _paths(stage))
        raise OptionError(f"there is no prim {quoted(selector)}{'; ' + near if near else ''}")
    matches = glob_pattern(selector).fullmatch
    found = tuple(path for path in _paths(stage) if matches(path))
    if not found:
        raise OptionError(f"{quoted(selector)} selects no prim")
    return found


def _members(stage: Any, selector: str) -> tuple[str, ...]:
    collection = Usd.CollectionAPI.GetCollection(stage, selector) if selector.startswith("/") else None
    if not collection:
        raise OptionError(
            f"there is no collection {quoted(selector)}; {alternatives(selector, _collections(stage))}"
        )
    try:
        members = Usd.CollectionAPI.ComputeIncludedPaths(
            collection.ComputeMembershipQuery(), stage, PREDICATE
        )
    except Tf.ErrorException as error:
        raise OptionError(
            f"{quoted(selector)} is no collection that OpenUSD can use: {first_line(error)}"
        ) from None
    found = {str(path) for path in members if path.IsPrimPath()}
    if not found:
        raise OptionError(f"the collection {quoted(selector)} is empty")
    return tuple(path for path in _paths(stage) if path in found)


def _paths(stage: Any) -> Iterable[str]:
    return (str(prim.GetPath()) for prim in Usd.PrimRange.Stage(stage, PREDICATE))


def _collections(stage: Any) -> list[str]:
    found: list[str] = []
    for prim in Usd.PrimRange.Stage(stage, PREDICATE):
        found += (str(each.GetCollectionPath()) for each in Usd.CollectionAPI.GetAllCollections(prim))
        if len(found) > MAX_CANDIDATES:
            break
    return found
