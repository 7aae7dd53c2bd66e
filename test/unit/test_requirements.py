"""What is missing is one line with its remedy on stderr, from every way to start the bridge."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hidden_modules import start_without
from programs import run_python
from usd_ros_bridge import requirements

ROOT = Path(__file__).parents[2]
ROVER = str(ROOT / "examples" / "rover" / "rover.usda")
TETRAHEDRON = str(ROOT / "test" / "assets" / "physics_tetrahedron.usda")
"""A collider with a hull, which needs SciPy."""
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
    ("scipy", COMMAND_LINE, ("inspect", TETRAHEDRON)),
    ("scipy", COMMAND_LINE, ("run", TETRAHEDRON)),
    ("numpy", BRIDGE, ASSET_PARAMETER),
]


def modules_beyond(*needed: str) -> list[str]:
    """Top-level modules here that some distributions, and all that these require, do not have; but for those of ROS."""
    kept, waiting = set[str](), [canonical(each) for each in needed]
    while waiting:
        name = waiting.pop()
        if name in kept:
            continue
        kept.add(name)
        with suppress(metadata.PackageNotFoundError):
            waiting += distributions(line for line in metadata.requires(name) or () if "extra ==" not in line)
    return sorted(
        module
        for module, owners in metadata.packages_distributions().items()
        if module.isidentifier()
        and not any(canonical(each) in kept or canonical(each).startswith(ROS_WHEELS) for each in owners)
    )


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


ROS_WHEELS = ("ros-", "usd-ros-bridge", "lark", "empy")

RESULTS = """
import json, sys
from usd_ros_bridge import load_plan
from usd_ros_bridge.export.plan_json import physics_to_json
shown = [physics_to_json(load_plan(path, physics=True).physics) for path in sys.argv[1:]]
print(json.dumps(shown))
"""


@pytest.mark.process
def test_what_only_tests_and_other_features_need_changes_no_result(tmp_path: Path) -> None:
    """In an environment of `pip install usd_ros_bridge[usd]`: what a result needs is a requirement."""
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    assets = [ROOT / each for each in ("examples/rover/world.usda", "examples/arm/arm.usda")]
    assets += sorted((ROOT / "test" / "assets").glob("physics_[abmst]*.usda"))
    installed = setup_arguments()
    needed = [*installed["install_requires"], *installed["extras_require"]["usd"]]
    hidden = modules_beyond(*distributions(needed))
    assert {"pytest", "mujoco", "click"} <= set(hidden)
    paths = [str(each) for each in assets]
    without = start_without(",".join(hidden), RESULTS, *paths, directory=tmp_path)
    assert without.returncode == 0, without.stderr
    found = json.loads(without.stdout)
    tetrahedron = found[assets.index(ROOT / "test/assets/physics_tetrahedron.usda")]
    assert tetrahedron["bodies"][0]["inertial"]["mass"] == pytest.approx(1000.0 / 6.0)
    assert found == json.loads(run_python(RESULTS, *paths).stdout)


def setup_arguments() -> dict[str, Any]:
    """The arguments that setup.py gives to setuptools."""
    given: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **arguments: given.update(arguments))
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / "setup.py"))
    return given


def distributions(requirements: Iterable[str]) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in requirements)
    return {canonical(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in lines if line}


@pytest.mark.project
def test_environments_of_the_project_have_what_the_package_requires() -> None:
    """`make setup`, `make test-newton` and `make test-resolver` install the package itself without its requirements."""
    given = setup_arguments()
    always, extras = given["install_requires"], given["extras_require"]
    for file, needed in (
        ("tools/requirements/run.txt", [*always, *extras["all"]]),
        ("tools/newton-requirements.txt", [*always, *extras["newton"]]),
        ("tools/resolver-requirements.txt", [*always, *extras["resolver"]]),
    ):
        pinned = distributions((ROOT / file).read_text(encoding="utf-8").splitlines())
        assert distributions(needed) <= pinned, file


OF_RESULTS = ("controllers", "model", "planning", "runtime", "spatial")
"""Folders that every state and every message passes."""

DISTRIBUTIONS = {
    "PIL": "pillow",
    "foxglove": "foxglove-sdk",
    "pxr": "usd-core",
    "warp": "newton",
    "yaml": "PyYAML",
}
"""Of modules that are called otherwise. Newton requires warp-lang."""

BROUGHT = {"OpenGL": "mujoco", "backports": "rosbags", "lz4": "rosbags", "ruamel": "rosbags"}
"""Modules that the distribution of another one brings."""

ELSEWHERE = {
    *(
        "collada",
        "mujoco_usd_converter",
        "read_guard",
        "tinyobjloader",
        "urdf_usd_converter",
        "usdex",
        "xacro",
    ),
    *("compression", "hypothesis", "pytest"),
}
"""Modules of environments of their own, of Python 3.14, and of tests that use usd_ros_bridge.testing."""


@pytest.mark.project
def test_every_import_is_a_requirement_and_what_results_pass_needs_no_extra() -> None:
    given = setup_arguments()
    always = distributions(given["install_requires"])
    of_extras = {
        name: distributions(each) for name, each in given["extras_require"].items() if name != "test"
    }
    ros = {element.text for element in ElementTree.parse(ROOT / "package.xml").iter("exec_depend")}
    for path in sorted((ROOT / "usd_ros_bridge").rglob("*.py")):
        place = path.relative_to(ROOT / "usd_ros_bridge")
        for module in imported(path) - ELSEWHERE:
            if module in ros or module in ("usd_ros_bridge", "launch_testing", "rpyutils"):
                continue
            needed = canonical(DISTRIBUTIONS.get(BROUGHT.get(module, module), BROUGHT.get(module, module)))
            assert needed in always or any(needed in each for each in of_extras.values()), (place, module)
            if place.parts[0] in OF_RESULTS:
                assert needed in always, (
                    f"{place} imports {module}: an asset would have other results without it"
                )


def imported(path: Path) -> set[str]:
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names


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
