"""`usd_ros_bridge examples` and `--example`: the list, the copies, and where installed examples are found."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("click", reason="click is not installed: make setup")

import usd_ros_bridge
from cli_calls import call_cli, run_cli
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.examples import EXAMPLES, example_asset, examples_directory
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.diagnostics import has_errors

ROOT = Path(__file__).parents[3]
PROJECTS = {"plugins", "testing"}
"""Projects of their own, which are not installed."""
SHARE = Path("share", "usd_ros_bridge", "examples")


def test_the_list_has_every_folder_with_one_line_each() -> None:
    result = call_cli("examples")
    assert (result.returncode, result.stderr) == (0, "")
    names = [line.split()[0] for line in result.stdout.splitlines()]
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert sorted(names) == sorted(folders - PROJECTS)


def test_the_page_has_every_entry_file() -> None:
    page = (ROOT / "docs" / "reference" / "examples.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`examples/(\w+)/(\w+\.(?:usda|yaml))` \|", page))
    assert {(each.name, each.file) for each in EXAMPLES.values()} <= files


@pytest.mark.app
def test_the_copy_of_a_sweep_finds_its_asset_and_is_no_asset_itself(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup-tests")
    result = call_cli("examples", "copy", "sweep", tmp_path)
    assert result.returncode == 0, result.stderr
    file = result.stdout.splitlines()[-1]
    planned = call_cli("sweep", file, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert call_cli("inspect", "--example", "sweep").stderr == (
        "usd_ros_bridge: the example sweep is no asset, but a sweep: usd_ros_bridge examples copy sweep\n"
    )


def test_copies_plan_as_the_originals_do(tmp_path: Path) -> None:
    for name in [name for name, each in EXAMPLES.items() if each.is_asset]:
        result = call_cli("examples", "copy", name, tmp_path / name)
        assert result.returncode == 0, result.stderr
        copied = load_plan(result.stdout.splitlines()[-1])
        assert not has_errors(copied.diagnostics), name
        original = load_plan(example_asset(name))
        assert [topic.name for topic in copied.topics] == [topic.name for topic in original.topics]


def test_a_copy_overwrites_nothing_without_force(tmp_path: Path) -> None:
    mine = tmp_path / "rover" / "rover.usda"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    # It references the rover, whose folder would be written, too.
    result = call_cli("examples", "copy", "fleet", tmp_path)
    assert result.returncode == 2
    assert "is there already" in result.stderr
    assert "--force" in result.stderr
    assert mine.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "fleet").exists()
    assert call_cli("examples", "copy", "fleet", tmp_path, "--force").returncode == 0
    assert mine.read_bytes() == (ROOT / "examples" / "rover" / "rover.usda").read_bytes()


def test_a_copy_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = call_cli("examples", "copy", "rover", tmp_path / "file" / "below")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_example_is_answered_with_the_nearest() -> None:
    for command in (("run", "--example"), ("inspect", "--example"), ("examples", "copy")):
        result = call_cli(*command, "rovr")
        assert result.returncode == 2, command
        assert len(result.stderr.splitlines()) == 1
        assert "did you mean rover?" in result.stderr
        assert "mujoco_loop" in result.stderr


def test_inspect_opens_an_example() -> None:
    result = call_cli("inspect", "--example", "rover", "--json")
    assert json.loads(result.stdout)["asset"] == str(ROOT / "examples" / "rover" / "world.usda")


def test_an_asset_or_an_example_is_needed() -> None:
    for arguments in (("robot.usda", "--example", "rover"), ()):
        result = call_cli("inspect", *arguments)
        assert result.returncode == 2
        assert "--example" in result.stderr


def installed(package: Path, share: Path) -> None:
    """Make an installation: a package, and the share folder elsewhere."""
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    rover = share / "rover"
    rover.mkdir(parents=True)
    (rover / "world.usda").write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("package", "share"),
    [
        ("venv/lib/python3/site-packages/usd_ros_bridge", "venv" / SHARE),
        ("target/usd_ros_bridge", "target" / SHARE),
        ("install/usd_ros_bridge/lib/python3/site-packages/usd_ros_bridge", "install/usd_ros_bridge" / SHARE),
    ],
    ids=["venv", "pip --target", "colcon"],
)
def test_examples_are_found_above_the_package(
    package: str, share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / package, tmp_path / share)
    monkeypatch.setattr(usd_ros_bridge, "__file__", str(tmp_path / package / "__init__.py"))
    assert examples_directory() == tmp_path / share


def test_examples_are_found_in_a_prefix_of_ament(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "code" / "usd_ros_bridge", tmp_path / "prefix" / SHARE)
    monkeypatch.setattr(usd_ros_bridge, "__file__", str(tmp_path / "code" / "usd_ros_bridge" / "__init__.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")
    with pytest.raises(BridgeError, match="not installed"):
        examples_directory()
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(["", str(tmp_path / "prefix")]))
    assert examples_directory() == tmp_path / "prefix" / SHARE


def test_short_help_is_the_long_one() -> None:
    for command in ("", "inspect", "run", "diff", "scaffold", "resolver", "urdf", "examples"):
        short, long = (call_cli(*command.split(), flag) for flag in ("-h", "--help"))
        assert short.returncode == long.returncode == 0
        assert short.stdout == long.stdout != "", command


@pytest.mark.process
def test_the_package_is_the_command_line() -> None:
    result = run_cli("examples")
    assert (result.returncode, result.stdout) == (0, call_cli("examples").stdout)
