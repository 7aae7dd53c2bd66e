"""Launch files that pages show load and start their nodes; `ros2 launch` lines of pages name arguments that exist."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

pytest.importorskip("launch", reason="launch comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")

from launch import LaunchContext
from launch.actions import DeclareLaunchArgument
from launch.launch_description_sources import (
    PythonLaunchDescriptionSource,
    get_launch_description_from_python_launch_file,
)
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch_ros.actions import Node

from markdown_docs import PAGES, ROOT, Block, blocks, page_text
from page_files import write_page_files

TITLED = [(page, block) for page in PAGES for block in blocks(page) if block.title.endswith(".launch.py")]
_COMMAND = re.compile(r"ros2 launch usd_ros_bridge (\S+\.launch\.py)((?: +[\w]+:=\S+)*)")
_READ = re.compile(r'(?:Path|load)\("([\w./]+)"\)')
COMMANDS = sorted(
    {
        (match[1], match[2].strip())
        for page in PAGES
        for match in _COMMAND.finditer(page.read_text(encoding="utf-8").replace("`", " "))
    }
)


@pytest.mark.parametrize(("page", "block"), TITLED, ids=lambda value: getattr(value, "title", ""))
def test_launch_file_of_a_page_can_be_loaded(
    page: Path, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_page_files(page.name, tmp_path)
    # Written by commands of the page, which test_pages.py runs.
    for name in _READ.findall(block.text):
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text("{}", encoding="utf-8")
    source = PythonLaunchDescriptionSource(str(tmp_path / block.title))
    assert source.get_launch_description(LaunchContext()).entities


@pytest.mark.parametrize(
    ("page", "launch_file", "namespace", "executables"),
    [
        (
            "mobile_robot_nav2.md",
            "nav2.launch.py",
            "rover",
            [
                "map_server",
                "amcl",
                "planner_server",
                "controller_server",
                "behavior_server",
                "bt_navigator",
                "lifecycle_manager",
            ],
        ),
        ("arm_moveit.md", "moveit.launch.py", "arm", ["move_group"]),
    ],
)
def test_launch_file_of_a_page_starts_nodes_in_the_namespace_of_the_robot(
    page: str,
    launch_file: str,
    namespace: str,
    executables: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = write_page_files(page, tmp_path)
    (tmp_path / "arm.urdf").write_text('<robot name="arm"/>', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    source = PythonLaunchDescriptionSource(str(files[launch_file]))
    description = source.get_launch_description(LaunchContext())
    nodes = [entity for entity in description.entities if isinstance(entity, Node)]
    context = LaunchContext()

    def text(substitutions: object) -> str:
        return perform_substitutions(context, normalize_to_list_of_substitutions(substitutions))  # type: ignore[arg-type]

    assert [text(node.node_executable) for node in nodes] == executables
    # launch_ros has no public name for the namespace that it was given.
    assert {text(vars(node)["_Node__node_namespace"]) for node in nodes} == {namespace}


def test_pages_show_launch_files() -> None:
    assert {block.title for _, block in TITLED} >= {"nav2.launch.py", "moveit.launch.py"}
    assert len(COMMANDS) > 5


@pytest.mark.parametrize(("file", "arguments"), COMMANDS)
def test_arguments_of_a_command_exist(file: str, arguments: str) -> None:
    source = PythonLaunchDescriptionSource(str(ROOT / "launch" / file))
    description = source.get_launch_description(LaunchContext())
    declared = {each.name: each for each in description.get_launch_arguments()}
    for word in shlex.split(arguments):
        name, _, value = word.partition(":=")
        assert name in declared, f"{file} has no argument {name}"
        assert not declared[name].choices or value in declared[name].choices


@pytest.mark.parametrize("file", sorted(path.name for path in (ROOT / "launch").glob("*.launch.py")))
def test_the_page_of_launch_files_has_the_arguments_of_each(file: str) -> None:
    """The tool that writes the page reads the files without the packages of ROS 2: hold it to those."""
    tables = runpy.run_path(str(ROOT / "tools" / "reference_tables.py"))
    found = {each.name: each.description for each in tables["declared_arguments"](file)}
    description = get_launch_description_from_python_launch_file(str(ROOT / "launch" / file))
    declared = [each for each in description.entities if isinstance(each, DeclareLaunchArgument)]
    # launch appends the choices.
    texts = {each.name: each.description.partition(" Valid choices are: ")[0] for each in declared}
    assert found == texts
    assert tables["with_tables"](text := page_text("launch_files.md")) == text
    assert f"<!-- table: {file} -->" in text
