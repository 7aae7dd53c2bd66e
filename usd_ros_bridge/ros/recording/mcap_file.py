"""A file for an MCAP writer that is readable up to the last chunk at any time, whatever ends the process."""

from __future__ import annotations

import os
from pathlib import Path

from usd_ros_bridge.errors import OptionError


class McapFile:
    """A file object that writes whole chunks.

    An MCAP writer writes a chunk in many pieces, then goes back to fill in its length. Here all of that happens in
    memory: the file gets a chunk at once, when the writer has come back to its end. A process that is killed, and a
    disk that is full, leave no half of a chunk.

    Attributes:
        path: The file.
        error: Why nothing can be written any more, None while all is well.
        size: Bytes in the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Create the file.

        Raises:
            OptionError: It exists already, or cannot be created.
        """
        self.path = Path(path)
        self.error: OSError | None = None
        self.size = 0
        self._buffer = bytearray()
        self._position = 0
        self._went_back = False
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise OptionError(f"{path} exists already: name another file, or remove it") from None
        except OSError as error:
            raise OptionError(f"{path} cannot be created: {error.strerror}") from error

    # --- For the writer ----------------------------------------------------------------------------------------

    def write(self, data: bytes) -> int:
        """Take some bytes at the position."""
        begin = self._position - self.size
        if begin < 0:
            # A writer that changes what is in the file already: not while it writes chunks.
            self._overwrite(data)
        else:
            self._buffer[begin : begin + len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Change the position. The end of a chunk is where the writer comes back to the end."""
        end = self.size + len(self._buffer)
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: end}[whence]
        self._position = start + offset
        if self._position < end:
            self._went_back = True
        elif self._went_back:
            self._went_back = False
            self.flush()
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def flush(self) -> None:
        """Write to the file what is in memory; after a fault, drop it."""
        if self._went_back:
            return
        data, self._buffer = self._buffer, bytearray()
        if self.error is None:
            try:
                _write_all(self._file, data)
            except OSError as error:
                self.error = error
                # Some of it may be written: the file ends with what was complete before.
                os.ftruncate(self._file, self.size)
        # The writer goes on as if all were well: it raises nothing that could end a tick.
        self.size += len(data)

    # --- For the owner -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left and close the file. Idempotent."""
        if self._file < 0:
            return
        self._went_back = False
        self.flush()
        os.close(self._file)
        self._file = -1

    def _overwrite(self, data: bytes) -> None:
        if self.error is None:
            try:
                os.pwrite(self._file, data, self._position)
            except OSError as error:
                self.error = error


def _write_all(file: int, data: bytearray) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
