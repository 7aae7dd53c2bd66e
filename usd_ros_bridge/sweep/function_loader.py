"""Functions of a sweep by name: `module:function`, or `path.py:function` beside the sweep file."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, alternatives, escaped, quoted, quoted_path
from usd_ros_bridge.reporting import describe

_PACKAGE: Final = str(Path(__file__).resolve().parent.parent)


def load_function(function: str | Callable[..., Any], directory: str) -> Callable[..., Any]:
    """Return a function. A file is loaded once per process and version.

    Args:
        function: `module:function`, `path.py:function`, or the function.
        directory: Folder that relative paths count from. Modules are searched in it, too.

    Raises:
        OptionError: There is no such file, module or function, or importing it fails.
    """
    if not isinstance(function, str):
        return function
    home, colon, name = function.rpartition(":")
    if not colon or not home or not name:
        raise OptionError(f"{quoted(function)} is no function: write path.py:function or module:function")
    module = _load_file(Path(directory, home)) if home.endswith(".py") else _load_module(home, directory)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise OptionError(f"{home} has no function {quoted(name)}; {alternatives(name, names)}")
    loaded: Callable[..., Any] = found
    return loaded


def describe_fault(error: BaseException, *, within: str = "") -> str:
    """Return what a function of a sweep raised, as one line with the file and line.

    Args:
        error: What it raised.
        within: Name of the function or file, for the message.
    """
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_PACKAGE)
    ]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else within
    text = escaped(describe(error))
    return f"{place}: {text}" if place else text


def _load_file(path: Path) -> Any:
    try:
        path = path.resolve(strict=True)
        version = path.stat().st_mtime_ns
    except OSError as error:
        raise OptionError(f"cannot read {quoted_path(path)}: {error.strerror or error}") from None
    digest = hashlib.sha256(f"{path}\0{version}".encode()).hexdigest()[:12]
    name = f"usd_ros_bridge_sweep_{path.stem}_{digest}"
    module = sys.modules.get(name)
    if module is not None:
        return module
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"cannot load {quoted_path(path)}: it is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _ImportFolder(str(path.parent)):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise OptionError(f"cannot load {quoted_path(path)}: {describe_fault(error)}") from error
    return module


def _load_module(name: str, directory: str) -> Any:
    try:
        with _ImportFolder(directory):
            return import_module(name)
    except (Exception, SystemExit) as error:
        raise OptionError(f"cannot import {quoted(name)}: {describe(error)}") from error


class _ImportFolder:
    """Look for modules in a folder, too, while a module is imported."""

    def __init__(self, folder: str) -> None:
        self._folder = folder or "."

    def __enter__(self) -> None:
        sys.path.insert(0, self._folder)

    def __exit__(self, *_: object) -> None:
        if self._folder in sys.path:
            sys.path.remove(self._folder)
