"""Ports of the loopback for servers that a test starts later, or more than once."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""First and last port that the system gives to programs that ask for any."""
DOMAIN_PORTS = range(7400, 33000)
"""Of the ROS domains that tests reserve."""
_FIRST = 10081
"""Browsers refuse some of those below."""
_locks: list[int] = []


def free_port() -> int:
    """Return a port that no program uses, for TCP or UDP. Until this process ends, no other test gets it.

    It is none of those that the system gives to programs that ask for any, if there are others: another program could
    have it before the server that it is for.
    """
    first, last = map(int, EPHEMERAL.read_text(encoding="ascii").split())
    ports = [port for port in range(_FIRST, 65536) if port not in DOMAIN_PORTS]
    random.SystemRandom().shuffle(ports)
    # Where the system gives all of them, any has to do.
    ports.sort(key=lambda port: first <= port <= last)
    folder = Path(tempfile.gettempdir()) / f"usd_ros_bridge_test_ports_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in ports:
        lock = os.open(folder / f"{port}.lock", os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(type=kind) as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _locks.append(lock)
        return port
    raise RuntimeError("no port of the loopback is free")
