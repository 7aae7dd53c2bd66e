"""Robots from their own files to motion: `import`, one command line, and a goal reached or ten seconds on their feet.

The robots are URDFs of example-robot-data and an MJCF of robosuite. A plain rclpy client moves them under mujoco.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: run `make setup`")
pytest.importorskip("mujoco", reason="mujoco is not installed: run `make setup`")

from action_msgs.msg import GoalStatus
from live_bridge import CONSOLE_SCRIPT, BridgeProcess
from nav_msgs.msg import Odometry
from robot_client import RobotClient, seconds, tilt

from usd_ros_bridge import load_plan

REACHED = 0.01
"""rad or m: how far a joint may be from its target at the end of a goal."""
DRIVEN = 0.5
"""m."""
STANDING_S = 10.0
SAG = 0.02
"""m: how far a base that stands may sink or rise."""
TILT = 0.05
"""rad: how far it may lean."""


@dataclass(frozen=True)
class Goal:
    """A FollowJointTrajectory goal of a robot: the joints that move, rad or m; the others stay where they are."""

    targets: Mapping[str, float]
    duration_s: int = 3


ARMS = {
    "panda": Goal(
        {
            "panda_joint1": 0.3,
            "panda_joint2": -0.785,
            "panda_joint3": 0.2,
            "panda_joint4": -2.356,
            "panda_joint5": 0.1,
            "panda_joint6": 1.571,
            "panda_joint7": 0.785,
        }
    ),
    "ur5": Goal(
        {
            "shoulder_pan_joint": 0.5,
            "shoulder_lift_joint": -0.8,
            "elbow_joint": 0.8,
            "wrist_1_joint": -0.5,
            "wrist_2_joint": 0.3,
            "wrist_3_joint": 0.4,
        }
    ),
    "tiago": Goal(
        {
            "torso_lift_joint": 0.1,
            "head_1_joint": 0.3,
            "arm_1_joint": 0.5,
            "arm_2_joint": -0.5,
            "arm_4_joint": 1.0,
        },
        duration_s=4,
    ),
}
LEGGED = ("solo12", "anymal")


@dataclass(frozen=True)
class Imported:
    """What `import` made of a robot.

    Attributes:
        directory: The directory that it made.
        lines: What it printed.
    """

    directory: Path
    lines: list[str]

    @property
    def layer(self) -> Path:
        return self.directory / "robot.usda"

    @property
    def namespace(self) -> str:
        (line,) = (line for line in self.lines if line.startswith("+ context: "))
        return "/" + line.rpartition("namespace ")[2]


def run_import(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONSOLE_SCRIPT, "import", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def imported(
    sources: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Imported]:
    """Import a robot, once in a session."""
    made: dict[str, Imported] = {}

    def make(name: str) -> Imported:
        if name not in made:
            directory = tmp_path_factory.mktemp("imported") / name
            done = run_import(sources[name], "-o", directory)
            assert done.returncode == 0, done.stdout + done.stderr
            made[name] = Imported(directory, done.stdout.splitlines())
        return made[name]

    return make


@contextmanager
def running(robot: Imported, domain_id: int, log: Path, *arguments: str) -> Iterator[RobotClient]:
    """Run the last line that `import` printed, with more arguments, and check that it ends well."""
    assert robot.lines[-1] == f"usd_ros_bridge run {robot.layer}"
    with (
        BridgeProcess(robot.layer, domain_id=domain_id, log=log, arguments=arguments) as bridge,
        RobotClient(bridge, domain_id=domain_id, namespace=robot.namespace) as client,
    ):
        yield client
        assert bridge.interrupt() == 0, bridge.output


@pytest.mark.parametrize("name", ARMS)
def test_an_imported_arm_reaches_a_goal(
    name: str, imported: Callable[[str], Imported], other_domain_id: int, tmp_path: Path
) -> None:
    robot, goal = imported(name), ARMS[name]
    (joints,) = (
        each["joints"]
        for each in inspect(robot.layer)["controllers"]
        if each["path"].endswith("/joint_trajectory_controller")
    )
    with running(robot, other_domain_id, tmp_path / "bridge.log") as client:
        before = dict(client.wait_for_fresh_positions())
        moved = max(abs(before[joint] - target) for joint, target in goal.targets.items())
        assert moved > 10 * REACHED
        targets = {joint: goal.targets.get(joint, before[joint]) for joint in joints}
        answer = client.follow(targets, goal.duration_s)
        assert answer.status == GoalStatus.STATUS_SUCCEEDED, answer
        after = client.wait_for_fresh_positions()
    errors = {joint: after[joint] - target for joint, target in goal.targets.items()}
    assert max(map(abs, errors.values())) < REACHED, errors


@pytest.mark.parametrize("name", LEGGED)
def test_an_imported_legged_robot_stands_for_ten_seconds(
    name: str, imported: Callable[[str], Imported], other_domain_id: int, tmp_path: Path
) -> None:
    robot = imported(name)
    assert any(line.startswith("! base: floats: the robot stands on") for line in robot.lines)
    with running(robot, other_domain_id, tmp_path / "bridge.log", "--paused") as client:
        sag, lean = worst_of_ten_seconds(client)
    assert sag < SAG
    assert lean < TILT


def test_without_drives_it_does_not_stand(
    sources: Mapping[str, Path], other_domain_id: int, tmp_path: Path
) -> None:
    done = run_import(sources["solo12"], "-o", tmp_path / "limp", "--no-drives")
    assert done.returncode == 0, done.stderr
    robot = Imported(tmp_path / "limp", done.stdout.splitlines())
    with running(robot, other_domain_id, tmp_path / "bridge.log", "--paused") as client:
        assert worst_of_ten_seconds(client)[0] > 5 * SAG


def worst_of_ten_seconds(client: RobotClient) -> tuple[float, float]:
    """Return how far (m) the base was from where it began, up or down, and its largest tilt (rad), in simulated time.

    It ends early if the base has fallen. Time is paused at the beginning: it might have fallen before somebody looks.
    """
    first = client.base_state()
    client.play()
    height, worst = first.pose.position.z, (0.0, 0.0)
    end = seconds(first.header.stamp) + STANDING_S
    while True:
        client.wait_for_fresh_positions()
        state = client.base_state()
        worst = (
            max(worst[0], abs(state.pose.position.z - height)),
            max(worst[1], tilt(state.pose.orientation)),
        )
        if seconds(state.header.stamp) >= end or worst[0] > 10 * SAG:
            return worst


def test_an_imported_mobile_base_drives(
    imported: Callable[[str], Imported], other_domain_id: int, tmp_path: Path
) -> None:
    robot = imported("tiago")
    odometry: list[Odometry] = []
    with running(robot, other_domain_id, tmp_path / "bridge.log") as client:
        client.wait_for_fresh_positions()
        start = client.base_state().pose.position
        client.node.create_subscription(Odometry, "odom", odometry.append, 10)
        client.drive(0.3, lambda: bool(odometry) and odometry[-1].pose.pose.position.x > DRIVEN)
        state = client.base_state()
    # Odometry counts wheel turns; the simulation knows where the base is.
    assert state.pose.position.x - start.x > 0.9 * DRIVEN
    assert abs(state.pose.position.y - start.y) < 0.1 * DRIVEN
    assert tilt(state.pose.orientation) < TILT


def test_an_imported_gripper_of_an_mjcf_closes(
    imported: Callable[[str], Imported], other_domain_id: int, tmp_path: Path
) -> None:
    robot = imported("panda_gripper")
    assert any(line.startswith("! base: fixed to the world: as the MJCF says") for line in robot.lines)
    with running(robot, other_domain_id, tmp_path / "bridge.log") as client:
        before = dict(client.wait_for_fresh_positions())
        targets = {"finger_joint1": 0.01, "finger_joint2": -0.01}
        assert max(abs(before[joint] - target) for joint, target in targets.items()) > 0.005
        answer = client.grip(targets)
        assert answer.status == GoalStatus.STATUS_SUCCEEDED, answer
        # The controller's tolerance is 1 cm, as in ros2_controllers: the fingers are not at rest yet.
        client.wait_until(
            lambda: all(abs(client.positions[joint] - target) < 0.002 for joint, target in targets.items()),
            "fingers at their targets",
        )


def test_an_imported_directory_can_be_moved(imported: Callable[[str], Imported], tmp_path: Path) -> None:
    robot = imported("anymal")
    texts = list(robot.directory.rglob("*.usda"))
    assert texts
    assert not any(str(robot.directory.parent) in path.read_text(encoding="utf-8") for path in texts)
    shutil.copytree(robot.directory, tmp_path / "elsewhere")
    shown = [inspect(robot.layer), inspect(tmp_path / "elsewhere/robot.usda")]
    assert len(shown[0]["robots"][0]["joints"]) > 12
    assert shown[0]["robots"] == shown[1]["robots"]


def inspect(layer: Path) -> dict:
    done = subprocess.run(
        [CONSOLE_SCRIPT, "inspect", layer, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_converter_is_installed_once(
    sources: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two imports at once: one installs, the other one waits. Later ones use what is there."""
    monkeypatch.delenv("USD_ROS_CONVERTER")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run_import(sources["solo12"], "-o", tmp_path / "no", **cache)
    assert done.returncode == 2
    assert "`usd_ros_bridge import --install-converter` installs it" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    first, second = (
        subprocess.Popen(
            [CONSOLE_SCRIPT, "import", sources["solo12"], "-o", tmp_path / name, "--install-converter"],
            env={**os.environ, **cache},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "two")
    )
    for process in (first, second):
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
    (environment,) = (tmp_path / "cache/usd_ros_bridge/converters").iterdir()
    assert not environment.name.startswith(".")
    assert run_import(sources["solo12"], "-o", tmp_path / "three", **cache).returncode == 0
    pxr = subprocess.run(
        [sys.executable, "-c", "from importlib import metadata as m; print(m.version('usd-core'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert pxr.stdout.strip()


def test_an_interrupted_installation_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("USD_ROS_CONVERTER", raising=False)
    converters = tmp_path / "cache/usd_ros_bridge/converters"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [CONSOLE_SCRIPT, "import", "--install-converter"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    # It has printed what it installs; the rest takes seconds.
    assert process.stdout.read(10)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not [path for path in converters.glob("*") if not path.name.startswith(".")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name[0] for path in converters.iterdir()] != ["."]


@contextmanager
def opening_waits(file: Path) -> Iterator[threading.Event]:
    """Let other processes that open a file wait, by a lease. Yield what is set as soon as one does."""
    opened = threading.Event()
    before = signal.signal(signal.SIGIO, lambda *_: opened.set())
    try:
        with file.open("r+b") as held:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            yield opened
    finally:
        signal.signal(signal.SIGIO, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_import_that_is_ended_leaves_no_asset_and_no_process(
    number: signal.Signals, sources: Mapping[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "arm.stl").touch()
    model = tmp_path / "robot.xml"
    model.write_text(
        '<mujoco model="arm"><asset><mesh name="arm" file="arm.stl"/></asset>'
        '<worldbody><body><geom type="mesh" mesh="arm"/></body></worldbody></mujoco>',
        encoding="utf-8",
    )
    with opening_waits(tmp_path / "arm.stl") as opened:
        process = subprocess.Popen(
            [CONSOLE_SCRIPT, "import", model, "-o", tmp_path / "arm"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert opened.wait(30)
        children = (
            Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
        )
        descriptors = [os.pidfd_open(int(child)) for child in children]
        assert len(descriptors) == 1
        process.send_signal(number)
        assert process.wait(timeout=30) == (-number if number == signal.SIGKILL else 128 + number)
        for descriptor in descriptors:
            ended, _, _ = select.select([descriptor], [], [], 30)
            os.close(descriptor)
            assert ended, "the converter goes on"
    assert not (tmp_path / "arm").exists()
    (tmp_path / "arm.stl").unlink()
    model.write_text(
        '<mujoco model="arm"><worldbody><body><geom size="1"/></body></worldbody></mujoco>', encoding="utf-8"
    )
    assert run_import(model, "-o", tmp_path / "arm").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arm", "robot.xml"]


def test_a_mesh_that_cannot_be_read_leaves_no_asset(sources: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "arm.stl").write_text("solid, but no mesh", encoding="utf-8")
    (tmp_path / "robot.urdf").write_text(
        '<robot name="arm"><link name="base"><visual><geometry><mesh filename="arm.stl"/></geometry></visual>'
        "</link></robot>",
        encoding="utf-8",
    )
    done = run_import(tmp_path / "robot.urdf", "-o", tmp_path / "arm")
    assert done.returncode == 2
    assert "error [import.mesh]" in done.stderr
    assert "arm.stl" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-1].startswith("usd_ros_bridge: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arm.stl", "robot.urdf"]


def test_an_mjcf_that_mujoco_refuses_is_one_line(sources: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(
        '<mujoco model="arm"><worldbody><body><geom type="ball"/></body></worldbody></mujoco>',
        encoding="utf-8",
    )
    done = run_import(tmp_path / "robot.xml", "-o", tmp_path / "arm")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "mujoco-usd-converter 0.8.0 cannot convert" in line
    assert "invalid keyword: 'ball'" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["robot.xml"]


ARM = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="side" default=""/>
<xacro:include filename="$(find cell_parts)/link.xacro"/>
<xacro:part name="base"/><xacro:part name="$(arg side)_tip"/>
<joint name="$(arg side)_joint" type="revolute"><parent link="base"/><child link="$(arg side)_tip"/>
<axis xyz="0 0 1"/><limit lower="${-pi / 2}" upper="${pi / 2}" effort="1" velocity="1"/></joint>
</robot>
"""
PART = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="part" params="name">
<link name="${name}">
<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><mesh filename="part.obj"/></geometry></visual></link></xacro:macro></robot>
"""
MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@pytest.fixture
def xacro(tmp_path: Path) -> Path:
    """A xacro with an argument, a mesh beside it, and a macro in another package."""
    (tmp_path / "arm").mkdir()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/link.xacro").write_text(PART, encoding="utf-8")
    (tmp_path / "arm/part.obj").write_text(MESH, encoding="utf-8")
    file = tmp_path / "arm/arm.urdf.xacro"
    file.write_text(ARM, encoding="utf-8")
    return file


@pytest.mark.usefixtures("sources")
def test_a_xacro_is_expanded_with_its_arguments(xacro: Path, tmp_path: Path) -> None:
    parts = f"--package=cell_parts={tmp_path / 'parts'}"
    done = run_import(xacro, "side:=left", parts, "-o", tmp_path / "made")
    assert done.returncode == 0, done.stderr
    assert 'name="left_joint"' in (tmp_path / "made/expanded.urdf").read_text(encoding="utf-8")
    plan = load_plan(tmp_path / "made/robot.usda")
    (dof,) = (dof for joint in plan.robots[0].joints for dof in joint.dofs)
    assert (dof.name, dof.upper) == ("left_joint", pytest.approx(1.5707963))


@pytest.mark.usefixtures("sources")
def test_attributes_of_another_namespace_are_no_fault(tmp_path: Path) -> None:
    (tmp_path / "part.obj").write_text(MESH, encoding="utf-8")
    part = PART[PART.index("<inertial>") : PART.index("</xacro:macro>")]
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(
        f'<robot name="arm" xmlns:ignition="http://ignitionrobotics.org/schema"><link name="base">{part}'
        '<gazebo reference="base"><sensor name="imu" type="imu"><pose ignition:expressed_in="base">0 0 0 0 0 0</pose>'
        "</sensor></gazebo></robot>",
        encoding="utf-8",
    )
    done = run_import(urdf, "-o", tmp_path / "made")
    assert done.returncode == 0, done.stderr
    physics = load_plan(tmp_path / "made/robot.usda", physics=True).physics
    assert physics is not None
    assert len(physics.visuals) == 1


@pytest.mark.usefixtures("sources")
def test_a_package_beside_the_xacro_is_found(xacro: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").rename(tmp_path / "cell_parts")
    (tmp_path / "cell_parts/package.xml").write_text(
        "<package><name>cell_parts</name></package>", encoding="utf-8"
    )
    assert run_import(xacro, "side:=left", "-o", tmp_path / "made").returncode == 0


@pytest.mark.usefixtures("sources")
def test_meshes_of_a_package_that_a_xacro_names_need_no_option(xacro: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    (tmp_path / "arm/part.obj").rename(parts / "part.obj")
    (parts / "link.xacro").write_text(
        PART.replace("part.obj", "file://$(find cell_parts)/part.obj"), encoding="utf-8"
    )
    (tmp_path / "path").mkdir()
    (tmp_path / "path/cell_parts").symlink_to(parts)
    done = run_import(
        xacro, "side:=left", "-o", tmp_path / "made", USD_ROS_PACKAGE_PATH=str(tmp_path / "path")
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("sources")
def test_a_xacro_that_cannot_be_expanded_is_one_line(xacro: Path, tmp_path: Path) -> None:
    def refusal(*arguments: str) -> str:
        done = run_import(xacro, *arguments, "-o", tmp_path / "made")
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2
        assert (
            f"{xacro} is not imported: error [import.xacro] arm.urdf.xacro: xacro cannot expand it: " in line
        )
        return line

    assert "name its directory, --package cell_parts=DIRECTORY" in refusal()
    xacro.write_text(ARM.replace("${-pi / 2}", "${missing}"), encoding="utf-8")
    assert "'missing' is not defined" in refusal(f"--package=cell_parts={tmp_path / 'parts'}")
    assert not (tmp_path / "made").exists()
