"""Composition: arcs that could not be composed, as diagnostics instead of warnings on stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pxr import Usd

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.usd.packages import PackageMap, Refusal, is_package_path
from usd_ros_bridge.usd.resolver import Way, packages_in, way_in_use

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

OTHER: Final = ("1.2.3.composition", "correct the composition arc")

NOTES_KEY: Final = "usd_ros_bridge"
"""Key in the session layer's customLayerData, where `open_stage` leaves what it refused to compose: the notes travel
with the stage and die with it. Only stages that the bridge opened itself have them."""

_ASSET: Final = re.compile(r"@([^@]*)@")


def note_refusals(session: Any, refusals: Iterable[Refusal]) -> None:
    """Leaves what was refused before composition on the session layer of a stage that the bridge opens."""
    notes = [
        {"identifier": refusal.identifier, "diagnostic": asdict(refusal.diagnostic)} for refusal in refusals
    ]
    session.customLayerData = {**session.customLayerData, NOTES_KEY: json.dumps(notes)}


def _noted(stage: Usd.Stage) -> list[tuple[str, Diagnostic]] | None:
    """Returns identifiers of refused layers and their diagnostics, None for a stage that a host opened."""
    session = stage.GetSessionLayer()
    text = session.customLayerData.get(NOTES_KEY) if session else None
    if not isinstance(text, str):
        return None
    return [(note["identifier"], Diagnostic(**note["diagnostic"])) for note in json.loads(text)]


def composition_diagnostics(stage: Usd.Stage) -> list[Diagnostic]:
    """Returns a diagnostic for each arc that did not compose, refused package:// arcs included."""
    notes = _noted(stage)
    packages = _packages_of(stage) if way_in_use() is Way.PLUGIN else None
    if notes is None:
        hosts = _host_diagnostics(stage) if packages is None else []
        return [*hosts, *(_of_package(error, packages) or _of_error(error) for error in _errors(stage))]
    found: dict[Diagnostic, None] = {}
    refused = {identifier: diagnostic for identifier, diagnostic in notes if identifier}
    placed: set[Diagnostic] = set()
    for error in _errors(stage):
        own = next((refused[asset] for asset in _ASSET.findall(_text(error)) if asset in refused), None)
        if own is None:
            found[_of_package(error, packages) or _of_error(error)] = None
        else:
            # OpenUSD says on which prim the layer is missing; that it is, is no news.
            placed.add(own)
            found[replace(own, path=_prim_path(error))] = None
    return [*(diagnostic for _, diagnostic in notes if diagnostic not in placed), *found]


def _errors(stage: Usd.Stage) -> list[Any]:
    # OpenUSD composes in parallel and lists errors as they come.
    return sorted(stage.GetCompositionErrors(), key=lambda error: (str(error.rootSite.path), _text(error)))


def _text(error: Any) -> str:
    try:
        return str(error)
    except UnicodeDecodeError:
        # It quotes a layer that is no text.
        return f"{type(error).__name__}: a layer is no UTF-8 text"


def _prim_path(error: Any) -> str:
    path = str(error.rootSite.path)
    return "" if path == "/" else path


def _of_error(error: Any) -> Diagnostic:
    code, remedy = CODES.get(type(error).__name__, OTHER)
    return Diagnostic(
        code=code,
        severity="error",
        path=_prim_path(error),
        message=f"not composed: {quoted(' '.join(_text(error).split()))}",
        remedy=remedy,
    )


def _packages_of(stage: Usd.Stage) -> PackageMap:
    """Returns where packages are for the plugin on a stage."""
    given = packages_in(stage.GetPathResolverContext())
    return PackageMap({name: directory for name, directory in given.items() if Path(directory).is_dir()})


def _of_package(error: Any, packages: PackageMap | None) -> Diagnostic | None:
    """Returns why the plugin does not follow a package:// path, None where that is not what is wrong."""
    if packages is None:
        return None
    for asset_path in _ASSET.findall(_text(error)):
        refused = packages.refuses(asset_path) if is_package_path(asset_path) else None
        if refused is not None:
            why, remedy = refused
            return Diagnostic(
                code="1.2.5.package",
                severity="error",
                path=_prim_path(error),
                message=f"{quoted(asset_path)} is not followed: {why}",
                remedy=remedy,
            )
    return None


def _host_diagnostics(stage: Usd.Stage) -> list[Diagnostic]:
    """Says that package:// is the host's business on a stage that a host opened (REP 0158 section 1.2.5)."""
    users = sorted(
        layer.GetDisplayName()
        for layer in stage.GetUsedLayers(includeClipLayers=False)
        if any(is_package_path(path) for path in layer.GetCompositionAssetDependencies())
    )
    return [
        Diagnostic(
            code="1.2.5.package",
            severity="info",
            path="",
            message=f"the layer {quoted(name)} uses package://, which is resolved as the host's ArResolver does",
            remedy="",
        )
        for name in users
    ]
