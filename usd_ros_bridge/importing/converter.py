"""The converters from URDF and MJCF to OpenUSD, in an environment of their own.

They bring a pxr of their own, which would overwrite usd-core's. So they are never imported here: a Python that has them
is run as a process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.importing.allowed_files import FindPackage, outside_fault, package_above
from usd_ros_bridge.importing.locked_directory import filled_directory
from usd_ros_bridge.importing.robot_file import MOST_MESHES, Kind, RobotFile
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.process_settings import user_cache

VARIABLE = "USD_ROS_CONVERTER"
"""A Python that has the converters, in place of the bridge's own environment for them."""

REQUIREMENTS = Path(__file__).with_name("converters.txt")
DISTRIBUTIONS: Mapping[Kind, str] = {"urdf": "urdf-usd-converter", "mjcf": "mujoco-usd-converter"}
XACRO = "xacro"
"""The distribution that expands `.xacro` files."""
INSTALL_FLAG = "--install-converter"
INSTALLED_SIZE = "about 350 MB"

_CHILD = Path(__file__).with_name("converter_child.py")
_OLDEST, _NEWEST = (3, 10), (3, 12)
"""Versions of Python that the converters have wheels for: tinyobjloader has none for 3.13."""

_CANDIDATES = ("python3.12", "python3.11", "python3.10", "python3", "/usr/bin/python3")
_NOT_INHERITED = (
    "AMENT_PREFIX_PATH",
    "CMAKE_PREFIX_PATH",
    "LD_LIBRARY_PATH",
    "PXR_PLUGINPATH_NAME",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "VIRTUAL_ENV",
    "_ROS_WHEELS_BOOTSTRAP_COMPLETE",
)
"""Variables of a sourced ROS 2, of the ROS wheels or of OpenUSD, which lead another Python to foreign libraries, and
one that hides the folder of a script."""

