"""Reload: the files of a stage, and reading them again after a check that all can be read."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pxr import Ar, Sdf, Tf, Usd, UsdUtils

from usd_ros_bridge.errors import AssetError, quoted
from usd_ros_bridge.usd.layer_files import (
    FileRefusedError,
    FileVersion,
    LayerFiles,
    copied_path,
    files_of,
    import_copy,
    outer_file,
    resolved_file,
    run_within,
)
from usd_ros_bridge.usd.layer_scan import clip_faults, evaluated_path, scan_layers
from usd_ros_bridge.usd.packages import SCHEME, PackageMap, is_package_path, split_package_path
from usd_ros_bridge.usd.text_encoding import bad_text, has_bad_text, text_in_file
from usd_ros_bridge.usd.tf_errors import first_line, quiet

_PATTERN: Final = re.compile(r"<UDIM>|#+")
"""Part of an asset path that is any number: of tiles of a texture, of value clips."""


def asset_files(stage: Any) -> frozenset[str]:
    """Return the files that a stage is composed from, and those that are missing.

    Those behind loaded payloads and `package://` are among them; of a usdz file's layers, the file. Absolute paths,
    links as they are, but for those that the bridge makes for packages. Textures are none.
    """
    files = set()
    for layer in _layers(stage):
        files.add(outer_file(layer.realPath))
        files.update(_missing(layer))
    return frozenset(files)


def is_asset_file(stage: Any, file: Path) -> bool:
    """Return whether a path, by whatever links, leads to a file of an asset.

    These are the files that the stage is composed from, those of variants and payloads that it leaves out, and those
    that values name: textures and value clips. All layers are looked through.
    """
    try:
        found = file.stat()
    except (OSError, ValueError):
        return False
    for files in (asset_files, _reachable_files):
        for each in files(stage):
            with suppress(OSError):
                if os.path.samestat(found, Path(each).stat()):
                    return True
    return False


def _reachable_files(stage: Any) -> set[str]:
    """Return the files that the layers of a stage lead to, whatever is selected and loaded."""
    options = files_of(stage).options
    with quiet(), Ar.ResolverContextBinder(stage.GetPathResolverContext()):
        try:
            scan = scan_layers(stage.GetRootLayer(), PackageMap(options.packages), files=LayerFiles(options))
        except AssetError:
            # Payloads that were not loaded are beyond the limits.
            return set()
        files = {outer_file(layer.realPath) for layer in scan.layers if layer.realPath}
        with Ar.ResolverContextBinder(scan.context or stage.GetPathResolverContext()):
            return files.union(*(_value_files(layer, path) for layer, path in scan.values))


def _value_files(layer: Any, path: str) -> set[str]:
    """Return the files that an asset path of a layer names: of tiles and templates, all of them."""
    identifier = Sdf.ComputeAssetPathRelativeToLayer(layer, path) if path else ""
    found = resolved_file(identifier) if identifier else None
    if found or not _PATTERN.search(path):
        return {found} if found else set()
    folder, name = os.path.split(identifier)
    where = resolved_file(folder) if folder else str(Path(outer_file(layer.realPath)).parent)
    pattern = _PATTERN.sub("*", glob.escape(os.path.join(where or "", name)))  # noqa: PTH118 - for glob
    return set(glob.glob(pattern))  # noqa: PTH207 - of a text


def read_versions(stage: Any) -> dict[str, FileVersion]:
    """Return which version of each file a stage was opened from, by the path that `asset_files` has.

    Files of layers that the process had opened before are missing: when those were read is not known.
    """
    return {outer_file(file): version for file, version in files_of(stage).versions.items()}


def reload(stage: Any, files: Collection[str] | None = None) -> tuple[str, ...]:
    """Read files of a stage again. All of them can be read, or none is.

    Where a file cannot be read later on, the layers keep what they had. OpenUSD holds up other Python threads while
    it reads (10 us for each prim in the files).

    Args:
        stage: A Usd.Stage. Edits of its layers that were not saved are lost; the session layer is left alone.
        files: Absolute paths, links or what they lead to; other files are of no concern. None for all of them.

    Returns:
        The files that were read.

    Raises:
        AssetError: A file is gone, does not parse, is being written, takes the default prim away, or reaches for a
            package in a way that only an opening can follow (REP 0158 section 1.2.5), is no regular file, or takes
            longer than `reload_timeout`. Nothing was read.
    """
    wanted = None if files is None else {os.path.realpath(each) for each in files}
    kept = files_of(stage)
    opener = LayerFiles(replace(kept.options, private_copies=True))
    with ExitStack() as copies, quiet(), Ar.ResolverContextBinder(stage.GetPathResolverContext()):
        try:
            layers, gone = run_within(
                kept.options.reload_timeout, lambda late: _copied(stage, wanted, opener, copies, late)
            )
        except TimeoutError:
            raise AssetError(f"not read within {kept.options.reload_timeout:g} s (reload_timeout)") from None
        read = {each.file for each in layers}
        new = {each.layer: _verify(stage, each, opener) for each in layers}
        _verify_unused(stage, gone, new)
        _import(layers)
        if wanted is None or wanted - {os.path.realpath(each) for each in read}:
            _compose_found_files(stage, opener)
        for each in layers:
            opener.note_import(each.layer, each.file)
        kept.take_imports(opener)
    return tuple(sorted(read))


class _CopiedLayer(NamedTuple):
    """A layer that is to be read again, and the private copy of its file."""

    layer: Any
    file: str
    copy: str


def _copied(
    stage: Any,
    wanted: Collection[str] | None,
    opener: LayerFiles,
    copies: ExitStack,
    late: Callable[[], bool],
) -> tuple[list[_CopiedLayer], list[Any]]:
    """Copy the files to read again; return their layers, and the layers whose files are gone."""
    found: list[_CopiedLayer] = []
    gone = []
    of_files: dict[str, str] = {}
    for layer in _layers(stage):
        file = outer_file(layer.realPath)
        if wanted is not None and os.path.realpath(file) not in wanted:
            continue
        if not os.path.lexists(file):
            gone.append(layer)
            continue
        if file not in of_files:
            try:
                opener.check(file)
                of_files[file] = copies.enter_context(opener.copy(file, late))
            except (FileRefusedError, AssetError) as error:
                raise AssetError(f"cannot read {_names([file])}: {error}") from None
        found.append(_CopiedLayer(layer, file, of_files[file]))
    return found, gone


def _import(layers: Iterable[_CopiedLayer]) -> None:
    try:
        with Sdf.ChangeBlock():
            for each in layers:
                import_copy(each.layer, each.copy)
    except Tf.ErrorException as error:
        raise AssetError(first_line(error)) from None


def _compose_found_files(stage: Any, opener: LayerFiles) -> None:
    """Compose files that were missing and exist now. `Stage.Reload` is not used: it would map files."""
    if not any(type(error).__name__ == "ErrorInvalidAssetPath" for error in stage.GetCompositionErrors()):
        return
    for layer in _layers(stage):
        if reason := _reached_from(stage, layer, layer, opener):
            raise AssetError(f"{_names([outer_file(layer.realPath)])} {reason}")
    mask = stage.GetPopulationMask()
    stage.SetPopulationMask(Usd.StagePopulationMask())
    stage.SetPopulationMask(mask)
    for layer in stage.GetLayerStack(includeSessionLayers=False):
        paths, offsets = list(layer.subLayerPaths), list(layer.subLayerOffsets)
        if any(Sdf.Layer.FindRelativeToLayer(layer, path) not in stage.GetUsedLayers() for path in paths):
            layer.subLayerPaths = []
            layer.subLayerPaths = paths
            for index, offset in enumerate(offsets):
                layer.subLayerOffsets[index] = offset


def _layers(stage: Any) -> list[Any]:
    """Return the layers of files; not the session layer and its like."""
    used = stage.GetUsedLayers(includeClipLayers=True)
    own = set(stage.GetLayerStack(includeSessionLayers=True)) - set(stage.GetLayerStack(False))
    # Those of robots that are left out are read again, too: they say what there is, and may be composed later on.
    kept = [layer for layer in files_of(stage).kept.values() if layer not in set(used)]
    return [layer for layer in (*used, *kept) if not layer.anonymous and layer.realPath and layer not in own]


def _missing(layer: Any) -> set[str]:
    """Return files that a layer refers to by a relative or absolute path, and that are not there."""
    found = set()
    for path in layer.GetCompositionAssetDependencies():
        if not path or is_package_path(path) or Ar.IsPackageRelativePath(path) or "://" in path:
            continue
        # Beside the layer, where nothing is found where OpenUSD searches, either.
        if not Ar.GetResolver().Resolve(Sdf.ComputeAssetPathRelativeToLayer(layer, path)):
            found.add(os.path.normpath(Path(outer_file(layer.realPath)).parent / path))
    return found


# --- Verifying -------------------------------------------------------------------------------------------------


def _verify(stage: Any, copied: _CopiedLayer, opener: LayerFiles) -> Any:
    """Return the content that a layer is to have."""
    layer, file = copied.layer, copied.file
    try:
        # On its own: nothing that is open sees it.
        new = Sdf.Layer.OpenAsAnonymous(copied_path(layer.realPath, copied.copy))
    except Tf.ErrorException as error:
        said = first_line(error).replace(copied.copy, file)
        raise AssetError(f"cannot read {_names([file])}: {said}") from None
    if new is None:
        raise AssetError(f"cannot read {_names([file])}: it is no layer that OpenUSD can read")
    if layer.rootPrims and not new.rootPrims:
        # The first lines of a text layer are a layer, too.
        raise AssetError(f"cannot read {_names([file])}: it has no prims any more, or is being written")
    _verify_default_prim(stage, layer, new, Path(file))
    reason = (
        _text_fault(new, layer, copied)
        or _clip_fault(new)
        or _package_fault(_linked_packages(stage), new)
        or _reached_from(stage, layer, new, opener)
    )
    if reason:
        # Refuse what opening would have refused, or would have to make ready: the stage is composed at once.
        raise AssetError(f"{_names([file])} {reason}")
    return new


def _verify_unused(stage: Any, gone: Iterable[Any], new: Mapping[Any, Any]) -> None:
    """Refuse that files are gone which something still leads to."""
    for missing in gone:
        file = outer_file(missing.realPath)
        if missing == stage.GetRootLayer() or any(
            _leads_to(layer, new.get(layer, layer), missing.identifier, file)
            for layer in _layers(stage)
            if layer != missing
        ):
            raise AssetError(f"cannot read {_names([file])}: No such file or directory")


def _leads_to(layer: Any, content: Any, identifier: str, file: str) -> bool:
    folder = Path(outer_file(layer.realPath)).parent
    return any(
        Sdf.ComputeAssetPathRelativeToLayer(layer, path) == identifier
        or os.path.normpath(folder / path) == file
        for path in content.GetCompositionAssetDependencies()
        if path
    )


def _verify_default_prim(stage: Any, layer: Any, new: Any, file: Path) -> None:
    if layer != stage.GetRootLayer() or not layer.defaultPrim:
        return
    if not new.defaultPrim:
        raise AssetError(f"{_names([file])} has no default prim any more; it had {quoted(layer.defaultPrim)}")


def _reached_from(stage: Any, layer: Any, content: Any, opener: LayerFiles) -> str:
    """Return what is wrong with files that `content` of a layer leads to and that are not open yet."""
    linked = _linked_packages(stage)
    variables = {**content.expressionVariables, **stage.GetRootLayer().expressionVariables}
    for authored in content.GetCompositionAssetDependencies():
        path = evaluated_path(authored, variables)
        is_refused = is_package_path(path) and split_package_path(path)[1] is None
        if is_refused:
            return _leaves_package(path)
        identifier = Sdf.ComputeAssetPathRelativeToLayer(layer, path) if path else ""
        if not identifier or Sdf.Layer.Find(identifier) is not None:
            continue
        try:
            found = opener.open(identifier)
        except FileRefusedError as error:
            return f"names {quoted(path)}, which is not opened: {error}"
        except Tf.ErrorException:
            continue  # Composition reports it, with the prim.
        if found is None:
            continue
        scan = scan_layers(found, PackageMap(), files=opener, variables=variables)
        for each in scan.layers:
            if reason := _package_fault(linked, each):
                return reason
        if refused := next((each for each in scan.refusals if not is_package_path(each.asset_path)), None):
            return f"leads to {quoted(refused.asset_path or path)}: {refused.diagnostic.message}"
    return ""


def _text_fault(content: Any, layer: Any, copied: _CopiedLayer) -> str:
    """Return where content has text that is not UTF-8, which an opening would replace, "" for nowhere."""
    faults = bad_text(content) if has_bad_text(text_in_file(layer.realPath, copied.copy)) else []
    return f"has text that is not UTF-8: {faults[0]}" if faults else ""


def _clip_fault(content: Any) -> str:
    """Return the fault of value clips that would crash OpenUSD, "" for none."""
    for spec, fault in clip_faults(content):
        return f"has value clips at {spec.path} that cannot be used: {fault}"
    return ""


def _leaves_package(path: str) -> str:
    return f"names {quoted(path)}, which leaves the package {quoted(split_package_path(path)[0])}"


def _package_fault(linked: frozenset[str], layer: Any) -> str:
    for path in _asset_paths(layer):
        if not is_package_path(path):
            continue
        name, inside = split_package_path(path)
        if inside is None:
            return _leaves_package(path)
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
    """Return the packages that a stage was made ready for when it was opened."""
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
