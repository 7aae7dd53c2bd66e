"""docs/reference/sweep_file.md against the code: files, Python, signals, statistics, keys."""

from __future__ import annotations

import re

import pytest

from markdown_docs import ROOT, blocks, page_path, page_text
from usd_ros_bridge.sweep.run_measurement import STATISTICS
from usd_ros_bridge.sweep.signals import SIGNALS
from usd_ros_bridge.sweep.sweep_file import parse_sweep, sweep_schema
from usd_ros_bridge.usd.edit.override_targets import ATTRIBUTE_NAMES

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")
pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup-tests")

pytestmark = pytest.mark.docs

PAGE = page_text("sweep_file.md")
BLOCKS = blocks(page_path("sweep_file.md"))


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "yaml"], ids=str)
def test_a_file_of_the_page_is_a_sweep(block: object) -> None:
    parse_sweep(yaml.safe_load(block.text))  # type: ignore[attr-defined]


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "python"], ids=str)
def test_python_of_the_page_runs(
    block: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    monkeypatch.chdir(ROOT)
    text = block.text  # type: ignore[attr-defined]
    exec(compile(text, str(block), "exec"), {"__name__": "documented"})
    if "plan_runs" in text:
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[:2] for line in lines] == [["0.2", "completed"], ["0.4", "completed"]]
        assert float(lines[1].split()[2]) > float(lines[0].split()[2])


def test_the_tables_have_all_signals_statistics_attributes_and_keys() -> None:
    signals = PAGE[PAGE.index("| signal | unit |") : PAGE.index("Bodies are those of robots")]
    firsts = re.findall(r"^\|([^|]+)\|", signals, re.MULTILINE)[2:]
    assert [name for first in firsts for name in re.findall(r"`(\w+)`", first)] == list(SIGNALS)
    for statistic in STATISTICS:
        assert f"`{statistic}`" in PAGE
    attributes = PAGE[PAGE.index("| `attribute` | of |") : PAGE.index("A selector that selects nothing")]
    firsts = re.findall(r"^\|([^|]+)\|", attributes, re.MULTILINE)[2:]
    assert {name for first in firsts for name in re.findall(r"`(\w+)`", first)} == set(ATTRIBUTE_NAMES)
    for key in sweep_schema()["properties"]:
        assert f"`{key}`" in PAGE or f"{key}:" in PAGE, key
