"""Spawn options: which assets may be spawned, and how the bridge continues with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.plan import BridgePlan

FORMATS = (".usd", ".usda", ".usdc", ".usdz")
MAX_LISTED = 1000
"""Files that GetSpawnables lists, at most."""


def spawn_directories(roots: Sequence[str]) -> tuple[Path, ...]:
    """Return the directories whose files may be spawned, links resolved.

    Raises:
        OptionError: One of them is no directory.
    """
    for root in roots:
        if not Path(root).is_dir():
            raise OptionError(f"spawn root {root!r} is no directory")
    return tuple(Path(root).resolve() for root in roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnContext:
    """Parts of a bridge that spawning needs.

    Attributes:
        stage: Stage of the plan; its session layer may be edited.
        roots: Directories of the files that may be spawned, links resolved.
        plan: Return the plan that is live.
        request_change: Edit the stage and change the bridge to its plan, as `ChangeCoordinator.request`.
        submit: Run a job between two ticks, as `TickQueue.submit`.
    """

    stage: object
    roots: tuple[Path, ...]
    plan: Callable[[], BridgePlan]
    request_change: Callable[..., Future[ChangeReport]]
    submit: Callable[[Callable[[], object]], Future[None]]


def find_file(uri: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the file that a URI or a path names, links resolved; None where it is not there, or below no root.

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
    """Return the USD files in and below the roots, sorted, as many as are listed."""
    found = {file for root in roots for file in root.rglob("*") if file.suffix in FORMATS and file.is_file()}
    return sorted(found)[:MAX_LISTED]
