"""Run in the converters' environment, as a script: convert a robot, or run a module such as pip or venv.

It ends with the process that started it, also by `kill -9`. Nothing of usd_ros_bridge can be imported here.

    python converter_child.py run MODULE ARGUMENT...
    python converter_child.py convert JOB     (JSON; the answer is the last line of standard output, JSON, too)
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import sys
from typing import Any

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
    return str(converter.convert(job["source"], job["output"]).path)


def main() -> None:
    """Run the command line of this script."""
    command, *arguments = sys.argv[1:]
    end_with_parent()
    if command == "run":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    try:
        answer = {"stage": convert(json.loads(arguments[0]))}
    except Exception as error:  # noqa: BLE001 - whatever a converter raises is its answer
        answer = {"error": str(error) or type(error).__name__}
    print(f"\n{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
