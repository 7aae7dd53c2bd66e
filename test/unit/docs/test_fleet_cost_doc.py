"""Tables of docs/explanation/fleet_cost.md are those that benchmarks.fleet_tables makes of fleet_results.json."""

from __future__ import annotations

import json
import sys

import pytest

from markdown_docs import ROOT, page_text

sys.path.insert(0, str(ROOT))

pytest.importorskip("rich", reason="rich is not installed: make setup")
pytest.importorskip("scipy", reason="scipy is not installed: make setup-tests")

from benchmarks import fleet_tables, shards
from benchmarks.report import FLEET_RESULTS

pytestmark = pytest.mark.docs

if not FLEET_RESULTS.exists():
    pytest.skip(
        "benchmarks/fleet_results.json is not there yet: see docs/explanation/fleet_cost.md",
        allow_module_level=True,
    )

ENTRIES = json.loads(FLEET_RESULTS.read_text(encoding="utf-8"))
PAGE = page_text("fleet_cost.md")


def test_the_page_has_the_tables_of_the_results() -> None:
    assert fleet_tables.with_blocks(PAGE, fleet_tables.page_blocks(ENTRIES)) == PAGE


def test_the_results_are_of_one_run_on_one_machine() -> None:
    machines = [{**entry["machine"], "load_average": 0} for entry in ENTRIES]
    assert all(machine == machines[0] for machine in machines)
    assert len({entry["name"] for entry in ENTRIES}) == len(ENTRIES)


def test_what_the_laws_are_checked_with_is_not_what_they_are_fitted_to() -> None:
    assert not set(shards.FITTED) & set(shards.CHECKED)
