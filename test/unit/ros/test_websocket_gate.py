"""What passes the gate of the server for Foxglove: all bytes, ends and resets; no more than fits, and nothing stays."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.ros.foxglove.websocket_gate import WebSocketGate
from usd_ros_bridge.web_requests import RequestRule

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n"
RESET = struct.pack("ii", 1, 0)
WAIT_S = 20.0


class Passage:
    """A gate, and the server behind it as a socket."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.inner = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.inner.settimeout(WAIT_S)
        self.reports: list[tuple[str, str]] = []
        self.gate = WebSocketGate(RequestRule("127.0.0.1"), report=lambda *row: self.reports.append(row))
        stack.callback(self.gate.close)
        self.port = self.gate.listen("127.0.0.1", 0)
        self.gate.start(self.inner.getsockname()[:2])

    def connect(self, *, buffer: int = 0) -> tuple[socket.socket, socket.socket]:
        """Return the two ends of a connection: the client's and the server's."""
        client = self._stack.enter_context(socket.socket())
        client.settimeout(WAIT_S)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect(("127.0.0.1", self.port))
        client.sendall(HEAD)
        server = self._stack.enter_context(self.inner.accept()[0])
        server.settimeout(WAIT_S)
        assert server.recv(len(HEAD), socket.MSG_WAITALL) == HEAD
        return client, server


@contextmanager
def opened() -> Iterator[Passage]:
    with ExitStack() as stack:
        yield Passage(stack)


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the end."""
    parts = []
    while part := connection.recv(2**20):
        parts.append(part)
    return b"".join(parts)


def test_bytes_pass_both_ways_and_so_does_the_end_of_one() -> None:
    there, back = (random.Random(seed).randbytes(8_000_000) for seed in (1, 2))
    with opened() as passage:
        client, server = passage.connect()
        got: list[bytes] = []
        reading = threading.Thread(target=lambda: got.append(received(server)))
        reading.start()
        client.sendall(there)
        client.shutdown(socket.SHUT_WR)
        reading.join(WAIT_S)
        assert got == [there]
        # This direction is open still.
        sending = threading.Thread(target=lambda: (server.sendall(back), server.close()))
        sending.start()
        assert received(client) == back
        sending.join(WAIT_S)
        assert passage.reports == []


def test_what_a_client_does_not_read_waits_at_the_sender() -> None:
    block = random.Random(3).randbytes(2**16)
    with opened() as passage:
        client, server = passage.connect(buffer=2**16)
        server.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < 2**26:
                sent += server.send(block[sent % len(block) :])
        # In the buffers of the kernel; the gate itself keeps less than one MiB.
        assert sent < 2**24
        server.close()
        data = received(client)
        assert len(data) == sent
        assert data == (block * (sent // len(block) + 1))[:sent]


@pytest.mark.parametrize("whose", ["client", "server"])
def test_a_reset_is_passed_on(whose: str) -> None:
    with opened() as passage:
        client, server = passage.connect()
        ended, other = (client, server) if whose == "client" else (server, client)
        ended.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        ended.close()
        with pytest.raises(ConnectionResetError):
            other.recv(1)


def open_files() -> int:
    files = Path("/proc/self/fd")
    return len(list(files.iterdir())) if files.exists() else 0


def test_a_gate_that_is_closed_leaves_nothing() -> None:
    before = threading.active_count(), open_files()
    with opened() as passage:
        waiting = [passage.connect(buffer=4096) for _ in range(5)]
        for _, server in waiting:
            server.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    server.send(bytes(2**20))
        for start in (b"", b"GET", HEAD.replace(b"localhost", b"evil.example")):
            passage.connect()[0].sendall(start)
        with socket.create_connection(("127.0.0.1", passage.port)) as half:
            half.sendall(b"GET / HT")
            began = time.monotonic()
            passage.gate.close()
            # Half a second, and what a busy machine adds.
            assert time.monotonic() - began < 3.0
        passage.gate.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", passage.port))
        again = WebSocketGate(RequestRule("127.0.0.1"), report=print)
        assert again.listen("127.0.0.1", passage.port) == passage.port
        with pytest.raises(OptionError, match="in use"):
            WebSocketGate(RequestRule("127.0.0.1"), report=print).listen("127.0.0.1", passage.port)
        again.close()
    assert (threading.active_count(), open_files()) == before


def test_a_server_that_is_gone_ends_the_connection() -> None:
    with opened() as passage:
        passage.inner.close()
        with socket.create_connection(("127.0.0.1", passage.port), WAIT_S) as client:
            client.sendall(HEAD)
            assert client.recv(1) == b""
        assert passage.reports == []
