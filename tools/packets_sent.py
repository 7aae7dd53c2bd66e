"""Run a command, and print to standard error which packets left by an interface meanwhile.

`packets_sent.py INTERFACE COMMAND...`: a line for each kind of packet, with the second of the first one and the text in
it, which for a look-up of a name is that name. Linux only, for a user who may open packet sockets (packet(7)); any
other's command runs as it is.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

_ETH_P_ALL = 3  # linux/if_ether.h
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h
_PROTOCOLS = {socket.IPPROTO_UDP: "UDP", socket.IPPROTO_TCP: "TCP"}


def main() -> int:
    """Run the command of sys.argv and return its status."""
    interface, *command = sys.argv[1:]
    try:
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
        packets.bind((interface, 0))
        packets.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError as error:
        print(f"packets_sent: {interface}: {error}", file=sys.stderr)
        return _status_of(command)
    # What is sent waits in the socket, as far as its buffer goes: enough to see what it is.
    begin = time.time()
    status = _status_of(command)
    kinds: Counter[str] = Counter()
    first: dict[str, float] = {}
    for when, packet in _waiting(packets):
        kind = _kind(packet)
        kinds[kind] += 1
        first.setdefault(kind, when - begin)
    for kind, count in kinds.items():
        print(
            f"packets_sent: {count} by {interface} {kind}, the first after {first[kind]:.1f} s",
            file=sys.stderr,
        )
    return status


def _status_of(command: list[str]) -> int:
    """Run a command and return its status as a shell counts it: 128 + N for one that signal N ended."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"packets_sent: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    # Ctrl-C of a terminal reaches both: the command ends as it does alone, and this waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    status = process.wait()
    return status if status >= 0 else 128 - status


def _waiting(packets: socket.socket) -> Iterator[tuple[float, bytes]]:
    """Yield the time and the bytes from the network layer on of each packet that waits."""
    packets.setblocking(False)
    while True:
        try:
            packet, told, _, address = packets.recvmsg(2048, 64)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING:
            seconds, nanoseconds = struct.unpack("qq", told[0][2]) if told else (0, 0)
            yield seconds + nanoseconds / 1e9, packet


def _kind(packet: bytes) -> str:
    """Return protocol, destination and text of a packet."""
    if packet[0] >> 4 != 4:
        return f"that are not IPv4: {packet[:40].hex()}"
    header = 4 * (packet[0] & 15)  # RFC 791, section 3.1
    to = socket.inet_ntoa(packet[16:20])
    protocol = _PROTOCOLS.get(packet[9])
    if protocol is None:
        return f"to {to}, of protocol {packet[9]}"
    (port,) = struct.unpack("!H", packet[header + 2 : header + 4])
    text = b".".join(re.findall(rb"[\w-]{2,}", packet[header + 8 :])).decode("ascii", "replace")[:80]
    return f"to {protocol} {to}:{port}" + (f" ({text})" if text else "")


if __name__ == "__main__":
    sys.exit(main())
