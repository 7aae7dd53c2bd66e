"""A faulty asset is data: whatever the records hold, planning gives a plan that keeps its promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.records import Stage, arm
from effort import examples
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model import records as r
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import PlainLinkRecord, StageMetrics, StageRecords, XformRecord
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan

EXAMPLES = examples(75)
PATHS = ["/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e", "/a/e/b", "/a/e/b/f", "/g", "/g/b", "/nowhere"]
NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 1e-308]))
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "/",
            "~",
            "{x}",
            "a//b",
            "ok",
            "/abs",
            "world",
            "odom",
            "publisher",
            "subscription",
            "server",
            "client",
            "std_msgs/msg/String",
            "sensor_msgs/msg/JointState",
            "nav_msgs/msg/Odometry",
            "geometry_msgs/msg/Twist",
            "std_srvs/srv/Trigger",
            "control_msgs/action/FollowJointTrajectory",
            "control_msgs/action/ParallelGripperCommand",
            "trajectory_msgs/msg/JointTrajectory",
            "reliable",
            "X",
            "Y",
            "Z",
            "W",
        ]
    ),
)
TARGETS = st.one_of(
    st.none(), st.lists(st.sampled_from([*PATHS, "/a.collection:x", ""]), max_size=3).map(tuple)
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "token": TEXTS,
    "bool": st.sampled_from([None, True, False]),
    "rel": TARGETS,
    "int": st.one_of(st.none(), st.integers(-(2**31), 2**31)),
    "float": st.one_of(st.none(), NUMBERS),
    "double": st.one_of(st.none(), NUMBERS),
    "double[]": st.one_of(st.none(), st.lists(NUMBERS, max_size=7).map(tuple)),
    "token[]": st.one_of(st.none(), st.lists(st.text(max_size=5), max_size=3).map(tuple)),
    "vector3f": st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    "point3f": st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    "quatf": st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)),
    "float2": st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS)),
    "int2": st.one_of(st.none(), st.tuples(st.integers(-5, 10000), st.integers(-5, 10000))),
}
AXES = st.sampled_from(["transX", "transY", "rotX", "rotZ", "distance", "angular", "linear", "nonsense"])
SOLVER = st.dictionaries(
    st.sampled_from(
        [
            "newton:mimicJoint",
            "newton:mimicCoef1",
            "newton:velocityLimit",
            "state:angular:physics:position",
            "physxMimicJoint:rotX:referenceJoint",
            "physxMimicJoint:rotX:gearing",
            "ext_physics:mimic:joint",
            "urdf:limit:effort",
            "urdf:limit:velocity",
        ]
    ),
    st.one_of(NUMBERS, TARGETS, st.text(max_size=3)),
    max_size=3,
)
MATRIX = st.one_of(
    st.just(tuple(np.eye(4).reshape(-1).tolist())),
    st.lists(NUMBERS, min_size=16, max_size=16).map(tuple),
    st.tuples(NUMBERS, NUMBERS, NUMBERS).map(
        lambda v: (1.0, 0, 0, v[0], 0, 0, -1.0, v[1], 0, 1.0, 0, v[2], 0, 0, 0, 1.0)
    ),
)


def record(record_type: type[Any], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = {name: VALUES[spec.type_name] for name, spec in r.attribute_fields(record_type)}
    return st.builds(record_type, path=st.sampled_from(PATHS[:-1]), **{**fields, **fixed})


def several(record_type: type[Any], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(record(record_type, **fixed), max_size=4, unique_by=lambda each: each.path).map(tuple)


KINDS = ("Revolute", "Prismatic", "Fixed", "Spherical", "Distance", "")
JOINT_TYPES = st.sampled_from([*(f"Physics{kind}Joint" for kind in KINDS), "Gear"])


@st.composite
def stages(draw: st.DrawFn) -> StageRecords:
    xforms = {
        path: XformRecord(
            path=path,
            type_name=draw(st.sampled_from(["Xform", "Camera", ""])),
            world_from_prim=draw(MATRIX),
            animated=draw(st.booleans()),
            resets_stack=draw(st.booleans()),
            kept_name=draw(st.sampled_from(["", "", "a.b", " ", "/"])),
        )
        for path in PATHS[:-1]
    }
    joint = {
        "type_name": JOINT_TYPES,
        "solver_attributes": SOLVER,
        "applied": st.sampled_from([(), ("NewtonMimicAPI",), ("PhysxMimicJointAPI:rotX",)]),
        "limits": st.lists(
            st.builds(r.AxisLimitRecord, path=st.just("/a"), axis=AXES, low=NUMBERS, high=NUMBERS), max_size=3
        ).map(tuple),
        "drives": st.lists(
            st.builds(r.DriveRecord, path=st.just("/a"), axis=AXES, max_force=NUMBERS), max_size=2
        ).map(tuple),
    }
    controllers = st.lists(
        st.one_of(
            *(
                record(each)
                for each in (
                    r.ExternalControlRecord,
                    r.JointStateBroadcasterRecord,
                    r.JointTrajectoryRecord,
                    r.DiffDriveRecord,
                    r.RigidBodyTwistRecord,
                )
            )
        ),
        max_size=4,
    ).map(tuple)
    return StageRecords(
        asset="garbage.usda",
        default_prim=draw(st.sampled_from([None, "/a", "/g", "/nowhere"])),
        metrics=StageMetrics(
            meters_per_unit=draw(NUMBERS),
            kilograms_per_unit=draw(NUMBERS),
            up_axis=draw(st.sampled_from("XYZ")),
            time_codes_per_second=draw(NUMBERS),
            start_time_code=draw(st.one_of(st.none(), NUMBERS)),
        ),
        xforms=xforms,
        order={path: number for number, path in enumerate(PATHS)},
        contexts=draw(several(r.ContextRecord)),
        topics=draw(several(r.TopicRecord)),
        services=draw(several(r.ServiceRecord)),
        actions=draw(several(r.ActionRecord)),
        frames=draw(several(r.FrameRecord)),
        controllers=draw(controllers),
        bodies=draw(several(r.RigidBodyRecord)),
        articulation_roots=draw(several(r.ArticulationRootRecord)),
        joints=draw(several(r.JointRecord, **joint)),
        isaac_robots=draw(several(r.IsaacRobotRecord)),
        isaac_links=draw(several(r.IsaacLinkRecord)),
        isaac_joints=draw(several(r.IsaacJointRecord)),
        isaac_sites=draw(several(r.IsaacSiteRecord)),
        plain_links=draw(several(PlainLinkRecord, converted=st.booleans())),
        cameras=draw(several(r.CameraRecord)),
        collections={"/a.collection:x": ("/a/b", "/nowhere")},
    )


def check_promises(plan: BridgePlan) -> None:
    layout = plan.layout
    assert np.isfinite(layout.body_pose).all()
    assert np.isfinite(layout.joint_position).all()
    assert len(layout.dofs) == len(layout.lower) == len(layout.joint_position)
    for robot in plan.robots:
        ids = [frame.id for frame in robot.frames]
        assert len(set(ids)) == len(ids)
        assert robot.parent_frame not in ids
        for number, frame in enumerate(robot.frames):
            assert frame.id
            assert not frame.id.startswith("/")
            assert -1 <= frame.parent_index < number
            if frame.parent_index >= 0:
                assert robot.frames[frame.parent_index].id == frame.parent
            assert np.isfinite(
                [*frame.parent_from_frame.translation, *frame.parent_from_frame.rotation]
            ).all()
            assert abs(np.linalg.norm(frame.parent_from_frame.rotation) - 1.0) < 1e-9
            assert frame.carrier < len(layout.bodies)
        assert len({joint.name for joint in robot.joints}) == len(robot.joints)
        assert sorted(i for edge in robot.edges for i in edge.joints) == list(range(len(robot.joints)))
        assert sorted(robot.joint_state_rows) == sorted(d.row for joint in robot.joints for d in joint.dofs)
    for interface in (*plan.topics, *plan.services, *plan.actions):
        assert interface.enabled is (interface.reason == "")
        assert interface.body < len(layout.bodies)
    for controller in plan.controllers:
        assert controller.enabled is (controller.reason == "")
        assert controller.switchable or not controller.enabled
        assert all(row in range(len(layout.dofs)) for row in controller.dofs)
        assert len(controller.dofs) == len(controller.joints)
        if controller.switchable:
            numbers = [value for value in controller.parameters.values() if isinstance(value, float)]
            assert np.isfinite(numbers).all()
            bodies = {claim for claim in controller.claims if isinstance(claim, str)}
            assert bodies <= set(layout.bodies)
    claims = [claim for controller in plan.controllers if controller.enabled for claim in controller.claims]
    assert len(set(claims)) == len(claims)
    for diagnostic in plan.diagnostics:
        assert diagnostic.message.isprintable()


@pytest.mark.random
@pytest.mark.timeout(max(120, EXAMPLES))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stages(), st.sampled_from(["namespaced", "global", "both"]), st.booleans())
def test_garbage_never_raises_and_the_plan_keeps_its_promises(
    records: StageRecords, tf_output: Any, flag: bool
) -> None:
    with np.errstate(all="ignore"):
        plan = make_plan(
            records, PlanOptions(tf_output=tf_output, isaac_names=flag, frames_from_xforms=flag or "auto")
        )
    check_promises(plan)
    json.dumps(plan_to_json(plan), allow_nan=False)


def test_control_characters_are_escaped_in_messages() -> None:
    stage = arm()
    stage.topic("/robot/a", name="\x1b[31mred\n" + "x" * 500)
    (diagnostic,) = stage.plan().diagnostics
    assert "\x1b" not in diagnostic.message
    assert "\n" not in diagnostic.message
    assert len(diagnostic.message) < 250


def test_a_fleet_plans_in_linear_time(number_of_calls: Callable[[Callable[[], Any]], int]) -> None:
    """Not a benchmark: ten times the robots may not take much more than ten times the calls."""

    def calls(count: int) -> int:
        stage = Stage(default_prim="/w")
        for number in range(count):
            arm(stage, f"/w/r{number}")
        records = stage.records()
        return number_of_calls(lambda: make_plan(records, PlanOptions()))

    calls(1)
    assert calls(200) < 12 * calls(20)
