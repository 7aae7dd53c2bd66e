"""What asks a running bridge for a change, and what answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.options import PlanOptions, VariantSelection
from usd_ros_bridge.model.plan import BridgePlan

Edit = Callable[[Any], object]
"""`edit(stage)` edits a stage; what it raises refuses the change."""


class Changes(Protocol):
    """The way to change a running bridge. Everything here may be called from any thread."""

    @property
    def plan(self) -> BridgePlan:
        """The plan that is live."""
        ...

    @property
    def plan_options(self) -> PlanOptions:
        """How it was made; what requests that wait still have asked for included."""
        ...

    @property
    def variants(self) -> tuple[VariantSelection, ...]:
        """The selections that override the authored ones; those of requests that wait still included."""
        ...

    def refuse_variants(self, selections: Sequence[VariantSelection]) -> str:
        """Returns why selections are not possible, "" where they are; looks at the stage, waiting its turn."""
        ...

    def request(
        self,
        *,
        why: str,
        variants: Sequence[VariantSelection] | None = None,
        options: Callable[[PlanOptions], PlanOptions] | None = None,
        edit: Edit | None = None,
    ) -> Future[ChangeReport]:
        """Asks for a change: the stage is read anew, and the bridge goes on with what it has become.

        Requests that wait are carried out together. A change that is refused leaves everything that runs, and takes
        back what it did to the stage's session layer and to the options.

        Args:
            why: For people.
            variants: All selections that are to override authored ones: those before that are not among them end.
            options: Returns the options that are to hold, given those that do.
            edit: Edits the stage before it is read.

        Returns:
            What became of it. It fails with BridgeError, which says why, where the change is refused.
        """
        ...

    def on_change(self, call: Callable[[ChangeReport], None]) -> None:
        """Has `call(report)` called after each change, where the callbacks of the bridge's own node run."""
        ...
