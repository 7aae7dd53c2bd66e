"""Every command with standard input, output or errors closed, as daemons start programs: it does what it does else.

A closed stream leaves its number to the next file or socket, and what libraries log would go there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

import click

from cli_calls import ROOT, call_cli
from page_files import write_page_files
from programs import Program
from sweeps import write_sweep
from usd_ros_bridge.cli.command_group import COMMANDS
from usd_ros_bridge.ros_domains import reserve_domain

PROGRAM = [sys.executable, "-m", "usd_ros_bridge"]
ARM = ROOT / "examples/arm/arm.usda"
ROVER = ROOT / "examples/rover/rover.usda"
STATES = "/arm/joint_states"
TRAJECTORY = "/arm/joint_trajectory_controller/follow_joint_trajectory"
NODE = "/usd_ros_bridge"
CLOSED = {
    "none": "",
    "stdin": "<&-",
    "stdout": ">&-",
    "stderr": "2>&-",
    "all": "<&- >&- 2>&-",
}
END_S = 100.0
"""How long a command may take. Five run at once."""


class Use(NamedTuple):
    """A use of a command.

    Attributes:
        arguments: What follows its name. The working directory is its own.
        status: Exit status.
        needs: A module without which it is left out.
        topic: Topic that it subscribes to until SIGINT, "" where it ends by itself.
        varies: What it prints depends on what was discovered.
    """

    arguments: str = ""
    status: int = 0
    needs: str = ""
    topic: str = ""
    varies: bool = False


USES = {
    "inspect": Use(f"{ARM}"),
    "run": Use(f"{ARM} --backend kinematic --duration 0.2"),
    "fleet": Use(f"{ARM} --shards 1 --backend kinematic --duration 0.2 --record a.mcap", needs="mcap"),
    "view": Use(f"{ARM} --view-port 0 --ros-args -p duration:=0.2", needs="viser"),
    "sweep": Use("../small.yaml --workers 0 -o results", needs="pyarrow"),
    "diff": Use(f"{ARM} {ROVER}", status=1),
    "import": Use("../elbow_arm.urdf"),
    "scaffold": Use(f"{ARM} --ground -o ground.usda"),
    "resolver": Use(),
    "report": Use(f"{ARM} --format sarif"),
    "export": Use(f"{ARM} --format json"),
    "urdf": Use(f"{ARM}"),
    "rviz": Use(f"{ARM}"),
    "recover": Use("../cut.mcap -o whole.mcap", needs="mcap"),
    "examples": Use(),
    "examples copy": Use("arm"),
    "backends": Use(),
    "plugins": Use(),
    "doctor": Use(),
    "topic": Use(),
    "topic bw": Use(STATES, topic=STATES),
    "topic echo": Use(f"{STATES} --once"),
    "topic find": Use("sensor_msgs/msg/JointState", varies=True),
    "topic hz": Use(STATES, topic=STATES),
    "topic info": Use(STATES),
    "topic list": Use(varies=True),
    "topic pub": Use("/text std_msgs/msg/String --times 2 --rate 100 -w 0"),
    "topic type": Use(STATES),
    "service": Use(),
    "service call": Use(f"{NODE}/get_parameters rcl_interfaces/srv/GetParameters", varies=True),
    "service find": Use("rcl_interfaces/srv/GetParameters", varies=True),
    "service info": Use(f"{NODE}/get_parameters"),
    "service list": Use(varies=True),
    "service type": Use(f"{NODE}/get_parameters"),
    "action": Use(),
    "action find": Use("control_msgs/action/FollowJointTrajectory", varies=True),
    "action info": Use(TRAJECTORY, varies=True),
    "action list": Use(varies=True),
    "action send_goal": Use(f"{TRAJECTORY} control_msgs/action/FollowJointTrajectory", status=1),
    "action type": Use(TRAJECTORY),
    "param": Use(),
    "param describe": Use(f"{NODE} use_sim_time"),
    "param dump": Use(NODE),
    "param get": Use(f"{NODE} use_sim_time"),
    "param list": Use(NODE),
    "param set": Use(f"{NODE} real_time_factor 1.0"),
}
PEERS = ("topic", "service", "action", "param")


def names_of(command: click.Command, name: str) -> Iterator[str]:
    """Yield the names of a command that does something, and of those below it."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield name
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from names_of(below, f"{name} {each}")


def test_every_command_is_used() -> None:
    own = [name for name in COMMANDS.names() if not COMMANDS.is_foreign(name)]
    assert {found for name in own for found in names_of(COMMANDS[name], name)} == set(USES)


class Run:
    """A command that runs, with streams closed."""

    def __init__(
        self,
        directory: Path,
        arguments: list[str],
        closed: str,
        domain_id: int,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.directory = directory
        directory.mkdir()
        self._streams = [directory.with_suffix(end) for end in (".out", ".err")]
        out, err = (path.open("wb") for path in self._streams)
        with out, err:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" {closed}', "-", *program, *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "ROS_DOMAIN_ID": str(domain_id)},
            )

    @property
    def output(self) -> tuple[str, str]:
        out, err = (path.read_text(encoding="utf-8") for path in self._streams)
        return out, err

    @property
    def files(self) -> set[str]:
        return {path.relative_to(self.directory).as_posix() for path in self.directory.rglob("*")}


