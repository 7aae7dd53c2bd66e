"""One graph of processes on a loopback of its own: how long discovery takes, and what it sends.

`python -m benchmarks.peers.discovery simple|server PARTICIPANTS ENDPOINTS TIMEOUT QUIET`: so many processes with so many
publishers each, and an observer, which has none. QUIET is for how many seconds nothing else is done while the traffic
of a graph at rest is counted. It is started in a network namespace of its own where the system allows it, so that the
loopback carries nothing else.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError
from benchmarks.peers import tell
from benchmarks.processes import Child, discovery_server, peer

PROFILE = ROOT / "config" / "fastdds_loopback_udp.xml"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_STEADY_S = 0.5
"""Discovery is over when the loopback carries no more than a graph at rest for this long."""
_REST_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the loopback has carried.

    Attributes:
        bytes: With the headers of IP and UDP.
        packets: Datagrams.
    """

    bytes: int
    packets: int

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.bytes - other.bytes, self.packets - other.packets)


def main() -> None:
    """Starts the processes one after another, the last when all others know each other, and tells what it cost."""
    mode, participants, endpoints = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    timeout, quiet = float(sys.argv[4]), float(sys.argv[5])
    _bring_up_loopback()
    with ExitStack() as stack:
        environment = _environment()
        if mode == "server":
            address = stack.enter_context(discovery_server())
            environment["ROS_DISCOVERY_SERVER"] = address
        watcher = {**environment, "ROS_SUPER_CLIENT": "TRUE"} if mode == "server" else environment
        members = [_start(stack, number, environment) for number in range(participants)]
        observers = [_start(stack, participants + number, watcher) for number in range(2)]
        tell("measured", **_measure(members, observers, endpoints, timeout=timeout, quiet=quiet))


def _environment() -> dict[str, str]:
    """Returns variables for UDP on the loopback alone: as between machines, no discovery goes by shared memory."""
    variable = "FASTDDS_DEFAULT_PROFILES_FILE"
    return {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT", variable: str(PROFILE)}


def _start(stack: ExitStack, number: int, environment: Mapping[str, str]) -> Child:
    child = stack.enter_context(peer("participant", str(number), environment=environment))
    child.wait_for("imported", 120.0)
    return child


def _measure(
    members: list[Child], observers: list[Child], endpoints: int, *, timeout: float, quiet: float
) -> dict[str, Any]:
    """Returns times in seconds, CPU time in seconds, memory in MB, bytes and packets."""
    first, late = observers
    *others, last = members
    processes = [*members, first]
    before = {child: child.cpu_seconds() for child in [*processes, late]}
    start = _traffic()
    _join(first, 0, timeout)
    for child in others:
        child.say(f"join {endpoints}")
    for child in others:
        child.wait_for("joined", timeout)
    first.say(f"watch {endpoints * len(others)}")
    first.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    first.say(f"watch {endpoints * len(members)}")
    joined = _join(last, endpoints, timeout)
    seen = first.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    discovered = _traffic() - start
    cpu = {child: child.cpu_seconds() - before[child] for child in processes}
    rest = _at_rest(quiet)
    memory = [_report(child, timeout)["memory_mb"] for child in members]
    begin = _traffic()
    came = _join(late, 0, timeout)
    late.say(f"watch {endpoints * len(members)}")
    late_seen = late.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    return {
        "join": (seen["seen_ns"] - joined["begin_ns"]) / 1e9,
        "create": (joined["end_ns"] - joined["begin_ns"]) / 1e9,
        "late": (late_seen["seen_ns"] - came["begin_ns"]) / 1e9,
        "late_bytes": (_traffic() - begin).bytes,
        "late_cpu": late.cpu_seconds() - before[late],
        "late_memory_mb": _report(late, timeout)["memory_mb"],
        "bytes": discovered.bytes,
        "packets": discovered.packets,
        "rest_bytes": rest.bytes / quiet,
        "rest_packets": rest.packets / quiet,
        "cpu": sum(cpu[child] for child in members),
        "observer_cpu": cpu[first],
        "memory_mb": sum(memory) / len(memory),
    }


def _join(child: Child, endpoints: int, timeout: float) -> dict[str, Any]:
    child.say(f"join {endpoints}")
    return child.wait_for("joined", timeout)


def _report(child: Child, timeout: float) -> dict[str, Any]:
    child.say("report")
    return child.wait_for("report", timeout)


def _wait_until_quiet(timeout: float) -> None:
    """Waits until the loopback carries little.

    Raises:
        BenchmarkError: It still carries more after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    last = _traffic()
    while time.monotonic() < deadline:
        time.sleep(_STEADY_S)
        now = _traffic()
        if (now - last).bytes <= _REST_BYTES:
            return
        last = now
    raise BenchmarkError(f"discovery was not over after {timeout:g} s")


def _at_rest(seconds: float) -> Traffic:
    before = _traffic()
    time.sleep(seconds)
    return _traffic() - before


def _traffic() -> Traffic:
    """Returns the counters of the loopback of this network namespace."""
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            fields = numbers.split()
            return Traffic(int(fields[8]), int(fields[9]))
    raise BenchmarkError("/proc/net/dev has no loopback")


def _bring_up_loopback() -> None:
    """Brings the loopback up, which is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)
        if not flags & _IFF_UP:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    main()
