"""Network namespaces for tests that may not keep to the loopback: nothing of theirs reaches a network."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "tools" / "loopback_only.sh"


@cache
def _refusal() -> str:
    """Return why this user can make no network namespace, "" if it can."""
    tried = subprocess.run(
        [_SCRIPT, "--may-send", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    refusals = [line for line in tried.stderr.splitlines() if line.startswith("loopback_only: not in a ")]
    assert refusals or tried.returncode == 0, tried.stderr
    return "".join(refusals)


@pytest.fixture
def own_network() -> list[str]:
    """What to put before a command for it to run in a network namespace of its own.

    The namespace has a loopback, and a dummy interface with the default and multicast routes. The process keeps its id.
    """
    if _refusal():
        pytest.skip(_refusal())
    return [str(_SCRIPT), "--may-send"]
