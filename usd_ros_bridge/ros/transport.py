"""Transport of Fast DDS in the bridge's process: shared memory large enough for images, or UDP where it is full."""

from __future__ import annotations

import atexit
import os
import tempfile
import textwrap
import time
from functools import cache
from pathlib import Path

from rclpy.utilities import get_rmw_implementation_identifier

SEGMENT_BYTES = 64 * 2**20
"""Size of the shared-memory segment of each participant; two rgb8 images of 3840x2160 fit."""

WITHOUT_IMAGES_BYTES = 8 * 2**20
"""Size where no images are sent; two /tf messages of a thousand robots of 30 links fit."""

LEAST_SEGMENT_BYTES = 2**20
"""A segment below this is no better than the half MiB that Fast DDS takes by itself."""

LEAST_FREE_BYTES = 2 * 2**20
"""Fast DDS itself takes about 1.2 MiB for a participant: two segments, and a queue for each port."""

_AUTO = "AUTO"
GRAPH_BYTES, GRAPH_PERIOD_MS = 256 * 1024, 100
"""Most that is sent of lists of a process's endpoints in a period; a list of 8,000 endpoints has 128 KiB."""

_SENDING_THREADS = "dds.asyn"
"""How Fast DDS 3 names the threads of its flow controllers."""
_SENT_S = 0.5
_SENT_POLL_S = 0.005
_SENT_POLLS = 10
"""A thread that waits for a lock also sleeps: on a busy machine for some of these polls."""

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Fast DDS makes its segments
_SHARE_OF_FREE = 4
_LIBRARIES = {
    "libfastdds.so": "FASTDDS_DEFAULT_PROFILES_FILE",
    "libfastrtps.so": "FASTRTPS_DEFAULT_PROFILES_FILE",
}
_BUILTIN_TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
_VARIABLES = (*_LIBRARIES.values(), _BUILTIN_TRANSPORTS)
_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_FILES = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")


_DISCOVERY, _GRAPH = "usd_ros_bridge_discovery", "usd_ros_bridge_graph"
_BUILTIN = f"""
      <builtin>
        <flow_controller_name>{_DISCOVERY}</flow_controller_name>
      </builtin>"""
_CONTROLLERS = {
    _DISCOVERY: f"""
        <flow_controller_descriptor>
          <name>{_DISCOVERY}</name>
        </flow_controller_descriptor>""",
    _GRAPH: f"""
        <flow_controller_descriptor>
          <name>{_GRAPH}</name>
          <max_bytes_per_period>{GRAPH_BYTES}</max_bytes_per_period>
          <period_ms>{GRAPH_PERIOD_MS}</period_ms>
        </flow_controller_descriptor>""",
}
_GRAPH_WRITER = f"""
  <data_writer profile_name="ros_discovery_info">
    <qos>
      <publishMode>
        <kind>ASYNCHRONOUS</kind>
        <flow_controller_name>{_GRAPH}</flow_controller_name>
      </publishMode>
    </qos>
  </data_writer>"""


def use_large_message_transport(*, discovery_thread: bool = False, most_bytes: int = SEGMENT_BYTES) -> bool:
    """Configure Fast DDS to send messages of megabytes, such as images, through shared memory.

    Without it a best-effort message of more than about half a megabyte is lost between the processes of one machine.
    It is needed in the process that sends, before the first rclpy context of that process has a node. Other machines
    are reached through UDP as before, and the discovery range is ROS 2's to decide as before.

    The bridge's own process calls this. A host calls it itself, or not: it sets an environment variable, which `Bridge`
    never does, to the path of a temporary file that goes when the process ends.

    A choice of the user's wins: nothing is done where FASTDDS_DEFAULT_PROFILES_FILE, FASTRTPS_DEFAULT_PROFILES_FILE or
    FASTDDS_BUILTIN_TRANSPORTS is set, or where the working directory holds a default profile of Fast DDS. Nor is
    anything done with another middleware, or where shared memory or the temporary directory has no room.

    Args:
        discovery_thread: Announce nodes from a thread of its own, where Fast DDS is 3 or later. A node is then
            announced after Fast DDS accepts messages, so that no answer of a peer is dropped. Messages that this thread
            has not sent when the last node of a context is destroyed are lost. The bridge waits for it with its own
            nodes; a host with other nodes leaves this out, or peers list those for up to 20 s after their end.
            The list of endpoints is sent from such a thread, too, which needs RMW_FASTRTPS_PUBLICATION_MODE=AUTO: that
            is set where nothing else is, and has to stay as long as the process opens nodes.
        most_bytes: Size of the segment, all of which counts as memory of the process.

    Returns:
        Whether the transport is in use by what this process opens from now on.
    """
    variable = _profiles_variable()
    if variable is None:
        return False
    if _is_chosen_by_user():
        return os.environ.get(variable) in _own_profiles()
    size = min(segment_bytes(), most_bytes)
    if size < LEAST_SEGMENT_BYTES:
        return False
    try:
        # Fast DDS 2 has no such setting for discovery.
        threaded = discovery_thread and variable == _LIBRARIES["libfastdds.so"]
        # In another mode rmw_fastrtps overrides how a profile sends, and the profile with a thread is refused.
        graph = threaded and os.environ.get("RMW_FASTRTPS_PUBLICATION_MODE", _AUTO) == _AUTO
        text = profile_xml(size, udp=not _range_is_localhost(), discovery_thread=threaded, graph_thread=graph)
        profile = _profile(text)
        os.environ[variable] = profile
        if graph:
            # All other topics are sent at once as before: that is the default of Fast DDS, too.
            os.environ["RMW_FASTRTPS_PUBLICATION_MODE"] = _AUTO
        if threaded:
            _threaded_profiles().add(profile)
    except OSError:
        return False
    return True


