"""Composition errors: arcs that could not be composed, as diagnostics instead of warnings on stderr."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pxr import Pcp, Sdf, Usd

from usd_ros_bridge.errors import MAX_CANDIDATES, choices, did_you_mean, error_text, quoted
from usd_ros_bridge.model.diagnostics import MAX_SUGGESTED, Diagnostic
from usd_ros_bridge.model.scaffold import CONVERTERS
from usd_ros_bridge.usd.layer_scan import RefusedArc
from usd_ros_bridge.usd.packages import PackageMap, is_package_path
from usd_ros_bridge.usd.read.properties import PREDICATE
from usd_ros_bridge.usd.resolver import PackageResolution, packages_in, resolution_in_use

CODES: Final = {
    "ErrorInvalidAssetPath": ("1.2.5.asset", "correct the path or add the missing file"),
    "ErrorMutedAssetPath": ("1.2.5.muted", "unmute the layer"),
    "ErrorInvalidSublayerPath": ("1.2.5.asset", "correct the path or add the missing file"),
    "ErrorUnresolvedPrimPath": (
        "1.2.5.default_prim",
        "name a prim that the layer has, or give it a defaultPrim",
    ),
}
"""Class of PcpError -> code and remedy. Every other class is `1.2.3.composition`."""

_MISSING: Final = "1.2.5.asset"

OTHER: Final = ("1.2.3.composition", "correct the composition arc")

NOTES_KEY: Final = "usd_ros_bridge"
"""Key in the session layer's customLayerData, where `open_stage` leaves what it refused to compose: the notes travel
with the stage and die with it. Only stages that the bridge opened itself have them."""

_ASSET: Final = re.compile(r"@([^@]*)@")
_INTRODUCED: Final = re.compile(r"(?:introduced by|of layer) @([^@]*)@(?:<([^>]*)>)?")


class ArcSite(NamedTuple):
    """Where a composition arc is authored.

    Attributes:
        layer: Identifier of the layer, "" if it is not known.
        path: Path of the prim in that layer, "" for a sublayer, or if it is not known.
        asset_path: Asset path as authored or as OpenUSD resolved it, "" for an arc inside the layer.
    """

    layer: str
    path: str = ""
    asset_path: str = ""


def note_refusals(session: Any, refusals: Iterable[RefusedArc]) -> None:
    """Leave what was refused before composition on the session layer of a stage that the bridge opens."""
    notes = [
        {
            "identifier": refusal.identifier,
            "layer": refusal.layer,
            "asset_path": refusal.asset_path,
            "diagnostic": asdict(refusal.diagnostic),
        }
        for refusal in refusals
    ]
    session.customLayerData = {**session.customLayerData, NOTES_KEY: json.dumps(notes)}


def _noted(stage: Usd.Stage) -> list[tuple[str, ArcSite, Diagnostic]] | None:
    """Return refused layers, what refers to them, and diagnostics; None for a stage that a host opened."""
    session = stage.GetSessionLayer()
    text = session.customLayerData.get(NOTES_KEY) if session else None
    if not isinstance(text, str):
        return None
    notes = json.loads(text)
    diagnostics = _on_stage(stage, [Diagnostic(**note["diagnostic"]) for note in notes])
    return [
        (note["identifier"], ArcSite(note["layer"], asset_path=note["asset_path"]), diagnostic)
        for note, diagnostic in zip(notes, diagnostics, strict=True)
    ]


def _on_stage(stage: Usd.Stage, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics about prims of layers with the paths that these have on the stage, "" for none."""
    wanted = {(each.layer, each.path) for each in diagnostics if each.path}
    prims = Usd.PrimRange(stage.GetPseudoRoot(), PREDICATE) if wanted else ()
    found: dict[tuple[str, str], str] = {}
    for prim in prims:
        for spec in prim.GetPrimStack():
            site = (spec.layer.identifier, str(spec.path.StripAllVariantSelections()))
            if site in wanted:
                found.setdefault(site, prim.GetPath().pathString)
    return [
        replace(each, path=found.get((each.layer, each.path), "")) if each.path else each
        for each in diagnostics
    ]


