"""Who gets through to the server for Foxglove, and what they may do: the command line, and WebSockets as they come."""

from __future__ import annotations

import random
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")
pytest.importorskip("websockets", reason="websockets is not installed: make setup-tests")

from geometry_msgs.msg import Twist
from parameter_client import ParameterClient
from rclpy.serialization import serialize_message
from std_srvs.srv import SetBool

from case_tables import each_case
from cli_calls import call_cli
from foxglove_client import FoxgloveClient, connected
from programs import Program

pytestmark = [pytest.mark.app, pytest.mark.process, pytest.mark.timeout(300)]

APP = "https://app.foxglove.dev"
EVIL = "https://evil.example"
RUN = (sys.executable, "-m", "usd_ros_bridge", "run", "--example", "rover", "--no-live", "--foxglove", "0")
HEADERS = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "foxglove.sdk.v1",
}
FORWARD = Twist()
FORWARD.linear.x = 0.5
WAIT_S = 30.0


def port_of(process: Program) -> int:
    line = process.wait_for_line(r"ws://")
    process.wait_for_line(r": ready")
    found = re.search(r"ws://[^ ]*:(\d+)", line)
    assert found is not None
    return int(found[1])


@pytest.fixture(scope="module")
def looking() -> Iterator[Program]:
    """A rover as `--foxglove` serves it."""
    with Program(RUN) as process:
        yield process
        assert process.end() == 0


@pytest.fixture(scope="module")
def open_one() -> Iterator[Program]:
    """A rover that the network reaches, with pages of its own."""
    more = ("--foxglove-host", "0.0.0.0", "--foxglove-origin", "http://robots.example:8080")
    with Program([*RUN, *more, "--foxglove-origin", "file://", "--foxglove-control"]) as process:
        yield process
        assert process.end() == 0


