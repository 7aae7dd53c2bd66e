"""Scan of an asset's layers before composition: find all layers, and leave out what must not be composed.

Left out are arcs to unknown packages, files that are not regular, and value clips that OpenUSD does not survive: a clip
number that is not finite ends the process (SIGSEGV), times that are not finite make reading raise, and a template that
stands for millions of clips keeps OpenUSD busy for minutes and gigabytes.
"""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from pxr import Ar, Sdf, Tf, UsdUtils

from usd_ros_bridge.errors import AssetError, quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.layer_files import FileRefusedError, LayerFiles, exceeded, layer_text
from usd_ros_bridge.usd.packages import SCHEME, PackageMap, is_package_path, split_package_path
from usd_ros_bridge.usd.resolver import PackageResolution, context_with, resolution_in_use
from usd_ros_bridge.usd.text_encoding import text_diagnostic

_NOT_FOLLOWED: Final = "is not followed"
_ASSET_MARKS: Final = (b"@", b"clips", b"${")
"""Marks of a text layer that has an asset path: its quotes, templates of value clips, expressions."""

MOST_CLIPS: Final = 100_000
"""Clips that a template may stand for: OpenUSD takes about 10 us for each."""

LAST_CLIP: Final = 1e9
"""Highest number of a clip of a template, in strides."""

_CLIPS: Final = "clips"
_RANGES: Final = ("templateStartTime", "templateEndTime", "templateStride")


