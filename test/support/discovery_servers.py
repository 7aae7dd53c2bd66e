"""A discovery server of Fast DDS that runs beside a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from free_ports import free_port
from programs import Program

_PROGRAM = "fast-discovery-server"


@contextmanager
def discovery_server(folder: Path) -> Iterator[str]:
    """Run a server on the loopback. Yield the value of ROS_DISCOVERY_SERVER, or skip the test without Fast DDS.

    It is what `fastdds discovery -i 0 -l 127.0.0.1 -p PORT` starts. That script does not find the wheels' program.
    """
    if not os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps"):
        pytest.skip("the discovery server is Fast DDS's, and the middleware is another one")
    prefix = Path(sys.prefix)
    program = shutil.which(_PROGRAM, path=os.pathsep.join([str(prefix / "bin"), os.environ.get("PATH", "")]))
    if program is None:
        pytest.skip(f"{_PROGRAM} is not installed: it comes with Fast DDS")
    # The wheels' programs do not find the wheels' libraries.
    libraries = [
        str(prefix / "lib"),
        *map(str, sorted(prefix.glob("lib/python3*/site-packages/ros_fast*.libs"))),
    ]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")]),
    }
    # Fast DDS 3 takes the number of the command first, and shows its help as a fault of Fast DDS 2's options.
    shown = subprocess.run([program, "-h"], env=environment, capture_output=True, timeout=60, check=False)
    command = ["42"] if shown.returncode else []
    port = str(free_port())
    arguments = [program, *command, "-i", "0", "-l", "127.0.0.1", "-p", port]
    with Program(arguments, cwd=folder, env=environment) as server:
        server.wait_for("Server (started|is running)|" + port)
        yield f"127.0.0.1:{port}"
