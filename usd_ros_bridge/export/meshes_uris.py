"""URIs of files: package:// for what a ROS package has installed, file:// for the rest."""

from __future__ import annotations

import os
from pathlib import Path


def directory_uri(directory: Path) -> str:
    """Returns the URI of a directory, without a slash at its end.

    It is `package://name/path` where the directory is in the share of a package of the ament index: that is where
    tools on other machines, which have the package too, look. The index is read from its files, so that no ROS
    installation is needed. Else it is `file:///path`, as RFC 8089 spells it.
    """
    for path in dict.fromkeys((_absolute(directory), directory.resolve())):
        for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
            if prefix and (found := _in_share(path, Path(prefix))):
                return found
    return _absolute(directory).as_uri()


def _in_share(path: Path, prefix: Path) -> str:
    for share in (prefix / "share", prefix.resolve() / "share"):
        if path.is_relative_to(share) and path != share:
            name = path.relative_to(share).parts[0]
            if (prefix / "share/ament_index/resource_index/packages" / name).is_file():
                return f"package://{path.relative_to(share).as_posix()}"
    return ""


def _absolute(path: Path) -> Path:
    """Returns a path from the root without `..`, its links as they are: a package may be installed by links."""
    return Path(os.path.normpath(path.absolute()))
