"""The page's process: its URL, its end, and what happens to the other when the bridge or the page dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_calls import call_cli
from page_runs import ARM, ROVER, PageRun, wait_for_end
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.view.page_server import check_address, page_url

pytest.importorskip("viser", reason="viser is not installed: make setup-tests")

# More than the start and the end of a process may take on a busy machine.
pytestmark = [pytest.mark.app, pytest.mark.timeout(300)]

Begin = Callable[..., PageRun]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """`begin(*arguments)`: a process with a page, ended after the test."""
    runs: list[PageRun] = []

    def start(*arguments, **options):
        runs.append(PageRun(*arguments, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10.0) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_run_serves_the_page_to_its_own_address_and_ends_with_the_bridge(begin: Begin) -> None:
    run = begin("run", ROVER, "--no-live", "--view")
    url = run.url
    assert url.startswith("http://127.0.0.1:")
    assert status_of(url) == 200
    # Another web page in the same browser, by its address or by a name that leads here.
    assert status_of(url, Origin="http://example.com") == 403
    assert status_of(url, Host="example.com") == 403
    assert status_of(url, Host="[::1") == 403
    # By these, viser's page would run programs of another server with the rights of this page.
    assert status_of(f"{url}/?websocket=ws://example.com") == 403
    assert status_of(f"{url}/?a=1&%77ebsocket") == 403
    assert status_of(f"{url}/?playbackPath=http://example.com/a.viser") == 403
    assert status_of(f"{url}/?{'&'.join('a' * 200)}") == 403
    assert status_of(f"{url}/?showStats") == 200
    with urllib.request.urlopen(url, timeout=30.0) as answer:
        assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert status_of(url, Origin=url) == 200
    page = run.page_id
    assert run.interrupt() == 0
    assert wait_for_end(page, 30.0)
    assert "Traceback" not in run.output


def test_a_page_that_dies_is_one_warning_and_the_bridge_goes_on(begin: Begin) -> None:
    run = begin("run", ARM, "--no-live", "--view")
    os.kill(run.page_id, signal.SIGKILL)
    assert run.wait_for_line("WARN.*the page was ended by signal 9")
    assert run.process.poll() is None
    assert run.interrupt() == 0


def test_a_bridge_that_is_killed_leaves_no_page_behind(begin: Begin) -> None:
    run = begin("run", ARM, "--no-live", "--view")
    page = run.page_id
    run.process.kill()
    assert wait_for_end(page, 30.0)


def test_a_port_in_use_is_one_line_with_the_remedy(begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        called = call_cli("run", ARM, "--no-live", "--view-port", str(port))
    assert called.returncode == 2
    (line,) = called.stderr.strip().splitlines()
    assert f"port {port} is in use" in line
    assert f"--view-port {port + 1}" in line


def test_an_address_of_another_machine_is_refused_in_one_line() -> None:
    with pytest.raises(OptionError, match=r"--view-host 192\.0\.2\.1: .*; give an address of this machine"):
        check_address("192.0.2.1", 0)
    # No name server is asked for this one.
    with pytest.raises(OptionError, match="--view-host no such host"):
        check_address("no such host", 0)


def test_without_viser_there_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(BridgeError, match=r'viser is not installed .* pip install "usd_ros_bridge\[view\]"'):
        check_address("127.0.0.1", 0)


def test_another_address_is_served_with_a_warning(begin: Begin) -> None:
    run = begin("run", ARM, "--no-live", "--view-host", "0.0.0.0")
    assert run.url.startswith("http://127.0.0.1:")
    run.wait_for_line(r"WARN.*served at 0\.0\.0\.0: anyone who reaches that address can drive")


def test_view_shows_joint_states_and_view_of_another_bridge_needs_no_bridge(begin: Begin) -> None:
    shown = begin("view", ARM)
    assert status_of(shown.url) == 200
    assert shown.wait_for_line("ready")
    beside = begin("view", ARM, "--no-bridge")
    assert status_of(beside.url) == 200
    assert beside.interrupt() == 0
    assert beside.output.startswith("page: http://127.0.0.1:")
    assert shown.process.poll() is None


def test_an_asset_that_is_missing_ends_a_page_without_a_bridge_in_one_line(begin: Begin) -> None:
    run = begin("view", "/nowhere/robot.usda", "--no-bridge")
    run.wait_for_line("usd_ros_bridge: .*nowhere/robot.usda")
    assert run.process.wait(60.0) == 2
    assert "Traceback" not in run.output


@pytest.mark.timeout(240)
def test_a_page_without_a_browser_has_no_subscriptions_and_costs_nothing(begin: Begin, ros_harness) -> None:
    run = begin("run", ARM, "--no-live", "--view")
    page = run.page_id
    # Loaded: the tabs are there as soon as the plan is.
    run.wait_for_line("page:")
    end = time.monotonic() + 60.0
    while "usd_ros_bridge_view" not in ros_harness.node.get_node_names():
        assert time.monotonic() < end
        time.sleep(0.05)
    subscriptions = ros_harness.node.get_subscriber_names_and_types_by_node("usd_ros_bridge_view", "/")
    assert not {name for name, _ in subscriptions} & {"/tf", "/tf_static", "/arm/tf", "/arm/tf_static"}
    # It has just started; then it sleeps.
    rest = time.monotonic() + 60.0
    while cpu_in_two_seconds(page) > 0.04:
        assert time.monotonic() < rest, "it never comes to rest"


def cpu_in_two_seconds(process_id: int) -> float:
    before = cpu_seconds(process_id)
    time.sleep(2.0)
    return cpu_seconds(process_id) - before


def cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("127.example.com", "http://127.example.com:80"),
        ("192.168.1.5", "http://192.168.1.5:80"),
    ],
)
def test_addresses(host: str, url: str) -> None:
    assert page_url(host, 80) == url


def test_signals_to_the_page_alone_leave_its_end_to_its_parent(begin: Begin) -> None:
    """A service manager sends them to all processes: the page has to stop its robots first."""
    run = begin("run", ROVER, "--no-live", "--view")
    page = run.page_id
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(page, number)
    assert status_of(run.url) == 200
    assert run.interrupt() == 0
    assert wait_for_end(page, 30.0)


def test_a_browser_that_keeps_its_caller_waiting_keeps_nobody_else(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "browser $$"\nexec tail -f /dev/null\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    run = begin("view", "--example", "arm", "--open")
    page = run.page_id
    browser_id = int(run.wait_for_line(r"^browser \d+", timeout=60.0).split()[-1])
    try:
        os.kill(page, signal.SIGKILL)
        # Heard while the browser runs.
        run.wait_for_line("the page was ended by signal 9", timeout=60.0)
        assert run.interrupt() == 0
    finally:
        os.kill(browser_id, signal.SIGKILL)


@pytest.mark.parametrize("name", ["my bridge", "my-robot", "a//b"])
def test_a_bridge_that_cannot_be_is_one_line(name: str) -> None:
    done = call_cli("view", "--example", "arm", "--bridge", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"usd_ros_bridge: --bridge '{name}': nodes have names of letters, digits, _ and /\n"


def test_an_asset_that_is_missing_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "usd_ros_bridge", "view", "missing.usda", "--no-bridge", "--view-port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "usd_ros_bridge: cannot open 'missing.usda': no such file\n"
