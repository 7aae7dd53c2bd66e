"""A backend that is open: for tests of each backend, which add what they ask of it."""

from __future__ import annotations

from usd_ros_bridge.backends.base import Backend, BackendContext
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State

SECOND = 1_000_000_000


class OpenBackend:
    """A backend that is open with a plan, and what it reported.

    Attributes:
        plan: The plan.
        backend: The backend.
        first: Time of its first step, nanoseconds: times of tests begin there.
        commands: Arguments of its steps.
        reports: Kind and message of each report.
    """

    def __init__(self, plan: BridgePlan, backend: Backend, *, first: int = 0, **options: str) -> None:
        """Open the backend with options."""
        self.plan, self.backend, self.first = plan, backend, first
        self.commands = Commands(plan.layout)
        self.reports: list[tuple[str, str]] = []
        backend.open(
            BackendContext(plan=plan, report=lambda *report: self.reports.append(report), options=options)
        )

    @property
    def kinds(self) -> list[str]:
        """Kinds of the reports."""
        return [kind for kind, _ in self.reports]

    @property
    def messages(self) -> dict[str, str]:
        """The first message of each kind of report."""
        return dict(reversed(self.reports))

    def after(self, elapsed_ns: int) -> State:
        """Step to a time after that of the first step."""
        return self.backend.step(self.first + elapsed_ns, self.commands)

    def at(self, seconds: float) -> State:
        """Step to a time after that of the first step."""
        return self.after(round(seconds * SECOND))

    def row(self, dof: str) -> int:
        """Return the row of a degree of freedom."""
        return self.plan.layout.dofs.index(dof)

    def body(self, path: str) -> int:
        """Return the row of a body."""
        return self.plan.layout.bodies.index(path)
