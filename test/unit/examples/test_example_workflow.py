"""The workflow of examples/testing: YAML that GitHub reads, shell that bash reads, and the files that it names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")

PACKAGE = Path(__file__).resolve().parents[3] / "examples" / "testing"


def test_the_workflow_runs_the_tests_of_the_package() -> None:
    workflow = yaml.safe_load((PACKAGE / ".github" / "workflows" / "test.yaml").read_text(encoding="utf-8"))
    scripts = {
        name: "\n".join(step.get("run", "") for step in job["steps"])
        for name, job in workflow["jobs"].items()
    }
    for script in scripts.values():
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert "pytest test" in scripts["pip"]
    setup, _, _ = scripts["colcon"].partition("colcon test --packages-select rover_test")
    assert setup != scripts["colcon"]
    # Where pip installs as root; the wheel adds its prefix nowhere.
    assert "export AMENT_PREFIX_PATH=/usr/local:" in setup
    assert "<name>rover_test</name>" in (PACKAGE / "package.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("summary", "is_enough"),
    [
        ("Summary: 3 tests, 0 errors, 0 failures, 0 skipped", True),
        ("Summary: 30 tests, 0 errors, 0 failures, 2 skipped", True),
        ("Summary: 0 tests, 0 errors, 0 failures, 0 skipped", False),
        ("Summary: 3 tests, 0 errors, 1 failure, 0 skipped", False),
        ("Summary: 3 tests, 1 error, 0 failures, 0 skipped", False),
    ],
)
def test_the_workflow_fails_without_tests(summary: str, is_enough: bool, tmp_path: Path) -> None:
    workflow = yaml.safe_load((PACKAGE / ".github" / "workflows" / "test.yaml").read_text(encoding="utf-8"))
    (check,) = (
        line for line in workflow["jobs"]["colcon"]["steps"][-1]["run"].splitlines() if "grep" in line
    )
    (tmp_path / "results.txt").write_text(f"{summary}\n", encoding="utf-8")
    done = subprocess.run(["bash", "-c", check], cwd=tmp_path, check=False)
    assert (done.returncode == 0) == is_enough
