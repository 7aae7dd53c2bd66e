"""Opening: an asset's stage with the caller's variants, payloads and packages, or one line that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pxr import Ar, Sdf, Tf, Usd, UsdUtils

from usd_ros_bridge.model.diagnostics import error_text, quoted
from usd_ros_bridge.model.errors import AssetError, choices
from usd_ros_bridge.model.options import ReadOptions
from usd_ros_bridge.usd.composition import note_refusals
from usd_ros_bridge.usd.layer_files import FileRefusedError, LayerFiles, keep_files, regular_file_size
from usd_ros_bridge.usd.packages import PackageMap, Scan, package_remedy, scan_layers, split_package_path
from usd_ros_bridge.usd.prim_count import check_prim_count
from usd_ros_bridge.usd.resolver import register_resolver
from usd_ros_bridge.usd.schemas import register_schemas
from usd_ros_bridge.usd.variants import author_selections, check_selections

PACKAGE_SCHEME = "package://"


def open_stage(asset: str, options: ReadOptions | None = None) -> Usd.Stage:
    """Opens an asset.

    Variant selections go to the session layer before anything is composed. Composition arcs to packages that are not
    known, or out of the package that they name (REP 0158 section 1.2.5), are left out of the composition, and
    `read_stage` reports them.

    Args:
        asset: File path, `package://name/path`, or an identifier that an installed ArResolver knows.
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


def _compose(root: Any, session: Any, scan: Scan, options: ReadOptions) -> Usd.Stage:
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
    if asset.startswith(PACKAGE_SCHEME):
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
    """Returns the root layer; tells apart what OpenUSD reports in one and the same way."""
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
    extension = path.suffix.lstrip(".")
    if Sdf.FileFormat.FindByExtension(extension) is None:
        known = choices(f".{name}" for name in Sdf.FileFormat.FindAllFileFormatExtensions())
        raise AssetError(
            f"cannot open {quoted(asset)}: unknown extension {quoted(path.suffix)}; known: {known}"
        )


def first_line(error: Exception) -> str:
    """Returns what a Tf.ErrorException says, without the C++ function and file that it names."""
    text = " ".join(error_text(error, "it is no UTF-8 text").split())
    said = text.split(" : '", 1)[-1].split("' Error in", 1)[0].strip("' ")
    return said[:200]


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps OpenUSD's warnings off stderr while the context lasts: `read_stage` reports what matters in them.

    For a process of our own only (the command line, the node): the delegate is the whole process's.
    """
    delegate = UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        delegate.TakeUncoalescedDiagnostics()
        del delegate
