"""Open the stage of an asset, with variants, payloads and packages, or report in one line why not."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from pxr import Ar, Pcp, Sdf, Tf, Usd

from usd_ros_bridge.errors import AssetError, VariantError, alternatives, choices, quoted
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.usd.layer_files import (
    FileRefusedError,
    LayerFiles,
    exceeded,
    keep_files,
    regular_file_size,
)
from usd_ros_bridge.usd.layer_scan import LayerScan, scan_layers
from usd_ros_bridge.usd.packages import URI_PREFIX, PackageMap, package_remedy, split_package_path
from usd_ros_bridge.usd.read.composition import note_refusals
from usd_ros_bridge.usd.resolver import register_resolver
from usd_ros_bridge.usd.schemas import register_plugin_schemas, register_schemas
from usd_ros_bridge.usd.tf_errors import first_line


def open_stage(asset: str, options: ReadOptions | None = None) -> Usd.Stage:
    """Open an asset.

    Variant selections go to the session layer before anything is composed. Composition arcs to packages that are not
    known, or out of the package that they name (REP 0158 section 1.2.5), are left out of the composition, and
    `read_stage` reports them.

    Args:
        asset: File path, `package://name/path`, or an identifier that an installed ArResolver resolves.
        options: Variants, payloads and packages.

    Returns:
        The stage. Hold it: prims expire with it.

    Raises:
        AssetError: The root layer is missing or cannot be opened.
        OptionError: A package's name or directory is not possible.
        VariantError: A variant selection names something that the stage does not have.
    """
    options = options or ReadOptions()
    register_schemas()
    register_plugin_schemas()
    register_resolver()
    packages = PackageMap(options.packages)
    identifier = _identifier(asset, packages)
    files = LayerFiles(options)
    root = _root_layer(asset, identifier, files)
    session = Sdf.Layer.CreateAnonymous("usd_ros_bridge-session.usda")
    author_selections(session, options.variants)
    try:
        scan = scan_layers(root, packages, files=files, follow_payloads=options.payloads == "all")
        note_refusals(session, scan.refusals)
        stage = _compose(root, session, scan, options)
    except Tf.ErrorException as error:
        raise AssetError(f"cannot open {quoted(asset)}: {first_line(error)}") from None
    except AssetError as error:
        raise AssetError(f"cannot open {quoted(asset)}: {error}") from None
    files.release()
    keep_files(stage, files)
    check_selections(stage, options.variants)
    return stage


def _compose(root: Any, session: Any, scan: LayerScan, options: ReadOptions) -> Usd.Stage:
    context = scan.context or Ar.GetResolver().CreateDefaultContextForAsset(root.identifier)
    refused = [refusal.identifier for refusal in scan.refusals if refusal.identifier]
    check_prim_count(root, session, context, options, refused)
    load = Usd.Stage.LoadAll if options.payloads == "all" else Usd.Stage.LoadNone
    if not refused:
        return Usd.Stage.Open(root, session, context, load)
    # With an empty population mask no prim is composed before the refused layers are muted.
    stage = Usd.Stage.OpenMasked(root, session, context, Usd.StagePopulationMask(), load)
    stage.MuteAndUnmuteLayers(refused, [])
    stage.SetPopulationMask(Usd.StagePopulationMask.All())
    return stage


def _identifier(asset: str, packages: PackageMap) -> str:
    if asset.startswith(URI_PREFIX):
        path = packages.resolve(asset)
        if path is None:
            name, inside = split_package_path(asset)
            if inside is None:
                raise AssetError(f"cannot open {quoted(asset)}: the path leaves the package {quoted(name)}")
            raise AssetError(
                f"cannot open {quoted(asset)}: no such package as {quoted(name)}; {package_remedy(name)}"
            )
        return str(path)
    if asset.startswith("file://"):
        return asset[len("file://") :]
    return asset


def _root_layer(asset: str, identifier: str, files: LayerFiles) -> Any:
    """Return the root layer; distinguish faults that OpenUSD reports alike."""
    if not _is_encodable(identifier):
        raise AssetError(f"cannot open {quoted(asset)}: OpenUSD takes file names in UTF-8 only")
    if Sdf.Layer.IsAnonymousLayerIdentifier(identifier):
        layer = Sdf.Layer.Find(identifier)
        if layer is None:
            raise AssetError(f"cannot open {quoted(asset)}: no such anonymous layer")
        return layer
    outer = (
        Ar.SplitPackageRelativePathOuter(identifier)[0]
        if Ar.IsPackageRelativePath(identifier)
        else identifier
    )
    if not outer or "\0" in outer:
        raise AssetError(f"cannot open {quoted(asset)}: no file name")
    if "://" not in outer:
        _check_file(asset, outer)
    try:
        layer = files.open(identifier)
    except Tf.ErrorException as error:
        raise AssetError(f"cannot open {quoted(asset)}: {first_line(error)}") from None
    except (AssetError, FileRefusedError) as error:
        raise AssetError(f"cannot open {quoted(asset)}: {error}") from None
    if layer is None:
        raise AssetError(
            f"cannot open {quoted(asset)}: no resolver or file format of this OpenUSD can read it"
        )
    return layer


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_file(asset: str, identifier: str) -> None:
    path = Path(identifier)
    try:
        if path.is_dir():
            raise AssetError(f"cannot open {quoted(asset)}: it is a directory")
        if not path.exists():
            raise AssetError(f"cannot open {quoted(asset)}: no such file")
        if regular_file_size(identifier) == 0:
            raise AssetError(f"cannot open {quoted(asset)}: the file is empty")
        with path.open("rb"):
            pass
    except FileRefusedError as error:
        raise AssetError(f"cannot open {quoted(asset)}: {error}") from None
    except OSError as error:
        raise AssetError(f"cannot open {quoted(asset)}: {error.strerror or error}") from None
    if path.suffix in _ROBOT_FILES:
        raise AssetError(
            f"cannot open {quoted(asset)}: it is no OpenUSD; convert it: usd_ros_bridge import {shlex.quote(asset)}"
        )
    extension = path.suffix.lstrip(".")
    if Sdf.FileFormat.FindByExtension(extension) is None:
        known = choices(f".{name}" for name in Sdf.FileFormat.FindAllFileFormatExtensions())
        raise AssetError(
            f"cannot open {quoted(asset)}: unknown extension {quoted(path.suffix)}; known: {known}"
        )


_ROBOT_FILES: Final = (".urdf", ".xacro", ".xml", ".mjcf")
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

    __slots__ = ("children", "count", "depth", "key", "path")

    def __init__(self, path: Any, key: _Key | None, children: list[str]) -> None:
        self.path = path
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
        self._cache.ComputePrimIndex(Sdf.Path.absoluteRootPath)
        # No more are in use yet than those of the root's layer stack.
        self._has_relocates = any(_has_relocates(layer) for layer in self._cache.GetUsedLayers())

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
                below = self._level(level.path.AppendChild(level.children.pop()))
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
        children, _ = index.ComputePrimChildNames()
        return _Level(path, self._key(index, nodes) if children else None, children)

    def _key(self, index: Any, nodes: list[Any]) -> _Key | None:
        """Return a key of the specs that a subtree is composed from; None for one that is nowhere else.

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


