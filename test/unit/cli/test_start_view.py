"""The start of `run` on a terminal: lines with times, and a bar while a phase takes long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from terminals import OnTerminal

pytest.importorskip("rich", reason="rich is not installed: make setup")

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[3]
START = "import sys, threading; from usd_ros_bridge.cli.start_view import TerminalView; "


def program(code: str, columns: int = 80) -> OnTerminal:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
        "COLUMNS": str(columns),
        "LINES": "24",
    }
    return OnTerminal([sys.executable, "-c", START + code], environment)


def test_a_phase_becomes_a_line_with_its_time() -> None:
    with program(
        "v = TerminalView(); v.begin('opening a.usda'); v.end('opening a.usda', 1.25); v.close()"
    ) as shown:
        assert shown.finish() == 0
    assert shown.written == b"opening a.usda ...\r\r\x1b[Kopening a.usda  1.25 s\r\n"


def test_a_phase_that_is_given_up_leaves_no_line() -> None:
    with program("v = TerminalView(); v.begin('opening a.usda'); v.close(); v.close()") as shown:
        assert shown.finish() == 0
    assert shown.written == b"opening a.usda ...\r\r\x1b[K"


def test_a_long_name_stays_in_one_line_meanwhile() -> None:
    with program("v = TerminalView(); v.begin('x' * 200); v.close()", columns=40) as shown:
        assert shown.finish() == 0
    assert shown.written.partition(b"\r")[0] == b"x" * 35 + b" ..."


def test_a_long_phase_has_a_bar_that_goes() -> None:
    start = "v = TerminalView(bar_after=0.0); v.begin('planning'); "
    with program(start + "sys.stdin.readline(); v.end('planning', 3.0); v.close()") as shown:
        # The bar's own sequences: the cursor is hidden, and the time passes.
        shown.wait_for("━".encode())
        shown.wait_for(b"0:00:0")
        shown.type(b"\n")
        assert shown.finish() == 0
    after = shown.written.rpartition("━".encode())[2]
    assert b"\x1b[?25h" in after, "the cursor is back"
    assert after.endswith(b"planning  3.00 s\r\n")


def test_control_characters_of_a_name_are_shown_as_text() -> None:
    with program(r"v = TerminalView(); v.begin('\x1b[2J'); v.end('\x1b[2J', 0.0)") as shown:
        assert shown.finish() == 0
    assert b"\x1b[2J" not in shown.written


def test_without_a_terminal_only_the_times_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from usd_ros_bridge.cli.start_view import TerminalView

    view = TerminalView()
    view.begin("planning")
    view.end("planning", 0.5)
    view.close()
    assert capsys.readouterr() == ("", "planning  0.50 s\n")
