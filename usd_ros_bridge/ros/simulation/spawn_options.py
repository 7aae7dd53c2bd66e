"""What may be spawned, and how the bridge goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.ros.live.protocol import Changes

BetweenTicks = Callable[[Callable[[], None]], "Future[None]"]
"""Has a job done between two ticks; the future ends with it, or with what it raised."""

FORMATS = (".usd", ".usda", ".usdc", ".usdz")
MAX_LISTED = 1000
"""Files that GetSpawnables lists, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """What may be spawned while the bridge runs; nothing without roots.

    Attributes:
        roots: Directories: files in and below them may be spawned, and no others, links followed.
    """

    roots: tuple[str, ...] = ()

    def directories(self) -> tuple[Path, ...]:
        """Returns the roots, links resolved.

        Raises:
            OptionError: One of them is no directory.
        """
        for root in self.roots:
            if not Path(root).is_dir():
                raise OptionError(f"spawn root {root!r} is no directory")
        return tuple(Path(root).resolve() for root in self.roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """How the bridge goes on with a stage that was edited.

    Attributes:
        stage: The plan's, whose session layer may be edited.
        roots: Where files to spawn may come from, links resolved.
        changes: Has the bridge go on with what an edit makes of the stage.
        between_ticks: Has a job done while nothing moves.
    """

    stage: object
    roots: tuple[Path, ...]
    changes: Changes
    between_ticks: BetweenTicks


def find_file(uri: str, roots: tuple[Path, ...]) -> Path | None:
    """Returns the file that a URI or a path names, links resolved; None where it is not there, or below no root.

    Args:
        uri: `file:///...`, a path, or a path relative to a root.
        roots: Directories, links resolved.
    """
    try:
        parts = urlsplit(uri)
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            return None
        path = Path(unquote(parts.path) if parts.scheme else uri)
        # An absolute path stays what it is behind a root.
        files = [(root, (root / path).resolve()) for root in roots]
        return next((file for root, file in files if file.is_relative_to(root) and file.is_file()), None)
    except (OSError, ValueError, RuntimeError):
        # Names that no file can have, and links that lead to themselves.
        return None


def list_files(roots: tuple[Path, ...]) -> list[Path]:
    """Returns the USD files in and below the roots, sorted, as many as are listed."""
    found = {file for root in roots for file in root.rglob("*") if file.suffix in FORMATS and file.is_file()}
    return sorted(found)[:MAX_LISTED]
