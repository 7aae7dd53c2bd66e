"""Checks of the installation for `doctor`: what `run` needs, whether it works here, and what cures it.

What could hang or crash is tried in a process of its own, with a time-out. Nothing is sent beyond the loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from usd_ros_bridge.ament_index import PREFIXES, ament_prefixes, rclpy_prefix, resource_text
from usd_ros_bridge.errors import did_you_mean, escaped, quoted
from usd_ros_bridge.plugins import all_installed_entries
from usd_ros_bridge.process_settings import user_cache
from usd_ros_bridge.ranges import MAX_DOMAIN_ID
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.requirements import (
    CLICK,
    INTERFACES,
    MUJOCO,
    NUMPY,
    OPENUSD,
    RICH,
    ROS,
    SCIPY,
    Requirement,
    is_installed,
)

Status = Literal["ok", "warning", "error"]

PROBE_SECONDS = 20.0

ROS_PACKAGES = (
    "action_msgs",
    "builtin_interfaces",
    "diagnostic_msgs",
    "geometry_msgs",
    "nav_msgs",
    "rcl_interfaces",
    "rclpy",
    "rosgraph_msgs",
    "sensor_msgs",
    "std_msgs",
    "std_srvs",
    "trajectory_msgs",
)
"""Python packages of ROS that the bridge imports, without those of `requirements.INTERFACES`."""

TESTED_PYTHONS = ((3, 10), (3, 13))
OLDEST_OPENUSD = (26, 5)
OLDEST_MUJOCO = (3, 3)
DISTRIBUTIONS = {"7": "jazzy", "9": "kilted"}
"""ROS distributions by the major version of their rclpy."""
RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
SAFE_DOMAIN = 101
"""Ports of higher domains are among those that Linux gives to any program."""
LITTLE_BYTES = 4 * 2**20
"""Free shared memory below which the bridge cannot make a segment for large messages: it takes a quarter."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Fast DDS makes its segments
NARROW = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check.

    Attributes:
        name: What was checked.
        status: ok; warning: something works less well; error: it prevents `run`.
        found: What is there, or what is wrong.
        remedy: What cures it; "" if nothing is to be done.
    """

    name: str
    status: Status
    found: str
    remedy: str = ""


def run_checks() -> list[Check]:
    """Return the results of all checks, in the order of the table."""
    checks: dict[str, Callable[[], Check]] = {
        "Python": check_python,
        "command line": check_command_line,
        "ROS 2": check_ros,
        "rmw": check_rmw,
        "interfaces": check_interfaces,
        "OpenUSD": check_openusd,
        "MuJoCo": check_mujoco,
        "OpenGL": check_gl,
        "shared memory": check_shared_memory,
        "domain": check_domain,
        "discovery": check_discovery,
        "loopback": check_loopback,
        "terminal": check_terminal,
        "cache": check_cache,
        "compilers": check_compilers,
        "plug-ins": check_plugins,
    }

    def run(name: str, check: Callable[[], Check]) -> Check:
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - one check that fails must not hide the others
            return Check(name=name, status="warning", found=f"cannot be checked: {describe(error)}")

    # Most of the time passes in processes: four of them at once.
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(run, checks.keys(), checks.values()))


def probe(program: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a program in a Python of its own. Return the JSON object that it prints last, else its fault as `error`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(variables or {})}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and code of this module
            # `-c` would take modules of the current directory first.
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PROBE_SECONDS:g} s"}
    if done.returncode < 0:
        return {"error": f"it crashes (signal {-done.returncode})"}
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return {"error": lines[-1] if lines else f"exit status {done.returncode}"}


# --- Python and what `run` needs -------------------------------------------------------------------------------


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Check that this Python is one that the bridge is tested with."""
    found = f"{'.'.join(map(str, version[:3]))}, {sys.executable}"
    (oldest, newest), name = TESTED_PYTHONS, "Python"
    tested = ".".join(map(str, oldest)) + " to " + ".".join(map(str, newest))
    if version[:2] < oldest:
        return Check(name=name, status="error", found=found, remedy=f"use CPython {tested}")
    if version[:2] > newest or sys.implementation.name != "cpython":
        return Check(
            name=name, status="warning", found=found, remedy=f"tested with CPython {tested}: use one"
        )
    return Check(name=name, status="ok", found=found)