# --- Variants --------------------------------------------------------------------------------------------------
# OpenUSD accepts any name: selecting a variant that does not exist reports nothing. So every selection is compared
# with what the composed stage has.


def author_selections(layer: Any, selections: Iterable[VariantSelection]) -> None:
    """Author variant selections as overs on a (session) layer.

    Raises:
        VariantError: A prim path is malformed.
    """
    for selection in selections:
        path = _prim_path(selection.prim_path)
        spec = Sdf.CreatePrimInLayer(layer, path)
        try:
            spec.variantSelections[selection.variant_set] = selection.variant
        except (Tf.ErrorException, ValueError, TypeError):
            # No such name can exist: `check_selections` says what does.
            continue


def _prim_path(text: str) -> Any:
    if not Sdf.Path.IsValidPathString(text)[0]:
        raise VariantError(f"variant selection: {quoted(text)} is no prim path")
    path = Sdf.Path(text)
    if not path.IsAbsolutePath() or not path.IsPrimPath():
        raise VariantError(f"variant selection: {quoted(text)} is no absolute prim path")
    return path


def check_selections(stage: Usd.Stage, selections: Iterable[VariantSelection]) -> None:
    """Compare selections with the composed stage.

    Raises:
        VariantError: A prim, variant set or variant does not exist; the message lists what does.
    """
    for selection in selections:
        _check(stage, selection)


def _check(stage: Usd.Stage, selection: VariantSelection) -> None:
    prim = stage.GetPrimAtPath(selection.prim_path)
    # The over that makes the selection is itself a prim: only a defined one comes from the asset.
    if not prim or not (prim.IsDefined() or prim.GetVariantSets().GetNames()):
        raise VariantError(
            f"variant selection: no prim {quoted(selection.prim_path)}; "
            f"{alternatives(selection.prim_path, _prims_with_variants(stage), label='prims with variant sets')}"
        )
    if prim.IsInstanceProxy():
        raise VariantError(
            f"variant selection: {quoted(selection.prim_path)} lies below an instance and cannot be changed there"
        )
    names = prim.GetVariantSets().GetNames()
    if selection.variant_set not in names:
        raise VariantError(
            f"variant selection: {selection.prim_path} has no variant set {quoted(selection.variant_set)}; "
            f"{alternatives(selection.variant_set, names, label='it has')}"
        )
    variant_set = prim.GetVariantSet(selection.variant_set)
    variants = variant_set.GetVariantNames()
    if selection.variant not in variants:
        raise VariantError(
            f"variant selection: {selection.prim_path}:{selection.variant_set} has no variant "
            f"{quoted(selection.variant)}; {alternatives(selection.variant, variants, label='it has')}"
        )


def _prims_with_variants(stage: Usd.Stage) -> list[str]:
    found = (
        prim for prim in stage.TraverseAll() if prim.HasVariantSets() and prim.GetVariantSets().GetNames()
    )
    return [str(prim.GetPath()) for prim, _ in zip(found, range(20), strict=False)]
