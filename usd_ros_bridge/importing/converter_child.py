"""Run in the converters' environment, as a script: convert a robot, or run a module such as pip or venv.

It ends with the process that started it, also by `kill -9`. Nothing of usd_ros_bridge can be imported here, except the
files of this folder that import nothing of it themselves.

    python converter_child.py run MODULE ARGUMENT...
    python converter_child.py convert JOB     (JSON; the answer is the last line of standard output, JSON, too)
    python converter_child.py expand JOB
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from xml.dom import minidom

if TYPE_CHECKING:
    from usd_ros_bridge.importing.read_guard import Guard, guard_dae, guard_mjcf, guard_obj, restrict_reads
else:
    # In the folder of this script.
    from read_guard import Guard, guard_dae, guard_mjcf, guard_obj, restrict_reads

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def convert(job: dict[str, Any]) -> dict[str, Any]:
    """Convert a robot. Return the path of the stage or an error, and what was left out."""
    guard = Guard(job["folders"])
    sys.addaudithook(guard.check_copy)
    with TemporaryDirectory() as directory:
        restrict_reads([job["source"], job["output"], directory, *job["folders"]])
        try:
            answer = {"stage": convert_guarded(job, guard, Path(directory))}
        except Exception as error:  # noqa: BLE001 - whatever a converter raises is its answer
            answer = {"error": error_text(error)}
    return {**answer, "left_out": [[by, what, path] for (by, what), path in guard.left_out.items()]}


def convert_guarded(job: dict[str, Any], guard: Guard, directory: Path) -> str:
    """Convert a robot with readers that ask a guard. Return the path of the stage.

    Args:
        job: As for `convert`.
        guard: Decides what is read.
        directory: For a copy of the robot file.
    """
    import usdex.core

    usdex.core.activateDiagnosticsDelegate()
    usdex.core.setDiagnosticsLevel(usdex.core.DiagnosticsLevel.eWarning)
    source = Path(job["source"])
    converter: Any
    guard_obj(guard)
    if job["kind"] == "mjcf":
        guard_mjcf(guard, job["parts"])
        import mujoco_usd_converter

        converter = mujoco_usd_converter.Converter()
    else:
        guard_dae(guard)
        import urdf_usd_converter

        converter = urdf_usd_converter.Converter()
        source = convertible_urdf(source, directory, job["files"])
    return str(converter.convert(str(source), job["output"]).path)


def error_text(error: Exception) -> str:
    """Return what an exception says, or what it is."""
    return str(error) or type(error).__name__


def convertible_urdf(source: Path, directory: Path, files: Mapping[str, str]) -> Path:
    """Return a copy of a URDF that can be converted, in a directory.

    Args:
        source: The URDF.
        directory: Where the copy is written.
        files: Paths of meshes and textures by name, "" for those that are left out.
    """
    document = minidom.parse(str(source))  # noqa: S318 - read_robot_file has refused entities
    remove_foreign_attributes(document)
    for tag in ("mesh", "texture"):
        for element in document.getElementsByTagName(tag):
            name = element.getAttribute("filename")
            if files.get(name):
                element.setAttribute("filename", files[name])
            elif name:
                remove_file(element)
    copy = directory / source.name
    copy.write_text(document.toxml(), encoding="utf-8")
    return copy


def remove_file(element: Any) -> None:
    """Remove a mesh with the visual or collision that it is the shape of, or a texture."""
    shape = element.parentNode.parentNode
    if element.tagName == "mesh" and shape is not None and shape.nodeName in ("visual", "collision"):
        element = shape
    if element.parentNode is not None:
        element.parentNode.removeChild(element)


def remove_foreign_attributes(document: minidom.Document) -> None:
    """Remove attributes of other namespaces.

    They are no names in USD, and the conversion fails: ignition:expressed_in, below <gazebo>.
    """
    for element in document.getElementsByTagName("*"):
        names = [name for name, _ in element.attributes.items()]
        for name in (each for each in names if ":" in each and not each.startswith("xmlns")):
            element.removeAttribute(name)


def make_paths_absolute(document: minidom.Document, directory: Path) -> None:
    """Make paths of files absolute that are relative to a directory: the URDF is written elsewhere."""
    for tag in ("mesh", "texture"):
        for element in document.getElementsByTagName(tag):
            name = element.getAttribute("filename")
            if name and "://" not in name:
                element.setAttribute("filename", str(directory / name))


class UnknownPackageError(Exception):
    """A xacro names an unknown package. The message is its name."""


def expand(job: dict[str, Any]) -> str:
    """Expand a xacro into a URDF. Return the path of the URDF.

    Raises:
        UnknownPackageError: `$(find NAME)` names a package that is not in the job's.
    """
    packages: dict[str, str] = job["packages"]

    def directory_of(name: str) -> str:
        if name not in packages:
            raise UnknownPackageError(name)
        return packages[name]

    # xacro looks packages up here; this environment has no ROS.
    index = types.ModuleType("ament_index_python.packages")
    index.get_package_share_directory = directory_of  # type: ignore[attr-defined]
    sys.modules["ament_index_python"] = types.ModuleType("ament_index_python")
    sys.modules[index.__name__] = index
    import xacro

    source = Path(job["source"])
    document = xacro.process_file(str(source), mappings=job["arguments"])
    make_paths_absolute(document, source.parent)
    remove_foreign_attributes(document)
    Path(job["output"]).write_text(document.toprettyxml(indent="  "), encoding="utf-8")
    return str(job["output"])


def unknown_package(error: BaseException | None) -> str:
    """Return the package that an exception, or what xacro made of it, could not find; "" for another fault."""
    while error is not None:
        if isinstance(error, UnknownPackageError):
            return str(error)
        error = getattr(error, "exc", None) or error.__cause__ or error.__context__
    return ""


def main() -> None:
    """Run the command line of this script."""
    command, *arguments = sys.argv[1:]
    end_with_parent()
    if command == "run":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    try:
        job = json.loads(arguments[0])
        answer: dict[str, Any] = convert(job) if command == "convert" else {"urdf": expand(job)}
    except Exception as error:  # noqa: BLE001 - whatever a converter raises is its answer
        answer = {"error": error_text(error), "package": unknown_package(error)}
    print(f"\n{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
