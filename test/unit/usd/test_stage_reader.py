"""The reader: which prims count, what is read of them, and where they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pxr import Sdf, Usd
from reading import read_asset

from case_tables import each_case
from usd_ros_bridge.model.records import DiffDriveRecord, JointStateBroadcasterRecord, fallback
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.runtime.plan_binding import same
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.read.properties import is_name_of

Read = Callable[..., StageRecords]
Write = Callable[..., str]


def codes(records: StageRecords) -> list[str]:
    return [diagnostic.code for diagnostic in records.diagnostics]


ROBOT = """
def Xform "Robot" (prepend apiSchemas = ["RosContextAPI"]) {
    string ros:context:namespace = "robot_1"
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"]) {
        bool physics:kinematicEnabled = true
        def Xform "mount" {
            def Xform "lidar" (prepend apiSchemas = ["RosTopicAPI", "RosFrameAPI"]) {
                uniform token ros:topic:role = "publisher"
                uniform string ros:topic:name = "scan"
                uniform string ros:topic:type = "sensor_msgs/msg/LaserScan"
                uniform double ros:topic:publish_rate = 10
                double3 xformOp:translate = (1, 2, 3)
                uniform token[] xformOpOrder = ["xformOp:translate"]
            }
        }
        def Scope "looks" {}
    }
    def Xform "wheel" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        double3 xformOp:translate = (0, 1, 0)
        quatf xformOp:orient = (0, 0, 0, 1)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]
    }
    def PhysicsRevoluteJoint "wheel_joint" (
        prepend apiSchemas = ["PhysicsDriveAPI:angular", "NewtonMimicAPI", "PhysicsJointStateAPI:angular"]
        displayName = "wheel-joint"
    ) {
        rel physics:body0 = </Robot/base>
        rel physics:body1 = </Robot/wheel>
        uniform token physics:axis = "Y"
        point3f physics:localPos0 = (0, 1, 0)
        quatf physics:localRot0 = (0.5, 0.1, 0.2, 0.3)
        float drive:angular:physics:damping = 10
        uniform token drive:angular:physics:type = "acceleration"
        rel newton:mimicJoint = </Robot/Missing>
        float newton:mimicCoef1 = -2
        float state:angular:physics:position = 12.5
        float physxJoint:maxJointVelocity = 90
        double[] mjc:solreflimit = [0.02, 1]
        custom string ros:joint:name = "left_wheel"
    }
    def PhysicsJoint "six" (prepend apiSchemas = ["PhysicsLimitAPI:rotX", "PhysicsLimitAPI:transZ"]) {
        rel physics:body1 = </Robot/wheel>
        rel physics:body0
        float limit:rotX:physics:low = -5
        float limit:transZ:physics:high = 0.5
    }
}
"""


def test_schemas_are_found_by_their_applied_names(read: Read) -> None:
    records = read(ROBOT)
    assert records.default_prim == "/Robot"
    assert [record.path for record in records.contexts] == ["/Robot"]
    assert records.contexts[0].namespace == "robot_1"
    assert records.contexts[0].parent_frame is None
    assert fallback(records.contexts[0], "parent_frame") == "world"
    (topic,) = records.topics
    assert (topic.role, topic.name, topic.type, topic.publish_rate) == (
        "publisher",
        "scan",
        "sensor_msgs/msg/LaserScan",
        10.0,
    )
    assert topic.depth is None
    assert [record.path for record in records.frames] == ["/Robot/base/mount/lidar"]
    assert [record.path for record in records.bodies] == ["/Robot/base", "/Robot/wheel"]
    assert [record.kinematic_enabled for record in records.bodies] == [True, None]
    assert [record.path for record in records.articulation_roots] == ["/Robot/base"]
    assert records.diagnostics == ()


def test_joints_carry_limits_drives_and_solver_attributes(read: Read) -> None:
    wheel, six = read(ROBOT).joints
    assert wheel.type_name == "PhysicsRevoluteJoint"
    assert wheel.kept_name == "wheel-joint"
    assert (wheel.body0, wheel.body1) == (("/Robot/base",), ("/Robot/wheel",))
    assert wheel.local_pos0 == (0.0, 1.0, 0.0)
    assert wheel.local_rot0 == pytest.approx((0.1, 0.2, 0.3, 0.5))  # x, y, z, w
    assert wheel.axis == "Y"
    assert wheel.ros_name == "left_wheel"
    (drive,) = wheel.drives
    assert (drive.axis, drive.damping, drive.type, drive.stiffness) == ("angular", 10.0, "acceleration", None)
    assert wheel.applied == ("NewtonMimicAPI", "PhysicsJointStateAPI:angular")
    assert wheel.solver_attributes == {
        "newton:mimicJoint": ("/Robot/Missing",),
        "newton:mimicCoef1": -2.0,
        "state:angular:physics:position": 12.5,
        "physxJoint:maxJointVelocity": 90.0,
        "mjc:solreflimit": (0.02, 1.0),
    }
    assert [(limit.axis, limit.low, limit.high) for limit in six.limits] == [
        ("rotX", -5.0, None),
        ("transZ", None, 0.5),
    ]
    assert six.body0 is None
    assert six.drives == ()


def test_xforms_hold_what_records_name_their_ancestors_and_xforms_below_bodies(read: Read) -> None:
    records = read(ROBOT)
    assert list(records.xforms) == [
        "/Robot",
        "/Robot/base",
        "/Robot/base/mount",
        "/Robot/base/mount/lidar",
        "/Robot/wheel",
    ]
    # Column vectors, row by row: the translation is in the last column; half a turn about Z.
    assert records.xforms["/Robot/wheel"].world_from_prim == pytest.approx(
        (-1, 0, 0, 0, 0, -1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1)
    )
    assert records.xforms["/Robot/base/mount"].type_name == "Xform"
    assert not any(xform.animated or xform.resets_stack for xform in records.xforms.values())
    order = records.order
    assert sorted(order, key=order.__getitem__) == [*records.xforms, "/Robot/wheel_joint", "/Robot/six"]


def test_missing_targets_are_not_among_the_xforms(read: Read) -> None:
    records = read(
        """
