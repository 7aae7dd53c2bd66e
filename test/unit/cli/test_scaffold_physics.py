"""Physics that `usd_ros_bridge scaffold` adds: drives, free and fixed bases, ground, collision filters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from case_tables import each_case

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd, UsdGeom
from scaffolding import (
    EXAMPLES,
    HEADER,
    Scaffolded,
    body,
    cart,
    cylinder,
    joint,
    robot,
    run,
    scaffold,
    scaffold_text,
)

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.physics import Drive, Plane
from usd_ros_bridge.planning.scaffold_base import CLEARANCE, FIXED_CLEARANCE
from usd_ros_bridge.planning.scaffold_drives import DROOP
from usd_ros_bridge.spatial.transforms import pose_array

ASSETS = Path(__file__).parents[2] / "assets"
TWO_WHEELS = (("left_wheel", (0.0, 0.2, 0.0)), ("right_wheel", (0.0, -0.2, 0.0)))
ANCHOR = joint("anchor", "", "/robot/base", kind="Fixed")
WEIGHTS = (
    "point3f physics:centerOfMass = ({0}, 0, 0)\n"
    "    float3 physics:diagonalInertia = (0.01, 0.2, 0.2)\n"
    "    quatf physics:principalAxes = (1, 0, 0, 0)"
)


def link(name: str, *, center: float = 0.0, at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> str:
    return body(name, WEIGHTS.format(center), at=at)


def drive_of(result: Scaffolded, name: str) -> Drive:
    drive = drives(load_plan(result.path, physics=True))[name]
    assert drive is not None
    return drive


def drives(plan: object) -> dict[str, Drive | None]:
    """The drives of joints with one degree of freedom, by the name of the prim."""
    return {each.path.rpartition("/")[2]: each.dofs[0].drive for each in plan.physics.joints if each.dofs}  # type: ignore[attr-defined]


def spinner(extra: str = "", *, limits: tuple[float, float] | None = None) -> str:
    """A link of 0.2 kg m^2 about a vertical axis through its centre: gravity does not load it."""
    hinge = joint("hinge", "/robot/base", "/robot/tip", axis="Z", limits=limits)
    return robot(
        link("base"),
        ANCHOR,
        link("tip"),
        hinge.replace("rel physics:body1", f"{extra}\n    rel physics:body1"),
    )


# --- Drives -------------------------------------------------------------------------------------------------------


def test_gains_follow_from_inertia_frequency_and_damping_ratio(tmp_path: Path) -> None:
    result = scaffold_text(
        spinner(), tmp_path, "--drives", "--natural-frequency", "2", "--damping-ratio", "0.7"
    )
    drive = drive_of(result, "hinge")
    frequency = 2.0 * math.pi * 2.0
    assert not drive.acceleration
    assert drive.stiffness == pytest.approx(0.2 * frequency**2, rel=1e-5)
    assert drive.damping == pytest.approx(2.0 * 0.7 * 0.2 * frequency, rel=1e-5)
    assert drive.max_force == math.inf
    assert any("w = 2 pi 2 Hz, z = 0.7" in line for line in result.decisions("drives"))


def test_weight_makes_a_drive_stiffer_so_that_it_droops_little(tmp_path: Path) -> None:
    hinge = joint("hinge", "/robot/base", "/robot/tip")
    text = robot(link("base"), ANCHOR, link("tip", center=0.5), hinge)
    drive = drive_of(scaffold_text(text, tmp_path, "--drives", "--natural-frequency", "2"), "hinge")
    assert drive.stiffness == pytest.approx(9.81 * 0.5 / DROOP["rot"], rel=1e-4)
    assert drive.damping == pytest.approx(2.0 * drive.stiffness / (2.0 * math.pi * 2.0), rel=1e-4)


def test_the_effort_limit_of_a_urdf_bounds_the_drive(tmp_path: Path) -> None:
    result = scaffold_text(spinner("custom float urdf:limit:effort = 12"), tmp_path, "--drives")
    assert drive_of(result, "hinge").max_force == 12.0
    assert any("at most 12 N m" in line for line in result.decisions("drives"))


def test_an_effort_limit_of_zero_is_none(tmp_path: Path) -> None:
    result = scaffold_text(spinner("custom float urdf:limit:effort = 0"), tmp_path, "--drives")
    plan = load_plan(result.path, physics=True)
    (dof,) = next(each for each in plan.physics.joints if each.dofs).dofs  # type: ignore[union-attr]
    assert dof.max_effort == math.inf


def test_a_drive_holds_the_nearest_position_within_the_limits(tmp_path: Path) -> None:
    result = scaffold_text(spinner(limits=(10.0, 50.0)), tmp_path, "--drives")
    assert drive_of(result, "hinge").target_position == pytest.approx(math.radians(10.0), rel=1e-5)
    assert any("outside of its limits" in line for line in result.decisions("drives"))


def test_a_finger_grips_with_its_full_effort_at_a_tenth_of_its_range(tmp_path: Path) -> None:
    slide = joint("finger_joint", "/robot/base", "/robot/finger", kind="Prismatic", limits=(0.0, 0.01))
    slide = slide.replace("rel physics:body1", "custom float urdf:limit:effort = 20\n    rel physics:body1")
    result = scaffold_text(robot(link("base"), ANCHOR, link("finger"), slide), tmp_path, "--drives")
    drive = drive_of(result, "finger_joint")
    assert drive.max_force == 20.0
    assert drive.stiffness == pytest.approx(20.0 / 0.001, rel=1e-4)


def arm(*, meters: float = 1.0, kilograms: float = 1.0, up: str = "Z") -> str:
    """An arm of a hinge and a slide whose links weigh 2 kg, in any units and with any axis up."""

    def place(x: float, y: float, z: float) -> str:
        turned = (x, y, z) if up == "Z" else (x, z, -y)
        return str(tuple(each / meters for each in turned))

    def rigid(name: str, x: float) -> str:
        return (
            f'def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])\n{{\n'
            f"float physics:mass = {2.0 / kilograms}\npoint3f physics:centerOfMass = {place(0.1, 0, 0)}\n"
            f"float3 physics:diagonalInertia = {(0.02 / kilograms / meters**2,) * 3}\n"
            f"double3 xformOp:translate = {place(x, 0, 0.5)}\n"
            'uniform token[] xformOpOrder = ["xformOp:translate"]\n'
            'def Cube "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\n'
            f"double size = {0.1 / meters}\n}}\n}}\n"
        )

    def between(kind: str, name: str, axis: str, one: str, other: str, x: float) -> str:
        return (
            f'def Physics{kind}Joint "{name}"\n{{\n'
            f"rel physics:body0 = </robot/{one}>\nrel physics:body1 = </robot/{other}>\n"
            f'uniform token physics:axis = "{axis}"\npoint3f physics:localPos0 = {place(x, 0, 0)}\n'
            f"float physics:lowerLimit = {-1 / meters if kind == 'Prismatic' else -90}\n"
            f"float physics:upperLimit = {1 / meters if kind == 'Prismatic' else 90}\n"
            # A URDF's numbers are SI whatever the stage's units.
            "custom float urdf:limit:effort = 50\n}\n"
        )

    header = HEADER.format(name="robot").replace("metersPerUnit = 1", f"metersPerUnit = {meters}")
    header = header.replace("kilogramsPerUnit = 1", f"kilogramsPerUnit = {kilograms}").replace(
        '"Z"', f'"{up}"'
    )
    return header + robot(
        rigid("base", 0.0), 'def PhysicsFixedJoint "anchor" {\nrel physics:body1 = </robot/base>\n'
        f"point3f physics:localPos0 = {place(0, 0, 0.5)}\n}}\n",
        rigid("upper", 0.3), rigid("lower", 0.6),
        between("Revolute", "hinge", "Y" if up == "Z" else "Z", "base", "upper", 0.3),
        between("Prismatic", "slide", "X", "upper", "lower", 0.3),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("meters", "kilograms", "up"), [(0.01, 1.0, "Z"), (1.0, 0.001, "Y"), (0.01, 0.001, "Y")]
)
def test_drives_and_ground_are_the_same_in_all_units(
    tmp_path: Path, meters: float, kilograms: float, up: str
) -> None:
    plans = []
    for name, units in (("one", {}), ("other", {"meters": meters, "kilograms": kilograms, "up": up})):
        folder = tmp_path / name
        folder.mkdir()
        asset = folder / "robot.usda"
        asset.write_text(arm(**units), encoding="utf-8")  # type: ignore[arg-type]
        scaffold(asset, folder / "ros.usda", "--drives", "--ground")
        plans.append(load_plan(folder / "ros.usda", physics=True))
    expected, found = (drives(plan) for plan in plans)
    assert expected.keys() == {"hinge", "slide"}
    for name, drive in expected.items():
        other = found[name]
        assert drive is not None
        assert other is not None
        for field in ("stiffness", "damping", "max_force"):
            assert getattr(other, field) == pytest.approx(getattr(drive, field), rel=1e-4)
    grounds = [[c for c in plan.physics.colliders if isinstance(c.shape, Plane)] for plan in plans]  # type: ignore[union-attr]
    for (ground,) in grounds:
        assert ground.body == -1
        assert ground.body_from_shape.translation == pytest.approx(
            (0.0, 0.0, 0.45 - FIXED_CLEARANCE), abs=2e-4
        )
    assert plans[1].physics.gravity == pytest.approx((0.0, 0.0, -9.81), rel=1e-5)  # type: ignore[union-attr]


def test_drives_of_the_asset_and_mimic_joints_and_casters_are_left_alone(tmp_path: Path) -> None:
    mimic = joint("follower", "/robot/base", "/robot/link_1").replace(
        'Joint "follower"', 'Joint "follower" (prepend apiSchemas = ["NewtonMimicAPI"])'
    ).replace("rel physics:body1", "rel newton:mimicJoint = </robot/plain>\n    rel physics:body1")  # fmt: skip
    text = robot(
        link("base"), ANCHOR, *(link(f"link_{number}") for number in range(4)),
        joint("plain", "/robot/base", "/robot/link_0"), mimic,
        joint("driven", "/robot/base", "/robot/link_2", drive=(7.0, 3.0)),
        joint("caster_swivel", "/robot/base", "/robot/link_3", axis="Z"),
    )  # fmt: skip
    result = scaffold_text(text, tmp_path, "--drives")
    found = drives(load_plan(result.path, physics=True))
    assert found["driven"] is not None
    assert found["driven"].stiffness == pytest.approx(7.0 * 180.0 / math.pi, rel=1e-5)
    assert found["plain"] is not None
    assert (found["follower"], found["caster_swivel"]) == (None, None)
    said = " ".join(result.decisions("drives"))
    for reason in (
        "driven: a drive or actuator of the asset",
        "follower: mimic joints",
        "caster_swivel: casters",
    ):
        assert reason in said


def test_wheels_get_velocity_drives_with_their_share_of_the_robot(tmp_path: Path) -> None:
    result = scaffold_text(cart(*TWO_WHEELS), tmp_path, "--drives")
    drive = drive_of(result, "left_wheel_joint")
    assert drive.stiffness == 0.0
    # Half of 3 kg at the wheel's radius, and the wheel's own moment of inertia.
    share = 1.5 * 0.1**2
    assert drive.damping > 2.0 * share * 2.0 * math.pi * 10.0
    assert result.controller("diff_drive").enabled
    assert not [line for line in result.lines if "no PhysicsDriveAPI" in line]


WEIGHT = 3.0 * 9.81 * 0.1
"""N m: of a cart on two wheels, at their radius."""


@each_case(
    ("asset", "limit", "damping"),
    [
        # What tyres can use, and half as much again.
        ("", 1.5 * WEIGHT / 2.0, WEIGHT / 2.0 / 0.1),
        ("custom float urdf:limit:effort = 0", 1.5 * WEIGHT / 2.0, WEIGHT / 2.0 / 0.1),
        ("custom float urdf:limit:effort = 2", 2.0, WEIGHT / 2.0 / 0.1),
        # Its own damping takes 1 % of the speed; at 1 m/s it needs 10 rad/s of effort besides.
        ("double mjc:damping = 0.5", 1.5 * WEIGHT / 2.0 + 5.0, 50.0),
        ("double mjc:frictionloss = 1", 1.5 * WEIGHT / 2.0 + 1.0, (WEIGHT / 2.0 + 1.0) / 0.1),
    ],
)
def test_wheels_have_the_effort_that_their_tyres_can_use(
    tmp_path: Path, asset: str, limit: float, damping: float
) -> None:
    text = cart(*TWO_WHEELS).replace("rel physics:body1", f"{asset}\n    rel physics:body1")
    if "mjc" in asset:
        text = text.replace('_wheel_joint"', '_wheel_joint" (prepend apiSchemas = ["MjcJointAPI"])')
    result = scaffold_text(text, tmp_path, "--drives", "--ground")
    for name in ("left_wheel_joint", "right_wheel_joint"):
        drive = drive_of(result, name)
        assert (drive.max_force, drive.damping) == pytest.approx((limit, damping), rel=1e-4)


def test_the_base_of_driven_wheels_accelerates_by_1_m_s2(tmp_path: Path) -> None:
    result = scaffold_text(cart(*TWO_WHEELS), tmp_path, "--drives")
    parameters = result.controller("diff_drive").parameters
    # The wheels are 0.4 m apart.
    assert (parameters["linear_max_acceleration"], parameters["angular_max_acceleration"]) == (1.0, 5.0)
    assert "+ differential drive: at most 1 m/s^2, 5 rad/s^2: no file names others" in result.lines, (
        result.lines
    )
    plain = scaffold(tmp_path / "robot.usda", tmp_path / "plain.usda")
    assert plain.controller("diff_drive").parameters["linear_max_acceleration"] is None


CASTERS = "".join(
    (
        *(body(name, at=(0.2, 0.0, 0.0)) for name in ("caster", "rear", "lift")),
        joint("caster_wheel_joint", "/robot/base_link", "/robot/caster", at=(0.2, 0, 0)),
        joint("rear_wheel_joint", "/robot/base_link", "/robot/rear", at=(0.2, 0, 0)),
    )
)
LIFT = joint("lift_joint", "/robot/base_link", "/robot/lift", kind="Prismatic", axis="Z", limits=(0.0, 0.1))


@each_case(("extra", "commanded"), [(CASTERS, ""), (CASTERS + LIFT, "lift_joint")])
def test_casters_take_no_commands_and_are_in_joint_states(tmp_path: Path, extra: str, commanded: str) -> None:
    result = scaffold_text(cart(*TWO_WHEELS, extra=extra), tmp_path, "--drives")
    found = drives(load_plan(result.path, physics=True))
    assert (found["caster_wheel_joint"], found["rear_wheel_joint"]) == (None, None)
    names = {topic.name: topic for topic in result.plan.topics}
    assert ("/robot/joint_commands" in names) == bool(commanded)
    layout = result.plan.layout.dofs
    assert {layout[row] for row in names["/robot/joint_states"].dofs} >= {
        "caster_wheel_joint",
        "rear_wheel_joint",
    }
    said = "caster_wheel_joint, rear_wheel_joint: no motor turns them; their positions are in joint_states"
    assert result.decisions("joint commands") == [
        f"- joint commands: {said}",
        *([f"+ joint commands: joint_commands, for {commanded}"] if commanded else []),
    ]


def hull(name: str, x: float, z: float) -> str:
    return f"""
