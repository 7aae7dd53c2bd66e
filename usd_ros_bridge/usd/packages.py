"""Packages: where package://name/path leads, and which arcs of an asset may not be followed (REP 0158 section 1.2.5).

Where the compiled resolver of `usd/resolver/` is in use, it does, by the rules that stand here. Elsewhere links do:
OpenUSD's own resolver takes `package://name/path` for a search path and normalises it to `package:/name/path`. A
directory that holds a folder `package:` of links to packages therefore resolves it: for references, payloads,
sublayers and asset values, nested and inside usdz. `..` is not contained there, hence the scan before composition.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pxr import Ar, Sdf, Tf, UsdUtils

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.model.errors import AssetError, OptionError
from usd_ros_bridge.usd.layer_files import FileRefusedError, LayerFiles, exceeded, layer_text
from usd_ros_bridge.usd.resolver import Way, context_with, way_in_use
from usd_ros_bridge.usd.value_clips import leave_out_clips

SCHEME: Final = "package:"
PATH_VARIABLE: Final = "USD_ROS_PACKAGE_PATH"
NOT_FOLLOWED: Final = "is not followed"
_OF_ASSETS: Final = (b"@", b"clips", b"${")
"""What stands in a text layer that has an asset path: its quotes, templates of value clips, expressions."""
PACKAGE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class PackageMap:
    """Directories of ROS packages by name: the caller's map, then USD_ROS_PACKAGE_PATH, then the ament index.

    The index is read from its files (`share/ament_index/resource_index/packages` below AMENT_PREFIX_PATH), so that
    no ROS installation is needed.
    """

    def __init__(self, explicit: Mapping[str, str] | None = None) -> None:
        """Checks the caller's map.

        Raises:
            OptionError: A name is no package name, or a directory does not exist.
        """
        self._explicit: dict[str, Path] = {}
        for name, directory in (explicit or {}).items():
            if not PACKAGE_NAME.fullmatch(name):
                raise OptionError(
                    f"package: {quoted(name)} is no package name (letters, digits, '_' and '-')"
                )
            if not Path(directory).is_dir():
                raise OptionError(f"package {name}: no such directory: {quoted(directory)}")
            self._explicit[name] = Path(directory).absolute()

    @property
    def explicit(self) -> Mapping[str, Path]:
        """The caller's map."""
        return self._explicit

    def directory(self, name: str) -> Path | None:
        """Returns the directory of a package, None where none is known by that name."""
        if name in self._explicit:
            return self._explicit[name]
        if not PACKAGE_NAME.fullmatch(name):
            return None
        for base in _paths_in(PATH_VARIABLE):
            if (base / name).is_dir():
                return base / name
        for prefix in _paths_in("AMENT_PREFIX_PATH"):
            if (prefix / "share/ament_index/resource_index/packages" / name).is_file():
                return prefix / "share" / name
        return None

    def refuses(self, asset_path: str) -> tuple[str, str] | None:
        """Returns why a package:// path is not followed, and what to do about it; None where it is followed."""
        name, path = split_package_path(asset_path)
        if path is None:
            return f"it leaves the package {quoted(name)}", "name the other package"
        if self.directory(name) is None:
            return f"no package {quoted(name)} is known", package_remedy(name)
        return None

    def resolve(self, asset_path: str) -> Path | None:
        """Returns the file that a package:// path names, None where it names none or leaves its package."""
        name, path = split_package_path(asset_path)
        directory = self.directory(name)
        return None if directory is None or path is None else directory / path


def _paths_in(variable: str) -> Iterator[Path]:
    for entry in os.environ.get(variable, "").split(os.pathsep):
        if entry:
            yield Path(entry).absolute()


def is_package_path(asset_path: str) -> bool:
    """Returns whether an asset path names a package, in either spelling (`package://` or as USD normalises it)."""
    return asset_path.startswith(SCHEME)


def split_package_path(asset_path: str) -> tuple[str, PurePosixPath | None]:
    """Returns the package and the path in it; no path where it leaves the package lexically."""
    outer = (
        Ar.SplitPackageRelativePathOuter(asset_path)[0]
        if Ar.IsPackageRelativePath(asset_path)
        else asset_path
    )
    name, _, rest = outer[len(SCHEME) :].lstrip("/").partition("/")
    # Whether "\\" separates is the platform's business: a path that leaves the package in either reading is refused.
    if _leaves(rest) or _leaves(rest.replace("\\", "/")):
        return name, None
    # Relative for sure: what follows "//" would be taken for an absolute path.
    return name, PurePosixPath(os.path.normpath(rest.lstrip("/") or "."))


def _leaves(path: str) -> bool:
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return False


