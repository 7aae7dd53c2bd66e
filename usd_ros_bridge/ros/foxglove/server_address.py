"""Address of a server: checked before anything else is opened."""

from __future__ import annotations

import errno
import socket

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.requirements import FOXGLOVE, is_installed


def check_server(options: BridgeOptions) -> None:
    """Check that the server for Foxglove can be opened, if there is to be one.

    Raises:
        BridgeError: foxglove-sdk is not installed.
        OptionError: The server cannot have its address.
    """
    if options.foxglove < 0:
        return
    if not is_installed("foxglove"):
        raise BridgeError(FOXGLOVE.fault(ModuleNotFoundError("No module named 'foxglove'", name="foxglove")))
    check_address(options.foxglove_host, options.foxglove)


def check_address(host: str, port: int) -> None:
    """Check that a server can have an address.

    Args:
        host: Address of this machine.
        port: Port, 0 for any.

    Raises:
        OptionError: The port is in use, or the address is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise OptionError(
            f"foxglove_host {quoted(host)} is no address: use 127.0.0.1, or an address of this machine"
        ) from None
    with socket.socket(family, kind, protocol) as probe:
        # As servers do: a port that a server has just left is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise OptionError(_fault(host, port, error)) from None


def _fault(host: str, port: int, error: OSError) -> str:
    """Return one line about an address that a server cannot have, with the remedy."""
    reason = (error.strerror or str(error)).lower()
    if error.errno == errno.EADDRINUSE:
        return (
            f"the port {port} for Foxglove is in use: end the program that has it, or choose another one "
            f"(--foxglove {port + 1}, foxglove:={port + 1})"
        )
    if error.errno == errno.EACCES:
        return (
            f"the port {port} for Foxglove is not permitted: choose one above 1023 (--foxglove, foxglove:=)"
        )
    return f"foxglove_host {quoted(host)} cannot be used ({reason}): use 127.0.0.1, or an address of this machine"
