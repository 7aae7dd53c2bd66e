"""Launch files that tutorials have their readers write: they load, and start the nodes in the robot's namespace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")

from launch import LaunchContext
from launch.launch_description_sources import get_launch_description_from_python_launch_file
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch_ros.actions import Node

sys.path.append(str(Path(__file__).parents[1] / "support"))

from page_files import write_page_files


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
    (tmp_path / "arm.urdf").write_text('<robot name="arm"/>')
    monkeypatch.chdir(tmp_path)
    description = get_launch_description_from_python_launch_file(str(files[launch_file]))
    nodes = [entity for entity in description.entities if isinstance(entity, Node)]
    context = LaunchContext()

    def text(substitutions: object) -> str:
        return perform_substitutions(context, normalize_to_list_of_substitutions(substitutions))  # type: ignore[arg-type]

    assert [text(node.node_executable) for node in nodes] == executables
    # launch_ros has no public name for the namespace that it was given.
    assert {text(vars(node)["_Node__node_namespace"]) for node in nodes} == {namespace}
