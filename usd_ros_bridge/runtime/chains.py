"""Kinematic chains: poses of single bodies below joints, as plain floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from usd_ros_bridge.runtime.kinematics import Kinematics, Link, Selection, selection
from usd_ros_bridge.spatial import scalar
from usd_ros_bridge.spatial.scalar import Floats
from usd_ros_bridge.spatial.transforms import FloatArray

LONGEST = 16
"""Up to how many edges get a function of their own: it takes a millisecond to compile."""

ComposeAll = Callable[[Floats | None, Sequence[Floats]], list[float]]
"""Returns the pose of the last body, from that of the root (None: the world) and the poses of all edges."""


@dataclass(slots=True)
class _Way:
    """The way from a body that no joint determines, or the world, to one that joints do.

    Attributes:
        root: Row of the body where it begins, -1 for the world.
        edges: The edges on it.
        bodies: The bodies that these end in.
        offsets: Where each edge starts in the body before; None: in its origin.
        compose: Composes them; None: one by one, because others ask for bodies on the way, too.
    """

    root: int
    edges: Selection
    bodies: tuple[int, ...]
    offsets: tuple[Floats | None, ...]
    compose: ComposeAll | None


class Chains:
    """The bodies and joints between a body and the world."""

    def __init__(self, kinematics: Kinematics) -> None:
        """Store the arguments.

        Args:
            kinematics: Of the plan.
        """
        self._kinematics = kinematics
        self._links: dict[int, Link] | None = None
        self._ways: dict[int, _Way] = {}

    def pose(
        self, row: int, edge_pose: FloatArray, body_pose: FloatArray, known: dict[int, list[float]]
    ) -> list[float]:
        """Compute the pose of one body.

        Args:
            row: The body's row in the layout.
            edge_pose: (E, 7) `parent_from_child`.
            body_pose: (B, 7) `world_from_body` where measured.
            known: Poses of this tick by row; what is computed on the way is added.

        Returns:
            `world_from_body`: 7 floats.
        """
        way = self._ways.get(row) or self._find_way(row)
        pose = known.get(way.root)
        if pose is None and way.root >= 0:
            pose = known[way.root] = body_pose[way.root].tolist()
        if isinstance(way.edges, slice):
            # Those of most arms are side by side.
            edges: list[list[float]] = edge_pose[way.edges].tolist()
        else:
            edges = [edge_pose[edge].tolist() for edge in way.edges]
        if way.compose is not None:
            pose = known[row] = way.compose(pose, edges)
            return pose
        for below, offset, edge in zip(way.bodies, way.offsets, edges, strict=True):
            found = known.get(below)
            if found is None:
                found = edge if offset is None else scalar.compose(offset, edge)
                if pose is not None:
                    found = scalar.compose(pose, found)
                known[below] = found
            pose = found
        assert pose is not None
        # As `compile_chain` does: products that are all -0.0 would give that.
        return [each + 0.0 for each in pose]

    def _find_way(self, row: int) -> _Way:
        """Return the way to a body from the one that carries all others on it."""
        if self._links is None:
            self._links = self._kinematics.links()
        links: list[Link] = []
        bodies: list[int] = []
        at = row
        while at >= 0 and (link := self._links.get(at)) is not None:
            links.insert(0, link)
            bodies.insert(0, at)
            at = link.carrier
        for other in self._ways.values():
            if row in other.bodies:
                other.compose = None
        compose = None
        if 1 < len(links) <= LONGEST and self._ways.keys().isdisjoint(bodies):
            constants = [self._kinematics.constants(link.edge) for link in links]
            compose = compile_chain([link.carrier_from_parent for link in links], constants, has_root=at >= 0)
        found = self._ways[row] = _Way(
            root=at,
            edges=selection([link.edge for link in links]),
            bodies=tuple(bodies),
            offsets=tuple(link.carrier_from_parent for link in links),
            compose=compose,
        )
        return found


# --- Code for one chain ---------------------------------------------------------------------------------------------
# Python spends most of its time on the steps of a program, not on the numbers. Nearly all edges turn about an axis of
# their frame and keep their translation: without products with zero, a chain takes a third of the steps.

_Term = tuple[str, str, str]
"""Sign and two factors; the second one is "" where there is one."""


def compile_chain(
    offsets: Sequence[Floats | None], constants: Sequence[Sequence[float | None]], *, has_root: bool
) -> ComposeAll:
    """Return a function that composes a chain of edges as `scalar.compose` does, one after another.

    Products with constants that are zero are left out.

    Args:
        offsets: Where each edge starts in the body before: 7 floats, None for the origin.
        constants: 7 components of each edge, None for those that change.
        has_root: Whether the chain begins at a body, not in the world.
    """
    lines = ["def compose(root, edges):"]
    pose: list[str] | None = None
    if has_root:
        pose = [f"r{i}" for i in range(7)]
        lines.append(f"    {', '.join(pose)} = root")
    for number, (offset, edge) in enumerate(zip(offsets, constants, strict=True)):
        names = [f"e{number}_{i}" for i in range(7)]
        lines.append(f"    {', '.join(names)} = edges[{number}]")
        found = [name if value is None else repr(value) for name, value in zip(names, edge, strict=True)]
        if offset is not None:
            found = _compose(lines, f"o{number}", [repr(value) for value in offset], found)
        pose = found if pose is None else _compose(lines, f"p{number}", pose, found)
    assert pose is not None
    # A sum with a product that is +0.0 is never -0.0: as if the products that are left out were there.
    lines.append(f"    return [{', '.join(f'{each} + 0.0' for each in pose)}]")
    made: dict[str, ComposeAll] = {}
    exec("\n".join(lines), {"inf": float("inf"), "nan": float("nan")}, made)  # noqa: S102 - made of numbers and names of its own
    return made["compose"]


def _compose(lines: list[str], name: str, a_from_b: Sequence[str], b_from_c: Sequence[str]) -> list[str]:
    """Add the lines of `scalar.compose` of two poses. Return the seven numbers of the result."""
    ax, ay, az, x, y, z, w = a_from_b
    vx, vy, vz, rx, ry, rz, rw = b_from_c
    turned = [
        _sum(lines, f"{name}_{axis}", (("", *first), ("-", *second)), "2.0 * ({})")
        for axis, first, second in (
            ("tx", (y, vz), (z, vy)),
            ("ty", (z, vx), (x, vz)),
            ("tz", (x, vy), (y, vx)),
        )
    ]
    tx, ty, tz = turned
    rows: tuple[tuple[_Term, ...], ...] = (
        (("", ax, ""), ("", vx, ""), ("", w, tx), ("", y, tz), ("-", z, ty)),
        (("", ay, ""), ("", vy, ""), ("", w, ty), ("", z, tx), ("-", x, tz)),
        (("", az, ""), ("", vz, ""), ("", w, tz), ("", x, ty), ("-", y, tx)),
        (("", w, rx), ("", x, rw), ("", y, rz), ("-", z, ry)),
        (("", w, ry), ("-", x, rz), ("", y, rw), ("", z, rx)),
        (("", w, rz), ("", x, ry), ("-", y, rx), ("", z, rw)),
        (("", w, rw), ("-", x, rx), ("-", y, ry), ("-", z, rz)),
    )
    return [_sum(lines, f"{name}_{i}", terms) for i, terms in enumerate(rows)]


def _sum(lines: list[str], name: str, terms: Sequence[_Term], outer: str = "{}") -> str:
    """Add a line that sums terms up from left to right. Return its name, or "0.0" if all of them are zero."""
    text = ""
    for sign, first, second in terms:
        if _ZERO in (first, second) or _MINUS_ZERO in (first, second):
            continue
        product = f"{first} * {second}" if second else first
        text = f"{text} {sign or '+'} {product}" if text else f"{sign}{product}"
    if not text:
        return _ZERO
    lines.append(f"    {name} = {outer.format(text)}")
    return name


_ZERO, _MINUS_ZERO = "0.0", "-0.0"
