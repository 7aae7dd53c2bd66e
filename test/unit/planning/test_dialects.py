"""Dialects: one property of a joint in each vendor's attributes is one value, one motion; and what is overridden."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco

from builders.stage_text import body, findings, header, plan_text, prim, stage_of, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.model.physics import Dof, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions

DEGREE = math.pi / 180.0
ARMATURE, FRICTION, DAMPING = 0.3, 0.2, 0.5
STIFFNESS, LIMIT_DAMPING = 200.0, 5.0
MULTIPLIER, OFFSET = -2.0, 0.25
SECONDS = 0.4

# What the schemas say of units: Newton's and PhysX' gains are per degree on hinges, MuJoCo's per radian; inertia and
# effort are in mass, length and seconds of the stage. PhysX' rule is `follower + gearing * leader + offset = 0`.
HINGE: Mapping[str, str] = {
    "newton": """
float newton:armature = {armature}
float newton:friction = {friction}
float newton:damping = {damping_per_degree}
""",
    "physx": """
float physxJointAxis:angular:armature = {armature}
float physxJointAxis:angular:staticFrictionEffort = {friction}
float physxJointAxis:angular:dynamicFrictionEffort = {friction}
float physxJointAxis:angular:viscousFrictionCoefficient = {damping_per_degree}
""",
    "mjc": """
double mjc:armature = {armature}
double mjc:frictionloss = {friction}
double mjc:damping = {damping}
""",
}
SLIDE: Mapping[str, str] = {
    "newton": HINGE["newton"].replace("_per_degree", ""),
    "physx": HINGE["physx"].replace("_per_degree", "").replace("angular", "linear"),
    "mjc": HINGE["mjc"],
}
LIMITS: Mapping[str, str] = {
    "newton": "float newton:limitStiffness = {stiffness}\nfloat newton:limitDamping = {damping}",
    "physx": "float physxLimit:angular:stiffness = {stiffness}\nfloat physxLimit:angular:damping = {damping}",
}
MIMICS: Mapping[str, tuple[str, str]] = {
    "newton": (
        "NewtonMimicAPI",
        f"""
rel newton:mimicJoint = </World/lead>
float newton:mimicCoef1 = {MULTIPLIER}
float newton:mimicCoef0 = {OFFSET / DEGREE}
""",
    ),
    "physx": (
        "PhysxMimicJointAPI:rotY",
        f"""
rel physxMimicJoint:rotY:referenceJoint = </World/lead>
float physxMimicJoint:rotY:gearing = {-MULTIPLIER}
float physxMimicJoint:rotY:offset = {-OFFSET / DEGREE}
""",
    ),
    "mjc": (
        "MjcEqualityJointAPI",
        f"""
rel mjc:target = </World/lead>
double mjc:coef1 = {MULTIPLIER}
double mjc:coef0 = {OFFSET}
""",
    ),
}
EXTENDED = f"""
rel ext_physics:mimic:joint = </World/lead>
float ext_physics:mimic:multiplier = {MULTIPLIER}
float ext_physics:mimic:offset = {OFFSET / DEGREE}
"""


def stage_text(
    *of_lead: str,
    schemas: str = "",
    follow: tuple[str, str] = ("", ""),
    kind: str = "Revolute",
    more: str = "",
) -> str:
    """Two bodies on joints of the world; the mass of each is beside its joint."""
    mass = (
        "float physics:mass = 1",
        "point3f physics:centerOfMass = (0.3, 0, 0)",
        "float3 physics:diagonalInertia = (0.01, 0.01, 0.01)",
    )
    ends = (
        'uniform token physics:axis = "Y"',
        "float physics:lowerLimit = -170",
        "float physics:upperLimit = 170",
    )

    def joint(name: str, schemas: str, *lines: str) -> str:
        of = f"rel physics:body1 = </World/{name}_body>"
        return prim(f"Physics{kind}Joint", name, schemas, *ends, of, *lines)

    return world(
        prim("PhysicsScene", "scene"),
        body("lead_body", *mass),
        body("follow_body", *mass),
        joint("lead", schemas, *of_lead),
        joint("follow", *follow) if follow[0] or follow[1] else "",
        more,
    )


def dof_of(plan: BridgePlan, name: str = "lead") -> Dof:
    assert plan.physics is not None
    (dof,) = next(each for each in plan.physics.joints if each.path == f"/World/{name}").dofs
    return dof


def positions(scene: PhysicsScene) -> tuple[Any, dict[str, float]]:
    """The positions of the joints, after a fall of SECONDS."""
    compiled = compile_model(build_spec(scene, lambda *_: None, options=MujocoOptions()))
    data = mujoco.MjData(compiled.model)
    compiled.start(data)
    return compiled.model, fallen(compiled.model, data)


def fallen(model: Any, data: Any) -> dict[str, float]:
    while data.time < SECONDS:
        mujoco.mj_step(model, data)
    names = [model.joint(number).name.rpartition("/")[2] for number in range(model.njnt)]
    return {name: float(data.qpos[model.jnt_qposadr[number]]) for number, name in enumerate(names)}


def oracle(like: Any, joint: str, equality: str = "") -> dict[str, float]:
    """The same fall of a model that is written in MuJoCo's own language, with the steps of another model."""
    inertial = '<inertial mass="1" pos="0.3 0 0" diaginertia="0.01 0.01 0.01"/>'
    model = mujoco.MjModel.from_xml_string(f"""
<mujoco><option timestep="{like.opt.timestep}"/><worldbody>
  <body><joint name="lead" axis="0 1 0" {joint}/>{inertial}</body>
  <body><joint name="follow" axis="0 1 0"/>{inertial}</body>
</worldbody>{equality}</mujoco>""")
    model.opt.integrator = like.opt.integrator
    model.opt.gravity = like.opt.gravity
    return fallen(model, mujoco.MjData(model))


