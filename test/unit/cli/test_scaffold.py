"""`usd_ros_bridge scaffold`: what it writes for robots of several kinds, what it leaves out, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd, UsdShade, UsdUtils
from scaffolding import (
    HEADER,
    body,
    cart,
    cylinder,
    joint,
    robot,
    run,
    scaffold,
    scaffold_text,
    without_layer,
)

from cli_calls import call_cli
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import AssetError, BridgeError, OptionError
from usd_ros_bridge.model.physics_records import MASSLESS_BODIES
from usd_ros_bridge.options import PlanOptions, ReadOptions
from usd_ros_bridge.planning.diff import difference

JOINT_STATE = "sensor_msgs/msg/JointState"
TWO_WHEELS = (("left_wheel", (0.0, 0.2, 0.0)), ("right_wheel", (0.0, -0.2, 0.0)))


def faults(path: Path) -> set[tuple[str, str, str]]:
    """Everything that is wrong with an asset, by severity, code and prim."""
    return {(d.severity, d.code, d.path) for d in load_plan(path).diagnostics if d.severity != "info"}


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "scaffold.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]
    entry = without_layer("rover", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(entry, "-o", "ros.usda") == shown.splitlines()


# --- Robots -------------------------------------------------------------------------------------------------------


def test_a_rover_gets_what_its_own_layer_says(tmp_path: Path) -> None:
    entry = without_layer("rover", tmp_path)
    result = scaffold(entry, tmp_path / "ros.usda")
    assert result.robot.namespace == "/rover"
    assert result.topics() == {
        "/rover/joint_states": JOINT_STATE,
        "/rover/cmd_vel": "geometry_msgs/msg/Twist",
        "/rover/odom": "nav_msgs/msg/Odometry",
    }
    drive = result.controller("diff_drive")
    assert drive.enabled
    assert drive.joints == ("left_wheel_joint", "right_wheel_joint")
    assert drive.parameters["wheel_separation"] == pytest.approx(0.33, abs=1e-4)
    assert drive.parameters["wheel_radius"] == pytest.approx(0.1, abs=1e-4)
    assert result.robot.base_transform == "odometry"
    assert {"lidar_link", "imu_link", "camera_link", "camera_optical_frame"} <= result.frames().keys()
    assert result.frames()["camera_optical_frame"] == "camera_link"
    assert faults(result.path) <= faults(entry)


def test_an_arm_with_a_gripper(tmp_path: Path) -> None:
    entry = without_layer("arm", tmp_path)
    result = scaffold(entry, tmp_path / "ros.usda")
    arm = tuple(f"joint_{number}" for number in range(1, 7))
    assert result.controller("joint_trajectory_controller").joints == arm
    assert result.controller("joint_trajectory_controller").enabled
    assert result.controller("gripper_cmd").joints == ("left_finger_joint",)
    states = next(topic for topic in result.plan.topics if topic.name == "/arm/joint_states")
    names = [result.plan.layout.dofs[row] for row in states.dofs]
    assert names == [*arm, "left_finger_joint", "right_finger_joint"]
    assert {action.name for action in result.plan.actions} == {
        "/arm/joint_trajectory_controller/follow_joint_trajectory",
        "/arm/gripper_controller/gripper_cmd",
    }
    assert result.frames()["tool0"] == "link_6"
    assert result.frames()["gripper_tcp"] == "gripper_base"
    assert faults(result.path) <= faults(entry)


def test_a_selected_variant_is_in_the_layer(tmp_path: Path) -> None:
    entry = without_layer("arm", tmp_path)
    result = scaffold(entry, tmp_path / "ros.usda", "--variant", "/arm:gripper=none")
    assert not result.decisions("gripper")
    assert result.frames().keys() & {"gripper_base", "gripper_tcp"} == set()
    assert len(result.plan.actions) == 1
    assert "string gripper" in result.path.read_text(encoding="utf-8")


def test_frames_and_joints_stay_as_they_were(tmp_path: Path) -> None:
    entry = without_layer("arm", tmp_path)
    found = difference(load_plan(entry), scaffold(entry, tmp_path / "ros.usda").plan)
    assert not [item for item in found if item.kind in {"joint", "frame"}]
    before = PlanOptions(frames_from_xforms=False)
    found = difference(load_plan(entry, plan_options=before), load_plan(tmp_path / "ros.usda"))
    assert {item.change for item in found if item.kind in {"joint", "frame"}} == {"added"}
    assert {item.name for item in found if item.kind == "frame"} == {"tool0", "gripper_tcp"}


def test_units_and_axis_are_those_of_the_asset(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    text = (
        HEADER.format(name="robot").replace("metersPerUnit = 1", "metersPerUnit = 0.01").replace('"Z"', '"Y"')
    )
    asset.write_text(
        text.replace("    kilogramsPerUnit = 1\n", "") + cart(*TWO_WHEELS, fixed=True), encoding="utf-8"
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    found = difference(load_plan(asset), result.plan)
    assert not [str(item) for item in found if item.kind in {"joint", "frame"}]
    assert faults(result.path) <= faults(asset)


def test_samples_keep_their_times(tmp_path: Path) -> None:
    text = HEADER.format(name="robot").replace(
        "timeCodesPerSecond = 1", "timeCodesPerSecond = 24\n    endTimeCode = 48"
    )
    moving = body("base_link").replace(
        "double3 xformOp:translate = (0.0, 0.0, 0.0)",
        "double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 48: (1, 0, 0) }",
    )
    asset = tmp_path / "robot.usda"
    asset.write_text(
        text + robot(moving, body("tip"), joint("j", "/robot/base_link", "/robot/tip")), encoding="utf-8"
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    before, after = load_plan(asset).scene, result.plan.scene
    assert before.pose_tracks
    for one, other in zip(before.pose_tracks, after.pose_tracks, strict=True):
        assert list(other.time) == pytest.approx(list(one.time))
        assert other.world_from_body == pytest.approx(one.world_from_body)
    assert (after.start, after.end) == (before.start, before.end)


# --- Joints -------------------------------------------------------------------------------------------------------


def chain(*joints: str, links: int) -> str:
    return robot(
        body("base"), joint("anchor", "", "/robot/base", kind="Fixed"),
        *(body(f"link_{number}") for number in range(links)), *joints,
    )  # fmt: skip


def test_joints_with_drives_are_commanded_where_some_have_none(tmp_path: Path) -> None:
    text = chain(
        joint("slider", "/robot/base", "/robot/link_0", kind="Prismatic", limits=(-1, 1), drive=(100, 10)),
        joint("pole", "/robot/link_0", "/robot/link_1", limits=(-90, 90)),
        joint("spinner", "/robot/base", "/robot/link_2", drive=(0, 10)),
        links=3,
    )
    result = scaffold_text(text, tmp_path)
    assert result.controller("joint_trajectory_controller").joints == ("slider",)
    left_out = " ".join(result.decisions("joint trajectory controller"))
    assert "pole: no drive" in left_out
    assert "spinner: a drive without stiffness" in left_out
    commands = next(topic for topic in result.plan.topics if topic.role == "subscription")
    assert {result.plan.layout.dofs[row] for row in commands.dofs} >= {"slider", "pole", "spinner"}


def test_without_drives_every_joint_is_commanded(tmp_path: Path) -> None:
    text = chain(
        joint("a", "/robot/base", "/robot/link_0", limits=(-90, 90)),
        joint("ball", "/robot/link_0", "/robot/link_1", kind="Spherical"),
        joint("b", "/robot/link_1", "/robot/link_2", limits=(-90, 90)),
        links=3,
    )
    result = scaffold_text(text, tmp_path)
    assert result.controller("joint_trajectory_controller").joints == ("a", "b")
    assert "several degrees of freedom" in " ".join(result.decisions("joint trajectory controller"))


def test_a_hand_with_many_fingers_is_no_parallel_gripper(tmp_path: Path) -> None:
    joints = [
        joint(f"finger_{number}", "/robot/base", f"/robot/link_{number}", limits=(-90, 90))
        for number in range(3)
    ]
    result = scaffold_text(chain(*joints, links=3), tmp_path)
    assert result.decisions("gripper")[0].startswith("- gripper: 3 finger joints move by themselves")
    assert result.controller("joint_trajectory_controller").joints == ("finger_0", "finger_1", "finger_2")


def test_a_robot_that_does_not_move_gets_a_context_alone(tmp_path: Path) -> None:
    result = scaffold_text(chain(links=0), tmp_path)
    assert result.robot.namespace == "/robot"
    assert not result.plan.controllers
    assert result.decisions("joint states") == ["- joint states: the robot has no movable joint"]


# --- Wheels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wheels", "left", "right"),
    [
        (TWO_WHEELS, ["left_wheel_joint"], ["right_wheel_joint"]),
        ((("WheelL", (0, 0.2, 0)), ("WheelR", (0, -0.2, 0))), ["WheelL_joint"], ["WheelR_joint"]),
        (
            (("wheel_fl", (0.2, 0.2, 0)), ("wheel_fr", (0.2, -0.2, 0)), ("wheel_rl", (-0.2, 0.2, 0)),
             ("wheel_rr", (-0.2, -0.2, 0))),
            ["wheel_fl_joint", "wheel_rl_joint"], ["wheel_fr_joint", "wheel_rr_joint"],
        ),
        (
            (*TWO_WHEELS, ("left_caster_wheel", (0.2, 0.1, 0)), ("right_caster_wheel", (0.2, -0.1, 0))),
            ["left_wheel_joint"], ["right_wheel_joint"],
        ),
    ],
    ids=["words", "camel", "four", "casters"],
)  # fmt: skip
def test_wheels_by_name(tmp_path: Path, wheels: tuple, left: list[str], right: list[str]) -> None:  # type: ignore[type-arg]
    result = scaffold_text(cart(*wheels), tmp_path)
    drive = result.controller("diff_drive")
    assert drive.enabled, drive.reason
    assert sorted(drive.parameters["left_wheels"]) == left
    assert sorted(drive.parameters["right_wheels"]) == right
    assert drive.parameters["wheel_separation"] == pytest.approx(0.4, abs=1e-4)
    assert drive.parameters["wheel_radius"] == pytest.approx(0.1, abs=1e-4)
    assert any(
        line.startswith("! differential drive: the wheel joints have no PhysicsDriveAPI")
        for line in result.lines
    )


def test_driven_wheels_are_chosen_from_those_named(tmp_path: Path) -> None:
    text = cart(*TWO_WHEELS, drive=(0.0, 10.0)).rstrip().removesuffix("}")
    for side, y in (("left", 0.2), ("right", -0.2)):
        at = (-0.3, y, 0.0)
        text += body(f"{side}_back_wheel", cylinder(0.05), at=at)
        text += joint(f"{side}_back_wheel_joint", "/robot/base_link", f"/robot/{side}_back_wheel", at=at)
    result = scaffold_text(text + "}\n", tmp_path)
    drive = result.controller("diff_drive")
    assert drive.joints == ("left_wheel_joint", "right_wheel_joint")
    assert drive.parameters["wheel_radius"] == pytest.approx(0.1, abs=1e-4)
    assert not [line for line in result.lines if "PhysicsDriveAPI" in line]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (cart(("left_wheel", (0, 0.2, 0))), "wheels are named on the left only"),
        (cart(*TWO_WHEELS, fixed=True), "base cannot move"),
        (cart(("left_wheel", (0, -0.2, 0)), ("right_wheel", (0, 0.2, 0))), "named left are on the right"),
        (cart(("left_wheel", (0.2, 0, 0)), ("right_wheel", (-0.2, 0, 0)), axis="X"), "not at the side"),
        (cart(*TWO_WHEELS, axis="Z"), "does not turn about the line from right to left"),
        (cart(*TWO_WHEELS, geometry=False), "no wheel has geometry"),
        (cart(("left_wheel", (0, 0, 0)), ("right_wheel", (0, 0, 0))), "in one place"),
    ],
    ids=["one-side", "fixed", "mirrored", "sideways", "axis", "no-geometry", "one-place"],
)
def test_wheels_that_make_no_drive(tmp_path: Path, text: str, reason: str) -> None:
    result = scaffold_text(text, tmp_path)
    (said,) = result.decisions("differential drive")
    assert said.startswith("- ")
    assert reason in said
    assert not [c for c in result.plan.controllers if c.schema == "RosControlDiffDriveAPI"]
    assert not [topic for topic in result.plan.topics if topic.name.endswith(("cmd_vel", "odom"))]


def carried_cart(kind: str, axis: str) -> str:
    """A cart whose wheels hang from carriers that a joint moves in the base."""
    parts = [body("base_link")]
    for side, y in (("left", 0.2), ("right", -0.2)):
        parts += [
            body(f"{side}_carrier", at=(0, y, 0)), body(f"{side}_wheel", cylinder(0.1), at=(0, y, 0)),
            joint(f"{side}_carries", "/robot/base_link", f"/robot/{side}_carrier", at=(0, y, 0), kind=kind, axis=axis),
            joint(f"{side}_wheel_joint", f"/robot/{side}_carrier", f"/robot/{side}_wheel"),
        ]  # fmt: skip
    return robot(*parts)


@pytest.mark.parametrize(
    ("kind", "axis", "drives"),
    [("Revolute", "Z", False), ("Revolute", "Y", False), ("Prismatic", "Y", False), ("Prismatic", "Z", True)],
)
def test_wheels_that_move_in_the_base_are_said_but_for_a_suspension(
    tmp_path: Path, kind: str, axis: str, drives: bool
) -> None:
    result = scaffold_text(carried_cart(kind, axis), tmp_path)
    (said,) = result.decisions("differential drive")[:1]
    assert ("which moves in the base" not in said) == drives
    assert ("/robot/cmd_vel" in result.topics()) == drives


# --- Frames -------------------------------------------------------------------------------------------------------


def test_links_without_mass_are_frames_and_geometry_is_not(tmp_path: Path) -> None:
    inside = """
    def Xform "tool" {}
    def Xform "renamed_1" ( displayName = "flange" ) {}
    def Xform "visuals"
    {
        def Cube "box" {}
    }
    def Xform "mesh_file"
    {
        def Cube "box" {}
    }
    def Xform "collision" {}
    def Xform "camera_link"
    {
        def Xform "visual"
        {
            def Cube "box" {}
        }
    }
    def Scope "Looks" {}
