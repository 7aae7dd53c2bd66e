"""Kill -9 at random moments: nothing is lost or counted twice, and results are those of an undisturbed sweep."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from effort import examples
from sweeps import ROOT, small_sweep, without_times, write_sweep
from usd_ros_bridge.sweep.output_directory import read_records
from usd_ros_bridge.sweep.results_table import read_table
from usd_ros_bridge.sweep.run_journal import JOURNAL, read_journal
from usd_ros_bridge.sweep.sweep_description import Sampling
from usd_ros_bridge.sweep.sweep_engine import run_sweep
from usd_ros_bridge.sweep.sweep_progress import SweepProgress

pytest.importorskip("ray")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("mujoco")
pytest.importorskip("rclpy")

pytestmark = pytest.mark.app

KILLS = examples(13)
"""Of workers: more than 50 in `make test-long`."""
SWEEP_KILLS = 1 + examples(1)
"""Of whole sweeps."""
SEED = 21


class Killer(threading.Thread):
    """Kills workers of a sweep at random moments. Its last runs wait until all kills are done."""

    def __init__(self, go_on: Path) -> None:
        super().__init__(name="killer", daemon=True)
        self.killed: list[int] = []
        self.state: SweepProgress | None = None
        self._go_on = go_on

    def run(self) -> None:
        moments = random.Random(SEED)
        while len(self.killed) < KILLS:
            time.sleep(moments.uniform(0.0, 1.0))
            state = self.state
            alive = [pid for pid in state.workers.values() if pid not in self.killed] if state else []
            if not alive:
                continue
            pid = moments.choice(alive)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.killed.append(pid)
        self._go_on.touch()


@pytest.mark.random
@pytest.mark.timeout(examples(400))
def test_workers_killed_at_random_moments_cost_nothing(tmp_path: Path) -> None:
    drive = [{"act": "drive", "speed": 0.01 * number} for number in range(examples(15))]
    wait = [{"act": "wait", "speed": 0.01 * number} for number in range(2)]
    sweep = small_sweep(
        tmp_path / "s", parameters={}, sampling=Sampling(method="list"), points=(*drive, *wait)
    )
    killer = Killer(tmp_path / "s" / "go on")
    seen: list[SweepProgress] = []

    def watch(state: SweepProgress) -> None:
        killer.state = state
        seen.append(state)

    killer.start()
    result = run_sweep(
        sweep,
        output=tmp_path / "out",
        workers=2,
        retries=KILLS,
        on_progress=watch,
        report=lambda *_: None,
    )
    killer.join(60)
    assert len(killer.killed) == KILLS
    assert result.outcomes == {"completed": len(sweep.points)}
    assert not result.interrupted
    journal = (tmp_path / "out" / JOURNAL).read_text(encoding="utf-8").splitlines()
    assert len(journal) == len(read_journal(tmp_path / "out" / JOURNAL)) == len(sweep.points)
    table = result.table()
    assert max(Counter(table["id"].to_pylist()).values()) == 1
    # A kill hits a worker in a run, which is tried again, or between two runs, which costs none.
    attempts = sum(table["attempts"].to_pylist()) - len(sweep.points)
    assert attempts == seen[-1].retries <= KILLS
    assert attempts > 0
    undisturbed = run_sweep(sweep, output=tmp_path / "alone", workers=0)
    assert without_times(table) == without_times(undisturbed.table())


@pytest.mark.random
@pytest.mark.timeout(examples(400))
def test_a_sweep_killed_at_random_moments_and_resumed_costs_nothing(tmp_path: Path) -> None:
    runs = 13 * (1 + SWEEP_KILLS)
    points: list[dict[str, Any]] = [{"act": "drive", "speed": 0.5 * each / runs} for each in range(runs - 1)]
    # The last one waits until all kills are done: a sweep does not end before.
    points.append({"act": "wait", "speed": 0.5})
    file = write_sweep(tmp_path)
    listed = f"points: {json.dumps(points)}\n"
    file.write_text(
        re.sub(
            r"(?s)^parameters:.*(?=^metrics:)", listed, file.read_text(encoding="utf-8"), flags=re.MULTILINE
        ),
        encoding="utf-8",
    )
    go_on = tmp_path / "go on"
    go_on.touch()
    command = [sys.executable, "-m", "usd_ros_bridge", "sweep", "small.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    alone = subprocess.run(
        [*command, "-o", "alone", "--workers", "0"], cwd=tmp_path, env=environment, check=True, timeout=200
    )
    assert alone.returncode == 0
    go_on.unlink()
    moments = random.Random(SEED)
    ended, kills = 1, 0
    while ended:
        with subprocess.Popen(
            [*command, "-o", "out", "--workers", "2", "--resume"],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as sweep:  # fmt: skip
            if kills < SWEEP_KILLS:
                before = len(read_records(tmp_path / "out")) if (tmp_path / "out").exists() else 0
                kill_after(sweep, tmp_path / "out", min(before + moments.randrange(12), runs - 1))
                assert sweep.wait(60) == -signal.SIGKILL
                kills += 1
            else:
                go_on.touch()
            printed, _ = sweep.communicate(timeout=200)
            ended = sweep.returncode
            assert ended in (0, -signal.SIGKILL), printed
    assert kills == SWEEP_KILLS
    records = read_records(tmp_path / "out")
    assert max(Counter(record.id for record in records).values()) == 1
    tables = [read_table(tmp_path / each / "results.parquet") for each in ("alone", "out")]
    assert without_times(tables[0]) == without_times(tables[1])
    assert tables[1].num_rows == runs


def kill_after(sweep: subprocess.Popen[str], output: Path, runs: int) -> None:
    """Kill a sweep once it has a number of runs, in the middle of whatever it does then."""
    deadline = time.monotonic() + 120.0
    while sweep.poll() is None and time.monotonic() < deadline:
        if (output / "sweep.json").exists() and len(read_journal(output / JOURNAL)) >= runs:
            break
        time.sleep(0.001)
    sweep.send_signal(signal.SIGKILL)
