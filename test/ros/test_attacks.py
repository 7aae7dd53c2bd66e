"""A bridge under attack, in a process of its own: transforms go on, its log stays short, it ends with status 0.

`ATTACK_SEED=7` chooses other attacks.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attacks
import pytest
from attacks import Attack, Peer
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.storm

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("ATTACK_SEED", "1"))
COMMAND = [sys.executable, "-m", "usd_ros_bridge.cli", "run"]
LONGEST_PAUSE_S = 10.0
"""How long transforms may be away on a machine that others load, too."""
MOST_LINES = 1_500
MOST_MEMORY_KB = 400_000

ARM = """#usda 1.0
(
    defaultPrim = "arm"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "arm" (prepend apiSchemas = ["RosContextAPI"])
{
    string ros:context:namespace = "arm"
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
    }
    def Xform "link_1" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
    }
    def Xform "link_2" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
    }
    def Xform "tool" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
    }
    def PhysicsFixedJoint "anchor"
    {
        rel physics:body1 = </arm/base>
    }
    def PhysicsRevoluteJoint "joint_1"
    {
        rel physics:body0 = </arm/base>
        rel physics:body1 = </arm/link_1>
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
    }
    def PhysicsRevoluteJoint "joint_2"
    {
        rel physics:body0 = </arm/link_1>
        rel physics:body1 = </arm/link_2>
    }
    def PhysicsPrismaticJoint "finger"
    {
        rel physics:body0 = </arm/link_2>
        rel physics:body1 = </arm/tool>
        float physics:lowerLimit = 0
        float physics:upperLimit = 0.1
    }
    def Xform "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        bool physics:kinematicEnabled = 1
        def Xform "pose" (prepend apiSchemas = ["RosTopicAPI"])
        {
            token ros:topic:role = "subscription"
            string ros:topic:name = "pose"
            string ros:topic:type = "geometry_msgs/msg/PoseStamped"
        }
        def Xform "twist" (prepend apiSchemas = ["RosTopicAPI"])
        {
            token ros:topic:role = "subscription"
            string ros:topic:name = "twist"
            string ros:topic:type = "geometry_msgs/msg/TwistStamped"
        }
    }
    def Xform "commands" (prepend apiSchemas = ["RosTopicAPI"])
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "joint_commands"
        string ros:topic:type = "sensor_msgs/msg/JointState"
    }
    def Xform "array" (prepend apiSchemas = ["RosTopicAPI"])
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "array"
        string ros:topic:type = "std_msgs/msg/Float64MultiArray"
    }
    def Xform "lamp" (prepend apiSchemas = ["RosServiceAPI"])
    {
        token ros:service:role = "server"
        string ros:service:name = "lamp"
        string ros:service:type = "std_srvs/srv/SetBool"
        def SphereLight "light"
        {
        }
    }
    def Xform "control" (prepend apiSchemas = ["RosControlJointTrajectoryAPI"])
    {
        rel ros:control:joint_trajectory:joints = [</arm/joint_1>, </arm/joint_2>]
        def Xform "topic" (prepend apiSchemas = ["RosTopicAPI"])
        {
            token ros:topic:role = "subscription"
            string ros:topic:name = "control/joint_trajectory"
            string ros:topic:type = "trajectory_msgs/msg/JointTrajectory"
        }
        def Xform "action" (prepend apiSchemas = ["RosActionAPI"])
        {
            token ros:action:role = "server"
            string ros:action:name = "control/follow_joint_trajectory"
            string ros:action:type = "control_msgs/action/FollowJointTrajectory"
        }
    }
    def Xform "gripper" (prepend apiSchemas = ["RosActionAPI"])
    {
        token ros:action:role = "server"
        string ros:action:name = "gripper_cmd"
        string ros:action:type = "control_msgs/action/ParallelGripperCommand"
    }
}
"""

ON_JOINTS: dict[str, Attack] = {
    "publishers come and go": attacks.publishers_come_and_go(JointState, "/arm/joint_commands"),
    "poses from publishers that come and go": attacks.publishers_come_and_go(PoseStamped, "/arm/pose"),
    "garbage as joint states": attacks.garbage_bytes(JointState, "/arm/joint_commands"),
    "garbage as poses": attacks.garbage_bytes(PoseStamped, "/arm/pose"),
    "unknown joints": attacks.unknown_joints("/arm/joint_commands"),
    "unlikely joint states": attacks.unlikely_joint_states("/arm/joint_commands"),
    "unlikely arrays": attacks.unlikely_arrays("/arm/array"),
    "unlikely twists": attacks.unlikely_twists("/arm/twist", TwistStamped),
    "unknown frames": attacks.unknown_frames("/arm/pose"),
    "unlikely trajectories": attacks.unlikely_trajectories(
        "/arm/control/follow_joint_trajectory", "/arm/control/joint_trajectory"
    ),
    "unlikely grips": attacks.unlikely_grips("/arm/gripper_cmd"),
    "requests without end": attacks.requests_without_end("/arm/lamp"),
    "unlikely parameters": attacks.unlikely_parameters,
    "foreign frames": attacks.foreign_frames("/arm/tf"),
    "reload again and again": attacks.reload_again_and_again,
}


class Victim:
    """A bridge in a process of its own, looked at through its transforms."""

    def __init__(self, harness: Any, arguments: list[str], log: Path, tf: str) -> None:
        self._harness = harness
        self._log = log
        # The wheels' start-up mark would keep a child Python from finding its libraries.
        environment = {
            key: value for key, value in os.environ.items() if key != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
        }
        with log.open("w", encoding="utf-8") as output:
            self.child = subprocess.Popen(
                [*COMMAND, *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        self._latest = 0.0
        self._longest = 0.0
        self._subscription = harness.node.create_subscription(TFMessage, tf, self._receive, 10)
        harness.wait_for(lambda: self._latest > 0.0, timeout=60.0, what=f"the first {tf}")
        self._memory = self.memory_kb()

    def _receive(self, _: Any) -> None:
        now = time.monotonic()
        if self._latest:
            self._longest = max(self._longest, now - self._latest)
        self._latest = now

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def fault_after(self, attack: Attack, peer: Peer) -> str:
        """Carries out an attack; returns what is wrong afterwards, "" where nothing is."""
        lines, self._longest = self.lines(), 0.0
        try:
            attack(peer)
        except BaseException as error:  # noqa: BLE001 - pytest's own failures, too: all attacks are carried out
            return f"{type(error).__name__}: {error}"
        seen = self._latest
        # What was sent last is still on its way: a few more, after that.
        for _ in range(5):
            deadline = time.monotonic() + 3 * LONGEST_PAUSE_S
            while self._latest == seen and time.monotonic() < deadline and self.child.poll() is None:
                self._harness.executor.spin_once(timeout_sec=0.1)
            seen = self._latest
        if self.child.poll() is not None:
            return f"it ended with status {self.child.returncode}"
        if self._longest > LONGEST_PAUSE_S or time.monotonic() - seen > LONGEST_PAUSE_S:
            return f"no transforms for {max(self._longest, time.monotonic() - seen):.1f} s"
        if self.lines() - lines > MOST_LINES:
            return f"{self.lines() - lines} lines of log"
        if self.memory_kb() - self._memory > MOST_MEMORY_KB:
            return f"it grew from {self._memory} to {self.memory_kb()} kB"
        return ""

    def lines(self) -> int:
        return self._log.read_text(errors="replace", encoding="utf-8").count("\n")

    def close(self) -> None:
        self._harness.node.destroy_subscription(self._subscription)
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(60.0)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


def faults(harness: Any, arguments: list[str], tmp_path: Path, tf: str, chosen: dict[str, Attack]) -> str:
    """Carries out all attacks on one bridge; a new one where it ended. Returns what is wrong."""
    found = []
    peer = Peer(harness, node="/usd_ros_bridge", seed=SEED)
    victim: Victim | None = None
    for number, (name, attack) in enumerate(chosen.items()):
        victim = victim or Victim(harness, arguments, tmp_path / f"log_{number}", tf)
        fault = victim.fault_after(attack, peer)
        if fault:
            found.append(f"{name}: {fault}")
            victim.close()
            victim = None
    if victim is not None:
        victim.close()
        if victim.child.returncode != 0:
            found.append(f"the end: status {victim.child.returncode}")
    for log in sorted(tmp_path.glob("log_*")):
        text = log.read_bytes()
        if b"Traceback" in text:
            found.append(f"a traceback: {text[text.index(b'Traceback') :][:2000].decode(errors='replace')}")
        # Fast DDS colours its own errors.
        plain = re.sub(rb"\x1b\[[\d;]*m", b"", text)
        control = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", plain)
        if control:
            near = plain[max(0, control.start() - 300) : control.start() + 100]
            found.append(f"control characters in {log.name}: {near!r}")
    return "\n".join(found)


@pytest.mark.storm
@pytest.mark.timeout(400)
def test_a_robot_of_joints_withstands_its_peers(ros_harness: Any, tmp_path: Path) -> None:
    asset = tmp_path / "arm.usda"
    asset.write_text(ARM, encoding="utf-8")
    arguments = [str(asset), "--backend", "kinematic"]
    assert faults(ros_harness, arguments, tmp_path, "/arm/tf", ON_JOINTS) == ""


@pytest.fixture
def uris(tmp_path: Path) -> tuple[str, ...]:
    """Files that simulation_interfaces may spawn by their place, and should not."""
    roots = tmp_path / "roots"
    roots.mkdir()
    os.mkfifo(roots / "fifo.usda")
    (roots / "directory.usda").mkdir()
    (roots / "device.usda").symlink_to("/dev/zero")
    (roots / "outside.usda").symlink_to("/etc/passwd")
    (roots / "reads_a_fifo.usda").write_text(
        "#usda 1.0\n(\n    subLayers = [@./fifo.usda@]\n)\n", encoding="utf-8"
    )
    return tuple(str(path) for path in sorted(roots.iterdir()))


@pytest.mark.storm
@pytest.mark.timeout(400)
def test_a_simulation_withstands_its_peers(ros_harness: Any, tmp_path: Path, uris: tuple[str, ...]) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    chosen = {
        "publishers come and go": attacks.publishers_come_and_go(Twist, "/rover/cmd_vel"),
        "garbage as twists": attacks.garbage_bytes(Twist, "/rover/cmd_vel"),
        "unlikely twists": attacks.unlikely_twists("/rover/cmd_vel"),
        "expressions without end": attacks.expressions_without_end,
        "entities anywhere": attacks.entities_anywhere,
        "steps without end": attacks.steps_without_end,
        "files anywhere": attacks.files_anywhere(*uris),
        "unlikely parameters": attacks.unlikely_parameters,
    }
    world = str(ROOT / "examples" / "rover" / "world.usda")
    roots = f"spawn_roots:=[{tmp_path / 'roots'}]"
    arguments = [world, "--backend-option", "gl=none", "--ros-args", "-p", roots]
    assert faults(ros_harness, arguments, tmp_path, "/rover/tf", chosen) == ""
