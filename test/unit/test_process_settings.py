"""A host's process keeps its settings unless it asks; a tuned one changes them for a while and restores them."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from subprocess import PIPE

import pytest

from usd_ros_bridge import load_plan, tune_process
from usd_ros_bridge.process_settings import SWITCH_INTERVAL_S, gc_paused, short_switch_interval


@pytest.fixture
def tuned(untuned):
    tune_process()


@pytest.fixture
def usual():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_one_ends(tuned, usual):
    first, second = short_switch_interval(), short_switch_interval()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_turns_that_are_shorter_already_stay(tuned, usual):
    sys.setswitchinterval(0.0001)
    with short_switch_interval():
        assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.05)
    assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.05)


def test_what_raises_ends_it_too(tuned, usual):
    with pytest.raises(ValueError, match="no"), short_switch_interval():
        raise ValueError("no")
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_the_collector_is_paused_and_on_again(tuned):
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off(tuned):
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_nothing_changes_in_a_process_that_did_not_ask(usual):
    with gc_paused(), short_switch_interval():
        assert gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(usual)


@pytest.mark.process
def test_importing_the_package_tunes_nothing():
    code = (
        "import usd_ros_bridge, usd_ros_bridge.cli.main; from usd_ros_bridge import process_settings as p; "
    )
    done = subprocess.run([sys.executable, "-c", f"{code}assert not p._allowed"], check=False, timeout=60)
    assert done.returncode == 0


def test_planning_in_a_hosts_process_pauses_no_collector(monkeypatch):
    pytest.importorskip("pxr")
    from pxr import Usd

    def disable():
        raise AssertionError("the host did not ask for this")

    monkeypatch.setattr(gc, "disable", disable)
    monkeypatch.setattr(sys, "setswitchinterval", disable)
    load_plan(Usd.Stage.CreateInMemory(), physics=True)


class TunedError(Exception):
    """Ends a command where it tunes its process."""


def end():
    raise TunedError


def test_every_command_tunes_its_process(monkeypatch, capsys):
    from usd_ros_bridge.cli import main as cli

    tuned = []
    monkeypatch.setattr(cli, "tune_process", lambda: tuned.append(capsys.readouterr().out))
    for command in ([], ["inspect"], ["run"], ["diff"], ["scaffold"], ["resolver"], ["urdf"]):
        with pytest.raises(SystemExit) as ended:
            cli.main([*command, "--help"])
        assert ended.value.code == 0
        # Before a word of help.
        assert tuned == [""], command
        tuned.clear()
        assert "Usage: usd_ros_bridge" in capsys.readouterr().out


@pytest.mark.parametrize("role", ["BRIDGE", "ROBOT_STATE_PUBLISHER"])
def test_the_node_tunes_its_process_before_it_reads_anything(role, monkeypatch):
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    from usd_ros_bridge import options
    from usd_ros_bridge.ros import node

    monkeypatch.setattr(node, "tune_process", end)
    monkeypatch.setattr(node, "load_plan", pytest.fail)
    with pytest.raises(TunedError):
        node.main(["robot.usda"], role=getattr(options, role))


STUCK = """
import ctypes, sys, time
from usd_ros_bridge.process_settings import {ending}, own_process, run_interruptibly

def job():
    # Calls through PyDLL keep Python's lock, as a call of OpenUSD's that never returns does.
    sys.setswitchinterval(1000)
    ctypes.PyDLL(None).write(1, b"in\\n", 3)
    {job}

with own_process(), {ending}():
    run_interruptibly(job)
"""


@pytest.mark.process
@pytest.mark.parametrize("ending", ["ended_by_signals", "ending_at_once"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_that_python_cannot_end(ending, number):
    program = STUCK.format(ending=ending, job="ctypes.PyDLL(None).sleep(600)")
    with subprocess.Popen([sys.executable, "-c", program], stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout.readline() == "in\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert errors == "usd_ros_bridge: a call of OpenUSD does not end: the process is killed\n"


@pytest.mark.process
@pytest.mark.parametrize(("ending", "status"), [("ended_by_signals", 0), ("ending_at_once", 0)])
def test_a_signal_that_python_handles_is_all_that_happens(ending, status):
    program = STUCK.format(ending=ending, job="time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", program], stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGINT)
        # The streams end with the last process that has them.
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == status
