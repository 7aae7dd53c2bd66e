"""Serve mesh files over HTTP, in a process of its own: whatever clients do, no tick of the bridge waits for it.

The process serves the mesh files of a store, by name, and nothing else. It ends with the process that started it.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.mesh_store import MeshStore, content_type
from usd_ros_bridge.process_settings import open_standard_streams

_IDLE_S: Final = 10.0
"""How long a connection may be silent."""
_MAX_CONNECTIONS: Final = 64
_END_S: Final = 1.0
_START_S: Final = 30.0
_FOREVER_S: Final = 365 * 24 * 3600
"""The name of a file is a hash of its content: a client may keep it."""


class MeshServer:
    """The server, as the process that started it sees it."""

    def __init__(self, store: MeshStore, *, host: str, port: int, report: Callable[[str], None]) -> None:
        """Store the arguments; `open` starts the process.

        Args:
            store: The files.
            host: Address to listen on.
            port: Port, 0 for a free one.
            report: Called, in a thread, with the reason if the server ends by itself.
        """
        places = (store.directory, store.installed)
        self._places = [None if each is None else str(each.absolute()) for each in places]
        self._host = host
        self._port = port
        self._report = report
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def uri(self) -> str:
        """Return the URI that all names follow, without a slash at the end."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def process_id(self) -> int | None:
        """Return the id of the process, None while it does not run."""
        return None if self._process is None else self._process.pid

    def open(self) -> None:
        """Start to serve.

        Raises:
            OptionError: The port is in use, or the address is not of this machine.
        """
        path = [str(each) for each in sys.path]
        code = f"import sys; sys.path[:] = {path!r}; from usd_ros_bridge.export.mesh_server import serve; serve()"
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and a program of our own
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Signals of the terminal are for the process that started this one.
            start_new_session=True,
        )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        # The pipe stays open: its end tells the server that this process is gone.
        process.stdin.write(json.dumps([*self._places, self._host, self._port]).encode() + b"\n")
        process.stdin.flush()
        answer = _first_line(process)
        if "port" not in answer:
            self.close()
            raise OptionError(answer.get("error", "the server of mesh files did not start"))
        self._port = int(answer["port"])
        threading.Thread(
            target=self._wait, args=(process,), name="usd_ros_bridge-mesh-server", daemon=True
        ).start()

    def close(self) -> None:
        """End the process. Idempotent, from any thread."""
        self._is_closed = True
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if not self._is_closed:
            self._report(
                f"the server of mesh files at {self.uri} ended with status {status}: viewers cannot load meshes; "
                "start the bridge again"
            )


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return what the process says first, {} if it ends or takes too long."""
    assert process.stdout is not None
    timer = threading.Timer(_START_S, process.kill)
    timer.start()
    try:
        answer: dict[str, Any] = json.loads(process.stdout.readline() or b"{}")
    finally:
        timer.cancel()
    return answer


# --- In the server's process -----------------------------------------------------------------------------------


def serve() -> None:
    """Serve until standard input ends. Its first line has the directories, the address and the port."""
    # A host's standard error may be closed.
    open_standard_streams()
    directory, installed, host, port = json.loads(sys.stdin.buffer.readline())
    store = MeshStore(Path(directory), Path(installed) if installed else None)
    with suppress(OSError):
        os.nice(10)
    try:
        server = _Server(host, port, store)
    except OSError as error:
        _say(error=_fault(error, host, port))
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _say(port=server.server_address[1])
    server.serve_forever()


def _say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _fault(error: OSError, host: str, port: int) -> str:
    remedies = {
        errno.EADDRINUSE: f"port {port} of {host} is in use: take another one, or mesh_uris:=http for a free one",
        errno.EADDRNOTAVAIL: f"{host} is no address of this machine: take one that `hostname -I` lists",
        errno.EACCES: f"port {port} is only for root: take one above 1023",
    }
    reason = remedies.get(error.errno or 0, f"{host}:{port}: {error.strerror or error}")
    return f"mesh files cannot be served: {reason}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, store: MeshStore) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.store = store
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # The base class asks for the name of the host, which may take a resolver seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        # Further clients wait in the queue of the socket.
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients may go away in the middle of a file."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "usd_ros_bridge"
    sys_version = ""
    timeout = _IDLE_S
    server: _Server

    def do_GET(self) -> None:
        """Send a file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._answer(with_body=False)

    def parse_request(self) -> bool:
        """Refuse other methods."""
        if not super().parse_request():
            return False
        if self.command in ("GET", "HEAD"):
            return True
        # There may be a body, which nobody reads.
        self.close_connection = True
        self._send_empty(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET, HEAD")
        return False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""

    def _answer(self, *, with_body: bool) -> None:
        name = self.path[1:]
        handle = self.server.store.open(name) if self.path.startswith("/") else None
        if handle is None:
            self._send_empty(HTTPStatus.NOT_FOUND)
            return
        with os.fdopen(handle, "rb") as file:
            tag = f'"{name}"'
            if self.headers.get("If-None-Match") == tag:
                self._send_empty(HTTPStatus.NOT_MODIFIED, tag=tag)
                return
            self.send_response(HTTPStatus.OK)
            self._send_common_headers(os.fstat(handle).st_size, tag=tag)
            self.send_header("Content-Type", content_type(name))
            self.end_headers()
            if with_body:
                self.wfile.flush()
                self.connection.sendfile(file)

    def _send_empty(self, status: HTTPStatus, *, tag: str = "", allow: str = "") -> None:
        self.send_response(status)
        self._send_common_headers(0, tag=tag)
        if allow:
            self.send_header("Allow", allow)
        self.end_headers()

    def _send_common_headers(self, length: int, *, tag: str) -> None:
        self.send_header("Content-Length", str(length))
        # Viewers in a browser are of another origin. The files are no secret of this one's.
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Cross-Origin-Resource-Policy", "cross-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        if tag:
            self.send_header("ETag", tag)
            self.send_header("Cache-Control", f"public, max-age={_FOREVER_S}, immutable")
