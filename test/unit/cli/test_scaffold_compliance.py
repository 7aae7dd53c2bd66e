"""Scaffolds under the public REP 0158 compliance checker, which is in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from scaffolding import HEADER, body, cart, joint, robot, scaffold, without_layer

ROOT = Path(__file__).parents[3]
CHECKER = ROOT / ".venv-checker" / "bin" / "python"
ROBOTS = ROOT / "build" / "robots"
CONVERTED = ("panda/panda.usda", "ur5/ur5.usda", "solo12/solo.usda", "kinova/kinova.usda")

# The root of the rover is its base body; tools/check_examples.py says the same of the example.
KNOWN = {"2.2.4"}

SCRIPT = """
import json, sys
from pxr import Usd
from compliance_checker.checker import ComplianceChecker
from compliance_checker.registry import build_checks
found = []
for path in sys.argv[1:]:
    report = ComplianceChecker(Usd.Stage.Open(path), build_checks(include_extended=True)).run()
    found.append([[v.check_id, v.section, str(v.prim_path), v.message] for v in report.violations])
print(json.dumps(found))
"""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not CHECKER.exists(), reason="the compliance checker is not installed: make check-examples"
    ),
]


def check(*paths: Path) -> list[list[list[str]]]:
    """The checker's findings for each stage: check, section, prim, message."""
    command = [str(CHECKER), "-I", "-c", SCRIPT, *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env={})
    found: list[list[list[str]]] = json.loads(result.stdout.splitlines()[-1])
    return found


def check_scaffold(asset: Path, folder: Path, *options: str, known: Counter[str] | None = None) -> None:
    result = scaffold(asset, folder / "ros.usda", *options)
    before, after = check(asset, result.path)
    of_ros = [finding for finding in after if finding[1].startswith(("2.", "4.2"))]
    assert [finding for finding in of_ros if finding[0] not in KNOWN] == []
    more = Counter(f[0] for f in after if f[0] not in KNOWN) - Counter(f[0] for f in before)
    more -= known or Counter()
    assert not more, [finding for finding in after if finding[0] in more]


@pytest.mark.parametrize("name", ["rover", "arm"])
def test_an_example_without_its_layer(tmp_path: Path, name: str) -> None:
    check_scaffold(without_layer(name, tmp_path), tmp_path)


def test_a_cart(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    wheels = (("left_wheel", (0, 0.2, 0)), ("right_wheel", (0, -0.2, 0)))
    asset.write_text(HEADER.format(name="robot") + cart(*wheels, drive=(0.0, 10.0)), encoding="utf-8")
    check_scaffold(asset, tmp_path)


def test_a_cart_with_physics_and_sensors(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    wheels = (("left_wheel", (0, 0.2, 0)), ("right_wheel", (0, -0.2, 0)))
    asset.write_text(HEADER.format(name="robot") + cart(*wheels, fixed=True), encoding="utf-8")
    physics = ("--drives", "--ground", "--free-base")
    sensors = ("--camera", "base_link", "--lidar", "base_link", "--imu", "base_link")
    # The ground has no material, so that those of wheels and feet decide.
    check_scaffold(asset, tmp_path, *physics, *sensors, known=Counter({"1.3.5": 1}))


def test_a_robot_behind_a_payload(tmp_path: Path) -> None:
    text = robot(
        body("base"), body("finger", 'def Xform "tip" {}'),
        joint("anchor", "", "/robot/base", kind="Fixed"),
        joint("finger_joint", "/robot/base", "/robot/finger", kind="Prismatic", axis="X", limits=(0, 1)),
    )  # fmt: skip
    (tmp_path / "contents.usda").write_text(HEADER.format(name="robot") + text, encoding="utf-8")
    asset = tmp_path / "robot.usda"
    root = 'def Xform "robot" (\n    kind = "component"\n    payload = @./contents.usda@\n)\n{\n}\n'
    asset.write_text(HEADER.format(name="robot") + root, encoding="utf-8")
    check_scaffold(asset, tmp_path)


@pytest.mark.parametrize("name", CONVERTED, ids=lambda name: Path(name).stem)
def test_a_converted_robot(tmp_path: Path, name: str) -> None:
    if not (ROBOTS / name).exists():
        pytest.skip("no converted robots: make test-robots")
    check_scaffold(ROBOTS / name, tmp_path)
