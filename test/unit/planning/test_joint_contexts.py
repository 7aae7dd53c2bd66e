"""Joint names in nested contexts (REP 0158 sections 2.1.1 and 2.10): a module has its own, however often it is used."""

from __future__ import annotations

from typing import Any

from builders.records import Stage, found, topics
from case_tables import each_case
from usd_ros_bridge.model import records as r
from usd_ros_bridge.model.change import common_rows
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan

JOINT_STATE = "sensor_msgs/msg/JointState"
TRAJECTORY_TOPIC = "trajectory_msgs/msg/JointTrajectory"


def module(stage: Stage, path: str, namespace: str, ros_name: str | None = "finger") -> None:
    """A gripper in a context of its own, on the robot's base."""
    stage.context(path, namespace)
    stage.body(f"{path}/palm")
    stage.body(f"{path}/tip")
    stage.joint(f"{path}/mount", "/robot/base", f"{path}/palm", "Fixed", ros_name=ros_name and "mount")
    stage.joint(f"{path}/slide", f"{path}/palm", f"{path}/tip", "Prismatic", ros_name=ros_name)
    stage.topic(f"{path}/states", JOINT_STATE)
    stage.topic(f"{path}/commands", JOINT_STATE, role="subscription")


def two_grippers(ros_name: str | None = "finger", *, paths: Any = ("left", "right")) -> Stage:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    for path, namespace in zip(paths, ("left", "right"), strict=True):
        module(stage, f"/robot/{path}", namespace, ros_name)
    stage.topic("/robot/states", JOINT_STATE)
    stage.topic("/robot/commands", JOINT_STATE, role="subscription")
    return stage


def joint_of(plan: BridgePlan, topic: TopicPlan) -> dict[str, str]:
    """Prim path of the joint that each name of a topic's messages means."""
    paths = (plan.layout.dof_joints[row] for row in topic.dofs)
    return dict(zip(plan.joint_names(topic), paths, strict=True))


@each_case(("ros_name", "name"), [("finger", "finger"), (None, "slide")])
def test_each_reference_of_a_module_has_its_own_names(ros_name: str | None, name: str) -> None:
    plan = two_grippers(ros_name).plan()
    for kind in ("states", "commands"):
        assert joint_of(plan, topics(plan)[f"/robot/left/{kind}"]) == {name: "/robot/left/slide"}
        assert joint_of(plan, topics(plan)[f"/robot/right/{kind}"]) == {name: "/robot/right/slide"}
        assert joint_of(plan, topics(plan)[f"/robot/{kind}"]) == {
            name: "/robot/left/slide",
            f"right_{name}": "/robot/right/slide",
        }


def test_a_diagnostic_says_how_equal_names_are_told_apart() -> None:
    plan = two_grippers().plan()
    diagnostic = next(d for d in found(plan, "2.10.name") if d.path == "/robot/right/slide")
    assert diagnostic.severity == "warning"
    for word in ("'finger'", "/robot/left/slide", "'right_finger'", "/robot/right"):
        assert word in diagnostic.message
    assert {joint.name for joint in plan.robots[0].joints} == {
        "anchor",
        "mount",
        "right_mount",
        "finger",
        "right_finger",
    }


def test_the_nearest_context_that_differs_tells_them_apart() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("a", "b"):
        stage.context(f"/robot/{side}", f"arm_{side}")
        module(stage, f"/robot/{side}/hand", "hand")
        stage.topic(f"/robot/{side}/states", JOINT_STATE)
    plan = stage.plan()
    assert joint_of(plan, topics(plan)["/robot/b/states"]) == {"finger": "/robot/b/hand/slide"}
    assert "arm_b_finger" in {joint.name for joint in plan.robots[0].joints}


def test_contexts_with_one_namespace_are_told_apart_by_their_prims() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("left", "right"):
        module(stage, f"/robot/{side}", "gripper")
    names = [joint.name for joint in stage.plan().robots[0].joints]
    assert names == ["mount", "finger", "right_mount", "right_finger"]


def test_a_joint_outside_of_a_context_is_in_it_when_it_moves_a_body_there() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("left", "right"):
        stage.context(f"/robot/{side}", side)
        stage.body(f"/robot/{side}/tip")
        stage.topic(f"/robot/{side}/states", JOINT_STATE)
        stage.joint(f"/robot/joints/{side}", "/robot/base", f"/robot/{side}/tip", ros_name="finger")
    plan = stage.plan()
    assert joint_of(plan, topics(plan)["/robot/right/states"]) == {"finger": "/robot/joints/right"}
    assert [joint.name for joint in plan.robots[0].joints] == ["finger", "right_finger"]


def test_an_authored_name_that_a_derived_one_would_take_stays() -> None:
    stage = two_grippers()
    stage.body("/robot/third")
    stage.joint("/robot/third/joint", "/robot/base", "/robot/third", ros_name="right_finger")
    names = {joint.path: joint.name for joint in stage.plan().robots[0].joints}
    assert names["/robot/third/joint"] == "right_finger"
    assert len(set(names.values())) == len(names)


