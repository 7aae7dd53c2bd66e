"""Tests that run in a process of their own, because of what they leave behind in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

_INSIDE = "USD_ROS_BRIDGE_OWN_PROCESS"
_TIMEOUT_S = 280.0


def own_process(function: Callable[..., None]) -> Callable[..., None]:
    """Run a test by a pytest of its own.

    Fast DDS has to be told of a discovery server by the environment. A process that has opened one participant like
    this finds nobody without a server any more.
    """
    if os.environ.get(_INSIDE):
        return function

    def run(request: pytest.FixtureRequest) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        options = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, request.node.nodeid],
            cwd=request.config.rootpath,
            env={**environment, _INSIDE: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        if skipped := [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]:
            pytest.skip(skipped[0].partition(": ")[2])

    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    run.pytestmark = [*getattr(function, "pytestmark", []), pytest.mark.process]  # type: ignore[attr-defined]
    return run