def check_command_line() -> Check:
    """Check the Python packages that the command line and everything else need."""
    needed = (NUMPY, SCIPY, CLICK, RICH)
    missing = [each for each in needed if not is_installed(each.modules[0])]
    if missing:
        what = ", ".join(each.label for each in missing)
        remedy = f"pip install {' '.join(each.modules[0] for each in missing)}"
        return Check(name="command line", status="error", found=f"not installed: {what}", remedy=remedy)
    versions = ", ".join(f"{each.label} {_version(each.label)}" for each in needed)
    return Check(name="command line", status="ok", found=versions)


def check_ros() -> Check:
    """Check that rclpy and the packages of ROS can be imported, and say where they come from."""
    missing = [name for name in ROS_PACKAGES if not is_installed(name)]
    if missing:
        return _ros_fault(f"not installed: {', '.join(missing)}")
    found = probe(
        'import json, os, rclpy; print(json.dumps({"file": rclpy.__file__}), flush=True); os._exit(0)'
    )
    if "error" in found:
        return _ros_fault(f"rclpy cannot be imported: {found['error']}")
    wheel, sourced = _version("ros-rclpy"), os.environ.get("ROS_DISTRO", "")
    in_environment = Path(found["file"]).is_relative_to(sys.prefix)
    if wheel and in_environment:
        distribution = DISTRIBUTIONS.get(wheel.partition(".")[0], "")
        return Check(name="ROS 2", status="ok", found=f"{distribution} wheels, rclpy {wheel}".strip())
    return Check(name="ROS 2", status="ok", found=f"{sourced or 'sourced'}, {Path(found['file']).parent}")


def _ros_fault(what: str) -> Check:
    sourced = os.environ.get("ROS_DISTRO", "")
    where = f" (ROS_DISTRO is {quoted(sourced)})" if sourced else " (no ROS 2 is sourced)"
    return Check(name="ROS 2", status="error", found=what + where, remedy=ROS.remedy)


_RMW = """
import json, os
from rclpy.utilities import get_rmw_implementation_identifier
print(json.dumps({"rmw": get_rmw_implementation_identifier()}), flush=True)
os._exit(0)
"""


def check_rmw() -> Check:
    """Check that the middleware can be loaded. No node is made."""
    if not is_installed("rclpy"):
        return Check(name="rmw", status="error", found="needs ROS 2", remedy=ROS.remedy)
    asked = os.environ.get("RMW_IMPLEMENTATION", "")
    found = probe(_RMW)
    if "error" not in found:
        by = " by RMW_IMPLEMENTATION" if asked else ""
        return Check(name="rmw", status="ok", found=f"{found['rmw']}{by}")
    if asked:
        remedy = f"unset RMW_IMPLEMENTATION, or install {asked}"
        return Check(
            name="rmw", status="error", found=f"{asked} cannot be loaded: {found['error']}", remedy=remedy
        )
    return Check(name="rmw", status="error", found=found["error"], remedy=ROS.remedy)


_TYPES = {
    "tf2_msgs": "msg.TFMessage",
    "control_msgs": "action.FollowJointTrajectory",
    "simulation_interfaces": "srv.GetEntities",
}
_TYPE = """
import importlib, json, os
module, name = "{package}.{type}".rsplit(".", 1)
getattr(importlib.import_module(module), name).__class__.__import_type_support__()
print(json.dumps({{}}), flush=True)
os._exit(0)
"""


def _index_fault() -> str:
    """Return why the types of installed messages are not found, "" where they are: every interface is then disabled."""
    installed = [name for name in ROS_PACKAGES if name != "rclpy" and is_installed(name)]
    missing = [name for name in installed if resource_text("rosidl_interfaces", name) is None]
    if not missing:
        return ""
    prefixes = ", ".join(map(str, ament_prefixes()))
    where = (
        f"not in the ament index of {prefixes}" if prefixes else f"in no ament index: {PREFIXES} is not set"
    )
    return f"the types of {', '.join(missing)} are {where}; their interfaces are disabled"


