"""Texts of plans that are the same in each clone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def text_without_folder(value: Any, folder: Path) -> str:
    """Return a value as JSON, with `<test>` in place of a folder. Its path may have spaces, quotes and any letter.

    Args:
        value: What JSON can hold.
        folder: Folder that messages name.
    """
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    # As a shell needs it: a message may have a command.
    return re.sub(
        r"'(<test>[^']*)'(?= -| *$)", r"\1", text.replace(str(folder), "<test>"), flags=re.MULTILINE
    )
