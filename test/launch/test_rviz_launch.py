"""`rviz:=true`: RViz with the configuration of the asset; and what is said where there is no RViz."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("ros2launch", reason="ros2 launch comes with a full ROS 2 installation only")

import yaml
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchContext
from launch.actions import IncludeLaunchDescription, LogInfo
from launch.launch_description_sources import get_launch_description_from_python_launch_file
from launch.utilities import perform_substitutions
from launch_ros.actions import Node

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
FLEET = EXAMPLES / "fleet" / "fleet.usda"
BRIDGE, DESCRIPTION, RVIZ = (
    REPOSITORY / "launch" / f"{name}.launch.py" for name in ("bridge", "robot_state_publisher", "rviz")
)
TIMEOUT_S = 90.0


@pytest.fixture
def fake_rviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Packages rviz2 and tf2_ros whose programs write down how they were started. Returns the file."""
    written = tmp_path / "started"
    prefix = tmp_path / "prefix"
    index = prefix / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    for package, program in (("rviz2", "rviz2"), ("tf2_ros", "static_transform_publisher")):
        (index / package).touch()
        executable = prefix / "lib" / package / program
        executable.parent.mkdir(parents=True)
        executable.write_text(
            f'#!/bin/sh\necho "{program} $* domain=$ROS_DOMAIN_ID" >> {written}\n', encoding="utf-8"
        )
        executable.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{prefix}{os.pathsep}{os.environ.get('AMENT_PREFIX_PATH', '')}")
    return written


@pytest.fixture(autouse=True)
def log_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from launch.logging import launch_config

    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "log"))
    launch_config.level = "INFO"
    launch_config.log_dir = str(tmp_path)


def visited(file: Path, **arguments: str) -> tuple[list[Any], LaunchContext]:
    """Visit a launch file's actions as launch does, depth first, and start nothing. Return nodes and log lines."""
    context = LaunchContext()
    context.launch_configurations.update({"asset": "", **arguments})
    found: list[Any] = []

    def visit(entity: Any) -> None:
        if isinstance(entity, (Node, LogInfo)):
            found.append(entity)
            return
        for each in entity.visit(context) or ():
            visit(each)

    for each in get_launch_description_from_python_launch_file(str(file)).entities:
        visit(each)
    return found, context


def nodes(found: list[Any], package: str) -> list[Node]:
    return [each for each in found if isinstance(each, Node) and each.node_package == package]


def lines(found: list[Any], context: LaunchContext) -> list[str]:
    return [perform_substitutions(context, each.msg) for each in found if isinstance(each, LogInfo)]


def started(node: Node, context: LaunchContext) -> str:
    """The command line of a node, without what launch_ros adds to it when the node starts."""
    words = []
    for part in node.cmd[1:]:
        word = perform_substitutions(context, list(part))
        if word == "--ros-args":
            break
        words.append(word)
    return " ".join(words)


def launched(written: Path, *arguments: str) -> list[str]:
    """Launch rviz.launch.py. Return the command lines of the programs, sorted."""
    ended = subprocess.run(
        ["ros2", "launch", str(RVIZ), *arguments],
        cwd=written.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return sorted(written.read_text(encoding="utf-8").splitlines())


def configuration(command: str) -> dict[str, Any]:
    match = re.match(r"-d (\S+)", command)
    assert match is not None
    document = yaml.safe_load(Path(match[1]).read_text(encoding="utf-8"))
    found = document["Visualization Manager"]
    assert isinstance(found, dict)
    return found


def test_rviz_gets_the_file_of_the_asset_and_the_remaps(fake_rviz: Path) -> None:
    found, context = visited(BRIDGE, asset=str(ROVER), rviz="true", namespace="one")
    (node,) = nodes(found, "rviz2")
    command = started(node, context)
    assert configuration(command)["Global Options"]["Fixed Frame"] == "odom"
    assert "/one/rover/scan" in str(configuration(command))
    assert context.launch_configurations["tf_output"] == ""
    assert len(nodes(found, "usd_ros_bridge")) == 1
    assert lines(found, context) == []


def test_without_rviz_true_nothing_is_made(fake_rviz: Path) -> None:
    found, _ = visited(BRIDGE, asset=str(ROVER))
    assert nodes(found, "rviz2") == []
    assert len(found) == 1


def test_several_robots_are_on_one_tf_and_linked(fake_rviz: Path) -> None:
    found, context = visited(BRIDGE, asset=str(FLEET), rviz="true")
    assert context.launch_configurations["tf_output"] == "both"
    (node,) = nodes(found, "rviz2")
    command = started(node, context)
    assert "rover_2" in str(configuration(command))
    links = [started(each, context) for each in nodes(found, "tf2_ros")]
    assert ["--frame-id world --child-frame-id rover_1/odom" in each for each in links] == [True, False]
    assert "--x -1.0 --y 0.6 --z 0.0" in links[0]
    said = lines(found, context)
    assert any("the bridge has tf_output:=both" in line for line in said)
    assert any("rover_1/odom, rover_2/odom: static transforms" in line for line in said)


@pytest.mark.parametrize("by", ["argument", "file"])
def test_what_the_user_says_of_tf_output_counts(fake_rviz: Path, tmp_path: Path, by: str) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    tf_output: global\n    contexts: ['/Fleet/arm']\n", encoding="utf-8"
    )
    given = {"tf_output": "global"} if by == "argument" else {"params_file": str(file)}
    found, context = visited(BRIDGE, asset=str(FLEET), rviz="true", **given)
    assert context.launch_configurations["tf_output"] == given.get("tf_output", "")
    (node,) = nodes(found, "rviz2")
    shown = str(configuration(started(node, context)))
    assert ("/rover_1/scan" in shown) == (by == "argument")
    assert "TF Prefix': 'arm'" in shown


