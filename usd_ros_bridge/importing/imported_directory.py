"""The directory that an import makes: it appears complete or not at all, and only import replaces it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.importing.locked_directory import DirectoryInUseError, filled_directory

MARKER = ".usd_ros_bridge_import.json"
"""File that says that import made a directory, and lists the files that it made there."""

_PARTIAL = ".{}.usd_ros_bridge_import"


def check_target(target: Path, *, force: bool) -> None:
    """Check that an import may write a directory: it is new or empty, or has what import made and nothing else.

    Raises:
        OptionError: It may not.
    """
    if not target.parent.is_dir():
        raise OptionError(f"{target}: no such directory as {quoted(target.parent)}")
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise OptionError(f"{target} is no directory: name another one by -o")
    if Path.cwd().resolve().is_relative_to(target):
        raise OptionError(
            f"{target} is where you are, and import replaces it: go to another directory, or name another one by -o"
        )
    made = _made(target)
    if made is None:
        if not _has_files(target):
            return
        raise OptionError(
            f"{target} exists and import did not make it: --force does not replace it; name another one by -o"
        )
    foreign = sorted(_files(target) - made - {MARKER})
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise OptionError(
            f"{target} has files that import did not make: {quoted(foreign[0])}{more}; "
            "move them away, or name another directory by -o"
        )
    if not force:
        raise OptionError(f"{target} exists: --force replaces it, -o names another one")


@contextmanager
def imported_directory(target: Path, *, force: bool, facts: dict[str, Any]) -> Iterator[Path]:
    """Make a directory for an import. It becomes `target` at the end, unless an exception ends it before.

    What an interrupted import has left beside `target` is removed.

    Args:
        target: Absolute path, without links.
        force: Replace a directory that import made.
        facts: For the marker, beside the list of files.

    Raises:
        OptionError: `target` cannot be made or replaced.
        BridgeError: Another import makes it.
    """
    check_target(target, force=force)
    partial = target.with_name(_PARTIAL.format(target.name))
    of_the_body: OSError | None = None
    try:
        with filled_directory(partial, waits=False):
            # Again, now that nobody else makes it.
            check_target(target, force=force)
            made = partial / "new"
            made.mkdir()
            try:
                yield made
            except OSError as error:
                of_the_body = error
                raise
            _write_marker(made, facts)
            if target.exists():
                target.rename(partial / "old")
            made.rename(target)
    except DirectoryInUseError:
        raise BridgeError(
            f"another import writes {target}: wait for it, or name another directory by -o"
        ) from None
    except OSError as error:
        # An error without a file is of the output: nobody reads it any more.
        if error is of_the_body and error.filename is None:
            raise
        raise OptionError(f"{target} cannot be written: {error.strerror or error}") from error


def _has_files(directory: Path) -> bool:
    """Return whether there is a file or link anywhere below a directory: the first one is enough."""
    return any(
        files or any((Path(above) / name).is_symlink() for name in folders)
        for above, folders, files in os.walk(directory)
    )


def _files(directory: Path) -> set[str]:
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _write_marker(directory: Path, facts: dict[str, Any]) -> None:
    content = {**facts, "files": sorted(_files(directory))}
    (directory / MARKER).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _made(directory: Path) -> set[str] | None:
    """Return the files that import made in a directory, None if it did not make it."""
    try:
        content = json.loads((directory / MARKER).read_text(encoding="utf-8"))
        return set(content["files"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
