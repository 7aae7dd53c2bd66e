"""Recording of a bridge: copies of its messages from the first one on, and its parameters and plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.message_tap import join_taps

TEXTS_S = 60.0
"""How long a recording without real time waits for the texts of latched topics, seconds."""

DIAGNOSTICS_TOPIC = "/diagnostics"
_POLL_S = 0.01


class BridgeRecording:
    """What `BridgeOptions.record` asks for.

    In real time, the stamps of the file are the times of publishing. Where bridge time is simulated, or a host steps
    the bridge, they are bridge time. Where nothing follows the wall clock, the same run writes the same bytes.
    """

    def __init__(self, options: BridgeOptions, domains: Domains, *, report: Report) -> None:
        """Create the file, before anything is published.

        Args:
            options: Options of the bridge.
            domains: Domains whose messages are recorded.
            report: For messages that are left out, and a file that cannot be written.

        Raises:
            OptionError: The file exists, or cannot be created.
            BridgeError: foxglove-sdk is not installed.
        """
        try:
            from usd_ros_bridge.ros.recording.message_channels import MessageChannels
            from usd_ros_bridge.ros.recording.recorder import Recorder
        except ImportError as error:
            raise missing_requirement(error) or error from error
        path = options.record
        if path is None:
            raise BridgeError("there is no file to record to")
        self._report = report
        self._domains = domains
        self.channels = MessageChannels(takes_all=True, lossless=True, report=report)
        self.recorder = Recorder(path, self.channels, report=report)
        self._node: Any = None
        domains.set_tap(join_taps(domains.tap, self.channels))

    def set_time(self, time_ns: Callable[[], int | None]) -> None:
        """Set the clock of the file's stamps, nanoseconds; None while no time is known."""
        self.channels.time_ns = time_ns

    def leave_out_diagnostics(self) -> None:
        """Record no /diagnostics, which report wall time and the machine."""
        self.channels.left_out = frozenset({self._domains.main.resolve(DIAGNOSTICS_TOPIC)})

    def begin(self, node: Any, *, wait_for: Callable[[], bool]) -> None:
        """Write the parameters, and all messages from the first one on.

        Args:
            node: The main node.
            wait_for: Return whether the texts of latched topics are published; asked until they are.
        """
        deadline = time.monotonic() + TEXTS_S
        ended = threading.Event()
        while not wait_for() and time.monotonic() < deadline:
            self._domains.poll()
            ended.wait(_POLL_S)
        node.add_post_set_parameters_callback(self._write_parameters)
        self._node = node
        self._write_parameters()
        self.channels.start()

    def close(self, plan: BridgePlan) -> None:
        """Write what waits, the plan, and the end of the file. Idempotent."""
        self._domains.set_tap(None)
        node, self._node = self._node, None
        if node is not None:
            node.remove_post_set_parameters_callback(self._write_parameters)
        self.recorder.close(plan)

    def _write_parameters(self, _: Any = None) -> None:
        if self._node is None:
            return
        parameters = self._node.get_parameters_by_prefix("")
        # Two runs into two files are equal byte for byte: the file's own name stays outside of it.
        parameters.pop("record", None)
        self.recorder.write_parameters({name: _plain(each.value) for name, each in parameters.items()})


def _plain(value: Any) -> Any:
    """Return the value of a parameter for JSON: arrays and bytes as lists."""
    if isinstance(value, (bytes, bytearray)):
        return list(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        # rclpy has a byte array as bytes of one byte each.
        return list(b"".join(value))
    return value.tolist() if hasattr(value, "tolist") else value
