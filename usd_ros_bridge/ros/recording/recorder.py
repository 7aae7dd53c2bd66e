"""Recorder: an MCAP file of all messages that the bridge publishes, with its parameters and its plan."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import foxglove
from foxglove.mcap import MCAPCompression, MCAPWriteOptions, MCAPWriter

from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.recording.mcap_file import McapFile
from usd_ros_bridge.ros.recording.message_channels import MessageChannels

PROFILE = "ros2"
CHUNK_BYTES = 2**20
COMPRESSION_LEVEL = 1
"""zstd's fastest positive level: a core then writes more than full HD images at 30 Hz."""

FLUSH_S = 2.0
"""A recording in real time loses no more than this where the process is killed, seconds."""

PARAMETERS = "parameters"
PLAN = "plan.json"


class Recorder:
    """Write an MCAP file (profile ros2, schemas ros2msg, messages in CDR, chunks compressed by zstd).

    rosbag2, rosbags, the mcap command line and Foxglove read it. The file is readable up to its last complete chunk
    whatever ends the process; `usd_ros_bridge recover` adds the end that is missing then.
    """

    def __init__(self, path: str | os.PathLike[str], channels: MessageChannels, *, report: Report) -> None:
        """Create the file.

        Args:
            path: The file.
            channels: The messages.
            report: For a file that cannot be written any more.

        Raises:
            OptionError: The file exists, or cannot be created.
        """
        self._channels = channels
        self._report = report
        self._file = McapFile(path)
        self._flushed_s = time.monotonic()
        self._parameters: deque[dict[str, str]] = deque()
        self._writer: MCAPWriter | None = foxglove.open_mcap(
            self._file,
            context=channels.context,
            writer_options=MCAPWriteOptions(
                compression=MCAPCompression.Zstd,
                compression_level=COMPRESSION_LEVEL,
                # Threads of its own would take the cores that the bridge has, and change the bytes.
                compression_threads=0,
                chunk_size=CHUNK_BYTES,
                profile=PROFILE,
            ),
        )
        # The header, without which nothing that follows can be read.
        self._file.flush()
        channels.written = self._check

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return str(self._file.path)

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        """Write the node's parameters, as metadata `parameters`: values as JSON, by name.

        The thread that writes messages does it. foxglove-sdk's writer waits for its own lock with Python's global lock,
        which the thread that has the first one needs to write to the file: the two would wait for each other for ever.
        """
        if not values:
            return
        self._parameters.append({name: json.dumps(value) for name, value in sorted(values.items())})
        if self._channels.is_writing:
            self._channels.wake()
        else:
            self._write_waiting_parameters()

    def _write_waiting_parameters(self) -> None:
        while self._parameters and self._writer is not None:
            self._writer.write_metadata(PARAMETERS, self._parameters.popleft())

    def _write_plan(self, plan: BridgePlan) -> None:
        """Attach the plan, as `inspect --json` prints it. Not at the start, where it would hold up the first tick."""
        if self._writer is not None:
            self._writer.attach(
                log_time=0,
                create_time=0,
                name=PLAN,
                media_type="application/json",
                data=json.dumps(plan_to_json(plan), separators=(",", ":")).encode(),
            )

    def close(self, plan: BridgePlan | None) -> None:
        """Write what waits, the plan if there is one, and the end of the file. Idempotent."""
        if not self._channels.close():
            self._leave()
            return
        if plan is not None:
            self._write_plan(plan)
        writer, self._writer = self._writer, None
        if writer is None:
            return
        self._end(writer)
        if self._file.error is not None:
            self._warn()

    def _leave(self) -> None:
        """Leave the file to the thread that still writes to it. Its writer is never destroyed: that would wait, too."""
        writer, self._writer = self._writer, None
        if writer is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
            self._report(
                "recording.close",
                f"{self.path} has no end: the disk stands still; `usd_ros_bridge recover` gives it one",
            )

    def _check(self) -> None:
        """After each batch: sometimes write a chunk, and stop where the file cannot be written."""
        writer = self._writer
        if writer is None:
            return
        self._write_waiting_parameters()
        now = time.monotonic()
        if not self._channels.lossless and now - self._flushed_s > FLUSH_S:
            self._flushed_s = now
            try:
                writer.flush()
            except RuntimeError as error:
                self._report("recording.flush", f"{self.path}: {describe(error)}")
        if self._file.error is not None:
            self._writer = None
            self._warn()
            self._end(writer)

    def _end(self, writer: MCAPWriter) -> None:
        try:
            writer.close()
        except RuntimeError as error:
            self._report("recording.close", f"{self.path} has no end: {describe(error)}")
        self._file.close()

    def _warn(self) -> None:
        error = self._file.error
        reason = "" if error is None else f": {error.strerror}"
        self._report(
            "recording.stopped",
            f"recording to {self.path} has stopped{reason}; the bridge continues. What was written until then can be "
            f"read after: usd_ros_bridge recover {self.path}",
        )
