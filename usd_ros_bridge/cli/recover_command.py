"""`usd_ros_bridge recover`: give an MCAP file the end that it lost, with all messages of its complete chunks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import click

from usd_ros_bridge.cli.output_files import output_file
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.process_settings import missing_requirements_explained

if TYPE_CHECKING:
    from mcap.writer import Writer

_RECORD_HEAD: Final = 9
"""Bytes of a record's opcode and length (MCAP specification, records)."""
_LAST_OPCODE: Final = 0x0F
_LONGEST_RECORD: Final = 1 << 30
"""Bytes. A damaged length is larger as a rule."""
_MAGIC: Final = b"\x89MCAP0\r\n"
_BLOCK: Final = 1_000_000


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to FILE [default: replace the file].",
)
def recover(file: Path, output: Path | None) -> None:
    """Recover FILE, an MCAP recording whose process was killed, or whose disk was full.

    The new file has all messages, metadata and attachments of the complete chunks, and can be read by everything that
    reads MCAP. FILE is replaced if only its end is lost.
    """
    with missing_requirements_explained():
        import mcap  # noqa: F401 - its absence is one line
    target, refusal = output or file, "exists already: name another file, or remove it" if output else ""
    try:
        damaged = file.open("rb")
    except OSError as error:
        raise OptionError(f"{file}: {error.strerror}") from error
    with damaged, output_file(target, refusal=refusal) as new:
        recovered = _copy(damaged, new, file)
        if output is None and recovered.damage:
            raise BridgeError(f"{file}: {recovered.damage}: -o FILE writes what can be read")
    lost = f"; {recovered.damage}" if recovered.damage else ""
    click.echo(f"{target}: {recovered.messages} messages{lost}")


class _Recovered(NamedTuple):
    """What was found in a recording.

    Attributes:
        messages: Number of messages.
        damage: What else than the end is lost, "" for nothing.
    """

    messages: int
    damage: str


def _copy(damaged: BinaryIO, new: BinaryIO, name: Path) -> _Recovered:
    """Copy all complete records."""
    from mcap.exceptions import McapError
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader, breakup_chunk
    from mcap.writer import Writer

    records = iter(StreamReader(damaged, emit_chunks=True).records)
    copy = RecordCopy(Writer(new))
    fault: Exception | None = None
    chunks, last_ones, complete = 0, 0, 0
    while fault is None:
        complete = damaged.tell()
        try:
            record = next(records)
        except StopIteration:
            break
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - of mcap and struct: here the file is damaged
            fault = error
            continue
        found = [record]
        if isinstance(record, Chunk):
            try:
                found = breakup_chunk(record, validate_crc=True)
            except Exception:  # noqa: BLE001 - of mcap, struct, lz4 or zstandard
                last_ones += 1
                continue
        # Damaged chunks that nothing follows are the end, which a power failure costs.
        chunks, last_ones = chunks + last_ones, 0
        for each in found:
            copy.add(each)
    if not copy.started:
        why = str(fault).strip() if isinstance(fault, McapError) else ""
        raise BridgeError(f"{name} is no MCAP file: {why or 'it ends in its header'}") from fault
    copy.writer.finish()
    if last_ones > 1 or (last_ones and not copy.messages):
        # More than a power failure costs.
        chunks += last_ones
    return _Recovered(copy.messages, _damage(damaged, chunks, complete if fault is not None else -1))


def _damage(damaged: BinaryIO, chunks: int, complete: int) -> str:
    """Return what else than the end of a file is lost.

    Args:
        damaged: The file.
        chunks: How many damaged chunks it has.
        complete: Where reading ended, in bytes; -1: nowhere.
    """
    found = [f"{chunks} damaged chunk{'s' if chunks > 1 else ''}"] if chunks else []
    if complete >= 0:
        size = damaged.seek(0, os.SEEK_END)
        damaged.seek(complete)
        # A record that was not written to its end, or zeros, which a power failure leaves.
        is_cut = _is_cut(damaged.read(_RECORD_HEAD), size - complete)
        damaged.seek(complete)
        is_cut = is_cut or not any(any(block) for block in iter(partial(damaged.read, _BLOCK), b""))
        if not is_cut or _is_finished(damaged, size):
            found.append(f"it is damaged at byte {complete} of {size}")
    return ", ".join(found)


def _is_cut(head: bytes, left: int) -> bool:
    """Return whether a record that begins with these bytes is longer than what is left, as records are long."""
    if len(head) < _RECORD_HEAD:
        return True
    length = int.from_bytes(head[1:], "little")
    return 0 < head[0] <= _LAST_OPCODE and left - _RECORD_HEAD < length <= _LONGEST_RECORD


def _is_finished(damaged: BinaryIO, size: int) -> bool:
    """Return whether a recording was written to its end: damage is then within it."""
    damaged.seek(max(size - len(_MAGIC), 0))
    return damaged.read() == _MAGIC


class RecordCopy:
    """Write records again, with their ids in the new file."""

    def __init__(self, writer: Writer) -> None:
        """Args: writer: Of the new file; it is started with the first record, the header."""
        self.writer = writer
        self.started = False
        self.messages = 0
        self._schemas: dict[int, int] = {0: 0}
        self._channels: dict[int, int] = {}

    def add(self, record: object) -> None:
        """Write a record, if it is one that the new file needs."""
        from mcap import records

        writer = self.writer
        if isinstance(record, records.Header):
            self.started = True
            writer.start(profile=record.profile, library=record.library)
        elif isinstance(record, records.Schema) and record.id not in self._schemas:
            self._schemas[record.id] = writer.register_schema(
                name=record.name, encoding=record.encoding, data=record.data
            )
        elif isinstance(record, records.Channel) and record.id not in self._channels:
            if record.schema_id not in self._schemas:
                # Nobody could decode its messages.
                return
            self._channels[record.id] = writer.register_channel(
                topic=record.topic,
                message_encoding=record.message_encoding,
                schema_id=self._schemas[record.schema_id],
                metadata=record.metadata,
            )
        elif isinstance(record, records.Message):
            if record.channel_id not in self._channels:
                return
            self.messages += 1
            writer.add_message(
                channel_id=self._channels[record.channel_id],
                log_time=record.log_time,
                publish_time=record.publish_time,
                sequence=record.sequence,
                data=record.data,
            )
        elif isinstance(record, records.Attachment):
            writer.add_attachment(
                create_time=record.create_time,
                log_time=record.log_time,
                name=record.name,
                media_type=record.media_type,
                data=record.data,
            )
        elif isinstance(record, records.Metadata):
            writer.add_metadata(record.name, record.metadata)
