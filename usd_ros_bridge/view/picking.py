"""Picking: which frame, or prim, a click on a mesh of the page means. The scene adds its meshes, one component listens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

NO_ROBOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PickTarget:
    """What an instance of a mesh belongs to.

    Attributes:
        robot: Index in `plan.robots`, NO_ROBOT for scenery and free bodies.
        frame: Frame id, without prefix, that carries the mesh; "" for none.
        path: Prim path of the visual, or of the body where there is no frame; "" for the frame's own.
    """

    robot: int = NO_ROBOT
    frame: str = ""
    path: str = ""


PickListener = Callable[[PickTarget], object]


class Clickable(Protocol):
    """A scene node of viser that can be clicked."""

    def on_click(self, func: Callable[[Any], Any]) -> Any:
        """Call `func` with each click; its `instance_index` is the instance of a batch."""

    def remove_click_callback(self, callback: Any = "all") -> None:
        """Take a callback back."""


class PickRegistry:
    """Map clicks on scene nodes to targets. Thread-safe: viser calls from a pool, components from the page's thread."""

    def __init__(self) -> None:
        """Know no meshes; nothing is called before `listen`."""
        self._lock = threading.Lock()
        self._added: dict[int, tuple[Clickable, Callable[[Any], None]]] = {}
        self._listener: PickListener | None = None

    def add(self, handle: Clickable, targets: Sequence[PickTarget]) -> None:
        """Make a scene node clickable.

        Args:
            handle: The node of a mesh or of a batch of meshes.
            targets: One for each instance of a batch, in their order; a single one for a mesh.
        """
        kept = tuple(targets)

        def clicked(event: Any) -> None:
            index = getattr(event, "instance_index", None) or 0
            if 0 <= index < len(kept):
                self.pick(kept[index])

        with self._lock:
            self._added[id(handle)] = (handle, clicked)
        handle.on_click(clicked)

    def remove(self, handle: Clickable) -> None:
        """Forget a scene node. No effect for one that was never added."""
        with self._lock:
            _, clicked = self._added.pop(id(handle), (None, None))
        if clicked is not None:
            # viser raises for a node that is gone already.
            with suppress(RuntimeError, AssertionError, KeyError):
                handle.remove_click_callback(clicked)

    def listen(self, listener: PickListener | None) -> None:
        """Call `listener` with each target that is clicked from now on; None for nobody."""
        with self._lock:
            self._listener = listener

    def pick(self, target: PickTarget) -> None:
        """Select a target, as a click on it does."""
        with self._lock:
            listener = self._listener
        if listener is not None:
            listener(target)
