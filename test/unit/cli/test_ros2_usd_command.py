"""`ros2 usd` where ros2cli is missing, or replaced by its base class alone. test/launch has the real one."""

from __future__ import annotations

import importlib
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("click", reason="click is not installed: make setup")

import usd_ros_bridge
from usd_ros_bridge.cli.command_group import COMMANDS, ROS2CLI_COMMANDS
from usd_ros_bridge.cli.graph.verb_group import VerbGroup

MODULE = "usd_ros_bridge.cli.ros2_usd_command"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The extension over a ros2cli that has nothing but its base class."""
    command = ModuleType("ros2cli.command")
    command.CommandExtension = type("CommandExtension", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ros2cli", ModuleType("ros2cli"))
    monkeypatch.setitem(sys.modules, "ros2cli.command", command)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE).UsdCommand()
    del sys.modules[MODULE]


def test_entry_point_is_that_of_ros2cli() -> None:
    found = [
        point for point in distribution("usd_ros_bridge").entry_points if point.group == "ros2cli.command"
    ]
    assert [(point.name, point.value) for point in found] == [("usd", f"{MODULE}:UsdCommand")]


def test_nothing_of_the_package_imports_the_module() -> None:
    package = Path(usd_ros_bridge.__file__).parent
    users = [
        path.name for path in package.rglob("*.py") if "ros2_usd_command" in path.read_text(encoding="utf-8")
    ]
    assert users == []


@pytest.mark.process
def test_command_line_does_not_load_ros2cli() -> None:
    code = (
        "import sys\nfrom usd_ros_bridge.cli.main import main\n"
        "try:\n    main(['--help'])\nfinally:\n    print([m for m in sys.modules if 'ros2cli' in m or 'ros2_usd' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_commands_of_ros2cli_are_the_groups_of_verbs() -> None:
    groups = {name for name, each in COMMANDS.items() if isinstance(each, VerbGroup)}
    assert set(ROS2CLI_COMMANDS) == groups


def test_all_arguments_reach_click(extension: Any) -> None:
    parser = ArgumentParser(prog="ros2 usd")
    extension.add_arguments(parser, "ros2 usd")
    arguments = ["run", "robot.usda", "-h", "--ros-args", "-r", "a:=b", "--", "--no-live"]
    assert parser.parse_args(arguments).usd_arguments == arguments


def test_help_is_that_of_the_commands(extension: Any) -> None:
    parser = ArgumentParser(prog="ros2 usd")
    extension.add_arguments(parser, "ros2 usd")
    text = parser.format_help()
    assert text.startswith("Usage: ros2 usd [OPTIONS] COMMAND [ARGS]...\n")
    assert "\n  inspect " in text
    assert "\n  topic " not in text


@pytest.mark.process
def test_exit_status(extension: Any) -> None:
    for arguments, status in ((["inspect", "--help"], 0), (["inspect", "no.usda"], 2), ([], 2), (["no"], 2)):
        with pytest.raises(SystemExit) as ended:
            extension.main(parser=None, args=Namespace(usd_arguments=arguments))
        assert ended.value.code == status, arguments


def test_completion(extension: Any) -> None:
    for words, prefix, expected in (
        ([], "insp", ["inspect"]),
        (["inspect"], "--js", ["--json"]),
        (["inspect"], "robot", []),
    ):
        action = SimpleNamespace()
        extension.add_arguments(SimpleNamespace(add_argument=lambda *_, of=action, **__: of), "ros2 usd")
        assert action.completer(prefix=prefix, parsed_args=Namespace(usd_arguments=words)) == expected
