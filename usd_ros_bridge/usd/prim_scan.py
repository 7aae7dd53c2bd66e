"""Prim scan: one pass over the prim indices of a stage that is not composed yet.

It counts prims, and finds the robots that a stage can do without: those that nothing else on the stage needs. A subtree
that is composed from the same specs as one before is visited once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from pxr import Pcp, Sdf

from usd_ros_bridge.errors import AssetError
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS, CONTROLLERS
from usd_ros_bridge.model.stage import Pause
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd.layer_files import exceeded

CONTEXT: Final = "RosContextAPI"
ISAAC_ROBOT: Final = "IsaacRobotAPI"

_MOST_HELD: Final = 200_000
"""Prims whose composition is kept in memory. A new cache begins above."""
_SCHEMAS: Final = "apiSchemas"
_ACTIVE: Final = "active"
_BODY: Final = "PhysicsRigidBodyAPI"
_SCENE: Final = "PhysicsScene"
_COLLISION_GROUP: Final = "PhysicsCollisionGroup"
_MERGE_GROUP: Final = "physics:mergeGroup"
_BODY_ENDS: Final = ("physics:body0", "physics:body1")
_COLLECTION: Final = "collection:"
_PROPERTIES: Final = "properties"
_ATTRIBUTES: Final = (
    "xformOp",
    "primvars:",
    "inputs:",
    "outputs:",
    "drive:",
    "limit:",
    "state:",
    "ros:context:",
    "ros:topic:",
    "ros:service:",
    "ros:action:",
    "ros:joint:",
    "physics:local",
    "physics:lowerLimit",
    "physics:upperLimit",
    "physics:axis",
    "physics:mass",
    "visibility",
    "size",
    "height",
    "radius",
    "points",
    "faceVertex",
    "normals",
)
"""How the names of properties begin that are never relationships: most of them."""
_IDLE_COLLECTIONS: Final = ("collection:colliders:", "collection:lightLink:", "collection:shadowLink:")
"""Collections whose members need not exist: groups of colliders, and what lights shine on."""

_Key = tuple[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class RobotScan:
    """The robots of a stage, whether or not they are composed.

    Attributes:
        schema: The API schema that makes a prim a robot's root: RosContextAPI, or IsaacRobotAPI on stages without any
            Ros*API.
        separable: Roots of the robots that nothing outside of them needs, and that need nothing of another one.
    """

    schema: str = CONTEXT
    separable: frozenset[str] = frozenset()


def check_prim_count(
    root: Any, session: Any, context: Any, options: ReadOptions, muted: Collection[str] = ()
) -> None:
    """Refuse a stage with too many prims, too deep ones, or one of too many arcs, before it is composed.

    Args:
        root: Root layer.
        session: Session layer, with the variant selections.
        context: Resolver context.
        options: Limits, and whether payloads count.
        muted: Identifiers of layers that are left out.

    Raises:
        AssetError: A limit is exceeded.
    """
    _Pass(root, session, context, options, muted).run()


def scan_robots(
    root: Any,
    session: Any,
    context: Any,
    options: ReadOptions,
    muted: Collection[str] = (),
    pause: Pause | None = None,
) -> RobotScan:
    """Find the robots of a stage, and refuse it as `check_prim_count` does.

    Args:
        root: Root layer.
        session: Session layer, with the variant selections.
        context: Resolver context.
        options: Limits, and whether payloads count.
        muted: Identifiers of layers that are left out.
        pause: Called often, between prims.

    Raises:
        AssetError: A limit is exceeded.
    """
    for schema in (CONTEXT, ISAAC_ROBOT):
        finder = _RobotFinder(schema)
        _Pass(root, session, context, options, muted, finder, pause).run()
        if finder.has_robots or finder.has_ros or not finder.has_isaac:
            break
    return RobotScan(schema, finder.separable(str(root.defaultPrim)))


class _Visited(NamedTuple):
    """What is known of a subtree: how many prims and levels it has, and what was found below its root."""

    prims: int
    depth: int
    path: str
    found: tuple[_Found, ...]


class _Level:
    """A prim whose descendants are being counted."""

    __slots__ = ("began", "children", "count", "depth", "key", "path", "place")

    def __init__(self, path: Any, key: _Key | None, children: list[str], place: _Place, began: int) -> None:
        self.path = path
        self.key = key
        self.children = children
        self.count = 1
        self.depth = 1
        self.place = place
        self.began = began


class _Pass:
    def __init__(
        self,
        root: Any,
        session: Any,
        context: Any,
        options: ReadOptions,
        muted: Collection[str],
        finder: _RobotFinder | None = None,
        pause: Pause | None = None,
    ) -> None:
        self._identifier = Pcp.LayerStackIdentifier(root, session, context)
        self._options = options
        self._muted = list(muted)
        self._finder = finder
        self._pause = pause
        self._known: dict[_Key, _Visited] = {}
        self._held = 0
        self._cache = self._new_cache()
        self._cache.ComputePrimIndex(Sdf.Path.absoluteRootPath)
        # No more are in use yet than those of the root's layer stack.
        layers = self._cache.GetUsedLayers()
        self._has_relocates = any(_has_relocates(layer) for layer in layers)
        if finder is not None:
            finder.root_layers = frozenset(layer.identifier for layer in layers)
            finder.has_relocates = self._has_relocates

    def _new_cache(self) -> Any:
        cache = Pcp.Cache(self._identifier, "usd", True)
        if self._muted:
            cache.RequestLayerMuting(self._muted, [])
        return cache

    def run(self) -> None:
        """Visit the prims depth first, without recursion: the nesting itself may be the fault."""
        levels = [self._level(Sdf.Path.absoluteRootPath, _OUTSIDE)]
        total = 1
        while levels:
            level = levels[-1]
            if level.children:
                if self._pause is not None:
                    self._pause()
                below = self._level(level.path.AppendChild(level.children.pop()), level.place)
                known = self._known.get(below.key) if below.key else None
                if known is None:
                    levels.append(below)
                    total += 1
                else:
                    total += known.prims
                    level.count += known.prims
                    level.depth = max(level.depth, known.depth + 1)
                    if self._finder is not None:
                        self._finder.repeat(known, str(below.path))
                self._check(total, len(levels) - 1 if known is None else len(levels) - 1 + known.depth)
                continue
            levels.pop()
            self._remember(level)
            if levels:
                levels[-1].count += level.count
                levels[-1].depth = max(levels[-1].depth, level.depth + 1)

    def _remember(self, level: _Level) -> None:
        if level.key is None:
            return
        path = str(level.path)
        found = () if self._finder is None else self._finder.found_since(level.began, path)
        if found is not None:
            self._known[level.key] = _Visited(level.count, level.depth, path, found)

    def _check(self, total: int, depth: int) -> None:
        if total > self._options.max_prims:
            raise AssetError(exceeded("prims", self._options.max_prims))
        if depth > self._options.max_nesting:
            raise AssetError(exceeded("nesting", self._options.max_nesting))

    def _level(self, path: Any, above: _Place) -> _Level:
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
        children, _ = index.ComputePrimChildNames()
        # In traversal order, taken from the end.
        children.reverse()
        place, began = above, 0
        if self._finder is not None:
            place = self._finder.visit(str(path), index, nodes, above)
            began = self._finder.count
        specs = self._specs(index, nodes) if children else None
        return _Level(path, None if specs is None else (specs, place.kind), children, place, began)

    def _specs(self, index: Any, nodes: list[Any]) -> tuple[str, ...] | None:
        """Return the specs that a subtree is composed from; None for one that is nowhere else.

        What the root's layer stack says of a prim alone, of a robot's place for one, is no matter for its descendants.
        """
        root, *arcs = nodes
        if not (self._has_relocates or any(_has_children(spec, root.path) for spec in index.primStack)):
            nodes = arcs
        elif not arcs and root.hasSpecs:
            return None
        # With layers and expression variables. Python's object of a layer stack would never be freed.
        return tuple([str(node.site) for node in nodes if node.hasSpecs])


def _nodes(root: Any) -> list[Any]:
    """Return the root and all nodes below it. Each but the root is a composition arc."""
    nodes = [root]
    for node in nodes:
        nodes += node.children
    return nodes


def _applied_schemas(index: Any) -> int:
    """Return how often an API schema is applied to a prim. OpenUSD takes minutes for 20,000 of them."""
    return sum(len(spec.GetInfo(_SCHEMAS).GetAddedOrExplicitItems()) for spec in index.primStack)


def _has_children(spec: Any, path: Any) -> bool:
    return spec.path == path and bool(spec.nameChildren)


def _has_relocates(layer: Any) -> bool:
    # OpenUSD before 24.05 has none.
    return bool(getattr(layer, "HasRelocates", bool)())


# --- Robots ----------------------------------------------------------------------------------------------------

_OUT, _INSTANCE, _ROBOT, _INACTIVE = range(4)


class _Place(NamedTuple):
    """Where a prim is: outside of robots, there within an instance, in the robot `root`, or below an inactive prim."""

    kind: int
    root: str = ""


_OUTSIDE: Final = _Place(_OUT)


class _Found(NamedTuple):
    """Something that the finder noted of a prim; `target` is the prim that a relationship leads to."""

    kind: str
    path: str
    target: str = ""


class _RobotFinder:
    """Note robots, and what ties them to other prims, while a pass visits the prims.

    Attributes:
        root_layers: Identifiers of the layers of the root's layer stack.
        has_relocates: Prims may have other paths than their specs.
        has_ros: A prim has a Ros*API or controller schema.
        has_isaac: A prim has IsaacRobotAPI.
    """

    def __init__(self, schema: str) -> None:
        """Choose the schema of robots' roots."""
        self.root_layers: frozenset[str] = frozenset()
        self.has_relocates = self.has_ros = self.has_isaac = False
        self._schema = schema
        self._found: list[_Found] = []
        self._composed_elsewhere: set[str] = set()

    @property
    def count(self) -> int:
        """How much was found."""
        return len(self._found)

    @property
    def has_robots(self) -> bool:
        """Return whether any robot was found."""
        return any(each.kind == "robot" for each in self._found)

    def visit(self, path: str, index: Any, nodes: list[Any], above: _Place) -> _Place:
        """Note a prim. Return where its children are."""
        specs = index.primStack
        self._note_sources(path, nodes)
        active = next((spec.active for spec in specs if spec.HasInfo(_ACTIVE)), True)
        if above.kind == _INACTIVE or not active:
            return _Place(_INACTIVE)
        applied = {
            name
            for spec in specs
            if spec.HasInfo(_SCHEMAS)
            for name in spec.GetInfo(_SCHEMAS).GetAddedOrExplicitItems()
        }
        self.has_isaac = self.has_isaac or ISAAC_ROBOT in applied
        self.has_ros = self.has_ros or any(map(_is_ros, applied))
        place = self._place(path, index, applied, above)
        types = {spec.typeName for spec in specs}
        is_group = _COLLISION_GROUP in types
        if _SCENE in types:
            self._found.append(_Found("scene", path))
        if place.kind == _ROBOT:
            if is_group and any(_MERGE_GROUP in spec.properties for spec in specs):
                # It is one group with those of the same name elsewhere.
                self._found.append(_Found("bound", path))
        elif _BODY in applied:
            self._found.append(_Found("body", path))
        self._found += self._ties(path, index, place, is_group=is_group)
        return place

    def _note_sources(self, path: str, nodes: list[Any]) -> None:
        """Note the prims of the root's layer stack that this one is composed from: their `active` would count here."""
        if len(nodes) == 1:
            return
        root_site = str(nodes[0].site).rpartition("<")[0]
        for node in nodes[1:]:
            source = str(node.path.StripAllVariantSelections())
            if source != path and str(node.site).startswith(f"{root_site}<"):
                self._composed_elsewhere.add(source)

    def _place(self, path: str, index: Any, applied: set[str], above: _Place) -> _Place:
        if above.kind == _ROBOT:
            return above
        if self._schema in applied:
            self._found.append(_Found("robot", path))
            if above.kind == _INSTANCE:
                # No opinion counts inside of an instance.
                self._found.append(_Found("bound", path))
            return _Place(_ROBOT, path)
        return _Place(_INSTANCE) if index.IsInstanceable() else above

    def _ties(self, path: str, index: Any, place: _Place, *, is_group: bool) -> Iterator[_Found]:
        """Yield the relationships of a prim that lead out of its robot, or anywhere where it is in none."""
        is_inside = place.kind == _ROBOT
        for spec in index.primStack:
            # Its `relationships` would make a Python object of every property.
            for name in spec.GetInfo(_PROPERTIES):
                if name.startswith(_ATTRIBUTES) or (not is_inside and name.startswith(_IDLE_COLLECTIONS)):
                    continue
                each = spec.layer.GetRelationshipAtPath(spec.path.AppendProperty(name))
                if each is None:
                    continue
                kind = (
                    "joint" if name in _BODY_ENDS else "collection" if name.startswith(_COLLECTION) else "tie"
                )
                for target in self._targets(each, spec, path, index):
                    if not is_inside or not _is_below(target, place.root):
                        yield _Found("group" if is_group and is_inside else kind, path, target)

    def _targets(self, relationship: Any, spec: Any, path: str, index: Any) -> Iterator[str]:
        targets = relationship.targetPathList.GetAddedOrExplicitItems()
        is_in_place = str(spec.path) == path and spec.layer.identifier in self.root_layers
        map_path = None if is_in_place else index.GetNodeProvidingSpec(spec).mapToRoot.MapSourceToTarget
        for target in targets:
            mapped = target if map_path is None else map_path(target)
            if mapped is not None and not mapped.isEmpty:
                yield str(mapped.GetPrimPath())

    def found_since(self, began: int, path: str) -> tuple[_Found, ...] | None:
        """Return what was found below a prim since then; None if it leads out of there, and is elsewhere otherwise."""
        found = tuple(self._found[began:])
        return None if any(each.target and not _is_below(each.target, path) for each in found) else found

    def repeat(self, known: _Visited, path: str) -> None:
        """Note for a subtree what was found in one that is composed from the same specs."""
        old = len(known.path)
        self._found += [
            _Found(each.kind, path + each.path[old:], each.target and path + each.target[old:])
            for each in known.found
        ]

    def separable(self, default_prim: str) -> frozenset[str]:
        """Return the robots that the rest of the stage can do without.

        Args:
            default_prim: Name or path of the default prim, "" for none.
        """
        robots = {each.path for each in self._found if each.kind == "robot"}
        if self.has_relocates or not robots:
            return frozenset()
        loose = {each.path for each in self._found if each.kind == "body"}
        bound = robots & self._composed_elsewhere
        scene = next((each.path for each in self._found if each.kind == "scene"), "")
        # The first scene counts for all, and a stage needs its default prim.
        for path in (scene, f"/{default_prim.lstrip('/')}"):
            bound.add(_at_or_above(path, robots))
        for each in self._found:
            bound.update(_needed(each, robots, loose))
        return frozenset(robots - bound)


def _needed(found: _Found, robots: Collection[str], loose: Collection[str]) -> Iterator[str]:
    """Yield the robots that something found makes part of the stage, "" for none.

    Args:
        found: What was found.
        robots: Roots of all robots.
        loose: Rigid bodies outside of robots.
    """
    own = _at_or_above(found.path, robots)
    if found.kind in ("bound", "group"):
        yield own
    elif found.target:
        other = _at_or_above(found.target, robots)
        yield other
        if found.kind == "joint" and (other or _at_or_above(found.target, loose)):
            yield own
        if found.kind == "collection" and not other:
            yield from (robot for robot in robots if _is_below(robot, found.target))


@cache
def _is_ros(schema: str) -> bool:
    return schema.startswith("Ros") or schema in CONTROLLER_SCHEMAS or CONTROLLERS.is_foreign(schema)


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/") or above == "/"


def _at_or_above(path: str, paths: Collection[str]) -> str:
    """Return which of `paths` is `path` or the nearest one above it, "" for none."""
    while path and path not in paths:
        path = path.rpartition("/")[0]
    return path
