"""The workflow that the tutorial of tests in CI writes: it is YAML, and runs what the page runs."""

from __future__ import annotations

import pytest
import yaml

from markdown_docs import DOCS, blocks

pytestmark = pytest.mark.docs

PAGE = DOCS / "tutorials" / "test_in_ci.md"


def test_workflow_runs_the_commands_of_the_page() -> None:
    found = blocks(PAGE)
    (text,) = [block.text for block in found if block.title == ".github/workflows/robot.yaml"]
    steps = yaml.safe_load(text)["jobs"]["test"]["steps"]
    followed = "\n".join(block.text for block in found if block.language == "sh")
    commands = [line for step in steps for line in step.get("run", "").splitlines() if line]
    assert len(commands) == 4
    for command in commands:
        assert command in followed or command.startswith("pip install "), command
