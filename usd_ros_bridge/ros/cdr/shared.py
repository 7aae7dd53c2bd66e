"""Serialized messages that publishers take turns with: those of a fleet's robots differ in their numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class SharedMessages(Generic[T]):
    """Serialized messages by what does not change in them; each lives as long as someone uses it.

    A thousand robots of one kind then write into one message, which stays in the processor's caches, instead of a
    thousand, which do not; to send copies it. For publishers that one thread asks, one after another.
    """

    def __init__(self, before: Mapping[Hashable, T] | None = None) -> None:
        """Has none yet.

        Args:
            before: Messages that may be made anew from what they were, by their key.
        """
        self._made: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._before = before or {}

    @property
    def made(self) -> dict[Hashable, T]:
        """The messages that are in use, by their key."""
        return dict(self._made)

    def find(self, key: Hashable, make: Callable[[], T], renew: Callable[[T], T] | None = None) -> T:
        """Returns the message of a key.

        Args:
            key: All that is not overwritten whenever it is sent.
            make: Makes it where there is none; what it raises is passed on.
            renew: Makes it from what it was before.
        """
        found = self._made.get(key)
        if found is None:
            before = None if renew is None else self._before.get(key)
            found = self._made[key] = make() if renew is None or before is None else renew(before)
        return found