def Xform "Robot" (prepend apiSchemas = ["IsaacRobotAPI"]) {
    rel isaac:physics:robotLinks = [</Robot/here/below>, </Robot/gone>]
    rel isaac:physics:robotJoints = </Robot/joint>
    def Xform "here" {
        def "below" (prepend apiSchemas = ["IsaacLinkAPI"]) {
            string isaac:nameOverride = "L"
        }
    }
    def PhysicsPrismaticJoint "joint" (prepend apiSchemas = ["IsaacJointAPI"]) {
        string isaac:NameOverride = "slide"
        token[] isaac:physics:DofOffsetOpOrder = ["TransX", "RotX"]
        int isaac:physics:Tr_X:DoFOffset = 4
        rel physics:body0 = </Nowhere>
    }
}
"""
    )
    assert records.isaac_robots[0].links == ("/Robot/here/below", "/Robot/gone")
    assert records.isaac_links[0].name_override == "L"
    joint = records.isaac_joints[0]
    assert (joint.name_override, joint.dof_offset_order, joint.trans_x_offset) == (
        "slide",
        ("TransX", "RotX"),
        4,
    )
    assert records.joints[0].body0 == ("/Nowhere",)
    assert "/Nowhere" not in records.xforms
    assert {"/Robot/here", "/Robot/here/below", "/Robot/joint"} <= records.xforms.keys()
    assert "/Robot/gone" not in records.xforms


def test_only_active_defined_and_concrete_prims_count(read: Read) -> None:
    topic = '(prepend apiSchemas = ["RosTopicAPI"])'
    records = read(
        f"""
