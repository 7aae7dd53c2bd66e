"""MCAP files, record by record: also those that were never closed, up to the last complete chunk.

The index at the end of a file is used for the list of channels only, so a file without one reads the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

from usd_ros_bridge.errors import BackendError, quoted, quoted_path

MAGIC: Final = b"\x89MCAP0\r\n"
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0F
_RECORD = struct.Struct("<BQ")
_LENGTH = struct.Struct("<I")
_MESSAGE_START = struct.Struct("<H4xQ8x")
_CHUNK_START = struct.Struct("<16xQI")
_FOOTER_START = struct.Struct("<QQI")
_SIZE = struct.Struct("<Q")
_ID = struct.Struct("<H")
_IDS = struct.Struct("<HH")

_REMEDY: Final = "`usd_ros_bridge recover FILE` gives it its end"

BagMessage = tuple["BagChannel", int, bytes]
"""A channel, when the message was received (nanoseconds), and its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagChannel:
    """Messages of one topic in a bag.

    Attributes:
        topic: Topic name.
        type: Interface type (`tf2_msgs/msg/TFMessage`), "" if the file does not say.
        encoding: Encoding of the messages; ROS 2 writes `cdr`.
        definition: Definition of the type with those that it uses, "" if the file has none.
        definition_format: `ros2msg` or `ros2idl`.
    """

    topic: str
    type: str
    encoding: str = "cdr"
    definition: str = ""
    definition_format: str = ""


class _TruncatedError(Exception):
    """A record ends before its length says so."""


