"""WebSocket gate: the public port of the server for Foxglove. It checks the head of each request, then passes bytes on.

foxglove-sdk takes connections of every web page. Its server is behind the gate. An event loop in a thread of its own
does all of this: a tick waits for none of it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.foxglove.request_head import HeadError, answer, head_size, read_head
from usd_ros_bridge.ros.foxglove.server_address import address_fault, bound_socket
from usd_ros_bridge.web_requests import RequestRule, parse_origin

HEAD_S: Final = 5.0
"""Time for the head of a request, seconds."""
MAX_HEADS: Final = 64
"""Heads that are read at a time. The oldest one is dropped for another: an honest one takes milliseconds."""
MAX_CONNECTIONS: Final = 128
"""Connections at a time, heads that are read included."""

_WAITING_BYTES = 2**16
"""Bytes that wait for a client before no more are read for it: foxglove-sdk drops its oldest messages then."""
_RECEIVED_BYTES = 2**18
"""Bytes that the kernel keeps between foxglove-sdk and the gate, about; images that wait there are old."""
_LINGER_S = 2.0
"""Time for a client to read what is left, seconds."""
_LAST_S, _LOOK_S, _JOIN_S = 0.1, 0.01, 0.5
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() reset a connection."""


class WebSocketGate:
    """The public port. `listen` takes it, `start` serves it, `close` ends all connections."""

    def __init__(self, rule: RequestRule, *, report: Report) -> None:
        """Store the arguments.

        Args:
            rule: Which requests are answered.
            report: For requests that are refused, in the gate's thread.
        """
        self.rule = rule
        self.report = report
        self.inner = ("", 0)
        self.transports: set[asyncio.Transport] = set()
        self.heads: dict[_HeadReader, None] = {}
        self._listener: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._thread: threading.Thread | None = None

    def listen(self, host: str, port: int) -> int:
        """Take the address. Return the port. Clients wait until `start`.

        Raises:
            OptionError: The port is in use, or the address is none of this machine's.
        """
        listener = bound_socket(host, port)
        try:
            listener.listen(MAX_HEADS)
        except OSError as error:
            listener.close()
            raise OptionError(address_fault(host, port, error)) from None
        self._listener = listener
        return int(listener.getsockname()[1])

    def start(self, inner: tuple[str, int]) -> None:
        """Serve clients.

        Args:
            inner: Address and port of foxglove-sdk's server.
        """
        self.inner = inner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="usd_ros_bridge-foxglove-gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections, and release the port. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            with suppress(RuntimeError):
                # The loop has ended if it failed.
                self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join(_JOIN_S)
        if self._listener is not None:
            self._listener.close()

    # --- In the thread of the gate -----------------------------------------------------------------------------

    def _run(self) -> None:
        loop = cast(asyncio.AbstractEventLoop, self._loop)
        loop.set_exception_handler(self._report_fault)
        try:
            loop.run_until_complete(self._serve(loop))
        finally:
            loop.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        listener = cast(socket.socket, self._listener)
        server = await loop.create_server(partial(_HeadReader, self, loop), sock=listener, backlog=MAX_HEADS)
        await self._stopped.wait()
        # asyncio forgets to close a client that it has just accepted when the server is closed: let it come in before.
        loop.remove_reader(listener)
        await asyncio.sleep(0)
        server.close()
        # What foxglove-sdk told clients last is still under way.
        for _ in range(round(_LAST_S / _LOOK_S)):
            if not self.transports:
                break
            await asyncio.sleep(_LOOK_S)
        while self.transports or len(asyncio.all_tasks(loop)) > 1:
            for transport in self.transports:
                transport.abort()
            await asyncio.sleep(0)

    def _report_fault(self, _: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.report(
            "foxglove.gate",
            f"Foxglove: a connection failed: {describe(error) if error else context['message']}",
        )


class _HeadReader(asyncio.Protocol):
    """A client before its request is complete: answered if it is refused, else connected to foxglove-sdk's server."""

    def __init__(self, gate: WebSocketGate, loop: asyncio.AbstractEventLoop) -> None:
        self._gate = gate
        self._loop = loop
        self._data = bytearray()
        self._is_done = False
        self._timer: asyncio.TimerHandle | None = None
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        gate = self._gate
        gate.transports.add(self._transport)
        gate.heads[self] = None
        self._timer = self._loop.call_later(
            HEAD_S, self._refuse, HTTPStatus.REQUEST_TIMEOUT, "the request is not complete"
        )
        if len(gate.heads) > MAX_HEADS:
            next(iter(gate.heads)).drop()
        if len(gate.transports) > MAX_CONNECTIONS * 2:
            self.drop()

    def data_received(self, data: bytes) -> None:
        if self._is_done:
            return
        known = len(self._data)
        self._data += data
        try:
            if not head_size(self._data, known):
                return
            head = read_head(bytes(self._data))
        except HeadError as error:
            self._refuse(error.status, error.reason)
            return
        rule = self._gate.rule
        if not rule.accepts_host(head.host):
            self._report_host(head.host)
        elif not rule.accepts_origin(head.origin, head.host):
            self._report_origin(str(head.origin))
        else:
            self._is_done = True
            # Before the answer, a client has nothing to say.
            self._transport.pause_reading()
            self._joining = self._loop.create_task(self._join())

    def drop(self) -> None:
        """End the connection without an answer."""
        self._gate.heads.pop(self, None)
        self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._leave()
        self._gate.transports.discard(self._transport)
        if self._joining is not None:
            self._joining.cancel()

    def _leave(self) -> None:
        self._gate.heads.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._leave()
        # It may still send: what is not read would reset the connection, and the client would not see the answer.
        self._gate.heads[self] = None
        self._timer = self._loop.call_later(_LINGER_S, self._transport.abort)
        self._is_done = True
        self._transport.write(answer(status, reason))
        self._transport.write_eof()

    def _report_host(self, host: str) -> None:
        self._refuse(HTTPStatus.FORBIDDEN, "this server has another name")
        self._gate.report(
            "foxglove.host",
            f"Foxglove: a connection to the name {quoted(host)} was refused, which another web site may have given "
            "this machine: use its address, or listen at that name (--foxglove-host, foxglove_host:=)",
        )

    def _report_origin(self, origin: str) -> None:
        self._refuse(HTTPStatus.FORBIDDEN, "pages of this origin are not allowed")
        try:
            parse_origin(origin)
            remedy = f"if you trust it, allow it with --foxglove-origin {origin} (foxglove_origins)"
        except ValueError:
            remedy = "it cannot be allowed"
        self._gate.report(
            "foxglove.origin", f"Foxglove: a web page of {quoted(origin)} was refused: {remedy}"
        )

    async def _join(self) -> None:
        inner = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
            await self._loop.sock_connect(inner, self._gate.inner)
            transport, side = await self._loop.create_connection(partial(_Side, self._gate), sock=inner)
        except BaseException as error:
            inner.close()
            self._transport.abort()
            if isinstance(error, OSError):
                # foxglove-sdk's server is about to end.
                return
            raise
        if self._transport.is_closing():
            transport.abort()
            return
        self._leave()
        client = _Side(self._gate)
        client.connection_made(self._transport)
        client.peer, side.peer = side, client
        self._transport.set_protocol(client)
        transport.write(bytes(self._data))
        self._transport.resume_reading()


class _Side(asyncio.Protocol):
    """One end of a connection. It passes data to the other end, as fast as that takes it."""

    def __init__(self, gate: WebSocketGate) -> None:
        self._gate = gate
        self.has_ended = False
        self.peer: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_WAITING_BYTES)
        self._gate.transports.add(self.transport)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def eof_received(self) -> bool:
        self.has_ended = True
        peer = self.peer
        if peer is None or peer.has_ended:
            return False
        peer.transport.write_eof()
        # The other direction stays open, for a while.
        asyncio.get_running_loop().call_later(_LINGER_S, peer.transport.abort)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._gate.transports.discard(self.transport)
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.peer = None
            peer.end(is_reset=error is not None)

    def end(self, *, is_reset: bool) -> None:
        """End the connection: its other end is gone."""
        if is_reset:
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
            return
        self.transport.close()
        asyncio.get_running_loop().call_later(_LINGER_S, self.transport.abort)
