"""Run in the converters' environment, as a script: convert a robot, or run a module such as pip or venv.

It ends with the process that started it, also by `kill -9`. Nothing of usd_ros_bridge can be imported here.

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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.dom import minidom

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def convert(job: dict[str, Any]) -> str:
    """Convert a robot. Return the path of the stage."""
    import usdex.core

    usdex.core.activateDiagnosticsDelegate()
    usdex.core.setDiagnosticsLevel(usdex.core.DiagnosticsLevel.eWarning)
    if job["kind"] == "mjcf":
        import mujoco_usd_converter

        converter = mujoco_usd_converter.Converter()
    else:
        import urdf_usd_converter

        packages = [{"name": name, "path": path} for name, path in job["packages"].items()]
        converter = urdf_usd_converter.Converter(ros_packages=packages)
        with TemporaryDirectory() as directory:
            source = convertible_urdf(Path(job["source"]), Path(directory))
            return str(converter.convert(str(source), job["output"]).path)
    return str(converter.convert(job["source"], job["output"]).path)


def convertible_urdf(source: Path, directory: Path) -> Path:
    """Return a URDF that can be converted: the source, or a copy of it in a directory."""
    document = minidom.parse(str(source))  # noqa: S318 - read_robot_file has refused entities
    if not remove_foreign_attributes(document):
        return source
    make_paths_absolute(document, source.parent)
    copy = directory / source.name
    copy.write_text(document.toxml(), encoding="utf-8")
    return copy


def remove_foreign_attributes(document: minidom.Document) -> bool:
    """Remove attributes of other namespaces; return whether there were any.

    They are no names in USD, and the conversion fails: ignition:expressed_in, below <gazebo>.
    """
    found = False
    for element in document.getElementsByTagName("*"):
        names = [name for name, _ in element.attributes.items()]
        for name in (each for each in names if ":" in each and not each.startswith("xmlns")):
            element.removeAttribute(name)
            found = True
    return found


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
        answer = {"stage": convert(job)} if command == "convert" else {"urdf": expand(job)}
    except Exception as error:  # noqa: BLE001 - whatever a converter raises is its answer
        answer = {"error": str(error) or type(error).__name__, "package": unknown_package(error)}
    print(f"\n{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