def has_discovery_thread() -> bool:
    """Return whether this process's Fast DDS announces nodes and topics from a thread of its own."""
    return any(os.environ.get(variable) in _threaded_profiles() for variable in _LIBRARIES.values())


def wait_until_sent() -> None:
    """Wait until the threads that Fast DDS sends from have nothing left to send, half a second at most.

    Returns at once without such threads, and outside of Linux.
    """
    deadline = time.monotonic() + _SENT_S
    idle = 0
    while idle < _SENT_POLLS and time.monotonic() < deadline:
        states = _sending_threads()
        if not states:
            return
        idle = idle + 1 if states == {"S"} else 0
        time.sleep(_SENT_POLL_S)


def _sending_threads() -> set[str]:
    """Return the states of the threads that Fast DDS sends from, as in /proc ("S": it waits for work)."""
    states = set()
    for file in Path("/proc/self/task").glob("*/stat"):
        try:
            name, _, rest = (
                file.read_text(errors="replace", encoding="utf-8").partition("(")[2].rpartition(")")
            )
        except OSError:
            # It has ended.
            continue
        if name.startswith(_SENDING_THREADS):
            states.add(rest.split()[0])
    return states


def keep_to_udp_where_shared_memory_is_full() -> str:
    """Keep Fast DDS of this process off shared memory where nearly none is free.

    A segment whose memory is not there ends a process with SIGBUS, and a port that cannot be made leaves peers waiting.
    Called before the process's first node. A choice of the user's wins, as with `use_large_message_transport`. With
    the discovery range LOCALHOST this process finds its peers on the loopback as before.

    Returns:
        What to show people, "" where nothing was done.
    """
    variable = _profiles_variable()
    free = _free_bytes()
    if variable is None or _is_chosen_by_user() or free >= LEAST_FREE_BYTES:
        return ""
    if _range_is_localhost():
        # rmw_fastrtps adds shared memory to this range, whatever a profile says.
        try:
            os.environ[variable] = _profile(loopback_profile_xml())
        except OSError:
            return ""
        os.environ[_RANGE] = "SYSTEM_DEFAULT"
    else:
        os.environ[_BUILTIN_TRANSPORTS] = "UDPv4"
    return (
        f"{_SHARED_MEMORY} has only {free // 1024} KiB free: messages go by UDP alone, and large ones may be lost; "
        "remove what killed processes left there (fastdds_*), or give a container more (docker run --shm-size=512m)"
    )


