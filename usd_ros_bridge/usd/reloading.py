"""Reloading: which files a stage is made of, and reading them again once it is known that they can be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pxr import Ar, Sdf, Tf, UsdUtils

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import AssetError
from usd_ros_bridge.usd.opening import first_line, quiet
from usd_ros_bridge.usd.packages import SCHEME, PackageMap, is_package_path, scan_layers, split_package_path


def asset_files(stage: Any) -> frozenset[str]:
    """Returns the files that a stage is composed from, and those that it wants and that are not there.

    Those behind loaded payloads and `package://` are among them; of a usdz file's layers, the file. Absolute paths,
    links as they are, but for those that the bridge makes for packages. Textures are none.
    """
    files = set()
    for layer in _layers(stage):
        files.add(_file(layer.realPath))
        files.update(_missing(layer))
    return frozenset(files)


def reload(stage: Any, files: Collection[str] | None = None) -> tuple[str, ...]:
    """Reads files of a stage again. All of them can be read, or none is.

    Where a file cannot be read later on, the layers keep what they had. OpenUSD holds up other Python threads while
    it reads (10 us for each prim in the files).

    Args:
        stage: A Usd.Stage. Edits of its layers that were not saved are lost; the session layer is left alone.
        files: Absolute paths, links or what they lead to; other files are of no concern. None for all of them.

    Returns:
        The files that were read.

    Raises:
        AssetError: A file is gone, does not parse, is being written, takes the default prim away, or reaches for a
            package in a way that only an opening can follow (REP 0158 section 1.2.5). Nothing was read.
    """
    wanted = None if files is None else {os.path.realpath(each) for each in files}
    layers = [
        layer
        for layer in _layers(stage)
        if wanted is None or os.path.realpath(_file(layer.realPath)) in wanted
    ]
    gone = [layer for layer in layers if not Path(_file(layer.realPath)).exists()]
    layers = [layer for layer in layers if layer not in gone]
    read = {_file(layer.realPath) for layer in layers}
    with quiet(), Ar.ResolverContextBinder(stage.GetPathResolverContext()):
        new = {layer: _verify(stage, layer) for layer in layers}
        _verify_unused(stage, gone, new)
        if layers and not _reload(layers):
            raise AssetError(f"cannot read {_names(read)} again: it changed meanwhile")
        if wanted is None or wanted - {os.path.realpath(each) for each in read}:
            _look_again(stage)
    return tuple(sorted(read))


def _reload(layers: Iterable[Any]) -> bool:
    try:
        return bool(Sdf.Layer.ReloadLayers(set(layers), force=True))
    except Tf.ErrorException as error:
        raise AssetError(first_line(error)) from None


def _look_again(stage: Any) -> None:
    """Composes what was missing where it is there by now: OpenUSD looks when it is told to reload the stage."""
    if not any(type(error).__name__ == "ErrorInvalidAssetPath" for error in stage.GetCompositionErrors()):
        return
    for layer in _layers(stage):
        if reason := _reached_from(stage, layer, layer):
            raise AssetError(f"{_names([_file(layer.realPath)])} {reason}")
    stage.Reload()


def _layers(stage: Any) -> list[Any]:
    """Returns the layers of files; not the session layer and its like."""
    used = stage.GetUsedLayers(includeClipLayers=True)
    own = set(stage.GetLayerStack(includeSessionLayers=True)) - set(stage.GetLayerStack(False))
    return [layer for layer in used if not layer.anonymous and layer.realPath and layer not in own]


def _file(real_path: str) -> str:
    """Returns the file that a layer is in, seen from outside of archives and of the bridge's own links."""
    outer = (
        Ar.SplitPackageRelativePathOuter(real_path)[0] if Ar.IsPackageRelativePath(real_path) else real_path
    )
    folder, is_linked, rest = outer.partition(f"{os.sep}{SCHEME}{os.sep}")
    name, _, inside = rest.partition(os.sep)
    link = Path(folder, SCHEME, name)
    if is_linked and link.is_symlink():
        return str(link.readlink() / inside)
    return os.path.normpath(outer)


def _missing(layer: Any) -> set[str]:
    """Returns files that a layer refers to by a relative or absolute path, and that are not there."""
    found = set()
    for path in layer.GetCompositionAssetDependencies():
        if not path or is_package_path(path) or Ar.IsPackageRelativePath(path) or "://" in path:
            continue
        # Beside the layer, where nothing is found where OpenUSD searches, either.
        if not Ar.GetResolver().Resolve(Sdf.ComputeAssetPathRelativeToLayer(layer, path)):
            found.add(os.path.normpath(Path(_file(layer.realPath)).parent / path))
    return found


# --- Verifying -------------------------------------------------------------------------------------------------