@each_case(("meters", "kilograms"), [(1.0, 1.0), (0.01, 0.001), (0.0254, 0.45)])
@each_case("kind", ["Revolute", "Prismatic"])
@each_case("dialect", ["newton", "physx", "mjc"])
def test_armature_friction_and_damping(dialect: str, kind: str, meters: float, kilograms: float) -> None:
    turns = kind == "Revolute"
    inertia = kilograms * (meters**2 if turns else 1.0)
    lines = (HINGE if turns else SLIDE)[dialect].format(
        armature=ARMATURE / inertia,
        friction=FRICTION / (kilograms * meters ** (2 if turns else 1)),
        damping=DAMPING / inertia,
        damping_per_degree=DAMPING / inertia * DEGREE,
    )
    dof = dof_of(plan_text(stage_text(lines, kind=kind), meters=meters, kilograms=kilograms))
    assert (dof.armature, dof.friction, dof.damping) == pytest.approx((ARMATURE, FRICTION, DAMPING))


@each_case("dialect", ["newton", "physx", "mjc"])
def test_armature_friction_and_damping_move_as_in_mujoco(dialect: str) -> None:
    lines = HINGE[dialect].format(
        armature=ARMATURE, friction=FRICTION, damping=DAMPING, damping_per_degree=DAMPING * DEGREE
    )
    plan = plan_text(stage_text(lines))
    assert plan.physics is not None
    model, found = positions(plan.physics)
    own = oracle(model, f'armature="{ARMATURE}" frictionloss="{FRICTION}" damping="{DAMPING}"')
    assert own["lead"] > 0.3
    assert found["lead"] == pytest.approx(own["lead"], rel=1e-5)
    assert abs(oracle(model, "")["lead"] - own["lead"]) > 0.1, "the attributes make no difference"


@each_case("dialect", ["newton", "physx"])
def test_limit_gains(dialect: str) -> None:
    """MuJoCo has them per unit of mass (mjc:solreflimit): these act as they are."""
    lines = LIMITS[dialect].format(stiffness=STIFFNESS * DEGREE, damping=LIMIT_DAMPING * DEGREE)
    dof = dof_of(plan_text(stage_text(lines)))
    assert (dof.limit_stiffness, dof.limit_damping) == pytest.approx((STIFFNESS, LIMIT_DAMPING))


def test_mujocos_own_limits_act_as_they_are() -> None:
    plan = plan_text(stage_text("uniform double[] mjc:solreflimit = [-200, -5]"))
    assert plan.physics is not None
    model, _ = positions(plan.physics)
    assert model.jnt_solref[0] == pytest.approx((-200.0, -5.0))
    assert dof_of(plan).limit_stiffness == 0.0


@each_case("dialect", ["newton", "physx", "mjc", "extended"])
def test_mimics(dialect: str) -> None:
    follow = MIMICS.get(dialect, ("ExtendedPhysicsMimicAPI", EXTENDED))
    plan = plan_text(stage_text(follow=follow))
    rule = dof_of(plan, "follow").mimic
    assert rule is not None
    assert (rule.multiplier, rule.offset) == pytest.approx((MULTIPLIER, OFFSET))
    assert plan.physics is not None
    model, found = positions(plan.physics)
    own = oracle(
        model,
        "",
        f'<equality><joint joint1="follow" joint2="lead" polycoef="{OFFSET} {MULTIPLIER} 0 0 0" '
        'solref="0.005 1"/></equality>',
    )
    assert found["follow"] == pytest.approx(OFFSET + MULTIPLIER * found["lead"], abs=0.02)
    assert found == pytest.approx(own, abs=0.05)


GAIN, RATE = 40.0, 3.0
DRIVES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "newton": (
        prim(
            "NewtonActuator",
            "drive",
            "NewtonPDControlAPI",
            "rel newton:targets = </World/lead>",
            f"float newton:kp = {GAIN}",
            f"float newton:kd = {RATE}",
        ),
        (),
    ),
    "mjc": (
        prim(
            "MjcActuator",
            "drive",
            "",
            "rel mjc:target = </World/lead>",
            f"uniform double[] mjc:gainPrm = [{GAIN}]",
            'uniform token mjc:biasType = "affine"',
            f"uniform double[] mjc:biasPrm = [0, -{GAIN}, -{RATE}]",
        ),
        (),
    ),
    # PhysX has no gains of its own: its drives are those of UsdPhysics, per degree.
    "physx": (
        "",
        (
            f"float drive:angular:physics:stiffness = {GAIN * DEGREE}",
            f"float drive:angular:physics:damping = {RATE * DEGREE}",
        ),
    ),
}


