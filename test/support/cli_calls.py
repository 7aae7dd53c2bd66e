"""Run the command line in the test's own process, which saves a second of imports a call, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from usd_ros_bridge.cli.main import main

ROOT = Path(__file__).parents[2]


def call_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `usd_ros_bridge` with arguments, from the root of the repository. Return its status and its two streams.

    The streams are those of the process: what OpenUSD and other libraries print is in them, too.
    """
    given = [str(argument) for argument in arguments]
    with (
        mock.patch.dict(os.environ),
        _directory(ROOT),
        _captured(1, "stdout") as output,
        _captured(2, "stderr") as errors,
        pytest.raises(SystemExit) as end,
    ):
        main(given)
    status = int(end.value.code or 0)
    return subprocess.CompletedProcess(given, status, output.getvalue(), errors.getvalue())


def run_cli(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run `usd_ros_bridge` with arguments in a process. Return its status and its two streams.

    Args:
        arguments: Arguments of the command line.
        options: Of subprocess.run, where they differ: texts, from the root of the repository.
    """
    usual = {
        "cwd": ROOT,
        "text": True,
        "encoding": "utf-8",
        # As the streams of `call_cli`, whatever the locale.
        "env": {**os.environ, "PYTHONIOENCODING": "utf-8"},
        "timeout": 100.0,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    command = [sys.executable, "-m", "usd_ros_bridge", *map(str, arguments)]
    if options.get("text") is False:
        del usual["encoding"]
    return subprocess.run(command, check=False, **{**usual, **options})


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _captured(descriptor: int, name: str) -> Iterator[io.StringIO]:
    """Send a stream, that of Python and the one below it, into a text that is complete at the end."""
    text = io.StringIO()
    saved = os.dup(descriptor)
    getattr(sys, name).flush()
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            with (
                open(descriptor, "w", encoding="utf-8", closefd=False) as stream,
                mock.patch.object(sys, name, stream),
            ):
                yield text
        finally:
            os.dup2(saved, descriptor)
            os.close(saved)
            file.seek(0)
            text.write(file.read().decode())
