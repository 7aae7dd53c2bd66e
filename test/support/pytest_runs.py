"""Runs of pytest on a suite that a test writes, in a process of their own: as a user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
ROVER = ROOT / "examples" / "rover" / "rover.usda"


class Suite:
    """Files of a user, and runs of pytest on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def write(self, name: str, text: str) -> Path:
        """Write a file; ROVER stands for the path of the rover."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n").replace("ROVER", repr(str(ROVER))), encoding="utf-8")
        return path

    def run(self, *arguments: str, timeout: float = 200.0) -> subprocess.CompletedProcess[str]:
        """Run pytest on the folder. Return status and output; errors are in the output."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def passes(self, *arguments: str) -> str:
        """Run pytest, which has to pass. Return the output."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def fails(self, *arguments: str) -> str:
        """Run pytest, in which tests have to fail. Return the output."""
        done = self.run(*arguments)
        assert done.returncode == 1, done.stdout
        return done.stdout
