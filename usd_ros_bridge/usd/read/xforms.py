"""Xforms: poses of prims, and which of them move by time samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Gf, Tf, Usd, UsdGeom, Vt

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import CONTAINED, Diagnostic, internal_fault
from usd_ros_bridge.model.stage import PoseTrackRecord, XformRecord
from usd_ros_bridge.usd.read.properties import EARLIEST, QUATERNIONS, PrimProperties, elements, kept_name
from usd_ros_bridge.usd.read.samples import sample_times

_SHORTEST_QUATERNION = 1e-6
_SMALLEST_VOLUME = 1e-9
"""Determinant below which a transform is not inverted."""

_NOWHERE = Gf.Matrix4d(math.nan)

OP_PREFIX = "xformOp:"
OP_PREFIXES = (OP_PREFIX, "xformOpOrder")
RESET = "!resetXformStack!"


def column_vector_matrices(matrices: Sequence[Any]) -> NDArray[np.float64]:
    """Return GfMatrix4d, which are for row vectors, as an array (N, 4, 4) for column vectors."""
    if not matrices:
        return np.zeros((0, 4, 4))
    rows: NDArray[np.float64] = np.array(Vt.Matrix4dArray(matrices)).reshape(-1, 4, 4)
    return np.ascontiguousarray(rows.transpose(0, 2, 1))


def with_ancestors(paths: Iterable[str]) -> set[str]:
    """Return prim paths and the paths of all prims above them."""
    found: set[str] = set()
    for path in paths:
        current = path
        while current and current not in found:
            found.add(current)
            current = current.rpartition("/")[0]
    return found


class _Motion(NamedTuple):
    """Transform properties that prims of the same specs have in common."""

    type_name: str
    resets: bool
    varying: bool
    broken: bool
    missing: tuple[str, ...] = ()
    error: BaseException | None = None

    @property
    def follows(self) -> bool:
        """Return whether a prim is fixed in its parent, without faults."""
        return not (self.resets or self.varying or self.broken or self.missing)


def _motion(prim: Usd.Prim) -> _Motion:
    type_name = str(prim.GetTypeName())
    xformable = UsdGeom.Xformable(prim)
    if not xformable:
        return _Motion(type_name, resets=False, varying=False, broken=False)
    order = xformable.GetXformOpOrderAttr().Get()
    if order is None:
        return _Motion(type_name, resets=False, varying=False, broken=False)
    if not isinstance(order, Vt.TokenArray):
        return _Motion(type_name, resets=False, varying=False, broken=True)
    names = elements(order)
    resets = RESET in names
    missing = _missing_ops(prim, names)
    if not all(name.startswith(OP_PREFIX) for name in missing):
        return _Motion(type_name, resets=resets, varying=False, broken=True)
    try:
        ops = xformable.GetOrderedXformOps()
        return _Motion(
            type_name,
            resets=resets,
            varying=xformable.TransformMightBeTimeVarying(ops),
            broken=any(_is_unusable(op) for op in ops),
            missing=missing,
        )
    except Tf.ErrorException:
        return _Motion(type_name, resets=resets, varying=False, broken=True)


def _shared_motion(source: PrimProperties) -> _Motion:
    motion: _Motion | None = source.recall(_Motion)
    if motion is None:
        try:
            motion = _motion(source.prim)
        except CONTAINED as error:
            motion = _Motion("", resets=False, varying=False, broken=True, error=error)
        # An exception refers to prims.
        source.remember(_Motion, motion, () if motion.error is None else None, prefixes=OP_PREFIXES)
    return motion


def _missing_ops(prim: Usd.Prim, order: Sequence[str]) -> tuple[str, ...]:
    """Return the ops that a prim's order names and that are not there, which OpenUSD leaves out in silence."""
    names = (name.removeprefix("!invert!") for name in order if name != RESET)
    return tuple(name for name in names if not (name and prim.HasAttribute(name)))