@each_case("dialect", ["newton", "physx", "mjc"])
def test_gains(dialect: str) -> None:
    more, lines = DRIVES[dialect]
    schemas = "PhysicsDriveAPI:angular" if lines else ""
    plan = plan_text(stage_text(*lines, schemas=schemas, more=more))
    assert plan.physics is not None
    model, found = positions(plan.physics)
    own = oracle(
        model,
        "",
        f'<actuator><position joint="lead" kp="{GAIN}" kv="{RATE}"/></actuator>',
    )
    assert found["lead"] == pytest.approx(own["lead"], rel=5e-3)


# --- Two dialects -------------------------------------------------------------------------------------------------


def degraded(plan: BridgePlan) -> list[tuple[str, str, str]]:
    return [
        (each.path, each.attribute, each.message)
        for each in findings(plan, "1.4.degraded")
        if each.reason == "vendor layer ignored"
    ]


@each_case(
    ("stronger", "weaker"),
    [
        ("float newton:armature = 0.1", "double mjc:armature = 0.2"),
        ("float newton:armature = 0.1", "float physxJoint:armature = 0.2"),
        ("float physxJoint:armature = 0.1", "double mjc:armature = 0.2"),
        ("float newton:friction = 0.1", "double mjc:frictionloss = 0.2"),
        ("float newton:damping = 0.1", "double mjc:damping = 0.1"),
        ("float newton:velocityLimit = 90", "float physxJoint:maxJointVelocity = 180"),
        ("float newton:limitStiffness = 9", "float physxLimit:angular:stiffness = 8"),
        ("double[] mjc:solreflimit = [0.02, 1]", "float newton:limitStiffness = 9"),
    ],
)
def test_a_weaker_value_is_reported(stronger: str, weaker: str) -> None:
    name, used = (line.split()[1] for line in (weaker, stronger))
    expected = [("/World/lead", name, f"vendor layer ignored: {used} is used instead")]
    assert degraded(plan_text(stage_text(weaker, stronger))) == expected


@each_case(
    "lines",
    [
        ("float newton:armature = 0.1", "double mjc:armature = 0.1"),
        (f"float newton:damping = {DAMPING * DEGREE}", f"double mjc:damping = {DAMPING}"),
        ("float newton:armature = 0.1", "double mjc:frictionloss = 0.1"),
        ("float newton:limitStiffness = -inf", "double[] mjc:solreflimit = [0.02, 1]"),
        ("double mjc:armature = 0.1",),
    ],
)
def test_equal_values_say_nothing(lines: tuple[str, ...]) -> None:
    assert degraded(plan_text(stage_text(*lines))) == []


def test_the_order_is_that_of_schema_resolvers() -> None:
    text = stage_text("float newton:armature = 0.1", "double mjc:armature = 0.2")
    options = PlanOptions(schema_resolvers=("mjc", "newton"))
    plan = load_plan(stage_of(text, header()), plan_options=options, physics=True)
    assert dof_of(plan).armature == pytest.approx(0.2)
    assert degraded(plan) == [
        ("/World/lead", "newton:armature", "vendor layer ignored: mjc:armature is used instead")
    ]


@each_case(("stronger", "weaker"), [("newton", "physx"), ("newton", "mjc"), ("physx", "mjc")])
def test_mimic_rules_of_two_vendors(stronger: str, weaker: str) -> None:
    schemas, lines = (" ".join(both) for both in zip(MIMICS[stronger], MIMICS[weaker], strict=True))
    assert degraded(plan_text(stage_text(follow=(schemas, lines)))) == []
    other = lines.replace(f"mjc:coef1 = {MULTIPLIER}", "mjc:coef1 = 7").replace(
        f"gearing = {-MULTIPLIER}", "gearing = 7"
    )
    ((path, attribute, message),) = degraded(plan_text(stage_text(follow=(schemas, other))))
    assert path == "/World/follow"
    names = {
        "newton": "newton:mimicJoint",
        "physx": "physxMimicJoint:rotY:referenceJoint",
        "mjc": "mjc:target",
    }
    assert attribute == names[weaker]
    assert message == f"vendor layer ignored: {names[stronger]} is used instead"


def test_rules_below_ext_physics_name_the_vendors_attributes() -> None:
    plan = plan_text(stage_text(follow=("ExtendedPhysicsMimicAPI", EXTENDED)))
    (info,) = findings(plan, "1.4.ext_physics")
    assert (info.severity, info.path) == ("info", "/World/follow")
    assert "newton:mimicJoint" in info.remedy
    assert findings(plan_text(stage_text(follow=MIMICS["newton"])), "1.4.ext_physics") == []
