"""The URDF of a robot, read by pinocchio (which parses with urdfdom), agrees with the running bridge's /tf.

And with the URDF that the robot was converted from: limits, total mass, inertia.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robot_oracle import Configuration, Errors, Pose, RobotOracle, poses_from_tf

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import RobotPlan

pytest.importorskip("rclpy", reason="rclpy is not installed: run `make setup`")

from live_bridge import BridgeProcess, TfListener

ROOT = Path(__file__).parents[2]
PINOCCHIO = ROOT / ".venv-robots" / "bin" / "python"
READER = Path(__file__).with_name("read_urdf.py")
# What would lead the other environment's Python to other libraries.
NOT_INHERITED = (
    "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH",
    "_ROS_WHEELS_BOOTSTRAP_COMPLETE",
)  # fmt: skip

CONFIGURATIONS = 50
SEED = 3807
TOPIC = "positions_to_show"
"""Not joint_states, where the examples publish."""
EXAMPLES = {
    "arm": ("arm/arm.usda", "/arm"),
    "rover": ("rover/rover.usda", "/rover"),
    "fleet rover_1": ("fleet/fleet.usda", "/Fleet/rover_1"),
    "fleet rover_2": ("fleet/fleet.usda", "/Fleet/rover_2"),
    "fleet arm": ("fleet/fleet.usda", "/Fleet/arm"),
}
SAME_MASS = 1e-3
"""Of the whole, by which masses and inertias may differ from those of the original URDF."""


@dataclass(frozen=True)
class Read:
    """What pinocchio says about a URDF; see read_urdf.py."""

    root: str
    links: tuple[str, ...]
    limits: Mapping[str, Mapping[str, float] | None]
    mass: float
    center: Any
    inertia: Any
    poses: tuple[Mapping[str, Pose], ...]


def ask_pinocchio(tmp_path: Path, **request: Any) -> Read:
    if not PINOCCHIO.is_file():
        pytest.skip(f"{PINOCCHIO} is missing: `make test-robots` makes it")
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"configurations": [], **request}), encoding="utf-8")
    result = subprocess.run(
        [str(PINOCCHIO), str(READER), str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in NOT_INHERITED},
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == "", "urdfdom or pinocchio found something to say"
    content = json.loads(result.stdout)
    poses = [
        {
            link: Pose(np.array(pose[:3]), np.array(pose[3:]))
            for link, pose in zip(content["links"], each, strict=True)
        }
        for each in content.pop("poses")
    ]
    links = tuple(content.pop("links"))
    center, inertia = np.array(content.pop("center")), np.array(content.pop("inertia"))
    return Read(links=links, center=center, inertia=inertia, poses=tuple(poses), **content)


def export(asset: Path, robot: str, tmp_path: Path) -> Path:
    """Writes a robot's URDF as a user does."""
    target = tmp_path / "robot.urdf"
    command = [
        sys.executable,
        "-m",
        "usd_ros_bridge.cli",
        "urdf",
        str(asset),
        "--robot",
        robot,
        "-o",
        str(target),
    ]
    subprocess.run([*command, "--meshes", str(tmp_path / "meshes")], check=True, timeout=120, cwd=ROOT)
    return target


