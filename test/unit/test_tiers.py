"""test/support/tiers.py: how many workers there are; and each test file has a test."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import tiers

TESTS = Path(__file__).parents[1]
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        (None, CORES),
        ("max 100000", CORES),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("6400000 100000", min(CORES, 64)),
    ],
)
def test_a_quota_of_time_limits_the_cores(tmp_path: Path, quota: str | None, cores: int) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n", encoding="utf-8")
    assert tiers.cores(tmp_path) == cores


def test_the_memory_of_a_container_is_its_limit_without_what_is_cached(tmp_path: Path) -> None:
    whole = tiers.free_memory(tmp_path)
    values = {"max": "1000000", "current": "900000", "stat": "anon 300000\ninactive_file 600000\nslab 5"}
    for name, text in values.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n", encoding="utf-8")
    assert tiers.free_memory(tmp_path) == 700_000 < whole
    (tmp_path / "memory.stat").unlink()
    assert tiers.free_memory(tmp_path) == 100_000
    (tmp_path / "memory.current").write_text("1100000\n", encoding="utf-8")
    assert tiers.free_memory(tmp_path) == 0


@pytest.mark.project
def test_each_test_file_has_a_test() -> None:
    """A file whose tests have names that pytest does not collect would pass everywhere."""
    empty = [
        path.relative_to(TESTS).as_posix()
        for path in sorted(TESTS.rglob("test_*.py"))
        if not any(is_a_test(node) for node in ast.parse(path.read_text(encoding="utf-8")).body)
    ]
    assert not empty


def is_a_test(node: ast.stmt) -> bool:
    """Return whether pytest, or launch_testing, collects a statement of a module."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name.startswith("test_") or name == "generate_test_description"
        case ast.ClassDef(name=name):
            return name.startswith("Test")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith(("Test", "test_"))
        case _:
            return False
