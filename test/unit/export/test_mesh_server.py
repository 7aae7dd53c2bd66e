"""The HTTP server of mesh files, with real clients: what it serves, what it refuses, and that it ends."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlparse

import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.mesh_server import MeshServer
from usd_ros_bridge.export.mesh_store import MeshStore, is_file_name, with_base
from usd_ros_bridge.options import BridgeOptions, parse_mesh_uris

NAME = "0123456789abcdef" * 2 + ".stl"
OTHER = "f" * 32 + ".obj"
CONTENT = os.urandom(200_000)
TIMEOUT_S = 60.0


@pytest.fixture
def store(tmp_path: Path) -> MeshStore:
    directory, installed = tmp_path / "meshes", tmp_path / "installed"
    directory.mkdir()
    installed.mkdir()
    (directory / NAME).write_bytes(CONTENT)
    (directory / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "secret.stl").write_text("secret", encoding="utf-8")
    (installed / OTHER).write_text("o mesh\n", encoding="utf-8")
    return MeshStore(directory, installed)


@pytest.fixture
def mesh_server(store: MeshStore) -> Iterator[MeshServer]:
    made = MeshServer(store, host="127.0.0.1", port=0, report=print)
    made.open()
    yield made
    made.close()


def request(server: MeshServer, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request as it is: urllib would tidy the path."""
    where = urlparse(server.uri)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def test_a_file_is_served_by_its_name(mesh_server: MeshServer) -> None:
    with urllib.request.urlopen(f"{mesh_server.uri}/{NAME}", timeout=TIMEOUT_S) as answer:
        assert answer.read() == CONTENT
        assert answer.headers["Content-Type"] == "model/stl"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "immutable" in answer.headers["Cache-Control"]
    assert request(mesh_server, "GET", f"/{OTHER}")[2] == b"o mesh\n", "of the package"


def test_head_has_the_headers_alone(mesh_server: MeshServer) -> None:
    status, headers, body = request(mesh_server, "HEAD", f"/{NAME}")
    assert (status, headers["content-length"], body) == (200, str(len(CONTENT)), b"")


def test_a_client_that_has_the_file_gets_it_no_second_time(mesh_server: MeshServer) -> None:
    _, headers, _ = request(mesh_server, "GET", f"/{NAME}")
    again = request(mesh_server, "GET", f"/{NAME}", **{"If-None-Match": headers["etag"]})
    assert (again[0], again[2]) == (304, b"")


UNSERVED = (
    "/",
    "",
    "/secret.txt",
    "/../secret.stl",
    "/..%2fsecret.stl",
    "/%2e%2e/secret.stl",
    "/./" + NAME,
    "/meshes/" + NAME,
    f"/{NAME}/",
    f"/{NAME}?x=1",
    f"/{NAME}%00",
    f"/{NAME.upper()}",
    f"/{'a' * 32}.stl",
    f"/{NAME[:-4]}.py",
    "/etc/passwd",
    "http://127.0.0.1/" + NAME,
    f"/{'0' * 60_000}",
)


def test_nothing_else_is_served(mesh_server: MeshServer) -> None:
    for path in UNSERVED:
        status, _, body = request(mesh_server, "GET", path)
        assert status in (404, 400), path[:200]
        assert b"secret" not in body, path
        assert request(mesh_server, "GET", f"/{NAME}")[0] == 200


def test_a_link_in_a_directory_that_others_may_write_is_not_followed(
    mesh_server: MeshServer, store: MeshStore, tmp_path: Path
) -> None:
    (store.directory / ("1" * 32 + ".stl")).symlink_to(tmp_path / "secret.stl")
    (store.directory / ("2" * 32 + ".stl")).mkdir()
    os.mkfifo(store.directory / ("3" * 32 + ".stl"))
    assert store.installed is not None
    # Packages are installed by links, by colcon build --symlink-install.
    (store.installed / ("4" * 32 + ".stl")).symlink_to(store.directory / NAME)
    statuses = [request(mesh_server, "GET", f"/{str(digit) * 32}.stl")[0] for digit in (1, 2, 3, 4)]
    assert statuses == [404, 404, 404, 200]