def composition_diagnostics(stage: Usd.Stage) -> list[Diagnostic]:
    """Return a diagnostic for each arc that did not compose, refused package:// arcs included."""
    return list(arc_sites(stage))


def arc_sites(stage: Usd.Stage) -> dict[Diagnostic, ArcSite]:
    """Return `composition_diagnostics`, and where the arc of each is authored."""
    notes = _noted(stage)
    packages = _packages_of(stage) if resolution_in_use() is PackageResolution.PLUGIN else None
    folder = os.path.dirname(stage.GetRootLayer().realPath)  # noqa: PTH120 - "" for a layer without a file
    found: dict[Diagnostic, ArcSite] = {}

    def described(error: Any) -> Diagnostic:
        known = _of_package(error, packages)
        return known or _of_error(error, folder, suggests=len(found) < MAX_SUGGESTED)

    if notes is None:
        found |= _host_diagnostics(stage) if packages is None else {}
        for error in _errors(stage):
            found.setdefault(described(error), _site(error))
        return found
    refused = {
        (identifier, site.layer): (diagnostic, site) for identifier, site, diagnostic in notes if identifier
    }
    placed: set[Diagnostic] = set()
    for error in _errors(stage):
        site = _site(error)
        own, noted = refused.get((site.asset_path, site.layer), (None, site))
        if own is None:
            found.setdefault(described(error), site)
        else:
            # OpenUSD says on which prim the layer is missing; that it is, is no news.
            placed.add(own)
            found.setdefault(replace(own, path=_prim_path(error)), noted._replace(path=site.path))
    return {
        **{diagnostic: site for _, site, diagnostic in notes if diagnostic not in placed},
        **found,
    }


def _errors(stage: Usd.Stage) -> list[Any]:
    # OpenUSD composes in parallel and lists errors as they come.
    return sorted(stage.GetCompositionErrors(), key=lambda error: (str(error.rootSite.path), _text(error)))


def _text(error: Any) -> str:
    # What cannot be shown quotes a layer that is no text.
    return error_text(error, f"{type(error).__name__}: a layer is no UTF-8 text")


def _site(error: Any) -> ArcSite:
    """Return where an error's arc is authored, and the layer that it is about.

    What else OpenUSD quotes, such as a line that it cannot parse, may name layers, too.
    """
    found = _ASSET.search(_text(error))
    by = _INTRODUCED.search(_text(error))
    layer, path = (by[1], by[2] or "") if by else ("", "")
    return ArcSite(layer, path, found[1] if found else "")


def _prim_path(error: Any) -> str:
    path = str(error.rootSite.path)
    return "" if path == "/" else path


def _of_error(error: Any, folder: str, *, suggests: bool) -> Diagnostic:
    """Return the diagnostic of an error. Files below `folder`, that of the root layer, are named from there."""
    code, remedy = CODES.get(type(error).__name__, OTHER)
    text = " ".join(_text(error).split())
    # Before the text is cut: a long path would leave nothing else of it.
    text = quoted(text.replace(f"@{folder}{os.sep}", "@") if folder else text)
    if code == _MISSING:
        file = Path(_site(error).asset_path)
        # The text may begin with directories, and be cut before the name.
        text = f"{quoted(file.name)}: {text}"
        question = did_you_mean(file.name, _neighbours(file)) if suggests else ""
        remedy = f"{question} {remedy}" if question else remedy
    return Diagnostic(
        code=code,
        severity="error",
        path=_prim_path(error),
        message=f"not composed: {text}",
        remedy=remedy,
    )


