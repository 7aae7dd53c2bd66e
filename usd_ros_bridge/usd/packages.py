"""Packages: resolve package://name/path, and refuse paths that leave their package (REP 0158 section 1.2.5).

Where the compiled resolver of `usd/resolver/` is in use, it does, by the rules that stand here. Elsewhere links do:
OpenUSD's own resolver takes `package://name/path` for a search path and normalises it to `package:/name/path`. A
directory that holds a folder `package:` of links to packages therefore resolves it: for references, payloads,
sublayers and asset values, nested and inside usdz. `..` is not contained there, so there is a scan before composition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from pxr import Ar

from usd_ros_bridge.ament_index import resource_names, share_directory
from usd_ros_bridge.errors import OptionError, did_you_mean, quoted, quoted_path

SCHEME: Final = "package:"
PATH_VARIABLE: Final = "USD_ROS_PACKAGE_PATH"
URI_PREFIX: Final = "package://"
PACKAGE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class PackageMap:
    """Directories of ROS packages by name: the caller's map, then USD_ROS_PACKAGE_PATH, then the ament index.

    The index is read from its files, so that no ROS installation is needed.
    """

    def __init__(self, explicit: Mapping[str, str] | None = None) -> None:
        """Check the caller's map.

        Raises:
            OptionError: A name is no package name, or a directory does not exist.
        """
        self._explicit: dict[str, Path] = {}
        for name, directory in (explicit or {}).items():
            if not PACKAGE_NAME.fullmatch(name):
                raise OptionError(
                    f"package: {quoted(name)} is no package name (letters, digits, '_' and '-')"
                )
            if not Path(directory).is_dir():
                raise OptionError(f"package {name}: no such directory: {quoted_path(directory)}")
            self._explicit[name] = Path(directory).absolute()

    @property
    def explicit(self) -> Mapping[str, Path]:
        """Return the caller's map."""
        return self._explicit

    def directory(self, name: str) -> Path | None:
        """Return the directory of a package, None where none is known by that name."""
        if name in self._explicit:
            return self._explicit[name]
        if not PACKAGE_NAME.fullmatch(name):
            return None
        for base in _paths_in(PATH_VARIABLE):
            if os.path.isdir(base / name):  # noqa: PTH112 - false for what is no name
                return base / name
        return share_directory(name)

    def names(self) -> Iterator[str]:
        """Yield the names of all packages, for messages about one that is not known."""
        yield from self._explicit
        for directory in _paths_in(PATH_VARIABLE):
            with suppress(OSError):
                yield from sorted(
                    each.name for each in directory.iterdir() if PACKAGE_NAME.fullmatch(each.name)
                )
        yield from sorted(name for name in resource_names("packages") if PACKAGE_NAME.fullmatch(name))

    def refuses(self, asset_path: str) -> tuple[str, str] | None:
        """Return why a package:// path is not followed, and what to do about it; None where it is followed."""
        name, path = split_package_path(asset_path)
        if path is None:
            return f"it leaves the package {quoted(name)}", "name the other package"
        if self.directory(name) is None:
            question = did_you_mean(name, self.names())
            remedy = package_remedy(name)
            return f"no package {quoted(name)} is known", f"{question} {remedy}" if question else remedy
        return None

    def resolve(self, asset_path: str) -> Path | None:
        """Return the file that a package:// path names, None where it names none or leaves its package."""
        name, path = split_package_path(asset_path)
        directory = self.directory(name)
        return None if directory is None or path is None else directory / path


def _paths_in(variable: str) -> Iterator[Path]:
    for entry in os.environ.get(variable, "").split(os.pathsep):
        if entry:
            yield Path(entry).absolute()


def is_package_path(asset_path: str) -> bool:
    """Return whether an asset path names a package, in either spelling (`package://` or as USD normalises it)."""
    return asset_path.startswith(SCHEME)


def split_package_path(asset_path: str) -> tuple[str, PurePosixPath | None]:
    """Return the package and the path in it; no path where it leaves the package lexically."""
    outer = (
        Ar.SplitPackageRelativePathOuter(asset_path)[0]
        if Ar.IsPackageRelativePath(asset_path)
        else asset_path
    )
    name, _, rest = outer[len(SCHEME) :].lstrip("/").partition("/")
    # Whether "\\" separates is the platform's business: a path that leaves the package in either reading is refused.
    if _leaves(rest) or _leaves(rest.replace("\\", "/")):
        return name, None
    # Relative for sure: what follows "//" would be taken for an absolute path.
    return name, PurePosixPath(os.path.normpath(rest.lstrip("/") or "."))


def _leaves(path: str) -> bool:
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return False


def package_remedy(name: str) -> str:
    """Return what to do about a package that is not known."""
    shown = name[:64] if PACKAGE_NAME.fullmatch(name) else "NAME"
    return f"install it, add it to {PATH_VARIABLE}, or give its directory (--package {shown}=directory)"
