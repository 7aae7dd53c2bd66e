"""Parameters, launch arguments, command line and environment: the pages, the parameter file and the launch file."""

from __future__ import annotations

import ast
import re
import runpy
from types import SimpleNamespace

import pytest

from markdown_docs import ROOT, codes, page_text, rows, section
from usd_ros_bridge.options import OPTIONS

pytestmark = pytest.mark.docs

PAGE = page_text("parameters.md")
COMMAND_LINE = page_text("command_line.md")
PACKAGE = ROOT / "usd_ros_bridge"
TOOLS = ROOT / "tools"


@pytest.fixture(scope="module")
def tables() -> SimpleNamespace:
    """The tool that writes the tables."""
    pytest.importorskip("click", reason="click is not installed: make setup")
    pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")
    return SimpleNamespace(**runpy.run_path(str(TOOLS / "reference_tables.py")))


@pytest.mark.parametrize("name", ["parameters.md", "launch_files.md"])
def test_the_tables_are_those_that_the_tool_writes(name: str, tables: SimpleNamespace) -> None:
    text = page_text(name)
    assert tables.with_tables(text) == text, "python tools/reference_tables.py --write"


def test_every_table_is_on_a_page(tables: SimpleNamespace) -> None:
    pages = (*tables.PAGES, *tables.BUILT)
    found = [each for name in pages for each in re.findall(r"<!-- table: (.*) -->", page_text(name))]
    assert sorted(found) == sorted(tables.TABLES)


def test_every_remark_is_about_an_option(tables: SimpleNamespace) -> None:
    notes = tables.NOTES
    assert set(notes) == {"parameters", "launch", "commands", "options"}
    assert set(notes["parameters"]) <= set(OPTIONS)
    text = page_text("launch_files.md")
    assert [name for name in notes["launch"] if f"| `{name}` |" not in text] == []
    commands = tables.commands()
    assert set(commands) <= set(notes["commands"]), "each command says where more is"
    options = {
        (name, option.opts[-1]) for name, command in commands.items() for option in tables.options_of(command)
    }
    for key in notes["options"]:
        command, _, option = key.rpartition(" ")
        of = {each for each, name in options if name == option}
        assert of
        assert not command or command == "common" or command in of, key


def test_every_node_parameter_stands_in_the_table() -> None:
    names = [codes(name)[0] for name, *_ in rows(PAGE, "name")]
    assert names == list(OPTIONS), "in the order of the declaration"


def test_the_parameter_file_has_the_same_parameters_and_defaults() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")
    text = (ROOT / "config" / "bridge.yaml").read_text(encoding="utf-8")
    active = yaml.safe_load(text)["/**"]["ros__parameters"]
    commented = set(re.findall(r"^ {4}# ([a-z_]+): \S", text, re.MULTILINE))
    assert active.keys() | commented == OPTIONS.keys() | {"use_sim_time"}
    for name, value in active.items():
        if name in OPTIONS:
            assert value == OPTIONS[name].parameter_default, name


def test_launch_arguments_are_those_of_the_table_of_options() -> None:
    tree = ast.parse((ROOT / "launch" / "bridge.launch.py").read_text(encoding="utf-8"))
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


def test_every_option_of_the_command_line_stands_in_a_table(tables: SimpleNamespace) -> None:
    built = tables.with_tables(COMMAND_LINE)
    for name, command in tables.commands().items():
        text = section(built, name)
        for option in tables.options_of(command):
            assert f"`{option.opts[0]}" in text, f"{name} {option.opts[0]}"


def test_exit_statuses() -> None:
    tree = ast.parse((PACKAGE / "process_settings.py").read_text(encoding="utf-8"))
    statuses = {
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and ast.unparse(node.targets[0]).startswith("EXIT_")
    }
    assert {int(status) for status, _ in rows(COMMAND_LINE, "status")} == {0, *statuses}


def test_environment_variables() -> None:
    """Every variable that the package itself reads is listed; ROS_DOMAIN_ID is read by rcl."""
    read = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        read |= set(re.findall(r"""environ(?:\.get\(|\[)["'](\w+)["']""", text))
        if "os.environ" in text:
            read |= set(re.findall(r"""["']((?:USD_ROS|AMENT)_\w+)["']""", text))
    assert {codes(name)[0] for name, _ in rows(PAGE, "variable")} == read | {"ROS_DOMAIN_ID"}
