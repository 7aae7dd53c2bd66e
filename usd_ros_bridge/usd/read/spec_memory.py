"""Spec memory: what was read of the specs of a stage, kept for the next reading of that stage."""

from __future__ import annotations

from collections.abc import Set
from typing import Any
from weakref import WeakKeyDictionary

from pxr import Sdf, Tf, Usd

Specs = tuple[Any, ...]
"""Specs that a prim is composed from, the strongest first."""


class SpecMemory:
    """Values that follow from specs alone, by specs. An edit of a layer drops the values of all specs in it."""

    def __init__(self) -> None:
        self._values: dict[Specs, dict[Any, Any]] = {}
        self._layers: dict[Specs, set[Any]] = {}
        self._of_layer: dict[Any, set[Specs]] = {}
        self._notice_keys: dict[Any, Any] = {}
        self._changed: set[Any] = set()
        self._fallback_types: Any = None

    def __len__(self) -> int:
        """Return the number of combinations of specs that are remembered."""
        return len(self._values)

    def begin(self, stage: Usd.Stage) -> None:
        """Drop what has changed since the last reading."""
        fallback_types = stage.GetMetadata("fallbackPrimTypes")
        if fallback_types != self._fallback_types:
            self._fallback_types = fallback_types
            self._changed |= self._of_layer.keys()
        while self._changed:
            for specs in tuple(self._of_layer.get(self._changed.pop(), ())):
                self._forget(specs)

    def values(self, specs: Specs) -> dict[Any, Any]:
        """Return what is remembered of specs; write to it what follows from them alone."""
        values = self._values.get(specs)
        if values is None:
            # Before anything is read: an edit from now on counts.
            layers = self._layers[specs] = {spec.layer for spec in specs}
            for layer in layers:
                self._follow(layer)
                self._of_layer.setdefault(layer, set()).add(specs)
            values = self._values[specs] = {}
        return values

    def end(self, read: Set[Specs]) -> None:
        """Forget all specs but those that were read."""
        for specs in self._values.keys() - read:
            self._forget(specs)
        for layer in self._notice_keys.keys() - self._of_layer.keys():
            self._notice_keys.pop(layer).Revoke()

    def _forget(self, specs: Specs) -> None:
        del self._values[specs]
        for layer in self._layers.pop(specs):
            self._of_layer[layer].discard(specs)
            if not self._of_layer[layer]:
                del self._of_layer[layer]

    def _follow(self, layer: Sdf.Layer) -> None:
        if layer not in self._notice_keys:
            self._notice_keys[layer] = Tf.Notice.Register(
                Sdf.Notice.LayersDidChangeSentPerLayer, self._on_change, layer
            )

    def _on_change(self, _notice: Any, layer: Sdf.Layer) -> None:
        """Note that a layer has changed, in the thread that edits it."""
        self._changed.add(layer)


_memories: WeakKeyDictionary[Any, SpecMemory] = WeakKeyDictionary()


def memory_of(stage: Usd.Stage) -> SpecMemory:
    """Return the memory of a stage. It lives as long as the stage."""
    memory = _memories.get(stage)
    if memory is None:
        memory = _memories[stage] = SpecMemory()
    return memory
