"""package.xml against catkin_pkg's rules, and against the imports of the package and of its launch files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from usd_ros_bridge.cli.doctor import ROS_PACKAGES
from usd_ros_bridge.requirements import INTERFACES

pytestmark = pytest.mark.project

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_XML = ROOT / "package.xml"
MANIFEST = ElementTree.parse(PACKAGE_XML)

KEYS = {
    "PIL": "python3-pil",
    "click": "python3-click",
    "numpy": "python3-numpy",
    "pytest": "python3-pytest",
    "hypothesis": "python3-hypothesis",
    "rich": "python3-rich",
    "scipy": "python3-scipy",
    "yaml": "python3-yaml",
    "mujoco": "python3-mujoco-pip",
    "pxr": "python3-usd",
    "rosbags": "python3-rosbags-pip",
    "tf2_ros": "tf2_ros_py",
}
"""rosdep keys of Python modules. A ROS package has the name of its module."""

PIP_ONLY = {
    "coacd": "the backend mujoco",
    "foxglove": "recordings and the server for Foxglove",
    "mcap": "recovering recordings",
    "newton": "the backend newton",
    "ray": "sweeps",
    "regex": "filters of entity names",
    "textual": "the live view, from textual 1.0 on",
    "viser": "the page in a browser",
    "warp": "the backend newton",
    "watchfiles": "watching files",
}
"""Modules without a key that fits, and the feature that reports their absence."""

WITH_ANOTHER = {
    "OpenGL": "mujoco",
    "backports": "rosbags",
    "lz4": "rosbags",
    "ruamel": "rosbags",
    "jsonschema": "ray",
    "matplotlib": "ray",
    "pyarrow": "ray",
    "collada": "an environment of its own",
    "mujoco_usd_converter": "an environment of its own",
    "read_guard": "a script beside it",
    "tinyobjloader": "an environment of its own",
    "urdf_usd_converter": "an environment of its own",
    "usdex": "an environment of its own",
    "xacro": "an environment of its own",
    "compression": "Python 3.14",
}
"""Modules that are imported only in code that needs another one first."""


def dependencies(*tags: str) -> set[str]:
    return {str(element.text) for tag in tags for element in MANIFEST.iter(tag)}


def imports(folder: Path) -> Iterator[tuple[str, str]]:
    """The first names of all imported modules, with the file."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                first = name.partition(".")[0]
                if first not in sys.stdlib_module_names and first != "usd_ros_bridge":
                    yield first, path.relative_to(ROOT).as_posix()


IMPORTS = {
    (module, file) for folder in ("usd_ros_bridge", "launch") for module, file in imports(ROOT / folder)
}
IMPORTED = {module for module, _ in IMPORTS}


def test_every_import_has_its_key() -> None:
    declared = dependencies("exec_depend")
    for_tests = declared | dependencies("test_depend")
    missing = {
        (module, file)
        for module, file in IMPORTS
        if module not in PIP_ONLY
        and module not in WITH_ANOTHER
        # Fixtures for tests of users, whose packages declare what they use.
        and KEYS.get(module, module) not in (for_tests if "/testing/" in file else declared)
    }
    assert missing == set()


def test_every_key_is_imported() -> None:
    # tf2_ros brings the library behind tf2_ros_py; ros2launch and robot_state_publisher are programs.
    unimported = {
        "tf2_ros",
        "ros2launch",
        "robot_state_publisher",
        "python3-pytest-timeout",
        "launch_testing_ros",
    }
    messages = {"control_msgs", "nav_msgs", "trajectory_msgs"}  # Looked up by name.
    declared = dependencies("exec_depend", "test_depend")
    assert declared - {KEYS.get(module, module) for module in IMPORTED} == unimported | messages


def test_lists_of_this_file_name_what_is_imported() -> None:
    assert PIP_ONLY.keys() | WITH_ANOTHER.keys() | KEYS.keys() <= IMPORTED


def test_what_is_needed_at_every_start_is_declared() -> None:
    assert {*ROS_PACKAGES, *INTERFACES.modules} <= dependencies("exec_depend")


def test_pip_keys_have_a_condition() -> None:
    """A package with dependencies that apt does not have cannot be released."""
    conditional = {str(each.text) for each in MANIFEST.iter("exec_depend") if "condition" in each.attrib}
    assert conditional == {key for key in dependencies("exec_depend") if key.endswith("-pip")} | {
        "python3-usd"
    }


# Of catkin_pkg itself, towards pyparsing.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_catkin_pkg_has_no_remark() -> None:
    package = pytest.importorskip(
        "catkin_pkg.package", reason="catkin_pkg is not installed: make setup-tests"
    )
    warnings: list[str] = []
    parsed = package.parse_package(str(PACKAGE_XML), warnings=warnings)
    assert warnings == []
    parsed.validate(warnings=warnings)
    assert warnings == []
    for value, expected in (("", False), ("1", True)):
        parsed.evaluate_conditions({"USD_ROS_BRIDGE_PIP": value})
        found = {each.name for each in parsed.exec_depends if each.evaluated_condition}
        assert ("python3-usd" in found) is expected
        assert "rclpy" in found
