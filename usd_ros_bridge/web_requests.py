"""Web requests: which pages a server answers, by their Host and Origin headers. One rule for the page and for Foxglove.

A browser sets both headers, and no page can change them. Other programs send what they like: the rule keeps pages of
other web sites out, and no program.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from usd_ros_bridge.errors import OptionError, quoted

_AUTHORITY = re.compile(
    r"(\[[0-9a-f:.]+\]|[a-z0-9_][a-z0-9._-]{0,252})(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE
)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]{0,63})://(.*)", re.ASCII | re.IGNORECASE)
_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65535


class _Authority(NamedTuple):
    """A host in its normal form, and its port; None if it is not written."""

    name: str
    port: int | None


class WebOrigin(NamedTuple):
    """Origin of a web page (RFC 6454), in its normal form. The host of pages from disk is "".

    Attributes:
        scheme: As `https`.
        name: Name or address of the host.
        port: Its port, None for that of other schemes than http and https.
    """

    scheme: str
    name: str
    port: int | None


def parse_origin(text: str) -> WebOrigin:
    """Return an origin from `scheme://host[:port]`, or from `file://`.

    Raises:
        ValueError: It is something else, such as `null`: pages in frames without an origin send that, anybody's.
    """
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    scheme = found[1].lower()
    if scheme == "file" and not found[2]:
        return WebOrigin(scheme, "", None)
    name, port = _parse_authority(found[2])
    return WebOrigin(scheme, name, _PORTS.get(scheme) if port is None else port)


def parse_origins(texts: Iterable[str]) -> tuple[str, ...]:
    """Return origins of an option.

    Raises:
        OptionError: A text is no origin.
    """
    origins = tuple(texts)
    for text in origins:
        try:
            parse_origin(text)
        except ValueError:
            raise OptionError(
                f"{quoted(text)} is no origin of a web page: write scheme://host or scheme://host:port, "
                "as https://lichtblick.example"
            ) from None
    return origins


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach a server with this address."""
    name = _normal(host)
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


class RequestRule:
    """Which requests a server answers."""

    def __init__(self, host: str, *, origins: Iterable[str] = (), any_port: bool = False) -> None:
        """Make the rule of a server.

        Args:
            host: Address that the server listens on.
            origins: Further pages that may send requests, as `parse_origins` takes them.
            any_port: Answer pages of the same host at other ports, too.
        """
        self._own = _own_names(host)
        self._origins = frozenset(map(parse_origin, origins))
        self._any_port = any_port

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header is a name of this server.

        A page can make a name of its own lead here (DNS rebinding), but no address, and no name of this machine.
        """
        try:
            name = _parse_authority(host).name
        except ValueError:
            return False
        if is_loopback(name):
            return True
        return self._own is not None and (name in self._own or _address(name) is not None)

    def accepts_origin(self, origin: str | None, host: str) -> bool:
        """Return whether a request is of no page, of a page of the same host, or of a page that is listed.

        Args:
            origin: The Origin header, None for none: then the request is of another program than a browser.
            host: The Host header, which is accepted.
        """
        if origin is None:
            return True
        try:
            page, server = parse_origin(origin), _parse_authority(host)
        except ValueError:
            return False
        if page in self._origins:
            return True
        if page.scheme not in _PORTS:
            return False
        # Browsers on this machine reach the same server by each of the loopback's names.
        same_host = page.name == server.name or (is_loopback(page.name) and is_loopback(server.name))
        same_port = page.port == (_PORTS[page.scheme] if server.port is None else server.port)
        return same_host and (self._any_port or same_port)


def _own_names(host: str) -> frozenset[str] | None:
    """Return the names of a server at an address; None: those of the loopback alone."""
    if is_loopback(host):
        return None
    machine = _normal(socket.gethostname())
    short = machine.partition(".")[0]
    return frozenset({_normal(host), machine, short, f"{short}.local"})


def _parse_authority(text: str) -> _Authority:
    found = _AUTHORITY.fullmatch(text)
    if found is None or int(found[2] or 0) > _MAX_PORT:
        raise ValueError(text)
    if found[1].startswith("["):
        IPv6Address(found[1].strip("[]"))
    return _Authority(_normal(found[1].strip("[]")), int(found[2]) if found[2] else None)


def _normal(name: str) -> str:
    """Return a name or an address as others that mean the same are written."""
    lower = name.lower().rstrip(".")
    address = _address(lower)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return lower if address is None else str(address)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