_VERSIONS = """
import importlib.metadata as m, json, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ""
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""
_WITHOUT_HERE = "import sys; sys.path[:] = [each for each in sys.path if each]\n"
"""For programs given by `-c`, which would take modules of the current directory first."""
_USABLE = "import sys, venv, ensurepip; sys.exit(not {} <= sys.version_info[:2] <= {})"
_BASE = "import os, sys; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)))"


class ConversionError(BridgeError):
    """A converter refused a robot, or failed."""


@dataclass(frozen=True, slots=True)
class Converter:
    """A Python that has the converters.

    Attributes:
        python: Its path.
        versions: Of the converters and of xacro, by distribution; "" for one that is missing.
    """

    python: Path
    versions: Mapping[str, str]

    def label(self, kind: Kind) -> str:
        """Return name and version of the converter of a kind of robot file."""
        name = DISTRIBUTIONS[kind]
        return f"{name} {self.versions[name]}"

    def convert(
        self,
        robot: RobotFile,
        output: Path,
        log: Path,
        *,
        report: Callable[[Diagnostic], None],
        urdf: Path | None = None,
    ) -> Path:
        """Convert a robot. Return the path of the stage.

        Args:
            robot: Without errors.
            output: Directory for the asset.
            log: File for what the converter prints.
            report: Takes warnings about files that were left out.
            urdf: What a xacro was expanded into; None for a robot file that the converter reads itself.

        Raises:
            ConversionError: The converter refused the robot, or failed.
        """
        job = {
            "kind": robot.kind,
            "source": str(urdf or robot.path),
            "output": str(output),
            "files": robot.files,
            "parts": [str(part) for part in robot.parts],
            "folders": robot.folders,
        }
        with log.open("w", encoding="utf-8") as errors:
            done = _call([self.python, _CHILD, "convert", json.dumps(job)], stderr=errors)
        answer = _answer(done.stdout)
        for diagnostic in _left_out(robot, answer.get("left_out", ())):
            report(diagnostic)
        # MuJoCo speaks of the wrong file first and of the reason in the next line.
        fault = answer.get("error") or (
            "" if "stage" in answer else f"it ended with status {done.returncode}: {_last_line(log)}"
        )
        if fault:
            reason = " ".join(str(fault).split())[:500]
            raise ConversionError(f"{self.label(robot.kind)} cannot convert {robot.path}: {reason}")
        stage = Path(answer["stage"])
        if output.resolve() not in stage.resolve().parents or not stage.is_file():
            raise ConversionError(f"{self.label(robot.kind)} wrote no asset below {output}: {quoted(stage)}")
        return stage

    def expand(
        self, file: Path, output: Path, *, arguments: Mapping[str, str], find_package: FindPackage
    ) -> dict[str, Path]:
        """Expand a xacro into a URDF. Return the directories of the packages that it names.

        Args:
            file: The xacro.
            output: Where the URDF is written.
            arguments: Values of `<xacro:arg>`, by name.
            find_package: Return the directory of a ROS package by its name, None if it is not known.

        Raises:
            ConversionError: It cannot be expanded. The message is one line with the reason.
        """
        if not self.versions.get(XACRO):
            raise ConversionError(f"{self.python} has no xacro: install it there, or unset {VARIABLE}")
        packages: dict[str, str] = {}
        job = {"source": str(file), "output": str(output), "arguments": dict(arguments), "packages": packages}
        while True:
            done = _call([self.python, _CHILD, "expand", json.dumps(job)], stderr=subprocess.PIPE)
            answer = _answer(done.stdout)
            if "urdf" in answer:
                return {name: Path(directory) for name, directory in packages.items()}
            # Names of packages may be made of arguments: only xacro knows them, one after another.
            name = str(answer.get("package", ""))
            if not name:
                lines = [line.strip() for line in (done.stderr or "").splitlines() if line.strip()]
                reason = answer.get("error") or (
                    lines[-1] if lines else f"it ended with status {done.returncode}"
                )
                raise ConversionError(" ".join(str(reason).split())[:500])
            found = None if name in packages else find_package(name) or package_above(file, name)
            if found is None:
                raise ConversionError(
                    f"package {quoted(name)} is not known: name its directory, --package {name}=DIRECTORY, or source "
                    "the workspace that has it"
                )
            packages[name] = str(found)


def _left_out(robot: RobotFile, files: Sequence[Sequence[str]]) -> list[Diagnostic]:
    """Return warnings about files that the converter left out: the first ones each, and how many more there are.

    Args:
        robot: The robot.
        files: The file that names it, what it says, and the path, each.
    """
    found = []
    for by, what, path in files[:MOST_MESHES]:
        folder = robot.path.parent
        place = Path(by).relative_to(folder) if folder in Path(by).parents else by
        found.append((str(place), *outside_fault(what, path)))
    if more := len(files) - len(found):
        found.append((robot.path.name, f"{more} more files are left out, too", "see the lines before"))
    return [
        Diagnostic(code="import.outside", severity="warning", path=place, message=message, remedy=remedy)
        for place, message, remedy in found
    ]


def _call(command: Sequence[str | Path], *, stderr: int | IO[str]) -> subprocess.CompletedProcess[str]:
    """Run another Python to its end."""
    return subprocess.run(  # noqa: S603 - a Python of this machine, with code of this package
        command,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        check=False,
    )


def _answer(output: str) -> dict[str, Any]:
    lines = output.splitlines()
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


def clean_environment() -> dict[str, str]:
    """Return this process's environment variables for another Python."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}


