"""`usd_ros_bridge recover`: give an MCAP file the end that it lost, with all messages of its complete chunks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.process_settings import missing_requirements_explained

if TYPE_CHECKING:
    from mcap.writer import Writer


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
    reads MCAP.
    """
    with missing_requirements_explained():
        import mcap  # noqa: F401 - its absence is one line
    if output is not None and output.exists():
        raise OptionError(f"{output} exists already: name another file, or remove it")
    target = output or file
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with file.open("rb") as damaged, partial.open("xb") as new:
            messages = _copy(damaged, new, file)
        partial.replace(target)
    except OSError as error:
        raise OptionError(f"{error.filename or file}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    click.echo(f"{target}: {messages} messages")


def _copy(damaged: BinaryIO, new: BinaryIO, name: Path) -> int:
    """Copy all complete records. Return the number of messages."""
    from mcap.exceptions import McapError
    from mcap.stream_reader import StreamReader
    from mcap.writer import Writer

    records = iter(StreamReader(damaged).records)
    copy = RecordCopy(Writer(new))
    try:
        for record in records:
            copy.add(record)
    except (McapError, ValueError, EOFError) as error:
        if not copy.started:
            raise BridgeError(f"{name} is no MCAP file: {error or 'it ends in its header'}") from error
    if not copy.started:
        raise BridgeError(f"{name} is no MCAP file: it has no header")
    copy.writer.finish()
    return copy.messages


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
            self._channels[record.id] = writer.register_channel(
                topic=record.topic,
                message_encoding=record.message_encoding,
                schema_id=self._schemas[record.schema_id],
                metadata=record.metadata,
            )
        elif isinstance(record, records.Message):
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
