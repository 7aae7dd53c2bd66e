"""OpenUSD: stage to records. The only package that imports `pxr`.

The names below are loaded when first used: `usd.session` is imported where OpenUSD may never be needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.usd.open import open_stage
    from usd_ros_bridge.usd.read.stage_reader import read_stage
    from usd_ros_bridge.usd.schemas import register_schemas
    from usd_ros_bridge.usd.tf_errors import quiet

__all__ = [
    "open_stage",
    "quiet",
    "read_stage",
    "register_schemas",
]

_HOMES = {
    "open_stage": "open",
    "quiet": "tf_errors",
    "read_stage": "read.stage_reader",
    "register_schemas": "schemas",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
