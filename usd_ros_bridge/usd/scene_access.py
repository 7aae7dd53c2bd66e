"""Edits of a stage while the bridge runs: lights and geometry are shown and hidden on the session layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pxr import Usd, UsdGeom, UsdLux, UsdPhysics

from usd_ros_bridge.usd.turns import turn_at

_LIGHT = "light"
_SHAPE = "shape"
_CONTEXT = "RosContextAPI"


class StageScene:
    """A stage whose lights and geometry may be switched; belongs to the thread that ticks."""

    def __init__(self, stage: Any) -> None:
        """Stores the stage.

        Args:
            stage: A Usd.Stage. Its session layer is edited, nothing else.
        """
        self._stage = stage

    def switchable(self, prim: str) -> tuple[str, ...]:
        """Returns the prim paths of what services at `prim` switch.

        Lights at the prim or below it, else geometry there; else lights, else geometry, among its siblings and below
        those. Geometry of rigid bodies below the prim or beside it is left out: it is the robot. So are other robots.
        """
        return tuple(str(each.GetPath()) for each, _ in self._find(prim))

    def switch(self, prim: str, visible: bool | None) -> tuple[bool, str]:
        """Shows or hides what `switchable` names; None for the opposite of what the first of them is.

        Returns:
            Whether it was done, and what became of it or why not.
        """
        found = self._find(prim)
        if not found:
            return False, f"there is neither a light nor visible geometry at {prim} or beside it"
        layer = self._stage.GetSessionLayer()
        if layer is None or not layer.permissionToEdit:
            return False, "the stage has no session layer that may be edited"
        if visible is None:
            visible = not _is_visible(found[0][0])
        wanted = UsdGeom.Tokens.inherited if visible else UsdGeom.Tokens.invisible
        with turn_at(self._stage), Usd.EditContext(self._stage, layer):
            for each, _ in found:
                UsdGeom.Imageable(each).GetVisibilityAttr().Set(wanted)
        words = _words(found, visible)
        hidden = [each for each, _ in found if _is_visible(each) is not visible]
        if hidden:
            return False, f"{words} in vain: a prim above {hidden[0].GetPath()} is invisible"
        return True, words

    def _find(self, path: str) -> list[tuple[Any, str]]:
        prim = self._stage.GetPrimAtPath(path)
        if not prim:
            return []
        children = prim.GetParent().GetFilteredChildren(Usd.PrimDefaultPredicate)
        # Other robots are not beside anything of this one.
        beside = [each for each in children if each != prim and _CONTEXT not in _schemas(each)]
        if prim.GetParent().IsPseudoRoot():
            beside = []
        return _lights([prim]) or _shapes([prim], but=prim) or _lights(beside) or _shapes(beside)


def _lights(roots: Iterable[Any]) -> list[tuple[Any, str]]:
    return [(prim, _LIGHT) for root in roots for prim in Usd.PrimRange(root) if _stands_for(prim, _is_light)]


def _shapes(roots: Iterable[Any], *, but: Any = None) -> list[tuple[Any, str]]:
    """Returns geometry at and below some prims, without that of rigid bodies; `but` may be one."""
    found = []
    for root in roots:
        prims = iter(Usd.PrimRange(root))
        for prim in prims:
            if prim.HasAPI(UsdPhysics.RigidBodyAPI) and prim != but:
                prims.PruneChildren()
            elif _stands_for(prim, _is_shape):
                found.append((prim, _SHAPE))
    return found


def _stands_for(prim: Any, wanted: Callable[[Any], bool]) -> bool:
    """Returns whether `prim` is what is wanted, or an instance that holds it: nothing inside of one can be edited."""
    if wanted(prim):
        return True
    return prim.IsInstance() and any(
        wanted(each) for each in Usd.PrimRange(prim, Usd.TraverseInstanceProxies())
    )


def _schemas(prim: Any) -> list[str]:
    # Names unregistered schemas, too.
    return list(prim.GetPrimTypeInfo().GetAppliedAPISchemas())


def _is_light(prim: Any) -> bool:
    return bool(prim.HasAPI(UsdLux.LightAPI))


def _is_shape(prim: Any) -> bool:
    if not prim.IsA(UsdGeom.Gprim):
        return False
    return UsdGeom.Imageable(prim).ComputePurpose() in (UsdGeom.Tokens.default_, UsdGeom.Tokens.render)


def _is_visible(prim: Any) -> bool:
    return bool(UsdGeom.Imageable(prim).ComputeVisibility() != UsdGeom.Tokens.invisible)


def _words(found: list[tuple[Any, str]], visible: bool) -> str:
    kind = found[0][1]
    state = ("on" if visible else "off") if kind == _LIGHT else "visible" if visible else "hidden"
    if len(found) == 1:
        return f"the {kind} {found[0][0].GetPath()} is {state}"
    return f"{len(found)} {kind}s are {state}: {', '.join(str(each.GetPath()) for each, _ in found[:3])}" + (
        " ..." if len(found) > 3 else ""
    )
