"""OpenUSD: stage to records. The only package that imports `pxr`.

The names below are loaded when first used: `usd.session` is imported where OpenUSD may never be needed.
"""

from __future__ import annotations

import os
import sys
from ctypes import CDLL, c_void_p
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.usd.open import open_stage
    from usd_ros_bridge.usd.read.stage_reader import read_stage
    from usd_ros_bridge.usd.schemas import register_schemas
    from usd_ros_bridge.usd.tf_errors import quiet

__all__ = [
    "load_libraries",
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
    load_libraries()
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def load_libraries() -> None:
    """Load the libraries of OpenUSD without the GIL. Does nothing if they are loaded.

    Their static constructors release the GIL and take it again, while the dynamic loader is locked. Another thread that
    got the GIL meanwhile and loads a library itself, for an extension module or the type support of an endpoint, would
    wait for the loader with the GIL, and this thread for the GIL with the loader: for ever.
    """
    if "pxr.Tf" in sys.modules or os.name != "posix":
        return
    package = find_spec("pxr")
    folders = package.submodule_search_locations if package else None
    # Called through ctypes, it runs without the GIL; `ctypes.CDLL` and an import keep it.
    dlopen = CDLL(None).dlopen
    dlopen.restype = c_void_p
    for folder in folders or ():
        for file in sorted(
            [*Path(folder).glob("Tf/_tf*.so"), *Path(folder).glob("UsdPhysics/_usdPhysics*.so")]
        ):
            # What cannot be loaded here, the import reports.
            dlopen(os.fsencode(file), sys.getdlopenflags())