def Cube "{name}" (prepend apiSchemas = ["PhysicsCollisionAPI"])
{{
    double size = 0.02
    double3 xformOp:translate = ({x}, 0, {z})
    uniform token[] xformOpOrder = ["xformOp:translate"]
}}
"""


@each_case(
    ("boxes", "sliding", "weight"),
    [
        # Those that touch first when the cart leans, ahead and behind; one further up, and one above the axle do not.
        (
            (("nose", 0.2, -0.05), ("tail", -0.2, -0.05), ("roof", 0.2, 0.1), ("keel", 0.0, -0.05)),
            ["nose", "tail"],
            0.0,
        ),
        # It stands on a ball, behind where its weight is, or ahead of it: then it leans.
        ((("nose", 0.2, -0.05), ("ball", -0.2, -0.09)), ["ball"], -0.1),
        # As it brakes: 0.1 m is the height of its weight.
        ((("nose", 0.2, -0.05), ("ball", -0.2, -0.09)), ["nose", "ball"], -0.005),
        ((("nose", 0.2, -0.05), ("ball", -0.2, -0.09)), ["nose", "ball"], 0.1),
    ],
)
def test_a_robot_on_one_axle_slides_on_what_it_leans_on(
    tmp_path: Path, boxes: tuple[tuple[str, float, float], ...], sliding: list[str], weight: float
) -> None:
    text = cart(*TWO_WHEELS)
    content = f"point3f physics:centerOfMass = ({weight}, 0, 0.01)\n"
    content += "".join(hull(*each) for each in boxes)
    start = text.index("}", text.index('def Xform "base_link"'))
    result = scaffold_text(text[:start] + content + text[start:], tmp_path, "--drives", "--ground")
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    frictions = {
        each.path.removeprefix("/robot/"): each.material.dynamic_friction
        for each in plan.physics.colliders
        if each.material is not None
    }
    assert frictions == {f"base_link/{name}": 0.0 for name in sliding}


def test_own_damping_of_a_held_joint_is_a_tenth_of_its_drives(tmp_path: Path) -> None:
    text = spinner("double mjc:damping = 30").replace(
        '"hinge"', '"hinge" (prepend apiSchemas = ["MjcJointAPI"])'
    )
    drive = drive_of(scaffold_text(text, tmp_path, "--drives"), "hinge")
    assert drive.damping == pytest.approx(300.0, rel=1e-4)
    assert drive.stiffness == pytest.approx(300.0 * 2.0 * math.pi * 10.0 / 2.0, rel=1e-4)


def test_several_robots_get_their_own_drives(tmp_path: Path) -> None:
    def one(name: str) -> str:
        text = robot(link("base"), ANCHOR, link("tip"), joint("hinge", "/robot/base", "/robot/tip"))
        return text.replace("/robot/", f"/World/{name}/").replace(
            'Xform "robot"', f'Xform "{name}" (prepend apiSchemas = ["IsaacRobotAPI"])', 1
        )

    result = scaffold_text(
        f'def Xform "World"\n{{\n{one("left")}{one("right")}}}\n', tmp_path, "--drives", name="World"
    )
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    driven = [each.path for each in plan.physics.joints if each.dofs and each.dofs[0].drive is not None]
    assert driven == ["/World/left/hinge", "/World/right/hinge"]


def test_a_robot_in_a_payload_keeps_its_drives_at_the_inner_prim(tmp_path: Path) -> None:
    (tmp_path / "content.usda").write_text(HEADER.format(name="robot") + spinner(), encoding="utf-8")
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot") + 'def Xform "robot" ( prepend payload = @./content.usda@ ) {}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda", "--drives", "--ground", "--free-base")
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    assert [each.path for each in plan.physics.joints if each.dofs and each.dofs[0].drive is not None] == [
        "/robot/robot/hinge"
    ]
    assert plan.robots[0].base >= 0


def test_a_robot_in_a_payload_is_fixed_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "content.usda").write_text(
        HEADER.format(name="robot") + spinner().replace(ANCHOR, ""), encoding="utf-8"
    )
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot")
        + 'def Xform "robot" ( prepend payload = @./content.usda@ )\n{\n'
        + "    double3 xformOp:translate = (3, 0, 1)\n"
        + '    uniform token[] xformOpOrder = ["xformOp:translate"]\n}\n',
        encoding="utf-8",
    )
    before = load_plan(asset, physics=True).physics
    after = load_plan(scaffold(asset, tmp_path / "ros.usda", "--fix-base").path, physics=True).physics
    assert before is not None
    assert after is not None
    for one, other in zip(before.bodies, after.bodies, strict=True):
        assert pose_array(one.world_from_body) == pytest.approx(pose_array(other.world_from_body))
    assert any(each.path.endswith("/FixedBase") and not each.dofs for each in after.joints)


def test_what_the_layer_says_about_a_relationship_is_added_to_what_stays(tmp_path: Path) -> None:
    """The robot filters a prim outside of it, and the layer filters a pair that overlaps at rest."""
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    box = 'def Cube "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\ndouble size = 0.2\n}'
    content = robot(
        body("base", box), ANCHOR, body("middle", at=(0.1, 0, 0)), body("hand", box, at=(0.19, 0, 0)),
        joint("one", "/robot/base", "/robot/middle", at=(0.1, 0, 0)),
        joint("two", "/robot/middle", "/robot/hand", at=(0.09, 0, 0)),
    )  # fmt: skip
    (tmp_path / "content.usda").write_text(HEADER.format(name="robot") + content, encoding="utf-8")
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot")
        + 'def Xform "robot" ( prepend payload = @./content.usda@ )\n{\n'
        + '    over "base" ( prepend apiSchemas = ["PhysicsFilteredPairsAPI"] )\n    {\n'
        + "        rel physics:filteredPairs = </table>\n    }\n}\n"
        + 'def Cube "table" ( prepend apiSchemas = ["PhysicsCollisionAPI"] )\n{\n'
        + "    double3 xformOp:translate = (5, 0, 0)\n"
        + '    uniform token[] xformOpOrder = ["xformOp:translate"]\n}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda", "--drives")
    stage = Usd.Stage.Open(str(result.path))
    base = stage.GetPrimAtPath("/robot/robot/base")
    found = {str(each) for each in base.GetRelationship("physics:filteredPairs").GetTargets()}
    assert found == {"/table", "/robot/robot/hand"}


def test_joints_in_an_instance_get_no_drive(tmp_path: Path) -> None:
    (tmp_path / "leg.usda").write_text(
        HEADER.format(name="leg")
        + 'def Xform "leg"\n{\n'
        + link("thigh") + link("shank") + joint("knee", "/leg/thigh", "/leg/shank")
        + "}\n"
    , encoding="utf-8")  # fmt: skip
    text = robot(
        link("base"), ANCHOR, 'def "leg" ( instanceable = true\n references = @./leg.usda@ ) {}\n',
        joint("hip", "/robot/base", "/robot/leg/thigh"),
    )  # fmt: skip
    result = scaffold_text(text, tmp_path, "--drives")
    plan = load_plan(result.path, physics=True)
    assert [name for name, drive in drives(plan).items() if drive is not None] == ["hip"]
    assert any("knee: below an instance" in line for line in result.decisions("drives"))


# --- Interfaces are there already -----------------------------------------------------------------------------------


def test_a_robot_with_interfaces_gets_drives_alone(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + spinner(), encoding="utf-8")
    scaffold(asset, tmp_path / "ros.usda")
    before = load_plan(tmp_path / "ros.usda")
    result = scaffold(tmp_path / "ros.usda", tmp_path / "physics.usda", "--drives")
    assert drive_of(result, "hinge").stiffness > 0.0
    assert "Ros" not in result.path.read_text(encoding="utf-8").partition(")\n")[2]
    assert result.plan.topics == before.topics


# --- Bases --------------------------------------------------------------------------------------------------------


def ghosted(*extra: str) -> str:
    """A robot as urdf-usd-converter writes one whose root link has no mass: links below hang from the world."""
    return robot(
        'def Xform "base_footprint"\n{\n',
        link("base_link", at=(0.0, 0.0, 0.2)), body("cover", at=(0.1, 0.2, 0.3)),
        "}\n", *extra,
        joint("base_joint", "/robot", "/robot/base_footprint/base_link", kind="Fixed", at=(0, 0, 0.2)),
        joint("cover_joint", "/robot", "/robot/base_footprint/cover", kind="Fixed", at=(0.1, 0.2, 0.3)),
    )  # fmt: skip


def converted(text: str) -> str:
    note = 'customLayerData = { string creator = "URDF USD Converter v0.3.4" }\n    defaultPrim'
    return HEADER.format(name="robot").replace("defaultPrim", note, 1) + text


def test_a_root_link_without_mass_is_recognised(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(converted(ghosted()), encoding="utf-8")
    result = scaffold(asset, tmp_path / "ros.usda")
    (said,) = result.decisions("base")
    assert said.startswith("! base: the root link base_footprint has no mass")
    assert "base_link, cover" in said


def test_a_freed_robot_floats_as_one(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(converted(ghosted()), encoding="utf-8")
    result = scaffold(asset, tmp_path / "ros.usda", "--free-base")
    before, plan = load_plan(asset, physics=True), load_plan(result.path, physics=True)
    assert (before.robots[0].base, plan.robots[0].base >= 0) == (-1, True)
    assert plan.physics is not None
    roots = [each.path for each in plan.physics.bodies if each.parent < 0]
    assert roots == ["/robot/base_footprint/base_link"]
    assert dict(zip(plan.layout.bodies, plan.layout.body_pose.tolist(), strict=True))[
        "/robot/base_footprint/cover"
    ] == pytest.approx([0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0])
    assert not [each for each in plan.diagnostics if each.code.startswith("1.3.frames")]
    # What was the root link still is.
    assert (result.frames()["base_footprint"], result.frames()["base_link"]) == ("robot", "base_footprint")


def test_wheels_of_a_root_link_without_mass_drive_what_is_fixed_to_it(tmp_path: Path) -> None:
    """As of a URDF whose base_link is empty and carries chassis and wheels."""
    wheels = [
        part
        for name, y in (("left_wheel", 0.2), ("right_wheel", -0.2))
        for part in (
            body(name, cylinder(0.1), at=(0.0, y, 0.1)),
            joint(f"{name}_joint", "/robot", f"/robot/{name}", at=(0.0, y, 0.1)),
        )
    ]
    asset = tmp_path / "robot.usda"
    asset.write_text(converted(ghosted(*wheels)), encoding="utf-8")
    result = scaffold(asset, tmp_path / "ros.usda", "--free-base", "--drives")
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    assert [each.path for each in plan.physics.bodies if each.parent < 0] == [
        "/robot/base_footprint/base_link"
    ]
    drive = result.controller("diff_drive")
    assert (drive.parameters["wheel_separation"], drive.parameters["wheel_radius"]) == (0.4, 0.1)
    base = result.robot.frames[result.robot.base]
    assert (base.id, base.parent) == ("base_footprint", "odom")
    assert result.frames()["left_wheel"] == "base_link"
    assert not [line for line in result.lines if "Nav2 expects base_link" in line]


def test_a_freed_cart_gets_a_differential_drive(tmp_path: Path) -> None:
    fixed = scaffold_text(cart(*TWO_WHEELS, fixed=True), tmp_path)
    assert "diff_drive" not in {each.path.rpartition("/")[2] for each in fixed.plan.controllers}
    free = scaffold(tmp_path / "robot.usda", tmp_path / "free.usda", "--free-base", "--drives")
    assert free.controller("diff_drive").enabled


def test_a_base_on_a_joint_that_moves_stays(tmp_path: Path) -> None:
    text = robot(link("base"), joint("rail", "", "/robot/base", kind="Prismatic", axis="X"))
    result = scaffold_text(text, tmp_path, "--free-base")
    (said,) = result.decisions("free base")
    assert said.startswith("- ")
    assert "joints that move, rail" in said


@pytest.mark.parametrize("units", ["metersPerUnit = 1", "metersPerUnit = 0.01"])
def test_a_fixed_robot_stays_where_it_is(tmp_path: Path, units: str) -> None:
    text = robot(
        link("base", at=(1.0, 2.0, 3.0)),
        link("tip", at=(1.0, 2.0, 3.0)),
        joint("j", "/robot/base", "/robot/tip"),
    )
    moved = text.replace(
        'def Xform "robot"\n{',
        'def Xform "robot"\n{\ndouble3 xformOp:translate = (0, 0, 5)\nfloat xformOp:rotateZ = 90\n'
        'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]\n',
    )
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot").replace("metersPerUnit = 1", units) + moved, encoding="utf-8"
    )
    result = scaffold(asset, tmp_path / "ros.usda", "--fix-base")
    before, plan = load_plan(asset, physics=True), load_plan(result.path, physics=True)
    assert (before.robots[0].base >= 0, plan.robots[0].base) == (True, -1)
    assert before.physics is not None
    assert plan.physics is not None
    poses = [
        {body.path: body.world_from_body for body in each.bodies} for each in (before.physics, plan.physics)
    ]
    for path, pose in poses[0].items():
        assert poses[1][path].translation == pytest.approx(pose.translation, abs=1e-6)
        assert poses[1][path].rotation == pytest.approx(pose.rotation, abs=1e-6)


# --- Ground -------------------------------------------------------------------------------------------------------


def test_the_ground_is_below_the_lowest_collider(tmp_path: Path) -> None:
    result = scaffold_text(cart(*TWO_WHEELS), tmp_path, "--ground")
    stage = Usd.Stage.Open(str(result.path))
    plane = stage.GetPrimAtPath("/GroundPlane")
    height = UsdGeom.XformCache().GetLocalToWorldTransform(plane).ExtractTranslation()[2]
    assert -0.1 - CLEARANCE - 1e-4 <= height <= -0.1 - CLEARANCE + 1e-6
    assert stage.GetPrimAtPath("/PhysicsScene")


@pytest.mark.parametrize(
    ("kind", "turn", "lowest"),
    [
        ("Capsule", (0.0, 0.0, 0.0), 0.3),
        ("Capsule", (90.0, 0.0, 0.0), 0.1),
        ("Sphere", (45.0, 35.264, 0.0), 0.1),
        ("Cone", (60.0, 0.0, 0.0), 0.1 * math.cos(math.radians(30)) + 0.2 * math.cos(math.radians(60))),
    ],
    ids=["capsule", "lying capsule", "turned ball", "turned cone"],
)
def test_the_ground_is_below_round_colliders(
    tmp_path: Path, kind: str, turn: tuple[float, float, float], lowest: float
) -> None:
    """The radius is 0.1 m, the height 0.4 m, that of a capsule without its caps."""
    lines = [
        "double radius = 0.1",
        *(["double height = 0.4"] if kind != "Sphere" else []),
        f"float3 xformOp:rotateXYZ = {turn}",
        'uniform token[] xformOpOrder = ["xformOp:rotateXYZ"]',
    ]
    collider = (
        f'def {kind} "c" (prepend apiSchemas = ["PhysicsCollisionAPI"])\n{{\n' + "\n".join(lines) + "\n}"
    )
    text = robot(body("base", collider), body("tip"), joint("j", "/robot/base", "/robot/tip"))
    result = scaffold_text(text, tmp_path, "--ground", "--free-base")
    stage = Usd.Stage.Open(str(result.path))
    plane = stage.GetPrimAtPath("/GroundPlane")
    height = UsdGeom.XformCache().GetLocalToWorldTransform(plane).ExtractTranslation()[2]
    assert height == pytest.approx(-lowest - CLEARANCE, abs=3e-4)


def test_a_ground_of_the_asset_stays_the_only_one(tmp_path: Path) -> None:
    floor = (
        'def Plane "floor" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}\ndef PhysicsScene "physics" {}\n'
    )
    result = scaffold_text(cart(*TWO_WHEELS) + floor, tmp_path, "--ground", "--drives")
    assert result.decisions("ground")[0] == "- ground: /floor is there already"
    assert "starts 0.1 m inside of /floor" in result.decisions("ground")[1]
    layer = Sdf.Layer.FindOrOpen(str(result.path))
    assert [spec.name for spec in layer.rootPrims] == ["robot"]


# --- Collisions ---------------------------------------------------------------------------------------------------


def test_bodies_that_overlap_at_rest_do_not_collide(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    box = 'def Cube "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\ndouble size = 0.2\n}'
    text = robot(
        body("base", box), ANCHOR, body("middle", at=(0.1, 0, 0)), body("tip", box, at=(0.19, 0, 0)),
        body("far", box, at=(3, 0, 0)),
        joint("one", "/robot/base", "/robot/middle", at=(0.1, 0, 0)),
        joint("two", "/robot/middle", "/robot/tip", at=(0.09, 0, 0)),
        joint("three", "/robot/tip", "/robot/far", at=(2.81, 0, 0)),
    )  # fmt: skip
    result = scaffold_text(text, tmp_path, "--drives")
    assert result.decisions("collisions") == [
        "+ collisions: base and tip (10 mm) overlap at rest: they do not collide with each other"
    ]
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    names = [each.path.rpartition("/")[2] for each in plan.physics.bodies]
    apart = {frozenset((names[one], names[other])) for one, other in plan.physics.apart_bodies}
    assert frozenset(("base", "tip")) in apart
    assert frozenset(("base", "far")) not in apart


# --- Refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--free-base", "--fix-base"], "--free-base and --fix-base contradict each other: name one"),
        (["--natural-frequency", "3"], "--natural-frequency is of drives: add --drives"),
        (["--damping-ratio", "3"], "--damping-ratio is of drives: add --drives"),
        (
            ["--imu", "bass_link"],
            "--imu bass_link: the asset has no link of this name; did you mean base_link?",
        ),
    ],
)
def test_mistakes_are_refused_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    with pytest.raises(OptionError) as caught:
        run(asset, "-o", tmp_path / "ros.usda", *arguments)
    assert str(caught.value) == message
    assert {path.name for path in tmp_path.iterdir()} == {"robot.usda"}


def test_nothing_to_add_is_refused(tmp_path: Path) -> None:
    rover = EXAMPLES / "rover" / "rover.usda"
    with pytest.raises(BridgeError, match=r"nothing to write: .* is not fixed to the world"):
        run(rover, "-o", tmp_path / "ros.usda", "--free-base")
    assert not list(tmp_path.iterdir())
