"""Actuators and tendons of mjcPhysics against MuJoCo itself, on an MJCF file of the same robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from open_backend import Opened

from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands

HERE = Path(__file__).parent
ASSET = HERE.parents[2] / "assets" / "physics_actuators.usda"
FIELDS = [
    "trntype", "dyntype", "gaintype", "biastype", "dynprm", "gainprm", "biasprm", "ctrllimited", "ctrlrange",
    "forcelimited", "forcerange", "actlimited", "actrange", "gear", "cranklength", "acc0", "length0", "lengthrange",
    "actnum", "actearly", "group",
]  # fmt: skip
TENDON_FIELDS = [
    "num", "limited", "range", "margin", "stiffness", "damping", "frictionloss", "armature", "lengthspring",
    "length0", "invweight0", "actfrclimited", "actfrcrange", "solref_lim", "solimp_lim", "solref_fri", "solimp_fri",
    "width", "rgba", "group",
]  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> BridgePlan:
    return load_plan(ASSET, physics=True)


@pytest.fixture(scope="module")
def reference() -> Any:
    return mujoco.MjModel.from_xml_path(str(HERE / "actuators.xml"))


def actuator(plan: BridgePlan, name: str) -> int:
    assert plan.physics is not None
    return next(
        number for number, each in enumerate(plan.physics.actuators) if each.path.rpartition("/")[2] == name
    )


def control(opened: Opened, **controls: float) -> Commands:
    commands = Commands(opened.plan.layout, actuators=len(opened.plan.physics.actuators))  # type: ignore[union-attr]
    for name, value in controls.items():
        commands.actuator_control[actuator(opened.plan, name)] = value
    return commands


def advance(opened: Opened, commands: Commands | None = None) -> Any:
    opened.time_ns += opened.backend.capabilities.step_ns
    return opened.backend.step(opened.time_ns, commands or control(opened))


def test_nothing_is_left_out(plan: BridgePlan) -> None:
    assert Opened(plan).reports == []
    assert not [each for each in plan.diagnostics if each.severity != "info"]


@each_case("field", FIELDS)
def test_actuators_are_mujocos(plan: BridgePlan, reference: Any, field: str) -> None:
    simulation = Opened(plan).backend.simulation
    ids = simulation.compiled.control_ids
    assert len(ids) == reference.nu == simulation.model.nu
    for number in range(reference.nu):
        found = ids[actuator(plan, reference.actuator(number).name)]
        expected = getattr(reference, f"actuator_{field}")[number]
        np.testing.assert_allclose(
            getattr(simulation.model, f"actuator_{field}")[found], expected, rtol=1e-12, atol=1e-12
        )


@each_case("field", TENDON_FIELDS)
def test_tendons_are_mujocos(plan: BridgePlan, reference: Any, field: str) -> None:
    model = Opened(plan).backend.simulation.model
    for number in range(reference.ntendon):
        found = model.tendon(f"/robot/Physics/{reference.tendon(number).name}").id
        expected = getattr(reference, f"tendon_{field}")[number]
        np.testing.assert_allclose(getattr(model, f"tendon_{field}")[found], expected, rtol=1e-12, atol=1e-12)


def test_controls_move_the_robot_as_mujoco_moves_it(plan: BridgePlan, reference: Any) -> None:
    opened, data = Opened(plan), mujoco.MjData(reference)
    simulation = opened.backend.simulation
    random = np.random.default_rng(3)
    for step in range(500):
        controls = {}
        if step % 25 == 0:
            controls = {
                reference.actuator(number).name: value
                for number, value in enumerate(random.uniform(-1.5, 1.5, reference.nu).tolist())
            }
            data.ctrl[:] = list(controls.values())
        mujoco.mj_step(reference, data)
        advance(opened, control(opened, **controls))
    for name in ("hinge", "slide", "flap"):
        path = {"hinge": "upper/hinge", "slide": "lower/slide", "flap": "flap_link/flap"}[name]
        assert simulation.data.joint(f"/robot/{path}").qpos == pytest.approx(data.joint(name).qpos, abs=1e-9)
    assert simulation.data.qpos == pytest.approx(data.qpos, abs=1e-9)
    assert simulation.data.act == pytest.approx(data.act, abs=1e-9)
    assert np.abs(data.qpos - reference.qpos0).max() > 0.1


def test_joint_commands_go_to_the_actuator_whose_law_they_are(plan: BridgePlan) -> None:
    opened = Opened(plan)
    data = opened.backend.simulation.data
    opened.step(1, joint_effort={"hinge": 2.0}, joint_position={"slide": 0.125})
    opened.step(1)
    assert data.actuator("/robot/Physics/hinge").ctrl == pytest.approx(0.5)
    assert data.actuator("/robot/Physics/slide_position").ctrl == pytest.approx(0.25)
    assert data.actuator("/robot/Physics/slide_velocity").ctrl == pytest.approx(0.0)
    opened.step(1, joint_position={"slide": 0.0}, joint_velocity={"slide": 0.5})
    assert data.actuator("/robot/Physics/slide_velocity").ctrl == pytest.approx(0.5)
    assert opened.reports == []


def test_a_velocity_alone_moves_the_target_of_a_position_actuator(plan: BridgePlan) -> None:
    opened = Opened(plan)
    opened.step(50, joint_velocity={"slide": 0.5})
    moved = opened.backend.simulation.data.actuator("/robot/Physics/slide_position").ctrl
    assert moved == pytest.approx(2.0 * 0.5 * 50 * 0.002, rel=1e-6)


def test_a_joint_whose_actuator_has_dynamics_takes_no_commands_of_its_own(plan: BridgePlan) -> None:
    opened = Opened(plan)
    opened.step(1, joint_effort={"flap": 1.0})
    assert {*opened.kinds} == {"mujoco.no_drive:effort"}


def test_a_control_stays_when_other_joints_are_commanded(plan: BridgePlan) -> None:
    opened = Opened(plan)
    data = opened.backend.simulation.data
    advance(opened, control(opened, slide_position=0.3, hinge=0.75, muscle=1.0))
    opened.step(3, joint_effort={"hinge": 1.0})
    assert data.actuator("/robot/Physics/slide_position").ctrl == pytest.approx(0.3)
    assert data.actuator("/robot/Physics/muscle").ctrl == pytest.approx(1.0)
    assert data.actuator("/robot/Physics/hinge").ctrl == pytest.approx(0.25)


def test_efforts_are_those_of_the_actuators(plan: BridgePlan) -> None:
    opened = Opened(plan)
    state = opened.step(1, joint_effort={"hinge": 2.0})
    state = advance(opened, control(opened))
    expected = opened.backend.simulation.data.joint("/robot/upper/hinge").qfrc_actuator[0]
    assert state.joint_effort[opened.row("hinge")] == expected != 0.0


def test_a_control_out_of_all_proportion_is_ignored_and_leaves_the_others_alone(plan: BridgePlan) -> None:
    opened, other = Opened(plan), Opened(plan)
    advance(opened, control(opened, flap=1.0, pull=2e10))
    advance(other, control(other, flap=1.0))
    assert np.array_equal(opened.backend.simulation.data.ctrl, other.backend.simulation.data.ctrl)
    assert advance(opened).joint_position == pytest.approx(advance(other).joint_position, abs=1e-12)
    assert {*opened.kinds} == {"mujoco.beyond:control"}


def test_a_reset_forgets_controls_and_activations(plan: BridgePlan) -> None:
    opened = Opened(plan)
    first = [advance(opened).joint_position.copy() for _ in range(20)]
    advance(opened, control(opened, flap=1.0, pull=-1.0))
    advance(opened)
    assert opened.backend.simulation.data.act.any()
    opened.backend.reset()
    opened.time_ns = 0
    assert not opened.backend.simulation.data.act.any()
    assert not opened.backend.simulation.data.ctrl.any()
    again = [advance(opened).joint_position.copy() for _ in range(20)]
    assert np.array_equal(first, again)


def test_a_successor_goes_on_with_controls_and_activations(plan: BridgePlan) -> None:
    before, after = Opened(plan), Opened(plan)
    advance(before, control(before, flap=1.0, pull=-1.0, hinge=0.5))
    for _ in range(10):
        advance(before)
    after.backend.transfer_state(before.backend)
    after.time_ns = before.time_ns
    one, other = before.backend.simulation.data, after.backend.simulation.data
    assert np.array_equal(one.act, other.act)
    assert np.array_equal(one.ctrl, other.ctrl)
    for _ in range(10):
        assert advance(after).joint_position == pytest.approx(advance(before).joint_position, abs=1e-12)
