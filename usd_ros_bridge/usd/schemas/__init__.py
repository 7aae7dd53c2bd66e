"""Schemas: register the codeless OpenUSD plugins of the Ros*API schemas and of our plug-ins with OpenUSD."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pxr import Plug, Tf

from usd_ros_bridge.plugins import installed_entries

DIRECTORY: Final = Path(__file__).parent
TYPE_NAMES: Final = frozenset({"UsdRosContextAPI", "UsdRosTopicAPI", "UsdRosControlIntegratedAPI"})
"""Types that stand for the families of schemas that the plugin declares."""
_FOLDER: Final = "schema"
_GROUPS: Final = ("controllers", "sensors")
"""Groups of entry points whose names are API schemas."""


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


def register_plugin_schemas() -> tuple[Path, ...]:
    """Register the schemas of installed plug-ins of the bridge: `schema/plugInfo.json` in their packages.

    Nothing of the plug-ins is imported. As with `register_schemas`, nothing depends on it but tools in the process.

    Returns:
        The folders that are registered. One that OpenUSD refuses is left out.
    """
    folders = []
    for folder in plugin_schema_folders():
        try:
            Plug.Registry().RegisterPlugins(str(folder))
        except Tf.ErrorException:
            continue
        folders.append(folder)
    return tuple(folders)


def plugin_schema_folders() -> tuple[Path, ...]:
    """Return the folders with schemas of installed plug-ins, for PXR_PLUGINPATH_NAME. Imports nothing of them."""
    packages = {
        entry.value.partition(":")[0].partition(".")[0]
        for group in _GROUPS
        for entry in installed_entries(group)
    }
    specs = [find_spec(name) for name in sorted(packages) if name]
    roots = [root for spec in specs if spec is not None for root in spec.submodule_search_locations or ()]
    folders = [Path(root) / _FOLDER for root in roots]
    return tuple(folder for folder in folders if (folder / "plugInfo.json").is_file())


def _is_declared() -> bool:
    return any(
        not TYPE_NAMES.isdisjoint(plugin.metadata.get("Types", ()))
        for plugin in Plug.Registry().GetAllPlugins()
    )
