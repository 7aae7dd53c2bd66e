"""Run the shards of a fleet as child processes: start them, show their lines, end them together."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from usd_ros_bridge.child_process import end_with_parent
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.fleet.fleet import OWN_COMMAND
from usd_ros_bridge.fleet.shards import FleetShard
from usd_ros_bridge.process_settings import STATUS_PREFIX, Ending, discard_output, ended_by_signals

_POLL_S: Final = 0.1
_INTERRUPT_S: Final = 15.0
"""How long shards may take to close, seconds. Then they are killed."""
_DRAIN_S: Final = 2.0
"""How long the output of a shard is read after its end, seconds: what it has started may hold the pipe open."""
_BY_SIGNAL: Final = 128
"""Added to the number of the signal for the status of a shard that a signal ended, as shells do."""


class FleetProcesses:
    """The processes of a fleet. When one ends, all end: restarts are left to launch, systemd or Kubernetes."""

    def __init__(self, shards: Sequence[FleetShard]) -> None:
        """Start nothing yet.

        Args:
            shards: All shards of the fleet.
        """
        self._shards = shards
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []
        self._robots: dict[int, int] = {}
        # No other program prints lines with this beginning.
        self._token = f"@{secrets.token_hex(8)} "
        self._is_mute = False
        self._lock = threading.Lock()

    def run(self) -> int:
        """Run the fleet until SIGINT or SIGTERM, or until a shard ends. Return the exit status.

        Raises:
            BridgeError: A process cannot be started.
        """
        status = 0
        with ended_by_signals() as ending:
            # The loop looks: a handler must not wait for a lock.
            ending.stop = lambda: None
            try:
                self._start()
                status = self._wait(ending)
            finally:
                self._end()
        return status

    def _start(self) -> None:
        for shard in self._shards:
            try:
                self._processes[shard.number] = subprocess.Popen(  # noqa: S603 - the package's own command
                    [*OWN_COMMAND, *shard.arguments()],
                    env={**os.environ, STATUS_PREFIX: self._token},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    # The Ctrl-C of a terminal reaches this process only.
                    start_new_session=True,
                    preexec_fn=end_with_parent(signal.SIGTERM),  # noqa: PLW1509 - no thread runs yet
                )
            except OSError as error:
                raise BridgeError(f"shard {shard.number} cannot be started: {error.strerror}") from error
        # After all forks: between fork and exec a lock of another thread would never be released.
        for number in self._processes:
            reader = threading.Thread(target=self._read, args=(number,), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _wait(self, ending: Ending) -> int:
        """Wait until the fleet is to end. Return the status of the shard that ended first, else 0."""
        running = {shard.number: shard for shard in self._shards}
        while running and not self._is_mute:
            time.sleep(_POLL_S)
            if ending.asked:
                self._say("ending")
                break
            for number, shard in list(running.items()):
                status = self._processes[number].poll()
                if status is None:
                    continue
                del running[number]
                if status == 0 and shard.parameters.get("duration"):
                    # The others end by themselves, too.
                    self._say(f"shard {number} has finished")
                    continue
                how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                self._say(f"shard {number} {how}" + ("; ending the others" if running else ""))
                return status if status >= 0 else _BY_SIGNAL - status
        return 0

    def _end(self) -> None:
        """End all shards, and what they started."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _INTERRUPT_S
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in self._processes.values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        deadline = time.monotonic() + _DRAIN_S
        for reader in self._readers:
            reader.join(max(0.0, deadline - time.monotonic()))

    def _read(self, number: int) -> None:
        """Show the lines of a shard, until it closes its output."""
        stream = self._processes[number].stdout
        assert stream is not None
        token = self._token.encode()
        for line in stream:
            if not line.startswith(token):
                self._write(b"[%d] %b\n" % (number, line.rstrip(b"\r\n")))
                continue
            status = json.loads(line.removeprefix(token))
            if status["state"] == "ready":
                self._on_ready(number, status["robots"])

    def _on_ready(self, number: int, robots: int) -> None:
        with self._lock:
            self._robots[number] = robots
            found = list(self._robots.values())
        count = len(self._shards)
        if len(found) < count:
            return
        self._say(f"{count} shard{_s(count)} ready, {sum(found)} robot{_s(sum(found))}")
        if any(found) and (idle := found.count(0)):
            self._say(f"warning: {idle} of {count} shards without a robot: {count - idle} are enough")

    def _say(self, text: str) -> None:
        self._write(f"fleet: {text}\n".encode())

    def _write(self, line: bytes) -> None:
        """Print a line. When its reader goes away (`| head`), the fleet ends."""
        with self._lock:
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
            except OSError:
                self._is_mute = True
                discard_output()


def _s(count: int) -> str:
    return "" if count == 1 else "s"
