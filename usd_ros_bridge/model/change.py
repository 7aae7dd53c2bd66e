"""What became of a change of a running bridge: data only."""

from __future__ import annotations

from dataclasses import dataclass

from usd_ros_bridge.model.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """A change that was carried out: the bridge goes on with another plan, or with an equal one.

    Attributes:
        why: What asked for it, for people (`variants`, `an edit of the stage`, `robot.usda changed`).
        opened: What was opened, as `publisher /rover/scan`.
        closed: What was closed, likewise.
        kept: How many interfaces stayed as they were, with their peers, counters and schedules.
        found: Diagnostics that the plan before did not have.
        planning_s: Wall seconds from the request until the new plan was there.
        swap_s: Wall seconds between two ticks that the change took.
    """

    why: str
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    kept: int = 0
    found: tuple[Diagnostic, ...] = ()
    planning_s: float = 0.0
    swap_s: float = 0.0

    def __str__(self) -> str:
        """One line for a log."""
        parts = [f"{len(self.opened)} opened", f"{len(self.closed)} closed", f"{self.kept} unchanged"]
        return f"{self.why}: {', '.join(parts)}"
