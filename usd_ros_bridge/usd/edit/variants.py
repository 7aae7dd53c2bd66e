"""Variants of an open stage: select them on its session layer, and undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pxr import Sdf, Tf, Usd

from usd_ros_bridge.errors import VariantError
from usd_ros_bridge.options import VariantSelection, VariantSet
from usd_ros_bridge.usd.open import author_selections, check_selections
from usd_ros_bridge.usd.population import composed_copy
from usd_ros_bridge.usd.tf_errors import first_line, quiet

_SetKey = tuple[str, str]


def variant_sets(stage: Any, *, most: int) -> tuple[VariantSet, ...]:
    """Return the variant sets of a stage's prims, in traversal order.

    Args:
        stage: A Usd.Stage. It is only read.
        most: Stop after so many.
    """
    found: list[VariantSet] = []
    for prim in stage.Traverse():
        if not prim.HasVariantSets():
            continue
        sets = prim.GetVariantSets()
        for name in sets.GetNames():
            if len(found) >= most:
                return tuple(found)
            found.append(
                VariantSet(
                    prim_path=str(prim.GetPath()),
                    name=name,
                    variants=tuple(sets.GetVariantSet(name).GetVariantNames()),
                    selected=sets.GetVariantSelection(name),
                )
            )
    return tuple(found)


class VariantEditor:
    """Editor of variant selections on the session layer. Use it in the thread that reads the stage.

    Selections are of the bridge's own or somebody else's (the asset's, a host's on the same session layer). Those of
    the bridge's own are replaced as a whole; where one ends, what was there before it is back.
    """

    def __init__(self, stage: Any, selections: Sequence[VariantSelection] = ()) -> None:
        """Store the stage, and the selections that the bridge made on its session layer when it was opened.

        Args:
            stage: A Usd.Stage. Its session layer is edited, nothing else.
            selections: Of the bridge's own, authored already.
        """
        self._stage = stage
        self._before: dict[_SetKey, str | None] = {_key(each): None for each in selections}
        self._selections = tuple(selections)

    @property
    def selections(self) -> tuple[VariantSelection, ...]:
        """Return the selections that the bridge made."""
        return self._selections

    def refuse_variants(self, selections: Sequence[VariantSelection]) -> str:
        """Return why selections are not possible, "" where they are. The stage is left as it is."""
        layer = self._stage.GetSessionLayer()
        if layer is None or not layer.permissionToEdit:
            return "the stage has no session layer that may be edited"
        try:
            author_selections(Sdf.Layer.CreateAnonymous(), selections)
        except VariantError as error:
            return str(error)
        try:
            check_selections(self._stage, selections)
        except VariantError:
            # One of them may be there only with another: ask a stage that has them all.
            return self._refused_together(selections)
        return ""

    def select(self, selections: Sequence[VariantSelection]) -> None:
        """Make selections, and end the bridge's own that are not among them.

        Raises:
            VariantError: A prim, variant set or variant does not exist, or the session layer cannot be edited; the
                stage is as it was then.
        """
        layer = self._stage.GetSessionLayer()
        if layer is None or not layer.permissionToEdit:
            raise VariantError("the stage has no session layer that may be edited")
        undo = self.savepoint()
        try:
            with quiet(), Sdf.ChangeBlock():
                self._author(layer, selections)
            check_selections(self._stage, selections)
        except Tf.ErrorException as error:
            undo()
            raise VariantError(first_line(error)) from None
        except BaseException:
            undo()
            raise
        self._selections = tuple(selections)

    def savepoint(self) -> Callable[[], None]:
        """Return what takes the session layer, and what is known of it here, back to what they are now."""
        layer = self._stage.GetSessionLayer()
        copy = None
        if layer is not None:
            copy = Sdf.Layer.CreateAnonymous("usd_ros_bridge-savepoint.usda")
            copy.TransferContent(layer)
        before, selections = dict(self._before), self._selections

        def undo() -> None:
            if copy is not None and layer.permissionToEdit:
                with quiet():
                    # What is alike is left alone: only what was edited is composed again.
                    layer.TransferContent(copy)
            self._before, self._selections = before, selections

        return undo

    # --- Own ---------------------------------------------------------------------------------------------------

    def _author(self, layer: Any, selections: Sequence[VariantSelection]) -> None:
        self._end(layer, self._before.keys() - {_key(each) for each in selections})
        for each in selections:
            self._before.setdefault(_key(each), _authored(layer, each))
        author_selections(layer, selections)

    def _end(self, layer: Any, ended: Iterable[_SetKey]) -> None:
        for path, variant_set in sorted(ended):
            before = self._before.pop((path, variant_set))
            spec = layer.GetPrimAtPath(path)
            if not spec:
                continue
            if before is not None:
                spec.variantSelections[variant_set] = before
            elif variant_set in spec.variantSelections:
                del spec.variantSelections[variant_set]
            layer.ScheduleRemoveIfInert(spec)

    def _refused_together(self, selections: Sequence[VariantSelection]) -> str:
        try:
            trial = self._selected(selections)
            try:
                check_selections(trial, selections)
            except VariantError:
                # With all that there is, to say what there is.
                trial.SetPopulationMask(Usd.StagePopulationMask.All())
                check_selections(trial, selections)
        except VariantError as error:
            return str(error)
        except Tf.ErrorException as error:
            return first_line(error)
        return ""

    def _selected(self, selections: Sequence[VariantSelection]) -> Any:
        """Return a stage of the same layers with other selections, composed where they are."""
        stage = self._stage
        session = Sdf.Layer.CreateAnonymous("usd_ros_bridge-trial.usda")
        session.TransferContent(stage.GetSessionLayer())
        trial = VariantEditor(stage)
        trial._before = dict(self._before)
        trial._author(session, selections)
        with quiet():
            return composed_copy(stage, [each.prim_path for each in selections], session)


def _key(selection: VariantSelection) -> _SetKey:
    return selection.prim_path, selection.variant_set


def _authored(layer: Any, selection: VariantSelection) -> str | None:
    if not Sdf.Path.IsValidPathString(selection.prim_path)[0]:
        return None
    spec = layer.GetPrimAtPath(selection.prim_path)
    if not spec:
        return None
    value: str | None = dict(spec.variantSelections).get(selection.variant_set)
    return value
