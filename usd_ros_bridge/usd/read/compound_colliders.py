"""Compound colliders: PhysicsCollisionAPI on a prim that is no gprim makes the gprims below it collide.

UsdPhysics applies the schema to gprims. Isaac Sim's URDF importer and many authors of props apply it to the prim above
them, often an instance, and PhysX then makes a shape of every gprim there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pxr import Tf, Usd, UsdGeom

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.read.properties import PREDICATE, PrimProperties
from usd_ros_bridge.usd.tf_errors import first_line

MERGE: Final = "PhysxMeshMergeCollisionAPI"
"""The schema that names the gprims of a compound collider in a collection."""
_MERGED: Final = "collisionmeshes"
"""Name of that collection."""


class Compound:
    """A prim that is no gprim, with PhysicsCollisionAPI.

    Attributes:
        source: Its properties.
        path: Its prim path.
        kind: What it means to engines.
        has_members: Whether any gprim collides by it.
    """

    __slots__ = ("_query", "has_members", "kind", "path", "source")

    def __init__(self, source: PrimProperties, kind: Any, path: str, diagnostics: list[Diagnostic]) -> None:
        """Read the collection, where there is one.

        Args:
            source: Its properties.
            kind: Its PhysicsKind.
            path: Its path: below the instancer, for that of an instance of a PointInstancer.
            diagnostics: Collector of faults.
        """
        self.source, self.kind, self.path = source, kind, path
        self.has_members = False
        self._query: Any = None
        if MERGE not in kind.solver_apis or not source.targets(f"collection:{_MERGED}:includes"):
            return
        try:
            self._query = Usd.CollectionAPI(source.prim, _MERGED).ComputeMembershipQuery()
        except Tf.ErrorException as error:
            diagnostics.append(
                Diagnostic(
                    code="1.3.collision_group",
                    severity="error",
                    path=source.path,
                    attribute=f"collection:{_MERGED}",
                    message=f"is no collection that OpenUSD can use: {first_line(error)}; all gprims below collide",
                    remedy="author includes and excludes as relationships",
                )
            )

    def includes(self, path: str) -> bool:
        """Return whether a gprim below it collides by it."""
        return self._query is None or bool(self._query.IsPathIncluded(path))

    def elsewhere(self, stage: Usd.Stage) -> Iterator[Usd.Prim]:
        """Yield the prims that its collection names and that are not below it."""
        if self._query is None:
            return
        below = f"{self.path}/"
        for found in Usd.CollectionAPI.ComputeIncludedObjects(self._query, stage, PREDICATE):
            if isinstance(found, Usd.Prim) and not found.GetPath().pathString.startswith(below):
                yield found


def is_compound(prim: Usd.Prim, *, collides: bool) -> bool:
    """Return whether the gprims below a prim collide, if it has PhysicsCollisionAPI itself."""
    return collides and not prim.IsA(UsdGeom.Gprim)


class OpenCompounds:
    """The compounds that a pass in traversal order is in, the innermost last."""

    def __init__(self) -> None:
        self._open: list[Compound] = []

    def enter(self, compound: Compound) -> None:
        """Add the compound at the current prim."""
        self._open.append(compound)

    def at(self, path: str) -> Compound | None:
        """Return the nearest compound above, or at, the next prim in traversal order."""
        while self._open and not f"{path}/".startswith(f"{self._open[-1].path}/"):
            self._open.pop()
        return self._open[-1] if self._open else None
