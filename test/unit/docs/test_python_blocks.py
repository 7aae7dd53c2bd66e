"""The Python of the documents runs: backends and plans here, what needs ROS in test/ros/test_python_pages.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from doc_walk import is_walked
from markdown_docs import PAGES, ROOT, Block, blocks, page_path
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.runtime.runtime import Runtime

pytestmark = pytest.mark.docs

ARM = ROOT / "examples" / "arm" / "arm.usda"
SECOND = 1_000_000_000


def python_blocks() -> list[Block]:
    """Return the blocks of the pages that nobody follows from their first block to the last (test_pages.py)."""
    pages = [page for page in PAGES if not is_walked(page)]
    return [
        b for page in pages for b in blocks(page) if b.language == "python" and not (b.title or b.directive)
    ]


def needs_ros(block: Block) -> bool:
    return "Bridge(" in block.text


def needs_launch(block: Block) -> bool:
    """Return whether test/launch runs the block: launch comes with a full ROS 2 installation only."""
    return "usd_ros_bridge.testing.launch" in block.text


def test_known_languages_only() -> None:
    """A block in a language that no test knows would be one that nothing checks."""
    assert {block.language for page in PAGES for block in blocks(page)} <= {
        "ini",
        "json",
        "mermaid",
        "python",
        "sh",
        "text",
        "toml",
        "usda",
        "xml",
        "yaml",
    }


@pytest.mark.parametrize(
    "block", [b for b in python_blocks() if not (needs_ros(b) or needs_launch(b))], ids=str
)
def test_block_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(block.text, str(block), "exec", dont_inherit=True), {"__name__": "documented"})


def test_host_stage_block_prints_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [block for block in python_blocks() if "Usd.Stage.Open" in block.text]
    monkeypatch.chdir(ROOT)
    exec(compile(block.text, str(block), "exec", dont_inherit=True), {"__name__": "documented"})
    assert capsys.readouterr().out == "1 robot, 7 topics\n"


# --- The backend of docs/reference/writing_a_backend.md ----------------------------------------------------------


def documented_backend() -> Block:
    (block,) = [block for block in python_blocks() if "class SwayBackend" in block.text]
    return block


@pytest.fixture(scope="module")
def arm() -> BridgePlan:
    return load_plan(ARM)


@pytest.fixture
def sway() -> Backend:
    namespace: dict[str, type[Backend]] = {"__name__": "sway_backend"}
    exec(compile(documented_backend().text, "sway_backend.py", "exec", dont_inherit=True), namespace)
    return namespace["SwayBackend"]()


def test_documented_backend_moves_a_robot(sway: Backend, arm: BridgePlan) -> None:
    assert isinstance(sway, Backend)
    with Runtime(arm, sway, options=BridgeOptions(backend_options={"amplitude": "0.2"})) as runtime:
        assert runtime.tick(0)
        rest = runtime.snapshot.state.joint_position.copy()
        assert runtime.tick(SECOND // 2)
        layout = arm.layout
        expected = np.clip(rest + 0.2, layout.lower, layout.upper)
        np.testing.assert_allclose(runtime.snapshot.state.joint_position, expected, atol=1e-12)
        assert (runtime.snapshot.state.joint_position > rest).any()


def test_documented_backend_refuses_an_option(sway: Backend, arm: BridgePlan) -> None:
    runtime = Runtime(arm, sway, options=BridgeOptions(backend_options={"amplitude": "much"}))
    with pytest.raises(BackendError, match="amplitude"):
        runtime.open()


def test_documented_distribution_registers_the_backend(tmp_path: Path) -> None:
    """Installs the distribution of the document for real and finds the backend by its name."""
    pytest.importorskip("setuptools", minversion="64", reason="setuptools 64 or newer is not installed")
    pytest.importorskip("wheel", reason="wheel is not installed, which older setuptools builds with")
    pytest.importorskip("pip", reason="pip is not installed")
    (toml,) = [block for block in blocks(page_path("writing_a_backend.md")) if block.language == "toml"]
    project, target = tmp_path / "project", tmp_path / "installed"
    project.mkdir()
    (project / "pyproject.toml").write_text(toml.text, encoding="utf-8")
    (project / "sway_backend.py").write_text(documented_backend().text, encoding="utf-8")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    run([*install, "--target", str(target), str(project)])
    script = (
        "from usd_ros_bridge.backends.registry import backend_names, load_backend\n"
        "print('sway' in backend_names(), type(load_backend('sway')).__module__)\n"
    )
    found = run([sys.executable, "-c", script], python_path=target)
    assert found.split() == ["True", "sway_backend"]
    # The documented test of its author passes.
    (test,) = [block for block in blocks(page_path("writing_a_backend.md")) if "class TestSway" in block.text]
    (tmp_path / "test_sway.py").write_text(test.text, encoding="utf-8")
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path / "test_sway.py")]
    passed = run([sys.executable, "-m", "pytest", *arguments], python_path=target)
    assert " passed" in passed
    assert "failed" not in passed


def run(command: list[str], *, python_path: Path | None = None) -> str:
    environment = dict(os.environ)
    if python_path is not None:
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(python_path), *([inherited] if inherited else [])])
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=environment, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