def Xform "Robot" {{
    def Xform "yes" {topic} {{}}
    def Xform "inactive" (
        active = false
        prepend apiSchemas = ["RosTopicAPI"]
    ) {{}}
    over "undefined" {topic} {{}}
    class "abstract" {topic}
    {{
        def "below" {topic} {{}}
    }}
    over "nothing" {{
        def "inside" {topic} {{}}
    }}
}}
"""
    )
    assert [record.path for record in records.topics] == ["/Robot/yes"]


def test_unloaded_payloads_still_count(read: Read, write: Write) -> None:
    write(
        'def Xform "Robot"\n{\ndef Xform "inside" (prepend apiSchemas = ["RosFrameAPI"]) {}\n}', "heavy.usda"
    )
    body = """
def Xform "Robot" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    prepend payload = @./heavy.usda@
) {}
"""
    assert [len(r.bodies) for r in (read(body), read(body, payloads="none"))] == [1, 1]
    assert [len(r.frames) for r in (read(body), read(body, payloads="none"))] == [1, 0]


ARM = """
def Xform "Robot" (prepend apiSchemas = ["RosContextAPI"]) {
    string ros:context:namespace = "arm"
    def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        double3 xformOp:translate = (0, 0, 1)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def PhysicsFixedJoint "joint" {
        rel physics:body1 = </Robot/link>
        int physics:jointEnabled = 1
    }
}
"""


def test_clones_of_one_robot_differ_in_paths_and_overrides_only(read: Read, write: Write) -> None:
    write(ARM, "arm.usda")
    records = read(
        """
