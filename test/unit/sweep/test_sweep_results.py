"""Results of a sweep: the table, the output directory, and the report."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeps import small_sweep
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.sweep.output_directory import OutputDirectory, read_document, replaced
from usd_ros_bridge.sweep.report_figures import draw_pictures, make_column
from usd_ros_bridge.sweep.report_page import report_page, write_report
from usd_ros_bridge.sweep.results_table import read_table, results_table, write_table
from usd_ros_bridge.sweep.run_journal import JOURNAL, RunJournal
from usd_ros_bridge.sweep.run_record import RunRecord
from usd_ros_bridge.sweep.run_specs import plan_runs

pa = pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.app
EVIL = "<script>alert('x')</script>&\"\x1b[31m"


def records_of(parameters: list[dict[str, Any]], **fields: Any) -> list[RunRecord]:
    return [
        RunRecord(
            **{
                "id": f"run_{index}",
                "index": index,
                "seed": index,
                "parameters": values,
                "outcome": "completed",
                "metrics": {"m": float(index), "constant": 1.0},
                **fields,
            }
        )
        for index, values in enumerate(parameters)
    ]


class Page(HTMLParser):
    """What a page has: tags, text, and what it would load."""

    VOID = ("meta", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.images: list[bytes] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value is not None:
                kind, _, data = value.partition(",")
                if kind == "data:image/svg+xml;base64":
                    self.images.append(b64decode(data))
                else:
                    self.loads.append(value)
            assert not name.startswith("on"), name

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# --- Table ---------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_run_in_the_order_of_the_sweep() -> None:
    records = records_of([{"a": 1, "b": "x", "c": True, "d": 1}, {"a": 2, "b": "y", "c": False, "d": 0.5}])
    records[1] = replace(
        records[1], metrics={}, outcome="failed", reason="no", drawn={"k": 0.25, "tyre": "soft"}
    )
    table = results_table(reversed(records), about={"sweep": "s"})
    assert table["id"].to_pylist() == ["run_0", "run_1"]
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert kinds["parameters.a"] == "int64"
    assert kinds["parameters.b"] == "string"
    assert kinds["parameters.c"] == "bool"
    assert kinds["parameters.d"] == "double"
    assert table["metrics.m"].to_pylist() == [0.0, None]
    assert table["drawn.tyre"].to_pylist() == [None, "soft"]
    assert table.schema.metadata == {b"sweep": b"s"}


def test_integers_of_any_size_have_a_column() -> None:
    table = results_table(records_of([{"a": 2**63}, {"a": 1}]), about={})
    assert table["parameters.a"].to_pylist() == [2.0**63, 1.0]


def test_a_table_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = results_table(records_of([{"a": 1}]))
    write_table(path, table)
    assert read_table(path).equals(table)
    with suppress(RuntimeError), replaced(path) as file:
        file.write(b"half")
        raise RuntimeError("killed")
    assert read_table(path).equals(table)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("nothing", encoding="utf-8")
    with pytest.raises(BridgeError, match=r"t\.parquet"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(BridgeError, match=r"u\.parquet"):
        read_table(tmp_path / "u.parquet")


def test_no_runs_make_a_table_without_rows() -> None:
    assert results_table([]).num_rows == 0


# --- Output directory ------------------------------------------------------------------------------------------------


def begun(path: Path, sweep: Any, *, done: int = 0) -> None:
    directory = OutputDirectory(path)
    directory.open(sweep, runs=2, resume=False)
    with RunJournal(path / JOURNAL) as journal:
        journal.open()
        for record in records_of([{}] * done):
            journal.append(record)
    directory.close()


def test_a_directory_with_a_sweep_is_continued_only_if_asked(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path)
    begun(tmp_path / "out", sweep)
    begun(tmp_path / "out", sweep, done=1)  # nothing was done: it begins again
    with pytest.raises(OptionError, match=r"has a sweep already \(1 of 2 runs\).*--resume"):
        OutputDirectory(tmp_path / "out").open(sweep, runs=2, resume=False)
    directory = OutputDirectory(tmp_path / "out")
    directory.open(sweep, runs=2, resume=True)
    assert directory.notes == []
    directory.close()
    assert len(read_document(tmp_path / "out")["resumed"]) == 1


def test_another_sweep_is_refused_with_what_differs(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path)
    begun(tmp_path / "out", sweep, done=1)
    other = replace(sweep, duration=0.2, parameters={"speed": (0.2, 0.5)})
    with pytest.raises(OptionError) as error:
        OutputDirectory(tmp_path / "out").open(other, runs=2, resume=True)
    assert "duration is '0.1' there and '0.2' here" in str(error.value)
    assert "parameters.speed[1] is '0.4' there and '0.5' here" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_changed_asset_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.usda").write_text("#usda 1.0\n", encoding="utf-8")
    sweep = small_sweep(tmp_path, asset="a.usda")
    begun(tmp_path / "out", sweep, done=1)
    (tmp_path / "a.usda").write_text('#usda 1.0\ndef "x" {}\n', encoding="utf-8")
    directory = OutputDirectory(tmp_path / "out")
    directory.open(sweep, runs=2, resume=True)
    assert directory.notes == ["a.usda has changed since this sweep began: its runs are of two assets"]
    directory.close()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("work of years", encoding="utf-8")
    with pytest.raises(OptionError, match="is not empty, and has no sweep"):
        OutputDirectory(tmp_path).open(small_sweep(tmp_path), runs=2, resume=True)
    with pytest.raises(OptionError, match=r"thesis\.tex: File exists"):
        OutputDirectory(tmp_path / "thesis.tex").open(small_sweep(tmp_path), runs=2, resume=False)


def test_two_sweeps_do_not_share_a_directory(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path)
    first = OutputDirectory(tmp_path / "out")
    first.open(sweep, runs=2, resume=False)
    with pytest.raises(OptionError, match="is in use by another sweep"):
        OutputDirectory(tmp_path / "out").open(sweep, runs=2, resume=True)
    first.close()


def test_partial_recordings_of_a_killed_sweep_are_removed(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path)
    begun(tmp_path / "out", sweep, done=1)
    directory = OutputDirectory(tmp_path / "out")
    directory.open(sweep, runs=2, resume=True)
    directory.new_recording("run_1", 1).write_text("half", encoding="utf-8")
    kept = directory.new_recording("run_0", 2)
    kept.write_text("whole", encoding="utf-8")
    assert directory.keep_recording(kept, "run_0") == "recordings/run_0.mcap"
    assert directory.keep_recording(kept, "run_0") == ""
    directory.close()
    directory = OutputDirectory(tmp_path / "out")
    directory.open(sweep, runs=2, resume=True)
    directory.close()
    assert [each.name for each in (tmp_path / "out" / "recordings").iterdir()] == ["run_0.mcap"]


def test_a_damaged_description_is_one_line(tmp_path: Path) -> None:
    begun(tmp_path / "out", small_sweep(tmp_path), done=1)
    (tmp_path / "out" / "sweep.json").write_text("{", encoding="utf-8")
    with pytest.raises(OptionError, match="is damaged"):
        write_report(tmp_path / "out")
    (tmp_path / "out" / "sweep.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(OptionError, match="another version"):
        write_report(tmp_path / "out")
    with pytest.raises(OptionError, match="no output directory of a sweep"):
        write_report(tmp_path)


# --- Report ----------------------------------------------------------------------------------------------------------


def test_the_report_shows_everything_and_loads_nothing(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path)
    specs = plan_runs(sweep)
    records = records_of([dict(spec.parameters) for spec in specs] * 3)
    records[0] = replace(records[0], outcome="failed", reason="wheels fell off", metrics={})
    records[1] = replace(records[1], outcome="lost", reason="killed", warnings=("slow tyre",))
    document = {"name": "braking", "runs": 6, "started": 0.0, "description": sweep.description()}
    page = Page(report_page(document, results_table(records)))
    assert page.loads == []
    for expected in (
        "braking",
        "6 of 6 runs are over",
        "wheels fell off",
        "killed",
        "slow tyre",
        "run_5",
        "1970-01-01",
    ):
        assert expected in page.text, expected
    assert page.tags.count("img") == len(page.images) == 3  # share of completed, m over speed, histogram of m
    for image in page.images:
        assert ET.fromstring(image).tag == "{http://www.w3.org/2000/svg}svg"
        assert b"<script" not in image


def test_texts_of_others_stay_texts(tmp_path: Path) -> None:
    records = records_of(
        [{EVIL: EVIL, "$x^{$": value} for value in ("a", "$\\frac{")] * 2, reason=EVIL, outcome="failed"
    )
    records = [replace(each, metrics={EVIL: float(each.index)}, id=f"{EVIL}{each.index}") for each in records]
    document = {"name": EVIL, "runs": EVIL, "description": {"asset": EVIL}, "versions": {EVIL: EVIL}}
    text = report_page(document, results_table(records))
    page = Page(text)
    assert "script" not in page.tags
    assert "\x1b" not in text
    assert "<script>alert('x')</script>&\"\\x1b[31m" in page.text
    assert page.loads == []


def test_a_report_without_runs_or_metrics_is_a_report() -> None:
    assert "0 of 4 runs are over" in Page(report_page({"name": "n", "runs": 4}, results_table([]))).text
    page = Page(report_page({"name": "n", "runs": 1}, results_table(records_of([{"a": 1}], metrics={}))))
    assert page.images == []


def grid(*lengths: int) -> list[dict[str, Any]]:
    indices = np.stack(np.meshgrid(*(np.arange(n) for n in lengths), indexing="ij"), -1).reshape(
        -1, len(lengths)
    )
    return [{f"p{axis}": float(value) for axis, value in enumerate(row)} for row in indices]


@pytest.mark.parametrize(
    ("points", "titles"),
    [
        (grid(5), ["m over p0", "histogram of m"]),
        (grid(4, 5), ["m over p0 and p1", "histogram of m"]),
        (grid(2, 3, 4), ["m over p0, p1, p2", "histogram of m"]),
        ([{"p": "red"}, {"p": "green"}, {"p": "red"}], ["m over p", "histogram of m"]),
        ([{"p": bool(n % 2), "q": float(n)} for n in range(30)], ["m over p and q", "histogram of m"]),
        ([{"p": n * 0.1, "q": (n * 7 % 40) * 0.1} for n in range(40)], ["m over p and q", "histogram of m"]),
        ([{"p": float(n)} for n in range(3000)], ["m over p", "histogram of m"]),
        ([{"p": 1.0}] * 4, ["histogram of m"]),
    ],
)
def test_pictures_follow_the_number_of_parameters(points: list[dict[str, Any]], titles: list[str]) -> None:
    columns = [make_column(name, [point[name] for point in points]) for name in points[0]]
    constant = np.where(np.arange(len(points)) % 2, 0.3, 0.1 + 0.2)
    metrics = {
        "m": np.arange(float(len(points))),
        "none": np.full(len(points), math.nan),
        "constant up to rounding": constant,
        "zero": np.zeros(len(points)),
    }
    pictures = list(draw_pictures(columns, metrics))
    assert [each.title for each in pictures] == titles
    again = list(draw_pictures(columns, metrics))
    assert [each.svg for each in again] == [each.svg for each in pictures]


def test_a_report_is_made_again_from_the_table(tmp_path: Path) -> None:
    begun(tmp_path / "out", small_sweep(tmp_path), done=2)
    write_table(tmp_path / "out" / "results.parquet", results_table(records_of([{"a": 1.0}, {"a": 2.0}])))
    path = write_report(tmp_path / "out")
    first = path.read_bytes()
    assert write_report(tmp_path / "out").read_bytes() == first
    assert json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))["name"] == "small"