@each_case("paths", [("left", "right"), ("x", "y")])
def test_controllers_name_joints_as_their_context_does(paths: tuple[str, str]) -> None:
    stage = two_grippers(paths=paths)
    for path in paths:
        root = f"/robot/{path}"
        stage.action(f"{root}/follow")
        stage.controller(
            r.JointTrajectoryRecord(
                path=f"{root}/trajectory", server=(f"{root}/follow",), command_joints=(f"{root}/slide",)
            )
        )
        stage.action(
            f"{root}/grip",
            "control_msgs/action/ParallelGripperCommand",
            gripper_joints=(f"{root}/slide",),
            starts_enabled=False,
        )
        stage.topic(f"{root}/trajectories", TRAJECTORY_TOPIC, role="subscription")
    plan = stage.plan()
    second = {c.path: c for c in plan.controllers if c.path.startswith(f"/robot/{paths[1]}/")}
    for name in ("trajectory", "grip", "states"):
        assert second[f"/robot/{paths[1]}/{name}"].joints == ("finger",), name
    assert second[f"/robot/{paths[1]}/trajectory"].interfaces[1:] == (f"/robot/{paths[1]}/trajectories",)


def test_a_controller_beside_the_contexts_names_joints_as_its_server_does() -> None:
    stage = two_grippers()
    stage.action("/robot/follow")
    stage.action("/robot/right/follow")
    for server in ("/robot/follow", "/robot/right/follow"):
        stage.controller(
            r.JointTrajectoryRecord(
                path=f"/robot/controllers/{server.count('/')}",
                server=(server,),
                command_joints=("/robot/right/slide",),
                starts_enabled=False,
            )
        )
    names = {plan.path: plan.joints for plan in stage.plan().controllers}
    assert names["/robot/controllers/2"] == ("right_finger",)
    assert names["/robot/controllers/3"] == ("finger",)


def test_joints_outside_of_a_controllers_context_have_the_robots_names() -> None:
    stage = two_grippers()
    stage.action("/robot/right/follow")
    stage.controller(
        r.JointTrajectoryRecord(
            path="/robot/right/trajectory",
            server=("/robot/right/follow",),
            command_joints=("/robot/left/slide", "/robot/right/slide"),
        )
    )
    (plan,) = (each for each in stage.plan().controllers if each.path == "/robot/right/trajectory")
    assert plan.joints == ("finger", "right_finger")


def test_a_trajectory_topic_has_no_controller_of_another_context() -> None:
    """There its joint names may be those of other joints."""
    stage = two_grippers()
    stage.action("/robot/follow")
    stage.topic("/robot/right/trajectories", TRAJECTORY_TOPIC, role="subscription")
    plans = {plan.path: plan for plan in stage.plan().controllers}
    assert plans["/robot/follow"].interfaces == ("/robot/follow",)
    assert plans["/robot/right/trajectories"].joints == ("finger",)


@each_case("role", ["publisher", "subscription"])
@each_case("type_name", [JOINT_STATE, "std_msgs/msg/Float64MultiArray"])
def test_a_context_without_joints_has_none(role: str, type_name: str) -> None:
    stage = two_grippers()
    stage.context("/robot/lidar", "lidar")
    stage.topic("/robot/lidar/topic", type_name, role=role)
    plan = stage.plan()
    assert topics(plan)["/robot/lidar/topic"].dofs == ()
    (diagnostic,) = found(plan, "2.2.joints")
    assert diagnostic.path == "/robot/lidar/topic"


def test_a_trajectory_server_of_a_context_without_joints_commands_none() -> None:
    stage = two_grippers()
    stage.context("/robot/lidar", "lidar")
    stage.action("/robot/lidar/follow")
    (plan,) = (each for each in stage.plan().controllers if each.path == "/robot/lidar/follow")
    assert (plan.enabled, plan.joints, plan.reason) == (False, (), "its context has no joint to command")


def test_a_joint_keeps_its_state_when_its_name_passes_to_it_from_another() -> None:
    """Without the left gripper, the robot's `finger` is the right one: it is not to jump to where the left was."""
    before = two_grippers().plan()
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    module(stage, "/robot/right", "right")
    after = stage.plan()
    common = common_rows(after, before)
    pairs = {
        after.layout.dof_joints[new]: before.layout.dof_joints[old]
        for new, old in zip(common.dofs.tolist(), common.old_dofs.tolist(), strict=True)
    }
    assert pairs == {"/robot/right/slide": "/robot/right/slide"}


def test_the_layout_has_the_names_of_the_whole_robot() -> None:
    plan = two_grippers().plan()
    assert plan.layout.dofs == ("finger", "right_finger")
    assert topics(plan)["/robot/states"].joints == ()