"""
    text = robot(
        'def Xform "base_footprint"\n{\n',
        body("base_link", inside),
        body("tip", 'def Xform "tool" {}'),
        "}\n",
        'def Xform "group" {}\n',
        joint("j", "/robot/base_footprint/base_link", "/robot/base_footprint/tip"),
    )
    result = scaffold_text(text, tmp_path)
    added = result.frames().keys() - {"robot", "base_link", "tip"}
    assert added == {"base_footprint", "tool", "flange", "camera_link", "tip_tool"}
    assert result.frames()["flange"] == "base_link"
    assert result.frames()["tip_tool"] == "tip"
    assert faults(result.path) <= faults(tmp_path / "robot.usda")


# --- Composition --------------------------------------------------------------------------------------------------


def test_the_asset_is_a_sublayer_by_a_relative_path(tmp_path: Path) -> None:
    folder = tmp_path / "layers"
    folder.mkdir()
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    scaffold(asset, folder / "ros.usda")
    layer = Sdf.Layer.FindOrOpen(str(folder / "ros.usda"))
    assert list(layer.subLayerPaths) == ["../robot.usda"]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("robot.usda", "layers"):
        (tmp_path / name).rename(moved / name)
    assert load_plan(moved / "layers" / "ros.usda").controllers


def test_alone_it_is_a_layer_for_the_assets_own_sublayers(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    over = scaffold(asset, tmp_path / "over.usda").plan
    run(asset, "-o", tmp_path / "ros.usda", "--no-sublayer")
    assert not list(Sdf.Layer.FindOrOpen(str(tmp_path / "ros.usda")).subLayerPaths)
    entry = tmp_path / "entry.usda"
    head = HEADER.format(name="robot").rstrip().removesuffix(")")
    entry.write_text(head + "    subLayers = [@./ros.usda@, @./robot.usda@]\n)\n", encoding="utf-8")
    assert not difference(over, load_plan(entry))


def test_the_only_robot_becomes_the_default_prim(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot").replace('    defaultPrim = "robot"\n', "") + cart(*TWO_WHEELS),
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    assert Usd.Stage.Open(str(result.path)).GetDefaultPrim().GetPath() == "/robot"
    missing = [
        {code for _, code, _ in faults(path)} & {"1.2.5.default_prim"} for path in (asset, result.path)
    ]
    assert missing == [{"1.2.5.default_prim"}, set()]


def test_names_that_are_taken(tmp_path: Path) -> None:
    result = scaffold_text(
        cart(*TWO_WHEELS, extra='def Scope "Interfaces" {}\ndef Scope "Controllers" {}'), tmp_path
    )
    assert all("/RosInterfaces/" in topic.path for topic in result.plan.topics)
    assert result.controller("diff_drive").path == "/robot/RosControllers/diff_drive"


def test_a_robot_behind_a_payload_is_wrapped(tmp_path: Path) -> None:
    (tmp_path / "contents.usda").write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot")
        + 'def Xform "robot" (\n kind = "component"\n assetInfo = { string identifier = "me" }\n'
        + " payload = @./contents.usda@\n)\n{\n}\n"
        + 'def PhysicsScene "scene" {}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    assert [
        line for line in result.lines if line.startswith("! payload: /robot has its joints behind a payload")
    ]
    assert result.controller("diff_drive").enabled
    found = difference(load_plan(asset), result.plan)
    for item in found:
        if item.kind in {"joint", "frame"}:
            # The base hangs from odom now: its drive's odometry owns the transform.
            assert {change.field for change in item.fields} - {"parent"} == {"path"}, str(item)
    stage = Usd.Stage.Open(str(result.path), Usd.Stage.LoadNone)
    assert stage.GetPrimAtPath("/robot/Interfaces/cmd_vel").IsDefined()
    assert stage.GetPrimAtPath("/robot").GetAssetInfoByKey("identifier") == "me"
    assert stage.GetPrimAtPath("/scene").GetTypeName() == "PhysicsScene"
    assert not stage.GetPrimAtPath("/robot").HasAuthoredPayloads()


def test_what_a_robot_behind_a_payload_refers_to_outside_stays(tmp_path: Path) -> None:
    (tmp_path / "contents.usda").write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot")
        + 'def Xform "robot" ( payload = @./contents.usda@ )\n{\n'
        + '    def Cube "box" ( prepend apiSchemas = ["MaterialBindingAPI"] )\n    {\n'
        + "        rel material:binding = </Looks/steel>\n"
        + "        rel inside = </robot/box>\n    }\n}\n"
        + 'def Scope "Looks"\n{\n    def Material "steel" {}\n}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    stage = Usd.Stage.Open(str(result.path))
    box = stage.GetPrimAtPath("/robot/robot/box")
    material, _ = UsdShade.MaterialBindingAPI(box).ComputeBoundMaterial()
    assert material.GetPath() == "/Looks/steel"
    assert box.GetRelationship("inside").GetTargets() == [box.GetPath()]


def test_each_of_several_robots_has_a_namespace_of_its_own(tmp_path: Path) -> None:
    def one(name: str) -> str:
        text = robot(
            body("base"), body("tip"),
            joint("j", f"/World/{name}/arm/base", f"/World/{name}/arm/tip"), name="arm", schemas='"IsaacRobotAPI"',
        )  # fmt: skip
        return f'def Xform "{name}" {{\n{text}}}\n'

    asset = tmp_path / "world.usda"
    asset.write_text(
        HEADER.format(name="World") + 'def Xform "World" {\n' + one("a") + one("b") + "}\n", encoding="utf-8"
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    assert [each.namespace for each in result.plan.robots] == ["/arm", "/b_arm"]
    assert not [d for d in result.plan.diagnostics if d.severity == "error"]


@pytest.mark.parametrize(
    ("creator", "written"),
    [("URDF USD Converter v0.3.4", True), ("MuJoCo USD Converter v0.8.0", True), ("Somebody", False)],
)
def test_a_converted_robot_has_bodies_that_weigh_nothing(tmp_path: Path, creator: str, written: bool) -> None:
    asset = tmp_path / "arm.usda"
    header = HEADER.format(name="arm").replace(
        "(", f'(\n    customLayerData = {{ string creator = "{creator}" }}', 1
    )
    links = (body("base"), body("tip"), joint("j", "/arm/base", "/arm/tip"))
    asset.write_text(header + robot(*links, name="arm", schemas='"IsaacRobotAPI"'), encoding="utf-8")
    result = scaffold(asset, tmp_path / "ros.usda")
    assert bool(result.decisions("bodies without mass")) is written
    stage = Usd.Stage.Open(str(result.path))
    rule = stage.GetPrimAtPath("/arm").GetAttribute(MASSLESS_BODIES).Get()
    assert rule == ("weightless" if written else None)


def test_an_instance_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "arm.usda").write_text(
        HEADER.format(name="arm")
        + robot(
            body("base"),
            body("tip"),
            joint("j", "/arm/base", "/arm/tip"),
            name="arm",
            schemas='"IsaacRobotAPI"',
        ),
        encoding="utf-8",
    )
    asset = tmp_path / "world.usda"
    asset.write_text(
        HEADER.format(name="World")
        + 'def Xform "World"\n{\n def "arm" ( instanceable = true\n references = @./arm.usda@ ) {}\n}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda")
    assert "/World/arm is an instance" in result.lines[0]
    assert "Ros" not in result.path.read_text(encoding="utf-8").partition(")\n")[2]


# --- What is there already ----------------------------------------------------------------------------------------


def test_a_robot_with_a_layer_is_refused(tmp_path: Path) -> None:
    rover = Path(__file__).parents[3] / "examples" / "rover" / "rover.usda"
    with pytest.raises(AssetError, match=r"has a ROS layer already: .*1 RosContextAPI"):
        run(rover, "-o", tmp_path / "ros.usda")
    assert not (tmp_path / "ros.usda").exists()


def test_its_own_result_is_refused(tmp_path: Path) -> None:
    scaffold_text(cart(*TWO_WHEELS), tmp_path)
    with pytest.raises(AssetError, match="has a ROS layer already"):
        run(tmp_path / "ros.usda", "-o", tmp_path / "again.usda")


def test_a_context_alone_is_completed(tmp_path: Path) -> None:
    text = cart(*TWO_WHEELS).replace(
        'def Xform "robot"\n{',
        'def Xform "robot" (prepend apiSchemas = ["RosContextAPI"])\n{\n    string ros:context:namespace = "mine"\n',
        1,
    )
    result = scaffold_text(text, tmp_path)
    assert result.robot.namespace == "/mine"
    assert "/mine/cmd_vel" in result.topics()
    assert result.decisions("context") == ["! context: /robot has one: namespace /mine"]


def test_joints_of_nested_contexts_keep_their_names_there(tmp_path: Path) -> None:
    module = (
        'def Xform "SIDE" (prepend apiSchemas = ["RosContextAPI"])\n{\n string ros:context:namespace = "SIDE"\n'
        + body("tip")
        + joint("hinge", "/robot/base", "/robot/SIDE/tip")
        + "}\n"
    )
    context = 'def Xform "robot" (prepend apiSchemas = ["RosContextAPI"])\n{\n'
    text = context + body("base") + module.replace("SIDE", "left") + module.replace("SIDE", "right") + "}\n"
    result = scaffold_text(text, tmp_path)
    assert [(each.name, each.local_name) for each in result.robot.joints] == [
        ("hinge", "hinge"),
        ("right_hinge", "hinge"),
    ]


# --- Files --------------------------------------------------------------------------------------------------------


def test_a_file_is_overwritten_only_by_force(tmp_path: Path) -> None:
    scaffold_text(cart(*TWO_WHEELS), tmp_path)
    output = tmp_path / "ros.usda"
    output.write_text("mine", encoding="utf-8")
    with pytest.raises(OptionError, match="--force"):
        run(tmp_path / "robot.usda", "-o", output)
    assert output.read_text(encoding="utf-8") == "mine"
    run(tmp_path / "robot.usda", "-o", output, "--force")
    assert output.read_text(encoding="utf-8").startswith("#usda 1.0")
    assert files(tmp_path) == {"robot.usda", "ros.usda"}


def test_what_is_part_of_the_asset_is_never_written(tmp_path: Path) -> None:
    entry = without_layer("rover", tmp_path)
    for layer in (entry, entry.parent / "physics.usda"):
        before = layer.read_bytes()
        with pytest.raises(OptionError, match="part of the asset"):
            run(entry, "-o", layer, "--force")
        assert layer.read_bytes() == before


@pytest.mark.parametrize(
    ("output", "named"),
    [("ros.usdc", "ASCII"), ("ros", "ASCII"), ("nowhere/ros.usda", "nowhere")],
)
def test_where_a_layer_cannot_go(tmp_path: Path, output: str, named: str) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    with pytest.raises(BridgeError, match=named):
        run(asset, "-o", tmp_path / output)
    assert files(tmp_path) == {"robot.usda"}


def test_a_stage_without_a_robot(tmp_path: Path) -> None:
    asset = tmp_path / "empty.usda"
    asset.write_text(HEADER.format(name="empty") + 'def Xform "empty" {}\n', encoding="utf-8")
    with pytest.raises(AssetError, match="has no robot"):
        run(asset, "-o", tmp_path / "ros.usda")


def test_the_command_as_a_user_meets_it(tmp_path: Path) -> None:
    asset, layer = tmp_path / "robot.usda", tmp_path / "ros.usda"
    asset.write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    first = call_cli("scaffold", asset, "-o", layer)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines()[0] == "+ context: /robot, namespace robot"
    second = call_cli("scaffold", asset, "-o", layer)
    assert (second.returncode, second.stdout) == (2, "")
    assert len(second.stderr.splitlines()) == 1
    assert call_cli("inspect", layer, "--strict").returncode == 0


def test_an_asset_of_a_package_is_named_by_its_package(tmp_path: Path) -> None:
    package = tmp_path / "share"
    package.mkdir()
    (package / "robot.usda").write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    output = tmp_path / "ros.usda"
    run("package://cart_description/robot.usda", "-o", output, "--package", f"cart_description={package}")
    assert list(Sdf.Layer.FindOrOpen(str(output)).subLayerPaths) == ["package://cart_description/robot.usda"]
    plan = load_plan(output, read_options=ReadOptions(packages={"cart_description": str(package)}))
    assert [controller.enabled for controller in plan.controllers] == [True, True]


def test_an_asset_in_an_archive(tmp_path: Path) -> None:
    (tmp_path / "robot.usda").write_text(HEADER.format(name="robot") + cart(*TWO_WHEELS), encoding="utf-8")
    archive = tmp_path / "robot.usdz"
    assert UsdUtils.CreateNewUsdzPackage(str(tmp_path / "robot.usda"), str(archive))
    result = scaffold(archive, tmp_path / "ros.usda")
    assert result.controller("diff_drive").enabled
    with pytest.raises(OptionError, match="ASCII"):
        run(archive, "-o", archive, "--force")
