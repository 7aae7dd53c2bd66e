"""One run of a sweep at a time, in lockstep. A worker keeps the stage, and what does not change, between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What came of a run.

    Attributes:
        id: Of the run.
        index: Of the run.
        outcome: `completed` its duration, `stopped` by a condition or by the driver, or `failed`.
        reason: Of a stop or failure, one line; "" for a completed run.
        metrics: Metrics by name; NaN where there is none. Empty for a run that failed before its first step.
        drawn: Values of the randomisation by name.
        sim_time: Simulated seconds.
        steps: Number of steps.
        setup_time: Wall-clock seconds before the first step.
        run_time: Wall-clock seconds of all steps.
    """

    id: str
    index: int
    outcome: Literal["completed", "stopped", "failed"]
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, float] = field(default_factory=dict)
    sim_time: float = 0.0
    steps: int = 0
    setup_time: float = 0.0
    run_time: float = 0.0


class RunWorker:
    """Make the runs of a sweep, one after another, in any order: a run depends on its spec alone."""

    def __init__(self, sweep: Sweep) -> None:
        """Args: sweep: What is run. Nothing is opened before the first run."""
        self._sweep = sweep

    def check(self) -> None:
        """Open the asset, and find what the sweep names in it: bodies, joints, prims, topics, functions.

        Raises:
            BridgeError: The asset cannot be opened, or something that the sweep names is not there. One line.
        """
        raise NotImplementedError

    def run(
        self,
        spec: RunSpec,
        *,
        record: Path | None = None,
        domain_id: int | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> RunOutcome:
        """Make a run.

        Args:
            spec: The run.
            record: MCAP file to write; it must not exist.
            domain_id: DDS domain of the run, for a driver that is a ROS launch file (`Sweep.needs_domain`).
            on_progress: Called with the simulated time, seconds, a few times per second.

        Returns:
            What came of it. Whatever the driver, the asset or the backend raises is a failed outcome.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the stage. Idempotent."""
