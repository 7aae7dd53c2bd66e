"""Run a Python in which modules are missing: it does not find them, and neither do those that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def start_without(
    modules: str, code: str, *arguments: str, directory: Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code with arguments, from the root of the repository.

    Args:
        modules: Top-level modules that are missing, separated by commas.
        code: The program.
        arguments: sys.argv[1:].
        directory: An empty directory for files of this run; also the user's cache, because a plan in it needs no
            OpenUSD.
        variables: More environment variables.
    """
    (directory / "sitecustomize.py").write_text(_HIDDEN.format(modules=modules.split(",")), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))
    cache = str(directory / "cache")
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": cache, **(variables or {})},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