def configurations(read: Read, robot: RobotPlan) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Per configuration the positions of all joints, and those to publish: every second leaves out what mimics."""
    generator = np.random.default_rng(SEED)
    dofs = [dof for joint in robot.joints for dof in joint.dofs if dof.name in read.limits]
    names = {dof.row: dof.name for dof in dofs}
    result = []
    for index in range(CONFIGURATIONS):
        positions = {}
        for name, limit in read.limits.items():
            lower, upper = (-pi, pi) if limit is None else (limit["lower"], limit["upper"])
            positions[name] = float(generator.uniform(max(lower, -pi), min(upper, pi)))
        published = dict(positions)
        for dof in dofs:
            if dof.mimic is not None:
                leader = positions[names[dof.mimic.leader]]
                positions[dof.name] = published[dof.name] = dof.mimic.multiplier * leader + dof.mimic.offset
                if index % 2:
                    del published[dof.name]
        result.append((positions, published))
    return result


def compare_with_tf(asset: Path, robot: RobotPlan, tmp_path: Path, errors: Errors, *, domain_id: int) -> None:
    """Shows the bridge in another process the same positions as pinocchio, and compares all links that are frames."""
    urdf = export(asset, robot.path, tmp_path)
    read = ask_pinocchio(tmp_path, urdf=str(urdf))
    shown = configurations(read, robot)
    read = ask_pinocchio(tmp_path, urdf=str(urdf), configurations=[positions for positions, _ in shown])
    moving = {frame.id for frame in robot.frames if not frame.static and frame.id != read.root}
    with (
        BridgeProcess(
            asset,
            domain_id=domain_id,
            log=tmp_path / "bridge.log",
            arguments=["--backend", "joint_states", "--backend-option", f"topic={TOPIC}"],
        ) as bridge,
        TfListener(bridge, domain_id=domain_id, namespace=robot.namespace, topic=TOPIC) as listener,
    ):
        listener.connect(shown[0][1])
        listener.wait_for_static(frame.id for frame in robot.frames if frame.static)
        for (positions, published), expected in zip(shown, read.poses, strict=True):
            transforms = listener.wait_for_transforms(listener.publish(published), moving)
            poses = poses_from_tf({**listener.static, **transforms}, read.root)
            unknown = poses.keys() - set(read.links)
            assert not unknown, f"on /tf below {read.root}, and no links: {sorted(unknown)}"
            missing = set(read.links) - poses.keys()
            assert not missing, f"links that are not on /tf: {sorted(missing)}"
            errors.compare(Configuration(positions, published, expected), poses)
        assert bridge.interrupt() == 0, bridge.output
    assert errors.configurations == CONFIGURATIONS
    assert errors.poses == CONFIGURATIONS * len(read.links)
    assert errors.small, errors


def test_urdf_against_tf(robot: RobotOracle, errors: Errors, tmp_path: Path, other_domain_id: int) -> None:
    (planned,) = load_plan(robot.asset).robots
    compare_with_tf(robot.asset, planned, tmp_path, errors, domain_id=other_domain_id)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_against_tf(example: str, tmp_path: Path, other_domain_id: int) -> None:
    name, path = EXAMPLES[example]
    asset = ROOT / "examples" / name
    planned = next(robot for robot in load_plan(asset).robots if robot.path == path)
    compare_with_tf(asset, planned, tmp_path, Errors(), domain_id=other_domain_id)


def test_mass_and_inertia_are_those_of_the_original(robot: RobotOracle, tmp_path: Path) -> None:
    original = ask_pinocchio(tmp_path, robot=robot.name)
    read = ask_pinocchio(tmp_path, urdf=str(export(robot.asset, f"/{robot.default_prim}", tmp_path)))
    assert read.mass == pytest.approx(original.mass, rel=SAME_MASS)
    size = np.linalg.norm(original.inertia)
    np.testing.assert_allclose(read.inertia, original.inertia, rtol=0.0, atol=SAME_MASS * size)
    np.testing.assert_allclose(read.center, original.center, rtol=0.0, atol=SAME_MASS)


def test_limits_are_those_of_the_original(robot: RobotOracle, tmp_path: Path) -> None:
    original = ask_pinocchio(tmp_path, robot=robot.name)
    read = ask_pinocchio(tmp_path, urdf=str(export(robot.asset, f"/{robot.default_prim}", tmp_path)))
    assert read.limits.keys() == original.limits.keys()
    for name, limit in original.limits.items():
        found = read.limits[name]
        assert (found is None) == (limit is None), name
        if limit is not None and found is not None:
            assert dict(found) == pytest.approx(dict(limit), rel=1e-5), name


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_weigh_what_they_weigh_in_the_plan(example: str, tmp_path: Path) -> None:
    name, path = EXAMPLES[example]
    asset = ROOT / "examples" / name
    plan = load_plan(asset, physics=True)
    assert plan.physics is not None
    number = [robot.path for robot in plan.robots].index(path)
    read = ask_pinocchio(tmp_path, urdf=str(export(asset, path, tmp_path)))
    bodies = [body for body in plan.physics.bodies if body.robot == number]
    assert read.mass == pytest.approx(sum(body.inertial.mass for body in bodies), rel=1e-9)
    assert read.mass > 1.0
