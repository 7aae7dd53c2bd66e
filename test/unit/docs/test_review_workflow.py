"""The workflow of docs/how_to/review_in_ci.md: its commands run in order, in a clone as actions/checkout makes it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from markdown_docs import blocks, page_path

pytestmark = pytest.mark.docs

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "TARGET": "main",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def block(title: str) -> str:
    (found,) = (each.text for each in blocks(page_path("review_in_ci.md")) if each.title == title)
    return found


def run(command: str, directory: Path, *, shell: str = "bash -e") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell.split(), "-c", command],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with a robot, on a branch that breaks it."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    origin = tmp_path / "origin"
    shutil.copytree(ROOT / "examples" / "rover", origin / "rover")
    (origin / "robot").mkdir()
    broken = block("robot.usda").replace("@rover/", "@../rover/")
    (origin / "robot" / "robot.usda").write_text(broken[: broken.index("over ")], encoding="utf-8")
    assert run("git init -q -b main && git add . && git commit -qm robot", origin).returncode == 0
    assert (
        run(
            f"git clone -q {origin} work/clone && cd work/clone && git switch -qc change", tmp_path
        ).returncode
        == 0
    )
    (tmp_path / "work" / "clone" / "robot" / "robot.usda").write_text(broken, encoding="utf-8")
    return tmp_path / "work" / "clone"


def test_the_commands_of_the_workflow_do_what_the_page_says(clone: Path) -> None:
    workflow = yaml.safe_load(block("review.yml"))
    # YAML 1.1 reads the key `on` as a truth value.
    assert workflow[True] == "pull_request"
    steps = [each["run"] for each in workflow["jobs"]["asset"]["steps"] if "run" in each]
    assert steps[0] == 'pip install --find-links "$BRIDGE_WHEELS" "usd_ros_bridge[usd,cli]"'
    assert workflow["jobs"]["asset"]["env"] == {"BRIDGE_WHEELS": "${{ vars.BRIDGE_WHEELS }}"}
    results = [run(each, clone) for each in steps[1:]]
    assert [each.returncode for each in results] == [0, 0, 1], [each.stderr for each in results]
    page = (clone / "report.html").read_text(encoding="utf-8")
    assert "../target/robot/robot.usda" in page
    assert "/rover/scan" in page
    log = json.loads((clone / "findings.sarif").read_text(encoding="utf-8"))
    places = [
        each["locations"][0]["physicalLocation"]
        for each in log["runs"][0]["results"]
        if each["level"] != "note"
    ]
    assert {each["artifactLocation"]["uri"] for each in places} == {"robot/robot.usda"}
    assert "::error file=robot/robot.usda,title=2.3.type,line=" in results[-1].stdout
