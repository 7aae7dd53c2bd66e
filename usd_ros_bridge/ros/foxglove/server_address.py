"""Address of the server for Foxglove: checked before anything else is opened, and bound."""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.options import OPTIONS, BridgeOptions
from usd_ros_bridge.requirements import FOXGLOVE, is_installed

_OF_SERVER = ("foxglove_host", "foxglove_control", "foxglove_origins")


def check_server(options: BridgeOptions, *, given: Collection[str] = ()) -> None:
    """Check that the server for Foxglove can be opened, if there is to be one.

    Args:
        options: Options of the bridge.
        given: Names of those that the command line gave.

    Raises:
        BridgeError: foxglove-sdk is not installed.
        OptionError: The server cannot have its address, or options of it are given without it.
    """
    if options.foxglove < 0:
        without = [OPTIONS[name].flag for name in _OF_SERVER if name in given]
        if without:
            raise OptionError(f"{' and '.join(without)} without --foxglove: there is no server for Foxglove")
        return
    if not is_installed("foxglove"):
        raise BridgeError(FOXGLOVE.fault(ModuleNotFoundError("No module named 'foxglove'", name="foxglove")))
    bound_socket(options.foxglove_host, options.foxglove).close()


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket that has an address. The caller closes it.

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
    bound = socket.socket(family, kind, protocol)
    try:
        # As servers do: a port that a server has just left is free.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OptionError(address_fault(host, port, error)) from None
    return bound


def address_fault(host: str, port: int, error: OSError) -> str:
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