def check_interfaces() -> Check:
    """Check that types are found, and the interface packages that not every ROS has, with their type supports."""
    no_index = _index_fault()
    if no_index:
        remedy = f"source the ROS 2 installation, or set {PREFIXES} to its prefix"
        return Check(name="interfaces", status="error", found=no_index, remedy=remedy)
    faults = {}
    for package, type_name in _TYPES.items():
        if not is_installed(package):
            faults[package] = "not installed"
        elif "error" in (found := probe(_TYPE.format(package=package, type=type_name))):
            faults[package] = f"cannot be loaded: {found['error']}"
    if not faults:
        where = (
            ""
            if os.environ.get(PREFIXES)
            else f"; {PREFIXES} is not set: types are those of {rclpy_prefix()}"
        )
        return Check(name="interfaces", status="ok", found=", ".join(_TYPES) + where)
    what = "; ".join(f"{package} {fault}" for package, fault in faults.items())
    # Without /tf there is no bridge; without the others it leaves out what needs them.
    status: Status = "error" if "tf2_msgs" in faults else "warning"
    return Check(name="interfaces", status=status, found=what, remedy=INTERFACES.remedy)


_OPENUSD = """
import json, os
import pxr
from pxr import Usd
print(json.dumps({"version": Usd.GetVersion(), "path": os.path.dirname(pxr.__file__)}), flush=True)
os._exit(0)
"""


def check_openusd() -> Check:
    """Check that OpenUSD can be imported, that there is one, and that it is new enough."""
    if not is_installed("pxr"):
        return _absent(OPENUSD, "OpenUSD", "error")
    found = probe(_OPENUSD)
    if "error" in found:
        remedy = f"pip install --force-reinstall {OPENUSD.remedy.removeprefix('pip install ')}"
        return Check(
            name="OpenUSD", status="error", found=f"cannot be imported: {found['error']}", remedy=remedy
        )
    version = tuple(found["version"][1:])
    text = f"{'.'.join(map(str, version))}, {found['path']}"
    if version < OLDEST_OPENUSD:
        return Check(name="OpenUSD", status="warning", found=f"{text}: too old", remedy=OPENUSD.remedy)
    copies = _copies("pxr")
    if len(copies) > 1:
        remedy = "keep one: uninstall the others, or take their directories out of PYTHONPATH"
        return Check(
            name="OpenUSD",
            status="warning",
            found=f"{len(copies)} copies: {', '.join(copies)}",
            remedy=remedy,
        )
    return Check(name="OpenUSD", status="ok", found=text)


def _copies(package: str) -> list[str]:
    """Return where a package is: in directories of sys.path, and distributions that share one directory."""
    places = dict.fromkeys(
        str((Path(entry or ".") / package).resolve())
        for entry in sys.path
        if (Path(entry or ".") / package / "__init__.py").is_file()
    )
    owners = list(dict.fromkeys(metadata.packages_distributions().get(package, ())))
    return owners if len(places) < len(owners) else list(places)


# --- The backend mujoco ------------------------------------------------------------------------------------------


def check_mujoco() -> Check:
    """Check that MuJoCo can be imported and is new enough."""
    if not is_installed("mujoco"):
        return _absent(MUJOCO, "MuJoCo", "warning")
    code = (
        'import json, os, mujoco; print(json.dumps({"version": mujoco.__version__}), flush=True); os._exit(0)'
    )
    found = probe(code, {"MUJOCO_GL": "disable"})
    if "error" in found:
        remedy = f"pip install --force-reinstall {MUJOCO.remedy.removeprefix('pip install ')}"
        return Check(
            name="MuJoCo", status="warning", found=f"cannot be imported: {found['error']}", remedy=remedy
        )
    version = found["version"]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_MUJOCO:
        return Check(name="MuJoCo", status="warning", found=f"{version}: too old", remedy=MUJOCO.remedy)
    return Check(name="MuJoCo", status="ok", found=version)


def check_gl() -> Check:
    """Check which OpenGL library renders images without a window, by making a context."""
    if not is_installed("mujoco"):
        return Check(name="OpenGL", status="warning", found="needs MuJoCo", remedy=MUJOCO.remedy)
    from usd_ros_bridge.backends.mujoco.gl_context import PACKAGES, find_gl
    from usd_ros_bridge.errors import BackendError

    packages = ", or ".join(PACKAGES.values())
    remedy = f"apt install {packages}; until then images are made by ray casting"
    try:
        choice = find_gl("auto")
    except BackendError as error:
        return Check(name="OpenGL", status="warning", found=str(error), remedy="unset MUJOCO_GL")
    if choice.kind is None and os.environ.get("MUJOCO_GL"):
        remedy = f"unset MUJOCO_GL, or {remedy}"
    if choice.kind is None:
        return Check(name="OpenGL", status="warning", found=f"no context: {choice.reason}", remedy=remedy)
    return Check(name="OpenGL", status="ok", found=choice.kind)


