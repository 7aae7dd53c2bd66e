"""Visibility: show and hide lights and geometry of an open stage, on its session layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pxr import Usd, UsdGeom, UsdLux, UsdPhysics

from usd_ros_bridge.usd.edit.lock import lock_of

_LIGHT = "light"
_SHAPE = "shape"
_CONTEXT = "RosContextAPI"
_ISAAC_ROBOT = "IsaacRobotAPI"


class VisibilityEditor:
    """Show and hide lights and geometry of a stage. Use it in the tick thread only."""

    def __init__(self, stage: Any) -> None:
        """Store the stage.

        Args:
            stage: A Usd.Stage. Its session layer is edited, nothing else.
        """
        self._stage = stage

    def switchable(self, prim: str) -> tuple[str, ...]:
        """Return the prim paths of what services at `prim` switch.

        Lights at the prim or below it, else geometry there; else the same of the nearest prim above that has any, short
        of the robot: its root, a nested context's outside, and what is above a rigid body are not the service's.
        Geometry of other rigid bodies is left out: it is the robot. So are other contexts.
        """
        return tuple(str(each.GetPath()) for each, _ in self._find(prim))

    def switch(self, prim: str, visible: bool | None) -> tuple[bool, str]:
        """Show or hides what `switchable` names; None for the opposite of what the first of them is.

        Returns:
            Whether it was done, and what became of it or why not.
        """
        found = self._find(prim)
        if not found:
            return (
                False,
                f"there is neither a light nor visible geometry at {prim} or above it, short of the robot",
            )
        layer = self._stage.GetSessionLayer()
        if layer is None or not layer.permissionToEdit:
            return False, "the stage has no session layer that may be edited"
        if visible is None:
            visible = not _is_visible(found[0][0])
        wanted = UsdGeom.Tokens.inherited if visible else UsdGeom.Tokens.invisible
        with lock_of(self._stage), Usd.EditContext(self._stage, layer):
            for each, _ in found:
                UsdGeom.Imageable(each).GetVisibilityAttr().Set(wanted)
        words = _words(found, visible)
        hidden = [each for each, _ in found if _is_visible(each) is not visible]
        if hidden:
            return False, f"{words} without effect: a prim above {hidden[0].GetPath()} is invisible"
        return True, words

    def _find(self, path: str) -> list[tuple[Any, str]]:
        prim = self._stage.GetPrimAtPath(path)
        if not prim:
            return []
        for place in (prim, *self._places_above(prim)):
            found = _lights(place) or _shapes(place)
            if found:
                return found
        return []

    def _places_above(self, prim: Any) -> list[Any]:
        """Return the prims above a service that are not the robot, nearest first."""
        above = []
        place = prim.GetParent()
        while place and not place.IsPseudoRoot():
            above.append(place)
            place = place.GetParent()
        contexts = [each for each in above if _CONTEXT in _schemas(each)]
        robot = contexts[-1] if contexts else self._robot_of(above)
        places = []
        for each in above:
            if each == robot:
                break
            places.append(each)
            if each in contexts or each.HasAPI(UsdPhysics.RigidBodyAPI):
                break
        return places

    def _robot_of(self, above: list[Any]) -> Any:
        """Return what stands for the robot's root above a prim that is in no context, None where nothing does."""
        isaac = [each for each in above if _ISAAC_ROBOT in _schemas(each)]
        default = self._stage.GetDefaultPrim()
        if isaac or not above:
            return isaac[-1] if isaac else None
        return above[-1] if not default or above[-1] == default else None


def _lights(root: Any) -> list[tuple[Any, str]]:
    return [(prim, _LIGHT) for prim in _own(root, iter(Usd.PrimRange(root))) if _stands_for(prim, _is_light)]


def _shapes(root: Any) -> list[tuple[Any, str]]:
    """Return geometry at and below a prim, without that of rigid bodies below it."""
    found = []
    prims = iter(Usd.PrimRange(root))
    for prim in _own(root, prims):
        if prim != root and prim.HasAPI(UsdPhysics.RigidBodyAPI):
            prims.PruneChildren()
        elif _stands_for(prim, _is_shape):
            found.append((prim, _SHAPE))
    return found


def _own(root: Any, prims: Any) -> Iterator[Any]:
    """Yield prims at and below `root`, but for other contexts."""
    for prim in prims:
        if prim != root and _CONTEXT in _schemas(prim):
            prims.PruneChildren()
        else:
            yield prim


def _stands_for(prim: Any, wanted: Callable[[Any], bool]) -> bool:
    """Return whether `prim` is what is wanted, or an instance that holds it: nothing inside of one can be edited."""
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
