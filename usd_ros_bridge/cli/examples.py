"""The examples that are installed with the bridge: their names, where they are, and copies of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import usd_ros_bridge
from usd_ros_bridge.cli.output_files import write_output
from usd_ros_bridge.errors import BridgeError, OptionError, choices, did_you_mean, quoted

_SHARE = "share/usd_ros_bridge/examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example.

    Attributes:
        name: Name on the command line, and of its folder.
        file: Entry file in that folder.
        summary: One line about it.
        references: Other examples whose files it references, by relative paths.
        is_asset: The entry file is an asset; False: a sweep.
    """

    name: str
    file: str
    summary: str
    references: tuple[str, ...] = ()
    is_asset: bool = True


EXAMPLES = {
    example.name: example
    for example in (
        Example(
            name="rover",
            file="world.usda",
            summary="a differential-drive rover with lidar, camera and IMU, on a walled ground with obstacles",
        ),
        Example(name="arm", file="arm.usda", summary="a six-axis arm with a choice of grippers"),
        Example(
            name="fleet",
            file="fleet.usda",
            summary="two rovers and an arm in one hall, by reference",
            references=("rover", "arm"),
        ),
        Example(
            name="mujoco_loop",
            file="pan_tilt.usda",
            summary="a pan-tilt unit, and a script (loop.py) that simulates it in MuJoCo's own loop",
        ),
        Example(
            name="sweep",
            file="braking.yaml",
            summary="200 runs of the rover, which brakes, over friction and payload (for `sweep`)",
            references=("rover",),
            is_asset=False,
        ),
    )
}


def find_example(name: str) -> Example:
    """Return the example of a name.

    Raises:
        OptionError: There is none; the message lists the names.
    """
    if name not in EXAMPLES:
        guess = did_you_mean(name, EXAMPLES)
        raise OptionError(
            f"there is no example {quoted(name)}; {guess + ' ' if guess else ''}There are: {choices(EXAMPLES)}"
        )
    return EXAMPLES[name]


def example_asset(name: str) -> str:
    """Return the path of an example's entry file.

    Raises:
        OptionError: There is no such example, or it is no asset.
        BridgeError: The examples are not installed.
    """
    example = find_example(name)
    if not example.is_asset:
        raise OptionError(f"the example {name} is no asset, but a sweep: usd_ros_bridge examples copy {name}")
    return str(examples_directory() / example.name / example.file)


def examples_directory() -> Path:
    """Return the directory with the examples: of a clone, else of the installed share folder.

    Raises:
        BridgeError: The examples are not installed.
    """
    first = next(iter(EXAMPLES.values()))
    for directory in _candidates():
        if (directory / first.name / first.file).is_file():
            return directory
    raise BridgeError(
        f"the examples are not installed: no {_SHARE} in {sys.prefix} or AMENT_PREFIX_PATH; install the package again"
    )


def _candidates() -> Iterator[Path]:
    package = Path(usd_ros_bridge.__file__).parent
    for folder in (package, package.resolve()):
        if (folder.parent / "package.xml").is_file():
            yield folder.parent / "examples"
    # The prefix of pip (a venv, --user, --target) and of colcon is above the package.
    for above in package.parents:
        yield above / _SHARE
    yield Path(sys.prefix) / _SHARE
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if prefix:
            yield Path(prefix) / _SHARE


def copy_example(name: str, directory: Path, *, overwrite: bool) -> list[Path]:
    """Copy an example, and those that it references, into folders of their names.

    Args:
        name: Name of the example.
        directory: Where the folders are made; it is made, too, if it is missing.
        overwrite: Overwrite files that are there. Other files in the folders stay.

    Returns:
        The folders; the first one is that of the example.

    Raises:
        OptionError: There is no such example, a folder is there already, or it cannot be written.
        BridgeError: The examples are not installed.
    """
    source, example = examples_directory(), find_example(name)
    names = (example.name, *example.references)
    targets = [directory / each for each in names]
    there = [str(target) for target in targets if os.path.lexists(target)]
    if there and not overwrite:
        raise OptionError(
            f"{there[0]} is there already: name another DIR, or overwrite its files with --force"
        )
    copies: dict[Path, bytes] = {}
    for each, target in zip(names, targets, strict=True):
        try:
            for file in sorted((source / each).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    copy = target / file.relative_to(source / each)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copies[copy] = file.read_bytes()
        except OSError as error:
            raise OptionError(f"{target} cannot be written: {error.strerror}") from error
    entry = targets[0] / example.file
    write_output(entry, copies.pop(entry), plans=(), extra=copies)
    return targets