def _verify(stage: Any, layer: Any) -> Any:
    """Returns the content that a layer is to have."""
    file = Path(_file(layer.realPath))
    try:
        before = file.stat()
    except OSError as error:
        raise AssetError(f"cannot read {_names([file])}: {error.strerror or error}") from None
    if before.st_size == 0:
        raise AssetError(f"cannot read {_names([file])}: the file is empty")
    try:
        # On its own: nothing that is open sees it.
        new = Sdf.Layer.OpenAsAnonymous(layer.realPath)
    except Tf.ErrorException as error:
        raise AssetError(f"cannot read {_names([file])}: {first_line(error)}") from None
    if new is None:
        raise AssetError(f"cannot read {_names([file])}: it is no layer that OpenUSD can read")
    if not _is_same(file, before):
        raise AssetError(f"cannot read {_names([file])}: it is being written")
    _verify_default_prim(stage, layer, new, file)
    _verify_packages(stage, layer, new, file)
    return new


def _verify_unused(stage: Any, gone: Iterable[Any], new: Mapping[Any, Any]) -> None:
    """Refuses that files are gone which something still leads to."""
    for missing in gone:
        file = _file(missing.realPath)
        if missing == stage.GetRootLayer() or any(
            _leads_to(layer, new.get(layer, layer), missing.identifier, file)
            for layer in _layers(stage)
            if layer != missing
        ):
            raise AssetError(f"cannot read {_names([file])}: No such file or directory")


def _leads_to(layer: Any, content: Any, identifier: str, file: str) -> bool:
    folder = Path(_file(layer.realPath)).parent
    return any(
        Sdf.ComputeAssetPathRelativeToLayer(layer, path) == identifier
        or os.path.normpath(folder / path) == file
        for path in content.GetCompositionAssetDependencies()
        if path
    )


def _is_same(file: Path, before: os.stat_result) -> bool:
    try:
        now = file.stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns, now.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


def _verify_default_prim(stage: Any, layer: Any, new: Any, file: Path) -> None:
    if layer != stage.GetRootLayer() or not layer.defaultPrim:
        return
    if not new.defaultPrim:
        raise AssetError(f"{_names([file])} has no default prim any more; it had {quoted(layer.defaultPrim)}")


def _verify_packages(stage: Any, layer: Any, new: Any, file: Path) -> None:
    """Refuses what opening would have refused, or would have to make ready: the stage is composed at once."""
    reason = _package_fault(_linked_packages(stage), new) or _reached_from(stage, layer, new)
    if reason:
        raise AssetError(f"{_names([file])} {reason}")


def _reached_from(stage: Any, layer: Any, content: Any) -> str:
    """Returns what is wrong with packages that `content` of a layer leads to in files that nobody has open yet."""
    linked = _linked_packages(stage)
    for path in content.GetCompositionAssetDependencies():
        is_refused = is_package_path(path) and split_package_path(path)[1] is None
        identifier = Sdf.ComputeAssetPathRelativeToLayer(layer, path) if path and not is_refused else ""
        if identifier and Sdf.Layer.Find(identifier) is None:
            try:
                found = Sdf.Layer.FindOrOpen(identifier)
            except Tf.ErrorException:
                continue  # Composition reports it, with the prim.
            for each in scan_layers(found, PackageMap()).layers if found else ():
                if reason := _package_fault(linked, each):
                    return reason
    return ""


def _package_fault(linked: frozenset[str], layer: Any) -> str:
    for path in _asset_paths(layer):
        if not is_package_path(path):
            continue
        name, inside = split_package_path(path)
        if inside is None:
            return f"names {quoted(path)}, which leaves the package {quoted(name)}"
        if name not in linked and SCHEME.rstrip(":") not in Ar.GetRegisteredURISchemes():
            return f"names the package {quoted(name)}, which is new: start the bridge again"
    return ""


def _asset_paths(layer: Any) -> list[str]:
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    copy = layer
    if not layer.anonymous:
        copy = Sdf.Layer.CreateAnonymous()
        copy.TransferContent(layer)
    UsdUtils.ModifyAssetPaths(copy, note)
    return found


def _linked_packages(stage: Any) -> frozenset[str]:
    """Returns the packages that a stage was made ready for when it was opened."""
    context = stage.GetPathResolverContext()
    names: set[str] = set()
    for each in context.Get() if context else ():
        if isinstance(each, Ar.DefaultResolverContext):
            for directory in each.GetSearchPath():
                folder = Path(directory, SCHEME)
                names.update(link.name for link in (folder.iterdir() if folder.is_dir() else ()))
    return frozenset(names)


def _names(files: Iterable[str | Path]) -> str:
    return ", ".join(quoted(Path(each).name) for each in sorted(files))
