"""Text of assets and peers as HTML of the page: viser shows HTML, also that in Markdown, as it is."""

from __future__ import annotations

import html
from collections.abc import Iterable

from usd_ros_bridge.errors import escaped

MAX_TEXT = 300
"""Characters of one text that are shown."""

_MUTED = "opacity:0.65"
_BLOCK = "font-size:0.8em;line-height:1.45;padding:0.15em 0.75em;overflow-wrap:anywhere"
_PRE = (
    "font-size:0.78em;line-height:1.4;margin:0;padding:0.25em 0.75em;overflow:auto;max-height:24em;"
    "font-family:monospace;white-space:pre"
)


def html_text(text: str, *, limit: int = MAX_TEXT) -> str:
    """Return text from outside for HTML: no markup, no control characters, at most `limit` characters."""
    shown = text if len(text) <= limit else text[:limit] + "..."
    return html.escape(escaped(shown))


def paragraph(text: str) -> str:
    """Return a short text from outside as a muted line."""
    return f'<div style="{_BLOCK};{_MUTED}">{html_text(text)}</div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values, one a line; both may come from outside."""
    lines = "".join(
        f'<div><span style="{_MUTED}">{html_text(name)}</span> {html_text(value)}</div>'
        for name, value in rows
    )
    return f'<div style="{_BLOCK}">{lines}</div>'


def preformatted(lines: Iterable[str]) -> str:
    """Return lines from outside as they are, in a box that scrolls."""
    text = "\n".join(html_text(line) for line in lines)
    return f'<pre style="{_PRE}">{text}</pre>'
