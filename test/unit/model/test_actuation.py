"""Which commands have an effect on a joint where forces move it, by its drive, its limit and its actuators."""

from __future__ import annotations

import math

import pytest

from usd_ros_bridge.model.actuation import find_unmoved
from usd_ros_bridge.model.controller_schemas import CommandInterface
from usd_ros_bridge.model.physics import Actuator, Dof, Drive, Joint, Mimic, PhysicsScene, Tendon

STIFF, DAMPED, BARE = Drive(stiffness=10.0, damping=1.0), Drive(damping=1.0), Drive()
NO_DRIVE, OWN = "there is no drive", "the actuator takes commands of another kind"
WEAK = "the effort limit is 0"


def reasons(
    drive: Drive | None = None,
    *actuators: Actuator,
    max_effort: float = math.inf,
    mimic: Mimic | None = None,
    asset: str = "robot.usda",
) -> dict[CommandInterface, tuple[str, str]]:
    """Reason and remedy for each kind of command that does not move one joint."""
    dof = Dof(axis="rotZ", row=3, drive=drive, max_effort=max_effort, mimic=mimic)
    joint = Joint(path="/r/j", type="revolute", body0=-1, body1=0, dofs=(dof,))
    tendon = Tendon(path="/r/t", joints=((0, 1.0),))
    found = find_unmoved(PhysicsScene(joints=(joint,), tendons=(tendon,), actuators=actuators), asset)
    for groups in found.values():
        assert all(group.rows == {3} for group in groups)
    return {kind: (each.reason, each.remedy) for kind, groups in found.items() for each in groups}


@pytest.mark.parametrize(
    ("drive", "limit", "expected"),
    [
        (STIFF, math.inf, {}),
        (DAMPED, math.inf, {"position": "the drive has no stiffness"}),
        (
            BARE,
            math.inf,
            {"position": "the drive has no stiffness", "velocity": "the drive has no damping and stiffness"},
        ),
        (None, math.inf, {"position": NO_DRIVE, "velocity": NO_DRIVE}),
        (STIFF, 0.0, {"position": WEAK, "velocity": WEAK, "effort": WEAK}),
        (None, 0.0, {"position": NO_DRIVE, "velocity": NO_DRIVE, "effort": WEAK}),
    ],
)
def test_what_a_drive_does_not_do(
    drive: Drive | None, limit: float, expected: dict[CommandInterface, str]
) -> None:
    assert {kind: why for kind, (why, _) in reasons(drive, max_effort=limit).items()} == expected


@pytest.mark.parametrize(
    ("actuator", "stuck"),
    [
        (Actuator(path="/r/a", names=("a", "/r/a"), joint=0, interface="position"), {"velocity", "effort"}),
        (Actuator(path="/r/a", names=("a", "/r/a"), joint=0, interface="effort"), {"position", "velocity"}),
        (Actuator(path="/r/a", names=("a", "/r/a"), joint=0), {"position", "velocity", "effort"}),
    ],
)
def test_an_actuator_takes_one_kind_of_command_and_is_named_for_the_others(
    actuator: Actuator, stuck: set[str]
) -> None:
    found = reasons(None, actuator)
    assert found.keys() == stuck
    for why, remedy in found.values():
        assert why == OWN
        assert "by its own name (a)" in remedy


def test_a_joint_that_a_tendon_pulls_has_no_commands_of_its_own_but_efforts() -> None:
    pulled = Actuator(path="/r/a", transmission="tendon", tendon=0)
    assert {kind: why for kind, (why, _) in reasons(None, pulled).items()} == {
        "position": OWN,
        "velocity": OWN,
    }


def test_a_mimic_joint_is_never_commanded() -> None:
    assert reasons(None, mimic=Mimic(joint=0, dof=0)) == {}


@pytest.mark.parametrize(
    ("asset", "line"),
    [
        ("robot.usda", "usd_ros_bridge scaffold robot.usda --drives -o robot_drives.usda"),
        ("/my robots/arm.usd", "usd_ros_bridge scaffold '/my robots/arm.usd' --drives -o arm_drives.usda"),
        (
            "package://arm/usd/arm.usdz",
            "usd_ros_bridge scaffold package://arm/usd/arm.usdz --drives -o arm_drives.usda",
        ),
        ("", "usd_ros_bridge scaffold ASSET --drives -o ASSET_drives.usda"),
    ],
)
def test_the_remedy_is_a_line_to_paste(asset: str, line: str) -> None:
    assert reasons(asset=asset)["position"][1] == f"{line}, or apply PhysicsDriveAPI"
