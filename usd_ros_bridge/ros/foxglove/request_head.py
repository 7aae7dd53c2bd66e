"""Head of a WebSocket request: read as strictly as possible, so that no other reader finds another Host or Origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

END: Final = b"\r\n\r\n"
MAX_BYTES: Final = 2**14

_REQUEST = re.compile(rb"GET /[!-~]* HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*?)[ \t]*")
_BARE_LINE_FEED = re.compile(rb"(?:^|[^\r])\n")
_ONCE: Final = frozenset({"host", "origin", "upgrade"})
_OF_BODIES: Final = ("content-length", "transfer-encoding")


class HeadError(Exception):
    """A head that is refused.

    Attributes:
        status: Status of the answer.
        reason: Text of the answer.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        """Args: status, reason: See above."""
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a request says about itself.

    Attributes:
        host: Its Host header.
        origin: Its Origin header, None for none.
    """

    host: str
    origin: str | None


def head_size(data: bytearray, known: int) -> int:
    """Return the size of the head that data begins with, bytes; 0 while it is not complete.

    Args:
        data: All that has arrived.
        known: Bytes of it that were searched before.

    Raises:
        HeadError: It is too large, a line has another end, or something follows: a client has to wait for the answer.
    """
    if _BARE_LINE_FEED.search(data, max(0, known - 1)):
        raise HeadError(HTTPStatus.BAD_REQUEST, "a line of the request ends without a carriage return")
    found = data.find(END, max(0, known - len(END)))
    size = found + len(END) if found >= 0 else 0
    if (size or len(data)) > MAX_BYTES:
        raise HeadError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request has {MAX_BYTES} bytes at most"
        )
    if size and size < len(data):
        raise HeadError(HTTPStatus.BAD_REQUEST, "the request has a body")
    return size


def read_head(data: bytes) -> RequestHead:
    """Return what a complete head says.

    Raises:
        HeadError: It is not the head of a WebSocket request, or readers could understand it in several ways.
    """
    request, *lines = data.removesuffix(END).split(b"\r\n")
    if not _REQUEST.fullmatch(request):
        raise HeadError(HTTPStatus.BAD_REQUEST, "the request is not GET /... HTTP/1.1")
    fields: dict[str, str] = {}
    for line in lines:
        # Neither folded lines, nor a space before the colon, nor characters beyond ASCII.
        field = _FIELD.fullmatch(line)
        name = field[1].decode().lower() if field else ""
        if field is None or (name in _ONCE and name in fields) or name in _OF_BODIES:
            raise HeadError(HTTPStatus.BAD_REQUEST, "a header of the request is not possible")
        fields[name] = field[2].decode()
    if "host" not in fields:
        raise HeadError(HTTPStatus.BAD_REQUEST, "the request has no Host")
    if fields.get("upgrade", "").lower() != "websocket":
        raise HeadError(HTTPStatus.UPGRADE_REQUIRED, "this is a WebSocket server for the Foxglove app")
    return RequestHead(fields["host"], fields.get("origin"))


def answer(status: HTTPStatus, reason: str) -> bytes:
    """Return an answer that refuses a request. The connection ends behind it."""
    body = f"{reason}\n".encode()
    upgrade = "Upgrade: websocket\r\n" if status == HTTPStatus.UPGRADE_REQUIRED else ""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{upgrade}Connection: close\r\n"
        "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
