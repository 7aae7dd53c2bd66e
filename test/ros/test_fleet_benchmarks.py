"""The benchmarks of fleets: every robot is served once, bytes are counted. No time is judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

pytest.importorskip("rich", reason="rich is not installed: make setup")

from benchmarks import processes, shards
from benchmarks.harness import Options

# The benchmarks themselves wait longer for their processes than other tests may take.
pytestmark = [pytest.mark.timeout(400), pytest.mark.app, pytest.mark.process]


def values(results: object) -> dict[str, float]:
    return {each.name: each.value for each in results}  # type: ignore[attr-defined]


def test_shards_serve_every_robot_and_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = shards.Fleet(6, 2)
    monkeypatch.setattr(shards, "QUICK", (fleet,))
    # On a busy machine the observer may hear nothing for some seconds.
    monkeypatch.setattr(shards, "_QUICK_SECONDS", 6.0)
    found = values(shards.run(Options(quick=True)))
    assert {name.split(".")[1] for name in found} == {"6x2"}
    # Three robots in each process: /tf, /tf_static, joint states and a description of each.
    assert found["shards.6x2.endpoints"] == 12
    # 29 moving frames with their names, 29 joints.
    assert found["shards.6x2.bytes_tf"] > 29 * 56
    assert found["shards.6x2.bytes_joint_states"] > 29 * 2 * 8
    for phase in ("idle", "moving"):
        assert found[f"shards.6x2.received_{phase}"] > 0.0
        assert found[f"shards.6x2.messages_{phase}"] > 0.0
    assert found["shards.6x2.memory_sum"] == pytest.approx(2 * found["shards.6x2.memory"])


def test_the_memory_of_a_process_is_shared_out() -> None:
    assert 1.0 < processes.proportional_mb() < 100_000.0
