"""Files that a robot file names: where they are, and which of them an import may read."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from usd_ros_bridge.errors import quoted_path
from usd_ros_bridge.importing.read_guard import is_allowed

PACKAGE = "package://"
ALLOW_FLAG = "--allow-folder"
_FILE = "file://"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NAME_ELEMENT = re.compile(r"<name>\s*([^<]*?)\s*</name>")

FindPackage = Callable[[str], "Path | None"]


class AllowedFiles:
    """Regular files that are, after all symbolic links, below the robot's folder, a package of it, or a given folder.

    The robot's folder is its ROS package, else the folder of the robot file; where that is a link, also the folder of
    its target. A package that a robot file names, or that has one of its files, is allowed if the search knows it, or
    if it is above the robot file or in a folder above, has a package.xml and is no link.
    """

    def __init__(
        self,
        robot: Path,
        find_package: FindPackage,
        *,
        packages: Mapping[str, Path] | None = None,
        folders: Iterable[Path] = (),
    ) -> None:
        """Allow the robot's folder.

        Args:
            robot: The robot file.
            find_package: Return the directory of a ROS package by its name, None if it is not known.
            packages: Directories of packages that were found before, by name.
            folders: More folders.
        """
        self._robot = robot.parent.resolve() / robot.name
        self._search = find_package
        self._own = _package_with(self._robot.parent) or self._robot.parent
        self.folders: list[str] = []
        target = self._robot.resolve().parent
        # Everything is below the root.
        own = [each for each in (self._own, _package_with(target) or target) if each != each.parent]
        for folder in (*own, *folders):
            self._allow(folder)
        for name, directory in (packages or {}).items():
            self._allow_package(name, directory)

    def allows(self, path: Path) -> bool:
        """Return whether a file may be read."""
        if is_allowed(path, self.folders):
            return True
        # It could be named by its package just as well.
        package = _package_with(Path(os.path.realpath(path)).parent)
        return (
            package is not None
            and self.find_package(_package_name(package)) is not None
            and is_allowed(path, self.folders)
        )

    def locate(self, uri: str) -> Path | None:
        """Return the path that a name in a URDF means, None if it is in a package that is not known."""
        package, inside = split_uri(uri)
        if not package:
            return self._robot.parent / inside
        # A directory that only looks like the package shows where the file is, and allows nothing.
        directory = self.find_package(package, inside) or _directory_with(self._robot, package, inside, None)
        return None if directory is None else directory / inside

    def find_package(self, name: str, inside: str = "") -> Path | None:
        """Return the directory of a ROS package and allow its files, None if it is not known.

        Args:
            name: Of the package.
            inside: Path of a file in it: a folder of the robot's own with this file needs no package.xml.
        """
        if not _NAME.fullmatch(name):
            return None
        found = self._search(name)
        if found is not None:
            self._allow_package(name, found)
            return found
        # Below the robot's own folder, which is allowed already, unless it is the root.
        found = _directory_with(self._robot, name, inside, self._own)
        if found is not None:
            return found
        found = package_above(self._robot, name)
        if found is not None and found.resolve() == found:
            self._allow(found)
        return found

    def _allow(self, folder: Path) -> None:
        real = os.path.realpath(folder)
        if real not in self.folders:
            self.folders.append(real)

    def _allow_package(self, name: str, directory: Path) -> None:
        """Allow a package, and its source where `colcon build --symlink-install` made links to that."""
        self._allow(directory)
        manifest = Path(os.path.realpath(directory / "package.xml"))
        if manifest.name == "package.xml" and _package_name(manifest.parent) == name:
            self._allow(manifest.parent)


def outside_fault(name: str, path: str | Path, *, left_out: bool = True) -> tuple[str, str]:
    """Return a message and a remedy for a file that may not be read.

    Args:
        name: What names it, such as "texture '../a.png'".
        path: The file.
        left_out: Whether the robot is imported without it.
    """
    real = Path(os.path.realpath(path))
    end = ", and left out" if left_out else ""
    if not real.is_file():
        return f"{name} is no regular file{end}", "name a file"
    folder = _package_with(real.parent) or real.parent
    shown = "" if str(real) in name else f": it is {quoted_path(real)}"
    return (
        f"{name} is outside the robot's folders{end}{shown}",
        f"if it belongs to the robot: {ALLOW_FLAG} {shlex.quote(str(folder))}",
    )


def split_uri(uri: str) -> tuple[str, str]:
    """Return the package, "" for none, and the path in it."""
    if uri.startswith(PACKAGE):
        package, _, inside = uri[len(PACKAGE) :].lstrip("/").partition("/")
        return package, inside.lstrip("/")
    return "", uri.removeprefix(_FILE)


def find_in_ros_package_path(name: str) -> Path | None:
    """Return the directory of a package in ROS_PACKAGE_PATH: an entry of that name, or one in an entry."""
    for entry in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep):
        for candidate in (Path(entry), Path(entry) / name) if entry and _NAME.fullmatch(name) else ():
            if candidate.name == name and os.path.isdir(candidate):  # noqa: PTH112 - false for what is no name
                return candidate.absolute()
    return None


def package_above(file: Path, name: str) -> Path | None:
    """Return the directory of a ROS package that a file is in, or that is next to one of its directories; else None.

    A package is a directory with a package.xml that has the name, or a directory of that name with a package.xml.
    """
    for directory in file.absolute().parents if _NAME.fullmatch(name) else ():
        if os.path.isfile(directory / name / "package.xml"):  # noqa: PTH113 - false for what is no name
            return directory / name
        if _package_name(directory) == name:
            return directory
    return None


def _package_with(folder: Path) -> Path | None:
    """Return the nearest directory with a package.xml: a folder or one above it, not the root. None without one."""
    return next(
        (each for each in (folder, *folder.parents) if each != each.parent and _package_name(each)), None
    )


def _package_name(directory: Path) -> str:
    """Return the name in a directory's package.xml, "" without one."""
    manifest = directory / "package.xml"
    try:
        # Others may never end.
        content = manifest.read_text(encoding="utf-8", errors="replace") if manifest.is_file() else ""
    except OSError:
        return ""
    found = _NAME_ELEMENT.search(content)
    return "" if found is None else found[1]


def _directory_with(file: Path, package: str, inside: str, top: Path | None) -> Path | None:
    """Return a directory above a robot file, or in a folder above, that looks like a package and has a file.

    It has the package's name, or a package.xml.

    Args:
        file: The robot file.
        package: Name of the package.
        inside: Path of the file in it.
        top: The last directory to try; None for all.
    """
    for directory in file.parents if _NAME.fullmatch(package) else ():
        for candidate in (directory, directory / package):
            named = candidate.name == package or os.path.isfile(candidate / "package.xml")  # noqa: PTH113
            if named and os.path.isfile(candidate / inside):  # noqa: PTH113 - false for what is no name
                return candidate
        if directory == top:
            break
    return None
