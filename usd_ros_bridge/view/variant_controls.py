"""Variant controls: drop-downs that switch the variants of the running bridge."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.message_types import LOG
from usd_ros_bridge.options import VariantSelection, VariantSet, parse_variants
from usd_ros_bridge.view.control_panel import JobQueue, notify, one_line, show_fault
from usd_ros_bridge.view.node_parameters import RemoteParameters
from usd_ros_bridge.view.page_component import PageContext

VARIANTS = "variants"
SETS_AT_ONCE = 8
"""Variant sets that are all shown; of more, those of one prim."""

NONE = "(none)"
_REASON_S = 1.0
"""How long to wait for the reason of a late refusal, seconds."""
_CHECK_S = 2.0
"""How often to ask for the parameter: an event is lost that comes before the page is known to the bridge, seconds."""
_LOG_TOPIC = "/rosout"


class VariantControls:
    """The tab "Simulation": its second part. A drop-down for each variant set; the bridge's parameter is the state."""

    def __init__(self) -> None:
        self._jobs = JobQueue(lambda error: show_fault(self._context, error))
        self._context: PageContext | None = None
        self._parameters: RemoteParameters | None = None
        self._log: Any = None
        self._sets: Sequence[VariantSet] = ()
        self._live: tuple[VariantSelection, ...] = ()
        self._before: tuple[VariantSelection, ...] | None = None
        self._refusal = ""
        self._set_back_s: float | None = None
        self._requests = self._unanswered = 0
        self._is_asking = False
        self._check_s = 0.0
        self._folder: Any = None
        self._inner: Any = None
        self._choices: dict[tuple[str, str], Any] = {}

    def open(self, context: PageContext) -> None:
        """Add the drop-downs; nothing if the page only shows, or the asset has no variants."""
        self._sets = tuple(each for each in context.plan.variant_sets if each.variants)
        if not (context.drives and self._sets):
            return
        self._context = context
        self._live = context.plan.variants
        self._parameters = RemoteParameters(context.graph, context.bridge)
        gui, jobs = context.server.gui, self._jobs
        with context.tabs["Simulation"]:
            self._folder = gui.add_folder("Variants")
        with self._folder:
            shown: Sequence[VariantSet] = self._sets
            if len(self._sets) > SETS_AT_ONCE:
                prims = {one_line(each.prim_path): each.prim_path for each in self._sets}
                first = next(iter(prims))
                prim = gui.add_dropdown("Prim", tuple(prims), initial_value=first)
                prim.on_update(jobs.value_callback(lambda label: self._show_prim(prims.get(label, ""))))
                shown = self._sets_of(prims[first])
            self._inner = gui.add_folder(None)
            gui.add_button("As authored", hint="End all selections of the bridge").on_click(
                jobs.callback(lambda: self._request(()))
            )
        self._add_choices(shown)

    def resume(self) -> None:
        """Follow the parameter, and the log for the reasons of refusals that come late."""
        context, parameters = self._context, self._parameters
        if context is None or parameters is None:
            return
        parameters.follow(lambda values: self._jobs.submit(partial(self._changed, values)))
        self._log = context.graph.subscribe(_LOG_TOPIC, LOG, self._read_log)
        self._jobs.when_done(parameters.get((VARIANTS,)), self._received)

    def update(self) -> None:
        """Run what the user asked for, and say what the bridge has refused."""
        self._jobs.run_pending()
        self._check()
        since, refusal = self._set_back_s, self._refusal
        if self._context is None or since is None:
            return
        if refusal or time.monotonic() - since > _REASON_S:
            self._set_back_s = None
            notify(self._context, "The bridge set the variant back", refusal or "its log has the reason")

    def pause(self) -> None:
        """Unsubscribe."""
        log, self._log = self._log, None
        if self._context is not None and log is not None:
            self._context.graph.destroy(log)
        if self._parameters is not None:
            self._parameters.unfollow()

    def close(self) -> None:
        """Remove the drop-downs and the clients. Idempotent."""
        self.pause()
        self._context = None
        self._choices.clear()
        parameters, self._parameters = self._parameters, None
        folder, self._folder = self._folder, None
        if parameters is not None:
            parameters.close()
        if folder is not None:
            folder.remove()

    # --- The GUI ----------------------------------------------------------------------------------------------------

    def _sets_of(self, prim: str) -> Sequence[VariantSet]:
        return [each for each in self._sets if each.prim_path == prim]

    def _show_prim(self, prim: str) -> None:
        for choice in self._choices.values():
            choice.remove()
        self._choices.clear()
        self._add_choices(self._sets_of(prim))
        self._show()

    def _add_choices(self, sets: Sequence[VariantSet]) -> None:
        context = self._context
        assert context is not None
        for each in sets:
            labels = tuple(dict.fromkeys((*([] if each.selected else [NONE]), *each.variants)))
            with self._inner:
                choice = context.server.gui.add_dropdown(
                    one_line(each.name),
                    labels,
                    initial_value=each.selected if each.selected in labels else labels[0],
                    hint=one_line(f"{each.prim_path}: variant set {each.name}"),
                )
            choice.on_update(self._jobs.value_callback(partial(self._choose, each)))
            self._choices[each.prim_path, each.name] = choice

    def _shown_variant(self, each: VariantSet) -> str:
        """Return the variant that is live: the bridge's own selection, else what was composed."""
        for selection in self._live:
            if (selection.prim_path, selection.variant_set) == (each.prim_path, each.name):
                return selection.variant
        return each.selected or NONE

    def _show(self) -> None:
        for each in self._sets:
            choice = self._choices.get((each.prim_path, each.name))
            variant = self._shown_variant(each)
            if choice is not None and variant in choice.options:
                self._jobs.set_value(choice, variant)

    # --- The parameter ----------------------------------------------------------------------------------------------

    def _choose(self, each: VariantSet, variant: str) -> None:
        if variant not in each.variants:
            return
        kept = [
            selection
            for selection in self._live
            if (selection.prim_path, selection.variant_set) != (each.prim_path, each.name)
        ]
        self._request((*kept, VariantSelection(each.prim_path, each.name, variant)))

    def _request(self, selections: tuple[VariantSelection, ...]) -> None:
        if self._parameters is None:
            return
        # Also what the page believes to be live: the bridge may have changed, and a user's click is never dropped.
        self._before, self._live, self._refusal = self._live, selections, ""
        self._requests += 1
        self._unanswered += 1
        texts = [str(each) for each in selections] or [""]
        self._jobs.when_done(self._parameters.set(VARIANTS, texts), partial(self._answered, selections))

    def _answered(self, requested: tuple[VariantSelection, ...], refusal: str | None, fault: str) -> None:
        self._unanswered -= 1
        if self._context is None or not (fault or refusal):
            return
        notify(self._context, "The variant stays", fault or refusal or "")
        if self._live == requested and self._before is not None:
            self._live, self._before = self._before, None
        self._show()

    def _received(self, values: Mapping[str, Any] | None, fault: str) -> None:
        """Show the selections that the bridge has at first."""
        live = None if fault else self._selections(values)
        if live is not None and self._before is None:
            self._live = live
            self._show()

    def _check(self) -> None:
        """Ask for the selections sometimes, but not while a request is on its way: two services keep no order."""
        is_due = not (self._is_asking or self._unanswered) and time.monotonic() >= self._check_s
        if self._context is None or self._parameters is None or not is_due:
            return
        self._is_asking = True
        requests = self._requests

        def answered(values: Mapping[str, Any] | None, fault: str) -> None:
            self._is_asking, self._check_s = False, time.monotonic() + _CHECK_S
            # The answer to a question from before a request says nothing.
            if not fault and values is not None and requests == self._requests:
                self._changed(values)

        self._jobs.when_done(self._parameters.get((VARIANTS,)), answered)

    def _changed(self, values: Mapping[str, Any]) -> None:
        """Show the selections that the bridge has now.

        It sets them back where planning shows that a request is impossible, which was answered by then.
        """
        live = self._selections(values)
        if live is None or live == self._live:
            return
        if live == self._before:
            # The reason comes by another topic.
            self._set_back_s = time.monotonic()
        self._before, self._live = None, live
        self._show()

    def _selections(self, values: Mapping[str, Any] | None) -> tuple[VariantSelection, ...] | None:
        """Return the selections among values of parameters, None if they are not among them."""
        if self._context is None or not values or VARIANTS not in values:
            return None
        try:
            return parse_variants(each for each in values[VARIANTS] or () if each)
        except OptionError as error:
            self._context.report("view.variants", f"the variants of the bridge cannot be read: {error}")
            return None

    def _read_log(self, message: Any) -> None:
        """Find why a change was refused; in the thread of the domain."""
        _, found, reason = message.msg.partition("set back: ")
        if found and VARIANTS in message.msg:
            self._refusal = reason
