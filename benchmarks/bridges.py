"""Bridges that benchmarks step in this process: quiet, and with the write forced where nobody listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError
from usd_ros_bridge import Bridge, BridgeOptions
from usd_ros_bridge.model.plan import BridgePlan

_OVERRUN = "loop.overrun"
"""Ticks that take longer than their period are no fault of the run: how long they take is the figure."""


class SteppedBridge:
    """An open bridge and the time that it is stepped to.

    Attributes:
        bridge: Open.
    """

    def __init__(self, bridge: Bridge, period_ns: int) -> None:
        """Stores what to step.

        Args:
            bridge: Open.
            period_ns: What each step adds to bridge time.
        """
        self.bridge = bridge
        self._times = count(1_000_000_000, period_ns)

    def step(self) -> None:
        """Steps once, one period later."""
        self.bridge.step(next(self._times))

    def published(self) -> int:
        """Returns how many messages it has published on topics that move: all but the latched ones."""
        rows = self.bridge.status().interfaces
        return sum(
            row.count for row in rows if row.role == "publisher" and not row.name.endswith("tf_static")
        )

    def check_writes(self, each_step: int) -> None:
        """Makes sure that a step publishes `each_step` messages, no more and no less.

        Raises:
            BenchmarkError: It does not, so that what is timed would not be what the figure says.
        """
        before, steps = self.published(), 10
        for _ in range(steps):
            self.step()
        got = self.published() - before
        if got != each_step * steps:
            raise BenchmarkError(
                f"{steps} steps published {got} messages where {each_step * steps} were expected"
            )


@contextmanager
def stepped(
    plan: BridgePlan,
    backend: Any,
    *,
    period_ns: int,
    forced: bool,
    tf_rate: float | None = None,
    record: Path | None = None,
) -> Iterator[SteppedBridge]:
    """Opens a bridge for the time of a `with` block.

    Args:
        plan: What to bring to life.
        backend: Name or instance.
        period_ns: What each step adds to bridge time.
        forced: Write messages although nobody listens.
        tf_rate: As in `BridgeOptions`; None sends transforms at every step.
        record: As in `BridgeOptions`.

    Raises:
        BenchmarkError: The bridge warned.
    """
    reports: list[str] = []
    options = BridgeOptions(
        node_name="recorded" if record else "forced" if forced else "idle",
        tf_rate=tf_rate,
        # Made once, beside the first ticks: not what is measured.
        publish_description=False,
        publish_unmatched=forced,
        record=record,
    )

    def note(kind: str, message: str) -> None:
        if kind != _OVERRUN:
            reports.append(message)

    with Bridge(plan, backend, options=options, report=note, inform=lambda *_: None) as bridge:
        yield SteppedBridge(bridge, period_ns)
    if reports:
        raise BenchmarkError(f"the bridge warned: {reports[0]}")
