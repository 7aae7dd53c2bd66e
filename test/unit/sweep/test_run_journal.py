"""The journal of a sweep: each run once, whatever a killed process or a full disk left behind."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.sweep.run_journal import RunJournal, read_journal
from usd_ros_bridge.sweep.run_record import OUTCOMES, RunRecord, record_from_json

pytestmark = pytest.mark.app

FULL = """
import resource, signal, sys
from pathlib import Path
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.sweep.run_journal import RunJournal
from usd_ros_bridge.sweep.run_record import RunRecord
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
journal = RunJournal(Path(sys.argv[1]))
journal.open()
try:
    for index in range(100):
        journal.append(RunRecord(id=f"run_{index}", index=index, seed=0, parameters={}, outcome="completed"))
except BridgeError as error:
    print(index, error)
"""


def record(index: int, **fields: object) -> RunRecord:
    return RunRecord(
        **{
            "id": f"run_{index}",
            "index": index,
            "seed": 7,
            "parameters": {"a": 1.5},
            "outcome": "completed",
            **fields,
        }  # type: ignore[arg-type]
    )


def journal_with(path: Path, *records: RunRecord) -> None:
    with RunJournal(path) as journal:
        journal.open()
        for each in records:
            assert journal.append(each)


numbers = st.floats(allow_nan=False)
names = st.text(max_size=8)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), names
)
records = st.builds(
    RunRecord,
    id=names,
    index=st.integers(0, 10**6),
    seed=st.integers(0, 2**31 - 1),
    parameters=st.dictionaries(names, scalars, max_size=3),
    outcome=st.sampled_from(OUTCOMES),
    reason=names,
    metrics=st.dictionaries(names, numbers, max_size=3),
    drawn=st.dictionaries(names, scalars, max_size=3),
    warnings=st.lists(names, max_size=2).map(tuple),
)


@given(records)
def test_a_record_is_read_as_it_was_written(written: RunRecord) -> None:
    line = written.to_json()
    assert "\n" not in line
    json.loads(line, parse_constant=pytest.fail)  # strict JSON: no NaN, no Infinity
    assert record_from_json(line) == written


def test_a_metric_may_be_no_number() -> None:
    written = record(0, metrics={"a": math.nan, "b": -math.inf})
    read = record_from_json(written.to_json())
    assert math.isnan(read.metrics["a"])
    assert read.metrics["b"] == -math.inf


def test_a_run_counts_once(tmp_path: Path) -> None:
    with RunJournal(tmp_path / "j") as journal:
        assert journal.open() == []
        assert journal.append(record(1))
        assert not journal.append(record(1, outcome="lost"))
    with RunJournal(tmp_path / "j") as journal:
        assert journal.open() == [record(1)]
        assert not journal.append(record(1))
        assert journal.append(record(2))
    assert read_journal(tmp_path / "j") == [record(1), record(2)]


def test_any_torn_end_costs_the_last_run_at_most(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal_with(path, record(1), record(2))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        kept = [record(1), record(2)][: whole[:length].count(b"\n")]
        with RunJournal(path) as journal:
            assert journal.open() == kept
            for missing in [record(1), record(2)][len(kept) :]:
                assert journal.append(missing)
        assert path.read_bytes() == whole, f"cut after {length} of {len(whole)}, the first line has {first}"


def test_a_damaged_line_costs_its_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal_with(path, record(1), record(2), record(3))
    lines = path.read_bytes().splitlines(keepends=True)
    for damage in (
        b"\0\0\0\n",
        b"[]\n",
        b'{"id": "run_2"}\n',
        b'{"id": 1, "metrics": {"a": "x"}}\n',
        b"\xff\xfe\n",
    ):
        path.write_bytes(lines[0] + damage + lines[2])
        assert read_journal(path) == [record(1), record(3)]


def test_a_full_disk_is_one_line_and_leaves_a_readable_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ended = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True, timeout=60
    )
    written, _, message = ended.stdout.strip().partition(" ")
    assert message == f"{path}: File too large; the runs before are kept"
    assert path.stat().st_size <= 4000
    assert [each.id for each in read_journal(path)] == [f"run_{index}" for index in range(int(written))]
    assert int(written) > 3
    assert path.read_bytes().endswith(b"\n")


def test_a_journal_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match="Is a directory"):
        RunJournal(tmp_path).open()
    with pytest.raises(BridgeError, match="Is a directory"):
        read_journal(tmp_path)
    assert read_journal(tmp_path / "missing") == []
