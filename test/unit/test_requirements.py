"""What is missing is one line with its remedy on stderr, from every way to start the bridge."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hidden_modules import start_without
from usd_ros_bridge import requirements

ROOT = Path(__file__).parents[2]
ROVER = str(ROOT / "examples" / "rover" / "rover.usda")
SWEEP = str(ROOT / "examples" / "sweep" / "braking.yaml")

COMMAND_LINE = ("from usd_ros_bridge.entry_points import usd_ros_bridge", "usd_ros_bridge()")
MODULE = ("import runpy", "runpy.run_module('usd_ros_bridge', run_name='__main__', alter_sys=True)")
CLI_MODULE = ("import runpy", "runpy.run_module('usd_ros_bridge.cli', run_name='__main__', alter_sys=True)")
BRIDGE = ("from usd_ros_bridge.entry_points import bridge", "bridge()")
NODE = ("import runpy", "runpy.run_module('usd_ros_bridge.ros.node', run_name='__main__', alter_sys=True)")
STATE_PUBLISHER = (
    "from usd_ros_bridge.entry_points import robot_state_publisher",
    "robot_state_publisher()",
)


ASSET_PARAMETER = ("--ros-args", "-p", f"asset:={ROVER}")
FROM_EVERYWHERE = [
    ("click", COMMAND_LINE, ("inspect", ROVER)),
    ("click", MODULE, ("run", ROVER)),
    ("click", CLI_MODULE, ("run", ROVER)),
    ("rich", COMMAND_LINE, ("inspect", ROVER)),
    ("rclpy", COMMAND_LINE, ("run", ROVER)),
    ("rclpy", MODULE, ("run", ROVER)),
    ("rclpy", BRIDGE, ASSET_PARAMETER),
    ("rclpy", NODE, ASSET_PARAMETER),
    ("rclpy", STATE_PUBLISHER, ASSET_PARAMETER),
    ("pxr", COMMAND_LINE, ("inspect", ROVER)),
    ("ray", COMMAND_LINE, ("sweep", SWEEP)),
    ("pyarrow", COMMAND_LINE, ("sweep", SWEEP)),
    ("matplotlib", COMMAND_LINE, ("sweep", SWEEP, "--workers", "0")),
    ("jsonschema", COMMAND_LINE, ("sweep", SWEEP)),
    ("pxr", COMMAND_LINE, ("urdf", ROVER)),
    ("pxr", COMMAND_LINE, ("run", ROVER)),
    ("pxr", COMMAND_LINE, ("run", ROVER, "--watch")),
    ("pxr", BRIDGE, ASSET_PARAMETER),
    ("pxr", STATE_PUBLISHER, ASSET_PARAMETER),
    ("numpy", COMMAND_LINE, ("inspect", ROVER)),
    ("numpy", BRIDGE, ASSET_PARAMETER),
]


@pytest.mark.process
@pytest.mark.parametrize(("module", "program", "arguments"), FROM_EVERYWHERE)
def test_a_missing_module_is_one_line_with_the_remedy(
    module: str, program: tuple[str, ...], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    if any(start in program for start in (BRIDGE[0], NODE[0], STATE_PUBLISHER[0])) or "run" in arguments:
        pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
    result = start_without(module, "\n".join(program), *arguments, directory=tmp_path)
    assert result.returncode == 2, result.stderr
    # Other lines may be those of the start, never a traceback.
    (line,) = [each for each in result.stderr.splitlines() if each.startswith("usd_ros_bridge: ")][-1:]
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1] == line
    (needed,) = [each for each in requirements.REQUIREMENTS if module in each.modules]
    assert f"no module {module}" in line
    assert line.endswith(needed.remedy)


def test_the_remedies_are_the_versions_of_the_package() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for needed in (requirements.OPENUSD, requirements.MUJOCO):
        _, _, what = needed.remedy.partition('pip install "')
        assert what.removesuffix('"') in texts


def test_a_module_of_nobody_is_no_requirement() -> None:
    assert requirements.missing_requirement(ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert requirements.missing_requirement(ImportError("without a name")) is None


def test_a_broken_module_is_said_with_its_own_words() -> None:
    error = ImportError("librcl.so: cannot open shared object file", name="rclpy._rclpy_pybind11")
    found = str(requirements.missing_requirement(error))
    assert "cannot be imported: librcl.so: cannot open shared object file" in found
    assert found.endswith(requirements.ROS.remedy)
