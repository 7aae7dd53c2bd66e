"""Resolver of package:// in this process: the compiled ArResolver of REP 0158 section 1.2.5, or links to packages.

The resolver is an OpenUSD plugin in C++ (`resolver.cpp`), optional, and built against one OpenUSD (`build.py`). Where
it was built for the one that runs here, the bridge registers it; where not, `usd/packages.py` makes links instead.
OpenUSD collects its resolvers when a process first resolves anything: later it is too late, and links it is again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from pxr import Ar, Plug, Tf, Usd

from usd_ros_bridge.errors import OptionError

SCHEME_NAME: Final = "package"
PLUGIN: Final = "usdRosBridgePackages"
RESOLVER_TYPE: Final = "UsdRosBridgePackageResolver"
PLUGIN_FILE: Final = "plugInfo.json"

_LIBRARY: Final = re.compile(r"lib\w*(usd|pxr|Pxr)_?\w*[-.].*so[.\d]*")
"""File names of OpenUSD's libraries: one of all (libusd_ms), or one per module, with the prefix of the build."""


class PackageResolution(Enum):
    """How package:// is resolved in this process."""

    LINKS = "links"
    PLUGIN = "plugin"
    HOST = "host"


@cache
def register_resolver() -> PackageResolution:
    """Register the plugin with OpenUSD, where it was built for this one and nothing resolves package:// yet.

    Returns:
        What resolves package:// in this process from now on.
    """
    directory = default_directory()
    if (directory / PLUGIN_FILE).is_file() and not _claimants():
        # A folder that cannot be read is as good as none.
        with suppress(Tf.ErrorException):
            Plug.Registry().RegisterPlugins(str(directory))
    return resolution_in_use()


@cache
def resolution_in_use() -> PackageResolution:
    """Return what resolves package:// in this process: OpenUSD collects resolvers once, at this call at the latest."""
    if SCHEME_NAME not in Ar.GetRegisteredURISchemes():
        return PackageResolution.LINKS
    claimants = _claimants()
    # Of several, OpenUSD takes the first by its type's name.
    first = min(claimants, default="")
    if first and not _loads(claimants[first]):
        return PackageResolution.LINKS
    return PackageResolution.PLUGIN if first == RESOLVER_TYPE else PackageResolution.HOST


def context_with(packages: Mapping[str, Path], search: str) -> Any:
    """Return a resolver context for the plugin.

    Args:
        packages: Directories by name, which go before the environment's.
        search: Directory that relative paths are searched in, "" for none, as OpenUSD has it by default.

    Raises:
        OptionError: A directory's name cannot be passed to OpenUSD.
    """
    for name, directory in packages.items():
        if "\n" in str(directory) or not str(directory).isprintable():
            raise OptionError(
                f"package {name}: its directory has characters that OpenUSD's plugin cannot take"
            )
    lines = "".join(f"{name}={directory}\n" for name, directory in packages.items())
    return Ar.GetResolver().CreateContextFromStrings([("", search), (SCHEME_NAME, lines)])


def packages_in(context: Any) -> dict[str, str]:
    """Return the directories of packages that a resolver context of the plugin's holds."""
    return next((dict(held) for held in context.Get() if isinstance(held, dict)), {})


def default_directory() -> Path:
    """Return where the plugin is for the OpenUSD and the Python that run, built or not: below $XDG_DATA_HOME."""
    # The last for users without a home. Never a relative one: what lies in the working directory is not to be loaded.
    homes = (os.environ.get("XDG_DATA_HOME", ""), os.path.expanduser("~/.local/share"), f"{sys.prefix}/share")  # noqa: PTH111
    home = next(Path(home) for home in homes if os.path.isabs(home))  # noqa: PTH117
    return home / "usd_ros_bridge" / "resolver" / build_key()


def build_key() -> str:
    """Return a name that differs wherever a plugin built for one OpenUSD and Python would not load into another."""
    names = sorted(path.name for path in libraries())
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{openusd_version()}-{python}-{digest}"


def openusd_version() -> str:
    """Return the release of OpenUSD as it is known by: 26.8."""
    return ".".join(str(part) for part in Usd.GetVersion()[1:])


def libraries() -> list[Path]:
    """Return the libraries of the OpenUSD that is loaded."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    files = {fields[5] for line in maps.splitlines() if len(fields := line.split(maxsplit=5)) == 6}
    return sorted(
        path for path in map(Path, files) if _LIBRARY.fullmatch(path.name) and PLUGIN not in path.name
    )


def _claimants() -> dict[str, Any]:
    """Return the plugins that say they resolve package://, by the name of the type that does."""
    return {
        name: plugin
        for plugin in Plug.Registry().GetAllPlugins()
        for name, said in plugin.metadata.get("Types", {}).items()
        if isinstance(said, dict)
        and any(str(scheme).lower() == SCHEME_NAME for scheme in said.get("uriSchemes", ()))
    }


def _loads(plugin: Any) -> bool:
    """Return whether a plugin's library is, or can be, loaded: one built for another OpenUSD cannot."""
    if plugin.isLoaded:
        return True
    with suppress(Tf.ErrorException):
        return bool(plugin.Load())
    with suppress(Tf.ErrorException):
        # OpenUSD tries once more, and would raise into whatever resolves first.
        Ar.GetResolver().Resolve("package:/")
    return False
