"""Globs over prim paths: `*`, `?` and `[...]` within a name, `**` over any number of levels."""

from __future__ import annotations

import re
from typing import Final

WILDCARD: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[[^][/]+\]")
_PARTS: Final = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the pattern of the paths that a glob matches as a whole."""
    written, at = "", 0
    for match in WILDCARD.finditer(glob):
        part = match.group()
        written += re.escape(glob[at : match.start()]) + (_PARTS.get(part) or _characters(part))
        at = match.end()
    return re.compile(written + re.escape(glob[at:]))


def _characters(part: str) -> str:
    """Return the regular expression of `[...]`, which `!` negates."""
    inside = part[1:-1].replace("\\", "\\\\")
    if inside.startswith("!") and len(inside) > 1:
        return f"[^/{inside[1:]}]"
    return f"[\\{inside}]" if inside.startswith(("^", "!")) else f"[{inside}]"
