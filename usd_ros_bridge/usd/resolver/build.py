"""Build the compiled ArResolver for package:// against the installed OpenUSD, and try it before use.

Headers come from the wheels `pxr-ar-dev` and what they need, beside usd-core or in a folder of their own, or from an
installation of OpenUSD. They must be of the very release that runs: C++ classes of another one are laid out otherwise.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.usd.resolver import PLUGIN, PLUGIN_FILE, default_directory, libraries, openusd_version

SOURCES: Final = Path(__file__).parent
HEADER_WHEEL: Final = "pxr-ar-dev"
COMPILE_SECONDS: Final = 300
TRY_SECONDS: Final = 60

_LIBRARY: Final = f"lib{PLUGIN}.so"
_VERSION: Final = re.compile(r"#define (?:AR|PXR)_(MINOR|PATCH)_VERSION (\d+)")

# A process of its own: OpenUSD collects resolvers once, and this one may have done so.
_TRY: Final = """
import os, sys
from pathlib import Path
from pxr import Ar, Usd
os.environ["USD_ROS_PACKAGE_PATH"] = sys.argv[1]
(Path(sys.argv[1]) / "tried").mkdir()
Usd.Stage.CreateNew(str(Path(sys.argv[1]) / "tried" / "asset.usda")).Save()
assert "package" in Ar.GetRegisteredURISchemes(), "OpenUSD does not find the plugin"
assert Usd.Stage.Open("package://tried/asset.usda"), "OpenUSD does not resolve package://"
"""


class ResolverBuildError(BridgeError):
    """The resolver cannot be built here; the message says what is missing."""


def build(*, headers: Path | None = None, directory: Path | None = None) -> Path:
    """Compile the plugin and put it where the bridge finds it.

    Args:
        headers: Folder that holds `pxr/pxr.h` (an installation of OpenUSD), or the wheels' `pxr-ar` and its siblings;
            None for wheels installed beside usd-core.
        directory: Where to put it; None for where the bridge looks.

    Returns:
        The folder with plugInfo.json, for PXR_PLUGINPATH_NAME.

    Raises:
        ResolverBuildError: There are no headers, they are of another release, the compiler or the try failed, or the
            folder has files of others.
    """
    directory = (directory or default_directory()).absolute()
    if foreign := sorted(_names_in(directory) - {PLUGIN_FILE, _LIBRARY}):
        raise ResolverBuildError(
            f"{directory} has files that are none of the plugin's, such as {foreign[0]!r}: name another folder"
        )
    includes = _include_folders(headers)
    version = _header_version(includes)
    if version != openusd_version():
        raise ResolverBuildError(
            f"the headers are of OpenUSD {version}, and OpenUSD {openusd_version()} runs here: use headers of that "
            f"release, or `pip install usd-core=={version}`"
        )
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".resolver-", dir=directory.parent) as made:
            new = Path(made) / "new"
            new.mkdir()
            _compile(includes, new / _LIBRARY)
            shutil.copy(SOURCES / PLUGIN_FILE, new)
            _try(new)
            if directory.exists():
                directory.rename(Path(made) / "old")
            new.rename(directory)
    except OSError as error:
        raise ResolverBuildError(f"cannot write {directory}: {error.strerror or error}") from error
    return directory


def _names_in(directory: Path) -> set[str]:
    try:
        return {each.name for each in directory.iterdir()}
    except OSError:
        return set()


def _include_folders(headers: Path | None) -> list[Path]:
    """Return the folders to look for headers in."""
    if headers is not None:
        if (headers / "pxr/pxr.h").is_file():
            return [headers]
        if (headers / "include/pxr/pxr.h").is_file():
            return [headers / "include"]
        if not (headers / "pxr-ar/include").is_dir():
            raise ResolverBuildError(
                f"{headers} holds neither pxr/pxr.h nor the folder pxr-ar of {HEADER_WHEEL}"
            )
    else:
        try:
            distribution = importlib.metadata.distribution(HEADER_WHEEL)
        except importlib.metadata.PackageNotFoundError:
            raise ResolverBuildError(
                f"there are no headers of OpenUSD: `pip install {HEADER_WHEEL}=={openusd_version()}.*`, or name a "
                f"folder of them (--headers)"
            ) from None
        headers = Path(str(distribution.locate_file("")))
    return [*sorted(headers.glob("pxr-*/include")), headers / "TBB/include"]


def _header_version(includes: list[Path]) -> str:
    for folder in includes:
        for name in ("pxr/pxr.h", "pxr/ar/pxr.h"):
            if (folder / name).is_file():
                found = dict(_VERSION.findall((folder / name).read_text(encoding="utf-8")))
                return f"{found.get('MINOR')}.{found.get('PATCH')}"
    raise ResolverBuildError("the headers do not say of which OpenUSD they are: there is no pxr.h")


def _compile(includes: list[Path], library: Path) -> None:
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    command = [
        *compiler,
        *("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"),
        *(f"-DMFB_{which}PACKAGE_NAME={PLUGIN}" for which in ("", "ALT_")),
        *(() if (includes[0] / "pxr/pxr.h").is_file() else _WHEEL_DEFINITIONS),
        *(part for folder in includes for part in ("-isystem", str(folder))),
        *("-isystem", sysconfig.get_path("include")),
        *map(str, sorted(SOURCES.glob("*.cpp"))),
        *("-o", str(library)),
        *("-Wl,--as-needed", *map(str, libraries())),
    ]
    try:
        subprocess.run(  # noqa: S603 - our own sources, and the compiler that the caller has
            command, check=True, capture_output=True, text=True, timeout=COMPILE_SECONDS
        )
    except FileNotFoundError:
        raise ResolverBuildError(
            f"there is no C++ compiler {compiler[0]!r}: install one, or set CXX"
        ) from None
    except subprocess.TimeoutExpired:
        raise ResolverBuildError(f"the compiler took longer than {COMPILE_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        raise ResolverBuildError(f"the compiler failed: {_first_error(error.stderr)}") from None


# Wheels have no pxr.h with these definitions: the compile command has them.
_WHEEL_DEFINITIONS: Final = ("-DPXR_PYTHON_SUPPORT_ENABLED=1", "-DPXR_BOOST_PYTHON_NO_PY_SIGNATURES")


def _try(directory: Path) -> None:
    """Resolve with the plugin, in another process."""
    with tempfile.TemporaryDirectory(prefix="usd_ros_bridge-") as packages:
        environment = {**os.environ, "PXR_PLUGINPATH_NAME": str(directory)}
        environment.pop("PXR_AR_DISABLE_PLUGIN_URI_RESOLVERS", None)
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, and nothing from outside
                [sys.executable, "-c", _TRY, packages],
                check=False,
                capture_output=True,
                text=True,
                timeout=TRY_SECONDS,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise ResolverBuildError(f"the plugin does not answer within {TRY_SECONDS} s") from None
    if done.returncode != 0:
        raise ResolverBuildError(f"the plugin does not work: {_last_line(done.stderr)}")


def _first_error(text: str) -> str:
    lines = (
        [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["it says nothing"]
    )
    return lines[0][:300]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1][:300]
