"""The processes of a fleet: what they print is shown as it is, and none is left, whatever they do."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.fleet import fleet_processes
from usd_ros_bridge.fleet.fleet_processes import FleetProcesses
from usd_ros_bridge.fleet.shards import FleetShard

pytestmark = [pytest.mark.app, pytest.mark.process]


def fleet(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> FleetProcesses:
    """A fleet whose shards are shell scripts; `$N` is the number of a shard."""
    body = " ".join(f"{number}) {script};;" for number, script in enumerate(scripts, 1))
    monkeypatch.setattr(fleet_processes, "OWN_COMMAND", ("/bin/sh", "-c", f'case "$1" in {body} esac', "sh"))
    monkeypatch.setattr(FleetShard, "arguments", lambda self: [str(self.number)])
    shards = [
        FleetShard(number=number, node_name=f"bridge_{number}", namespace="", parameters={})
        for number in range(1, len(scripts) + 1)
    ]
    return FleetProcesses(shards)


def test_each_line_has_the_number_of_its_shard(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also bytes that are no text in this locale, and a last line without an end."""
    made = fleet(monkeypatch, r"printf 'Pr\374fstand\r\n'; printf 'last' >&2; exit 3")
    assert made.run() == 3
    written = capfdbinary.readouterr().out
    assert written.startswith(b"[1] Pr\xfcfstand\n")
    assert b"[1] last\n" in written
    assert b"fleet: shard 1 ended with status 3\n" in written


def test_all_are_ready_once_each_is(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ready = 'printf \'%s{"state": "ready", "robots": 1}\\n\' "$USD_ROS_BRIDGE_STATUS_PREFIX"; exit 0'
    assert fleet(monkeypatch, ready).run() == 0
    assert b"fleet: 1 shard ready, 1 robot\n" in capfdbinary.readouterr().out


def test_shards_that_do_not_end_are_killed_with_what_they_have_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fleet_processes, "_INTERRUPT_S", 0.5)
    left = tmp_path / "left"
    stubborn = f"trap '' INT TERM; sleep 600 & echo $! > '{left}'; touch '{left}.there'; wait; sleep 600"
    made = fleet(monkeypatch, stubborn, f"while ! [ -e '{left}.there' ]; do sleep 0.1; done; exit 4")
    assert made.run() == 4
    state = Path(f"/proc/{int(left.read_text(encoding='utf-8'))}/stat")
    deadline = time.monotonic() + 60.0
    # The kernel may take a moment. A zombie has ended, and waits for whoever adopted it.
    while state.exists() and state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_shard_has_ended_although_its_child_holds_the_pipe_open(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(fleet_processes, "_DRAIN_S", 0.5)
    assert fleet(monkeypatch, "setsid sleep 600 & echo $!; exit 3").run() == 3
    child = int(capfdbinary.readouterr().out.split()[1])
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def test_a_command_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fleet(monkeypatch, "exit 0")
    monkeypatch.setattr(fleet_processes, "OWN_COMMAND", ("/no/such/program",))
    with pytest.raises(BridgeError, match=r"^shard 1 cannot be started: No such file or directory$"):
        made.run()