def head(*, first: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    """Return the head of a request with other headers; None leaves one out."""
    fields = HEADERS | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [first, *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def answer(port: int, request: bytes) -> tuple[int, bytes]:
    """Send a request. Return the status of the answer, 0 for none, and the whole of it if it is refused."""
    with closing(socket.create_connection(("127.0.0.1", port), WAIT_S)) as connection:
        connection.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data or not data.startswith(b"HTTP/1.1 101"):
            received = connection.recv(65536)
            if not received:
                break
            data += received
    return int(data.split()[1]) if data else 0, data


def status_of(process: Program, **changes: str | None) -> int:
    return answer(port_of(process), head(**changes))[0]


# --- Host and Origin -------------------------------------------------------------------------------------------


@each_case(
    ("host", "status"),
    [
        *((host, 101) for host in ("127.0.0.1", "localhost:1", "LocalHost.", "[::1]:8765", "127.9.9.9")),
        # A name of somebody else's that leads here.
        *((host, 403) for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "192.168.1.2")),
        *((host, 403) for host in ("localhost@evil.example", "evil@localhost", "[::1", "0.0.0.0", "", "a b", "*")),
        (None, 400),
    ],
)  # fmt: skip
def test_a_server_of_this_machine_is_asked_for_by_names_of_the_loopback(
    looking: Program, host: str | None, status: int
) -> None:
    assert status_of(looking, Host=host) == status


@each_case(
    ("origin", "status"),
    [
        *((origin, 101) for origin in (None, APP, "HTTPS://app.FOXGLOVE.dev:443")),
        *((origin, 101) for origin in ("http://localhost:8080", "http://127.0.0.1", "https://[::1]:3000")),
        *((origin, 403) for origin in (EVIL, "null", "file://", "", "*", "http://app.foxglove.dev", f"{APP}:8443")),
        *((origin, 403) for origin in (f"{APP}.evil.example", f"{EVIL}/{APP}", f"{APP} {EVIL}", f"{APP}@evil.example")),
        *((origin, 403) for origin in ("http://localhost.evil.example", "http://192.168.1.2", "moz-extension://localhost")),
    ],
)  # fmt: skip
def test_pages_of_this_machine_and_of_the_app_are_let_in(
    looking: Program, origin: str | None, status: int
) -> None:
    assert status_of(looking, Origin=origin) == status


@each_case(
    ("host", "origin", "status"),
    [
        ("10.1.2.3:8765", None, 101),
        (socket.gethostname(), None, 101),
        (f"{socket.gethostname().partition('.')[0].upper()}.local:8765", None, 101),
        ("[fe80::1]", "http://[fe80::1]:80", 101),
        ("10.1.2.3:8765", "http://10.1.2.3", 101),
        ("10.1.2.3:8765", "http://10.1.2.4", 403),
        ("localhost", "http://10.1.2.3", 403),
        ("evil.example:8765", None, 403),
        ("evil.example:8765", "http://evil.example:8765", 403),
        ("10.1.2.3", "http://robots.example:8080", 101),
        ("10.1.2.3", "HTTP://Robots.Example:8080", 101),
        ("10.1.2.3", "http://robots.example", 403),
        ("10.1.2.3", "https://robots.example:8080", 403),
        ("10.1.2.3", "file://", 101),
        ("10.1.2.3", "null", 403),
        ("10.1.2.3", EVIL, 403),
    ],
)
def test_a_server_of_the_network_knows_addresses_its_name_and_listed_pages(
    open_one: Program, host: str, origin: str | None, status: int
) -> None:
    assert status_of(open_one, Host=host, Origin=origin) == status


def test_what_was_refused_is_one_line_with_the_remedy(
    program: Callable[..., Program], domain_id: int
) -> None:
    process = program(RUN)
    for _ in range(20):
        assert status_of(process, Origin=EVIL) == 403
        assert status_of(process, Host="rebound.example") == 403
    process.end()
    (line,) = re.findall(r".*WARN.*evil\.example.*", process.log)
    assert f"--foxglove-origin {EVIL}" in line
    (line,) = re.findall(r".*WARN.*rebound\.example.*", process.log)
    assert "--foxglove-host" in line


# --- Heads -----------------------------------------------------------------------------------------------------


GOOD = head()
MALFORMED = {
    "two hosts": GOOD.replace(b"\r\nUpgrade", b"\r\nhost: evil.example\r\nUpgrade"),
    "two equal hosts": GOOD.replace(b"\r\nUpgrade", b"\r\nHost: 127.0.0.1\r\nUpgrade"),
    "two origins": head(Origin=APP).replace(b"\r\nUpgrade", b"\r\nORIGIN: https://evil.example\r\nUpgrade"),
    "a folded line": head(Origin=f"{APP}\r\n .evil.example"),
    "a folded header": head(X="a\r\n\tOrigin: https://evil.example"),
    "a bare line feed": head(X=f"a\nOrigin: {EVIL}"),
    "line feeds alone": GOOD.replace(b"\r\n", b"\n"),
    "a bare carriage return": head(X=f"a\rOrigin: {EVIL}"),
    "a space before the colon": GOOD.replace(b"Host:", b"Host :"),
    "a space in a name": head(X_Y="1").replace(b"X-Y", b"X Origin"),
    "a name that is none": head(X="1").replace(b"X:", b":"),
    "no colon": GOOD.replace(b"\r\nUpgrade", b"\r\nX\r\nUpgrade"),
    "a letter beyond ASCII": head(X="\xe4"),
    "a NUL": head(X="a\0b"),
    "a body by length": head(Content_Length="5"),
    "a body in chunks": head(Transfer_Encoding="chunked"),
    "something behind it": GOOD + b"x",
    "a second request": GOOD + head(Host="evil.example"),
    "another method": head(first="POST / HTTP/1.1"),
    "a preflight": head(first="OPTIONS / HTTP/1.1"),
    "an address in the request": head(first="GET http://evil.example/ HTTP/1.1"),
    "an old version": head(first="GET / HTTP/1.0"),
    "a new version": head(first="PRI * HTTP/2.0"),
    "spaces in the request": head(first="GET  / HTTP/1.1"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an empty line first": b"\r\n" + GOOD,
}


@each_case("name", MALFORMED)
def test_a_head_that_could_be_read_in_two_ways_is_refused(looking: Program, name: str) -> None:
    assert answer(port_of(looking), MALFORMED[name])[0] == 400


def test_other_requests_are_told_what_this_is(looking: Program) -> None:
    port = port_of(looking)
    for changes in ({"Upgrade": None}, {"Upgrade": "h2c"}, {"Upgrade": "websocket, h2c"}):
        status, text = answer(port, head(**changes))
        assert status == 426
        assert b"Upgrade: websocket\r\n" in text
        assert text.endswith(b"\r\n\r\nthis is a WebSocket server for the Foxglove app\n")
    # What a page that is refused reads says nothing about the robot.
    status, text = answer(port, head(Origin=EVIL))
    assert status == 403
    assert b"Access-Control" not in text
    assert text.endswith(b"\r\n\r\npages of this origin are not allowed\n")


def test_a_head_has_a_largest_size(looking: Program) -> None:
    port = port_of(looking)
    room = 2**14 - len(head(X=""))
    assert answer(port, head(X="x" * room))[0] == 101
    for too_much in (1, 100_000):
        assert answer(port, head(X="x" * (room + too_much)))[0] == 431


def test_a_head_may_come_in_pieces(looking: Program) -> None:
    with closing(socket.create_connection(("127.0.0.1", port_of(looking)), WAIT_S)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(len(GOOD)):
            connection.sendall(GOOD[number : number + 1])
        assert connection.recv(12) == b"HTTP/1.1 101"


def test_heads_that_never_end_keep_nobody_out(looking: Program) -> None:
    port = port_of(looking)
    with ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(300)
        ]
        for each in slow:
            each.sendall(b"GET / HTTP/1.1\r\nX: ")
        began = time.monotonic()
        for _ in range(20):
            assert answer(port, GOOD)[0] == 101
        assert time.monotonic() - began < WAIT_S / 2
        # Each of them is ended, most of them at once and the others after some seconds.
        ended = 0
        for each in slow:
            try:
                ended += each.recv(4096)[:12] in (b"", b"HTTP/1.1 408")
            except ConnectionResetError:
                ended += 1
        assert ended == len(slow)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such addresses, and no /proc")
def test_no_page_finds_the_server_behind_the_gate(looking: Program) -> None:
    port = port_of(looking)
    files = Path(f"/proc/{looking.pid}/fd")
    own = {str(each.readlink()) for each in files.iterdir() if each.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    found = {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}
    addresses = {(socket.inet_ntoa(bytes.fromhex(text[:8])[::-1]), int(text[9:], 16)) for text in found}
    (inner,) = addresses - {("127.0.0.1", port)}
    assert len(addresses) == 2
    assert inner[0].startswith("127.")
    assert inner[0] != "127.0.0.1"


# --- Look, and drive -------------------------------------------------------------------------------------------


def try_to_drive(client: FoxgloveClient) -> None:
    """Publish a command, set a parameter and call a service, as a client does that was told it may."""
    row = {"id": 1, "topic": "/rover/cmd_vel", "encoding": "cdr", "schemaName": "geometry_msgs/msg/Twist"}
    client.send(op="advertise", channels=[row])
    client.publish(1, serialize_message(FORWARD))
    client.send(op="setParameters", parameters=[{"name": "tf_rate", "value": 20.0}], id="set")
    client.send(op="getParameters", parameterNames=[], id="get")
    client.send(op="subscribeParameterUpdates", parameterNames=["tf_rate"])
    request = serialize_message(SetBool.Request(data=True))
    for number in range(12):
        client.socket.send(struct.pack("<BIII", 2, number, 1000 + number, 3) + b"cdr" + request)


def test_without_control_an_app_sees_everything_and_moves_nothing(
    program: Callable[..., Program], ros_harness: Any
) -> None:
    process = program(RUN)
    port = port_of(process)
    assert "apps only look: --foxglove-control" in process.wait_for_line("ws://")
    commands: list[Twist] = ros_harness.listen(Twist, "/rover/cmd_vel")
    others = ParameterClient(ros_harness)
    with connected(port, origin=APP) as client:
        assert set(client.info["capabilities"]) <= {"time", "assets"}
        client.subscribe("/rover/odom", "/rover/image_raw")
        client.wait_for(lambda: all(client.messages.values()), "odometry and an image", timeout=60.0)
        try_to_drive(client)
        # Answered after all of it.
        assert client.asset("file:///nothing.stl") is None
        seen = len(client.messages["/rover/odom"])
        client.wait_for(
            lambda: len(client.messages["/rover/odom"]) > seen + 50, "more odometry", timeout=60.0
        )
        assert client.services == {}
        assert client.updates == []
        assert not {("parameters", "set"), ("parameters", "get")} & set(client.answers())
        # All that was tried has failed: a successful call has an answer in bytes.
        assert not [each for each in client.answers().values() if isinstance(each, bytes)]
        assert others.get("tf_rate") == 50.0
        assert ros_harness.node.count_publishers("/rover/cmd_vel") == 0
        assert commands == []


@pytest.mark.parametrize("origin", [None, APP, "http://robots.example:8080"])
def test_with_control_an_app_drives(
    program: Callable[..., Program], ros_harness: Any, origin: str | None
) -> None:
    process = program([*RUN, "--foxglove-control", "--foxglove-origin", "http://robots.example:8080"])
    port = port_of(process)
    assert "only look" not in process.log
    commands: list[Twist] = ros_harness.listen(Twist, "/rover/cmd_vel")
    assert status_of(process, Origin=EVIL) == 403
    with connected(port, origin=origin) as client:
        assert {"clientPublish", "parameters", "services"} <= set(client.info["capabilities"])
        client.wait_for(lambda: "/rover/set_headlights" in client.services, "services")
        assert client.set_parameters({"name": "tf_rate", "value": 20.0})["tf_rate"]["value"] == 20.0
        try_to_drive(client)

        def is_heard() -> bool:
            # The bridge waits for one subscription, its own; this one may be discovered later.
            client.publish(1, serialize_message(FORWARD))
            return bool(commands)

        ros_harness.wait_for(is_heard, what="the command")
        assert commands[0].linear.x == 0.5


def test_remote_control_restricts_what_control_allows(
    program: Callable[..., Program], domain_id: int
) -> None:
    process = program([*RUN, "--foxglove-control", "--ros-args", "-p", "remote_control:=read_only"])
    with connected(port_of(process)) as client:
        assert "clientPublish" not in client.info["capabilities"]
        assert client.set_parameters({"name": "tf_rate", "value": 20.0})["tf_rate"]["value"] == 50.0


# --- What passes -----------------------------------------------------------------------------------------------


def test_a_large_file_passes_byte_for_byte_and_delays_nobody(
    program: Callable[..., Program], domain_id: int, tmp_path: Path
) -> None:
    data = random.Random(7).randbytes(100_000_000)
    (tmp_path / "large.stl").write_bytes(data)
    port = port_of(program([*RUN, "--ros-args", "-p", f"mesh_directory:={tmp_path}"]))
    with connected(port) as client, connected(port) as other:
        other.subscribe("/rover/odom")
        got: list[bytes | None] = []
        asking = threading.Thread(target=lambda: got.append(client.asset((tmp_path / "large.stl").as_uri())))
        asking.start()
        other.wait_for(lambda: len(other.messages["/rover/odom"]) > 50, "odometry", timeout=60.0)
        asking.join(60.0)
        assert got == [data]


def test_a_bridge_ends_at_once_beside_clients_of_all_kinds(
    program: Callable[..., Program], domain_id: int
) -> None:
    process = program(RUN)
    port = port_of(process)
    with ExitStack() as stack:
        for request in (b"", b"GET / HT", GOOD, head(Origin=EVIL)):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request)
        client = stack.enter_context(connected(port))
        client.subscribe("/rover/odom")
        client.wait_for(lambda: bool(client.messages["/rover/odom"]), "odometry")
        assert process.end() == 0
    assert "Traceback" not in process.log
    assert "Task" not in process.log


# --- Options ---------------------------------------------------------------------------------------------------


@each_case(
    ("arguments", "reason"),
    [
        (["--foxglove-control"], "--foxglove-control without --foxglove"),
        (["--foxglove-origin", APP], "--foxglove-origin without --foxglove"),
        (["--foxglove-host", "0.0.0.0", "--foxglove-control"], "--foxglove-host and --foxglove-control without"),
        (["--foxglove", "--foxglove-origin", "*"], "'*' is no origin of a web page"),
        (["--foxglove", "--foxglove-origin", f"{APP}/"], "is no origin of a web page"),
        (["--foxglove", "--foxglove-origin", "null"], "'null' is no origin of a web page"),
        (["--no-ros", "--record", "x.mcap", "--foxglove-control"], "--no-ros and --foxglove exclude each other"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_one_line(arguments: list[str], reason: str) -> None:
    done = call_cli("run", "--example", "rover", "--no-live", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_parameter_file_may_have_control_without_a_server(
    program: Callable[..., Program], domain_id: int
) -> None:
    without = [
        *RUN[:-2],
        "--ros-args",
        "-p",
        "foxglove_control:=true",
        "-p",
        "foxglove_origins:=['https://a.example']",
    ]
    program(without).wait_for_line(": ready")


def test_the_help_says_who_can_do_what() -> None:
    text = " ".join(call_cli("run", "--help").stdout.split())
    for option in ("--foxglove-control", "--foxglove-origin ORIGIN", "--foxglove-host ADDRESS"):
        assert option in text
    assert "Every program that reaches it sees everything, and drives the robots with" in text
    assert "web pages do only if their origin is allowed" in text


@pytest.mark.parametrize("name", ["foxglove_control", "foxglove_origins"])
def test_who_may_drive_does_not_change_while_the_bridge_runs(
    program: Callable[..., Program], ros_harness: Any, name: str
) -> None:
    process = program(RUN)
    port_of(process)
    value = True if name == "foxglove_control" else [EVIL]
    assert name in ParameterClient(ros_harness).set(name, value)
    with connected(port_of(process)) as client:
        assert "clientPublish" not in client.info["capabilities"]
    assert status_of(process, Origin=EVIL) == 403
