"""Progress of a sweep on the terminal: a bar, or an occasional line where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.sweep.run_record import OUTCOMES
from usd_ros_bridge.sweep.sweep_progress import SweepProgress

_LINE_EVERY_S: Final = 10.0
_SHOWN_FAULTS: Final = 5
"""Failed runs whose reason is shown; the report has all."""


class SweepView:
    """Show progress, warnings and the first failures on stderr."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._bar: Any = None
        self._task: Any = None
        self._line_due = time.monotonic() + _LINE_EVERY_S
        self._faults = 0
        self._phase = ""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show a bar meanwhile, if stderr is a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            console=Console(stderr=True),
            expand=True,
            redirect_stdout=False,
        )
        self._task = bar.add_task("starting", total=None, facts="")
        with bar:
            self._bar = bar
            try:
                yield
            finally:
                self._bar = None

    def progress(self, state: SweepProgress) -> None:
        """Show the progress of a sweep."""
        last = state.last
        if last is not None and last.outcome == "failed":
            self._faults += 1
            if self._faults <= _SHOWN_FAULTS:
                more = "; further ones are in the report" if self._faults == _SHOWN_FAULTS else ""
                self.line(f"{last.id} failed: {last.reason}{more}")
        facts = " · ".join(progress_facts(state))
        if self._bar is not None:
            phase = "runs" if state.workers else "starting"
            self._bar.update(
                self._task, description=phase, total=state.total, completed=state.done, facts=facts
            )
            return
        now = time.monotonic()
        if now >= self._line_due:
            self._line_due = now + _LINE_EVERY_S
            self.line(f"{state.done} of {state.total} runs · {facts}")

    def report(self, kind: str, message: str) -> None:
        """Show a warning."""
        del kind
        self.line(message)

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        text = f"usd_ros_bridge: {escaped(text)}"
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)


def progress_facts(state: SweepProgress) -> list[str]:
    """Return what is worth knowing of a sweep in progress."""
    facts = []
    if state.remaining is not None:
        facts.append(f"{duration_text(state.remaining)} left")
        facts.append(f"{state.runs_per_minute:.3g} runs/min")
        facts.append(f"{state.steps_per_second:,.0f} steps/s")
    facts.append(f"{state.running} running")
    facts += [
        f"{state.outcomes[each]} {each}"
        for each in OUTCOMES
        if each != "completed" and state.outcomes.get(each)
    ]
    if state.retries:
        facts.append(f"{state.retries} tried again")
    return facts


def duration_text(seconds: float) -> str:
    """Return a time as people read it: `1:02:03`, `2:03`, `7 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
