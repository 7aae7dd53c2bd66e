"""Composition: arcs that could not be composed, as diagnostics instead of warnings on stderr."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pxr import Usd

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted

CODES: Final = {
    "ErrorInvalidAssetPath": ("1.2.5.asset", "correct the path or add the missing file"),
    "ErrorMutedAssetPath": ("1.2.5.muted", "unmute the layer"),
    "ErrorInvalidSublayerPath": ("1.2.5.asset", "correct the path or add the missing file"),
    "ErrorUnresolvedPrimPath": ("1.2.5.default_prim", "name a prim that the layer has, or give it a defaultPrim"),
}
"""Class of PcpError -> code and remedy. Every other class is `1.2.3.composition`."""

OTHER: Final = ("1.2.3.composition", "correct the composition arc")

NOTES_KEY: Final = "usd_ros_bridge"
"""Key in the session layer's customLayerData, where `open_stage` leaves what it found before composition: the
diagnostics travel with the stage and die with it. Only stages that the bridge opened itself have it."""

_ASSET: Final = re.compile(r"@([^@]*)@")


def _prim_path(error: Any) -> str:
    path = str(getattr(error.rootSite, "path", "") or "")
    return "" if path in {"/", "."} else path


def note_diagnostics(stage: Usd.Stage, diagnostics: list[Diagnostic], refused: list[str]) -> None:
    """Leaves what was found before composition on the session layer of a stage that the bridge opened."""
    data = {"diagnostics": [_as_dict(diagnostic) for diagnostic in diagnostics], "refused": refused}
    session = stage.GetSessionLayer()
    session.customLayerData = {**session.customLayerData, NOTES_KEY: json.dumps(data)}


def _as_dict(diagnostic: Diagnostic) -> dict[str, str]:
    return {name: getattr(diagnostic, name) for name in Diagnostic.__dataclass_fields__}


def noted(stage: Usd.Stage) -> tuple[list[Diagnostic], list[str]] | None:
    """Returns what `note_diagnostics` left: diagnostics, refused assets. None for a stage that a host opened."""
    session = stage.GetSessionLayer()
    text = session.customLayerData.get(NOTES_KEY) if session else None
    if not isinstance(text, str):
        return None
    data = json.loads(text)
    return [Diagnostic(**entry) for entry in data["diagnostics"]], list(data["refused"])


def composition_diagnostics(stage: Usd.Stage) -> list[Diagnostic]:
    """Returns a diagnostic for each arc that did not compose, refused package:// arcs included."""
    notes = noted(stage)
    diagnostics, refused = notes if notes is not None else ([], [])
    found: dict[Diagnostic, None] = dict.fromkeys(diagnostics)
    for error in stage.GetCompositionErrors():
        text = str(error)
        # A refused arc has its own diagnostic; that OpenUSD then misses the layer is no news.
        if any(asset in refused for asset in _ASSET.findall(text)):
            continue
        code, remedy = CODES.get(type(error).__name__, OTHER)
        found.setdefault(
            Diagnostic(
                code=code,
                severity="error",
                path=_prim_path(error),
                message=f"composition: {quoted(' '.join(text.split()))}",
                remedy=remedy,
            )
        )
    return list(found)