def lines_of(text: str) -> set[str]:
    """The lines of a text without what differs from run to run: numbers, and how often a line comes."""
    return {re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", line).strip() for line in text.splitlines()}


@pytest.fixture(scope="module")
def arm() -> Iterator[int]:
    """The domain of a bridge that runs."""
    reservation = reserve_domain()
    env = {**os.environ, "ROS_DOMAIN_ID": str(reservation.domain_id)}
    with Program([*PROGRAM, "run", str(ARM), "--backend", "kinematic"], cwd=ROOT, env=env) as program:
        program.wait_for(": ready$")
        yield reservation.domain_id
        assert program.interrupt() == 0
    reservation.close()


@pytest.fixture
def domain_id(request: pytest.FixtureRequest) -> int:
    """The domain of the arm for commands that look at it, else one of the test."""
    is_peer = "name" in request.fixturenames and request.getfixturevalue("name").split()[0] in PEERS
    return int(request.getfixturevalue("arm" if is_peer else "ros_domain"))


@pytest.fixture
def inputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a command reads."""
    if name == "sweep":
        write_sweep(tmp_path, count=1)
    if name == "import":
        write_page_files("your_urdf_moves.md", tmp_path)
        monkeypatch.setenv("USD_ROS_CONVERTER", str(ROOT / "test/support/recorded_converter/python"))
    if name == "recover":
        record = ("run", ARM, "--no-ros", "--backend", "kinematic", "--duration", "0.1", "--record")
        assert call_cli(*record, tmp_path / "cut.mcap").returncode == 0
        with (tmp_path / "cut.mcap").open("r+b") as file:
            file.truncate(file.seek(0, os.SEEK_END) - 40)


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("name", USES)
def test_a_command_with_closed_streams(
    name: str,
    domain_id: int,
    ros_harness: Any,
    other_domains: Callable[[], int],
    tmp_path: Path,
) -> None:
    use = USES[name]
    if use.needs:
        pytest.importorskip(use.needs)
    is_peer = name.split(maxsplit=1)[0] in PEERS
    arguments = [*name.split(), *use.arguments.split()]
    if any(each in use.arguments for each in (STATES, NODE, TRAJECTORY)) and not use.varies:
        # On a loaded machine discovery takes longer than the verbs wait.
        arguments += ["--spin-time", "60"]
    runs = {
        closed: Run(tmp_path / closed, arguments, shell, domain_id if is_peer else other_domains())
        for closed, shell in CLOSED.items()
    }
    try:
        if use.topic:
            stop_together(ros_harness, use.topic, runs)
        statuses = {closed: run.process.wait(END_S) for closed, run in runs.items()}
    finally:
        for run in runs.values():
            run.process.kill()
            run.process.wait()
    usual = runs["none"]
    shown = {closed: run.output for closed, run in runs.items()}
    assert statuses == dict.fromkeys(CLOSED, use.status), shown
    for closed, (out, err) in shown.items():
        assert "Traceback" not in out + err, shown
        assert runs[closed].files == usual.files
        if closed in ("stdout", "all"):
            assert out == ""
        else:
            assert use.varies or lines_of(out) == lines_of(usual.output[0])
        if closed in ("stderr", "all"):
            assert err == ""
        else:
            assert lines_of(err) == lines_of(usual.output[1])


def stop_together(harness: Any, topic: str, runs: dict[str, Run]) -> None:
    """Interrupt runs once all of them subscribe to a topic, and those that can have printed numbers."""
    printing = [run for closed, run in runs.items() if closed not in ("stdout", "all")]

    def all_run() -> bool:
        if harness.node.count_subscribers(topic) < len(runs):
            return False
        return all(re.search(r"\d.*\n", run.output[0]) for run in printing)

    harness.wait_for(all_run, timeout=END_S, what=topic)
    for run in runs.values():
        run.process.send_signal(signal.SIGINT)


@pytest.mark.process
@pytest.mark.parametrize("module", ["ros.node", "cli", "bridge", "robot_state_publisher"])
def test_every_program_runs_without_standard_streams(module: str, tmp_path: Path, ros_domain: int) -> None:
    program = (
        [sys.executable, "-m", f"usd_ros_bridge.{module}"]
        if module in ("ros.node", "cli")
        else [sys.executable, str(ROOT / "executables" / module)]
    )
    arguments = (
        ["inspect", str(ARM)]
        if module == "cli"
        else [*("--ros-args", "-p", f"asset:={ARM}", "-p", "backend:=kinematic", "-p", "duration:=0.2")]
    )
    run = Run(tmp_path / "run", arguments, CLOSED["all"], ros_domain, program)
    assert run.process.wait(END_S) == 0


@pytest.mark.process
def test_a_recording_has_no_log_in_it(tmp_path: Path, ros_domain: int) -> None:
    pytest.importorskip("mcap", reason="mcap is not installed: make setup")
    from mcap.reader import make_reader

    arguments = ["run", str(ARM), "--backend", "kinematic", "--duration", "0.2", "--record", "out.mcap"]
    run = Run(tmp_path / "run", arguments, CLOSED["all"], ros_domain)
    assert run.process.wait(END_S) == 0
    with (run.directory / "out.mcap").open("rb") as file:
        topics = {channel.topic for _, channel, _ in make_reader(file, validate_crcs=True).iter_messages()}
    assert STATES in topics


@pytest.mark.sample
def test_inspect_needs_no_standard_streams(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", ["inspect", str(ARM)], CLOSED["all"], 0)
    assert run.process.wait(END_S) == 0
