"""Output directory of a sweep: what was asked, the journal, the table, recordings, the report."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.replaced_file import replaced
from usd_ros_bridge.sweep.run_journal import JOURNAL, read_journal
from usd_ros_bridge.sweep.run_record import RunRecord
from usd_ros_bridge.sweep.sweep_description import Sweep

SWEEP: Final = "sweep.json"
TABLE: Final = "results.parquet"
REPORT: Final = "report.html"
RECORDINGS: Final = "recordings"
_FILES: Final = {SWEEP, JOURNAL, TABLE, REPORT, RECORDINGS}
_FORMAT: Final = 1
_PACKAGES: Final = ("usd_ros_bridge", "usd-core", "mujoco", "numpy", "ray", "pyarrow")
_SHOWN: Final = 3


class OutputDirectory:
    """Directory that has the results of one sweep. One process at a time writes to it.

    Attributes:
        path: The directory.
        notes: What is worth a warning: something changed since the sweep began.
    """

    def __init__(self, path: Path) -> None:
        """Store the path; `open` acquires.

        Args:
            path: The directory.
        """
        self.path = path
        self.notes: list[str] = []
        self._lock = -1
        self._document: dict[str, Any] = {}

    def open(self, sweep: Sweep, *, runs: int, resume: bool) -> None:
        """Create the directory for a sweep, or continue the one that is in it.

        Args:
            sweep: The sweep.
            runs: Number of its runs.
            resume: Continue what is there. A directory that has nothing is begun.

        Raises:
            OptionError: It has a sweep and `resume` is false, has another sweep, is in use, or is of something else.
            BridgeError: It cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise OptionError(f"{self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._begin(sweep, runs=runs, resume=resume)
        except BlockingIOError:
            self.close()
            raise OptionError(f"{self.path} is in use by another sweep: wait for it") from None
        except OSError as error:
            self.close()
            raise BridgeError(f"{error.filename or self.path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others use the directory. Idempotent."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def finish(self, **facts: Any) -> None:
        """Note how the sweep ended in `sweep.json`.

        Args:
            facts: What is noted, in place of what was noted before.

        Raises:
            OSError: It cannot be written.
        """
        self._document.update(facts)
        self._write_document()

    @property
    def is_finished(self) -> bool:
        """Return whether it says that all runs are over."""
        return bool(self._document.get("finished"))

    def discard(self) -> None:
        """Remove what `open` wrote: no run was made. Files of others stay."""
        for name in (SWEEP, JOURNAL):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):
            # Only if there is nothing else in it.
            (self.path / RECORDINGS).rmdir()
        with suppress(OSError):
            self.path.rmdir()

    def new_recording(self, run: str, attempt: int) -> Path:
        """Return the file that an attempt of a run records to. It does not exist."""
        folder = self.path / RECORDINGS
        folder.mkdir(exist_ok=True)
        path = folder / f".{run}.{os.getpid()}.{attempt}.mcap"
        path.unlink(missing_ok=True)
        return path

    def keep_recording(self, partial: Path, run: str) -> str:
        """Give the recording of a run its name. Return it, relative to the directory; "" if there is no recording."""
        target = partial.with_name(f"{run}.mcap")
        try:
            partial.replace(target)
        except FileNotFoundError:
            return ""
        return target.relative_to(self.path).as_posix()

    def _begin(self, sweep: Sweep, *, runs: int, resume: bool) -> None:
        description = json.loads(json.dumps(sweep.description(), default=str))
        done = len(read_journal(self.path / JOURNAL))
        # Of a sweep, not a file of that name.
        found = read_document(self.path) if (self.path / SWEEP).exists() else {}
        if found and (done or resume):
            if not resume:
                raise OptionError(
                    f"{self.path} has a sweep already ({done} of {found.get('runs')} runs): continue it with --resume, "
                    "or name another directory (--output)"
                )
            self._check_same(found, sweep, description)
            self._document = {**found, "resumed": [*found.get("resumed", []), time.time()]}
            self._remove_partial()
        elif {entry.name for entry in self.path.iterdir()} - (_FILES if found else set()):
            raise OptionError(
                f"{self.path} is not empty, and has no sweep: name another directory (--output)"
            )
        else:
            self._document = {
                "format": _FORMAT,
                "name": sweep.name,
                "digest": sweep.digest(),
                "runs": runs,
                "started": time.time(),
                "description": description,
                "asset_sha256": _file_hash(Path(sweep.directory, sweep.asset)),
                "versions": _versions(),
            }
        self._write_document()

    def _check_same(self, found: Mapping[str, Any], sweep: Sweep, description: Mapping[str, Any]) -> None:
        if found.get("digest") != sweep.digest():
            differ = list(_differences(found.get("description"), description))
            shown = "; ".join(differ[:_SHOWN]) or "its description"
            more = f" and {len(differ) - _SHOWN} more" if len(differ) > _SHOWN else ""
            raise OptionError(
                f"{self.path} has another sweep: {shown}{more}; name another directory (--output)"
            )
        if found.get("asset_sha256") != _file_hash(Path(sweep.directory, sweep.asset)):
            self.notes.append(f"{sweep.asset} has changed since this sweep began: its runs are of two assets")
        began, goes_on = found.get("versions", {}), _versions()
        for name in _PACKAGES[:3]:
            if began.get(name) != goes_on.get(name):
                self.notes.append(
                    f"this sweep began with {name} {began.get(name)}, and {goes_on.get(name)} continues it"
                )

    def _remove_partial(self) -> None:
        folder = self.path / RECORDINGS
        if folder.is_dir():
            for path in folder.glob(".*.mcap"):
                path.unlink(missing_ok=True)

    def _write_document(self) -> None:
        with replaced(self.path / SWEEP) as file:
            file.write(json.dumps(self._document, indent=1).encode() + b"\n")


def read_document(path: Path) -> dict[str, Any]:
    """Return what `sweep.json` of an output directory has.

    Raises:
        OptionError: There is none, or it is damaged.
    """
    try:
        document = json.loads((path / SWEEP).read_bytes())
    except FileNotFoundError:
        raise OptionError(f"{path} is no output directory of a sweep: it has no {SWEEP}") from None
    except OSError as error:
        raise OptionError(f"{path / SWEEP}: {error.strerror}") from error
    except ValueError as error:
        raise OptionError(f"{path / SWEEP} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise OptionError(f"{path / SWEEP} is of another version of usd_ros_bridge")
    return document


def read_records(path: Path) -> list[RunRecord]:
    """Return the runs of an output directory that are over, in the order of the sweep.

    Raises:
        BridgeError: The journal cannot be read.
    """
    return sorted(read_journal(path / JOURNAL), key=lambda record: record.index)


def free_bytes(path: Path) -> int:
    """Return how many bytes the disk of a directory has left, for messages. 0 if that cannot be found out."""
    with suppress(OSError):
        return shutil.disk_usage(path).free
    return 0


def _differences(found: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """Yield where two descriptions differ, a line each."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys((*found, *wanted)):
            yield from _differences(found.get(key), wanted.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif found != wanted:
        yield f"{place} is {quoted(json.dumps(found))} there and {quoted(json.dumps(wanted))} here"


def _file_hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "platform": sys.platform}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
