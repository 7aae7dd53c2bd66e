"""tools/loopback_only.sh: a command that sends something beyond the loopback fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).parents[2] / "tools" / "loopback_only.sh"
SEND = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"from_a_test", (sys.argv[1], 7400))
sys.exit(int(sys.argv[2]))
"""
NODE = """
import rclpy
from std_msgs.msg import Empty

rclpy.init()
node = rclpy.create_node("talker")
heard = []
node.create_subscription(Empty, "words", heard.append, 1)
publisher = node.create_publisher(Empty, "words", 1)
while not heard:
    publisher.publish(Empty())
    rclpy.spin_once(node, timeout_sec=0.05)
rclpy.shutdown()
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("bash") or "bash", SCRIPT, *command],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("address", "status", "ends"),
    [
        ("127.0.0.1", 0, 0),
        ("239.255.0.1", 0, 1),
        ("8.8.8.8", 0, 1),
        ("127.0.0.1", 7, 7),
        ("239.255.0.1", 7, 7),
    ],
)
@pytest.mark.usefixtures("own_network")
def test_what_is_sent_beyond_the_loopback_fails(address: str, status: int, ends: int) -> None:
    done = run(sys.executable, "-c", SEND, address, str(status))
    leaves = address != "127.0.0.1"
    assert (done.returncode, done.stderr.count("the transmit counter of dummy0 is 1,")) == (ends, leaves)
    assert done.stderr.count(f"1 by dummy0 to UDP {address}:7400 (from_a_test), the first after ") == leaves
    assert run("--may-send", sys.executable, "-c", SEND, address, str(status)).returncode == status


@pytest.mark.parametrize(("discovery_range", "ends"), [("LOCALHOST", 0), ("SUBNET", 1)])
@pytest.mark.usefixtures("own_network")
def test_a_node_keeps_to_the_loopback_by_its_discovery_range(discovery_range: str, ends: int) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    done = run(sys.executable, "-c", NODE, ROS_AUTOMATIC_DISCOVERY_RANGE=discovery_range)
    assert done.returncode == ends, done.stderr


def test_without_the_tools_the_command_runs_as_it_is() -> None:
    done = run("/bin/echo", "it", "runs", PATH="/nowhere")
    assert (done.returncode, done.stdout) == (0, "it runs\n")
    assert "not in a network namespace: ip or unshare is missing" in done.stderr