def _neighbours(file: Path) -> list[str]:
    """Return the names of the entries of a file's directory; none if it cannot be listed."""
    try:
        with os.scandir(file.parent) as entries:
            return sorted(each.name for each in islice(entries, MAX_CANDIDATES) if each.name != file.name)
    except (OSError, ValueError):
        return []


def _packages_of(stage: Usd.Stage) -> PackageMap:
    """Return where packages are for the plugin on a stage."""
    given = packages_in(stage.GetPathResolverContext())
    return PackageMap({name: directory for name, directory in given.items() if Path(directory).is_dir()})


def _of_package(error: Any, packages: PackageMap | None) -> Diagnostic | None:
    """Return why the plugin does not follow a package:// path, None where that is not what is wrong."""
    if packages is None:
        return None
    asset_path = _site(error).asset_path
    refused = packages.refuses(asset_path) if is_package_path(asset_path) else None
    if refused is None:
        return None
    why, remedy = refused
    return Diagnostic(
        code="1.2.5.package",
        severity="error",
        path=_prim_path(error),
        message=f"{quoted(asset_path)} is not followed: {why}",
        remedy=remedy,
    )


def _host_diagnostics(stage: Usd.Stage) -> dict[Diagnostic, ArcSite]:
    """Report that the host resolves package:// on a stage that it opened (REP 0158 section 1.2.5)."""
    users = sorted(
        (layer.GetDisplayName(), layer.identifier, path)
        for layer in stage.GetUsedLayers(includeClipLayers=False)
        for path in islice(filter(is_package_path, layer.GetCompositionAssetDependencies()), 1)
    )
    return {
        Diagnostic(
            code="1.2.5.package",
            severity="info",
            path="",
            message=f"the layer {quoted(name)} uses package://, which is resolved as the host's ArResolver does",
            remedy="",
        ): ArcSite(identifier, asset_path=path)
        for name, identifier, path in users
    }


# --- Payloads and variants ----------------------------------------------------------------------------------------


def arc_diagnostics(
    stage: Usd.Stage, interfaces: Iterable[str], kinematics: Iterable[str], repeats: Collection[str]
) -> list[Diagnostic]:
    """Return what is behind payloads and should not be, and variant sets without a default selection.

    Args:
        stage: The stage.
        interfaces: Prim paths with Ros*API schemas.
        kinematics: Prim paths of rigid bodies and joints.
        repeats: Roots of robots that are composed of the same specs as one before them.
    """
    payloads = [path.pathString for path in stage.FindLoadable()]
    return [
        *_interfaces_behind(stage, _payloads_with(stage, payloads, sorted(interfaces))),
        *_bodies_behind(stage, _payloads_with(stage, payloads, sorted(kinematics))),
        *_variant_diagnostics(stage, repeats),
    ]


_MOVE_OUT = "author or reference them outside of the payload; leave geometry and materials to it"
_KEEP_LOADED = "leave payloads loaded: the converter puts links and joints there"
"""Remedy for files of a converter, which users do not edit: only an info."""


