"""docs/reference/parameters.md against the code: parameters, launch arguments, command line, JSON keys, environment."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from markdown_docs import ROOT, codes, page_text, rows, section
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.options import OPTIONS

PAGE = page_text("parameters.md")
PACKAGE = ROOT / "usd_ros_bridge"
TYPES = {"string": "string", "strings": "string[]", "bool": "bool", "int": "int", "double": "double"}


def test_every_node_parameter_stands_in_the_table() -> None:
    table = {codes(name)[0]: (kind, default) for name, kind, default, _ in rows(PAGE, "name")}
    expected = {name: (TYPES[each.kind], shown(each.parameter_default)) for name, each in OPTIONS.items()}
    assert table == expected
    assert list(table) == list(expected), "in the order of the declaration"


def shown(default: Any) -> str:
    if default == [""]:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def test_the_parameter_file_has_the_same_parameters_and_defaults() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")
    text = (ROOT / "config" / "bridge.yaml").read_text()
    active = yaml.safe_load(text)["/**"]["ros__parameters"]
    commented = set(re.findall(r"^ {4}# ([a-z_]+): \S", text, re.MULTILINE))
    assert active.keys() | commented == OPTIONS.keys() | {"use_sim_time"}
    for name, value in active.items():
        if name in OPTIONS:
            assert value == OPTIONS[name].parameter_default, name


def test_every_launch_argument_stands_in_the_table() -> None:
    tree = ast.parse((ROOT / "launch" / "bridge.launch.py").read_text())
    arguments = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "DeclareLaunchArgument":
            default = next((word.value for word in call.keywords if word.arg == "default_value"), None)
            arguments[ast.literal_eval(call.args[0])] = launch_default(default)
    assert arguments
    assert {codes(name)[0]: default for name, default, _ in rows(PAGE, "argument")} == arguments


def test_launch_arguments_are_those_of_the_table_of_options() -> None:
    tree = ast.parse((ROOT / "launch" / "bridge.launch.py").read_text())
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert isinstance(constants["NODE_PARAMETERS"], ast.Dict)
    names, types = constants["NODE_PARAMETERS"].keys, constants["NODE_PARAMETERS"].values
    kinds = {"str": "string", "bool": "bool", "int": "int", "float": "double"}
    arguments = {
        ast.literal_eval(name): kinds[ast.unparse(kind)]
        for name, kind in zip(names, types, strict=True)
        if name
    }
    arguments |= dict.fromkeys(ast.literal_eval(constants["LIST_PARAMETERS"]), "strings")
    # rclpy's own.
    del arguments["use_sim_time"]
    assert arguments == {name: each.kind for name, each in OPTIONS.items() if each.launch}
    choices = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "DeclareLaunchArgument":
            given = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "choices"]
            choices[ast.literal_eval(call.args[0])] = tuple(given[0][1:]) if given else ()
    for name in arguments:
        assert choices[name] in ((), OPTIONS[name].choices), name


def test_command_line_options_are_those_of_the_table_of_options() -> None:
    pytest.importorskip("click", reason="click is not installed: make setup")
    from usd_ros_bridge.cli.main import cli

    flags = {each.name: each.opts for command in cli.commands.values() for each in command.params}
    assert {name: flags[name] for name, each in OPTIONS.items() if each.flag} == {
        name: [each.flag] for name, each in OPTIONS.items() if each.flag
    }


def launch_default(node: ast.expr | None) -> str:
    if node is None:
        return "required"
    assert isinstance(node, ast.Constant)
    return f"`{node.value}`" if node.value else "empty"


def test_every_option_of_the_command_line_stands_in_the_table() -> None:
    pytest.importorskip("click", reason="click is not installed: make setup")
    from usd_ros_bridge.cli.graph.verb_group import VerbGroup
    from usd_ros_bridge.cli.main import cli

    # The verbs have a page of their own: test_commands_doc.py.
    commands = {name: each for name, each in cli.commands.items() if not isinstance(each, VerbGroup)}
    for group, command in dict(commands).items():
        commands |= {f"{group} {name}": each for name, each in getattr(command, "commands", {}).items()}
    expected: dict[str, set[str]] = {}
    for name, command in commands.items():
        for parameter in command.params:
            # What processes of our own say to each other is hidden.
            for option in () if getattr(parameter, "hidden", False) else parameter.opts:
                if option.startswith("-"):
                    expected.setdefault(option, set()).add(name)
    for parameter in cli.params:
        expected |= {option: set() for option in parameter.opts}
    table = {
        option: set(of.split(", ")) - {""}
        for cell, of, _ in rows(PAGE, "option")
        for option in (code.split()[0] for code in codes(cell))
    }
    assert table.pop("-h") == table.pop("--help") == set()
    assert table == expected


def test_json_keys() -> None:
    data = plan_to_json(load_plan(ROOT / "examples" / "arm" / "arm.usda"))
    expected = {
        "robots": data["robots"],
        "frames": data["robots"][0]["frames"],
        "joints": data["robots"][0]["joints"],
        "topics": data["topics"],
        "actions": data["actions"],
        "controllers": data["controllers"],
    }
    table = {name: codes(keys) for cell, keys in rows(PAGE, "array") for name in codes(cell)}
    assert {name: table[name] for name in expected} == {
        name: list(each[0]) for name, each in expected.items()
    }
    assert table["services"] == table["actions"]
    assert table.keys() - expected.keys() == {"services", "diagnostics"}
    broken = plan_to_json(load_plan(ROOT / "test" / "assets" / "error_topic_rate.usda"))
    assert table["diagnostics"] == list(broken["diagnostics"][0])
    assert next(iter(data)) == "asset"
    assert all(f"`{key}`" in section(PAGE, "Command line") for key in data["topics"][0]["qos"])


def test_exit_statuses() -> None:
    files = (PACKAGE / "cli/main.py", PACKAGE / "process_settings.py")
    statuses = {
        node.value.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and (ast.unparse(node.targets[0]).startswith("EXIT_") or ast.unparse(node.targets[0]) == "status")
    }
    assert {int(status) for status, _ in rows(PAGE, "status")} == statuses


def test_environment_variables() -> None:
    """Every variable that the package itself reads is listed; ROS_DOMAIN_ID is read by rcl."""
    read = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        read |= set(re.findall(r"""environ(?:\.get\(|\[)["'](\w+)["']""", text))
        if "os.environ" in text:
            read |= set(re.findall(r"""["']((?:USD_ROS|AMENT)_\w+)["']""", text))
    assert {codes(name)[0] for name, _ in rows(PAGE, "variable")} == read | {"ROS_DOMAIN_ID"}
