"""Schemas: register the codeless OpenUSD plugin of the Ros*API schemas unless another plugin provides them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pxr import Plug, Tf

DIRECTORY: Final = Path(__file__).parent
TYPE_NAMES: Final = frozenset({"UsdRosContextAPI", "UsdRosTopicAPI", "UsdRosControlIntegratedAPI"})
"""Types that stand for the families of schemas that the plugin declares."""


def register_schemas() -> bool:
    """Register the schemas with OpenUSD, for fallback values and tools in the same process.

    Nothing in the bridge depends on it: once a process has composed a stage it is too late and has no effect.

    Returns:
        Whether a plugin declares the types now: ours, or another's, which is then left alone.
    """
    # The same types in a plugin of another name would be an error.
    if _is_declared():
        return True
    try:
        Plug.Registry().RegisterPlugins(str(DIRECTORY))
    except Tf.ErrorException:
        return False
    return _is_declared()


def _is_declared() -> bool:
    return any(
        not TYPE_NAMES.isdisjoint(plugin.metadata.get("Types", ()))
        for plugin in Plug.Registry().GetAllPlugins()
    )