def package_remedy(name: str) -> str:
    """Returns what to do about a package that is not known."""
    shown = name[:64] if PACKAGE_NAME.fullmatch(name) else "NAME"
    return f"install it, add it to {PATH_VARIABLE}, or give its directory (--package {shown}=directory)"


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
class Refusal:
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
class Scan:
    """What the layers of an asset depend on, before any is composed.

    Attributes:
        context: Resolver context for package://, None where the asset needs none.
        refusals: What must not be composed.
        layers: The layers that were opened: held, so that composition finds them.
    """

    context: Any = None
    refusals: list[Refusal] = field(default_factory=list)
    layers: list[Any] = field(default_factory=list)


def scan_layers(
    root: Any,
    packages: PackageMap,
    *,
    files: LayerFiles | None = None,
    follow_payloads: bool = True,
    variables: Mapping[str, Any] | None = None,
) -> Scan:
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
        self._scan = Scan(layers=[root])
        self._seen: set[tuple[str, str]] = set()
        self._refused: set[tuple[str, str, str]] = set()
        self._found: dict[str, Any] = {root.identifier: root}
        self._way = way_in_use()
        if self._way is Way.PLUGIN and packages.explicit:
            self._scan.context = context_with(packages.explicit, self._search_path())

    def run(self, variables: Mapping[str, Any]) -> Scan:
        """Visit the layers; one that is reached with other expression variables is visited again."""
        pending = [(self._root, dict(variables))]
        self._leave_out_clips(self._root)
        while pending:
            layer, variables = pending.pop()
            sublayers = frozenset(layer.subLayerPaths)
            for asset_path in self._arcs_to_follow(layer, variables):
                found = self._open(layer, evaluated_path(asset_path, variables))
                if found is None:
                    continue
                # The variables of whoever refers to a layer win over its own; those of sublayers do not count.
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

    def _told_apart(self, refusal: Refusal) -> Refusal:
        """Return a refusal that mutes no layer that another arc may have.

        OpenUSD normalises `package://a/../b/x.usda` to `package:/b/x.usda`: muted, it would be missing where it is
        named rightly, too.
        """
        if refusal.diagnostic.code != "1.2.5.package" or refusal.identifier not in self._found:
            return refusal
        message = refusal.diagnostic.message.replace(
            NOT_FOLLOWED, "is composed, because another arc names the same file", 1
        )
        return replace(refusal, identifier="", diagnostic=replace(refusal.diagnostic, message=message))

    def _arcs_to_follow(self, layer: Any, variables: Mapping[str, Any]) -> list[str]:
        """Judge all asset paths of a layer; return those of its arcs that are allowed and lead to other layers."""
        arcs = {path for path in layer.GetCompositionAssetDependencies() if path}
        references, payloads = self._external_references(layer)
        for value in sorted(references - arcs):
            path = evaluated_path(value, variables)
            if self._is_admitted(layer, path, is_arc=False) and is_layer_path(path):
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
        if layer.anonymous:
            return set(), set()
        text = layer_text(layer)
        if text is not None and not any(word in text for word in _OF_ASSETS):
            # OpenUSD takes long to look through many prims.
            return set(), set()
        try:
            with self._bound():
                sublayers, references, payloads = UsdUtils.ExtractExternalReferences(layer.identifier)
        except Tf.ErrorException:
            return set(), set()
        return {*sublayers, *references}, set(payloads)

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
            self._leave_out_clips(found)
        return found

    def _leave_out_clips(self, layer: Any) -> None:
        self._scan.refusals += [Refusal("", "", layer.identifier, each) for each in leave_out_clips(layer)]

    def _is_admitted(self, layer: Any, asset_path: str, *, is_arc: bool) -> bool:
        if not is_package_path(asset_path):
            return True
        name, path = split_package_path(asset_path)
        # A host may bring a resolver of its own for the scheme: then where packages are is its business.
        if self._way is Way.HOST and path is not None:
            return True
        refused = self._packages.refuses(asset_path)
        if refused is not None:
            why, remedy = refused
            self._refuse(layer, asset_path, is_arc=is_arc, why=why, remedy=remedy)
            return False
        directory = self._packages.directory(name)
        if self._way is Way.LINKS and directory is not None:
            self._link(name, directory)
        return True

    def _search_path(self) -> str:
        """Returns what OpenUSD searches by default, which a context of our own would replace."""
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
            message=f"{quoted(asset_path)} in the layer {quoted(layer.GetDisplayName())} {NOT_FOLLOWED}: {why}",
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
            self._scan.refusals.append(Refusal(asset_path, identifier, layer.identifier, found))


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
