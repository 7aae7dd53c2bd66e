"""Sweeps with workers of Ray: equal results, workers that end, runs that take too long, and what Ray opens."""

from __future__ import annotations

import ipaddress
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps import small_sweep, without_times
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.sweep.output_directory import read_document
from usd_ros_bridge.sweep.ray_cluster import RayCluster, marked_processes
from usd_ros_bridge.sweep.run_journal import JOURNAL, read_journal
from usd_ros_bridge.sweep.run_record import RunRecord
from usd_ros_bridge.sweep.sweep_engine import run_sweep
from usd_ros_bridge.sweep.sweep_progress import ProgressMeter, SweepProgress

ray = pytest.importorskip("ray")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("mujoco")
pytest.importorskip("rclpy")
pytestmark = [pytest.mark.app, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A Ray of the test process, which its sweeps use."""
    with RayCluster() as opened:
        opened.open(workers=2)
        yield opened


class Collected:
    """What a sweep said."""

    def __init__(self) -> None:
        self.states: list[SweepProgress] = []
        self.reports: list[str] = []

    def report(self, _: str, message: str) -> None:
        self.reports.append(message)


def sweep_with(tmp_path: Path, name: str, sweep: Any, **options: Any) -> tuple[Any, Collected]:
    said = Collected()
    result = run_sweep(
        sweep, output=tmp_path / name, on_progress=said.states.append, report=said.report, **options
    )
    return result, said


# --- Results -------------------------------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_workers(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(
        tmp_path / "s", parameters={"speed": (0.1, 0.2, 0.3), "act": ("drive", "raise")}, record="all"
    )
    alone, _ = sweep_with(tmp_path, "none", sweep, workers=0)
    one, _ = sweep_with(tmp_path, "one", sweep, workers=1)
    two, said = sweep_with(tmp_path, "two", sweep, workers=2)
    rows = without_times(alone.table())
    assert len(rows) == 6
    assert without_times(one.table()) == rows
    assert without_times(two.table()) == rows
    assert two.outcomes == {"completed": 3, "failed": 3}
    assert not two.interrupted
    reasons = {each for each in two.table()["reason"].to_pylist() if each}
    assert len(reasons) == 1
    assert "the <b>driver</b> gave up" in reasons.pop()
    for each in two.table()["recording"].to_pylist():
        recorded = (tmp_path / "two" / each).read_bytes()
        assert recorded == (tmp_path / "none" / each).read_bytes()
        assert recorded == (tmp_path / "one" / each).read_bytes()
        assert recorded.endswith(b"\x89MCAP0\r\n")
    last = said.states[-1]
    assert (last.done, last.total, last.running, last.resumed) == (6, 6, 0, 0)
    assert said.reports == []
    assert "the &lt;b&gt;driver" in (tmp_path / "two" / "report.html").read_text(encoding="utf-8")


def test_only_failed_runs_keep_their_recording(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"act": ("drive", "raise")})
    result, _ = sweep_with(tmp_path, "out", sweep, record="failed")
    table = result.table()
    kept = dict(zip(table["outcome"].to_pylist(), table["recording"].to_pylist(), strict=True))
    assert kept == {"completed": "", "failed": "recordings/run_1.mcap"}
    assert [each.name for each in (tmp_path / "out" / "recordings").iterdir()] == ["run_1.mcap"]


def test_a_sweep_that_stopped_is_resumed(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"speed": (0.1, 0.2, 0.3, 0.4)})
    whole, _ = sweep_with(tmp_path, "whole", sweep)
    done: list[SweepProgress] = []
    part = run_sweep(
        sweep,
        output=tmp_path / "part",
        workers=1,
        on_progress=done.append,
        stopped=lambda: bool(done) and done[-1].done >= 1,
    )
    assert part.interrupted
    assert 1 <= part.done < 4
    with pytest.raises(OptionError, match="--resume"):
        run_sweep(sweep, output=tmp_path / "part")
    rest, said = sweep_with(tmp_path, "part", sweep, resume=True)
    assert not rest.interrupted
    assert said.states[-1].resumed == part.done
    assert without_times(rest.table()) == without_times(whole.table())
    facts = read_document(tmp_path / "part")
    again, _ = sweep_with(tmp_path, "part", sweep, resume=True)
    assert again.table().equals(rest.table())
    assert {**read_document(tmp_path / "part"), "resumed": []} == {**facts, "resumed": []}


def test_parameters_that_are_not_finite_are_resumed_as_they_were(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"speed": (0.1,), "limit": (math.inf, 2.0)})
    whole, _ = sweep_with(tmp_path, "out", sweep, workers=0)
    assert whole.table()["parameters.limit"].to_pylist() == [math.inf, 2.0]
    resumed, _ = sweep_with(tmp_path, "out", sweep, workers=0, resume=True)
    assert resumed.table().equals(whole.table())


# --- Workers that end ------------------------------------------------------------------------------------------------


def test_a_run_whose_worker_dies_is_tried_again_and_counted_once(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"act": ("die once", "drive")}, record="all")
    result, said = sweep_with(tmp_path, "out", sweep)
    assert result.outcomes == {"completed": 2}
    assert result.table()["attempts"].to_pylist() == [2, 1]
    assert len(read_journal(tmp_path / "out" / JOURNAL)) == 2
    assert said.states[-1].retries == 1
    assert len(said.reports) == 1
    assert "run_0: the worker was killed, or crashed" in said.reports[0]
    assert sorted(each.name for each in (tmp_path / "out" / "recordings").iterdir()) == [
        "run_0.mcap",
        "run_1.mcap",
    ]


def test_a_run_that_kills_every_worker_is_lost_and_nothing_else(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"act": ("die", "drive", "raise")})
    result, said = sweep_with(tmp_path, "out", sweep, retries=1)
    assert result.outcomes == {"lost": 1, "completed": 1, "failed": 1}
    row = result.table().to_pylist()[0]
    assert row["outcome"] == "lost"
    assert row["attempts"] == 2
    assert "killed, or crashed" in row["reason"]
    assert said.reports[-1].endswith("lost after 2 attempts")
    resumed, _ = sweep_with(tmp_path, "out", sweep, resume=True)
    assert resumed.table().equals(result.table())


def test_a_run_that_takes_too_long_is_lost(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"act": ("hang", "drive")})
    result, _ = sweep_with(tmp_path, "out", sweep, retries=0, timeout=20.0)
    rows = result.table().to_pylist()
    assert [row["outcome"] for row in rows] == ["lost", "completed"]
    assert rows[0]["reason"] == "the run took longer than 20 s (--timeout)"


def test_a_worker_that_is_killed_while_it_waits_is_replaced(tmp_path: Path, cluster: RayCluster) -> None:
    sweep = small_sweep(tmp_path / "s", parameters={"speed": (0.1, 0.2), "act": ("wait",)})
    killed: list[int] = []

    def kill_first(state: SweepProgress) -> None:
        if state.running == 2 and not killed and (tmp_path / "s" / "waiting").exists():
            killed.append(min(state.workers.values()))
            os.kill(killed[0], signal.SIGKILL)
        if killed and killed[0] not in state.workers.values():
            (tmp_path / "s" / "go on").touch()

    result = run_sweep(sweep, output=tmp_path / "out", on_progress=kill_first, report=lambda *_: None)
    assert killed
    assert result.outcomes == {"completed": 2}
    assert sorted(result.table()["attempts"].to_pylist()) == [1, 2]


# --- Bad input -------------------------------------------------------------------------------------------------------


def test_what_the_asset_does_not_have_is_one_line_before_the_first_run(
    tmp_path: Path, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the table is due before a worker has answered.
    monkeypatch.setattr("usd_ros_bridge.sweep.sweep_engine._TABLE_EVERY_S", 0.0)
    sweep = small_sweep(tmp_path / "s")
    wrong = replace(sweep, joints={"left_whel_joint": 1.0})
    with pytest.raises(BridgeError, match="left_whel_joint") as error:
        run_sweep(wrong, output=tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"workers": -1}, "workers: -1 is below 0"),
        ({"retries": -1}, "retries: -1 is below 0"),
        ({"timeout": float("nan")}, "timeout: nan is no number"),
        ({"workers": 0, "address": "auto"}, "without a cluster"),
        ({"upload": True}, "no cluster to send files to"),
        ({"address": "127.0.0.1:1"}, "connected to a Ray already"),
    ],
)
def test_options_that_are_not_possible_are_one_line(
    tmp_path: Path, cluster: RayCluster, options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(OptionError, match=fault):
        run_sweep(small_sweep(tmp_path / "s"), output=tmp_path / "out", **options)


# --- What Ray opens --------------------------------------------------------------------------------------------------


def test_a_local_ray_listens_on_the_loopback_alone(cluster: RayCluster) -> None:
    assert cluster.logs is not None
    processes = {os.getpid(), *marked_processes("", str(cluster.logs.resolve().parents[1]))}
    names = {Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() for pid in processes}
    assert {"gcs_server", "raylet"} <= names
    listening = [address for pid in processes for address in listening_addresses(pid)]
    assert len(listening) >= 4
    assert {
        address for address in listening if not address.startswith(("127.", "::1", "::ffff:127."))
    } == set()


def listening_addresses(pid: int) -> list[str]:
    """Return the addresses of the TCP sockets on which a process listens, from the kernel's own tables."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = []
    for table, family in (("tcp", 4), ("tcp6", 6)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(shown_address(fields[1].partition(":")[0], family))
    return found


def shown_address(text: str, family: int) -> str:
    """Return an address of /proc/net, whose words are in the order of the machine."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    if family == 4:
        return str(ipaddress.IPv4Address(raw))
    address = ipaddress.IPv6Address(raw)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def test_children_of_this_process_have_their_exit_status(cluster: RayCluster) -> None:
    @ray.remote(num_cpus=1)
    def status() -> int:
        return subprocess.run(["false"], check=False).returncode

    assert subprocess.run(["false"], check=False).returncode == 1
    assert ray.get(status.remote()) == 1


STARTED = """
import os
from pathlib import Path
from usd_ros_bridge.sweep.ray_cluster import RayCluster
import ray
before = dict(os.environ)
for _ in range(2):
    with RayCluster() as cluster:
        cluster.open(workers=1)
        print(ray.get(ray.remote(num_cpus=1)(lambda: os.environ["RAY_AUTH_MODE"]).remote()))
print(os.environ == before, list(Path.home().iterdir()))
"""


def test_a_local_ray_needs_a_token_that_is_nowhere_on_the_disk(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ended = subprocess.run(
        [sys.executable, "-c", STARTED],
        capture_output=True, text=True, check=True, timeout=120, env={**environment, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (ended.stdout, ended.stderr) == ("token\ntoken\nTrue []\n", "")


def test_workers_have_one_thread_and_no_statistics_of_use(cluster: RayCluster) -> None:
    @ray.remote(num_cpus=1)
    def environment() -> dict[str, str]:
        return dict(os.environ)

    there = ray.get(environment.remote())
    assert there["OMP_NUM_THREADS"] == there["OPENBLAS_NUM_THREADS"] == there["PXR_WORK_THREAD_LIMIT"] == "1"
    assert there["RAY_USAGE_STATS_ENABLED"] == "0"


LEFT = """
import os, sys
from usd_ros_bridge.sweep.ray_cluster import RayCluster
cluster = RayCluster()
cluster.open(workers=1)
print(cluster.logs.parent.parent, flush=True)
sys.stdin.readline()
if sys.argv[1] == "close":
    cluster.close()
    print("closed", flush=True)
elif sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["close", "exit", "kill"])
def test_nothing_of_ray_outlives_its_process(end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEFT, end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        directory = Path(process.stdout.readline().strip())
        assert (directory / "session_latest").is_dir()
        started = set(marked_processes("", str(directory)))
        assert len(started) > 3
        process.stdin.write("\n")
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(60) == {"close": 0, "exit": 0, "kill": -signal.SIGKILL}[end]
        assert rest == ("closed\n" if end == "close" else "")
    wait_until_gone(started, directory)


def wait_until_gone(processes: set[int], directory: Path) -> None:
    """Wait until processes have ended, and their directory is gone."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        left = [pid for pid in processes if Path(f"/proc/{pid}/exe").exists()]
        if not left and not directory.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"left: {left}, {directory} exists: {directory.exists()}")


# --- Speed -----------------------------------------------------------------------------------------------------------


def test_the_speed_is_that_of_the_last_runs() -> None:
    now = 100.0
    meter = ProgressMeter(total=1000, clock=lambda: now)
    assert meter.state().remaining is None
    now = 200.0  # the start of workers does not count
    meter.begin()
    for index in range(300):
        now += 1.0 if index < 100 else 0.5
        meter.count(
            RunRecord(id=str(index), index=index, seed=0, parameters={}, outcome="completed", steps=50)
        )
    state = meter.state()
    assert state.runs_per_minute == pytest.approx(120.0)
    assert state.steps_per_second == pytest.approx(100.0)
    assert state.remaining == pytest.approx(350.0)
    assert (state.done, state.steps, state.elapsed) == (300, 15000, pytest.approx(300.0))
