"""Make a virtual environment with ROS wheels a ROS 2 prefix that you need not source.

The wheel usd_ros_bridge_interfaces has this module, together with a .pth file that imports it at every start of
the environment's Python. `make setup` over a sourced ROS 2, which needs no such wheel, copies both. The wheels' own
.pth file has re-executed the interpreter by then, with LD_LIBRARY_PATH set, because the loader reads that variable
only once, at the start of a process. This module does two things:

- It adds this environment to AMENT_PREFIX_PATH, because ament_index_python would find no package. It adds it last,
  as an underlay, so a sourced workspace comes first.
- It removes LD_LIBRARY_PATH and the guard of the re-execution, because child processes would inherit them: other
  programs would load the wheels' libraries, and other environments' Pythons would skip their own start-up.
"""

import os
import sys

GUARD = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


def activate() -> None:
    prefixes = [path for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if path]
    if sys.prefix not in prefixes:
        os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join([*prefixes, sys.prefix])
    if os.environ.pop(GUARD, None) is None:
        return
    own = (sys.prefix + os.sep, os.path.realpath(sys.prefix) + os.sep)
    paths = [path for path in os.environ.pop("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    foreign = [path for path in paths if not path.startswith(own)]
    if foreign:
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(foreign)


activate()
