"""The output of the supervisor: each line of a shard, whatever the process's own streams are."""

from __future__ import annotations

import io
import sys

import pytest

from usd_ros_bridge.fleet.supervisor import print_line


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_letters_that_a_stream_cannot_have_are_escaped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own streams of a Latin-1 locale refuse them."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, name, io.TextIOWrapper(written, encoding="latin-1", errors="strict"))
    print_line("Pr\u00fcfstand \u2192 ready", name == "stderr")
    print_line("next", name == "stderr")
    assert written.getvalue() == b"Pr\xfcfstand \\u2192 ready\nnext\n"


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_stream_has_no_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, name, None)
    print_line("a line", name == "stderr")
