"""Prim paths as text: parents, names, and the nearest ancestor with a property."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator


def parent_path(path: str) -> str:
    """Return the path of the parent prim, "" for a root prim."""
    return path.rpartition("/")[0]


def prim_name(path: str) -> str:
    """Return the last element of a path."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of all ancestors, nearest first."""
    path = parent_path(path)
    while path:
        yield path
        path = parent_path(path)


def is_below(path: str, ancestor: str) -> bool:
    """Return whether `path` is `ancestor` or a descendant of it."""
    return path == ancestor or path.startswith(ancestor + "/")


class Nearest:
    """The nearest prim at or above a path that is in a set. Remembers what it has looked up."""

    def __init__(self, members: Collection[str], *, barriers: Container[str] = ()) -> None:
        """Store the set.

        Args:
            members: Paths to be found.
            barriers: Paths above which nothing is looked for.
        """
        self._members = members
        self._barriers = barriers
        self._known: dict[str, str] = {"": ""}

    def __call__(self, path: str) -> str:
        """Return the nearest member at or above `path`, "" where there is none."""
        known = self._known
        found = known.get(path)
        if found is not None:
            return found
        if path in self._members:
            return path
        walked = []
        current = path
        while True:
            found = known.get(current)
            if found is not None:
                break
            if current in self._members:
                found = current
                walked.append(current)
                break
            walked.append(current)
            if current in self._barriers:
                found = ""
                break
            current = current.rpartition("/")[0]
        for step in walked:
            known[step] = found
        return found

    def above(self, path: str) -> str:
        """Return the nearest member strictly above `path`, "" where there is none."""
        return "" if path in self._barriers else self(parent_path(path))