def test_files_can_only_be_read(mesh_server: MeshServer, store: MeshStore) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"):
        status, headers, _ = request(mesh_server, method, f"/{NAME}")
        assert (status, headers["allow"]) == (405, "GET, HEAD"), method
        assert (store.directory / NAME).read_bytes() == CONTENT


def test_many_clients_at_once(mesh_server: MeshServer) -> None:
    """More than the server has connections for: the others wait for a moment."""
    digest = hashlib.sha256(CONTENT).hexdigest()

    def load(_: int) -> str:
        with urllib.request.urlopen(f"{mesh_server.uri}/{NAME}", timeout=TIMEOUT_S) as answer:
            return hashlib.sha256(answer.read()).hexdigest()

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(load, range(200))) == {digest}


def test_a_connection_serves_many_requests(mesh_server: MeshServer) -> None:
    where = urlparse(mesh_server.uri)
    assert where.hostname is not None
    with contextlib.closing(
        http.client.HTTPConnection(where.hostname, where.port, timeout=TIMEOUT_S)
    ) as client:
        for path, status in ((f"/{NAME}", 200), ("/no", 404), (f"/{OTHER}", 200), (f"/{NAME}", 200)):
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
            assert answer.status == status


def test_clients_that_go_away_do_no_harm(mesh_server: MeshServer, store: MeshStore) -> None:
    (store.directory / ("5" * 32 + ".stl")).write_bytes(bytes(20_000_000))
    where = urlparse(mesh_server.uri)
    for _ in range(20):
        with socket.create_connection((where.hostname, where.port), TIMEOUT_S) as client:
            client.sendall(f"GET /{'5' * 32}.stl HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            client.recv(1000)
    with socket.create_connection((where.hostname, where.port), TIMEOUT_S) as client:
        client.sendall(b"\x16\x03\x01 no HTTP at all\r\n\r\n")
    assert request(mesh_server, "GET", f"/{NAME}")[0] == 200


@pytest.mark.process
def test_a_port_in_use_is_one_line_with_a_remedy(store: MeshStore) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = MeshServer(store, host="127.0.0.1", port=port, report=print)
        with pytest.raises(OptionError, match=f"port {port} of 127.0.0.1 is in use: take another one"):
            server.open()


@pytest.mark.process
def test_an_address_of_another_machine_is_one_line(store: MeshStore) -> None:
    server = MeshServer(store, host="192.0.2.1", port=0, report=print)
    with pytest.raises(OptionError, match=r"192\.0\.2\.1 is no address of this machine"):
        server.open()


@pytest.mark.process
def test_the_same_port_can_be_taken_again_at_once(store: MeshStore) -> None:
    first = MeshServer(store, host="127.0.0.1", port=0, report=print)
    first.open()
    port = urlparse(first.uri).port
    assert port is not None
    request(first, "GET", f"/{NAME}")
    first.close()
    again = MeshServer(store, host="127.0.0.1", port=port, report=print)
    again.open()
    assert request(again, "GET", f"/{NAME}")[0] == 200
    again.close()
    again.close()
    with pytest.raises(OSError, match="refused"):
        request(again, "GET", f"/{NAME}")


def test_it_listens_on_its_address_alone(mesh_server: MeshServer) -> None:
    port = urlparse(mesh_server.uri).port
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), 5.0):  # noqa: PT011
        pass


