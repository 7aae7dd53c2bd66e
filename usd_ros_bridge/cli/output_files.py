"""Files that commands write where the user says: never one of an asset, complete or not at all, and not in silence."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from usd_ros_bridge.errors import OptionError, escaped
from usd_ros_bridge.process_settings import ended_by_signals, run_interruptibly
from usd_ros_bridge.replaced_file import is_replaced, replaced

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan

USE_FORCE: Final = "exists: --force overwrites it"
_SHOWN: Final = 3
"""Replaced files that a line names."""


def write_output(
    path: Path,
    data: bytes,
    *,
    plans: Iterable[BridgePlan],
    extra: Mapping[Path, bytes] | None = None,
    refusal: str = "",
) -> None:
    """Write the file of a command, and what belongs to it. Print on standard error what was replaced.

    No file is written if one of them is part of an asset. After a signal, an old file is as it was.

    Args:
        path: The file. FIFOs, devices and /dev/stdout are written to.
        data: Its content.
        plans: Of the assets that were read: their files are not overwritten.
        extra: Other files, which are written first; a missing directory is made.
        refusal: What to say of a file that exists; "": it is replaced.

    Raises:
        OptionError: A file is part of an asset, exists and is not to be replaced, or cannot be written.
        KeyboardInterrupt: A signal came meanwhile.
    """
    files = {**(extra or {}), path: data}
    for each in files:
        _check(each, plans, refusal)
    old = {each: _size(each) for each in files if is_replaced(each)}
    for each, content in files.items():
        with _whole_file(each, refusal, makes_directory=each != path) as file:
            file.write(content)
    print_replaced(old)


@contextmanager
def output_file(path: Path, *, refusal: str = "") -> Iterator[BinaryIO]:
    """Write the file of a command that reads no asset, in pieces. Otherwise as `write_output`.

    Args:
        path: The file.
        refusal: What to say of a file that exists; "": it is replaced.

    Raises:
        OptionError: It exists and is not to be replaced, or cannot be written.
        KeyboardInterrupt: A signal came meanwhile.
    """
    _check(path, (), refusal)
    old = {path: _size(path)} if is_replaced(path) else {}
    with _whole_file(path, refusal) as file:
        yield file
    print_replaced(old)


def print_replaced(old: Mapping[Path, str]) -> None:
    """Print on standard error what was replaced, one line.

    Args:
        old: Files, or directories, and how large they were.
    """
    if not old:
        return
    shown = [f"{path} ({size})" for path, size in old.items()]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    print(escaped(f"usd_ros_bridge: replaced {', '.join(shown[:_SHOWN])}{more}"), file=sys.stderr)


def _check(path: Path, plans: Iterable[BridgePlan], refusal: str) -> None:
    if not is_replaced(path):
        return
    for plan in plans:
        from usd_ros_bridge.usd.edit.reload import is_asset_file

        if run_interruptibly(partial(is_asset_file, plan.stage, path)):
            raise OptionError(f"{path} is part of the asset: name another file")
    if refusal:
        raise OptionError(f"{path} {refusal}")


@contextmanager
def _whole_file(path: Path, refusal: str, *, makes_directory: bool = False) -> Iterator[BinaryIO]:
    try:
        if makes_directory:
            path.parent.mkdir(exist_ok=True)
        # A signal ends it by an exception, which removes the temporary file.
        with ended_by_signals() as ending, replaced(path, overwrite=not refusal) as file:
            yield file
    except FileExistsError as error:
        raise OptionError(f"{path} {refusal or 'cannot be written: File exists'}") from error
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from error
    if ending.asked:
        raise KeyboardInterrupt


def _size(path: Path) -> str:
    size = path.stat().st_size
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