def _interfaces_behind(stage: Usd.Stage, found: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """Yield diagnostics of payloads with ROS interfaces; `found` has each payload and the first of them."""
    for path, first in found:
        text = f"its payload holds ROS interfaces, contexts or frames, {quoted(first)} for one: {_WITHOUT}"
        if _is_of_converter(stage, path):
            yield Diagnostic(
                code="2.2.payload", severity="info", path=path, message=text, remedy=_KEEP_LOADED
            )
        else:
            yield Diagnostic(
                code="2.2.payload", severity="warning", path=path, message=text, remedy=_MOVE_OUT
            )


def _bodies_behind(stage: Usd.Stage, found: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """Yield diagnostics of payloads with bodies or joints; `found` has each payload and the first of them."""
    for path, first in found:
        text = f"its payload holds rigid bodies or joints, {quoted(first)} for one: {_WITHOUT}"
        if _is_of_converter(stage, path):
            yield Diagnostic(
                code="1.2.3.payload", severity="info", path=path, message=text, remedy=_KEEP_LOADED
            )
        else:
            yield Diagnostic(
                code="1.2.3.payload", severity="warning", path=path, message=text, remedy=_MOVE_OUT
            )


_WITHOUT = "without payloads they are not there"


def _is_of_converter(stage: Usd.Stage, path: str) -> bool:
    """Return whether a converter from URDF or MJCF wrote the payload of a prim."""
    return any(
        spec.hasPayloads and str(spec.layer.customLayerData.get("creator", "")).startswith(CONVERTERS)
        for spec in stage.GetPrimAtPath(path).GetPrimStack()
    )


def _payloads_with(
    stage: Usd.Stage, payloads: Iterable[str], paths: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield payloads that hold some of `paths`, which are sorted, and the first of these; each payload once."""
    known: set[Any] = set()
    for payload in payloads:
        key = _payload_key(stage.GetPrimAtPath(payload))
        if key in known:
            continue
        below = (
            path for path in _at_or_below(payload, paths) if is_behind_payload(stage.GetPrimAtPath(path))
        )
        first = next(below, None)
        if first is not None:
            known.add(key)
            yield payload, first


def _at_or_below(ancestor: str, paths: Sequence[str]) -> Iterator[str]:
    below = ancestor + "/"
    # Nothing that a prim's name may have comes before the slash.
    for row in range(bisect_left(paths, ancestor), len(paths)):
        if paths[row] != ancestor and not paths[row].startswith(below):
            return
        yield paths[row]


def _payload_key(prim: Usd.Prim) -> Any:
    """Return what prims with the same payload have in common."""
    pending, found = [prim.GetPrimIndex().rootNode], []
    while pending:
        node = pending.pop()
        if node.arcType == Pcp.ArcTypePayload:
            # Not of the layer stack: pxr never frees the Python object of one that was asked for.
            found.append(str(node.site))
        pending += node.children
    return tuple(sorted(found))


def is_behind_payload(prim: Usd.Prim) -> bool:
    """Return whether a prim is defined in a payload alone: opinions outside of it only override it."""
    pending = [(prim.GetPrimIndex().rootNode, False)]
    while pending:
        node, inside = pending.pop()
        inside = inside or node.arcType == Pcp.ArcTypePayload
        if node.hasSpecs and not inside and _defines(node):
            return False
        pending += [(child, inside) for child in node.children]
    return True


def _defines(node: Any) -> bool:
    specs = (layer.GetPrimAtPath(node.path) for layer in node.layerStack.layers)
    return any(spec is not None and spec.specifier != Sdf.SpecifierOver for spec in specs)


def _variant_diagnostics(stage: Usd.Stage, repeats: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each variant set that has no selection, or one that is no variant of it.

    A set of a layer that is referenced often is reported once.
    """
    known: set[Any] = set()
    prims = iter(Usd.PrimRange(stage.GetPseudoRoot(), PREDICATE))
    for prim in prims:
        if repeats and prim.GetPath().pathString in repeats:
            prims.PruneChildren()
        if not prim.HasVariantSets():
            continue
        sets = prim.GetVariantSets()
        for name in sets.GetNames():
            variants = sets.GetVariantSet(name)
            selected = variants.GetVariantSelection()
            if selected and selected in variants.GetVariantNames():
                continue
            specs = (each for each in prim.GetPrimStack() if name in each.variantSets)
            key = (name, selected, *((each.layer.identifier, str(each.path)) for each in specs))
            if key in known:
                continue
            known.add(key)
            names = choices(quoted(each) for each in variants.GetVariantNames())
            yield Diagnostic(
                code="1.2.4.default",
                severity="warning",
                path=prim.GetPath().pathString,
                message=f"the variant set {quoted(name)} has no default selection"
                if not selected
                else f"the selection {quoted(selected)} is no variant of the set {quoted(name)}",
                remedy=f"author a variant selection, one of {names}",
            )