def test_a_file_of_the_users_own(fake_rviz: Path) -> None:
    found, context = visited(BRIDGE, asset=str(ROVER), rviz="true", rviz_config="/home/me/mine.rviz")
    (node,) = nodes(found, "rviz2")
    assert started(node, context) == "-d /home/me/mine.rviz"


@pytest.mark.parametrize("package", ["usd_ros_bridge", "robot_state_publisher"])
def test_beside_robot_state_publisher_tf_is_shared(fake_rviz: Path, package: str) -> None:
    found, context = visited(
        DESCRIPTION, asset=str(ARM), rviz="true", package=package, robot_description="<robot/>"
    )
    (node,) = nodes(found, "rviz2")
    command = started(node, context)
    assert "/arm/robot_description" in str(configuration(command))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("asset", "expected"),
    [("", "it needs the argument asset"), ("nope.usda", "cannot open 'nope.usda'")],
)
def test_what_cannot_be_made_is_one_line_and_the_rest_starts(
    fake_rviz: Path, asset: str, expected: str
) -> None:
    found, context = visited(BRIDGE, asset=asset, rviz="true")
    (line,) = lines(found, context)
    assert line.startswith("rviz: RViz is not started: ")
    assert expected in line
    assert len(nodes(found, "usd_ros_bridge")) == 1


def test_without_rviz_a_line_says_so_and_the_rest_starts() -> None:
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        pass
    else:
        pytest.skip("rviz2 is installed here")
    found, context = visited(BRIDGE, asset=str(ROVER), rviz="true")
    (line,) = lines(found, context)
    assert line.startswith("rviz: rviz2 is not installed here")
    assert len(nodes(found, "usd_ros_bridge")) == 1


def test_every_argument_is_described() -> None:
    for argument in get_launch_description_from_python_launch_file(str(RVIZ)).get_launch_arguments():
        assert len(argument.description.split()) > 3, argument.name
    included = [
        each
        for file in (BRIDGE, DESCRIPTION)
        for each in get_launch_description_from_python_launch_file(str(file)).entities
        if isinstance(each, IncludeLaunchDescription)
    ]
    assert len(included) == 2


def test_ros2_launch_starts_it_with_the_remaps(fake_rviz: Path) -> None:
    (line,) = launched(fake_rviz, f"asset:={ROVER}", "namespace:=one", "use_sim_time:=true")
    assert line.startswith("rviz2 -d ")
    assert "-r /tf:=/one/rover/tf -r /tf_static:=/one/rover/tf_static" in line
    assert line.endswith("domain=" + os.environ.get("ROS_DOMAIN_ID", ""))


def test_ros2_launch_connects_the_trees_of_several_robots(fake_rviz: Path) -> None:
    rviz, *links = launched(fake_rviz, f"asset:={FLEET}")
    assert "/tf:=" not in rviz
    assert len(links) == 2
    assert "--frame-id world --child-frame-id rover_2/odom" in links[0] + links[1]


def test_ros2_launch_starts_it_in_the_domain_of_the_robots(fake_rviz: Path, tmp_path: Path) -> None:
    asset = tmp_path / "arm.usda"
    asset.write_text(
        '#usda 1.0\n(\n    defaultPrim = "arm"\n    metersPerUnit = 1\n    upAxis = "Z"\n)\n'
        f'def "arm" (\n    prepend references = @{ARM}@\n)\n{{\n    int ros:context:domain_id = 87\n}}\n',
        encoding="utf-8",
    )
    (line,) = launched(fake_rviz, f"asset:={asset}")
    assert line.endswith(" domain=87")
