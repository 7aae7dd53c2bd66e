"""Push connection: how changed parameters reach the clients of foxglove-sdk's server.

`WebSocketServer.publish_parameter_values` of foxglove-sdk (up to 0.30.3) waits for a lock of the server while it holds
Python's global lock. A client that subscribes to parameters at that moment holds the first and waits for the second.
The process would stand still for ever. The server publishes what `on_set_parameters` returns without Python's lock. So
this module is a client of the server, on the same machine: it "sets" a parameter whose name is a secret, and the
server's listener returns what has changed.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

_PERIOD_S = 0.1
"""Changes that follow each other more closely are sent together, seconds."""
_TIMEOUT_S, _JOIN_S, _AGAIN_S = 2.0, 0.1, 1.0
_LARGEST = 2**16
_HEADERS = 2**14


class PushConnection:
    """A connection to the server, open while clients subscribe to parameters. Thread-safe.

    Attributes:
        token: Name of the parameter that it sets: the mark of its requests.
    """

    def __init__(self, *, failed: Callable[[str], object]) -> None:
        """Args: failed: Called with a reason if changes cannot be sent."""
        self.token = secrets.token_hex(16)
        self._address = ("", 0)
        self._failed = failed
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._wakeup = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def set_address(self, host: str, port: int) -> None:
        """Set the address of the server, before `start`."""
        self._address = (host, port)

    def start(self) -> None:
        """Connect, unless that is done, in a thread of its own."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="usd_ros_bridge-foxglove", daemon=True)
                self._thread.start()

    def notify(self, names: frozenset[str]) -> None:
        """Send these parameters to the clients that subscribe to them, soon."""
        with self._lock:
            if self._thread is None:
                return
            self._changed |= names
        self._wakeup.set()

    def take_changed(self) -> frozenset[str]:
        """Return the names of the parameters to send now, for the server's listener."""
        with self._lock:
            changed, self._changed = frozenset(self._changed), set()
        return changed

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._stopped.set()
        self._wakeup.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            is_connected = False
            try:
                with socket.create_connection(self._address, _TIMEOUT_S) as connection:
                    _shake_hands(connection)
                    is_connected = True
                    self._serve(connection)
            except (OSError, ValueError) as error:
                # The server ends connections that it finds slow, this one, too: it is made again then.
                if not is_connected and not self._stopped.is_set():
                    self._failed(str(error))
                self._stopped.wait(_AGAIN_S)
        with self._lock:
            self._thread = None

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            if self._changed:
                # The connection before this one ended with it.
                self._wakeup.set()
        while not self._stopped.is_set():
            asked = self._wakeup.wait(_PERIOD_S * 5)
            self._stopped.wait(_PERIOD_S if asked else 0.0)
            # What the server sends to every client is of no use here, but must be read.
            _discard(connection)
            if asked and not self._stopped.is_set():
                self._wakeup.clear()
                connection.settimeout(_TIMEOUT_S)
                connection.sendall(_text_frame(_request(self.token)))


def _request(token: str) -> bytes:
    return json.dumps({"op": "setParameters", "parameters": [{"name": token, "value": True}]}).encode()


def _shake_hands(connection: socket.socket) -> None:
    host, port = connection.getpeername()[:2]
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: foxglove.sdk.v1\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < _HEADERS:
        data = connection.recv(_HEADERS)
        if not data:
            break
        answer += data
    if not answer.startswith(b"HTTP/1.1 101"):
        raise ValueError("the server refuses its own connection")


def _discard(connection: socket.socket) -> None:
    """Read all that has arrived.

    Raises:
        ConnectionError: The server has ended the connection.
    """
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            if not connection.recv(_LARGEST):
                raise ConnectionError("the server has ended its own connection")


def _text_frame(text: bytes) -> bytes:
    """Return a WebSocket frame (RFC 6455) with a text of less than 64 KiB."""
    mask = os.urandom(4)
    length = (
        bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(text))
    )
    return b"\x81" + length + mask + bytes(each ^ mask[index % 4] for index, each in enumerate(text))
