"""Texts that people write on a command line or in a parameter file, to options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.model.options import VariantSelection


def parse_variants(texts: Iterable[str]) -> tuple[VariantSelection, ...]:
    """Returns selections from texts of the form `/Prim/Path:set=choice`.

    Raises:
        OptionError: A text has another form.
    """
    selections = []
    for text in texts:
        target, equals, choice = text.rpartition("=")
        path, colon, name = target.rpartition(":")
        if not (equals and colon and path.startswith("/") and name):
            raise OptionError(f"variant {text!r} has not the form /Prim/Path:set=choice")
        selections.append(VariantSelection(path, name, choice))
    return tuple(selections)


def parse_contexts(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns prim paths from texts that each hold one or, separated by commas, several.

    Raises:
        OptionError: A path is not absolute.
    """
    paths = tuple(path for text in texts for path in (each.strip() for each in text.split(",")) if path)
    for path in paths:
        if not path.startswith("/"):
            raise OptionError(f"contexts: {path!r} is no absolute prim path, as /World/robot_1 is")
    return paths


def parse_packages(texts: Iterable[str]) -> dict[str, str]:
    """Returns directories by package name from texts of the form `name=directory`.

    Raises:
        OptionError: A text has another form, or names something that is no directory.
    """
    packages = {}
    for text in texts:
        name, equals, directory = text.partition("=")
        if not (equals and name and directory):
            raise OptionError(f"package {text!r} has not the form name=directory")
        path = Path(directory).expanduser()
        if not path.is_dir():
            raise OptionError(f"package {name!r}: {directory!r} is not a directory")
        packages[name] = str(path.resolve())
    return packages


def parse_key_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Returns texts of the form `key=value` as a dict; `what` names them in the error.

    Raises:
        OptionError: A text has another form.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key):
            raise OptionError(f"{what} {text!r} has not the form key=value")
        values[key] = value
    return values
