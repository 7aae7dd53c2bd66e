"""Robots with the physics that `usd_ros_bridge scaffold` adds, in MuJoCo, which is also the oracle of their inertia."""

from __future__ import annotations

import math
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

sys.path.append(str(Path(__file__).parents[2] / "cli"))

from contextlib import closing

import mujoco
from open_backend import Opened
from scaffolding import HEADER, body, cart, joint, robot, scaffold, without_layer
from spec_scenes import Reports, mass_matrix, simulated

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.planning.joint_loads import joint_loads
from usd_ros_bridge.planning.scaffold_drives import DROOP
from usd_ros_bridge.usd import quiet

ASSETS = Path(__file__).parents[3] / "assets"
ROUNDING = 1e-6
"""rad: gains and frames are in single precision."""


def simulate(plan: BridgePlan, seconds: float, **positions: float) -> State:
    """Simulates with position targets of joints; returns the last state."""
    return run(plan, seconds, joint_position=positions)


def run(plan: BridgePlan, seconds: float, **targets: dict[str, float]) -> State:
    """Simulates with targets by array of Commands and name of joint; returns the last state."""
    opened = Opened(plan)
    with closing(opened.backend):
        return deepcopy(opened.step(round(seconds * 1e9 / opened.backend.capabilities.step_ns), **targets))


def written(text: str, folder: Path, *options: str, name: str = "robot") -> BridgePlan:
    """The plan of a robot with physics that was added."""
    asset = folder / f"{name}.usda"
    asset.write_text(HEADER.format(name=name) + text, encoding="utf-8")
    with quiet():
        return load_plan(scaffold(asset, folder / "ros.usda", *options).path, physics=True)


# --- Inertia --------------------------------------------------------------------------------------------------------


def inertia_by_mujoco(compiled: Any, model: Any, data: Any, joint: int) -> float:
    """The entry of the mass matrix for a joint and all that follows it."""
    mujoco.mj_forward(model, data)
    matrix = mass_matrix(model, data)
    direction = np.zeros(model.nv)
    for number, each in enumerate(compiled.scene.joints):
        factor, leader = 1.0, number
        while each.dofs and (rule := compiled.scene.joints[leader].dofs[0].mimic) is not None:
            leader, factor = rule.joint, factor * rule.multiplier
        if leader == joint and each.dofs:
            direction[model.joint(each.path).dofadr[0]] = factor
    return float(direction @ matrix @ direction)


@each_case("name", ["arm", "rover", "units_centimetres_y_up", "joint_mimic", "joint_inverted"])
def test_inertia_is_that_of_the_mass_matrix(tmp_path: Path, name: str) -> None:
    asset = without_layer(name, tmp_path) if name in ("arm", "rover") else ASSETS / f"{name}.usda"
    with quiet():
        scene = load_plan(asset, physics=True).physics
    assert scene is not None
    compiled, model, data = simulated(scene, Reports())
    compared = 0
    for number, load in joint_loads(scene).items():
        if scene.joints[number].dofs[0].mimic is None:
            expected = inertia_by_mujoco(compiled, model, data, number)
            assert load.inertia == pytest.approx(expected, rel=1e-5, abs=1e-11), scene.joints[number].path
            compared += 1
    assert compared


# --- Arms -----------------------------------------------------------------------------------------------------------


def segment(name: str, at: float) -> str:
    """A rod of 1 kg and 0.3 m along X from the joint."""
    return body(
        name,
        "point3f physics:centerOfMass = (0.15, 0, 0)\n    float3 physics:diagonalInertia = (0.001, 0.0075, 0.0075)\n"
        "    quatf physics:principalAxes = (1, 0, 0, 0)",
        at=(at, 0.0, 1.0),
    )


def stretched_arm() -> str:
    """Three rods in line, level: gravity loads all joints."""
    return robot(
        segment("base", -0.3), joint("anchor", "", "/robot/base", kind="Fixed", at=(-0.3, 0.0, 1.0)),
        *(segment(f"link_{number}", 0.3 * number) for number in range(3)),
        *(
            joint(f"joint_{number}", f"/robot/{parent}", f"/robot/link_{number}", at=(0.3, 0, 0), limits=(-170, 170))
            for number, parent in enumerate(("base", "link_0", "link_1"))
        ),
    )  # fmt: skip


@each_case(("damping", "friction"), [(2.0, 0.0), (0.0, 0.05), (2.0, 0.05)])
def test_a_joint_with_damping_of_its_own_follows_its_command(
    tmp_path: Path, damping: float, friction: float
) -> None:
    """A light link whose own damping, or friction, is far above what its inertia asks for."""
    tip = body("tip", "float3 physics:diagonalInertia = (4e-6, 4e-6, 4e-6)").replace(
        "mass = 1", "mass = 0.02"
    )
    hinge = joint("hinge", "/robot/base", "/robot/tip", axis="Z", limits=(-90, 90))
    hinge = hinge.replace('"hinge"', '"hinge" (prepend apiSchemas = ["MjcJointAPI"])').replace(
        "rel physics:body1",
        f"double mjc:damping = {damping}\ndouble mjc:frictionloss = {friction}\nrel physics:body1",
    )
    text = robot(body("base"), joint("anchor", "", "/robot/base", kind="Fixed"), tip, hinge)
    state = simulate(written(text, tmp_path, "--drives"), 1.0, hinge=0.2)
    assert state.joint_position[0] == pytest.approx(0.2, abs=DROOP["rot"])


