"""tools/own_venv.sh: environments of lint, documents, wheels and other engines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.project]

ROOT = Path(__file__).parents[2]
SCRIPT = """
source tools/own_venv.sh
if needs_venv "$1" "$2"; then
  echo made
  new_venv
  if [[ -n "${3-}" ]]; then install "$3"; fi
  venv_is_whole
fi
"""


def make(*arguments: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", SCRIPT, "make_one.sh", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_an_environment_is_made_anew_when_its_files_change_or_it_is_not_whole(tmp_path: Path) -> None:
    venv, versions = tmp_path / "venv", tmp_path / "versions.txt"
    versions.write_text("one", encoding="utf-8")
    assert make(venv, versions).stdout == "made\n"
    assert make(venv, versions).stdout == ""
    versions.write_text("another", encoding="utf-8")
    assert make(venv, versions).stdout == "made\n"
    (venv / "bin/python").unlink()
    assert make(venv, versions).stdout == "made\n"


def test_without_a_network_one_line_says_so(tmp_path: Path) -> None:
    versions = tmp_path / "versions.txt"
    versions.touch()
    for _ in range(2):
        done = make(tmp_path / "venv", versions, "usd-core", PIP_NO_INDEX="1")
        assert (done.returncode, done.stdout) == (1, "made\n")
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"make_one: pip could not install into {tmp_path}/venv: ERROR: ")
        assert line.endswith("(is there a network?)")


def test_a_python_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    versions = tmp_path / "versions.txt"
    versions.touch()
    done = make(tmp_path / "venv", versions, PYTHON="/bin/false")
    assert done.returncode == 1
    assert done.stderr == "set-up: PYTHON=/bin/false is no CPython 3.10, 3.11, 3.12 or 3.13\n"
