"""Globs over prim paths: `*` and `?` within a name, `**` over any number of levels."""

from __future__ import annotations

import re
from typing import Final

WILDCARD: Final = re.compile(r"\*\*/|\*\*|\*|\?")
_PARTS: Final = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the pattern of the paths that a glob matches as a whole."""
    written, at = "", 0
    for match in WILDCARD.finditer(glob):
        written += re.escape(glob[at : match.start()]) + _PARTS[match.group()]
        at = match.end()
    return re.compile(written + re.escape(glob[at:]))
