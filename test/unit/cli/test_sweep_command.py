"""`usd_ros_bridge sweep`: what it prints, signals, a full disk, a killed command, a cluster."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli_calls import call_cli
from free_ports import free_port
from programs import Program
from sweeps import ROOT, without_times, write_sweep
from terminals import OnTerminal
from usd_ros_bridge.sweep.output_directory import read_records
from usd_ros_bridge.sweep.results_table import read_table

pytest.importorskip("ray")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("mujoco")
pytest.importorskip("yaml")
pytest.importorskip("jsonschema")
pytest.importorskip("rclpy")
pytestmark = [pytest.mark.app, pytest.mark.timeout(240)]

COMMAND = (sys.executable, "-m", "usd_ros_bridge", "sweep")


def started(directory: Path, *arguments: str) -> Program:
    """Start a sweep in a directory, as leader of a process group."""
    return Program(["setsid", *COMMAND, *arguments], cwd=directory, env={"PYTHONPATH": str(ROOT)})


def wait_for_file(path: Path) -> None:
    """Wait until a driver says something."""
    deadline = time.monotonic() + 90.0
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.02)


# --- What it prints ------------------------------------------------------------------------------------------------


def test_a_sweep_is_one_command(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, count=2, acts=("drive", "raise"))
    output = tmp_path / "out"
    ended = call_cli("sweep", file, "--output", output, "--workers", "2", "--record", "failed")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("4 of 4 runs: 2 completed, 2 failed; ")
    assert lines[1:] == [str(output / "report.html")]
    faults = [line for line in ended.stderr.splitlines() if "failed: " in line]
    assert len(faults) == 2
    assert sorted(each.name for each in output.iterdir()) == [
        "journal.jsonl", "recordings", "report.html", "results.parquet", "sweep.json",
    ]  # fmt: skip
    assert len(list((output / "recordings").iterdir())) == 2
    document = json.loads((output / "sweep.json").read_text(encoding="utf-8"))
    assert document["name"] == "small"
    assert document["runs"] == 4
    assert {"usd_ros_bridge", "ray", "mujoco", "usd-core"} <= document["versions"].keys()

    again = call_cli("sweep", file, "--output", output)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "has a sweep already (4 of 4 runs): continue it with --resume" in again.stderr

    other = call_cli("sweep", file, "--output", output, "--resume", "--set", "act=drive")
    assert other.returncode == 2
    assert "has another sweep: parameters.act" in other.stderr

    (output / "report.html").unlink()
    remade = call_cli("sweep", "--report", output)
    assert (remade.returncode, remade.stdout) == (0, f"{output / 'report.html'}\n")
    assert "gave up" in (output / "report.html").read_text(encoding="utf-8")


def test_without_ray_runs_are_made_here(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, acts=("raise",))
    ended = call_cli(
        "sweep", file, "-o", tmp_path / "out", "--workers", "0", "--strict", "--set", "speed=0.25"
    )
    assert ended.returncode == 1
    assert (
        ended.stderr.splitlines()[-1]
        == "usd_ros_bridge: 1 runs failed or were lost, and strict was asked for"
    )
    assert read_table(tmp_path / "out" / "results.parquet")["parameters.speed"].to_pylist() == [0.25]


def test_a_dry_run_prints_the_runs(tmp_path: Path) -> None:
    ended = call_cli("sweep", write_sweep(tmp_path, count=3), "--dry-run")
    assert ended.returncode == 0, ended.stderr
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert rows[0] == ["run", "seed", "speed", "act"]
    assert [(row[0], *row[2:]) for row in rows[1:]] == [
        ("run_0", "0.1", "drive"), ("run_1", "0.3", "drive"), ("run_2", "0.5", "drive"),
    ]  # fmt: skip
    assert ended.stderr == "usd_ros_bridge: 3 runs\n"
    assert list(tmp_path.glob("*_results")) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", "0.001"), ("2020-13-45", "2020-13-45"), ("-.5", "-0.5"), ("a\x07b", "a\\x07b")],
)
def test_values_of_the_command_line_are_those_of_a_file(tmp_path: Path, text: str, value: str) -> None:
    ended = call_cli("sweep", write_sweep(tmp_path, count=1), "--dry-run", "--set", f"speed={text}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[1].split()[2] == value


def test_the_schema_is_printed() -> None:
    ended = call_cli("sweep", "--schema")
    assert json.loads(ended.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "Missing argument 'FILE'"),
        (("missing.yaml",), "missing.yaml"),
        (("small.yaml", "--set", "speed"), "write NAME=VALUE"),
        (("small.yaml", "--set", "sped=1"), "did you mean speed?"),
        (("small.yaml", "--set", "speed=[1]"), "is no number, text or boolean"),
        (("small.yaml", "--upload"), "no cluster to send files to"),
        (("small.yaml", "--address", "nonsense"), "'nonsense' is no address of a cluster"),
        (("small.yaml", "--output", "small.yaml"), "small.yaml"),
        (("--report", "nowhere"), "is no output directory of a sweep"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], fault: str) -> None:
    write_sweep(tmp_path)
    given = [str(tmp_path / each) if each.endswith(".yaml") else each for each in arguments]
    ended = call_cli("sweep", *given)
    assert not (ROOT / "small_results").exists()
    assert ended.returncode == 2
    assert ended.stdout == ""
    line = ended.stderr.splitlines()[-1]
    assert fault in line
    assert "Traceback" not in ended.stderr


# --- Signals and kills ---------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_sweep_after_the_runs_in_progress(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, count=4, acts=("wait",))
    with started(tmp_path, file.name, "--workers", "1") as sweep:
        wait_for_file(tmp_path / "waiting")
        # As a terminal does: to all processes of the group, workers of Ray included.
        os.killpg(sweep.pid, signal.SIGINT)
        sweep.wait_for("no other run begins; interrupt again")
        (tmp_path / "go on").touch()
        sweep.wait_for("1 of 4 runs: 1 completed")
        sweep.wait_for(r"interrupted; continue with: .*--output small_results --resume")
        assert sweep.wait(timeout=60) == 130
        assert "Traceback" not in sweep.output
    assert [record.outcome for record in read_records(tmp_path / "small_results")] == ["completed"]
    with started(tmp_path, file.name, "--workers", "2", "--resume") as sweep:
        sweep.wait_for("4 of 4 runs: 4 completed")
        assert sweep.wait(timeout=60) == 0
    assert read_table(tmp_path / "small_results" / "results.parquet").num_rows == 4


def test_ctrl_c_twice_ends_a_sweep_at_once(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, acts=("hang",))
    with started(tmp_path, file.name, "--workers", "1") as sweep:
        sweep.wait_for("0 of 2 runs .* 1 running")
        sweep.process.send_signal(signal.SIGINT)
        sweep.wait_for("no other run begins")
        time.sleep(
            1.2
        )  # A second signal within a second is the first one again: terminals and launch send two.
        sweep.process.send_signal(signal.SIGINT)
        assert sweep.wait(timeout=60) == 130
        assert "Traceback" not in sweep.output


def test_a_killed_sweep_is_resumed(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, count=12)
    whole = call_cli("sweep", file, "-o", tmp_path / "whole", "--workers", "0")
    assert whole.returncode == 0, whole.stderr
    journal = tmp_path / "small_results" / "journal.jsonl"
    for least in (1, 4, 8):
        with started(tmp_path, file.name, "--workers", "2", "--resume") as sweep:
            deadline = time.monotonic() + 90.0
            while not journal.exists() or len(journal.read_bytes().splitlines()) < least:
                assert time.monotonic() < deadline, sweep.output
                time.sleep(0.002)
            sweep.process.send_signal(signal.SIGKILL)
            sweep.wait(timeout=30)
    with started(tmp_path, file.name, "--workers", "2", "--resume") as sweep:
        sweep.wait_for("12 of 12 runs: 12 completed")
    ids = [json.loads(line)["id"] for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len(ids) == len(set(ids)) == 12
    tables = [read_table(tmp_path / each / "results.parquet") for each in ("whole", "small_results")]
    assert without_times(tables[0]) == without_times(tables[1])


def test_a_terminal_has_a_bar(tmp_path: Path) -> None:
    write_sweep(tmp_path, count=3)
    command = [*COMMAND, str(tmp_path / "small.yaml"), "-o", str(tmp_path / "out"), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120"}
    with OnTerminal(command, environment) as sweep:
        sweep.wait_for(b"3/3")
        sweep.wait_for(b"3 of 3 runs: 3 completed")
        sweep.wait_for(b"report.html")
        assert sweep.finish() == 0
    assert b"steps/s" in sweep.written


# --- A full disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"only root can mount a small file system: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_full_disk_is_one_line_and_what_is_written_stays(tmp_path: Path, small_disk: Path) -> None:
    file = write_sweep(tmp_path, count=4)
    output = small_disk / "out"
    part = call_cli("sweep", file, "-o", output, "--workers", "0", "--set", "speed=0.1")
    assert part.returncode == 0, part.stderr
    output = small_disk / "next"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize - 12288))
    ended = call_cli("sweep", file, "-o", output, "--workers", "0")
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr.splitlines()[-1]
    assert ended.stderr.count("No space left") == 1
    assert "Traceback" not in ended.stderr
    ballast.unlink()
    resumed = call_cli("sweep", file, "-o", output, "--workers", "0", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "4 of 4 runs: 4 completed" in resumed.stdout
    assert [record.id for record in read_records(output)] == ["run_0", "run_1", "run_2", "run_3"]


# --- A cluster -------------------------------------------------------------------------------------------------------


class RayHead(NamedTuple):
    """A cluster of one node on the loopback, which others started.

    Attributes:
        address: Where it listens.
        token: What its clients need.
    """

    address: str
    token: dict[str, str]


@pytest.fixture
def ray_head() -> Iterator[RayHead]:
    """A cluster with a token of the test's own."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    port = free_port()
    # Paths of Ray's sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="ray_", dir="/tmp") as directory:
        # Else Ray asks servers on the network which cloud this is.
        Path(directory, "ray_bootstrap_config.yaml").write_text("{}", encoding="utf-8")
        # That nothing is to be reported, Ray reports.
        reports = {"RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9", "RAY_USAGE_STATS_ENABLED": "0"}
        loopback = {**reports, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"]
        command += [f"--port={port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
        command += ["--object-store-memory=80000000", f"--temp-dir={directory}", "--disable-usage-stats"]
        environment = {**loopback, **token, "HOME": directory, "PYTHONPATH": str(ROOT)}
        with Program(command, cwd=Path(directory), env=environment) as head:
            head.wait_for("Ray runtime started", timeout=90.0)
            try:
                yield RayHead(f"127.0.0.1:{port}", token)
            finally:
                head.process.send_signal(signal.SIGTERM)
                head.wait(timeout=60)


def sweep_there(directory: Path, head: RayHead, *arguments: str, **variables: str) -> Any:
    """Run a sweep on a cluster, as a user who has no files of Ray. Return how it ended."""
    return subprocess.run(
        [*COMMAND, "small.yaml", "--address", head.address, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(directory), **variables},
    )


def test_a_cluster_makes_the_runs(tmp_path: Path, ray_head: RayHead) -> None:
    file = write_sweep(tmp_path, count=3)
    alone = call_cli("sweep", file, "-o", tmp_path / "alone", "--workers", "0", "--record", "all")
    assert alone.returncode == 0, alone.stderr
    for name, options in (("shared", ()), ("uploaded", ("--upload",))):
        ended = sweep_there(tmp_path, ray_head, "-o", name, "--record", "all", *options, **ray_head.token)
        assert ended.returncode == 0, ended.stderr
        assert "3 of 3 runs: 3 completed" in ended.stdout
        tables = [read_table(tmp_path / each / "results.parquet") for each in ("alone", name)]
        assert without_times(tables[0]) == without_times(tables[1])
        for each in tables[1]["recording"].to_pylist():
            assert (tmp_path / name / each).read_bytes() == (tmp_path / "alone" / each).read_bytes()
    refused = sweep_there(tmp_path, ray_head, "-o", "refused")
    assert refused.returncode == 2
    assert "it asks for a token: set RAY_AUTH_MODE=token" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    file = write_sweep(tmp_path)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        silent = f"127.0.0.1:{listening.getsockname()[1]}"
        for address, reason in (("127.0.0.1:1", "Connection refused"), (silent, "does not answer as one")):
            ended = call_cli("sweep", file, "-o", tmp_path / "out", "--address", address)
            assert ended.returncode == 2
            assert ended.stderr.splitlines()[-1].startswith(f"usd_ros_bridge: no Ray cluster at '{address}'")
            assert reason in ended.stderr
            assert "Traceback" not in ended.stderr
