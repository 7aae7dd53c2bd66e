"""`usd_ros_bridge fleet`: shards as processes, how they end together, mistakes of callers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stages import write_fleet
from discovery_servers import discovery_server
from fleet_runs import (
    COMMAND,
    READY_S,
    FleetRun,
    JointStateLog,
    children,
    is_running,
    kill,
    wait_until,
)
from usd_ros_bridge.testing.ros_observer import RosObserver

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fleet" / "fleet.usda"
ROBOTS = [f"robot_{number}" for number in range(6)]
SHARDS = 3
OPTIONS = ("--shards", str(SHARDS), "--backend", "kinematic")
OF_SHARD = {1: ROBOTS[:2], 2: ROBOTS[2:4], 3: ROBOTS[4:]}

pytestmark = [pytest.mark.timeout(300), pytest.mark.app, pytest.mark.process]


@pytest.fixture
def asset(tmp_path: Path) -> Path:
    return write_fleet(tmp_path, robots=len(ROBOTS), links=3, publish_rate=50.0)


@pytest.fixture
def run_fleet(ros_domain: int, asset: Path, tmp_path: Path) -> Iterator[Callable[..., FleetRun]]:
    """`run_fleet(*options)`: a fleet of the asset. What is left of it at the end of the test is killed."""
    runs: list[FleetRun] = []

    def start(*options: str, env: dict[str, str] | None = None) -> FleetRun:
        runs.append(FleetRun(asset, *options, cwd=tmp_path, env=env))
        return runs[-1]

    yield start
    for each in runs:
        left = each.processes().values() if each.is_running else ()
        each.kill()
        for process_id in left:
            kill(process_id)


@pytest.fixture
def own_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`topic` and `service` leave their work to `ros2` where that is installed: here it is not."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]))


@pytest.fixture
def observe(ros_domain: int) -> Iterator[Callable[[], JointStateLog]]:
    """`observe()`: the joint states of all robots, from now on."""
    opened: list[RosObserver] = []

    def start() -> JointStateLog:
        opened.append(RosObserver(domain_id=ros_domain, name="fleet_observer"))
        return JointStateLog(opened[-1], ROBOTS)

    yield start
    for each in opened:
        each.close()


def publishers(log: JointStateLog, robot: str) -> list[str]:
    """Returns the nodes that publish the joint states of a robot."""
    return nodes_of(log.observer.node, f"/{robot}/joint_states")


def nodes_of(node: Any, topic: str) -> list[str]:
    """Returns the nodes that publish a topic."""
    return sorted(each.node_name for each in node.get_publishers_info_by_topic(topic))


def wait_until_each_is_served_once(log: JointStateLog) -> None:
    """Waits until the graph has one publisher for each robot. It has dead ones until their lease ends, 20 s."""
    wanted = {robot: [f"usd_ros_bridge_{shard}"] for shard, robots in OF_SHARD.items() for robot in robots}
    wait_until(
        lambda: all(publishers(log, robot) == names for robot, names in wanted.items()),
        "one publisher for each robot",
    )


def test_each_shard_serves_its_robots_and_all_end_together(
    run_fleet: Callable[..., FleetRun], observe: Callable[[], JointStateLog]
) -> None:
    log = observe()
    fleet = run_fleet(*OPTIONS)
    assert re.search(r"3 shards ready, 6 robots", fleet.wait_until_ready(SHARDS))
    log.wait_for_more(ROBOTS)
    wait_until_each_is_served_once(log)
    processes = fleet.processes()
    assert sorted(processes) == [1, 2, 3]
    assert fleet.interrupt(signal.SIGTERM) == 0
    assert not any(map(is_running, processes.values()))
    assert "Traceback" not in fleet.output


@pytest.mark.parametrize(
    ("number", "says", "status"),
    [
        (signal.SIGKILL, "was ended by signal 9", 128 + signal.SIGKILL),
        (signal.SIGTERM, "ended with status 0", 0),
    ],
)
def test_the_end_of_a_shard_ends_the_others(
    run_fleet: Callable[..., FleetRun], number: signal.Signals, says: str, status: int
) -> None:
    fleet = run_fleet(*OPTIONS)
    fleet.wait_until_ready(SHARDS)
    processes = fleet.processes()
    kill(processes[2], number)
    fleet.wait_for(rf"^fleet: shard 2 {says}; ending the others$")
    assert fleet.wait(timeout=READY_S) == status
    assert not any(map(is_running, processes.values()))


def test_shards_end_with_a_fleet_that_is_killed(run_fleet: Callable[..., FleetRun]) -> None:
    fleet = run_fleet(*OPTIONS)
    fleet.wait_until_ready(SHARDS)
    processes = fleet.processes()
    kill(fleet.pid)
    wait_until(lambda: not any(map(is_running, processes.values())), "the end of the shards")


def listed_topics() -> set[str]:
    """Returns the topics that the command line lists, in this process's environment."""
    command = [sys.executable, "-m", "usd_ros_bridge", "topic", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def test_a_fleet_with_a_discovery_server(
    run_fleet: Callable[..., FleetRun], own_verbs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line sees everything through the server, and nothing without it."""
    wanted = {f"/{robot}/joint_states" for robot in ROBOTS}
    with discovery_server(tmp_path) as address:
        fleet = run_fleet(*OPTIONS, env={**os.environ, "ROS_DISCOVERY_SERVER": address})
        fleet.wait_until_ready(SHARDS)
        assert not [topic for topic in listed_topics() if "robot" in topic]
        monkeypatch.setenv("ROS_DISCOVERY_SERVER", address)
        # It lists what it has discovered after some seconds, which on a busy machine is not all.
        wait_until(lambda: wanted <= listed_topics(), "all topics")
        assert fleet.interrupt() == 0


@pytest.mark.parametrize(
    "duration", [["--duration", "1"], ["--ros-args", "-p", "duration:=1.0"]], ids=" ".join
)
def test_a_fleet_with_a_duration_ends_by_itself(
    run_fleet: Callable[..., FleetRun], tmp_path: Path, duration: list[str]
) -> None:
    fleet = run_fleet("--shards", "2", "--backend", "kinematic", "--record", "run.mcap", *duration)
    assert fleet.wait(timeout=READY_S) == 0, fleet.output
    # Each after this much time: the end of one is not the end of all.
    for shard in (1, 2):
        assert f"fleet: shard {shard} has finished" in fleet.output
    assert sorted(path.name for path in tmp_path.glob("*.mcap")) == ["run_1.mcap", "run_2.mcap"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--shards", "0"], "shards 0 is not possible"),
        (["--shards", "2", "--backend", "kinematic", "--contexts", "/fleet/robot_99"], "robot_99"),
        (["--shards", "2", "--contexts", "/fleet/robot_99"], "robot_99"),
        (
            ["--shards", "2", "--backend", "mujocoo"],
            "backend 'mujocoo' is not installed; did you mean mujoco",
        ),
        (["--shards", "2", "--backend", "kinematic", "--variant", "/fleet:a=b"], "no variant set 'a'"),
        (["--shards", "2", "--backend", "kinematic", "--ros-args", "-r", "x"], "ROS 2 refuses"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_of_the_caller_ends_the_fleet(
    run_fleet: Callable[..., FleetRun], options: list[str], says: str
) -> None:
    fleet = run_fleet(*options)
    assert fleet.wait(timeout=READY_S) == 2, fleet.output
    assert re.search(rf"^(\[\d\] )?usd_ros_bridge: .*{re.escape(says)}", fleet.output, re.MULTILINE)
    assert "Traceback" not in fleet.output


def test_an_asset_that_is_not_there(ros_domain: int, tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path / "no.usda"), "--shards", "2", "--backend", "kinematic"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 2
    assert re.search(r"^\[[12]\] usd_ros_bridge: cannot open .*: no such file$", ended.stdout, re.MULTILINE)
    last = ended.stdout.splitlines()
    assert [
        line for line in last if re.fullmatch(r"fleet: shard [12] ended with status 2(; ending.*)?", line)
    ]


def test_more_shards_than_robots_is_said(run_fleet: Callable[..., FleetRun]) -> None:
    fleet = run_fleet("--shards", "8", "--backend", "null")
    fleet.wait_until_ready(8)
    fleet.wait_for("fleet: warning: 2 of 8 shards without a robot: 6 are enough")
    assert fleet.interrupt() == 0


def test_the_simulation_is_ended_by_a_request(ros_domain: int, own_verbs: None, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is an extra: pip install mujoco")
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed: make setup")
    with FleetRun(EXAMPLE, "--shards", "1", cwd=tmp_path) as fleet:
        fleet.wait_until_ready(1)
        call = [sys.executable, "-m", "usd_ros_bridge", "service", "call", "/set_simulation_state"]
        request = ["simulation_interfaces/srv/SetSimulationState", "{state: {state: 3}}"]
        subprocess.run([*call, *request], check=True, capture_output=True, timeout=READY_S)
        assert fleet.wait(timeout=READY_S) == 0, fleet.output
        assert "fleet: shard 1 ended with status 0" in fleet.output


def test_the_fleet_ends_where_the_reader_of_its_output_goes_away(ros_domain: int, asset: Path) -> None:
    fleet = subprocess.Popen(
        [*COMMAND, str(asset), *OPTIONS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert fleet.stdout is not None
    assert fleet.stderr is not None
    fleet.stdout.readline()
    processes = children(fleet.pid)
    fleet.stdout.close()
    errors = fleet.stderr.read()
    fleet.stderr.close()
    assert fleet.wait(timeout=READY_S) == 0
    assert "Traceback" not in errors
    assert len(processes) == SHARDS
    assert not any(map(is_running, processes))