# --- The middleware ----------------------------------------------------------------------------------------------


def check_shared_memory(directory: Path = SHARED_MEMORY) -> Check:
    """Check that shared memory has room, and that no process left its Fast DDS files there."""
    name = "shared memory"
    try:
        status = os.statvfs(directory)
    except OSError as error:
        what, remedy = f"{directory}: {error.strerror}", "large messages go by UDP; mount a tmpfs there"
        return Check(name=name, status="warning", found=what, remedy=remedy)
    free, size = (blocks * status.f_frsize for blocks in (status.f_bavail, status.f_blocks))
    found = f"{directory} {free / 2**20:.0f} MiB of {size / 2**20:.0f} MiB free"
    left = _left_segments(directory)
    if left:
        found += f", {left} segments of Fast DDS whose processes have ended"
    if free < LITTLE_BYTES:
        remedy = "remove files that processes left there; give a container more: docker run --shm-size=512m"
        return Check(name=name, status="warning", found=found, remedy=remedy)
    if left:
        return Check(name=name, status="warning", found=found, remedy="fastdds shm clean")
    return Check(name=name, status="ok", found=found)


def _left_segments(directory: Path) -> int:
    """Count the segments of Fast DDS that no process holds: as long as one lives, it locks the file `*_el`."""
    import fcntl

    left = 0
    for pattern in ("fastrtps_*_el", "fastdds_*_el"):
        for file in directory.glob(pattern):
            if "_port" in file.name:
                # Ports are left behind by all processes, and used by the next one.
                continue
            try:
                with file.open("rb") as opened:
                    # A shared lock, for an instant: it hinders no other check of this kind.
                    fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    left += 1
            except OSError:
                # It is held, gone, or another user's.
                continue
    return left


def check_domain(environ: Mapping[str, str] = os.environ) -> Check:
    """Check ROS_DOMAIN_ID."""
    text = environ.get("ROS_DOMAIN_ID", "")
    if not text:
        return Check(name="domain", status="ok", found="0: ROS_DOMAIN_ID is not set")
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) > MAX_DOMAIN_ID:
        remedy = f"set ROS_DOMAIN_ID to a number of 0 to {MAX_DOMAIN_ID}, or unset it"
        return Check(name="domain", status="error", found=f"ROS_DOMAIN_ID is {quoted(text)}", remedy=remedy)
    if int(text) > SAFE_DOMAIN:
        remedy = f"0 to {SAFE_DOMAIN} have ports that Linux gives to no other program"
        return Check(name="domain", status="warning", found=text, remedy=remedy)
    return Check(name="domain", status="ok", found=text)


def check_discovery(environ: Mapping[str, str] = os.environ) -> Check:
    """Check the variables that decide which nodes find each other."""
    name, found = "discovery", environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "")
    if environ.get("ROS_LOCALHOST_ONLY", "0") not in ("", "0"):
        remedy = "unset it and set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
        return Check(name=name, status="warning", found="ROS_LOCALHOST_ONLY is deprecated", remedy=remedy)
    if found and found not in RANGES:
        guess = did_you_mean(found, RANGES)
        remedy = f"{guess} There are: {', '.join(RANGES)}".strip()
        what = f"ROS_AUTOMATIC_DISCOVERY_RANGE is {quoted(found)}"
        return Check(name=name, status="warning", found=what, remedy=remedy)
    if found == "OFF":
        remedy = "LOCALHOST finds the nodes of this machine, SUBNET those of the network"
        what = "ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: nodes of other processes are not found"
        return Check(name=name, status="warning", found=what, remedy=remedy)
    peers = environ.get("ROS_STATIC_PEERS", "")
    more = f", ROS_STATIC_PEERS {peers}" if peers else ""
    return Check(
        name=name, status="ok", found=(found or "SUBNET: ROS_AUTOMATIC_DISCOVERY_RANGE is not set") + more
    )


_GROUP, _LOOPBACK = "239.255.0.1", "127.0.0.1"
_ARRIVES_S = 2.0


