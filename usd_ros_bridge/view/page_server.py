"""The page's web server: viser's, with its banners silenced, to this machine alone unless the user asks for more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.requirements import VISER
from usd_ros_bridge.web_requests import RequestRule

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
MAX_PORT = 65535
_serving = threading.Lock()


def page_url(host: str, port: int) -> str:
    """Return the URL of the page for a browser on this machine."""
    shown = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def check_address(host: str, port: int) -> None:
    """Check that the page can be served there.

    Raises:
        BridgeError: viser is not installed, or the port is in use.
        OptionError: This machine has no such address.
    """
    _viser()
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: what an earlier page left in TIME_WAIT is no reason to refuse.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        raise OptionError(f"--view-host {host}: {error.strerror}; give an address of this machine") from error
    except PermissionError as error:
        raise BridgeError(
            f"port {port} is not allowed to this user: give another one (--view-port)"
        ) from error
    except OSError as error:
        if error.errno is not None and error.strerror and "in use" in error.strerror:
            raise BridgeError(_in_use(port)) from error
        raise OptionError(f"--view-host {host}: {error.strerror}; give an address of this machine") from error


def open_server(host: str, port: int, *, label: str) -> Any:
    """Serve the page. Return viser's server.

    Browsers are served that were sent here by the page's own address: a web page of somebody else, open in the same
    browser, must not drive robots.

    Args:
        host: Address to listen at.
        port: TCP port; 0 for any that is free.
        label: Title of the panel.

    Raises:
        BridgeError: viser is not installed, or the port is in use.
    """
    viser = _viser()

    with _checked_requests(RequestRule(host)):
        server = viser.ViserServer(host=host, port=port, label=label, verbose=False)
    # A browser may ask for it, with or without the button.
    server.request_share_url = _share_nothing
    if port and server.get_port() != port:
        # viser takes the next one by itself.
        server.stop()
        raise BridgeError(_in_use(port))
    server.gui.configure_theme(control_width="medium", show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_right()
    return server


def _share_nothing(verbose: bool = True) -> None:
    """Take the place of viser's tunnel to a server of its authors: a page that drives robots is not published."""
    del verbose


def _in_use(port: int) -> str:
    nearby = port + 1 if port < MAX_PORT else DEFAULT_PORT
    return f"port {port} is in use: give the page another one, as --view-port {nearby}"


def _viser() -> Any:
    try:
        import viser
    except ImportError as error:
        raise BridgeError(VISER.fault(error)) from error
    return viser


Check = Callable[[Any, Any], Any]


@contextmanager
def _checked_requests(rule: RequestRule) -> Iterator[None]:
    """Let viser's server refuse requests of other web pages; it has no option for that."""
    websockets: Any = import_module("websockets.asyncio.server")
    usual = websockets.serve

    def serve(*arguments: Any, process_request: Check | None = None, **options: Any) -> Any:
        return usual(*arguments, process_request=partial(_check_request, rule, process_request), **options)

    with _serving:
        websockets.serve = serve
        try:
            yield
        finally:
            websockets.serve = usual


_FOREIGN_SOURCES: Final = {"websocket", "playbackPath"}
"""Parameters by which viser's page takes scenes, and programs, from a server of somebody else."""
_MAX_PARAMETERS: Final = 100
_FRAMES: Final = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}
"""No other page may show this one in a frame of its own, below buttons that drive."""


def _check_request(rule: RequestRule, serve: Check | None, connection: Any, request: Any) -> Any:
    try:
        refused = _is_foreign(rule, request)
    except ValueError:
        # Too many parameters.
        refused = True
    if refused:
        return connection.respond(HTTPStatus.FORBIDDEN, "this page is served to its own address alone\n")
    response = None if serve is None else serve(connection, request)
    if response is not None:
        for name, value in _FRAMES.items():
            response.headers[name] = value
    return response


def _is_foreign(rule: RequestRule, request: Any) -> bool:
    """Return whether a request is of a page of somebody else.

    Raises:
        ValueError: It has too many parameters.
    """
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if not (rule.accepts_host(host) and rule.accepts_origin(origin, host)):
        return True
    query = request.path.partition("?")[2]
    given = parse_qs(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    return not _FOREIGN_SOURCES.isdisjoint(given)
