"""Open the stage of an asset, with variants, payloads and packages, or report in one line why not."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pxr import Ar, Sdf, Tf, Usd

from usd_ros_bridge.errors import AssetError, VariantError, alternatives, choices, quoted, quoted_path
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.usd.layer_files import (
    FileRefusedError,
    LayerFiles,
    keep_files,
    regular_file_size,
)
from usd_ros_bridge.usd.layer_scan import scan_layers
from usd_ros_bridge.usd.packages import URI_PREFIX, PackageMap, package_remedy, split_package_path
from usd_ros_bridge.usd.population import RobotChooser, compose_robots, composed_copy, leave_out, left_out
from usd_ros_bridge.usd.prim_scan import check_prim_count, scan_robots
from usd_ros_bridge.usd.read.composition import note_refusals
from usd_ros_bridge.usd.resolver import register_resolver
from usd_ros_bridge.usd.schemas import register_plugin_schemas, register_schemas
from usd_ros_bridge.usd.tf_errors import first_line


def open_stage(
    asset: str, options: ReadOptions | None = None, *, robots: RobotChooser | None = None
) -> Usd.Stage:
    """Open an asset.

    Variant selections go to the session layer before anything is composed. Composition arcs to packages that are not
    known, or out of the package that they name (REP 0158 section 1.2.5), are left out of the composition, and
    `read_stage` reports them.

    Args:
        asset: File path, `package://name/path`, or an identifier that an installed ArResolver resolves.
        options: Variants, payloads and packages.
        robots: Choose the robots to compose; the others are left out where nothing needs them. None: all robots.

    Returns:
        The stage. Hold it: prims expire with it.

    Raises:
        AssetError: The root layer is missing or cannot be opened.
        OptionError: A package's name or directory is not possible, or `robots` asks for one that does not exist.
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
        context = scan.context or Ar.GetResolver().CreateDefaultContextForAsset(root.identifier)
        refused = [refusal.identifier for refusal in scan.refusals if refusal.identifier]
        found = None
        if robots is None:
            check_prim_count(root, session, context, options, refused)
        else:
            found = scan_robots(root, session, context, options, refused)
            # Until it is known which of them are served.
            leave_out(session, found.separable)
        stage = _compose(root, session, context, options, refused)
    except Tf.ErrorException as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {first_line(error)}") from None
    except AssetError as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {error}") from None
    keep_files(stage, files)
    if found is not None:
        files.keep(scan.layers)
        compose_robots(stage, robots, scan=found)
    files.release()
    check_selections(stage, options.variants)
    return stage


def _compose(root: Any, session: Any, context: Any, options: ReadOptions, refused: list[str]) -> Usd.Stage:
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
                raise AssetError(
                    f"cannot open {quoted_path(asset)}: the path leaves the package {quoted(name)}"
                )
            raise AssetError(
                f"cannot open {quoted_path(asset)}: no such package as {quoted(name)}; {package_remedy(name)}"
            )
        return str(path)
    if asset.startswith("file://"):
        return asset[len("file://") :]
    return asset


def _root_layer(asset: str, identifier: str, files: LayerFiles) -> Any:
    """Return the root layer; distinguish faults that OpenUSD reports alike."""
    if not _is_encodable(identifier):
        raise AssetError(f"cannot open {quoted_path(asset)}: OpenUSD takes file names in UTF-8 only")
    if Sdf.Layer.IsAnonymousLayerIdentifier(identifier):
        layer = Sdf.Layer.Find(identifier)
        if layer is None:
            raise AssetError(f"cannot open {quoted_path(asset)}: no such anonymous layer")
        return layer
    outer = (
        Ar.SplitPackageRelativePathOuter(identifier)[0]
        if Ar.IsPackageRelativePath(identifier)
        else identifier
    )
    if not outer or "\0" in outer:
        raise AssetError(f"cannot open {quoted_path(asset)}: no file name")
    if "://" not in outer:
        _check_file(asset, outer)
    try:
        layer = files.open(identifier)
    except Tf.ErrorException as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {first_line(error)}") from None
    except (AssetError, FileRefusedError) as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {error}") from None
    if layer is None:
        raise AssetError(
            f"cannot open {quoted_path(asset)}: no resolver or file format of this OpenUSD can read it"
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
            raise AssetError(f"cannot open {quoted_path(asset)}: it is a directory")
        if not path.exists():
            raise AssetError(f"cannot open {quoted_path(asset)}: no such file")
        if regular_file_size(identifier) == 0:
            raise AssetError(f"cannot open {quoted_path(asset)}: the file is empty")
        with path.open("rb"):
            pass
    except FileRefusedError as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {error}") from None
    except OSError as error:
        raise AssetError(f"cannot open {quoted_path(asset)}: {error.strerror or error}") from None
    if path.suffix in _ROBOT_FILES:
        raise AssetError(
            f"cannot open {quoted_path(asset)}: it is no OpenUSD; convert it: "
            f"usd_ros_bridge import {shlex.quote(asset)}"
        )
    extension = path.suffix.lstrip(".")
    if Sdf.FileFormat.FindByExtension(extension) is None:
        known = choices(f".{name}" for name in Sdf.FileFormat.FindAllFileFormatExtensions())
        raise AssetError(
            f"cannot open {quoted_path(asset)}: unknown extension {quoted(path.suffix)}; known: {known}"
        )


_ROBOT_FILES: Final = (".urdf", ".xacro", ".xml", ".mjcf")


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
    """Compare selections with the composed stage, and with robots of it that are left out.

    Raises:
        VariantError: A prim, variant set or variant does not exist; the message lists what does.
    """
    selections = tuple(selections)
    if selections and left_out(stage):
        paths = [each.prim_path for each in selections]
        stage = stage if all(_is_composed(stage, path) for path in paths) else composed_copy(stage, paths)
    for selection in selections:
        _check(stage, selection)


def _is_composed(stage: Usd.Stage, path: str) -> bool:
    prim = stage.GetPrimAtPath(path)
    return bool(prim) and prim.IsActive()


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
