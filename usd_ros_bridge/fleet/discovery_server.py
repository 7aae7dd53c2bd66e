"""The discovery server of Fast DDS: nodes announce themselves to it, not to every other node."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.fleet.node_locks import fleet_directory
from usd_ros_bridge.options import is_loopback

AUTO: Final = "auto"
PORT: Final = 11811
"""Default of Fast DDS."""

CLIENT_VARIABLE: Final = "ROS_DISCOVERY_SERVER"
"""Makes clients of a server of all nodes of a process."""

SUPER_CLIENT_VARIABLE: Final = "ROS_SUPER_CLIENT"
"""TRUE: a client discovers all nodes and topics, as tools need it."""

LEASE_S: Final = 10.0
"""How long clients believe in a server that was killed, seconds."""

_LOOPBACK = "127.0.0.1"
"""The one address of 127.0.0.0/8 that Fast DDS takes for an interface. Debian gives a machine's own name 127.0.1.1."""
_PROGRAM = "fast-discovery-server"
_MAX_PORT = 65535
_SERVER_COMMAND = "42"
"""Fast DDS 3.2 and later want this number first, as their `fastdds discovery` gives it."""
_HELP_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryServer:
    """A discovery server.

    Attributes:
        address: IPv4 address by which clients reach it.
        port: Its UDP port.
    """

    address: str
    port: int

    @property
    def location(self) -> str:
        """Return what ROS_DISCOVERY_SERVER is set to."""
        return f"{self.address}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        return is_loopback(self.address)

    def is_of_this_machine(self) -> bool:
        """Return whether the address is one of this machine's.

        Raises:
            OptionError: It is, and the port is in use.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((self.address, self.port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    return False
                if error.errno == errno.EADDRINUSE:
                    raise OptionError(
                        f"discovery_server {self.location}: the UDP port {self.port} is in use; choose another one, "
                        f"or join the server that is there: {CLIENT_VARIABLE}={self.location} and no discovery_server"
                    ) from error
                raise OptionError(f"discovery_server {self.location}: {error.strerror}") from error
        return True

    def profile_xml(self, *, prefix: bool = True) -> str:
        """Return the Fast DDS profile of the server, for Fast DDS 2 and 3. At 127.0.0.1 it receives nothing else.

        Clients find a server that was killed and started again once the lease of the killed one has ended: 10 s, in
        place of ROS 2's 20 s.

        Args:
            prefix: Give it the GUID prefix by which clients of Fast DDS 2 know the first server. Those of Fast DDS 3
                need none, and a server that is started again must have another one there: clients take what a known one
                says for old.
        """
        return _PROFILE.format(
            address=self.address,
            port=self.port,
            lease=f"{LEASE_S:g}",
            prefix="\n      <prefix>44.53.00.5f.45.50.52.4f.53.49.4d.41</prefix>" if prefix else "",
            only="""
      <interfaceWhiteList>
        <address>127.0.0.1</address>
      </interfaceWhiteList>"""
            if self.address == _LOOPBACK
            else "",
        )


def parse_discovery_server(text: str, *, has_remote: bool = False) -> DiscoveryServer | None:
    """Return a server from `auto` or `ADDRESS:PORT`; None for "".

    Args:
        text: What the user gave.
        has_remote: Other machines must reach it.

    Raises:
        OptionError: It is something else, or other machines cannot reach it.
    """
    if not text:
        return None
    if text == AUTO:
        if has_remote:
            raise OptionError(
                "discovery_server auto is on the loopback, which other machines do not reach: give ADDRESS:PORT"
            )
        return DiscoveryServer(address=_LOOPBACK, port=PORT)
    host, _, port = text.rpartition(":")
    if not (host and re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) <= _MAX_PORT):
        raise OptionError(f"discovery_server {quoted(text)} is not possible: give auto or ADDRESS:PORT")
    try:
        address = socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        raise OptionError(
            f"discovery_server {quoted(text)}: {quoted(host)} is no address of a machine"
        ) from error
    if ip_address(address).is_unspecified:
        raise OptionError(
            f"discovery_server {quoted(text)}: give the address by which nodes reach the server"
        )
    server = DiscoveryServer(address=address, port=int(port))
    if has_remote and server.is_loopback:
        raise OptionError(
            f"discovery_server {quoted(text)} is {address}, on the loopback, which other machines do not reach: "
            "give ADDRESS:PORT of this machine in the network"
        )
    return server


def check_middleware(environment: Mapping[str, str]) -> None:
    """Refuse a discovery server for nodes that would not use it.

    Raises:
        OptionError: The middleware is not Fast DDS.
    """
    middleware = environment.get("RMW_IMPLEMENTATION", "")
    if middleware and not middleware.startswith("rmw_fastrtps"):
        raise OptionError(
            f"discovery_server is for Fast DDS, and RMW_IMPLEMENTATION is {quoted(middleware)}: leave one of them out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """How a server is run.

    Attributes:
        words: Program and arguments.
        environment: Variables besides those of this process.
        restart_delay: Least wait before it is started again, seconds.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    restart_delay: float


