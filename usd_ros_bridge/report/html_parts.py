"""Pieces of HTML. An asset is foreign input: all text that is not `Html` is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from usd_ros_bridge.errors import escaped

MAX_ROWS: Final = 2000
"""Rows of a table."""
MAX_TEXT: Final = 2000
"""Characters of a text from an asset."""


class Html(str):
    """Text that is HTML: it is written as it is."""

    __slots__ = ()


def text(value: object, *, limit: int | None = MAX_TEXT) -> Html:
    """Return a value as HTML: markup and quotes escaped, control characters made visible.

    Args:
        value: What to show. `Html` is returned as it is.
        limit: Characters that are shown, None for all.
    """
    if isinstance(value, Html):
        return value
    shown = str(value)
    if limit is not None and len(shown) > limit:
        shown = shown[:limit] + "..."
    return Html(html.escape(escaped(shown, keep="\n"), quote=True))


def element(tag: str, content: object, **attributes: object) -> Html:
    """Return an element. A trailing `_` of an attribute's name is dropped, an inner one becomes a hyphen."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>{text(content)}</{tag}>")


def joined(parts: Iterable[object], separator: str = "") -> Html:
    """Return parts one after another, those that are not HTML escaped."""
    return Html(text(Html(separator)).join(text(each) for each in parts))


def prim(path: str) -> Html:
    """Return a prim path. Where it is too long for its cell, its beginning is cut; the pointer shows it whole."""
    return (
        Html(f'<code class="prim" title="{text(path)}"><bdi>{text(path)}</bdi></code>') if path else Html("")
    )


def number(value: float | None, *, digits: int = 4) -> str:
    """Return a number, short; "" for None and what is not finite."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{0.0 if abs(value) < 5e-13 else value:.{digits}g}"


def numbers(values: Iterable[float]) -> str:
    """Return short numbers with commas. -0 and rounding noise become 0."""
    return ", ".join(f"{0.0 if abs(value) < 5e-7 else value:.4g}" for value in values)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, row_classes: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a table; nothing if it has no rows.

    Args:
        columns: Headings. `#` before one: the column has numbers; `~`: it has sentences, and is wide.
        rows: Cells: text, HTML, numbers, or None for an empty cell.
        row_classes: Classes of the rows, if they have any.
    """
    found = list(rows)
    if not found:
        return
    classes = [_class({"#": "number", "~": "wide"}.get(each[0], "")) for each in columns]
    heads = "".join(
        f'<th scope="col"{style}>{text(each.lstrip("#~"))}</th>'
        for each, style in zip(columns, classes, strict=True)
    )
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>'
    for index, row in enumerate(found[:MAX_ROWS]):
        cells = "".join(f"<td{style}>{_cell(value)}</td>" for value, style in zip(row, classes, strict=True))
        yield f"<tr{_class(row_classes[index] if row_classes else '')}>{cells}</tr>"
    yield "</tbody></table></div>"
    if len(found) > MAX_ROWS:
        yield f'<p class="quiet">The first {MAX_ROWS} of {len(found)} rows.</p>'


def facts(rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Yield names with values; those whose value is "" or None are left out."""
    shown = [(name, value) for name, value in rows if value not in ("", None)]
    if shown:
        yield '<dl class="facts">'
        yield from (f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in shown)
        yield "</dl>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return text(number(value) if isinstance(value, float) else value)
