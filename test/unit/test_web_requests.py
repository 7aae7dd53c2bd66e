"""Whose pages a server answers: names of this machine, addresses, and origins."""

from __future__ import annotations

import socket

import pytest

from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.web_requests import RequestRule, is_loopback, parse_origins

MACHINE = socket.gethostname()
SHORT = MACHINE.partition(".")[0]


@each_case(
    ("listens", "accepted", "refused"),
    [
        (
            "127.0.0.1",
            ["127.0.0.1", "localhost", "LocalHost:8765", "localhost.", "127.1.2.3:1", "[::1]:80", "[0:0::1]",
             "[::ffff:127.0.0.1]"],
            ["192.168.1.2", "evil.example", "", ":80", "localhost.evil.example", "127.0.0.1.evil.example", "[::1",
             "::1", "evil@localhost", "localhost:x", "localhost:99999", "local host", "localhost/", "[localhost]",
             "0.0.0.0", "[fe80::1]", MACHINE, ".", "..", "lo\u017fcalhost", "localhost\n", "127.1"],
        ),
        (
            "0.0.0.0",
            ["192.168.1.2", "[fe80::1]:8765", MACHINE, MACHINE.upper() + ".", f"{SHORT}.local", "localhost", "[::1]"],
            ["evil.example", f"{SHORT}.evil.example", "", "1.2.3"],
        ),
        ("Robot.LAN", ["robot.lan", "ROBOT.lan.:80", "10.0.0.1", "localhost"], ["robot", "evil.robot.lan"]),
    ],
)  # fmt: skip
def test_a_server_has_its_own_names(listens: str, accepted: list[str], refused: list[str]) -> None:
    rule = RequestRule(listens)
    assert [host for host in accepted if not rule.accepts_host(host)] == []
    assert [host for host in refused if rule.accepts_host(host)] == []


@each_case(
    ("any_port", "host", "accepted", "refused"),
    [
        (
            False,
            "localhost:8080",
            [None, "http://localhost:8080", "https://LOCALHOST.:8080", "http://127.0.0.1:8080", "http://[::1]:8080"],
            ["http://localhost", "http://localhost:8081", "https://evil.example", "null", "", "file://",
             "http://localhost:8080/", "http://localhost:8080 http://evil.example", "ftp://localhost:8080",
             "chrome-extension://localhost:8080", "http://evil@localhost:8080", "//localhost:8080", "localhost:8080"],
        ),
        (False, "robot", ["http://robot", "https://robot", "http://robot:80"], ["https://robot:80", "http://robot:8080"]),
        (True, "localhost:8765", ["http://127.0.0.1:3000", "https://localhost"], ["http://10.0.0.1", "file://"]),
        (True, "10.0.0.1:8765", ["http://10.0.0.1", "https://10.0.0.1.:9"], ["http://10.0.0.2", "http://localhost"]),
    ],
)  # fmt: skip
def test_pages_of_the_same_host_are_answered(
    any_port: bool, host: str, accepted: list[str | None], refused: list[str]
) -> None:
    rule = RequestRule("127.0.0.1", any_port=any_port)
    assert [origin for origin in accepted if not rule.accepts_origin(origin, host)] == []
    assert [origin for origin in refused if rule.accepts_origin(origin, host)] == []


@each_case(
    ("listed", "accepted", "refused"),
    [
        (
            "https://App.example",
            ["https://app.example", "https://app.example:443", "HTTPS://APP.EXAMPLE."],
            ["http://app.example", "https://app.example:8443", "https://app.example.evil", "https://x.app.example"],
        ),
        ("http://[0:0::7]:80", ["http://[::7]"], ["http://[::7]:8080", "https://[::7]"]),
        ("vscode-webview://0a1b", ["vscode-webview://0a1b"], ["vscode-webview://0a1c", "https://0a1b"]),
        ("file://", ["file://", "FILE://"], ["null", "file://x", "file:///", "file:"]),
    ],
)  # fmt: skip
def test_a_listed_origin_is_compared_as_a_whole(listed: str, accepted: list[str], refused: list[str]) -> None:
    rule = RequestRule("127.0.0.1", origins=parse_origins([listed]))
    assert [origin for origin in accepted if not rule.accepts_origin(origin, "localhost")] == []
    assert [origin for origin in refused if rule.accepts_origin(origin, "localhost")] == []


@each_case(
    "text",
    ["*", "null", "", "https://*", "https://a.example/", "https://a.example/b", "a.example", "https://", "https:",
     "https://a b", "https://a:x", "https://a:70000", "https://me@a", "https://a?b", "https://\u00e4.example", "file:///a",
     "https://[::1", "https://[a]", "https://a\n"],
)  # fmt: skip
def test_what_is_no_origin_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(OptionError, match="is no origin of a web page") as error:
        parse_origins(["https://a.example", text])
    assert "\n" not in str(error.value)


@each_case(
    ("host", "loopback"),
    [("127.0.0.1", True), ("Localhost", True), ("::1", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", False),
     ("127.example.com", False), ("192.168.1.5", False)],
)  # fmt: skip
def test_the_loopback_has_several_names(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
