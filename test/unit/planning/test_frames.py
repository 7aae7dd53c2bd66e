"""Frames: which prims, what they hang from, static or not, and their ids (REP 0158 sections 2.7 and 2.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.records import Stage, arm, diff_drive, found, frames, rover, topics, turn
from case_tables import each_case
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.model.records import IsaacRobotRecord, IsaacSiteRecord, RigidBodyTwistRecord
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import pose, rotate


def test_a_chain_of_joints() -> None:
    plan = arm().plan()
    assert [(f.id, f.parent, f.static) for f in plan.robots[0].frames] == [
        ("robot", "world", True),
        ("base", "robot", True),
        ("link_1", "base", False),
        ("link_2", "link_1", False),
    ]
    assert [f.parent_index for f in plan.robots[0].frames] == [-1, 0, 1, 2]
    assert [f.edge for f in plan.robots[0].frames] == [-1, 0, 1, 2]
    assert plan.layout.bodies == ("/robot/base", "/robot/link_1", "/robot/link_2")


def test_props_are_no_frames_unless_something_below_needs_one() -> None:
    stage = arm()
    for name in ("prop", "tagged", "crate", "module"):
        stage.body(f"/robot/{name}")
    stage.topic("/robot/tagged/t")
    stage.frame("/robot/crate/lid")
    stage.context("/robot/module/ctx", "module")
    plan = stage.plan()
    assert set(frames(plan)) == {
        "robot",
        "base",
        "link_1",
        "link_2",
        "tagged",
        "crate",
        "lid",
        "module",
        "ctx",
    }
    assert "/robot/prop" not in plan.layout.bodies
    for name in ("tagged", "crate", "module"):
        assert frames(plan)[name].parent == "robot"
        assert not frames(plan)[name].static


def test_explicit_frames_hang_from_the_nearest_frame_with_what_lies_between() -> None:
    stage = arm()
    stage.xform("/robot/link_2/flange", (0.0, 0.0, 0.1), turn("Z", 90.0))
    stage.frame("/robot/link_2/flange/tool", (0.1, 0.0, 0.0), id="tool0")
    stage.frame("/robot/link_2/flange/tool/tip", (0.0, 0.0, 0.05))
    stage.frame("/robot/link_2/moving", static=False)
    plan = stage.plan()
    tool = frames(plan)["tool0"]
    assert (tool.parent, tool.static) == ("link_2", True)
    np.testing.assert_allclose(tool.parent_from_frame.translation, (0.0, 0.1, 0.1), atol=1e-12)
    assert frames(plan)["tip"].parent == "tool0"
    assert not frames(plan)["moving"].static
    assert plan.layout.bodies[tool.carrier] == "/robot/link_2"
    np.testing.assert_allclose(tool.carrier_from_frame.translation, (0.0, 0.1, 0.1), atol=1e-12)


def test_a_frame_schema_on_a_body_gives_the_id_only() -> None:
    stage = arm()
    stage.frame("/robot/link_1", id="elbow", static=True)
    plan = stage.plan()
    assert (frames(plan)["elbow"].parent, frames(plan)["elbow"].static) == ("base", False)
    assert found(plan, "2.7.static")[0].severity == "warning"


def test_static_false_sends_a_fixed_body_to_tf() -> None:
    stage = arm()
    stage.frame("/robot/base", static=False)
    assert not frames(stage.plan())["base"].static


def test_an_animated_frame_without_authored_static_is_said() -> None:
    stage = arm()
    for name, static in (("open", None), ("moving", False), ("pinned", True)):
        stage.frame(f"/robot/{name}", animated=True, static=static)
    stage.frame("/robot/link_1", static=None)
    plan = stage.plan()
    assert {name: frames(plan)[name].static for name in ("open", "moving", "pinned", "link_1")} == {
        "open": False,
        "moving": False,
        "pinned": True,
        "link_1": False,
    }
    said = {each.path: each.message for each in found(plan, "2.7.static")}
    assert set(said) == {"/robot/open", "/robot/pinned"}
    assert "fallback is true" in said["/robot/open"]


def test_an_animated_prim_moves_what_is_below_it() -> None:
    stage = Stage()
    stage.context()
    stage.xform("/robot/swing", animated=True)
    stage.frame("/robot/swing/rider", (0.0, 0.0, 1.0))
    stage.frame("/robot/pinned", animated=True, static=True)
    plan = stage.plan()
    rider = frames(plan)["rider"]
    assert (rider.parent, rider.static) == ("robot", False)
    assert plan.layout.bodies[rider.carrier] == "/robot/swing"
    assert plan.layout.kinematic.all()
    assert frames(plan)["pinned"].static
    assert found(plan, "2.7.static")[0].path == "/robot/pinned"


def test_a_reset_transform_stack_cuts_a_frame_loose() -> None:
    stage = arm()
    stage.frame("/robot/link_2/free", (5.0, 0.0, 0.0), resets=True)
    free = frames(stage.plan())["free"]
    assert (free.parent, free.static, free.carrier) == ("link_2", False, -1)
    assert free.carrier_from_frame.translation == (5.0, 0.0, 0.0)
    assert free.parent_from_frame.translation == (5.0, 0.0, -1.0)


def test_a_context_that_moves_is_dynamic_and_anchors_nothing() -> None:
    stage = Stage()
    stage.xform("/robot", (1.0, 0.0, 0.0), animated=True)
    stage.context()
    stage.body("/robot/base")
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    plan = stage.plan()
    assert not frames(plan)["robot"].static
    assert (frames(plan)["base"].parent, frames(plan)["base"].static) == ("world", True)
    assert plan.robots[0].edges[0].parent_path == ""


# --- Nested contexts ---------------------------------------------------------------------------------------------


def mobile_manipulator(*, mounted: bool) -> Stage:
    stage = rover()
    stage.context("/robot/arm", "arm")
    stage.body("/robot/arm/link_0", (1.0, 2.0, 0.4))
    stage.body("/robot/arm/link_1", (1.0, 2.0, 0.5))
    stage.joint("/robot/arm/shoulder", "/robot/arm/link_0", "/robot/arm/link_1", local_pos0=(0.0, 0.0, 0.1))
    stage.frame("/robot/arm/marker")
    if mounted:
        stage.joint("/robot/mount", "/robot/base", "/robot/arm/link_0", "Fixed", local_pos0=(0.0, 0.0, 0.3))
    return stage


def test_a_nested_context_hangs_from_its_first_body_that_is_joined_to_the_robot() -> None:
    plan = mobile_manipulator(mounted=True).plan()
    nested = frames(plan)["arm"]
    assert (nested.parent, nested.static) == ("link_0", True)
    assert plan.layout.bodies[nested.carrier] == "/robot/arm/link_0"
    np.testing.assert_allclose(nested.parent_from_frame.translation, (-1.0, -2.0, -0.4))
    assert (frames(plan)["marker"].parent, frames(plan)["marker"].static) == ("arm", True)
    assert frames(plan)["marker"].carrier == nested.carrier
    assert not found(plan, "2.7.carrier")


def test_a_nested_context_that_nothing_carries_stays_with_a_warning() -> None:
    plan = mobile_manipulator(mounted=False).plan()
    assert (frames(plan)["arm"].parent, frames(plan)["arm"].static) == ("robot", True)
    assert "/robot/arm" in {d.path for d in found(plan, "2.7.carrier")}
    assert frames(plan)["link_0"].parent == "robot"


# --- Ids ---------------------------------------------------------------------------------------------------------


def test_ids_are_unique_per_tf_topic_in_traversal_order() -> None:
    stage = Stage()
    stage.context()
    for side in ("left", "right"):
        stage.frame(f"/robot/camera_{side}/optical_frame")
    plan = stage.plan()
    assert list(frames(plan)) == ["robot", "optical_frame", "camera_right_optical_frame"]
    (diagnostic,) = found(plan, "2.7.id")
    assert diagnostic.severity == "warning"
    assert "/robot/camera_left/optical_frame" in diagnostic.message


def test_two_authored_ids_that_are_equal_are_an_error() -> None:
    stage = Stage()
    stage.context()
    stage.frame("/robot/left/a", id="same")
    stage.frame("/robot/right/b", id="same")
    plan = stage.plan()
    assert list(frames(plan)) == ["robot", "same", "right_same"]
    assert found(plan, "2.7.id")[0].severity == "error"


def test_ids_with_a_colon_are_used_as_authored_with_one_warning_for_all() -> None:
    stage = Stage()
    stage.context(parent_frame="site:map")
    stage.frame("/robot/f", id="cell::tool")
    stage.frame("/robot/g", id="cell::flange")
    stage.topic("/robot/f/imu", "sensor_msgs/msg/Imu", override_frame_id="cell::imu")
    stage.topic("/robot/g/imu", "sensor_msgs/msg/Imu", name="other", override_frame_id="cell::other")
    plan = stage.plan()
    assert list(frames(plan)) == ["robot", "cell::tool", "cell::flange"]
    assert plan.robots[0].parent_frame == frames(plan)["robot"].parent == "site:map"
    assert [topic.frame_id for topic in plan.topics] == ["cell::imu", "cell::other"]
    for code, path, first in (
        ("2.7.id", "/robot/f", "cell::tool"),
        ("2.1.parent_frame", "/robot", "site:map"),
        ("2.4.override_frame_id", "/robot/f/imu", "cell::imu"),
    ):
        (diagnostic,) = found(plan, code)
        assert (diagnostic.severity, diagnostic.path) == ("warning", path)
        assert first in diagnostic.message


@each_case(("authored", "used"), [("has space", "has_space"), ("/lead", "lead"), ("///", "f")])
def test_ids_that_tf2_would_not_take_are_made_valid(authored: str, used: str) -> None:
    stage = Stage()
    stage.context()
    stage.frame("/robot/f", id=authored)
    plan = stage.plan()
    assert used in frames(plan)
    assert found(plan, "2.7.id")[0].severity == "error"


def test_robots_that_share_a_tf_topic_share_its_names() -> None:
    stage = Stage(default_prim="/w")
    for name in ("one", "two"):
        stage.context(f"/w/{name}", None)
        stage.frame(f"/w/{name}/tip")
    stage.context("/w/three", "own")
    stage.frame("/w/three/tip")
    plan = stage.plan()
    assert [list(frames(plan, robot)) for robot in range(3)] == [
        ["one", "tip"],
        ["two", "two_tip"],
        ["three", "tip"],
    ]


def test_no_frame_has_the_name_of_its_own_parent_frame() -> None:
    stage = arm(Stage(default_prim="/world"), "/world")
    plan = stage.plan()
    (root, *_) = plan.robots[0].frames
    assert (root.id, root.parent) == ("world_2", "world")


def test_prims_named_like_the_parent_frame_may_exist() -> None:
    stage = arm()
    stage.xform("/robot/world")
    assert "world" not in frames(stage.plan())


def test_frames_outside_every_robot_are_not_broadcast() -> None:
    stage = Stage(default_prim="/w")
    stage.context("/w/robot", "robot")
    stage.frame("/w/lost")
    plan = stage.plan()
    assert list(frames(plan)) == ["robot"]
    assert found(plan, "2.7.context")[0].path == "/w/lost"


def test_names_that_converters_kept_are_frame_ids() -> None:
    stage = arm()
    for name, kept in (
        ("tn__palm_00_nC", "palm_0.0"),
        ("tn__robot0base_link_ZT", "robot0:base_link"),
        ("tn__leftarm_h7", "left arm"),
        ("tn__slash_h7", "/slash"),
        ("base_1", "base"),
        ("cup_1", "cup"),
    ):
        stage.body(f"/robot/{name}", kept_name=kept)
        stage.joint(f"/robot/{name}_joint", "/robot/base", f"/robot/{name}")
    stage.frame("/robot/base_1", id="plate")
    plan = stage.plan()
    ids = {frame.path.rpartition("/")[2]: frame.id for frame in plan.robots[0].frames}
    assert {name: ids[name] for name in ids if name not in ("robot", "base", "link_1", "link_2")} == {
        "tn__palm_00_nC": "palm_0.0",
        "tn__robot0base_link_ZT": "robot0:base_link",
        "tn__leftarm_h7": "left_arm",
        "tn__slash_h7": "slash",
        "base_1": "plate",
        "cup_1": "cup",
    }
    assert not found(plan, "2.7.id")


def test_a_kept_name_that_another_frame_has_leaves_the_prim_its_number() -> None:
    stage = arm()
    stage.body("/robot/base_1", kept_name="base")
    stage.joint("/robot/j", "/robot/base", "/robot/base_1")
    plan = stage.plan()
    assert "base_1" in frames(plan)
    assert not found(plan, "2.7.id")


def test_frames_from_xforms() -> None:
    stage = arm()
    stage.xform("/robot/link_2/tool0", (0.0, 0.0, 0.1))
    stage.xform("/robot/link_2/visual", type_name="Scope")
    stage.xform("/robot/link_2/tool0/deeper")
    for choice in ("auto", False):
        assert "tool0" not in frames(stage.plan(frames_from_xforms=choice))
    plan = stage.plan(frames_from_xforms=True)
    assert frames(plan)["tool0"].parent == "link_2"
    assert {"visual", "deeper"}.isdisjoint(frames(plan))


def links_without_mass(stage: Stage) -> Stage:
    """A tool below a tool, a visual and a footprint above the bodies; the context is implied by no Ros*API."""
    stage.body("/robot/footprint/base")
    stage.body("/robot/footprint/base/arm", (1.0, 0.0, 0.0))
    stage.joint("/robot/anchor", None, "/robot/footprint/base", "Fixed")
    stage.joint("/robot/shoulder", "/robot/footprint/base", "/robot/footprint/base/arm")
    stage.link("/robot/footprint", converted=True)
    stage.link("/robot/footprint/base/arm/flange", (0.1, 0.0, 0.0), turn("Z", 90.0))
    stage.link("/robot/footprint/base/arm/flange/tool0", (0.1, 0.0, 0.0), kept_name="tool.0")
    stage.link("/robot/footprint/base/arm/visuals")
    return stage


def test_links_without_mass_are_frames() -> None:
    plan = links_without_mass(Stage()).plan()
    assert [(f.id, f.parent, f.static) for f in plan.robots[0].frames] == [
        ("robot", "world", True),
        ("footprint", "robot", True),
        ("base", "robot", True),
        ("arm", "base", False),
        ("flange", "arm", True),
        ("tool.0", "flange", True),
    ]
    np.testing.assert_allclose(
        frames(plan)["tool.0"].carrier_from_frame.translation, (0.1, 0.1, 0.0), atol=1e-12
    )


def test_where_an_asset_has_ros_schemas_only_a_converter_makes_links_of_xforms() -> None:
    stage = Stage()
    stage.context()
    stage = links_without_mass(stage)
    assert set(frames(stage.plan())) == {"robot", "footprint", "base", "arm"}
    stage.link("/robot/footprint/base/arm/imu_link", converted=True)
    stage.topic("/robot/footprint/base/arm/imu_link/imu", "sensor_msgs/msg/Imu")
    plan = stage.plan()
    assert set(frames(plan)) == {"robot", "footprint", "base", "arm", "imu_link"}
    assert plan.topics[0].frame_id == "imu_link"


def test_a_link_called_like_the_parent_frame_is_that_frame() -> None:
    stage = arm()
    stage.link("/robot/world", converted=True)
    stage.link("/robot/world/camera", converted=True)
    plan = stage.plan()
    assert frames(plan)["camera"].parent == "robot"
    assert "/robot/world" not in {frame.path for frame in plan.robots[0].frames}


def footprint_robot() -> Stage:
    """A base that moves, half a metre above its footprint, which is a link without mass, as is the link above that."""
    stage = Stage()
    base = "/robot/root/footprint/base"
    stage.body(base, (0.0, 0.0, 0.5))
    stage.body(f"{base}/arm")
    stage.joint("/robot/shoulder", base, f"{base}/arm")
    stage.link("/robot/root", converted=True)
    stage.link("/robot/root/footprint", converted=True)
    return stage


def test_links_above_a_base_that_moves_are_the_root_of_its_frames() -> None:
    robot = footprint_robot().plan().robots[0]
    assert [(f.id, f.parent, f.static) for f in robot.frames] == [
        ("robot", "world", True),
        ("root", "robot", False),
        ("footprint", "root", True),
        ("base", "footprint", True),
        ("arm", "base", False),
    ]
    assert robot.frames[robot.base].id == "root"
    found = {f.id: f for f in robot.frames}
    assert found["root"].carrier == found["base"].carrier == robot.base_row
    assert found["root"].carrier_from_frame.translation == (0.0, 0.0, -0.5)
    assert found["base"].parent_from_frame.translation == (0.0, 0.0, 0.5)


def test_a_footprint_is_what_odometry_moves() -> None:
    stage = footprint_robot()
    stage.topic("/robot/odom", "nav_msgs/msg/Odometry")
    plan = stage.plan(base_transform="odometry")
    (robot,) = plan.robots
    base = robot.frames[robot.base]
    assert (base.id, base.parent, base.parent_from_frame.translation) == ("root", "odom", (0.0, 0.0, 0.0))
    assert [topic.child_frame_id for topic in plan.topics if topic.path == "/robot/odom"] == ["root"]


def test_a_declared_frame_above_the_base_is_its_root_without_a_word() -> None:
    stage = footprint_robot()
    stage.frame("/robot/root/footprint")
    plan = stage.plan()
    assert frames(plan)["footprint"].static
    assert frames(plan)["base"].parent == "footprint"
    assert not [each for each in plan.diagnostics if each.code.startswith("2.7")]


# --- Isaac's robot schema ----------------------------------------------------------------------------------------


def test_a_point_of_interest_is_a_frame_with_x_along_its_forward_axis() -> None:
    stage = arm()
    for axis in (None, "X", "Y", "Z", "W"):
        path = stage.xform(f"/robot/link_2/site_{axis}", (0.1, 0.0, 0.2), turn("X", 90.0))
        stage.add("isaac_sites", IsaacSiteRecord(path=path, forward_axis=axis))
    stage.frame("/robot/link_2/site_Z/tip", (0.0, 0.0, 0.3))
    plan = stage.plan(frames_from_xforms=False)
    prim = pose((0.1, 0.0, 0.2), turn("X", 90.0))
    for axis, along in (("None", 0), ("X", 0), ("Y", 1), ("Z", 2), ("W", 0)):
        site = frames(plan)[f"site_{axis}"]
        assert (site.parent, site.static) == ("link_2", True)
        found_x = rotate(np.array(site.parent_from_frame.rotation), np.array([1.0, 0.0, 0.0]))
        np.testing.assert_allclose(found_x, rotate(prim[3:], np.eye(3)[along]), atol=1e-12)
        np.testing.assert_allclose(site.parent_from_frame.translation, prim[:3], atol=1e-12)
    # 0.3 m along the prim's Z, which is the frame's X.
    assert frames(plan)["tip"].parent == "site_Z"
    np.testing.assert_allclose(frames(plan)["tip"].parent_from_frame.translation, (0.3, 0.0, 0.0), atol=1e-12)
    (finding,) = found(plan, "isaac.forward_axis")
    assert (finding.path, finding.severity) == ("/robot/link_2/site_W", "warning")


def test_a_frame_that_is_there_anyway_is_not_turned() -> None:
    stage = arm()
    stage.frame("/robot/link_2/tool")
    for path in ("/robot/link_2", "/robot/link_2/tool"):
        stage.add("isaac_sites", IsaacSiteRecord(path=path, forward_axis="Z"))
    plan = stage.plan()
    assert frames(plan)["tool"].parent_from_frame == Pose()
    assert frames(plan)["link_2"].edge >= 0
    assert [finding.path for finding in found(plan, "isaac.forward_axis")] == [
        "/robot/link_2",
        "/robot/link_2/tool",
    ]


def listed(*links: str) -> Stage:
    stage = arm()
    stage.body("/robot/left")
    stage.joint("/robot/left_joint", "/robot/base", "/robot/left")
    stage.xform("/robot/link_1/mount", (0.0, 0.0, 0.1))
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", links=links))
    return stage


def test_the_list_of_links_limits_the_frames_to_them_and_what_carries_them() -> None:
    plan = listed("/robot/link_1", "/robot/link_1/mount").plan()
    assert set(frames(plan)) == {"robot", "base", "link_1", "mount"}
    assert frames(plan)["mount"].parent == "link_1"
    assert "/robot/link_2" in plan.layout.bodies, "what is not reported moves all the same"
    assert set(frames(listed("/robot/link_2").plan())) == {"robot", "base", "link_1", "link_2"}


def test_what_needs_a_frame_has_one_listed_or_not() -> None:
    stage = listed("/robot/base")
    stage.frame("/robot/link_1/mount", id="tool0")
    site = stage.xform("/robot/left/tip")
    stage.add("isaac_sites", IsaacSiteRecord(path=site))
    assert set(frames(stage.plan())) == {"robot", "base", "link_1", "tool0", "left", "tip"}


@each_case("links", [(), ("/robot/gone",)])
def test_a_list_of_no_link_limits_nothing(links: tuple[str, ...]) -> None:
    assert set(frames(listed(*links).plan())) == {"robot", "base", "link_1", "link_2", "left"}


def test_a_list_may_name_another_robot() -> None:
    stage = listed("/robot/base", "/robot/hand")
    for name in ("palm", "thumb"):
        stage.body(f"/robot/hand/{name}")
        stage.joint(f"/robot/hand/{name}_joint", "/robot/base", f"/robot/hand/{name}")
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot/hand"))
    assert set(frames(stage.plan())) == {"robot", "base", "palm", "thumb", "hand"}
    stage.parts["isaac_robots"][-1] = IsaacRobotRecord(path="/robot/hand", links=("/robot/hand/palm",))
    assert set(frames(stage.plan())) == {"robot", "base", "palm", "hand"}


def test_links_of_props_are_no_frames() -> None:
    stage = arm()
    stage.body("/robot/crate")
    stage.link("/robot/crate/lid", converted=True)
    assert "lid" not in frames(stage.plan())


def test_schemas_on_a_camera_prim_give_warnings() -> None:
    stage = Stage()
    stage.context()
    stage.camera("/robot/camera")
    stage.frame("/robot/camera")
    stage.topic("/robot/camera", "sensor_msgs/msg/Image")
    assert [d.severity for d in found(stage.plan(), "2.8")] == ["warning", "warning"]


@each_case("value", [float("nan"), float("inf"), 0.0])
def test_a_frame_that_cannot_be_placed_is_left_out(value: float) -> None:
    stage = Stage()
    stage.context()
    stage.frame("/robot/bad", matrix=np.diag([value, 1.0, 1.0, 1.0]))
    stage.frame("/robot/good")
    plan = stage.plan()
    assert list(frames(plan)) == ["robot", "good"]
    assert found(plan, "1.1.transform")[0].severity == "error"


def test_a_context_that_cannot_be_placed_leaves_its_frames_to_the_parent_frame() -> None:
    stage = Stage()
    stage.xform("/robot", matrix=np.full((4, 4), np.nan))
    stage.context()
    stage.body("/robot/base", matrix=np.eye(4))
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    plan = stage.plan()
    assert (frames(plan)["base"].parent, list(frames(plan))) == ("world", ["base"])


# --- Topics and base ---------------------------------------------------------------------------------------------


@each_case(
    ("options", "expected"),
    [
        ({}, [TfOutput(tf="/robot/tf", tf_static="/robot/tf_static")]),
        ({"frame_prefix": "p_"}, [TfOutput(tf="/robot/tf", tf_static="/robot/tf_static", prefix="p_")]),
        ({"tf_output": "global"}, [TfOutput(tf="/tf", tf_static="/tf_static", prefix="robot/")]),
        (
            {"tf_output": "both"},
            [
                TfOutput(tf="/robot/tf", tf_static="/robot/tf_static"),
                TfOutput(tf="/tf", tf_static="/tf_static", prefix="robot/"),
            ],
        ),
        (
            {"tf_output": "shared", "frame_prefix": "p_"},
            [TfOutput(tf="/tf", tf_static="/tf_static", prefix="p_")],
        ),
        ({"publish_tf": False}, []),
        ({"namespace": "fleet"}, [TfOutput(tf="/fleet/robot/tf", tf_static="/fleet/robot/tf_static")]),
    ],
)
def test_where_transforms_go(options: Any, expected: list[TfOutput]) -> None:
    assert list(arm().plan(**options).robots[0].tf_outputs) == expected


def test_without_a_namespace_they_go_to_the_global_topics() -> None:
    stage = Stage()
    stage.context(namespace=None)
    (output,) = stage.plan(tf_output="global").robots[0].tf_outputs
    assert output == TfOutput(tf="/tf", tf_static="/tf_static")


def test_on_a_topic_that_all_share_every_frame_of_every_robot_has_an_id_of_its_own() -> None:
    stage = Stage()
    for number in (1, 2):
        stage.context(f"/world/robot_{number}", f"robot_{number}")
        stage.body(f"/world/robot_{number}/base")
        stage.body(f"/world/robot_{number}/tool")
        stage.joint(
            f"/world/robot_{number}/joint", f"/world/robot_{number}/base", f"/world/robot_{number}/tool"
        )
    alone = [frame.id for robot in stage.plan().robots for frame in robot.frames]
    shared = [frame.id for robot in stage.plan(tf_output="shared").robots for frame in robot.frames]
    assert len(alone) == len(shared) == 6
    assert len(set(alone)) < 6
    assert len(set(shared)) == 6


@each_case(
    ("option", "drive", "expected", "parent"),
    [
        ("auto", True, "odometry", "odom"),
        ("auto", False, "ground_truth", "robot"),
        ("ground_truth", True, "ground_truth", "robot"),
        ("odometry", False, "odometry", "odom"),
        ("none", True, "none", "robot"),
    ],
)
def test_base_transform(option: str, drive: bool, expected: str, parent: str) -> None:
    stage = rover()
    if drive:
        stage.controller(diff_drive())
    plan = stage.plan(base_transform=option)
    (robot,) = plan.robots
    base = robot.frames[robot.base]
    assert (robot.base_transform, base.id, base.parent) == (expected, "base", parent)
    assert robot.odom_frame == "odom"
    assert (base.parent_index == -1) is (parent == "odom")
    assert base.parent_from_frame.translation == ((0.0, 0.0, 0.0) if parent == "odom" else (1.0, 2.0, 0.1))
    assert frames(plan)["left"].parent == "base"
    assert topics(plan)["/robot/odom"].frame_id == "odom"
    assert topics(plan)["/robot/odom"].child_frame_id == "base"


@each_case(
    ("authored", "option", "expected"),
    [
        ("ground_truth", "auto", "ground_truth"),
        ("odometry", "auto", "odometry"),
        ("none", "auto", "none"),
        ("auto", "auto", "odometry"),
        ("none", "ground_truth", "ground_truth"),
        ("truth", "auto", "odometry"),
    ],
)
def test_a_context_says_where_the_base_transform_comes_from_and_the_caller_has_the_last_word(
    authored: str, option: str, expected: str
) -> None:
    stage = Stage()
    stage.context(base_transform=authored)
    rover(stage, context=False)
    stage.controller(diff_drive())
    plan = stage.plan(base_transform=option)
    assert plan.robots[0].base_transform == expected
    assert [each.severity for each in found(plan, "2.1.base_transform")] == (
        ["error"] if authored == "truth" else []
    )


def test_a_base_transform_without_effect_is_said() -> None:
    stage = Stage()
    stage.context(base_transform="odometry")
    arm(stage, context=False)
    stage.context("/robot/link_1", "tool", base_transform="none")
    plan = stage.plan()
    assert plan.robots[0].base_transform == "ground_truth"
    assert [(each.severity, each.path) for each in found(plan, "2.1.base_transform")] == [
        ("warning", "/robot/link_1"),
        ("warning", "/robot"),
    ]


@each_case("change", [{"starts_enabled": False}, {"odom": None}, {"odom": ("/robot/nowhere",)}])
def test_only_an_active_drive_with_odometry_owns_the_base(change: Any) -> None:
    stage = rover()
    stage.controller(diff_drive(**change))
    assert stage.plan().robots[0].base_transform == "ground_truth"


def test_an_anchored_robot_has_no_free_base() -> None:
    assert arm().plan(base_transform="none").robots[0].base_transform == "none", "its place is another's"
    (robot,) = arm().plan(base_transform="odometry").robots
    assert (robot.base, robot.base_row, robot.base_transform) == (-1, 0, "ground_truth")


def test_a_context_that_is_the_base_body() -> None:
    stage = Stage(default_prim="/base")
    stage.body("/base", (1.0, 0.0, 0.0))
    rover_parts = (("left", 0.25), ("right", -0.25))
    stage.context("/base", "robot")
    for name, y in rover_parts:
        stage.body(f"/base/{name}", (0.0, y, 0.0))
        stage.joint(f"/base/{name}_wheel", "/base", f"/base/{name}", axis="Y", local_pos0=(0.0, y, 0.0))
    stage.topic("/base/cmd_vel", "geometry_msgs/msg/Twist", role="subscription")
    stage.topic("/base/odom", "nav_msgs/msg/Odometry")
    stage.controller(diff_drive("/base"))
    plan = stage.plan()
    assert [(f.id, f.parent) for f in plan.robots[0].frames] == [
        ("base", "odom"),
        ("left", "base"),
        ("right", "base"),
    ]


def test_a_robot_of_one_body_has_a_base_where_an_interface_needs_one() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/hull")
    assert stage.plan().robots[0].base_row == -1
    stage.topic("/robot/cmd_vel", "geometry_msgs/msg/Twist", role="subscription")
    plan = stage.plan()
    assert plan.robots[0].frames[plan.robots[0].base].id == "hull"
    assert topics(plan)["/robot/cmd_vel"].body == plan.robots[0].base_row == 0


def test_a_commanded_body_has_a_row() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/platform", kinematic_enabled=True)
    stage.body("/robot/other")
    stage.topic("/robot/cmd", "geometry_msgs/msg/Twist", role="subscription")
    stage.controller(
        RigidBodyTwistRecord(path="/robot/c", subscriber=("/robot/cmd",), body=("/robot/platform",))
    )
    plan = stage.plan()
    assert plan.layout.bodies == ("/robot/platform",)
    assert plan.layout.kinematic.tolist() == [True]
    assert plan.controllers[0].parameters == {"body": "/robot/platform"}
