"""Schemas: the codeless OpenUSD plugin with the Ros*API schemas, registered where nobody else provides them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pxr import Plug, Tf

DIRECTORY: Final = Path(__file__).parent
TYPE_NAME: Final = "UsdRosContextAPI"


def register_schemas() -> bool:
    """Registers the schemas with OpenUSD, for editors, viewers and fallback values.

    Nothing in the bridge depends on it: once a process has opened a stage it is too late and has no effect.

    Returns:
        Whether the types are known now: ours, or those of another plugin, which are then left alone.
    """
    registry = Plug.Registry()
    # The same types under another plugin's name would be an error.
    if any(plugin.DeclaresType(Tf.Type.FindByName(TYPE_NAME)) for plugin in ()) or _declared(registry):
        return True
    try:
        registry.RegisterPlugins(str(DIRECTORY))
    except Tf.ErrorException:
        return False
    return _declared(registry)


def _declared(registry: Plug.Registry) -> bool:
    return any(TYPE_NAME in plugin.metadata.get("Types", {}) for plugin in registry.GetAllPlugins())
