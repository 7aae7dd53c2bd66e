"""Sweep files: YAML, checked by the JSON Schema of the package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from usd_ros_bridge.sweep.sweep_description import Sweep


def load_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Read a sweep file.

    Raises:
        OptionError: The file cannot be read, or is no sweep: one line with the file, line, and place in the document.
        BridgeError: PyYAML or jsonschema is not installed.
    """
    raise NotImplementedError


def parse_sweep(document: Mapping[str, Any], *, source: str = "sweep", directory: str = "") -> Sweep:
    """Make a sweep of the contents of a sweep file.

    Args:
        document: The contents, as YAML or JSON gives them.
        source: What messages call it.
        directory: Folder that relative paths count from.

    Raises:
        OptionError: It is no sweep.
    """
    raise NotImplementedError


def sweep_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of sweep files."""
    raise NotImplementedError
