"""One graph of processes on a loopback of its own: how long discovery takes, and what it sends.

`python -m benchmarks.peers.discovery simple|server|plain PARTICIPANTS ENDPOINTS TIMEOUT QUIET`: so many processes with
so many publishers each, and two observers, which have none. The graph at rest is counted for QUIET seconds.
It is started in a network namespace of its own where the system allows it, so that the loopback carries nothing else.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import struct
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError
from benchmarks.peers import tell
from benchmarks.processes import UDP_ON_LOOPBACK, Child, discovery_server, peer, proportional_mb
from usd_ros_bridge.ros.transport import loopback_profile_xml

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


@dataclass(frozen=True, slots=True)
class Graph:
    """Processes of a ROS graph, none of which has joined it yet.

    Attributes:
        members: Those with publishers.
        observers: One that is there from the beginning, and one that comes when all is there.
        servers: The discovery server, if there is one.
    """

    members: list[Child]
    observers: tuple[Child, Child]
    servers: tuple[Child, ...]


def main() -> None:
    """Starts the processes one after another, the last when all others know each other, and tells what it cost."""
    mode, participants, endpoints = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    timeout, quiet = float(sys.argv[4]), float(sys.argv[5])
    # The discovery server does not end with its parent: it is ended here, however this process ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _bring_up_loopback()
    with ExitStack() as stack:
        graph = _start(stack, mode, participants)
        measured = _measure(graph, endpoints, timeout=timeout, quiet=quiet)
    tell("measured", **measured)


def _start(stack: ExitStack, mode: str, participants: int) -> Graph:
    """Starts all processes, by UDP on the loopback alone: as between machines, nothing goes by shared memory."""
    environment = dict(UDP_ON_LOOPBACK)
    if mode != "plain":
        environment |= _graph_environment(stack)
    observing: dict[str, str] = {}
    servers: tuple[Child, ...] = ()
    if mode == "server":
        server = stack.enter_context(discovery_server())
        environment["ROS_DISCOVERY_SERVER"], servers = server.address, (server.process,)
        # A plain client learns only of what it talks to.
        observing = {"ROS_SUPER_CLIENT": "TRUE"}
    children = [
        stack.enter_context(
            peer("participant", str(number), environment=environment | (observing if number < 2 else {}))
        )
        for number in range(participants + 2)
    ]
    for child in children:
        child.wait_for("imported", 300.0)
    return Graph(children[2:], (children[0], children[1]), servers)


def _graph_environment(stack: ExitStack) -> dict[str, str]:
    """Returns variables with which a process sends the list of its endpoints as the bridge's own process does."""
    profile = Path(stack.enter_context(tempfile.TemporaryDirectory()), "profile.xml")
    profile.write_text(loopback_profile_xml(graph_thread=True), encoding="utf-8")
    return {"FASTDDS_DEFAULT_PROFILES_FILE": str(profile), "RMW_FASTRTPS_PUBLICATION_MODE": "AUTO"}


def _measure(graph: Graph, endpoints: int, *, timeout: float, quiet: float) -> dict[str, Any]:
    """Returns times in seconds, CPU time in seconds, memory in MB, bytes and packets."""
    *others, last = graph.members
    first, late = graph.observers
    counted = [*graph.members, first, *graph.servers]
    before = {child: child.cpu_seconds() for child in [*counted, late]}
    start = _traffic()
    # As bridges do: their nodes know each other long before the last publisher is there.
    for child in (first, *others):
        child.say(f"join {len(graph.members)}")
    for child in (first, *others):
        child.wait_for("joined", timeout)
    for child in others:
        child.say(f"make {endpoints}")
    for child in others:
        child.wait_for("made", timeout)
    first.say(f"watch {endpoints * len(others)}")
    first.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    first.say(f"watch {endpoints * len(graph.members)}")
    last.say(f"join {len(graph.members) + 1}")
    joined = last.wait_for("joined", timeout)
    last.say(f"make {endpoints}")
    made = last.wait_for("made", timeout)
    seen = first.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    discovered = _traffic() - start
    cpu = {child: child.cpu_seconds() - before[child] for child in counted}
    rest = _at_rest(quiet)
    memory = [_report(child, timeout)["memory_mb"] for child in graph.members]
    begin = _traffic()
    late.say(f"join {len(graph.members) + 2}")
    came = late.wait_for("joined", timeout)
    late.say(f"watch {endpoints * len(graph.members)}")
    late_seen = late.wait_for("sees_all", timeout)
    _wait_until_quiet(timeout)
    return {
        "meet": (joined["end_ns"] - joined["begin_ns"]) / 1e9,
        "make": (made["end_ns"] - made["begin_ns"]) / 1e9,
        "join": (seen["seen_ns"] - joined["begin_ns"]) / 1e9,
        "late": (late_seen["seen_ns"] - came["begin_ns"]) / 1e9,
        "late_bytes": (_traffic() - begin).bytes,
        "late_cpu": late.cpu_seconds() - before[late],
        "late_memory_mb": _report(late, timeout)["memory_mb"],
        "bytes": discovered.bytes,
        "packets": discovered.packets,
        "rest_bytes": rest.bytes / quiet,
        "rest_packets": rest.packets / quiet,
        "cpu": sum(cpu[child] for child in graph.members),
        "observer_cpu": cpu[first],
        "memory_mb": sum(memory) / len(memory),
        "server_cpu": sum(cpu[child] for child in graph.servers),
        "server_memory_mb": sum(proportional_mb(child.pid) for child in graph.servers),
    }


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
