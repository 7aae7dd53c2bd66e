"""The benchmarks of fleets: every robot is served once, a graph is discovered, bytes are counted. No time is judged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

pytest.importorskip("rich", reason="rich is not installed: make setup")

from benchmarks import discovery, processes, shards
from benchmarks.harness import Options

# The benchmarks themselves wait longer for their processes than other tests may take.
pytestmark = pytest.mark.timeout(400)


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


@pytest.mark.parametrize("mode", discovery.MODES)
def test_a_graph_is_discovered_and_its_bytes_are_counted(
    mode: discovery.Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "server" and not shutil.which("fast-discovery-server", path=f"{sys.prefix}/bin"):
        pytest.skip("fast-discovery-server is not installed: it comes with Fast DDS")
    graph = discovery.Graph(2, 4)
    monkeypatch.setattr(discovery, "QUICK", (graph,))
    monkeypatch.setattr(discovery, "MODES", (mode,))
    found = values(discovery.run(Options(quick=True)))
    prefix = f"discovery.{mode}.2x4"
    assert 0.0 < found[f"{prefix}.meet"] <= found[f"{prefix}.join"]
    # Each of 8 publishers is announced to the observer alone already, with its topic and its type.
    assert found[f"{prefix}.bytes"] * 1e6 > 8 * 100
    assert (f"{prefix}.server_cpu" in found) == (mode == "server")


def test_lists_of_endpoints_are_not_sent_with_each_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    if not processes.in_own_network([])[:1]:
        pytest.skip("no network namespace: the bytes of other programs would count")
    graph = discovery.Graph(2, 2500)
    monkeypatch.setattr(discovery, "QUICK", (graph,))
    monkeypatch.setattr(discovery, "PLAIN", (graph,))
    monkeypatch.setattr(discovery, "MODES", ("simple",))
    found = values(discovery.run(Options(quick=True)))
    sent = {mode: found[f"discovery.{mode}.{graph.name}.bytes"] for mode in ("simple", "plain")}
    # The first process sends its list to the observer and, later, the last one to both: three times 8 E^2 bytes.
    assert sent["plain"] > 3 * 8e-6 * graph.endpoints**2 * 0.8
    assert sent["simple"] < sent["plain"] / 2


def test_the_memory_of_a_process_is_shared_out() -> None:
    assert 1.0 < processes.proportional_mb() < 100_000.0
