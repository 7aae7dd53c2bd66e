"""Gates: publishers that may publish while a controller is active, at no cost to those that publish."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[bool], None]


class Gate:
    """Tells when it opens or closes.

    Attributes:
        open: Whether it is open.
    """

    __slots__ = ("_told", "open")

    def __init__(self, is_open: bool) -> None:
        """Starts open or closed."""
        self.open = is_open
        self._told: list[Tell] = []

    def watch(self, tell: Tell) -> None:
        """Has `tell` called now and at every change."""
        self._told.append(tell)
        tell(self.open)

    def leave(self, tell: Tell) -> None:
        """Calls it no more."""
        self._told.remove(tell)

    def turn(self, is_open: bool) -> None:
        """Opens or closes the gate."""
        if is_open != self.open:
            self.open = is_open
            for tell in tuple(self._told):
                tell(is_open)