def _is_unusable(op: UsdGeom.XformOp) -> bool:
    """Return whether an op has a value of a wrong type, or is an orient op whose quaternion has no direction.

    OpenUSD takes a zero quaternion for the identity, silently.
    """
    op.GetOpTransform(EARLIEST)
    if op.GetOpType() != UsdGeom.XformOp.TypeOrient:
        return False
    value = op.Get(EARLIEST)
    return value is not None and not (
        isinstance(value, QUATERNIONS) and value.GetLength() >= _SHORTEST_QUATERNION
    )


def _sample_times(xformable: UsdGeom.Xformable, diagnostics: list[Diagnostic]) -> tuple[float, ...]:
    """Return the times at which a prim's own transform is sampled, () unless the samples differ."""
    ops = xformable.GetOrderedXformOps()
    times = tuple(sorted({time for op in ops for time in sample_times(op.GetAttr(), diagnostics)}))
    try:
        first = xformable.GetLocalTransformation(Usd.TimeCode(times[0])) if times else None
        # What moves is seen at the first sample that differs, often the second of thousands.
        moves = any(xformable.GetLocalTransformation(Usd.TimeCode(time)) != first for time in times[1:])
    except Tf.ErrorException:
        # A later sample has a wrong type: `tracks` finds it.
        moves = True
    return times if moves else ()


def _is_broken_at(prim: Usd.Prim, time: Usd.TimeCode) -> bool:
    """Return whether OpenUSD cannot evaluate a prim's own transform at a time."""
    try:
        UsdGeom.Xformable(prim).GetLocalTransformation(time)
    except Tf.ErrorException:
        return True
    return False


def _is_below(path: str, tops: set[str], resetting: set[str]) -> bool:
    """Return whether a prim is one of `tops` or moves with one, which one that resets the stack does not."""
    current = path
    while current:
        if current in tops:
            return True
        if current in resetting:
            return False
        current = current.rpartition("/")[0]
    return False