def test_an_arm_holds_its_pose_against_gravity(tmp_path: Path) -> None:
    state = simulate(written(stretched_arm(), tmp_path, "--drives"), 3.0)
    assert np.abs(state.joint_position).max() < DROOP["rot"] + ROUNDING
    assert np.abs(state.joint_velocity).max() < 1e-3


def test_an_arm_without_drives_falls(tmp_path: Path) -> None:
    state = simulate(written(stretched_arm(), tmp_path), 3.0)
    assert np.abs(state.joint_position).max() > 0.5


def test_an_arm_reaches_a_commanded_position(tmp_path: Path) -> None:
    goal = {"joint_0": -0.8, "joint_1": 1.2, "joint_2": -0.5}
    plan = written(stretched_arm(), tmp_path, "--drives")
    state = simulate(plan, 3.0, **goal)
    for name, position in goal.items():
        reached = state.joint_position[plan.layout.dofs.index(name)]
        assert reached == pytest.approx(position, abs=DROOP["rot"] + ROUNDING)


# --- Robots on the ground -------------------------------------------------------------------------------------------


def walker() -> str:
    """A body of 12 kg on four straight legs of two rods with a ball as foot."""
    foot = (
        'def Sphere "foot" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\ndouble radius = 0.02\n'
        'double3 xformOp:translate = (0, 0, -0.2)\nuniform token[] xformOpOrder = ["xformOp:translate"]\n}'
    )
    rod = "float3 physics:diagonalInertia = (0.002, 0.002, 0.0002)\n    point3f physics:centerOfMass = (0, 0, -0.1)"
    trunk = "float3 physics:diagonalInertia = (0.1, 0.3, 0.3)"
    parts = [
        body("trunk", trunk, at=(0, 0, 0.6)).replace("mass = 1", "mass = 12"),
        joint("root_joint", "/robot", "/robot/trunk", kind="Fixed", at=(0, 0, 0.6)),
    ]  # fmt: skip
    for leg, x, y in (("lf", 0.25, 0.15), ("rf", 0.25, -0.15), ("lh", -0.25, 0.15), ("rh", -0.25, -0.15)):
        parts += [
            body(f"{leg}_thigh", rod, at=(x, y, 0.6)).replace("mass = 1", "mass = 0.5"),
            body(f"{leg}_shank", f"{rod}\n    {foot}", at=(x, y, 0.4)).replace("mass = 1", "mass = 0.3"),
            joint(f"{leg}_hip", "/robot/trunk", f"/robot/{leg}_thigh", at=(x, y, 0), limits=(-90, 90)),
            joint(f"{leg}_knee", f"/robot/{leg}_thigh", f"/robot/{leg}_shank", at=(0, 0, -0.2), limits=(-90, 90)),
        ]  # fmt: skip
    return robot(*parts)


def test_a_legged_robot_stands_on_the_ground(tmp_path: Path) -> None:
    plan = written(walker(), tmp_path, "--drives", "--ground", "--free-base")
    row = plan.robots[0].base_row
    state = simulate(plan, 10.0)
    assert state.body_pose[row, :2] == pytest.approx([0.0, 0.0], abs=0.01)
    assert state.body_pose[row, 2] == pytest.approx(0.6, abs=0.01)
    assert abs(state.body_pose[row, 6]) > math.cos(0.5 * 0.02)
    assert np.abs(state.body_twist[row]).max() < 1e-3


def test_a_legged_robot_stands_where_its_legs_are_bent(tmp_path: Path) -> None:
    plan = written(walker(), tmp_path, "--drives", "--ground", "--free-base")
    bent = {f"{leg}_hip": 0.4 for leg in ("lf", "rf", "lh", "rh")}
    bent |= {f"{leg}_knee": -0.8 for leg in ("lf", "rf", "lh", "rh")}
    state = simulate(plan, 5.0, **bent)
    row = plan.robots[0].base_row
    assert state.body_pose[row, 2] == pytest.approx(0.6 - 0.4 * (1.0 - math.cos(0.4)), abs=0.02)
    for name, position in bent.items():
        assert state.joint_position[plan.layout.dofs.index(name)] == pytest.approx(position, abs=0.03)


def test_a_cart_that_was_fixed_drives_on_the_ground(tmp_path: Path) -> None:
    wheels = (("left_wheel", (0.0, 0.2, 0.0)), ("right_wheel", (0.0, -0.2, 0.0)))
    slider = (
        'def Sphere "slider" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\ndouble radius = 0.1\n'
        'double3 xformOp:translate = (-0.3, 0, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]\n}'
    )
    text = cart(*wheels, fixed=True).replace(
        "float physics:mass = 1", f"float physics:mass = 1\n    {slider}", 1
    )
    plan = written(text, tmp_path, "--drives", "--ground", "--free-base")
    state = run(plan, 2.0, joint_velocity={"left_wheel_joint": 5.0, "right_wheel_joint": 5.0})
    row = plan.robots[0].base_row
    # 5 rad/s on wheels of 0.1 m for two seconds. The wheels turn at once; friction accelerates the cart in 0.2 s.
    assert state.joint_position == pytest.approx([10.0, 10.0], rel=0.02)
    assert state.body_pose[row, 0] == pytest.approx(0.95, abs=0.02)
    assert state.body_twist is not None
    assert state.body_twist[row, 0] == pytest.approx(0.5, rel=0.01)
    assert state.body_pose[row, 1] == pytest.approx(0.0, abs=0.01)
