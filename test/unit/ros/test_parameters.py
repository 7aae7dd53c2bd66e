"""Values that ROS arguments give a parameter, before there is a node that could say which of them is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from case_tables import each_case

pytest.importorskip("rclpy")

from usd_ros_bridge.ros.parameters import possible_values


@each_case(
    ("arguments", "expected"),
    [
        ([], set()),
        (["robot.usda"], set()),
        (["--ros-args", "-p", "asset:=robot.usda"], set()),
        (["--ros-args", "-p", "backend:=null"], {"null"}),
        (["--ros-args", "--param", "usd_ros_bridge:backend:=null", "-p", "backend:=auto"], {"null", "auto"}),
        (["--ros-args", "-r", "backend:=null"], set()),
    ],
)
def test_those_of_arguments(arguments: list[str], expected: set[str]) -> None:
    assert possible_values("backend", arguments) == expected


@each_case(
    ("content", "expected"),
    [
        ("/**:\n  ros__parameters:\n    backend: null_\n", {"null_"}),
        ("/a:\n  b:\n    ros__parameters:\n      backend: joint_states\n      rate: 1\n", {"joint_states"}),
        (
            "/a:\n  ros__parameters:\n    backend: x\n/b:\n  ros__parameters: {backend: y}\n",
            {"x", "y"},
        ),
        ("/**:\n  ros__parameters:\n    asset: backend\n", set()),
        ("", set()),
        ("- 1\n", set()),
        ("{", None),
        ("\tbackend: [", None),
    ],
)
def test_those_of_a_file(tmp_path: Path, content: str, expected: set[str] | None) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(content, encoding="utf-8")
    assert possible_values("backend", ["--ros-args", "--params-file", str(file)]) == expected


def test_a_file_that_is_missing_gives_anything(tmp_path: Path) -> None:
    arguments = ["--ros-args", "-p", "backend:=null", "--params-file", str(tmp_path / "none.yaml")]
    assert possible_values("backend", arguments) is None