class _LinkFolder:
    """A private directory with a folder `package:` of links, for one stage; removed when the process ends."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="usd_ros_bridge-"))
        (self.root / SCHEME).mkdir()
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)

    def add(self, name: str, directory: Path) -> None:
        link = self.root / SCHEME / name
        if not link.is_symlink():
            link.symlink_to(directory, target_is_directory=True)


@dataclass(frozen=True, slots=True)
class RefusedArc:
    """Something in a layer that is not composed: an asset path that is not followed, or value clips.

    Attributes:
        asset_path: As authored, "" for value clips.
        identifier: As OpenUSD names the layer, "" where the path is a value (a texture) and no composition arc, or
            where an arc that is followed leads to the same layer.
        layer: Identifier of the layer that has the path.
        diagnostic: What is wrong, without a prim path: composition may know the prim.
    """

    asset_path: str
    identifier: str
    layer: str
    diagnostic: Diagnostic


@dataclass(slots=True, eq=False)
class LayerScan:
    """Dependencies of the layers of an asset, before any is composed.

    Attributes:
        context: Resolver context for package://, None where the asset needs none.
        refusals: What must not be composed.
        layers: The layers that were opened: held, so that composition finds them.
        values: Asset paths that are values, such as textures and value clips, each with its layer.
    """

    context: Any = None
    refusals: list[RefusedArc] = field(default_factory=list)
    layers: list[Any] = field(default_factory=list)
    values: list[tuple[Any, str]] = field(default_factory=list)


def scan_layers(
    root: Any,
    packages: PackageMap,
    *,
    files: LayerFiles | None = None,
    follow_payloads: bool = True,
    variables: Mapping[str, Any] | None = None,
) -> LayerScan:
    """Open every layer that `root` can reach: sublayers, references and payloads, those in variants included.

    Value clips that OpenUSD does not survive are taken out of the layers in memory.

    Args:
        root: Root layer.
        packages: Where packages are.
        files: Opens the layers. None for the default limits.
        follow_payloads: Whether layers behind payloads are opened.
        variables: Expression variables of the stage that `root` is referenced into.

    Raises:
        AssetError: A limit is exceeded.
    """
    scanner = _Scanner(root, packages, files or LayerFiles(), follow_payloads=follow_payloads)
    return scanner.run({**root.expressionVariables, **(variables or {})})


class _Scanner:
    def __init__(self, root: Any, packages: PackageMap, files: LayerFiles, *, follow_payloads: bool) -> None:
        self._root = root
        self._packages = packages
        self._files = files
        self._follow_payloads = follow_payloads
        self._links: _LinkFolder | None = None
        self._scan = LayerScan(layers=[root])
        self._seen: set[tuple[str, str]] = set()
        self._refused: set[tuple[str, str, str]] = set()
        self._found: dict[str, Any] = {root.identifier: root}
        self._way = resolution_in_use()
        if self._way is PackageResolution.PLUGIN and packages.explicit:
            self._scan.context = context_with(packages.explicit, self._search_path())

    def run(self, variables: Mapping[str, Any]) -> LayerScan:
        """Visit the layers; one that is reached with other expression variables is visited again."""
        pending = [(self._root, dict(variables))]
        self._note_changes(self._root)
        while pending:
            layer, variables = pending.pop()
            sublayers = frozenset(layer.subLayerPaths)
            for asset_path in self._arcs_to_follow(layer, variables):
                found = self._open(layer, evaluated_path(asset_path, variables))
                if found is None:
                    continue
                # The variables of a referring layer win over those of this one; those of sublayers do not count.
                own = {} if asset_path in sublayers else found.expressionVariables
                theirs = {**own, **variables}
                key = (found.identifier, repr(sorted(theirs.items())))
                if key not in self._seen:
                    if len(self._seen) > self._files.options.max_layers:
                        raise AssetError(exceeded("layers", self._files.options.max_layers))
                    self._seen.add(key)
                    pending.append((found, theirs))
        self._scan.refusals = [self._told_apart(each) for each in self._scan.refusals]
        return self._scan

    def _told_apart(self, refusal: RefusedArc) -> RefusedArc:
        """Return a refusal that mutes no layer that another arc may have.

        OpenUSD normalises `package://a/../b/x.usda` to `package:/b/x.usda`: muted, it would be missing where it is
        named rightly, too.
        """
        if refusal.diagnostic.code != "1.2.5.package" or refusal.identifier not in self._found:
            return refusal
        message = refusal.diagnostic.message.replace(
            _NOT_FOLLOWED, "is composed, because another arc names the same file", 1
        )
        return replace(refusal, identifier="", diagnostic=replace(refusal.diagnostic, message=message))

    def _arcs_to_follow(self, layer: Any, variables: Mapping[str, Any]) -> list[str]:
        """Judge all asset paths of a layer; return those of its arcs that are allowed and lead to other layers."""
        arcs = {path for path in layer.GetCompositionAssetDependencies() if path}
        references, payloads = self._external_references(layer)
        for value in sorted(references - arcs):
            path = evaluated_path(value, variables)
            if not self._is_admitted(layer, path, is_arc=False):
                continue
            self._scan.values.append((layer, path))
            if is_layer_path(path):
                # A value clip: OpenUSD opens it when a value is read.
                self._open(layer, path)
        skipped = set() if self._follow_payloads else payloads - references
        return [
            path
            for path in sorted(arcs)
            if self._is_admitted(layer, evaluated_path(path, variables), is_arc=True) and path not in skipped
        ]

    def _external_references(self, layer: Any) -> tuple[set[str], set[str]]:
        """Return the layer's references (asset values and sublayers among them), and its payloads."""
        with self._bound():
            return external_references(layer)

    def _bound(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._scan.context is None else Ar.ResolverContextBinder(self._scan.context)

    def _open(self, layer: Any, asset_path: str) -> Any:
        identifier = Sdf.ComputeAssetPathRelativeToLayer(layer, asset_path) if asset_path else ""
        if not identifier:
            return None
        if identifier in self._found:
            return self._found[identifier]
        found = None
        try:
            with self._bound():
                found = self._files.open(identifier)
        except FileRefusedError as error:
            self._files.hold_place(identifier)
            self._refuse_file(layer, asset_path, str(error))
        except Tf.ErrorException:
            pass  # Composition reports it, with the prim.
        self._found[identifier] = found
        if found is not None:
            self._scan.layers.append(found)
            self._note_changes(found)
        return found

    def _note_changes(self, layer: Any) -> None:
        """Note the text of a layer that was replaced as it was opened, and leave out clips that cannot be used."""
        faults = self._files.text_faults.get(layer.identifier, ())
        found = [text_diagnostic(each, layer) for each in faults] + leave_out_clips(layer)
        self._scan.refusals += [RefusedArc("", "", layer.identifier, each) for each in found]

    def _is_admitted(self, layer: Any, asset_path: str, *, is_arc: bool) -> bool:
        if not is_package_path(asset_path):
            return True
        name, path = split_package_path(asset_path)
        # A host may bring a resolver of its own for the scheme: then where packages are is its business.
        if self._way is PackageResolution.HOST and path is not None:
            return True
        refused = self._packages.refuses(asset_path)
        if refused is not None:
            why, remedy = refused
            self._refuse(layer, asset_path, is_arc=is_arc, why=why, remedy=remedy)
            return False
        directory = self._packages.directory(name)
        if self._way is PackageResolution.LINKS and directory is not None:
            self._link(name, directory)
        return True

    def _search_path(self) -> str:
        """Return what OpenUSD searches by default, which a context of our own would replace."""
        return (
            "" if self._root.anonymous or not self._root.realPath else str(Path(self._root.realPath).parent)
        )

    def _link(self, name: str, directory: Path) -> None:
        if self._links is None:
            self._links = _LinkFolder()
            search = [path for path in (self._search_path(), str(self._links.root)) if path]
            self._scan.context = Ar.ResolverContext(Ar.DefaultResolverContext(search))
        self._links.add(name, directory)

    def _refuse(self, layer: Any, asset_path: str, *, is_arc: bool, why: str, remedy: str) -> None:
        found = Diagnostic(
            code="1.2.5.package",
            severity="error",
            path="",
            message=f"{quoted(asset_path)} in the layer {quoted(layer.GetDisplayName())} {_NOT_FOLLOWED}: {why}",
            remedy=remedy,
        )
        self._leave_out(layer, asset_path, found, is_arc=is_arc)

    def _refuse_file(self, layer: Any, asset_path: str, why: str) -> None:
        found = Diagnostic(
            code="1.2.5.asset",
            severity="error",
            path="",
            message=f"{quoted(asset_path)} in the layer {quoted(layer.GetDisplayName())} is not opened: {why}",
            remedy="name a regular file",
        )
        self._leave_out(layer, asset_path, found, is_arc=True)

    def _leave_out(self, layer: Any, asset_path: str, found: Diagnostic, *, is_arc: bool) -> None:
        identifier = Sdf.ComputeAssetPathRelativeToLayer(layer, asset_path) if is_arc else ""
        key = (asset_path, identifier, layer.identifier)
        if key not in self._refused:
            self._refused.add(key)
            self._scan.refusals.append(RefusedArc(asset_path, identifier, layer.identifier, found))


def external_references(layer: Any) -> tuple[set[str], set[str]]:
    """Return the asset paths of a layer: references, sublayers and asset values, and apart from them payloads."""
    if layer.anonymous:
        return set(), set()
    text = layer_text(layer)
    if text is not None and not any(word in text for word in _ASSET_MARKS):
        # OpenUSD takes long to look through many prims.
        return set(), set()
    try:
        sublayers, references, payloads = UsdUtils.ExtractExternalReferences(layer.identifier)
    except Tf.ErrorException:
        return set(), set()
    return {*sublayers, *references}, set(payloads)


def evaluated_path(asset_path: str, variables: Mapping[str, Any]) -> str:
    """Return what OpenUSD takes an asset path for where it is an expression (`"${ROOT}/arm.usda"`)."""
    expression = asset_path
    if not Sdf.VariableExpression.IsExpression(asset_path):
        if "${" not in asset_path:
            return asset_path
        # As UsdUtils lists it.
        expression = f'`"{asset_path}"`'
    value = Sdf.VariableExpression(expression).Evaluate(dict(variables)).value
    return value if isinstance(value, str) else ""


def is_layer_path(asset_path: str) -> bool:
    """Return whether the extension of a path is that of a layer."""
    return bool(asset_path) and Sdf.FileFormat.FindByExtension(asset_path) is not None


# --- Value clips ---


def leave_out_clips(layer: Any) -> list[Diagnostic]:
    """Remove value clips that crash OpenUSD from a layer in memory; its file is not changed.

    Args:
        layer: A layer that no stage has composed yet.

    Returns:
        A diagnostic for each prim whose clips were taken out.
    """
    found = []
    for spec, fault in list(clip_faults(layer)):
        layer.SetPermissionToEdit(True)
        spec.ClearInfo(_CLIPS)
        found.append(
            Diagnostic(
                code="1.2.5.clips",
                severity="error",
                path="",
                message=f"the value clips of {spec.path} in the layer {quoted(layer.GetDisplayName())} are left out: "
                f"{fault}",
                remedy="author finite times and clip numbers, and a stride that fits the range",
            )
        )
    return found


def clip_faults(layer: Any) -> Iterator[tuple[Any, str]]:
    """Yield the prim specs of a layer, those in variants included, whose value clips cannot be used, and why."""
    text = layer_text(layer)
    if text is not None and _CLIPS.encode() not in text:
        return
    specs: list[Any] = []

    def note(path: Any) -> None:
        if path.IsPrimPath() or path.IsPrimVariantSelectionPath():
            spec = layer.GetPrimAtPath(path)
            if spec is not None and spec.HasInfo(_CLIPS):
                specs.append(spec)

    layer.Traverse(Sdf.Path.absoluteRootPath, note)
    for spec in specs:
        sets = spec.GetInfo(_CLIPS)
        for name in sorted(sets):
            fault = _fault(sets[name]) if isinstance(sets[name], Mapping) else ""
            if fault:
                yield spec, f"in the set {quoted(name)} {fault}"
                break


def _fault(clips: Mapping[str, Any]) -> str:
    """Return the fault of a set of clips, "" for none."""
    for name, value in clips.items():
        if not _is_finite(value):
            return f"{name} has numbers that are not finite"
    given = [clips[name] for name in _RANGES if isinstance(clips.get(name), float)]
    if not given:
        return ""
    if len(given) < len(_RANGES):
        # What the other layers say would have to be known.
        return f"not all of {', '.join(_RANGES)} are numbers of the same layer"
    start, end, stride = given
    if stride > 0.0 and (end - start) / stride > MOST_CLIPS:
        return f"a stride of {stride:g} from {start:g} to {end:g} makes more than {MOST_CLIPS:,} clips"
    if max(abs(start), abs(end)) > LAST_CLIP * stride > 0.0:
        # Where a time does not change by a stride, OpenUSD counts without an end.
        return f"a stride of {stride:g} is too small for times up to {max(abs(start), abs(end)):g}"
    return ""


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str | bool | int | Sdf.AssetPath | Sdf.AssetPathArray):
        return True
    try:
        return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())
    except (TypeError, ValueError):
        return True  # No numbers: OpenUSD takes no notice of it.
