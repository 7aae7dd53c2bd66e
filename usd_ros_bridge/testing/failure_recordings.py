"""Recordings of failed tests: the last seconds of what a bridge published, as an MCAP file."""

from __future__ import annotations

import shutil
from pathlib import Path

LAST_S = 10.0
"""Seconds before the end of a test that are kept by default."""

_LATCHED = "durability: 1"


def keep_last(source: Path, target: Path, *, seconds: float) -> None:
    """Copy the end of a recording. Latched messages are copied whatever their time. Another file gets lost.

    Args:
        source: MCAP file; its end may be missing, after a process was killed.
        target: The new file; its folder is made.
        seconds: Seconds before the last message that are copied.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        from mcap.exceptions import McapError
        from mcap.records import Channel, Message
        from mcap.stream_reader import StreamReader
        from mcap.writer import Writer

        from usd_ros_bridge.cli.recover_command import RecordCopy
    except ImportError:
        shutil.copyfile(source, target)
        return
    begin_ns = _last_time_ns(source) - round(seconds * 1e9)
    with source.open("rb") as old, target.open("wb") as new:
        copy, latched = RecordCopy(Writer(new)), set()
        try:
            for record in StreamReader(old).records:
                if isinstance(record, Channel) and _LATCHED in record.metadata.get(
                    "offered_qos_profiles", ""
                ):
                    latched.add(record.id)
                if (
                    isinstance(record, Message)
                    and record.log_time < begin_ns
                    and record.channel_id not in latched
                ):
                    continue
                copy.add(record)
        except (McapError, ValueError, EOFError):
            # What was complete before the process was killed has been copied.
            pass
        if copy.started:
            copy.writer.finish()


def _last_time_ns(source: Path) -> int:
    """Return the time of the last complete message, nanoseconds."""
    from mcap.exceptions import McapError
    from mcap.records import Message
    from mcap.stream_reader import StreamReader

    last_ns = 0
    with source.open("rb") as file:
        try:
            for record in StreamReader(file).records:
                if isinstance(record, Message):
                    last_ns = max(last_ns, record.log_time)
        except (McapError, ValueError, EOFError):
            pass
    return last_ns
