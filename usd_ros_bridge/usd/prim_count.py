"""Count the prims of a stage, and their arcs, before it is composed: references that multiply grow without bound."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from pxr import Pcp, Sdf

from usd_ros_bridge.model.errors import AssetError
from usd_ros_bridge.model.options import ReadOptions
from usd_ros_bridge.usd.layer_files import exceeded

_MOST_HELD: Final = 200_000
"""Prims whose composition is kept in memory. A new cache begins above."""
_SCHEMAS: Final = "apiSchemas"

_Key = tuple[str, ...]


def check_prim_count(
    root: Any, session: Any, context: Any, options: ReadOptions, muted: Collection[str] = ()
) -> None:
    """Refuse a stage with too many prims, too deep ones, or one of too many arcs, before it is composed.

    A subtree that is composed from the same specs as one before is counted and not composed again.

    Args:
        root: Root layer.
        session: Session layer, with the variant selections.
        context: Resolver context.
        options: Limits, and whether payloads count.
        muted: Identifiers of layers that are left out.

    Raises:
        AssetError: A limit is exceeded.
    """
    _Counter(root, session, context, options, muted).run()


class _Level:
    """A prim whose descendants are being counted."""

    __slots__ = ("children", "count", "depth", "key")

    def __init__(self, key: _Key | None, children: list[Any]) -> None:
        self.key = key
        self.children = children
        self.count = 1
        self.depth = 1


class _Counter:
    def __init__(
        self, root: Any, session: Any, context: Any, options: ReadOptions, muted: Collection[str]
    ) -> None:
        self._identifier = Pcp.LayerStackIdentifier(root, session, context)
        self._options = options
        self._muted = list(muted)
        self._known: dict[_Key, tuple[int, int]] = {}
        self._held = 0
        self._cache = self._new_cache()

    def _new_cache(self) -> Any:
        cache = Pcp.Cache(self._identifier, "usd", True)
        if self._muted:
            cache.RequestLayerMuting(self._muted, [])
        return cache

    def run(self) -> None:
        """Visit the prims depth first, without recursion: the nesting itself may be the fault."""
        levels = [self._level(Sdf.Path.absoluteRootPath)]
        total = 1
        while levels:
            level = levels[-1]
            if level.children:
                path = level.children.pop()
                below = self._level(path)
                known = self._known.get(below.key) if below.key else None
                if known is None:
                    levels.append(below)
                    total += 1
                else:
                    total += known[0]
                    level.count += known[0]
                    level.depth = max(level.depth, known[1] + 1)
                self._check(total, len(levels) - 1 if known is None else len(levels) - 1 + known[1])
                continue
            levels.pop()
            if level.key:
                self._known[level.key] = (level.count, level.depth)
            if levels:
                levels[-1].count += level.count
                levels[-1].depth = max(levels[-1].depth, level.depth + 1)

    def _check(self, total: int, depth: int) -> None:
        if total > self._options.max_prims:
            raise AssetError(exceeded("prims", self._options.max_prims))
        if depth > self._options.max_nesting:
            raise AssetError(exceeded("nesting", self._options.max_nesting))

    def _level(self, path: Any) -> _Level:
        self._held += 1
        if self._held > _MOST_HELD:
            self._held, self._cache = 0, self._new_cache()
        index, _ = self._cache.ComputePrimIndex(path)
        if index.hasAnyPayloads and self._options.payloads == "all":
            self._cache.RequestPayloads([path], [])
            index, _ = self._cache.ComputePrimIndex(path)
        nodes = _nodes(index.rootNode)
        if max(len(nodes) - 1, _applied_schemas(index)) > self._options.max_arcs:
            raise AssetError(f"<{path}>: {exceeded('arcs', self._options.max_arcs)}")
        names, _ = index.ComputePrimChildNames()
        children = [path.AppendChild(name) for name in names]
        return _Level(_key(nodes) if children else None, children)


def _nodes(root: Any) -> list[Any]:
    """Return the root and all nodes below it. Each but the root is a composition arc."""
    nodes = [root]
    for node in nodes:
        nodes += node.children
    return nodes


def _applied_schemas(index: Any) -> int:
    """Return how often an API schema is applied to a prim. OpenUSD takes minutes for 20,000 of them."""
    return sum(len(spec.GetInfo(_SCHEMAS).GetAddedOrExplicitItems()) for spec in index.primStack)


def _key(nodes: list[Any]) -> _Key | None:
    """Return what tells subtrees apart that are composed from other specs; None for one that is nowhere else."""
    if len(nodes) == 1 and nodes[0].hasSpecs:
        return None
    # With layers and expression variables. Python's object of a layer stack would never be freed.
    return tuple([str(node.site) for node in nodes if node.hasSpecs])
