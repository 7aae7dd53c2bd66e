"""`usd_ros_bridge fleet`: shards as processes, their ends and restarts, the discovery server, mistakes of callers."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stages import write_fleet
from effort import examples
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
from free_ports import free_port
from own_process import own_process
from programs import Program
from usd_ros_bridge.testing.ros_observer import RosObserver

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fleet" / "fleet.usda"
ROBOTS = [f"robot_{number}" for number in range(6)]
SHARDS = 3
OPTIONS = ("--shards", str(SHARDS), "--backend", "kinematic", "--max-restart-delay", "0.2")
OF_SHARD = {1: ROBOTS[:2], 2: ROBOTS[2:4], 3: ROBOTS[4:]}
MOST_GAP_NS = 10 * 10**9
"""Far beyond what a busy machine does to a process, and far below what restarts of everything would take."""

pytestmark = pytest.mark.timeout(300)


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


def test_a_killed_shard_is_started_again_and_no_other_one(
    run_fleet: Callable[..., FleetRun], observe: Callable[[], JointStateLog]
) -> None:
    log = observe()
    fleet = run_fleet(*OPTIONS)
    fleet.wait_until_ready(SHARDS)
    before = fleet.processes()
    kill(before[2])
    fleet.wait_for(r"fleet: shard 2 was ended by signal 9 \(Killed\), starts again")
    fleet.wait_until_ready(SHARDS)
    log.wait_for_more(ROBOTS)
    after = fleet.processes()
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2] != before[2]
    # One that is ended politely, but not by the fleet, is started again, too.
    kill(after[3], signal.SIGTERM)
    fleet.wait_for(r"fleet: shard 3 ended with status 0, starts again")
    fleet.wait_until_ready(SHARDS)
    assert fleet.interrupt() == 0


def test_shards_end_with_a_supervisor_that_is_killed(run_fleet: Callable[..., FleetRun]) -> None:
    fleet = run_fleet(*OPTIONS)
    fleet.wait_until_ready(SHARDS)
    processes = fleet.processes()
    kill(fleet.pid)
    wait_until(lambda: not any(map(is_running, processes.values())), "the end of the shards")


@pytest.mark.random
@pytest.mark.timeout(200 + examples(150))
def test_shards_killed_at_any_moment(
    run_fleet: Callable[..., FleetRun], observe: Callable[[], JointStateLog]
) -> None:
    """Start, planning, running, closing: whatever a shard does, no other one stops, and all robots come back.

    In `make test-long` at more than 50 moments.
    """
    dice = random.Random(int(os.environ.get("FLEET_TEST_SEED", "21")))
    log = observe()
    fleet = run_fleet(*OPTIONS)
    fleet.wait_until_ready(SHARDS)
    log.wait_for_more(ROBOTS)
    killed_at = dict.fromkeys(OF_SHARD, 0)
    for _ in range(examples(13)):
        # A moment of the shard's life, not a wait for something.
        time.sleep(dice.choice([0.0, dice.uniform(0.0, 0.3), dice.uniform(0.3, 2.0)]))
        shard = dice.choice(list(OF_SHARD))
        # Those that have published since they were killed last: they run.
        running = [
            each
            for each, robots in OF_SHARD.items()
            if each != shard and all(log.stamps[robot][-1] > killed_at[each] for robot in robots)
        ]
        # One that was killed before may be between two runs.
        processes = wait_until(lambda shard=shard: fleet.processes_with(shard), f"shard {shard}")
        if dice.random() < 0.3:
            kill(processes[shard], signal.SIGTERM)
            time.sleep(dice.uniform(0.0, 0.1))
        moment = time.time_ns()
        kill(processes[shard])
        wait_until(lambda number=processes[shard]: not is_running(number), f"the end of shard {shard}")
        # It has sent nothing that is later than this.
        killed_at[shard] = time.time_ns()
        others = [robot for each in running for robot in OF_SHARD[each]]
        log.wait_for_more(others)
        for robot in others:
            assert max(log.gaps(robot, since=moment)) < MOST_GAP_NS, robot
        still = fleet.processes()
        assert {each: still.get(each) for each in running} == {each: processes[each] for each in running}
    wait_until(
        lambda: all(
            log.stamps[robot][-1] > killed_at[each] for each, robots in OF_SHARD.items() for robot in robots
        ),
        "all robots again",
    )
    wait_until_each_is_served_once(log)
    processes = fleet.processes()
    assert fleet.interrupt() == 0
    assert not any(map(is_running, processes.values()))


@pytest.fixture
def server_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a discovery server to be; this process is a client that sees everything."""
    address = f"127.0.0.1:{free_port()}"
    if not os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps"):
        pytest.skip("the discovery server is Fast DDS's, and the middleware is another one")
    monkeypatch.setenv("ROS_SUPER_CLIENT", "TRUE")
    return address