class McapReader:
    """Channels and messages of an MCAP file, in the order of the file.

    Attributes:
        damage: What is wrong with the file, "" so far as nothing was found: complete after `messages`.
    """

    def __init__(self, path: Path) -> None:
        """Check that it is an MCAP file.

        Args:
            path: The file.

        Raises:
            BackendError: The file cannot be read, or is no MCAP file.
        """
        self.damage = ""
        self._path = path
        self._decompress: dict[str, Callable[[bytes], bytes]] = _decompressors()
        self._chunk_channels: dict[int, frozenset[int]] = {}
        self._schemas: dict[int, tuple[str, str, str]] = {}
        self._channels: dict[int, BagChannel] = {}
        with self._open() as file:
            start = file.read(len(MAGIC))
        if start != MAGIC:
            what = "is empty" if not start else "is no MCAP file"
            raise BackendError(f"bag {quoted_path(path)} {what}")

    def channels(self) -> tuple[BagChannel, ...]:
        """Return the channels: from the summary, else those that a scan of the whole file finds."""
        if not self._channels:
            with self._open() as file:
                self._read_summary(file)
        if not self._channels:
            for _ in self.messages(lambda _channel: False):
                pass
        return tuple(self._channels.values())

    def messages(self, wanted: Callable[[BagChannel], bool]) -> Iterator[BagMessage]:
        """Read the messages of channels, each chunk in memory as a whole.

        Args:
            wanted: Asked once for each channel.
        """
        self.damage = ""
        chosen: dict[int, BagChannel | None] = {}
        with self._open() as file:
            try:
                for offset, opcode, content in self._records(file, chosen, wanted):
                    if opcode == _MESSAGE and len(content) >= _MESSAGE_START.size:
                        message = self._message(content, 0, len(content), chosen, wanted)
                        if message is not None:
                            yield message
                    elif opcode == _CHUNK:
                        yield from self._chunk_messages(offset, content, chosen, wanted)
            except _TruncatedError as error:
                self.damage = (
                    f"it was not closed and ends in the middle of the record at byte {error}; {_REMEDY}"
                )

    def _open(self) -> BinaryIO:
        try:
            return self._path.open("rb")
        except OSError as error:
            raise BackendError(f"bag {quoted_path(self._path)} cannot be read: {error.strerror}") from None

    def _records(
        self, file: BinaryIO, chosen: dict[int, BagChannel | None], wanted: Callable[[BagChannel], bool]
    ) -> Iterator[tuple[int, int, bytes]]:
        """Return records of the data section: offset, opcode and content. Those that hold no messages are skipped."""
        size = file.seek(0, 2)
        offset = file.seek(len(MAGIC))
        while True:
            start = file.read(_RECORD.size)
            if not start:
                self.damage = self.damage or f"it was not closed; {_REMEDY}"
                return
            if len(start) < _RECORD.size:
                raise _TruncatedError(offset)
            opcode, length = _RECORD.unpack(start)
            if opcode in {_DATA_END, _FOOTER}:
                return
            after = offset + _RECORD.size + length
            if opcode == 0 or after > size:
                raise _TruncatedError(offset)
            if opcode in {_SCHEMA, _CHANNEL}:
                try:
                    self._define(opcode, file.read(length))
                except (_TruncatedError, struct.error, UnicodeDecodeError):
                    self.damage = f"a channel at byte {offset} is damaged"
            elif opcode == _MESSAGE or (opcode == _CHUNK and self._needs_chunk(offset, chosen, wanted)):
                yield offset, opcode, file.read(length)
            offset = file.seek(after)

    def _needs_chunk(
        self, offset: int, chosen: dict[int, BagChannel | None], wanted: Callable[[BagChannel], bool]
    ) -> bool:
        """Return whether a chunk may have messages of wanted channels: all do until they were read once."""
        channels = self._chunk_channels.get(offset)
        return channels is None or any(self._choose(each, chosen, wanted) for each in channels)

    def _choose(
        self, number: int, chosen: dict[int, BagChannel | None], wanted: Callable[[BagChannel], bool]
    ) -> BagChannel | None:
        if number not in chosen:
            channel = self._channels.get(number)
            chosen[number] = channel if channel is not None and wanted(channel) else None
        return chosen[number]

    def _message(
        self,
        data: bytes,
        start: int,
        end: int,
        chosen: dict[int, BagChannel | None],
        wanted: Callable[[BagChannel], bool],
    ) -> BagMessage | None:
        number, log_ns = _MESSAGE_START.unpack_from(data, start)
        channel = self._choose(number, chosen, wanted)
        return None if channel is None else (channel, log_ns, data[start + _MESSAGE_START.size : end])

    def _chunk_messages(
        self,
        offset: int,
        content: bytes,
        chosen: dict[int, BagChannel | None],
        wanted: Callable[[BagChannel], bool],
    ) -> Iterator[BagMessage]:
        records = self._uncompressed(offset, content)
        if records is None:
            return
        seen: set[int] = set()
        try:
            yield from self._scan(records, seen, chosen, wanted)
        except (_TruncatedError, struct.error, UnicodeDecodeError):
            self.damage = f"a chunk at byte {offset} is damaged: the rest of it is left out"
        self._chunk_channels[offset] = frozenset(seen)

    def _scan(
        self,
        records: bytes,
        seen: set[int],
        chosen: dict[int, BagChannel | None],
        wanted: Callable[[BagChannel], bool],
    ) -> Iterator[BagMessage]:
        """Return messages of uncompressed records, and add to `seen` which channels have some."""
        at, end = 0, len(records)
        while at < end:
            opcode, length = _RECORD.unpack_from(records, at)
            at += _RECORD.size
            if at + length > end:
                raise _TruncatedError
            if opcode == _MESSAGE:
                number = _ID.unpack_from(records, at)[0]
                seen.add(number)
                # Most messages of a bag are of other channels.
                if number not in chosen or chosen[number] is not None:
                    message = self._message(records, at, at + length, chosen, wanted)
                    if message is not None:
                        yield message
            elif opcode in {_SCHEMA, _CHANNEL}:
                self._define(opcode, records[at : at + length])
            at += length

    def _uncompressed(self, offset: int, content: bytes) -> bytes | None:
        """Return the records of a chunk, None if it is damaged."""
        try:
            size, checksum = _CHUNK_START.unpack_from(content)
            compression, at = _text(content, _CHUNK_START.size)
            length = _SIZE.unpack_from(content, at)[0]
        except (_TruncatedError, struct.error, UnicodeDecodeError):
            self.damage = f"a chunk at byte {offset} is damaged"
            return None
        packed = content[at + _SIZE.size : at + _SIZE.size + length]
        unpack = self._decompress.get(compression)
        if unpack is None:
            self.damage = f"its chunks have the unknown compression {quoted(compression)}"
            return None
        try:
            records = unpack(packed)
        except Exception as error:  # noqa: BLE001 - each compression has exceptions of its own
            self.damage = f"a chunk at byte {offset} cannot be read: {type(error).__name__}"
            return None
        if len(records) != size or (checksum and crc32(records) != checksum):
            self.damage = f"a chunk at byte {offset} is damaged"
            return None
        return records

    def _define(self, opcode: int, content: bytes) -> None:
        """Store a schema or a channel; a channel without a schema has a type without a name."""
        if opcode == _SCHEMA:
            name, at = _text(content, _ID.size)
            encoding, at = _text(content, at)
            self._schemas[_ID.unpack_from(content)[0]] = name, encoding, _text(content, at)[0]
            return
        number, schema = _IDS.unpack_from(content)
        topic, at = _text(content, _IDS.size)
        name, encoding, definition = self._schemas.get(schema, ("", "", ""))
        self._channels[number] = BagChannel(
            topic=topic,
            type=name,
            encoding=_text(content, at)[0],
            definition=definition,
            definition_format=encoding,
        )

    def _read_summary(self, file: BinaryIO) -> None:
        """Read the channels of the summary, if the file has one."""
        end = len(MAGIC) + _RECORD.size + _FOOTER_START.size
        size = file.seek(0, 2)
        if size < len(MAGIC) + end:
            return
        file.seek(size - end)
        footer = file.read(end)
        opcode, length = _RECORD.unpack_from(footer)
        at = _FOOTER_START.unpack_from(footer, _RECORD.size)[0]
        if footer[-len(MAGIC) :] != MAGIC or (opcode, length) != (_FOOTER, _FOOTER_START.size) or at == 0:
            return
        while at + _RECORD.size <= size - end:
            file.seek(at)
            opcode, length = _RECORD.unpack(file.read(_RECORD.size))
            at += _RECORD.size + length
            if at > size - end:
                return
            if opcode in {_SCHEMA, _CHANNEL}:
                try:
                    self._define(opcode, file.read(length))
                except (_TruncatedError, struct.error, UnicodeDecodeError):
                    return


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Return a string with its length in front, and where it ends."""
    start = at + _LENGTH.size
    end = start + _LENGTH.unpack_from(data, at)[0]
    if end > len(data):
        raise _TruncatedError
    return data[start:end].decode(), end


def _decompressors() -> dict[str, Callable[[bytes], bytes]]:
    import lz4.frame

    return {"": bytes, "lz4": lz4.frame.decompress, "zstd": zstd().decompress}


def zstd() -> Any:
    """Return the module that reads zstd: Python's own from 3.14 on, else the one that rosbags brings."""
    try:
        from compression import zstd as module
    except ImportError:
        from backports import zstd as module
    return module
