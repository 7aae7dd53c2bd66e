"""Collection of this suite: what is not installed is skipped by name, and a file without tests fails the run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.project

CONFTEST = Path(__file__).parents[2] / "conftest.py"
SUPPORT = CONFTEST.parent / "support"
"""With the plug-in that conftest.py names."""

# As launch_testing's plugin does: imports every test module before pytest does.
IMPORTER = """
import runpy
import pytest

def pytest_pycollect_makemodule(module_path, parent):
    runpy.run_path(str(module_path))
    return pytest.Module.from_parent(parent, path=module_path)
"""
NEEDS_WHAT_IS_MISSING = """
import pytest
pytest.importorskip("no_such_package_anywhere", reason="no_such_package_anywhere is not installed")
import no_such_package_anywhere

def test_nothing():
    pass
"""
HAS_A_LONG_VALUE = """
import pytest

@pytest.mark.parametrize("value", ["x" * 100_000, "x" * 99_999, "short"])
def test_value(value):
    assert value
"""
PASSES = "def test_something():\n    assert True\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    shutil.copyfile(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "importer.py").write_text(IMPORTER, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_passes.py").write_text(PASSES, encoding="utf-8")
    return tmp_path


def run(suite: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(suite), str(SUPPORT), *filter(None, [environment.get("PYTHONPATH")])]
    )
    command = [sys.executable, "-m", "pytest", "-p", "importer", "-p", "no:cacheprovider", "-ra", *arguments]
    return subprocess.run(
        command, cwd=suite, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_module_that_needs_what_is_missing_is_one_skipped_test(suite: Path) -> None:
    (suite / "test_needs.py").write_text(NEEDS_WHAT_IS_MISSING, encoding="utf-8")
    ran = run(suite)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed, 1 skipped" in ran.stdout
    assert "no_such_package_anywhere is not installed" in ran.stdout


def test_a_file_without_tests_fails_a_whole_run(suite: Path) -> None:
    (suite / "test_empty.py").write_text("", encoding="utf-8")
    ran = run(suite, "--junit-xml=results.xml")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "no test of these files ran: test_empty.py" in ran.stdout
    assert "1 failed, 1 passed" in ran.stdout
    # What `colcon test-result` reads.
    results = ElementTree.parse(suite / "results.xml").getroot().find("testsuite")
    assert (results.get("tests"), results.get("failures"), results.get("errors")) == ("2", "1", "0")
    assert run(suite, "test_passes.py").returncode == 0
    assert run(suite, "-k", "something").returncode == 0


def test_a_run_without_any_test_fails(suite: Path) -> None:
    """`colcon test` takes pytest's own status for it, 5, for a success."""
    (suite / "test_passes.py").write_text("", encoding="utf-8")
    ran = run(suite, "--junit-xml=results.xml")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ElementTree.parse(suite / "results.xml").getroot().find("testsuite").get("failures") == "1"


def test_two_workers_count_as_one_run(suite: Path) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed: make setup-tests")
    assert run(suite, "-n", "2").returncode == 0
    (suite / "test_empty.py").write_text("", encoding="utf-8")
    ran = run(suite, "-n", "2", "--junit-xml=results.xml")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 1 passed" in ran.stdout
    assert ElementTree.parse(suite / "results.xml").getroot().find("testsuite").get("failures") == "1"


def test_a_long_value_does_not_become_the_name_of_its_test(suite: Path) -> None:
    """What reads a run's output line by line, as `colcon test` does, has a limit: it stops, and the run with it."""
    (suite / "test_long.py").write_text(HAS_A_LONG_VALUE, encoding="utf-8")
    ran = run(suite, "-v")
    assert "4 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "test_value[short]" in ran.stdout
    assert "100000] PASSED" in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines() if "test_long.py" in line) < 200


def test_make_test_leaves_out_only_the_suites_of_other_targets(pytestconfig: pytest.Config) -> None:
    """A pattern that is a name leaves out every folder of that name, and nothing says so."""
    patterns = pytestconfig.getini("norecursedirs")
    folder = pytestconfig.rootpath / "test"
    left_out = {
        parent.relative_to(folder)
        for path in folder.rglob("test_*.py")
        for parent in path.parents
        if folder in parent.parents and any(parent.match(pattern) for pattern in patterns)
    }
    assert left_out == {Path("robots"), Path("browser"), Path("real_assets"), Path("dist")}


def test_every_test_with_random_examples_is_in_a_later_tier(pytestconfig: pytest.Config) -> None:
    """They are in a later tier. The usual time-out is too short for twenty times as many examples."""
    marks: dict[str, set[str]] = {}
    for path in sorted((pytestconfig.rootpath / "test").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "\nfrom effort import" not in text:
            continue
        module = ast.parse(text)
        numbers = {
            ast.unparse(node.targets[0])
            for node in module.body
            if isinstance(node, ast.Assign) and "examples(" in ast.unparse(node.value)
        }
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if named & (numbers | {"examples"}):
                    decorators = " ".join(map(ast.unparse, node.decorator_list))
                    marks[node.name] = {
                        mark for mark in ("random", "storm", "timeout") if f"mark.{mark}" in decorators
                    }
    assert len(marks) >= 6
    assert {name for name, found in marks.items() if len(found) != 2 or "timeout" not in found} == set()
