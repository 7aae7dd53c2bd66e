"""Large messages: a shared-memory transport of Fast DDS that images fit through, where the user has chosen none."""

from __future__ import annotations

import atexit
import os
import tempfile
import textwrap
from functools import cache
from pathlib import Path

from rclpy.utilities import get_rmw_implementation_identifier

SEGMENT_BYTES = 64 * 2**20
"""Size of the shared-memory segment of each participant; two rgb8 images of 3840x2160 fit."""

LEAST_SEGMENT_BYTES = 2**20
"""A segment below this is no better than the half MiB that Fast DDS takes by itself."""

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Fast DDS makes its segments
_SHARE_OF_FREE = 4
_LIBRARIES = {
    "libfastdds.so": "FASTDDS_DEFAULT_PROFILES_FILE",
    "libfastrtps.so": "FASTRTPS_DEFAULT_PROFILES_FILE",
}
_VARIABLES = (*_LIBRARIES.values(), "FASTDDS_BUILTIN_TRANSPORTS")
_FILES = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")


def use_large_message_transport() -> bool:
    """Has Fast DDS send messages of megabytes, such as images, through shared memory that they fit into.

    Without it a best-effort message of more than about half a megabyte is lost between the processes of one machine.
    It is needed in the process that sends, before the first rclpy context of that process has a node. Other machines
    are reached through UDP as before, and the discovery range is ROS 2's to decide as before.

    The bridge's own process calls this. A host calls it itself, or not: it sets an environment variable, which `Bridge`
    never does, to the path of a temporary file that goes when the process ends.

    A choice of the user's wins: nothing is done where FASTDDS_DEFAULT_PROFILES_FILE, FASTRTPS_DEFAULT_PROFILES_FILE or
    FASTDDS_BUILTIN_TRANSPORTS is set, or where the working directory holds a default profile of Fast DDS. Nor is
    anything done with another middleware, or where shared memory or the temporary directory has no room.

    Returns:
        Whether the transport is in use by what this process opens from now on.
    """
    variable = _profiles_variable()
    if variable is None:
        return False
    if _is_chosen_by_user():
        return os.environ.get(variable) in _own_profiles()
    size = segment_bytes()
    if size < LEAST_SEGMENT_BYTES:
        return False
    try:
        os.environ[variable] = _profile(size)
    except OSError:
        return False
    return True


def segment_bytes() -> int:
    """Returns how large a segment is made: 64 MiB, or a quarter of the shared memory that is free; 0 without any.

    A segment takes its whole size at once, and each domain of each process has one.
    """
    try:
        free = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return 0
    return min(SEGMENT_BYTES, free.f_bavail * free.f_frsize // _SHARE_OF_FREE)


def profile_xml(segment_size: int) -> str:
    """Returns the profile, in the XML that Fast DDS 2 and 3 share.

    UDP keeps its defaults, and comes second as it does in the built-in transports: local readers are served by the
    first one that reaches them.

    Args:
        segment_size: Bytes of shared memory.
    """
    return textwrap.dedent(
        f"""\
        <?xml version="1.0" encoding="UTF-8"?>
        <profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
          <transport_descriptors>
            <transport_descriptor>
              <transport_id>usd_ros_bridge_shared_memory</transport_id>
              <type>SHM</type>
              <segment_size>{segment_size}</segment_size>
            </transport_descriptor>
            <transport_descriptor>
              <transport_id>usd_ros_bridge_udp</transport_id>
              <type>UDPv4</type>
            </transport_descriptor>
          </transport_descriptors>
          <participant profile_name="usd_ros_bridge" is_default_profile="true">
            <rtps>
              <useBuiltinTransports>false</useBuiltinTransports>
              <userTransports>
                <transport_id>usd_ros_bridge_shared_memory</transport_id>
                <transport_id>usd_ros_bridge_udp</transport_id>
              </userTransports>
            </rtps>
          </participant>
        </profiles>
        """
    )


def _profiles_variable() -> str | None:
    """Returns the variable that this process's Fast DDS reads; None with another middleware.

    Only the newer of the two names is right for Fast DDS 3, which warns of the older one; only the older for 2.
    """
    # Loads the middleware, too.
    if not get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
        return None
    try:
        loaded = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return next((variable for library, variable in _LIBRARIES.items() if f"/{library}" in loaded), None)


def _is_chosen_by_user() -> bool:
    return any(name in os.environ for name in _VARIABLES) or any(Path(name).exists() for name in _FILES)


@cache
def _profile(segment_size: int) -> str:
    """Returns the path of a temporary file with the profile, which is there as long as this process lives."""
    descriptor, path = tempfile.mkstemp(prefix="usd_ros_bridge-", suffix=".xml")
    atexit.register(_remove, path, os.getpid())
    os.close(descriptor)
    Path(path).write_text(profile_xml(segment_size), encoding="utf-8")
    _own_profiles().add(path)
    return path


@cache
def _own_profiles() -> set[str]:
    return set()


def _remove(path: str, owner: int) -> None:
    # A forked child inherits what is to be done at the end, and must not do it.
    if os.getpid() == owner:
        Path(path).unlink(missing_ok=True)