def Xform "Robot" {
    def "a" (prepend references = @./arm.usda@) {
        string ros:context:namespace = "a"
    }
    def "b" (prepend references = @./arm.usda@) {
        double3 xformOp:translate = (5, 0, 0)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def "c" (
        prepend references = @./arm.usda@
        instanceable = true
    ) {}
}
"""
    )
    assert [record.namespace for record in records.contexts] == ["a", "arm", "arm"]
    assert [joint.body1 for joint in records.joints] == [
        ("/Robot/a/link",),
        ("/Robot/b/link",),
        ("/Robot/c/link",),
    ]
    assert [joint.enabled for joint in records.joints] == [True] * 3
    assert [(d.code, d.path) for d in records.diagnostics] == [
        ("1.3.enabled", f"/Robot/{name}/joint") for name in "abc"
    ]
    assert [records.xforms[f"/Robot/{name}/link"].world_from_prim[3] for name in "abc"] == [0, 5, 0]
    assert [records.xforms[f"/Robot/{name}/link"].instance_proxy for name in "abc"] == [False, False, True]


def test_controllers_and_their_collections(read: Read) -> None:
    records = read(
        """
def Xform "Robot" {
    def Scope "Control" (prepend apiSchemas = ["RosControlDiffDriveAPI", "CollectionAPI:wheels"]) {
        rel ros:diff_drive:left_wheels = </Robot/Control.collection:wheels>
        uniform double ros:diff_drive:wheel_radius = 0.1
        uniform double ros:diff_drive:linear:x:max_velocity = 2
        rel collection:wheels:includes = [</Robot/z>, </Robot/a>]
    }
    def Scope "Report" (prepend apiSchemas = ["RosControlJointStateBroadcasterAPI"]) {
        rel ros:joint_state_broadcaster:publisher = </Robot/pub>
        bool control:starts_enabled = false
    }
    def PhysicsRevoluteJoint "z" {}
    def PhysicsRevoluteJoint "a" {}
}
"""
    )
    drive, report = records.controllers
    assert isinstance(drive, DiffDriveRecord)
    assert isinstance(report, JointStateBroadcasterRecord)
    assert (drive.wheel_radius, drive.linear_max_velocity, drive.cmd_vel_timeout) == (0.1, 2.0, None)
    assert fallback(drive, "cmd_vel_timeout") == 0.5
    assert report.starts_enabled is False
    assert records.collections == {"/Robot/Control.collection:wheels": ("/Robot/z", "/Robot/a")}


def test_cameras(read: Read) -> None:
    (camera,) = read(
        """
def Camera "Robot" {
    float focalLength = 24
    float2 clippingRange = (0.1, 100)
    custom int2 usd_ros_bridge:camera:resolution = (320, 200)
}
"""
    ).cameras
    assert camera.focal_length == 24.0
    assert camera.clipping_range == pytest.approx((0.1, 100.0))
    assert camera.resolution == (320, 200)
    assert camera.horizontal_aperture is None


def test_time_samples_of_xforms(read: Read) -> None:
    records = read(
        """
def Xform "Robot" (prepend apiSchemas = ["RosContextAPI"]) {
    def Xform "lift" {
        double3 xformOp:translate.timeSamples = { 1: (0, 0, 1), 3: (0, 0, 3) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Xform "plate" (prepend apiSchemas = ["RosFrameAPI"]) {
            double3 xformOp:translate.timeSamples = { 1: (1, 0, 0), 2: (2, 0, 0) }
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
        def Xform "apart" (prepend apiSchemas = ["RosFrameAPI"]) {
            uniform token[] xformOpOrder = ["!resetXformStack!"]
        }
    }
    def Xform "still" (prepend apiSchemas = ["RosFrameAPI"]) {
        double3 xformOp:translate.timeSamples = { 1: (7, 0, 0), 2: (7, 0, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Xform "one" (prepend apiSchemas = ["RosFrameAPI"]) {
        double3 xformOp:translate.timeSamples = { 4: (9, 0, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""
    )
    animated = {path for path, xform in records.xforms.items() if xform.animated}
    assert animated == {"/Robot/lift", "/Robot/lift/plate"}
    assert records.xforms["/Robot/lift/apart"].resets_stack
    translation = {path: xform.world_from_prim[3::4][:3] for path, xform in records.xforms.items()}
    assert translation["/Robot/lift/plate"] == (1, 0, 1)  # the earliest sample: there is no default value
    assert translation["/Robot/still"] == (7, 0, 0)
    assert translation["/Robot/one"] == (9, 0, 0)
    tracks = {track.path: track for track in records.pose_tracks}
    assert list(tracks) == ["/Robot/lift", "/Robot/lift/plate"]
    plate = tracks["/Robot/lift/plate"]
    np.testing.assert_array_equal(plate.time_codes, [1, 2, 3])
    np.testing.assert_allclose(plate.world_from_prim[:, :3, 3], [[1, 0, 1], [2, 0, 2], [2, 0, 3]])


def test_time_samples_of_joint_positions(read: Read) -> None:
    records = read(
        """
def PhysicsRevoluteJoint "Robot" (prepend apiSchemas = ["PhysicsDriveAPI:angular"]) {
    float state:angular:physics:position.timeSamples = { 0: 10, 2: 20 }
    float drive:angular:physics:targetPosition.timeSamples = { 1: 5 }
    float physics:lowerLimit.timeSamples = { 5: -30, 6: -40 }
}
"""
    )
    tracks = {track.attribute: track for track in records.value_tracks}
    np.testing.assert_array_equal(tracks["state:angular:physics:position"].time_codes, [0, 2])
    np.testing.assert_array_equal(tracks["state:angular:physics:position"].values, [10, 20])
    np.testing.assert_array_equal(tracks["drive:angular:physics:targetPosition"].values, [5])
    assert records.joints[0].lower_limit == -30.0
    assert records.joints[0].drives[0].target_position == 5.0
    assert records.joints[0].solver_attributes["state:angular:physics:position"] == 10.0


def test_units_and_axes_are_read_and_reported(read: Read, write: Write) -> None:
    millimetres = '#usda 1.0\n(\n defaultPrim = "Robot"\n metersPerUnit = 0.001\n)\n'
    write('def Xform "Robot" {}', "other.usda", header=millimetres)
    header = """#usda 1.0
(
    defaultPrim = "Robot"
    metersPerUnit = 0.01
    upAxis = "Y"
    timeCodesPerSecond = 30
    startTimeCode = 3
)
"""
    records = read('def Xform "Robot" (prepend references = @./other.usda@) {}', header=header)
    metrics = records.metrics
    assert (metrics.meters_per_unit, metrics.up_axis, metrics.time_codes_per_second) == (0.01, "Y", 30.0)
    assert (metrics.start_time_code, metrics.end_time_code) == (3.0, None)
    assert metrics.authored == {"metersPerUnit", "upAxis", "timeCodesPerSecond"}
    assert codes(records) == [
        "1.1.meters_per_unit",
        "1.1.kilograms_per_unit",
        "1.1.up_axis",
        "1.1.time_codes_per_second",
        "1.1.meters_per_unit",
    ]
    assert {diagnostic.severity for diagnostic in records.diagnostics} == {"warning"}
    assert "other.usda" in records.diagnostics[-1].message


def test_unauthored_metrics_are_those_of_openusd(read: Read) -> None:
    metrics = read('def Xform "Robot" {}', header="#usda 1.0\n").metrics
    assert (metrics.meters_per_unit, metrics.up_axis, metrics.time_codes_per_second) == (0.01, "Y", 24.0)
    assert metrics.authored == frozenset()


@each_case("name", ["", '( defaultPrim = "Gone" )'])
def test_no_default_prim(read: Read, name: str) -> None:
    records = read('def Xform "Robot" {}', header=f"#usda 1.0\n{name}\n")
    assert records.default_prim is None
    assert "1.2.5.default_prim" in codes(records)


def test_a_default_prim_of_any_text_is_quoted(read: Read) -> None:
    (diagnostic,) = (
        d
        for d in read("", header=f'#usda 1.0\n( defaultPrim = "\\x1b{"x" * 5000}" )\n').diagnostics
        if d.code == "1.2.5.default_prim"
    )
    assert "\\x1b" in diagnostic.message
    assert len(diagnostic.message) < 300


def test_a_layer_that_is_no_text_is_reported(read: Read, write: Write, tmp_path: Path) -> None:
    (tmp_path / "latin1.usda").write_bytes(b"#usda 1.0\n\xff def")
    (diagnostic,) = read('def Xform "Robot" (prepend references = @./latin1.usda@) {}').diagnostics
    assert (diagnostic.code, diagnostic.path) == ("1.2.5.asset", "/Robot")
    assert "no UTF-8 text" in diagnostic.message


def test_broken_composition_is_reported_with_the_prim(read: Read) -> None:
    records = read(
        """
def Xform "Robot" {
    def "a" (prepend references = @./gone.usda@) {}
    def "b" (prepend payload = @./gone.usda@</X>) {}
    def "c" (prepend references = </Nowhere>) {}
    def Xform "rest" (prepend apiSchemas = ["RosTopicAPI"]) {}
}
"""
    )
    assert sorted((d.code, d.severity, d.path) for d in records.diagnostics) == [
        ("1.2.5.asset", "error", "/Robot/a"),
        ("1.2.5.asset", "error", "/Robot/b"),
        ("1.2.5.default_prim", "error", "/Robot/c"),
    ]
    assert all("gone.usda" in d.message for d in records.diagnostics if d.code == "1.2.5.asset")
    assert [record.path for record in records.topics] == ["/Robot/rest"]


def test_a_hosts_stage_is_not_changed(write: Write) -> None:
    path = write(ROBOT)
    stage = Usd.Stage.Open(path, Usd.Stage.LoadNone)
    stage.SetEditTarget(stage.GetSessionLayer())
    before = (
        stage.GetRootLayer().ExportToString(),
        stage.GetSessionLayer().ExportToString(),
        stage.GetEditTarget(),
    )
    records = read_stage(stage, asset="host")
    assert (
        stage.GetRootLayer().ExportToString(),
        stage.GetSessionLayer().ExportToString(),
        stage.GetEditTarget(),
    ) == before
    assert records.asset == "host"
    assert len(records.joints) == 2


def test_an_empty_stage_and_a_stage_in_memory() -> None:
    assert read_stage(Usd.Stage.CreateInMemory(), asset="x").xforms == {}
    stage = Usd.Stage.CreateInMemory()
    stage.DefinePrim("/A", "Xform").AddAppliedSchema("RosContextAPI")
    assert [record.path for record in read_stage(stage, asset="x").contexts] == ["/A"]


def test_reading_twice_gives_the_same(write: Write) -> None:
    stage, first = read_asset(write(ROBOT))
    second = read_stage(stage, asset=first.asset)
    assert first.joints == second.joints
    assert first.xforms == second.xforms
    assert list(first.order.items()) == list(second.order.items())


@each_case("order", ["bool xformOpOrder = 0", 'string[] xformOpOrder = ["xformOp:translate"]'])
def test_an_order_of_ops_of_another_type_is_a_transform_that_is_not_known(read: Read, order: str) -> None:
    """OpenUSD would take the prim to be where its parent is, in silence."""
    text = f'def Xform "Robot"\n{{\ndouble3 xformOp:translate = (1, 2, 3)\nuniform {order}\n}}\n'
    assert all(map(math.isnan, read(text).xforms["/Robot"].world_from_prim))


def test_nan_and_infinity_pass_through(read: Read) -> None:
    records = read(
        """
def Xform "Robot" (prepend apiSchemas = ["RosTopicAPI"]) {
    uniform double ros:topic:publish_rate = nan
    double3 xformOp:translate = (nan, inf, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""
    )
    assert math.isnan(records.topics[0].publish_rate or 0.0)
    assert math.isnan(records.xforms["/Robot"].world_from_prim[3])


def test_blocked_values_are_not_authored(read: Read) -> None:
    (topic,) = read(
        """
def Xform "Robot" (prepend apiSchemas = ["RosTopicAPI"]) {
    uniform double ros:topic:publish_rate = None
    uniform int ros:topic:qos:depth = None
    uniform bool ros:topic:starts_enabled = None
}
"""
    ).topics
    assert (topic.publish_rate, topic.depth, topic.starts_enabled, topic.invalid) == (None, None, None, ())


def test_a_joint_type_that_no_plugin_declares_is_no_joint() -> None:
    # Nothing says that it derives from one; names prove nothing.
    stage = Usd.Stage.CreateInMemory()
    stage.DefinePrim("/J", "SomebodysRevoluteJoint")
    assert read_stage(stage, asset="x").joints == ()


def test_whoever_reads_may_pause_between_prims_or_stop_there(write: Write) -> None:
    stage, records = read_asset(write(ROBOT))
    calls: list[None] = []
    assert same(read_stage(stage, asset=records.asset, pause=lambda: calls.append(None)), records)
    assert len(calls) >= len(records.order)

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        read_stage(stage, asset=records.asset, pause=stop)
    assert same(read_stage(stage, asset=records.asset), records)


@each_case(
    ("name", "shown"),
    [
        # What usdex.core.getValidPrimName and NameCache of OpenUSD Exchange 3.0.1 make of names.
        ("tn__joint_00_nC", "joint_0.0"),
        ("tn__wrist1_f9", "wrist-1"),
        ("tn__leftarm_h7", "left arm"),
        ("tn__0joint_", "0joint"),
        ("tn__Z7", "ü"),
        ("tn__jint_rc0", "jöint"),
        ("tn__opKeYP", "关节"),
        ("tn__iris__imu_link_yL", "iris__/imu_link"),
        ("tn__ab_1_j6", "a.b"),
        # What Tf.MakeValidIdentifier and others make of them.
        ("joint_0_0", "joint_0.0"),
        ("_joint", "0joint"),
        ("_0joint", "0joint"),
    ],
)
def test_names_that_converters_made_are_known(name: str, shown: str) -> None:
    assert is_name_of(name, shown)


@each_case(
    ("name", "shown"),
    [
        ("left_arm", "Left Arm"),
        ("left_arm", "left arm"),
        ("arm_1", "The arm on the left"),
        ("joint_0", "joint_0"),
        ("joint_0", ""),
        ("wheel_1", "wheel"),
        ("tn__joint_00_nC", "shoulder"),
        ("a_b", "a\nb"),
    ],
)
def test_remarks_for_people_are_no_names(name: str, shown: str) -> None:
    assert not is_name_of(name, shown)


def test_a_number_is_no_part_of_the_name_where_a_sibling_has_it(read: Read) -> None:
    records = read(
        """
def Xform "tn__2dof_" (
    prepend apiSchemas = ["RosContextAPI"]
    displayName = "2dof"
) {
    def Xform "base" {
        def Mesh "wheel" {}
        def Xform "wheel_1" (
            prepend apiSchemas = ["PhysicsRigidBodyAPI"]
            displayName = "wheel"
        ) {}
        def Xform "caster_1" (
            prepend apiSchemas = ["PhysicsRigidBodyAPI"]
            displayName = "caster"
        ) {}
        def Xform "fork_0_1" (
            prepend apiSchemas = ["PhysicsRigidBodyAPI"]
            uiHints = {
                string displayName = "fork_0.1"
            }
        ) {}
    }
}
"""
    )
    names = {path.rpartition("/")[2]: xform.kept_name for path, xform in records.xforms.items()}
    assert names == {
        "tn__2dof_": "2dof",
        "base": "",
        "wheel_1": "wheel",
        "caster_1": "",
        "fork_0_1": "fork_0.1",
    }


LINKS = """
def Xform "robot" {
    def Xform "footprint" {
        def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
            def Xform "tool" {
                def Xform "tip" {
                    def Camera "eye" {}
                }
                def Xform "finger" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
                    def Cube "pad" {}
                }
            }
            def Xform "looks" {
                def Scope "group" {
                    def Mesh "shell" {}
                }
            }
            def Xform "drawn_link" {
                def Scope "visual" {
                    def Sphere "dome" {}
                }
            }
            def Xform "part" (
                prepend references = </library>
            ) {}
            def Scope "materials" {}
        }
    }
    def Xform "loose" {}
}
def Xform "library" {}
"""


@each_case("creator", ["", "URDF USD Converter v0.3.4"])
def test_xforms_that_may_be_links(read: Read, creator: str) -> None:
    header = f"""#usda 1.0
(
    customLayerData = {{
        string creator = "{creator}"
    }}
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)
"""
    records = read(LINKS, header=header)
    base = "/robot/footprint/base"
    inside = [f"{base}/tool", f"{base}/tool/tip", f"{base}/drawn_link"]
    outside = ["/robot/footprint", "/robot/loose"]
    expected = {path: bool(creator) for path in (*inside, *(outside if creator else ()))}
    assert {link.path: link.converted for link in records.plain_links} == expected
    order = [records.order[link.path] for link in records.plain_links]
    assert order == sorted(order)
    assert records.xforms.keys() >= expected.keys()


def test_links_are_found_in_robots_that_repeat(tmp_path: Path) -> None:
    stage = Usd.Stage.CreateInMemory()
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString("#usda 1.0\n" + LINKS)
    for name in ("one", "two", "three"):
        prim = stage.DefinePrim(f"/world/{name}", "Xform")
        prim.GetReferences().AddReference(layer.identifier, "/robot")
        prim.SetMetadata("apiSchemas", Sdf.TokenListOp.CreateExplicit(["RosContextAPI"]))
    records = read_stage(stage, asset="fleet")
    suffixes = ("tool", "tool/tip", "drawn_link")
    assert records.repeats.keys() == {"/world/two", "/world/three"}
    assert [link.path for link in records.plain_links] == [
        f"/world/{name}/footprint/base/{suffix}" for name in ("one", "two", "three") for suffix in suffixes
    ]
