"""Tables of docs/explanation/fleet_cost.md are those that benchmarks.fleet_tables makes of fleet_results.json."""

from __future__ import annotations

import json
import sys

import pytest

from markdown_docs import ROOT, page_text

sys.path.insert(0, str(ROOT))

pytest.importorskip("rich", reason="rich is not installed: make setup")
pytest.importorskip("scipy", reason="scipy is not installed: make setup-tests")

from benchmarks import discovery, fleet_tables, shards
from benchmarks.report import FLEET_RESULTS

if not FLEET_RESULTS.exists():
    pytest.skip(
        "benchmarks/fleet_results.json is not there yet: see docs/explanation/fleet_cost.md",
        allow_module_level=True,
    )

ENTRIES = json.loads(FLEET_RESULTS.read_text())
PAGE = page_text("fleet_cost.md")


def test_the_page_has_the_tables_of_the_results() -> None:
    assert fleet_tables.with_blocks(PAGE, fleet_tables.page_blocks(ENTRIES)) == PAGE


def test_the_results_are_of_one_run_on_one_machine() -> None:
    machines = [{**entry["machine"], "load_average": 0} for entry in ENTRIES]
    assert all(machine == machines[0] for machine in machines)
    assert len({entry["name"] for entry in ENTRIES}) == len(ENTRIES)


def test_what_the_laws_are_checked_with_is_not_what_they_are_fitted_to() -> None:
    assert not set(shards.FITTED) & set(shards.CHECKED)
    assert not set(discovery.FITTED) & set(discovery.CHECKED)


def test_lists_of_endpoints_are_as_long_as_the_page_says() -> None:
    values = {entry["name"]: entry["value"] for entry in ENTRIES}
    for graph in discovery.PLAIN:
        plain, own = (values[f"discovery.{mode}.{graph.name}.bytes"] for mode in ("plain", "simple"))
        lists = 8e-6 * (graph.participants * graph.endpoints) ** 2
        assert plain - lists == pytest.approx(own, abs=0.4 * plain)
    assert "8 E² bytes" in PAGE