def server_command(server: DiscoveryServer) -> ServerCommand:
    """Return the command that runs a server. Its profile is written to the user's directory of fleets.

    Raises:
        OptionError: Fast DDS's program is not installed, or does not run, or there is no place for the profile.
    """
    program = next(_programs(), None)
    if program is None:
        raise OptionError(
            f"discovery_server: {_PROGRAM} is not installed; it comes with Fast DDS, the default middleware of ROS 2"
        )
    is_fast_dds_3 = _needs_command(program)
    directory = fleet_directory()
    if directory is None:
        raise OptionError(
            "discovery_server: there is no directory for its profile: set XDG_RUNTIME_DIR to one of yours"
        )
    profile = directory / f"discovery_server_{server.address}_{server.port}.xml"
    try:
        profile.write_text(server.profile_xml(prefix=not is_fast_dds_3), encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"discovery_server: its profile {profile} cannot be written: {error.strerror}"
        ) from error
    # The number gives Fast DDS 2's the prefix that ROS_DISCOVERY_SERVER's first entry means.
    first = (_SERVER_COMMAND,) if is_fast_dds_3 else ("-i", "0")
    return ServerCommand(
        words=(program, *first, "-x", str(profile)),
        environment=_library_path(program),
        restart_delay=0.0 if is_fast_dds_3 else LEASE_S + 2.0,
    )


def _needs_command(program: str) -> bool:
    """Return whether the program is that of Fast DDS 3.2 or later: its help is one of a command.

    Raises:
        OptionError: It does not run.
    """
    try:
        shown = subprocess.run(  # noqa: S603 - a program of the ROS installation
            [program, "-h"],
            env={**os.environ, **_library_path(program)},
            capture_output=True,
            timeout=_HELP_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OptionError(f"discovery_server: {program} does not run: {error}") from error
    if shown.returncode and b"error while loading" in shown.stderr:
        first = shown.stderr.decode(errors="replace").splitlines()[0]
        raise OptionError(f"discovery_server: {program} does not run: {first}")
    return bool(shown.returncode)


def _library_path(program: str) -> dict[str, str]:
    """Return the variable by which Fast DDS's program finds its libraries where they come from PyPI; else nothing.

    Python itself was started with it, and has it no more: other programs must not inherit it.
    """
    prefix = Path(program).resolve().parent.parent
    wheels = [str(path) for path in sorted(prefix.glob("lib/python3*/site-packages/ros_fast*.libs"))]
    if not wheels:
        return {}
    before = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(prefix / "lib"), *wheels, *before])}


def _programs() -> Iterator[str]:
    """Yield where the program is: in the prefixes of ROS 2, in this Python's, and in PATH."""
    prefixes = [each for each in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if each]
    for prefix in dict.fromkeys([*prefixes, sys.prefix]):
        path = Path(prefix, "bin", _PROGRAM)
        if os.access(path, os.X_OK):
            yield str(path)
    found = shutil.which(_PROGRAM)
    if found:
        yield found


_PROFILE = """<?xml version="1.0" encoding="UTF-8" ?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <transport_descriptors>
    <transport_descriptor>
      <transport_id>discovery_udp</transport_id>
      <type>UDPv4</type>{only}
    </transport_descriptor>
  </transport_descriptors>
  <participant profile_name="discovery_server" is_default_profile="true">
    <rtps>
      <userTransports>
        <transport_id>discovery_udp</transport_id>
      </userTransports>
      <useBuiltinTransports>false</useBuiltinTransports>{prefix}
      <builtin>
        <discovery_config>
          <discoveryProtocol>SERVER</discoveryProtocol>
          <leaseDuration>
            <sec>{lease}</sec>
          </leaseDuration>
          <leaseAnnouncement>
            <sec>2</sec>
          </leaseAnnouncement>
        </discovery_config>
        <metatrafficUnicastLocatorList>
          <locator>
            <udpv4>
              <port>{port}</port>
              <address>{address}</address>
            </udpv4>
          </locator>
        </metatrafficUnicastLocatorList>
      </builtin>
    </rtps>
  </participant>
</profiles>
"""