def listed_topics() -> set[str]:
    """Returns the topics that the command line lists, in this process's environment."""
    command = [sys.executable, "-m", "usd_ros_bridge", "topic", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@own_process
def test_a_killed_discovery_server_is_started_again(
    run_fleet: Callable[..., FleetRun],
    observe: Callable[[], JointStateLog],
    server_address: str,
    own_verbs: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = run_fleet(*OPTIONS, "--discovery-server", server_address)
    fleet.wait_until_ready(SHARDS)
    monkeypatch.setenv("ROS_DISCOVERY_SERVER", server_address)
    log = observe()
    log.wait_for_more(ROBOTS)
    # The tools see everything through the server, and nothing without it.
    wanted = {f"/{robot}/joint_states" for robot in ROBOTS}

    # It lists what it has discovered after some seconds, which on a busy machine is not all.
    wait_until(lambda: wanted <= listed_topics(), "all topics")
    monkeypatch.delenv("ROS_DISCOVERY_SERVER")
    assert not [topic for topic in listed_topics() if "robot" in topic]

    moment = time.time_ns()
    kill(fleet.processes()[0])
    fleet.wait_for(r"fleet: the discovery server was ended by signal 9 \(Killed\), starts again")
    log.wait_for_more(ROBOTS)
    assert max(gap for robot in ROBOTS for gap in log.gaps(robot, since=moment)) < MOST_GAP_NS
    # A shard that starts now is found by nodes that are there: the new server knows both.
    kill(fleet.processes()[2])
    fleet.wait_for(r"fleet: shard 2 was ended")
    fleet.wait_until_ready(SHARDS)
    log.wait_for_more(OF_SHARD[2])
    assert fleet.interrupt() == 0


@own_process
def test_the_server_may_have_the_address_that_debian_gives_the_own_name(
    run_fleet: Callable[..., FleetRun],
    server_address: str,
    own_verbs: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = server_address.replace("127.0.0.1", "127.0.1.1")
    fleet = run_fleet("--shards", "1", "--backend", "kinematic", "--discovery-server", address)
    fleet.wait_until_ready(1)
    monkeypatch.setenv("ROS_DISCOVERY_SERVER", address)
    wait_until(lambda: f"/{ROBOTS[0]}/joint_states" in listed_topics(), "the topics of the fleet")
    assert fleet.interrupt() == 0


def test_a_discovery_server_that_does_not_start_ends_the_fleet(
    run_fleet: Callable[..., FleetRun], server_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "fast-discovery-server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ $1 = -h ] && exit 0\necho no such interface\nexit 1\n")
    program.chmod(0o755)
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "")
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(tmp_path), prefixes]))
    fleet = run_fleet(*OPTIONS, "--discovery-server", server_address)
    assert fleet.wait(timeout=READY_S) == 2, fleet.output
    (line,) = [line for line in fleet.output.splitlines() if line.startswith("usd_ros_bridge: ")]
    assert line == "usd_ros_bridge: the discovery server ended with status 1: no such interface"


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