def environment_directory() -> Path:
    """Return the directory of the converters' environment: another one for other versions of them."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    return user_cache("converters") / digest


def find_converter(kind: Kind) -> Converter:
    """Return the converter of a kind of robot file.

    Args:
        kind: URDF or MJCF.

    Raises:
        OptionError: USD_ROS_CONVERTER names no Python with that converter.
        BridgeError: It is not installed.
    """
    given = os.environ.get(VARIABLE, "")
    python = Path(given) if given else environment_directory() / "bin/python"
    versions = _installed(python)
    if versions.get(DISTRIBUTIONS[kind]):
        return Converter(python, versions)
    if given:
        raise OptionError(
            f"{VARIABLE}={given} is no Python that has {DISTRIBUTIONS[kind]}: install it there, or unset {VARIABLE}"
        )
    raise BridgeError(
        f"{DISTRIBUTIONS[kind]} is not installed: `usd_ros_bridge import {INSTALL_FLAG}` "
        "installs it, once, "
        f"into an environment of its own ({INSTALLED_SIZE} in {environment_directory()}), "
        f"or set {VARIABLE} to a Python that has it"
    )


def _installed(python: Path) -> dict[str, str]:
    """Return the versions of the converters that a Python has, "" for one that is missing; empty for no Python."""
    try:
        done = _call(
            [python, "-c", f"{_WITHOUT_HERE}{_VERSIONS}", *DISTRIBUTIONS.values(), XACRO],
            stderr=subprocess.DEVNULL,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError):
        return {}
    return {str(name): str(version) for name, version in found.items()}


def install_converter() -> Path:
    """Install the converters into their environment, unless they are there. Return its directory.

    Two processes that do so wait for each other.

    Raises:
        BridgeError: It cannot be made.
    """
    target = environment_directory()
    make_environment(target, requirements=[REQUIREMENTS])
    return target


def make_environment(
    target: Path,
    *,
    requirements: Sequence[Path],
    without_dependencies: Sequence[Path] = (),
    python: str | None = None,
) -> None:
    """Make an environment of the pinned converters and install requirements into it, unless it is complete.

    An interrupted installation leaves no environment. What needs compilers is refused: pip takes wheels only.

    Args:
        target: Directory of the environment.
        requirements: Requirements files.
        without_dependencies: Requirements files of what is installed without its own requirements.
        python: Its Python; None to search one.

    Raises:
        BridgeError: No Python fits, or pip failed.
    """
    stamp = _stamp([*requirements, *without_dependencies])
    partial = target.with_name(f".{target.name}.partial")
    try:
        with filled_directory(partial, waits=True):
            if _is_complete(target, stamp):
                return
            environment = partial / "environment"
            _run([find_python(python), _CHILD, "run", "venv", environment], "make an environment")
            for file in requirements:
                _pip(environment, "--requirement", file)
            for file in without_dependencies:
                _pip(environment, "--no-deps", "--requirement", file)
            (environment / stamp).touch()
            shutil.rmtree(target, ignore_errors=True)
            environment.rename(target)
    except OSError as error:
        raise BridgeError(f"cannot make {target}: {error.strerror or error}") from error


def _stamp(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f".installed-{digest.hexdigest()[:16]}"


def _is_complete(target: Path, stamp: str) -> bool:
    """Return whether an environment has all that it should, and its Python still exists."""
    return (target / stamp).is_file() and bool(_installed(target / "bin/python"))


def _pip(environment: Path, *arguments: str | Path) -> None:
    options = ["--quiet", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    _run(
        [environment / "bin/python", _CHILD, "run", "pip", "install", *options, *arguments],
        "install the converters",
    )


def _run(command: Sequence[str | Path], what: str) -> None:
    done = _call(command, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        # pip's last line may be a hint; its first error is the cause.
        cause = next(
            (line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "no reason given"
        )
        raise BridgeError(
            f"could not {what} with {command[0]}: {cause[:500]} "
            f"(pip must reach its index; try again, or set {VARIABLE})"
        )


def find_python(wanted: str | None = None) -> str:
    """Return a Python that the converters have wheels for: that of this process, else one on PATH.

    Args:
        wanted: The one to use.

    Raises:
        BridgeError: None fits.
    """
    versions = f"Python {_OLDEST[0]}.{_OLDEST[1]} to {_NEWEST[0]}.{_NEWEST[1]}"
    for candidate in (wanted,) if wanted else (sys.executable, *_CANDIDATES):
        if not _python_says(candidate, _USABLE.format(_OLDEST, _NEWEST)):
            continue
        # An environment made from another environment breaks when that one is made anew.
        base = _python_says(candidate, _BASE)
        if base:
            return base
    if wanted:
        raise BridgeError(f"{wanted} is no {versions} with venv and ensurepip")
    raise BridgeError(
        f"the converters need a {versions} with venv and ensurepip, and none was found: "
        f"install one (on Debian also python3-venv), or set {VARIABLE} to a Python that has them"
    )


def _python_says(python: str, program: str) -> str:
    """Return what a Python prints for a program, "ok" for nothing, "" if it fails or does not exist."""
    try:
        done = _call([python, "-c", f"{_WITHOUT_HERE}{program}"], stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return (done.stdout.strip() or "ok") if done.returncode == 0 else ""
