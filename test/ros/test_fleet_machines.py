"""Shards on another machine: this one, by an ssh server of the test's own on the loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stages import write_fleet
from fleet_runs import READY_S, FleetRun, is_running, kill, wait_until
from free_ports import free_port
from programs import Program

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
OPTIONS = ("--shards", "2", "--backend", "kinematic", "--max-restart-delay", "0.2")
PRIVILEGE_SEPARATION = Path("/run/sshd")

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path(SSHD).exists(), reason="sshd is not installed: apt install openssh-server"),
    pytest.mark.skipif(
        shutil.which("ssh") is None, reason="ssh is not installed: apt install openssh-client"
    ),
]


@dataclass(frozen=True)
class OtherMachine:
    """An ssh server of the test's own.

    Attributes:
        process: The server.
        ssh: The command that reaches it, by its host's alias `other`.
    """

    process: Program
    ssh: str


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherMachine]:
    """A machine `other`, which is this one."""
    if os.getuid() == 0:
        # What the package's service makes before it starts sshd. It stays: servers of other tests may need it.
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
    )
    (folder / "ssh_config").write_text(
        f"Host other\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking no\n"
    )
    with Program([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], cwd=folder) as server:
        server.wait_for("listening on 127.0.0.1")
        yield OtherMachine(process=server, ssh=f"ssh -F {folder}/ssh_config")


@pytest.fixture
def remote(other: OtherMachine) -> tuple[str, ...]:
    """The options for a fleet of which the second half is on the other machine."""
    command = f"{sys.executable} -m usd_ros_bridge"
    root = Path(__file__).resolve().parents[2]
    setup = f"cd {root}"
    return (
        *OPTIONS,
        *("--machines", "localhost,other", "--ssh", other.ssh),
        *("--remote-command", command, "--remote-setup", setup),
    )


@pytest.fixture
def asset(ros_domain: int, tmp_path: Path) -> Path:
    return write_fleet(tmp_path, robots=2, links=3, publish_rate=50.0)


def remote_processes(asset: Path) -> list[int]:
    """Returns the processes of the second shard: ssh's other end, and what it has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            text = " ".join(words)
            if str(asset) in words and "2/2" in text and words[0] != "ssh":
                found.append(int(entry.name))
    return found


def test_shards_start_and_end_on_another_machine(
    asset: Path, remote: tuple[str, ...], tmp_path: Path
) -> None:
    with FleetRun(asset, *remote, cwd=tmp_path) as fleet:
        assert "2 robots" in fleet.wait_until_ready(2)
        (process_id,) = remote_processes(asset)
        # It has the domain of this process, and none of its paths.
        variables = Path(f"/proc/{process_id}/environ").read_bytes().decode().split("\0")
        assert f"ROS_DOMAIN_ID={os.environ['ROS_DOMAIN_ID']}" in variables
        kill(process_id)
        fleet.wait_for("fleet: shard 2 ended with status 255, starts again")
        fleet.wait_until_ready(2)
        left = remote_processes(asset)
        assert len(left) == 1
        assert fleet.interrupt() == 0
        # Ctrl-C went through: it has closed by itself, before the connection did.
        assert not any(map(is_running, left))
        assert "\x1b" not in fleet.output


def test_shards_of_another_machine_end_with_a_supervisor_that_is_killed(
    asset: Path, remote: tuple[str, ...], tmp_path: Path
) -> None:
    with FleetRun(asset, *remote, cwd=tmp_path) as fleet:
        fleet.wait_until_ready(2)
        left = remote_processes(asset)
        assert len(left) == 1
        kill(fleet.pid)
        wait_until(lambda: not any(map(is_running, left)), "the end of the shard")


def test_a_connection_that_is_cut_is_made_again(asset: Path, remote: tuple[str, ...], tmp_path: Path) -> None:
    with FleetRun(asset, *remote, cwd=tmp_path) as fleet:
        fleet.wait_until_ready(2)
        before = fleet.processes()
        (process_id,) = remote_processes(asset)
        kill(before[2])
        wait_until(lambda: not is_running(process_id), "the end of the shard whose terminal has gone")
        fleet.wait_until_ready(2)
        assert fleet.processes()[1] == before[1]
        assert fleet.interrupt() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--remote-command", "no_such_command"),
            "machine other cannot run the bridge (see --remote-command and",
        ),
        (("--remote-setup", "source /no/setup.bash"), "machine other cannot run the bridge"),
        (("--machines", "localhost,nobody@other"), "machine nobody@other cannot be reached: "),
        (("--contexts", "robot_99"), "robot_99"),
    ],
    ids=["command", "setup", "user", "contexts"],
)
def test_what_another_machine_refuses_is_one_line(
    asset: Path, remote: tuple[str, ...], options: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    if options[0] == "--machines":
        at = remote.index("--machines")
        remote = (*remote[:at], *remote[at + 2 :])
    with FleetRun(asset, *remote, *options, cwd=tmp_path) as fleet:
        assert fleet.wait(timeout=READY_S) == 2, fleet.output
        errors = [line for line in fleet.output.splitlines() if line.startswith("usd_ros_bridge: ")]
        assert len(errors) == 1
        assert says in errors[0]


def test_a_machine_that_cannot_be_reached(
    asset: Path, remote: tuple[str, ...], other: OtherMachine, tmp_path: Path
) -> None:
    other.process.kill()
    with FleetRun(asset, *remote, cwd=tmp_path) as fleet:
        assert fleet.wait(timeout=READY_S) == 2, fleet.output
        assert "usd_ros_bridge: machine other cannot be reached: ssh: connect to host" in fleet.output
