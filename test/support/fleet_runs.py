"""Fleets that run beside a test: their shards by number, and what their robots publish."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rclpy.qos import qos_profile_system_default
from sensor_msgs.msg import JointState

from programs import Program
from usd_ros_bridge.testing.ros_observer import RosObserver

COMMAND = (sys.executable, "-m", "usd_ros_bridge", "fleet")
READY_S = 90.0
_SHARD = re.compile(r'shard:="?(\d+)/\d+')


class FleetRun(Program):
    """A fleet with its shards."""

    def __init__(self, asset: Path, *options: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__([*COMMAND, str(asset), *options], cwd=cwd, env=env)

    def wait_until_ready(self, shards: int) -> str:
        """Return the line that says that all shards are ready."""
        return self.wait_for(rf"fleet: {shards} shards? ready", READY_S)

    def processes(self) -> dict[int, int]:
        """Return the ids of the processes of shards, by number."""
        found = {}
        for process_id in children(self.pid):
            if shard := _SHARD.search(" ".join(command_of(process_id))):
                found[int(shard[1])] = process_id
        return found


def children(parent: int) -> list[int]:
    """Return the ids of the processes that a process has started, and that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, of, *_ = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if int(of) == parent and state != "Z":
                    found.append(int(entry.name))
    return found


def command_of(process_id: int) -> list[str]:
    """Return the command line of a process, [] if it has ended."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def is_running(process_id: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return (
            Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def kill(process_id: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process_id, number)


def wait_until(condition: Callable[[], Any], what: str, timeout: float = READY_S) -> Any:
    """Wait until something of other processes holds that tells nobody. Return it."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {timeout:g} s")
        # Neither the kernel's table of processes nor the ROS graph calls back.
        time.sleep(0.02)
    return value


class JointStateLog:
    """How many joint states some robots have published, by robot."""

    def __init__(self, observer: RosObserver, robots: Iterable[str]) -> None:
        self.observer = observer
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition()
        for robot in robots:
            self._subscribe(robot)

    def _subscribe(self, robot: str) -> None:
        def on_message(_message: JointState) -> None:
            with self._changed:
                self._counts[robot] += 1
                self._changed.notify_all()

        self.observer.node.create_subscription(
            JointState, f"/{robot}/joint_states", on_message, qos_profile_system_default
        )

    def wait_for_more(self, robots: Iterable[str], count: int = 5, timeout: float = READY_S) -> None:
        """Wait until each of some robots has published some messages from now on."""
        with self._changed:
            wanted = {robot: self._counts[robot] + count for robot in robots}
            arrived = self._changed.wait_for(
                lambda: all(self._counts[robot] >= number for robot, number in wanted.items()), timeout
            )
        if not arrived:
            silent = [robot for robot, number in wanted.items() if self._counts[robot] < number]
            pytest.fail(f"no joint states of {', '.join(silent)} within {timeout:g} s")
