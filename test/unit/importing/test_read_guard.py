"""Landlock refuses the converters' process what it may not read, whatever library opens it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from programs import run_python

pytestmark = pytest.mark.app

LANDLOCK_CREATE_RULESET, VERSION = 444, 1
READ = """
import sys
from usd_ros_bridge.importing.read_guard import restrict_reads
restrict_reads([sys.argv[1]])
for file in sys.argv[2:]:
    try:
        print(open(file).read())
    except PermissionError:
        print("refused")
"""


@pytest.mark.skipif(
    ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION) < 1,
    reason="this kernel has no Landlock",
)
def test_a_process_reads_only_what_it_may(tmp_path: Path) -> None:
    for folder in ("robot", "outside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(f"text of {folder}", encoding="utf-8")
    (tmp_path / "robot/link").symlink_to(tmp_path / "outside/file")
    files = [tmp_path / "robot/file", tmp_path / "robot/link", tmp_path / "outside/file", "/dev/null"]
    done = run_python(READ, tmp_path / "robot", *files)
    assert done.stdout.splitlines() == ["text of robot", "refused", "refused", ""]