def segment_bytes() -> int:
    """Return how large a segment is made: 64 MiB, or a quarter of the shared memory that is free; 0 without any.

    A segment takes its whole size at once, and each domain of each process has one.
    """
    return min(SEGMENT_BYTES, _free_bytes() // _SHARE_OF_FREE)


def profile_xml(
    segment_size: int, *, udp: bool = True, discovery_thread: bool = False, graph_thread: bool = False
) -> str:
    """Return the profile, in the XML that Fast DDS 2 and 3 share.

    UDP keeps its defaults, and comes second as it does in the built-in transports: local readers are served by the
    first one that reaches them.

    Args:
        segment_size: Bytes of shared memory.
        udp: Include UDP. In the discovery range LOCALHOST rmw_fastrtps adds it by itself. Two of them send each
            announcement twice, which takes long enough for the answer of a peer to come while Fast DDS still drops
            what arrives: then the peer is found with its next announcement only, up to 3 s later.
        discovery_thread: Send discovery from the thread of a flow controller. Fast DDS announces a participant before
            it accepts messages (`RTPSParticipantImpl::enable`), and a peer answers once: from another thread the
            announcement leaves after that.
        graph_thread: Send the list of the participant's endpoints from such a thread, too, a few times a second.
            rmw_fastrtps publishes that list (`ros_discovery_info`) again with each endpoint: the latest one replaces
            those that were not sent yet. Otherwise what thousands of endpoints send grows with their square. It needs
            the publication mode AUTO of rmw_fastrtps.
    """
    descriptor = (
        """
            <transport_descriptor>
              <transport_id>usd_ros_bridge_udp</transport_id>
              <type>UDPv4</type>
            </transport_descriptor>"""
        if udp
        else ""
    )
    transport = "\n        <transport_id>usd_ros_bridge_udp</transport_id>" if udp else ""
    builtin = _BUILTIN if discovery_thread else ""
    names = [*([_DISCOVERY] if discovery_thread else ()), *([_GRAPH] if graph_thread else ())]
    controllers = _flow_controllers(*names)
    graph = _GRAPH_WRITER if graph_thread else ""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <transport_descriptors>
    <transport_descriptor>
      <transport_id>usd_ros_bridge_shared_memory</transport_id>
      <type>SHM</type>
      <segment_size>{segment_size}</segment_size>
    </transport_descriptor>{descriptor}
  </transport_descriptors>
  <participant profile_name="usd_ros_bridge" is_default_profile="true">
    <rtps>
      <useBuiltinTransports>false</useBuiltinTransports>
      <userTransports>
        <transport_id>usd_ros_bridge_shared_memory</transport_id>{transport}
      </userTransports>{builtin}{controllers}
    </rtps>
  </participant>{graph}
</profiles>
"""


def _profiles_variable() -> str | None:
    """Return the variable that this process's Fast DDS reads; None with another middleware.

    Only the newer of the two names is right for Fast DDS 3, which warns of the older one; only the older for 2.
    """
    if not _is_fast_dds():
        return None
    try:
        loaded = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return next((variable for library, variable in _LIBRARIES.items() if f"/{library}" in loaded), None)


def loopback_profile_xml() -> str:
    """Return the profile of config/fastdds_loopback_udp.xml: UDP on the loopback, and nothing else."""
    return textwrap.dedent(
        """\
        <?xml version="1.0" encoding="UTF-8"?>
        <profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
          <transport_descriptors>
            <transport_descriptor>
              <transport_id>loopback_udp</transport_id>
              <type>UDPv4</type>
              <interfaceWhiteList>
                <address>127.0.0.1</address>
              </interfaceWhiteList>
              <maxInitialPeersRange>32</maxInitialPeersRange>
            </transport_descriptor>
          </transport_descriptors>
          <participant profile_name="loopback_udp" is_default_profile="true">
            <rtps>
              <useBuiltinTransports>false</useBuiltinTransports>
              <userTransports>
                <transport_id>loopback_udp</transport_id>
              </userTransports>
              <builtin>
                <metatrafficUnicastLocatorList>
                  <locator/>
                </metatrafficUnicastLocatorList>
                <initialPeersList>
                  <locator>
                    <udpv4>
                      <address>127.0.0.1</address>
                    </udpv4>
                  </locator>
                </initialPeersList>
              </builtin>
            </rtps>
          </participant>
        </profiles>
        """
    )


def _flow_controllers(*names: str) -> str:
    if not names:
        return ""
    return f"""
      <flow_controller_descriptor_list>{"".join(_CONTROLLERS[name] for name in names)}
      </flow_controller_descriptor_list>"""


def _range_is_localhost() -> bool:
    return os.environ.get(_RANGE) == "LOCALHOST"


def _free_bytes() -> int:
    """Return how much shared memory is free; 0 without any."""
    try:
        free = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return 0
    return int(free.f_bavail * free.f_frsize)


def _is_fast_dds() -> bool:
    """Return whether Fast DDS is the middleware. Loads it, too."""
    return str(get_rmw_implementation_identifier()).startswith("rmw_fastrtps")


def _is_chosen_by_user() -> bool:
    return any(name in os.environ for name in _VARIABLES) or any(Path(name).exists() for name in _FILES)


@cache
def _profile(text: str) -> str:
    """Return the path of a temporary file with a profile, which is there as long as this process lives."""
    descriptor, path = tempfile.mkstemp(prefix="usd_ros_bridge-", suffix=".xml")
    atexit.register(_remove, path, os.getpid())
    os.close(descriptor)
    Path(path).write_text(text, encoding="utf-8")
    _own_profiles().add(path)
    return path


@cache
def _own_profiles() -> set[str]:
    return set()


@cache
def _threaded_profiles() -> set[str]:
    """Return the profiles of this process with a thread for discovery."""
    return set()


def _remove(path: str, owner: int) -> None:
    # A forked child inherits what is to be done at the end, and must not do it.
    if os.getpid() == owner:
        Path(path).unlink(missing_ok=True)
