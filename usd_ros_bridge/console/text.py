"""Text from assets made safe for a terminal: no markup, no control characters, bounded."""

from __future__ import annotations

from rich.text import Text

MAX_CELL = 256

SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def plain(value: object, *, style: str = "") -> Text:
    """Returns `value` as rich text that shows control characters escaped and interprets no markup."""
    text = str(value)
    if len(text) > MAX_CELL:
        text = text[:MAX_CELL] + "..."
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return Text(shown, style=style)


def number(value: float | None, *, digits: int = 4) -> Text:
    """Returns a number right-aligned and short, or an empty cell for None."""
    return Text("" if value is None else f"{value:.{digits}g}", justify="right")


def vector(values: tuple[float, ...]) -> str:
    """Returns numbers in brackets, short; -0 and rounding noise are shown as 0."""
    return "[" + ", ".join(f"{0.0 if abs(v) < 5e-7 else v:.4g}" for v in values) + "]"
