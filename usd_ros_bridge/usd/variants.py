"""Variants: the caller's selections, authored before composition and checked after it.

OpenUSD accepts any name: selecting a variant that does not exist reports nothing. So every selection is compared with
what the composed stage has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pxr import Sdf, Tf, Usd

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import VariantError, choices
from usd_ros_bridge.model.options import VariantSelection


def author_selections(layer: Any, selections: Iterable[VariantSelection]) -> None:
    """Authors variant selections as overs on a (session) layer.

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
    """Compares selections with the composed stage.

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
            f"variant selection: no prim {quoted(selection.prim_path)}; prims with variant sets: "
            f"{choices(_prims_with_variants(stage))}"
        )
    if prim.IsInstanceProxy():
        raise VariantError(
            f"variant selection: {quoted(selection.prim_path)} lies below an instance and cannot be changed there"
        )
    names = prim.GetVariantSets().GetNames()
    if selection.variant_set not in names:
        raise VariantError(
            f"variant selection: {selection.prim_path} has no variant set {quoted(selection.variant_set)}; "
            f"it has: {choices(names)}"
        )
    variant_set = prim.GetVariantSet(selection.variant_set)
    variants = variant_set.GetVariantNames()
    if selection.variant not in variants:
        raise VariantError(
            f"variant selection: {selection.prim_path}:{selection.variant_set} has no variant "
            f"{quoted(selection.variant)}; it has: {choices(variants)}"
        )


def _prims_with_variants(stage: Usd.Stage) -> list[str]:
    found = (
        prim for prim in stage.TraverseAll() if prim.HasVariantSets() and prim.GetVariantSets().GetNames()
    )
    return [str(prim.GetPath()) for prim, _ in zip(found, range(20), strict=False)]
