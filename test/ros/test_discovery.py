"""How soon a new bridge finds a node that was there before.

The long form compares with a plain node of rclpy, in turns: DISCOVERY_STARTS=40 pytest -s test/ros/test_discovery.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rclpy.utilities import get_rmw_implementation_identifier

from usd_ros_bridge.ros import transport

STARTS = int(os.environ.get("DISCOVERY_STARTS", "0"))
# An answer that was lost is replaced by the peer's next announcement, up to 3 s later.
LATE_S = 0.8

STARTER = """
import sys, time
from std_msgs.msg import Empty
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.transport import use_large_message_transport

if sys.argv[1] == "bridge":
    use_large_message_transport(discovery_thread=True)
for index in range(int(sys.argv[2])):
    domains = Domains(node_name=f"starter_{index}", report=print)
    node = domains.main.node
    begin = time.monotonic()
    publisher = node.create_publisher(Empty, "first", 1)
    while not publisher.get_subscription_count() and time.monotonic() < begin + 30:
        time.sleep(0.005)
    print("seconds", time.monotonic() - begin, flush=True)
    domains.main.destroy(publisher)
    domains.close()
"""

IS_FAST_DDS = get_rmw_implementation_identifier().startswith("rmw_fastrtps")
fast_dds = pytest.mark.skipif(not IS_FAST_DDS, reason="Fast DDS is not the middleware here")


def matching_times(transports: str, starts: int) -> list[float]:
    """Return the seconds from a node's creation to its first subscriber, for starts in one process."""
    child = subprocess.run(
        [sys.executable, "-c", STARTER, transports, str(starts)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return [float(line.split()[1]) for line in child.stdout.splitlines() if line.startswith("seconds")]


def measure() -> dict[str, Any]:
    """Start nodes beside a listener. Return when they matched, and what the listener says is left of them."""
    measured: dict[str, list[float]] = {"bridge": [], "plain": []}
    listener = subprocess.Popen(
        [sys.executable, "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        # In turns, so that what else the machine does slows down both.
        for _ in range(STARTS):
            for transports, seconds in measured.items():
                seconds.extend(matching_times(transports, 1))
        if not STARTS:
            measured["bridge"] = matching_times("bridge", 6)
    finally:
        left, _ = listener.communicate("\n", timeout=40)
    return {"times": measured, "left": left}


@pytest.mark.parametrize("discovery_range", ["LOCALHOST", "SUBNET"])
def test_no_announcement_is_sent_twice(discovery_range: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In LOCALHOST rmw_fastrtps adds a UDP transport to those of a profile, in SUBNET it adds none."""
    texts: list[str] = []

    def keep(text: str) -> str:
        texts.append(text)
        return "profile.xml"

    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FASTDDS_", "FASTRTPS_"))
    }
    monkeypatch.setattr(transport.os, "environ", {**kept, "ROS_AUTOMATIC_DISCOVERY_RANGE": discovery_range})
    monkeypatch.setattr(transport, "_profile", keep)
    monkeypatch.setattr(transport, "_profiles_variable", lambda: "FASTDDS_DEFAULT_PROFILES_FILE")
    monkeypatch.setattr(transport, "segment_bytes", lambda: transport.SEGMENT_BYTES)
    assert transport.use_large_message_transport()
    assert texts[0].count("<type>UDPv4</type>") == (0 if discovery_range == "LOCALHOST" else 1)


@fast_dds
@pytest.mark.timeout(120 + 20 * STARTS)
@pytest.mark.parametrize("discovery_range", ["LOCALHOST", "SUBNET"])
def test_a_node_that_was_there_before_is_found_at_once(
    own_network: list[str], domain_id: int, discovery_range: str
) -> None:
    # The wheels' start-up mark would keep a child Python from finding its libraries.
    kept = {name: value for name, value in os.environ.items() if name != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"}
    variables = {"ROS_DOMAIN_ID": str(domain_id), "ROS_AUTOMATIC_DISCOVERY_RANGE": discovery_range}
    found = subprocess.run(
        [*own_network, sys.executable, __file__],
        env=kept | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = json.loads(found.stdout)
    times = measured["times"]
    late = {name: sum(each > LATE_S for each in seconds) for name, seconds in times.items()}
    print(f"{discovery_range}: of {STARTS or 6} starts late: {late}; load {os.getloadavg()[0]:.1f}; {times}")
    assert max(times["bridge"]) < 30
    # Where its last messages are lost, others list what a node had until its lease ends: 20 s after the last
    # announcement, of which there is one every 3 s. The listener waits for less.
    assert measured["left"] == "left: []\n"
    # The long form runs on a quiet machine, where a match takes a tenth of a second. Fast DDS 2 has no such thread.
    if STARTS and "/libfastdds." in Path("/proc/self/maps").read_text(encoding="utf-8"):
        assert late["bridge"] == 0


LISTENER = """
import sys, time
import rclpy
from std_msgs.msg import Empty

rclpy.init()
node = rclpy.create_node("listener")
subscription = node.create_subscription(Empty, "first", lambda _: None, 1)
print("ready", flush=True)
sys.stdin.readline()

def left():
    # The last one of a participant is hidden: a name that begins with "_".
    others = [name for name in node.get_node_names() if name != "listener" and name[0] != "_"]
    return others + ["first"] * node.count_publishers("first")


until = time.monotonic() + 15
while left() and time.monotonic() < until:
    time.sleep(0.005)
print("left:", left(), flush=True)
node.destroy_node()
rclpy.shutdown()
"""

if __name__ == "__main__":
    print(json.dumps(measure()))
