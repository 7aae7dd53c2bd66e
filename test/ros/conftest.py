"""A bridge to test, in a random domain of this run, spun in the background, and probes to look at it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

from load_reports import says_busy
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: all of them open ROS entities."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.dds)


class Reports:
    """What a bridge told people, gathered."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def __call__(self, kind: str, message: str) -> None:
        self.entries.append((kind, message))

    @property
    def faults(self) -> list[tuple[str, str]]:
        """All of them but those that say that the machine is busy."""
        return [(kind, message) for kind, message in self.entries if not says_busy(kind)]

    def containing(self, *texts: str) -> list[str]:
        return [message for _, message in self.entries if all(text in message for text in texts)]


class RunningBridge:
    """A bridge whose `spin` runs in a thread."""

    def __init__(self, bridge: Bridge, warnings: Reports, infos: Reports) -> None:
        self.bridge = bridge
        self.warnings = warnings
        self.infos = infos
        self._thread = threading.Thread(target=bridge.spin, name="test-spin")

    def start(self) -> None:
        self.bridge.open()
        self._thread.start()

    def close(self) -> None:
        self.bridge.close()
        # Long enough for a machine that is busy, and short enough for pytest to tell of it before its own time-out.
        assert self._thread.ident is None or self.has_ended(30.0)

    def has_ended(self, timeout: float) -> bool:
        """Return whether `spin` returned within a time, in seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def row(self, name: str, role: str = "publisher") -> Any:
        rows = [row for row in self.bridge.status().interfaces if row.name == name and row.role == role]
        assert len(rows) == 1, rows
        return rows[0]


Start = Callable[..., RunningBridge]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(plan, backend, options=..., **changes)`: a running bridge, closed at the end of the test."""
    with ExitStack() as stack:

        def run(
            plan: BridgePlan,
            backend: Any = "kinematic",
            *,
            options: BridgeOptions | None = None,
            node: Any = None,
            **changes: Any,
        ) -> RunningBridge:
            warnings, infos = Reports(), Reports()
            given = replace(options or BridgeOptions(), **changes)
            bridge = Bridge(plan, backend, options=given, node=node, report=warnings, inform=infos)
            running = RunningBridge(bridge, warnings, infos)
            stack.callback(running.close)
            running.start()
            return running

        yield run


@pytest.fixture
def step_on(ros_harness: Any) -> Iterator[Callable[..., Any]]:
    """`step_on(stage, **options)`: a bridge on a host's stage that the test steps, closed at its end."""
    from live_changes import Stepped

    with ExitStack() as stack:

        def run(stage: Any, **options: Any) -> Stepped:
            stepped = Stepped(stage, ros_harness, **options)
            stack.callback(stepped.bridge.close)
            return stepped

        yield run


@pytest.fixture
def edited_asset(tmp_path: Path) -> Path:
    """The stage of several robots as a file, which a bridge that opens it owns."""
    from edited_stage import edited_stage

    path = tmp_path / "robots.usda"
    edited_stage().GetRootLayer().Export(str(path))
    return path