def _below(paths: Iterable[str], roots: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the root with each of `paths`, which are in traversal order, that is at or below one of `roots`."""
    root, prefix = "", ""
    for path in paths:
        if path in roots:
            root, prefix = path, path + "/"
        if root and (path == root or path.startswith(prefix)):
            yield root, path


def _moves(found: Mapping[str, XformRecord], originals: Mapping[str, str]) -> dict[str, NDArray[np.float64]]:
    """Return what takes a robot's original to where it is, (4, 4) by its root; none where the original is nowhere."""
    inverses: dict[str, NDArray[np.float64] | None] = {}
    for original in set(originals.values()):
        matrix = np.array(found[original].world_from_prim).reshape(4, 4)
        usable = np.isfinite(matrix).all() and abs(np.linalg.det(matrix)) > _SMALLEST_VOLUME
        inverses[original] = np.linalg.inv(matrix) if usable else None
    return {
        root: np.array(found[root].world_from_prim).reshape(4, 4) @ inverse
        for root, original in originals.items()
        if (inverse := inverses[original]) is not None
    }


def _moved_records(
    found: Mapping[str, XformRecord],
    copied: Mapping[str, tuple[str, str]],
    moves: Mapping[str, NDArray[np.float64]],
) -> dict[str, XformRecord]:
    """Return the records of prims from those of their originals."""
    if not copied:
        return {}
    rows = {path: row for row, path in enumerate(dict.fromkeys(first for _, first in copied.values()))}
    matrices = np.array([found[path].world_from_prim for path in rows]).reshape(-1, 4, 4)
    moved = np.array([moves[root] for root, _ in copied.values()])
    moved = moved @ matrices[[rows[first] for _, first in copied.values()]]
    moved[np.isfinite(moved).all(axis=(1, 2)), 3] = (0.0, 0.0, 0.0, 1.0)
    records = {}
    for (path, (_, original)), matrix in zip(copied.items(), moved.reshape(-1, 16), strict=True):
        first = found[original]
        records[path] = XformRecord(
            path=path,
            type_name=first.type_name,
            world_from_prim=tuple(matrix.tolist()),
            instance_proxy=first.instance_proxy,
            kept_name=first.kept_name,
        )
    return records


class XformReader:
    """Reader of the transforms of prims, and of time samples."""

    def __init__(
        self,
        stage: Usd.Stage,
        source_of: Callable[[str], PrimProperties],
        diagnostics: list[Diagnostic],
    ) -> None:
        """Bind the reader to a stage.

        Args:
            stage: The stage.
            source_of: Returns a prim of the stage by path, with what is known of others like it.
            diagnostics: Collector of faults of transforms.
        """
        self._stage = stage
        self._source_of = source_of
        self._diagnostics = diagnostics
        self._read: dict[str, XformRecord] = {}
        self._has_instances = bool(stage.GetPrototypes())
        # The earliest time gives an attribute's default where it has no samples: `Default` would give nothing where
        # only samples exist (REP 0158 section 2.7 has frames that are animated by time samples).
        self._cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
        self._times: dict[str, tuple[float, ...]] = {}
        self._broken: set[str] = set()
        self._resetting: set[str] = set()

    def add(self, paths: Iterable[str], diagnostics: list[Diagnostic]) -> dict[str, XformRecord]:
        """Return the records of prims and of all above them, by path. A prim that was read before is not read again.

        Args:
            paths: Prim paths.
            diagnostics: Collector of faults of prims that were not read before.
        """
        wanted = sorted(with_ancestors(paths))
        # The samples of these are in no track.
        self._cache.SetTime(EARLIEST)
        self._diagnostics = diagnostics
        self._read_each([path for path in wanted if path not in self._read])
        return {path: self._read[path] for path in wanted}

    def read(self, paths: Sequence[str], originals: Mapping[str, str]) -> dict[str, XformRecord]:
        """Return the records of prims that exist, by path, in the order given: what carries a prim before it.

        Args:
            paths: In traversal order.
            originals: Roots of robots by root of others that are composed like them: what is below one is where it is
                below the other, and is not asked for again.
        """
        copied = self._copied(paths, originals)
        found = self._read_each([path for path in paths if path not in copied])
        moves = _moves(found, originals)
        lost = [path for path, (root, _) in copied.items() if root not in moves]
        for path in lost:
            del copied[path]
        found.update(self._read_each(lost))
        found.update(_moved_records(found, copied, moves))
        return {path: found[path] for path in paths} if originals else found

    def _copied(self, paths: Sequence[str], originals: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Return for each prim whose place in a robot is that in its original: the robot's root, the original prim.

        A robot that moves in itself, or in which something does not move with it, is no original here.
        """
        if not originals:
            return {}
        tops = set(originals.values())
        exists = set(paths)
        tied = {
            top
            for top, path in _below(paths, tops)
            if path != top and not _shared_motion(self._source_of(path)).follows
        }
        return {
            path: (root, first)
            for root, path in _below(paths, originals)
            if path != root
            and originals[root] not in tied
            and (first := originals[root] + path[len(root) :]) in exists
        }

    def _read_each(self, paths: Sequence[str]) -> dict[str, XformRecord]:
        sources = [self._source_of(path) for path in paths]
        prims = [source.prim for source in sources]
        motions = [_shared_motion(source) for source in sources]
        broken, resetting = self._broken, self._resetting
        broken.update(path for path, motion in zip(paths, motions, strict=True) if motion.broken)
        resetting.update(path for path, motion in zip(paths, motions, strict=True) if motion.resets)
        worlds = []
        for path, prim in zip(paths, prims, strict=True):
            try:
                worlds.append(self._cache.GetLocalToWorldTransform(prim))
            except Tf.ErrorException:
                # An op of the wrong type, for example. The cache answers for what is below as if there were none.
                broken.add(path)
                worlds.append(Gf.Matrix4d())
        matrices = column_vector_matrices(worlds)
        if broken:
            matrices[[_is_below(path, broken, resetting) for path in paths]] = np.nan
        flat = matrices.reshape(-1, 16).tolist()
        found = {
            source.path: self._record(source.path, source.prim, motion, tuple(matrix), kept_name(source))
            for source, motion, matrix in zip(sources, motions, flat, strict=True)
        }
        self._read.update(found)
        return found

    def _record(
        self, path: str, prim: Usd.Prim, motion: _Motion, matrix: tuple[float, ...], name: str
    ) -> XformRecord:
        if motion.error is not None:
            self._diagnostics.append(internal_fault(path, "reading the transform", motion.error))
        if motion.missing:
            self._report_missing(path, motion.missing)
        if motion.varying and matrix[0] == matrix[0]:
            times = _sample_times(UsdGeom.Xformable(prim), self._diagnostics)
            if times:
                self._times[path] = times
        return XformRecord(
            path=path,
            type_name=motion.type_name,
            world_from_prim=matrix,
            animated=path in self._times,
            resets_stack=motion.resets,
            instance_proxy=self._has_instances and prim.IsInstanceProxy(),
            kept_name=name,
        )

    def _report_missing(self, path: str, missing: Sequence[str]) -> None:
        names = ", ".join(quoted(name) for name in missing[:3])
        self._diagnostics.append(
            Diagnostic(
                code="1.1.transform",
                severity="warning",
                path=path,
                attribute="xformOpOrder",
                message=f"names ops that the prim does not have: {names}; they are left out",
                remedy="author the ops, or take them out of xformOpOrder",
            )
        )

    def tracks(self, xforms: Mapping[str, XformRecord], paths: Iterable[str]) -> tuple[PoseTrackRecord, ...]:
        """Return the baked time samples of those of `paths` that move in the world.

        Args:
            xforms: What `read` returned, the ancestors of `paths` included.
            paths: Prim paths in the order wanted.
        """
        if not self._times:
            return ()
        moving = {
            path: times
            for path in paths
            if np.isfinite(xforms[path].world_from_prim[0]) and (times := self._times_of(xforms, path))
        }
        by_time: dict[float, list[str]] = {}
        for path, times in moving.items():
            for time in times:
                by_time.setdefault(time, []).append(path)
        baked: dict[str, list[Any]] = {path: [] for path in moving}
        for time in sorted(by_time):
            for path, world in zip(by_time[time], self._worlds_at(time, by_time[time]), strict=True):
                baked[path].append(world)
        return tuple(
            PoseTrackRecord(
                path=path, time_codes=np.array(times), world_from_prim=column_vector_matrices(baked[path])
            )
            for path, times in moving.items()
        )

    def _worlds_at(self, time: float, paths: Sequence[str]) -> list[Any]:
        """Return the transforms of prims to the world at a time, not finite where OpenUSD cannot evaluate them."""
        now = Usd.TimeCode(time)
        self._cache.SetTime(now)
        broken: set[str] = set()
        worlds = []
        for path in paths:
            prim = self._stage.GetPrimAtPath(path)
            try:
                world = self._cache.GetLocalToWorldTransform(prim)
            except Tf.ErrorException:
                # The cache answers for what is below as if there were no transform.
                above = [path[:end] for end, letter in enumerate(f"{path}/") if letter == "/" and end]
                broken.update(each for each in above if _is_broken_at(self._stage.GetPrimAtPath(each), now))
                world = _NOWHERE
            worlds.append(_NOWHERE if broken and _is_below(path, broken, self._resetting) else world)
        return worlds

    def _times_of(self, xforms: Mapping[str, XformRecord], path: str) -> tuple[float, ...]:
        """Return the union of the sample times of a prim and of what carries it, sorted."""
        times: set[float] = set()
        current = path
        while current:
            times.update(self._times.get(current, ()))
            if xforms[current].resets_stack:
                break
            current = current.rpartition("/")[0]
        return tuple(sorted(times))