def check_loopback() -> Check:
    """Check that a multicast packet of the loopback arrives: ROS 2 finds the nodes of a machine by these."""
    name, remedy = (
        "loopback",
        "ip link set lo up multicast on; or set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST",
    )
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind((_GROUP, 0))
            membership = socket.inet_aton(_GROUP) + socket.inet_aton(_LOOPBACK)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(_ARRIVES_S)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(_LOOPBACK))
            # It never leaves this machine.
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            sender.sendto(b"usd_ros_bridge", receiver.getsockname())
            receiver.recv(64)
    except TimeoutError:
        return Check(name=name, status="warning", found="multicast packets do not arrive", remedy=remedy)
    except OSError as error:
        return Check(name=name, status="warning", found=f"no multicast: {error.strerror}", remedy=remedy)
    return Check(name=name, status="ok", found="multicast packets arrive")


# --- Around it ---------------------------------------------------------------------------------------------------


def check_terminal() -> Check:
    """Check that the terminal can show the live view."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        found, remedy = f"encoding {encoding or 'unknown'}", "set LANG=C.UTF-8, or PYTHONIOENCODING=utf-8"
        return Check(name="terminal", status="warning", found=found, remedy=remedy)
    if not sys.stdout.isatty():
        return Check(name="terminal", status="ok", found="none: `run` logs lines in place of the live view")
    columns, lines = shutil.get_terminal_size()
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        remedy = "set TERM, for example to xterm-256color"
        return Check(name="terminal", status="warning", found=f"TERM is {quoted(kind)}", remedy=remedy)
    found = f"{kind}, {columns}x{lines}"
    if columns < NARROW:
        return Check(
            name="terminal", status="warning", found=found, remedy=f"make it {NARROW} columns wide or more"
        )
    return Check(name="terminal", status="ok", found=found)


def check_cache() -> Check:
    """Check that the user's cache can be written, by a file there."""
    remedy = (
        "set XDG_CACHE_HOME to a directory that you may write; until then robot descriptions have no meshes"
    )
    try:
        directory = user_cache("meshes").parent
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        what = f"{error.filename or directory} cannot be written: {error.strerror}"
        return Check(name="cache", status="warning", found=what, remedy=remedy)
    except RuntimeError as error:
        return Check(name="cache", status="warning", found=str(error), remedy=remedy)
    return Check(name="cache", status="ok", found=str(directory))


def check_compilers() -> Check:
    """Check the compilers, which only `make setup` and `resolver --build` need."""
    found = [program for program in ("gcc", "g++", "make") if shutil.which(program)]
    missing = [program for program in ("gcc", "g++", "make") if program not in found]
    if missing:
        what = f"no {', '.join(missing)}: only building needs them (make setup, resolver --build)"
        remedy = f"apt install {' '.join(missing)}"
        return Check(name="compilers", status="warning", found=what, remedy=remedy)
    return Check(name="compilers", status="ok", found=", ".join(found))


_PLUGINS = """
import json, os
from usd_ros_bridge.cli.plugins_command import plugin_rows
faults = [row.reason for row in plugin_rows(check=True) if row.state == "disabled"]
print(json.dumps({"faults": faults}), flush=True)
os._exit(0)
"""


def check_plugins() -> Check:
    """Check that the plug-ins of other distributions can be imported."""
    name, groups = "plug-ins", ", ".join
    found: dict[str, list[str]] = {}
    for entry in all_installed_entries():
        found.setdefault(f"{entry.origin} {entry.version}".rstrip(), []).append(entry.group)
    if not found:
        return Check(name=name, status="ok", found="none are installed")
    listed = "; ".join(f"{origin} ({groups(sorted(set(of)))})" for origin, of in sorted(found.items()))
    probed = probe(_PLUGINS)
    faults = [probed["error"]] if "error" in probed else probed["faults"]
    if not faults:
        return Check(name=name, status="ok", found=listed)
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    remedy = "usd_ros_bridge plugins --check shows all; update or uninstall what is disabled"
    return Check(name=name, status="warning", found=f"{faults[0]}{more}", remedy=remedy)


def _absent(requirement: Requirement, name: str, status: Status) -> Check:
    what = f"not installed: needed for {requirement.purpose}"
    return Check(name=name, status=status, found=what, remedy=requirement.remedy)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def shown(checks: Sequence[Check]) -> list[tuple[Status, str]]:
    """Return the lines of a table for people, each with the status that colours it."""
    width = max(len(check.name) for check in checks)
    lines: list[tuple[Status, str]] = []
    for check in checks:
        lines.append((check.status, escaped(f"{check.status:<8} {check.name:<{width}}  {check.found}")))
        if check.remedy:
            lines.append((check.status, escaped(f"{'':<8} {'':<{width}}  remedy: {check.remedy}")))
    return lines
