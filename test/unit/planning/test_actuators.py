"""Planning actuators: what they act on, what commands them, by which names, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from builders.assets import ASSETS
from builders.stage_text import header, plan_text, stage_of, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.physics import Actuator, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan

ROBOT = """
def Xform "World" (prepend apiSchemas = ["RosContextAPI"]) {{
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsArticulationRootAPI"]) {{
        float physics:mass = 1
        def PhysicsFixedJoint "fixed" {{
            rel physics:body1 = </World/base>
        }}
        def Xform "mark" (prepend apiSchemas = ["NewtonSiteAPI"]) {{}}
    }}
    def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
        float physics:mass = 1
        def PhysicsRevoluteJoint "turn"{drive}
        {{
            uniform token physics:axis = "Y"
            rel physics:body0 = </World/base>
            rel physics:body1 = </World/link>
            {joint}
        }}
    }}
    {parts}
}}
"""
DRIVE = ' (prepend apiSchemas = ["PhysicsDriveAPI:angular"])'
TURN = "rel mjc:target = </World/link/turn>"


def plan_of(*parts: str, drive: str = "", joint: str = "", **options: Any) -> BridgePlan:
    return plan_text(ROBOT.format(parts="\n".join(parts), drive=drive, joint=joint), **options)


def scene_of(plan: BridgePlan) -> PhysicsScene:
    return plan.physics


def actuator(name: str, *lines: str, target: str = TURN, kind: str = "MjcActuator", schemas: str = "") -> str:
    applied = ", ".join(f'"{schema}"' for schema in schemas.split())
    metadata = f" (prepend apiSchemas = [{applied}])" if applied else ""
    return f'def {kind} "{name}"{metadata} {{\n{target}\n' + "\n".join(lines) + "\n}"


def only(plan: BridgePlan) -> Actuator:
    (found,) = scene_of(plan).actuators
    return found


def said(plan: BridgePlan) -> dict[str, str]:
    return {
        each.code: each.message for each in plan.diagnostics if each.code.startswith(("1.3.act", "1.3.tend"))
    }


GAIN = "uniform double[] mjc:gainPrm = [8]"
AFFINE = 'uniform token mjc:biasType = "affine"'


@each_case(
    ("lines", "interface", "control"),
    [
        ((), "effort", 1.0),
        ((GAIN, "uniform double[] mjc:gear = [2]"), "effort", 1.0 / 16.0),
        ((GAIN, AFFINE), "effort", 0.125),
        ((GAIN, AFFINE, "uniform double[] mjc:biasPrm = [0, -8, -1]"), "position", 1.0),
        (
            (GAIN, AFFINE, "uniform double[] mjc:biasPrm = [0, -8]", "uniform double[] mjc:gear = [3]"),
            "position",
            3.0,
        ),
        ((GAIN, AFFINE, "uniform double[] mjc:biasPrm = [0, 0, -8]"), "velocity", 1.0),
        ((GAIN, AFFINE, "uniform double[] mjc:biasPrm = [0, -4, -8]"), "", 1.0),
        ((GAIN, AFFINE, "uniform double[] mjc:biasPrm = [1, -8, 0]"), "", 1.0),
        (('uniform token mjc:dynType = "filter"',), "", 1.0),
        (('uniform token mjc:gainType = "affine"',), "", 1.0),
        (("uniform double[] mjc:gear = [0, 1]",), "", 1.0),
    ],
)
def test_gain_and_bias_say_what_commands_it(lines: tuple[str, ...], interface: str, control: float) -> None:
    found = only(plan_of(actuator("motor", *lines)))
    assert (found.interface, found.control_per_command) == (interface, control)


def test_an_actuator_needs_forces_and_drives_its_joint() -> None:
    assert not scene_of(plan_of()).needs_forces
    assert scene_of(plan_of(actuator("motor"))).needs_forces


def test_an_actuator_of_its_joints_name_is_commanded_as_the_joint() -> None:
    plan = plan_of(actuator("turn"))
    assert only(plan).names == ("/World/turn",)
    assert not said(plan)


def test_a_name_is_the_actuators_where_the_joint_takes_no_commands() -> None:
    plan = plan_of(actuator("turn", 'uniform token mjc:dynType = "filter"'))
    assert only(plan).names == ("turn", "/World/turn")


def test_a_name_that_another_joint_has_is_said() -> None:
    plan = plan_of(actuator("turn", target="rel mjc:target = </World/base/mark>"))
    assert only(plan).names == ("/World/turn",)
    assert "'turn' is /World/link/turn" in said(plan)["1.3.actuator.name"]


def test_display_names_and_prim_names_are_names() -> None:
    text = actuator("motor_1").replace('"motor_1"', '"motor_1" (displayName = "motor.1")')
    assert only(plan_of(text)).names == ("motor.1", "motor_1", "/World/motor_1")


def test_two_of_a_kind_on_one_joint() -> None:
    plan = plan_of(actuator("one"), actuator("two"))
    assert [each.interface for each in scene_of(plan).actuators] == ["effort", ""]
    assert "goes to /World/one" in said(plan)["1.3.actuator.shared"]


def test_a_drive_takes_positions_and_an_actuator_efforts() -> None:
    joint = "float drive:angular:physics:stiffness = 10"
    servo = (GAIN, AFFINE, "uniform double[] mjc:biasPrm = [0, -8]")
    plan = plan_of(actuator("motor"), actuator("servo", *servo), drive=DRIVE, joint=joint)
    assert [each.interface for each in scene_of(plan).actuators] == ["effort", ""]
    assert "goes to its drive" in said(plan)["1.3.actuator.shared"]


@each_case(
    ("lines", "target", "words"),
    [
        ((), "", "it acts on nothing"),
        ((), "rel mjc:target = </World/nothing>", "no joint, tendon, site or body"),
        ((), "rel mjc:target = </World/base/fixed>", "0 degrees of freedom"),
        (('uniform token mjc:dynType = "magic"',), TURN, "'magic' is none of"),
        (('uniform token mjc:ctrlLimited = "maybe"',), TURN, "'maybe' is none of"),
        (("uniform double mjc:ctrlRange:max = inf",), TURN, "inf' cannot be used"),
        (("uniform double[] mjc:gear = [nan]",), TURN, "nan"),
        (("uniform int mjc:actDim = 50000000",), TURN, "50000000 activations are more than 1000"),
        (("rel mjc:refSite = </World/link/turn>",), "rel mjc:target = </World/base/mark>", "is no site"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_said(lines: tuple[str, ...], target: str, words: str) -> None:
    plan = plan_of(actuator("motor", *lines, target=target))
    assert not scene_of(plan).actuators
    assert words in said(plan)["1.3.actuator"]


def test_callbacks_keyframes_and_units_are_said() -> None:
    plan = plan_of(
        actuator("motor", 'uniform token mjc:gainType = "user"'), 'def MjcKeyframe "home" {}', meters=0.01
    )
    assert {"1.3.actuator.user", "1.3.actuator.keyframe", "1.3.actuator.units"} <= said(plan).keys()


@each_case(
    ("lines", "words"),
    [
        (("rel mjc:path = []",), "names nothing"),
        (("rel mjc:path = </World/base/mark>", "uniform int[] mjc:path:indices = [1]"), "of 1 targets"),
        (
            ('uniform token mjc:type = "fixed"', "rel mjc:path = </World/link/turn>"),
            "1 joints have 0 coefficients",
        ),
        (
            (
                'uniform token mjc:type = "fixed"',
                "rel mjc:path = </World/base/mark>",
                "uniform double[] mjc:path:coef = [1]",
            ),
            "is no joint",
        ),
        (("rel mjc:path = </World/link/turn>",), "neither a site nor a shape"),
        (("rel mjc:path = </World/base/mark>", "uniform int[] mjc:path:segments = [1]"), "in the segments"),
        (("rel mjc:path = </World/base/mark>", "uniform int[] mjc:sideSites:indices = [0]"), "side sites"),
        (('uniform token mjc:type = "loose"',), "no kind of tendon"),
        (("rel mjc:path = </World/base/mark>", "uniform double mjc:stiffness = nan"), "nan"),
    ],
)
def test_a_tendon_that_cannot_be_used_is_left_out_with_its_actuator(
    lines: tuple[str, ...], words: str
) -> None:
    plan = plan_of(
        f'def MjcTendon "rope" {{\n{chr(10).join(lines)}\n}}',
        actuator("motor", target="rel mjc:target = </World/rope>"),
    )
    scene = scene_of(plan)
    assert not scene.tendons
    assert not scene.actuators
    assert words in said(plan)["1.3.tendon"]


NEWTON = "rel newton:targets = </World/link/turn>"
PD = "NewtonPDControlAPI"
LAW = ("float newton:kp = 20", "float newton:kd = 2", "float newton:constEffort = 0.5")


def test_newtons_law_is_a_drive() -> None:
    schemas = f"{PD} NewtonMaxEffortClampingAPI"
    plan = plan_of(
        actuator(
            "pd", *LAW, "float newton:maxEffort = 7", kind="NewtonActuator", schemas=schemas, target=NEWTON
        )
    )
    (dof,) = (dof for joint in scene_of(plan).joints for dof in joint.dofs)
    assert (dof.drive.stiffness, dof.drive.damping, dof.drive.constant_effort) == (20.0, 2.0, 0.5)
    assert (dof.drive.max_force, dof.max_effort) == (7.0, 7.0)
    assert scene_of(plan).needs_forces
    assert not said(plan)


@each_case(
    ("schemas", "lines", "words"),
    [
        ("NewtonPIDControlAPI", ("float newton:ki = 1",), "integral"),
        (f"{PD} NewtonActuatorDelayAPI", (), "without delay"),
        (f"{PD} NewtonDCMotorClampingAPI", ("float newton:velocityLimit = 5",), "at every speed"),
        (
            f"{PD} NewtonPositionBasedClampingAPI",
            ("float[] newton:lookupPositions = [0, 1]", "float[] newton:lookupEfforts = [1, 2]"),
            "at every position",
        ),
    ],
)
def test_what_no_drive_has_is_said(schemas: str, lines: tuple[str, ...], words: str) -> None:
    plan = plan_of(actuator("pd", *LAW, *lines, kind="NewtonActuator", schemas=schemas, target=NEWTON))
    assert words in said(plan)["1.3.actuator.newton"]
    assert any(dof.drive for joint in scene_of(plan).joints for dof in joint.dofs)


def test_a_drive_without_gains_leaves_the_joint_to_its_actuator() -> None:
    law = actuator("pd", *LAW, kind="NewtonActuator", schemas=PD, target=NEWTON)
    plan = plan_of(law, drive=DRIVE, joint="float drive:angular:physics:maxForce = 9")
    (dof,) = (dof for joint in scene_of(plan).joints for dof in joint.dofs)
    assert (dof.drive.stiffness, dof.drive.damping) == (20.0, 2.0)
    assert not said(plan)


@each_case(
    ("schemas", "target", "drive", "words"),
    [
        ("NewtonNeuralControlAPI", NEWTON, "", "no control law"),
        ("", NEWTON, "", "no control law"),
        (PD, "", "", "drives nothing"),
        (PD, "rel newton:targets = </World/base/fixed>", "", "no revolute or prismatic"),
        (PD, NEWTON, DRIVE, "has a drive already"),
    ],
)
def test_what_newton_cannot_drive_is_said(schemas: str, target: str, drive: str, words: str) -> None:
    plan = plan_of(
        actuator("pd", *LAW, kind="NewtonActuator", schemas=schemas, target=target),
        drive=drive,
        joint="float drive:angular:physics:stiffness = 1" if drive else "",
    )
    assert words in said(plan)["1.3.actuator"]


@each_case(
    ("line", "stiffness", "damping", "words"),
    [
        ("float newton:kp = -1", 0.0, 2.0, "0 is used"),
        ("float newton:kp = inf", 1e15, 2.0, "1e+15 is used"),
        ("float newton:kd = 1e30", 20.0, 1e15, "1e+15 is used"),
        ("float newton:kd = nan", 20.0, 0.0, "0 is used"),
    ],
)
def test_impossible_gains_of_newton_are_bounded(
    line: str, stiffness: float, damping: float, words: str
) -> None:
    law = [each for each in LAW if each[:15] != line[:15]]
    plan = plan_of(actuator("pd", *law, line, kind="NewtonActuator", schemas=PD, target=NEWTON))
    (dof,) = (dof for joint in scene_of(plan).joints for dof in joint.dofs)
    assert (dof.drive.stiffness, dof.drive.damping) == (stiffness, damping)
    assert words in said(plan)["1.3.actuator"]


def test_robots_of_a_fleet_have_their_own_actuators() -> None:
    asset = ASSETS / "physics_actuators.usda"
    stage = stage_of(world(), header())
    for name in ("one", "two", "three"):
        prim = stage.DefinePrim(f"/World/{name}", "Xform")
        prim.GetReferences().AddReference(str(asset))
        prim.GetAttribute("ros:context:namespace").Set(name)
    plan = load_plan(stage, physics=True)
    scene = scene_of(plan)
    names = [robot.path.rpartition("/")[2] for robot in plan.robots]
    assert sorted(names) == ["one", "three", "two"]
    for number, robot in enumerate(names):
        own = [each for each in scene.actuators if each.robot == number]
        assert len(own) == 12
        assert all(each.path.startswith(f"/World/{robot}/") for each in own)
        assert [each.names[0] for each in own][1:3] == ["slide_position", "slide_velocity"]
        targets = {scene.joints[each.joint].path for each in own if each.joint >= 0}
        assert all(path.startswith(f"/World/{robot}/") for path in targets)
    assert len({topic.name for topic in plan.topics if topic.role == "subscription"}) == 3
