"""Journal of a sweep: one line of JSON for each run that is over, appended as soon as it is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.sweep.run_record import RunRecord, record_from_json

JOURNAL: Final = "journal.jsonl"
_SYNC_EVERY_S: Final = 1.0


class RunJournal:
    """Append-only journal. Each run is in it once, however often and whenever the sweep was killed.

    A line is written with one system call, so that the end of the process loses none. The file is flushed to the disk
    once a second at most, and at the end, so that the end of the machine loses one second. A part that a full disk or
    a lost machine left of a last line is cut off when the journal is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Store the path; `open` acquires.

        Args:
            path: The file.
        """
        self.path = path
        self._file = -1
        self._ids: set[str] = set()
        self._synced_at = 0.0
        self._unsynced = False

    def open(self) -> list[RunRecord]:
        """Open the file for appending; create it if it is not there. Return the runs that it has.

        Raises:
            BridgeError: The file cannot be read or written.
        """
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            with self.path.open("rb") as file:
                content = file.read()
            complete = content.rfind(b"\n") + 1
            if complete < len(content):
                os.ftruncate(self._file, complete)
        except OSError as error:
            self.close()
            raise BridgeError(f"{self.path}: {error.strerror}") from error
        records = list(_records(content[:complete]))
        self._ids = {record.id for record in records}
        return records

    def append(self, record: RunRecord) -> bool:
        """Append a run. Return whether it was not there before: a run counts once.

        Raises:
            BridgeError: It cannot be written, as on a full disk. Earlier lines of the file stay readable.
        """
        if record.id in self._ids:
            return False
        line = record.to_json().encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                # The rest did not fit. This write names the reason, unless there is room again.
                written += os.write(self._file, line[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)
            raise BridgeError(f"{self.path}: {error.strerror}; the runs before are kept") from error
        if written < len(line):
            with suppress(OSError):
                os.ftruncate(self._file, size)
            raise BridgeError(f"{self.path}: cannot write more; the runs before are kept")
        self._ids.add(record.id)
        self._unsynced = True
        if time.monotonic() - self._synced_at > _SYNC_EVERY_S:
            self.sync()
        return True

    def sync(self) -> None:
        """Flush the file to the disk, if something was appended."""
        if self._unsynced and self._file >= 0:
            with suppress(OSError):
                os.fdatasync(self._file)
            self._unsynced = False
            self._synced_at = time.monotonic()

    def close(self) -> None:
        """Flush and close the file. Idempotent."""
        self.sync()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __enter__(self) -> RunJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> list[RunRecord]:
    """Return the runs of a journal, which may be in use. A missing one has none.

    Raises:
        BridgeError: The file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BridgeError(f"{path}: {error.strerror}") from error
    return list(_records(content[: content.rfind(b"\n") + 1]))


def _records(content: bytes) -> Iterator[RunRecord]:
    """Yield the runs of complete lines, each once. A line that is damaged is left out: its run is made again."""
    seen = set()
    for line in content.splitlines():
        try:
            record = record_from_json(line)
        except (ValueError, KeyError, AttributeError):
            continue
        if record.id not in seen:
            seen.add(record.id)
            yield record
