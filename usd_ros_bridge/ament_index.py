"""The ament index: which ROS packages and interface types are installed, read from its files.

ament_index_python knows the prefixes of AMENT_PREFIX_PATH alone, and fails where it is not set. So it is inside a
simulator that brings its own rclpy: the prefix is then the one that rclpy's own files are in. Environment variables
of a host are never changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PREFIXES: Final = "AMENT_PREFIX_PATH"
_INDEX: Final = "share/ament_index/resource_index"
_ABOVE: Final = 5
"""Folders above rclpy's that may be its prefix. In `lib/python3.12/site-packages/rclpy` it is the fourth."""


def ament_prefixes() -> Iterator[Path]:
    """Yield the prefixes of the ROS environment in their order: AMENT_PREFIX_PATH, then rclpy's own.

    rclpy's own comes last, as the distribution that workspaces are built on. It is searched only when it is asked for.
    """
    named = [Path(each).absolute() for each in os.environ.get(PREFIXES, "").split(os.pathsep) if each]
    yield from named
    own = rclpy_prefix()
    if own is not None and own not in named:
        yield own


def rclpy_prefix() -> Path | None:
    """Return the prefix with an ament index that rclpy's files are in, else None. Do not import rclpy."""
    loaded = sys.modules.get("rclpy")
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        with suppress(ImportError, ValueError):
            spec = find_spec("rclpy")
            origin = None if spec is None else spec.origin
    return None if origin is None else _prefix_of(origin)


@lru_cache(maxsize=8)
def _prefix_of(file: str) -> Path | None:
    above = Path(file).absolute().parent.parents
    return next((each for each in above[:_ABOVE] if (each / _INDEX).is_dir()), None)


def resource_names(kind: str) -> frozenset[str]:
    """Return the names of all resources of a kind: of `packages`, or of packages with `rosidl_interfaces`."""
    found: set[str] = set()
    for prefix in ament_prefixes():
        with suppress(OSError):
            found.update(each.name for each in (prefix / _INDEX / kind).iterdir() if each.is_file())
    return frozenset(found)


def resource_text(kind: str, name: str) -> str | None:
    """Return the content of a resource, None without one. `name` is a valid package name."""
    for prefix in ament_prefixes():
        with suppress(OSError, ValueError):
            return (prefix / _INDEX / kind / name).read_text(encoding="utf-8")
    return None


def share_directory(package: str) -> Path | None:
    """Return `<prefix>/share/<package>` of the first prefix that has the package, None where none has it."""
    for prefix in ament_prefixes():
        if os.path.isfile(prefix / _INDEX / "packages" / package):  # noqa: PTH113 - false for what is no name
            return prefix / "share" / package
    return None