def test_a_second_fleet_with_the_same_names_is_refused(run_fleet: Callable[..., FleetRun]) -> None:
    first = run_fleet(*OPTIONS)
    first.wait_until_ready(SHARDS)
    second = run_fleet(*OPTIONS)
    assert second.wait(timeout=READY_S) == 2
    assert one_line(second).startswith("usd_ros_bridge: /usd_ros_bridge_1 in domain ")
    third = run_fleet("--shards", "1", "--backend", "kinematic", "--node-name", "other")
    third.wait_until_ready(1)
    assert third.interrupt() == 0
    assert first.interrupt() == 0


def one_line(fleet: FleetRun) -> str:
    """Returns the line of the command itself; the lines of shards and of their logs begin with [N]."""
    lines = [line for line in fleet.output.splitlines() if line and not re.match(r"\[\d+\] \[", line)]
    assert len(lines) == 1, fleet.output
    return lines[0]


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
        (
            ["--shards", "2", "--machines", "b,localhost", "--ssh", "/no/ssh", "--backend", "null"],
            "/no/ssh cannot be started",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_of_the_caller_ends_the_fleet_in_one_line(
    run_fleet: Callable[..., FleetRun], options: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE")
    monkeypatch.setenv("ROS_LOCALHOST_ONLY", "1")
    fleet = run_fleet(*options)
    assert fleet.wait(timeout=READY_S) == 2, fleet.output
    assert says in one_line(fleet)


SSH = """#!/bin/bash
# As `ssh -tt -v`: both streams of the program on standard output, then a line of its own.
output=$(bash -c "${!#}" 2>&1 < /dev/null)
status=$?
printf '%s\\r\\n' "$output"
printf '%s\\r\\n' 'Connection to other closed.' >&2
exit $status
"""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--remote-command", f"{sys.executable} -m usd_ros_bridge", "--contexts", "robot_99"], "robot_99"),
        (["--remote-command", "no_such_command"], "no_such_command"),
        (["--remote-setup", "if"], "syntax error"),
    ],
    ids=["contexts", "command", "setup"],
)
def test_the_reason_of_another_machine_is_not_that_the_connection_is_closed(
    run_fleet: Callable[..., FleetRun], tmp_path: Path, options: list[str], says: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    fleet = run_fleet(
        "--shards", "1", "--backend", "kinematic", "--machines", "other", "--ssh", str(ssh), *options
    )
    assert fleet.wait(timeout=READY_S) == 2, fleet.output
    (line,) = [line for line in fleet.output.splitlines() if line.startswith("usd_ros_bridge: ")]
    assert says in line
    assert "closed" not in fleet.output


ONCE = """#!/bin/bash
# As ssh, whose status is 255 also where a signal ends what it runs. The first bridge is killed before it is ready.
if mkdir {first} 2>/dev/null; then
    printf '#!/bin/bash\\nkill -9 $$' > {first}/env
    chmod +x {first}/env
    PATH={first}:$PATH bash -c "${{!#}}"
    exit 255
fi
exec bash -c "${{!#}}"
"""


def test_a_bridge_that_is_killed_on_another_machine_is_started_again(
    run_fleet: Callable[..., FleetRun], tmp_path: Path
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(ONCE.format(first=tmp_path / "first"))
    ssh.chmod(0o755)
    remote = f"{sys.executable} -m usd_ros_bridge"
    fleet = run_fleet(
        *("--shards", "1", "--backend", "kinematic", "--machines", "other", "--ssh", str(ssh)),
        *("--remote-command", remote),
    )
    fleet.wait_until_ready(1)
    assert "starts again" in fleet.output
    assert fleet.interrupt() == 0


def test_an_asset_that_is_not_there(ros_domain: int, tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path / "no.usda"), "--shards", "2", "--backend", "kinematic"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 2
    assert (
        ended.stderr.splitlines()[-1] == f"usd_ros_bridge: cannot open '{tmp_path / 'no.usda'}': no such file"
    )


def test_more_shards_than_robots_is_said(run_fleet: Callable[..., FleetRun]) -> None:
    fleet = run_fleet("--shards", "8", "--backend", "null")
    fleet.wait_until_ready(8)
    fleet.wait_for("fleet: warning: 2 shards have no robot: 6 shards are enough")
    assert fleet.interrupt() == 0


def test_the_simulation_is_ended_by_a_request(ros_domain: int, own_verbs: None, tmp_path: Path) -> None:
    """The fleet ends, and nothing is started again."""
    pytest.importorskip("mujoco", reason="MuJoCo is an extra: pip install mujoco")
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed: make setup")
    with FleetRun(EXAMPLE, "--shards", "1", cwd=tmp_path) as fleet:
        fleet.wait_until_ready(1)
        call = [sys.executable, "-m", "usd_ros_bridge", "service", "call", "/set_simulation_state"]
        request = ["simulation_interfaces/srv/SetSimulationState", "{state: {state: 3}}"]
        subprocess.run([*call, *request], check=True, capture_output=True, timeout=READY_S)
        assert fleet.wait(timeout=READY_S) == 0, fleet.output
        assert "fleet: shard 1 has finished" in fleet.output


@pytest.mark.parametrize("last", ["1 of 3 shards ready", "3 shards ready"])
def test_the_fleet_ends_where_the_reader_of_its_output_goes_away(
    last: str, ros_domain: int, asset: Path
) -> None:
    command = [*COMMAND, str(asset), *OPTIONS]
    fleet = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert fleet.stdout is not None
    assert fleet.stderr is not None
    for line in fleet.stdout:
        # After the first one there is more to print, after the last one nothing.
        if last in line:
            break
    processes = children(fleet.pid)
    fleet.stdout.close()
    errors = fleet.stderr.read()
    fleet.stderr.close()
    assert fleet.wait(timeout=READY_S) == 0
    assert "Traceback" not in errors
    assert not any(map(is_running, processes))


@pytest.fixture
def short_run(ros_domain: int, asset: Path) -> tuple[str, ...]:
    """The command of a fleet that ends by itself."""
    return (*COMMAND, str(asset), "--shards", "2", "--backend", "kinematic", "--duration", "1")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(short_run: tuple[str, ...], closed: str, tmp_path: Path) -> None:
    command = ["bash", "-c", f'exec "$@" --record run.mcap {closed}', "-", *short_run]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert sorted(path.name for path in tmp_path.glob("*.mcap")) == ["run_1.mcap", "run_2.mcap"]


def test_a_fifo_that_is_open_for_both_has_a_reader(short_run: tuple[str, ...], tmp_path: Path) -> None:
    """So loggers keep one: what the fleet itself has written to it says nothing about readers."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        ended = subprocess.run(
            short_run, stdout=descriptor, stderr=subprocess.DEVNULL, timeout=READY_S, check=False
        )
        output = os.read(descriptor, 65_536).decode()
    finally:
        os.close(descriptor)
    assert ended.returncode == 0
    for shard in (1, 2):
        assert f"fleet: shard {shard} has finished" in output


def test_more_shards_than_the_usual_limit_of_open_files_allows(asset: Path, tmp_path: Path) -> None:
    """Of another machine, where each costs the most of them: here it prints two lines, and ends when it is asked to."""
    shards = 40
    ssh = "sh -c 'echo one; echo two; head -c 1 > /dev/null'"
    options = ("--shards", str(shards), "--backend", "null", "--machines", "other", "--ssh", ssh)
    command = ["bash", "-c", 'ulimit -Sn 64; exec "$@"', "-", *COMMAND, str(asset), *options]
    with Program(command, cwd=tmp_path) as fleet:
        # The second line of a shard shows that the first is not the reason of its end.
        for _ in range(shards):
            fleet.wait_for(r"\[\d+\] one", READY_S)
        assert fleet.interrupt() == 0, fleet.output


def test_a_fleet_whose_reader_went_away_before_it_starts_ends_at_once(ros_domain: int, asset: Path) -> None:
    """It has a warning to print: its machines would not find each other in this range of discovery."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        fleet = subprocess.run(
            [*COMMAND, str(asset), *OPTIONS, "--machines", "localhost,east", "--machine", "localhost"],
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=READY_S, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (fleet.returncode, fleet.stderr) == (0, "")
