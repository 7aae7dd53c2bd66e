"""Serialized messages that publishers take turns with: those of a fleet's robots differ in their numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class SharedMessages(Generic[T]):
    """Serialized messages by what does not change in them; each lives as long as someone uses it.

    A thousand robots of one kind then write into one message, which stays in the processor's caches, instead of a
    thousand, which do not; to send copies it. For publishers that one thread asks, one after another.
    """

    def __init__(self) -> None:
        """Has none yet."""
        self._made: WeakValueDictionary[Hashable, T] = WeakValueDictionary()

    def find(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the message of a key.

        Args:
            key: All that is not overwritten whenever it is sent.
            make: Makes it where there is none; what it raises is passed on.
        """
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found