@pytest.mark.process
def test_it_ends_with_the_process_that_started_it(store: MeshStore) -> None:
    code = (
        "import sys, time; from pathlib import Path; from usd_ros_bridge.export.mesh_server import MeshServer; "
        "from usd_ros_bridge.export.mesh_store import MeshStore; "
        "s = MeshServer(MeshStore(Path(sys.argv[1])), host='127.0.0.1', port=0, report=print); s.open(); "
        "print(s.uri, flush=True); time.sleep(1000)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(store.directory)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    where = urlparse(parent.stdout.readline().strip())
    parent.kill()
    parent.wait()
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        try:
            socket.create_connection((where.hostname, where.port), 5.0).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            # It ended during this attempt: the next one is refused.
            continue
        time.sleep(0.05)
    pytest.fail("the server is still there")


@pytest.mark.process
def test_an_end_of_its_own_is_reported(store: MeshStore) -> None:
    reports: list[str] = []
    reported = threading.Event()

    def report(text: str) -> None:
        reports.append(text)
        reported.set()

    server = MeshServer(store, host="127.0.0.1", port=0, report=report)
    server.open()
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    assert reported.wait(TIMEOUT_S)
    assert "ended with status -9" in reports[0]
    server.close()


@pytest.mark.storm
def test_a_page_of_another_origin_may_read_the_files(mesh_server: MeshServer, tmp_path: Path) -> None:
    """In a real browser: viewers such as Foxglove's are pages of another origin."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium here")
    page = tmp_path / "page.html"
    page.write_text(
        f"<body><script>fetch('{mesh_server.uri}/{NAME}').then(a => a.arrayBuffer())"
        ".then(b => document.body.textContent = 'bytes ' + b.byteLength)"
        ".catch(e => document.body.textContent = 'failed ' + e)</script>",
        encoding="utf-8",
    )
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--virtual-time-budget=20000", "--dump-dom"]
    # A browser asks its maker's servers about itself.
    options += ["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    shown = subprocess.run(
        [browser, *options, page.as_uri()], capture_output=True, text=True, timeout=100, check=False
    )
    assert f"bytes {len(CONTENT)}" in shown.stdout


# --- Names and URIs -----------------------------------------------------------------------------------------------


def test_names() -> None:
    names = {
        NAME: True,
        OTHER: True,
        "a" * 31 + ".stl": False,
        NAME + "\n": False,
        "": False,
        "é" * 32: False,
    }
    assert {name: is_file_name(name) for name in names} == names


def test_only_mesh_files_get_another_base() -> None:
    urdf = (
        f'<mesh filename="file:///a b/{NAME}"/><mesh filename="package://p/meshes/{OTHER}" scale="1 1 1"/>'
        '<mesh filename="package://p/meshes/wheel.stl"/>'
    )
    assert with_base(urdf, "http://127.0.0.1:8") == (
        f'<mesh filename="http://127.0.0.1:8/{NAME}"/><mesh filename="http://127.0.0.1:8/{OTHER}" scale="1 1 1"/>'
        '<mesh filename="package://p/meshes/wheel.stl"/>'
    )


def test_what_mesh_uris_means() -> None:
    texts = {
        "auto": ("auto", "127.0.0.1", 0, True),
        "http": ("http", "127.0.0.1", 0, True),
        "http:8080": ("http", "127.0.0.1", 8080, True),
        "http:192.0.2.7:8080": ("http", "192.0.2.7", 8080, False),
        "http:localhost:0": ("http", "localhost", 0, True),
        "http:[::1]:80": ("http", "::1", 80, True),
    }
    found = {text: parse_mesh_uris(text) for text in texts}
    assert {
        text: (each.kind, each.host, each.port, each.is_loopback) for text, each in found.items()
    } == texts


def test_what_mesh_uris_cannot_be() -> None:
    for text, expected in {
        "htpp": "did you mean http",
        "": "there are: auto, file",
        "file:8": "is not possible",
        "http:": "is not possible",
        "http:x": "'x' is no port",
        "http:70000": "'70000' is no port: use 0 (a free one) to 65535",
        "http:-1": "is no port",
        "http:robot.local:80": "'robot.local' is no IP address",
        "http:0.0.0.0:80": "need the address by which viewers reach this machine, not 0.0.0.0",
        "http:[::]:80": "not ::",
    }.items():
        with pytest.raises(OptionError) as raised:
            BridgeOptions(mesh_uris=text).check()
        assert expected in str(raised.value), text
        assert "\n" not in str(raised.value)
