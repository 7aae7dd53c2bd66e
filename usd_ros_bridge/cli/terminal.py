"""Text from assets made safe for a terminal: no markup, no control characters, bounded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from usd_ros_bridge.errors import escaped

PIPED_WIDTH = 200

MOST_ROWS = 500
"""Rows of a table, and frames of a tree, that are drawn by rich."""

MAX_CELL = 256

SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


class TerminalConsole(Console):
    """Print rich renderables; what comes from assets and peers is neither markup nor control characters."""

    def __init__(self, **options: Any) -> None:
        """Create a console.

        Args:
            options: Those of rich.
        """
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments of text that is escaped; rich's own sequences come later, from their styles."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(escaped(text, keep="\n"), style)


class LongTable:
    """A table of very many rows as plain columns: rich takes 0.1 ms for a cell that it wraps, frames and colours."""

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
        """Store the content.

        Args:
            title: What stands above the table.
            columns: Headings.
            rows: Cells.
        """
        self._title = title
        self._lines = [columns, *([str(cell) for cell in row] for row in rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        widths = [max(map(len, column)) for column in zip(*self._lines, strict=True)]
        yield Segment(self._title)
        yield Segment.line()
        for cells in self._lines:
            padded = "  ".join([cell.ljust(width) for cell, width in zip(cells, widths, strict=True)])
            yield Segment(padded.rstrip())
            yield Segment.line()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> RenderableType:
    """Return a table that costs little, however many rows it has."""
    if len(rows) > MOST_ROWS:
        return LongTable(title, columns, rows)
    made = Table(*columns, title=title, title_justify="left")
    for row in rows:
        made.add_row(*row)
    return made


def standard_output() -> Console:
    """Return where tables go: as wide as the terminal, or wide enough for most where there is none."""
    return TerminalConsole(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def write_json(value: Any) -> None:
    """Write a value to standard output as indented JSON of printable ASCII."""
    text = json.dumps(value, indent=2, allow_nan=False)
    # The one control character that JSON leaves as it is.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def plain(value: object, *, style: str = "") -> Text:
    """Return `value` as rich text that shows control characters escaped and interprets no markup."""
    text = str(value)
    if len(text) > MAX_CELL:
        text = text[:MAX_CELL] + "..."
    return Text(escaped(text), style=style)


def number(value: float | None, *, digits: int = 4) -> Text:
    """Return a number right-aligned and short, or an empty cell for None."""
    return Text("" if value is None else f"{value:.{digits}g}", justify="right")


def vector(values: tuple[float, ...]) -> str:
    """Return numbers in brackets, short; -0 and rounding noise are shown as 0."""
    return "[" + ", ".join(f"{0.0 if abs(v) < 5e-7 else v:.4g}" for v in values) + "]"
