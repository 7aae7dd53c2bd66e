"""Interfaces: roles, names, types, rates, QoS, frames, joints (REP 0158 sections 2.2 to 2.6 and 2.9)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from builders.records import Stage, arm, diff_drive, found, rover, topics
from case_tables import each_case
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.planning.conflicts import disable_conflicts


class Catalog:
    """Has std_msgs alone."""

    def contains(self, type_name: str) -> bool:
        return type_name.startswith("std_msgs/")


class Listing(Catalog):
    """A catalog that lists std_msgs."""

    def contains(self, type_name: str) -> bool:
        return type_name in {f"std_msgs/{each}" for each in self.types_of("std_msgs")}

    def types_of(self, package: str) -> frozenset[str]:
        return frozenset({"msg/String", "msg/Bool", "srv/Switch"} if package == "std_msgs" else ())

    def packages(self) -> frozenset[str]:
        return frozenset({"std_msgs", "nav_msgs"})


def robot() -> Stage:
    stage = Stage()
    stage.context()
    return stage


@each_case(
    ("values", "code"),
    [
        ({"name": "a b"}, "2.3.name"),
        ({"name": "~/a"}, "2.3.name"),
        ({"name": ""}, "2.3.name"),
        ({"name": "a" * 245}, "2.3.name"),
        ({"role": "listener"}, "2.4.role"),
        ({"role": None}, "2.4.role"),
        ({"publish_rate": None}, "2.4.publish_rate"),
        ({"publish_rate": 0.0}, "2.4.publish_rate"),
        ({"publish_rate": -1.0}, "2.4.publish_rate"),
        ({"publish_rate": math.nan}, "2.4.publish_rate"),
        ({"publish_rate": math.inf}, "2.4.publish_rate"),
        ({"publish_rate": 1e5}, "2.4.publish_rate"),
        ({"reliability": "sometimes"}, "2.4.qos.reliability"),
        ({"durability": "eternal"}, "2.4.qos.durability"),
        ({"history": "keep_some"}, "2.4.qos.history"),
        ({"depth": 0}, "2.4.qos.depth"),
        ({"depth": 10_001}, "2.4.qos.depth"),
    ],
)
def test_a_faulty_topic_is_disabled_alone(values: Any, code: str) -> None:
    stage = robot()
    stage.topic("/robot/bad", **values)
    stage.topic("/robot/good")
    plan = stage.plan()
    bad, good = plan.topics
    assert (bad.enabled, good.enabled) == (False, True)
    (diagnostic,) = found(plan, code)
    assert diagnostic.severity == "error"
    assert diagnostic.path == "/robot/bad"
    assert diagnostic.remedy
    assert bad.reason == diagnostic.message


def test_endless_texts_are_cut() -> None:
    stage = robot()
    stage.topic("/robot/a", "t" * 100_000, name="n" * 100_000, role="r" * 100_000)
    (topic,) = stage.plan().topics
    assert {len(topic.type), len(topic.name), len(topic.role)} == {256}


@each_case(("kind", "section"), [("service", "2.5.role"), ("action", "2.6.role")])
def test_roles_of_services_and_actions(kind: str, section: str) -> None:
    stage = robot()
    getattr(stage, kind)("/robot/good", role="client")
    getattr(stage, kind)("/robot/bad", role="publisher")
    plan = stage.plan()
    assert [i.enabled for i in (*plan.services, *plan.actions)] == [True, False]
    assert found(plan, section)[0].severity == "error"


def test_what_reading_has_reported_is_not_reported_again() -> None:
    stage = robot()
    stage.topic("/robot/a", publish_rate=None, invalid=("ros:topic:publish_rate",))
    plan = stage.plan()
    assert not plan.topics[0].enabled
    assert not found(plan, "2.4.publish_rate")


def test_subscriptions_need_no_rate() -> None:
    stage = robot()
    stage.topic("/robot/a", role="subscription", publish_rate=math.nan)
    (topic,) = stage.plan().topics
    assert (topic.enabled, topic.publish_rate) == (True, None)


@each_case("type_name", ["String", "std_msgs/String", "std_srvs/srv/SetBool", "../../x/msg/Y"])
def test_malformed_types_are_errors(type_name: str) -> None:
    stage = robot()
    stage.topic("/robot/a", type_name)
    plan = stage.plan()
    assert not plan.topics[0].enabled
    assert found(plan, "2.3.type")[0].severity == "error"


def test_types_that_are_not_installed_are_warnings() -> None:
    stage = robot()
    stage.topic("/robot/a", "sensor_msgs/msg/Image")
    stage.topic("/robot/b", "std_msgs/msg/String")
    plan = stage.plan(catalog=Catalog())
    assert [t.enabled for t in plan.topics] == [False, True]
    assert "not installed" in plan.topics[0].reason
    assert found(plan, "2.3.type")[0].severity == "warning"


@each_case(
    ("type_name", "fault", "remedy"),
    [
        (
            "std_msgs/msg/Strng",
            "std_msgs is installed and has no msg/Strng",
            "did you mean std_msgs/msg/String",
        ),
        (
            "std_msgs/msg/Swtch",
            "std_msgs is installed and has no msg/Swtch",
            "did you mean std_msgs/srv/Switch",
        ),
        ("std_msgs/msg/Zzzzzz", "std_msgs is installed and has no", "install a version that has it"),
        ("std_msg/msg/String", "the package std_msg is not installed", "did you mean std_msgs? else install"),
        ("radar_msgs/msg/Scan", "the package radar_msgs is not installed", "install or source the package"),
    ],
)
def test_a_missing_type_is_suggested_by_what_is_installed(type_name: str, fault: str, remedy: str) -> None:
    stage = robot()
    stage.topic("/robot/a", type_name)
    (diagnostic,) = found(stage.plan(catalog=Listing()), "2.3.type")
    assert fault in diagnostic.message
    assert remedy in diagnostic.remedy


def test_of_many_faults_only_the_first_have_suggestions() -> None:
    stage = robot()
    for number in range(150):
        stage.topic(f"/robot/t{number}", "std_msgs/msg/Strng", name=f"t{number}")
    suggested = ["did you mean" in each.remedy for each in found(stage.plan(catalog=Listing()), "2.3.type")]
    assert suggested == [True] * 100 + [False] * 50


@each_case(
    ("name", "reported"),
    [
        ("/scan", True),
        ("/robot_2/scan", True),
        ("/robot/scan", False),
        ("scan", False),
        ("/diagnostics", False),
    ],
)
def test_an_absolute_name_outside_of_the_namespace_is_information(name: str, reported: bool) -> None:
    stage = robot()
    stage.topic("/robot/a", name=name)
    plan = stage.plan()
    assert [each.severity for each in found(plan, "2.3.absolute")] == ["info"] * reported
    assert plan.topics[0].enabled


@each_case(
    ("type_name", "name", "allowed"),
    [
        ("rosgraph_msgs/msg/Clock", "time", False),
        ("std_msgs/msg/String", "/clock", False),
        ("std_msgs/msg/String", "clock", True),
        ("simulation_interfaces/msg/Result", "r", False),
    ],
)
def test_prohibited_interfaces(type_name: str, name: str, allowed: bool) -> None:
    stage = robot()
    stage.topic("/robot/a", type_name, name=name)
    plan = stage.plan()
    assert plan.topics[0].enabled is allowed
    assert bool(found(plan, "2.9")) is not allowed


def test_prohibited_services_and_actions() -> None:
    stage = robot()
    stage.service("/robot/s", "simulation_interfaces/srv/SpawnEntity")
    stage.action("/robot/a", "simulation_interfaces/action/SimulateSteps")
    plan = stage.plan()
    assert [i.enabled for i in (*plan.services, *plan.actions)] == [False, False]


def test_what_is_prohibited_is_so_installed_or_not() -> None:
    stage = robot()
    stage.service("/robot/s", "simulation_interfaces/srv/SpawnEntity")
    stage.topic("/robot/a", "nobody_has/msg/This", name="/clock")
    plan = stage.plan(catalog=Catalog())
    assert [d.severity for d in found(plan, "2.9")] == ["error", "error"]
    assert found(plan, "2.3.type") == []


def test_the_clock_of_a_robot_without_a_namespace_is_prohibited() -> None:
    stage = Stage()
    stage.context(namespace=None)
    stage.topic("/robot/clock")
    assert not stage.plan().topics[0].enabled


def test_starts_enabled_false_needs_no_diagnostic() -> None:
    stage = robot()
    stage.topic("/robot/a", starts_enabled=False)
    plan = stage.plan()
    (topic,) = plan.topics
    assert (topic.enabled, topic.reason, topic.starts_enabled) == (False, "starts_enabled is false", False)
    assert plan.diagnostics == ()


def test_duplicates() -> None:
    stage = robot()
    for path in ("/robot/a", "/robot/b"):
        stage.topic(path, name="same")
        stage.service(f"{path}/s", name="call")
    stage.topic("/robot/c", "std_msgs/msg/Int32", name="same")
    stage.topic("/robot/d", name="same", role="subscription")
    plan = stage.plan()
    assert [t.enabled for t in plan.topics] == [True] * 4
    assert [s.enabled for s in plan.services] == [True, False]
    assert [(d.severity, d.path) for d in found(plan, "2.3.duplicate")] == [
        ("warning", "/robot/b"),
        ("warning", "/robot/c"),
        ("error", "/robot/b/s"),
    ]


def test_a_server_that_is_off_at_first_is_in_nobodys_way() -> None:
    stage = robot()
    stage.service("/robot/a", name="call", starts_enabled=False)
    stage.service("/robot/b", name="call")
    plan = stage.plan()
    assert [s.enabled for s in plan.services] == [False, True]
    assert plan.diagnostics == ()


def test_equal_names_in_two_domains_do_not_meet() -> None:
    stage = Stage(default_prim="/w")
    for number, name in enumerate(("one", "two")):
        stage.context(f"/w/{name}", None, domain_id=number)
        stage.service(f"/w/{name}/call")
    assert all(service.enabled for service in stage.plan().services)


def test_placement() -> None:
    stage = arm()
    stage.topic("/robot/both")
    stage.service("/robot/both")
    stage.topic("/robot/base")
    assert [d.path for d in found(stage.plan(), "2.2.placement")] == ["/robot/both", "/robot/base"]


# --- QoS ---------------------------------------------------------------------------------------------------------


@each_case(
    ("type_name", "name", "expected"),
    [
        ("sensor_msgs/msg/LaserScan", "scan", ("best_effort", "volatile")),
        ("std_msgs/msg/String", "status", ("reliable", "volatile")),
        ("sensor_msgs/msg/JointState", "joint_states", ("reliable", "volatile")),
        ("nav_msgs/msg/OccupancyGrid", "map", ("reliable", "transient_local")),
        ("std_msgs/msg/String", "robot_description", ("reliable", "transient_local")),
        ("tf2_msgs/msg/TFMessage", "tf_static", ("reliable", "transient_local")),
        ("tf2_msgs/msg/TFMessage", "tf", ("reliable", "volatile")),
    ],
)
def test_system_default_is_resolved_by_type(type_name: str, name: str, expected: tuple[str, str]) -> None:
    stage = robot()
    for role in ("publisher", "subscription"):
        stage.topic(f"/robot/{role}", type_name, name=name, role=role)
    for topic in stage.plan(publish_tf=False).topics:
        assert (topic.qos.reliability, topic.qos.durability) == expected
        assert (topic.qos.history, topic.qos.depth) == ("keep_last", 10)


@each_case("policy", ["reliability", "durability"])
def test_a_matched_publisher_decides_whatever_is_authored(policy: str) -> None:
    """REP 0158 section 2.4: match_publisher ignores explicit reliability and durability."""
    stage = robot()
    stage.topic("/robot/in", role="subscription", match_publisher=True, **{policy: "nonsense"})
    stage.topic(
        "/robot/typed", role="subscription", match_publisher=True, invalid=(f"ros:topic:qos:{policy}",)
    )
    plan = stage.plan()
    assert [topic.enabled for topic in plan.topics] == [True, True]
    assert topics(plan)["/robot/in"].qos == QosPlan(match_publisher=True)
    (diagnostic,) = found(plan, "2.4.qos.match_publisher")
    assert (diagnostic.severity, diagnostic.path) == ("warning", "/robot/in")


@each_case(
    "values",
    [
        {"role": "publisher", "match_publisher": True, "reliability": "nonsense"},
        {"role": "subscription", "match_publisher": False, "reliability": "nonsense"},
        {"role": "subscription", "match_publisher": True, "history": "nonsense"},
        {"role": "subscription", "match_publisher": True, "depth": 0},
    ],
)
def test_a_policy_that_is_not_matched_still_counts(values: dict[str, Any]) -> None:
    stage = robot()
    stage.topic("/robot/topic", **values)
    (topic,) = stage.plan().topics
    assert not topic.enabled


def test_the_middleware_may_decide() -> None:
    stage = robot()
    stage.topic("/robot/scan", "sensor_msgs/msg/LaserScan")
    (topic,) = stage.plan(system_default_qos="rmw").topics
    assert topic.qos == QosPlan(
        reliability="system_default", durability="system_default", history="system_default"
    )


def test_authored_qos_stays() -> None:
    stage = robot()
    values = {"reliability": "best_effort", "durability": "transient_local", "depth": 3}
    stage.topic("/robot/a", **values)
    stage.topic("/robot/b", history="keep_all", depth=-1)
    stage.topic("/robot/c", role="subscription", match_publisher=True)
    stage.topic("/robot/d", match_publisher=True)
    plan = stage.plan()
    a, b, c, d = (topic.qos for topic in plan.topics)
    assert a == QosPlan(reliability="best_effort", durability="transient_local", depth=3)
    assert b.history == "keep_all"
    assert (c.match_publisher, d.match_publisher) == (True, False)
    assert found(plan, "2.4.qos.match_publisher")[0].severity == "warning"


# --- Frames, bodies, joints --------------------------------------------------------------------------------------


def test_odometry_has_the_child_frame_that_is_authored() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.frame("/robot/base/tip", (0.5, 0.0, 0.1), id="tip")
    odometry = "nav_msgs/msg/Odometry"
    for name, child in (("a", None), ("b", "tip"), ("c", "chassis"), ("d", "two words"), ("e", "cell:x")):
        stage.topic(f"/robot/base/{name}", odometry, child_frame_id=child)
    stage.topic("/robot/base/imu", "sensor_msgs/msg/Imu", child_frame_id="tip")
    plan = stage.plan(tf_output="global")
    children = {
        each.path[-1]: (each.child_frame_id, each.body_from_child.translation) for each in plan.topics
    }
    origin = (0.0, 0.0, 0.0)
    assert children == {
        "a": ("robot/base", origin),
        "b": ("robot/tip", (0.5, 0.0, 0.1)),
        "c": ("chassis", origin),
        "d": ("two_words", origin),
        "e": ("cell:x", origin),
        "u": ("", origin),
    }
    assert [each.path[-1] for each in found(plan, "2.4.child_frame_id")] == ["d", "u", "e"]


def test_odometry_is_of_its_own_body() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/wheel")
    stage.joint("/robot/axle", "/robot/base", "/robot/wheel")
    stage.topic("/robot/base/odom", "nav_msgs/msg/Odometry", child_frame_id="wheel")
    plan = stage.plan(tf_output="global")
    assert plan.topics[0].child_frame_id == "robot/base"
    (finding,) = found(plan, "2.4.child_frame_id")
    assert (finding.severity, finding.path) == ("warning", "/robot/base/odom")


def sensors() -> Stage:
    stage = arm()
    stage.frame("/robot/link_1/sensor_frame", (0.1, 0.0, 0.0))
    stage.topic("/robot/link_1/sensor_frame/imu", "sensor_msgs/msg/Imu")
    stage.topic("/robot/link_1/direct", "sensor_msgs/msg/Imu")
    stage.topic("/robot/wide", "sensor_msgs/msg/JointState")
    stage.topic("/robot/link_1/fix", "sensor_msgs/msg/NavSatFix", override_frame_id="earth")
    stage.topic("/robot/link_1/pose", "geometry_msgs/msg/PoseStamped")
    stage.topic("/robot/link_1/transform", "geometry_msgs/msg/TransformStamped")
    stage.topic("/robot/link_1/odometry", "nav_msgs/msg/Odometry")
    stage.topic("/robot/link_1/mapped", "nav_msgs/msg/Odometry", override_frame_id="map")
    return stage


@each_case(
    ("options", "prefix"),
    [
        ({}, ""),
        ({"frame_prefix": "p_"}, "p_"),
        ({"tf_output": "global"}, "robot/"),
        ({"tf_output": "both"}, ""),
        ({"tf_output": "global", "frame_prefix": "p_"}, "robot/p_"),
    ],
)
def test_frame_ids_of_headers(options: Any, prefix: str) -> None:
    plan = sensors().plan(**options)
    ids = {path.rpartition("/")[2]: (t.frame_id, t.child_frame_id) for path, t in topics(plan).items()}
    assert ids == {
        "imu": (f"{prefix}sensor_frame", ""),
        "direct": (f"{prefix}link_1", ""),
        "wide": (f"{prefix}robot", ""),
        "fix": ("earth", ""),
        "pose": ("world", ""),
        "transform": ("world", f"{prefix}link_1"),
        "odometry": (f"{prefix}odom", f"{prefix}link_1"),
        "mapped": ("map", f"{prefix}link_1"),
    }


def test_bodies_and_joints_of_topics() -> None:
    plan = sensors().plan()
    imu, wide = topics(plan)["/robot/link_1/sensor_frame/imu"], topics(plan)["/robot/wide"]
    assert plan.layout.bodies[imu.body] == "/robot/link_1"
    assert imu.body_from_prim.translation == pytest.approx((0.1, 0.0, 0.0))
    assert wide.body == plan.robots[0].base_row
    assert [plan.layout.dofs[row] for row in wide.dofs] == ["pan", "lift"]


def test_a_nested_context_has_its_own_joints() -> None:
    stage = arm()
    stage.context("/robot/gripper", "gripper")
    stage.body("/robot/gripper/finger", (0.0, 0.0, 1.0))
    stage.joint("/robot/slide", "/robot/link_2", "/robot/gripper/finger", "Prismatic")
    stage.context("/robot/empty", "empty")
    for path in ("/robot/all", "/robot/gripper/own", "/robot/empty/none"):
        stage.topic(path, "sensor_msgs/msg/JointState")
    plan = stage.plan()
    named = [[plan.layout.dofs[row] for row in topic.dofs] for topic in plan.topics]
    assert named == [["pan", "lift", "slide"], ["slide"], []]
    (diagnostic,) = found(plan, "2.2.joints")
    assert (diagnostic.severity, diagnostic.path) == ("warning", "/robot/empty/none")


FORWARD = {"type_name": "std_msgs/msg/Float64MultiArray", "role": "subscription"}


def test_an_array_commands_the_joints_that_it_names_in_their_order() -> None:
    stage = arm()
    stage.collections["/robot.collection:all"] = ("/robot", "/robot/pan", "/robot/lift")
    stage.topic("/robot/all", **FORWARD)
    stage.topic(
        "/robot/named", **FORWARD, forward_joints=("/robot/lift", "/robot/pan"), forward_interface="velocity"
    )
    stage.topic(
        "/robot/group", **FORWARD, forward_joints=("/robot.collection:all",), forward_interface="effort"
    )
    plan = stage.plan()
    shown = {each.path: (plan.joint_names(each), each.command_interface) for each in plan.topics}
    assert shown == {
        "/robot/all": (("pan", "lift"), "position"),
        "/robot/named": (("lift", "pan"), "velocity"),
        "/robot/group": (("pan", "lift"), "effort"),
    }
    assert [[plan.layout.dofs[row] for row in each.dofs] for each in plan.topics] == [
        ["pan", "lift"],
        ["lift", "pan"],
        ["pan", "lift"],
    ]
    assert not found(plan, "2.4.forward_command")


@each_case(
    ("values", "reason"),
    [
        ({"forward_interface": "torque"}, "the command interface 'torque' is unknown"),
        ({"forward_joints": ()}, "names no joint"),
        ({"forward_joints": ("/robot/pam",)}, "'/robot/pam' is no joint"),
        ({"forward_joints": ("/robot/anchor",)}, "cannot move"),
        ({"forward_joints": ("/other/pan",)}, "names joints of another robot"),
        ({"forward_joints": ("/robot.collection:none",)}, "does not exist"),
    ],
)
def test_an_array_that_cannot_be_forwarded_disables_its_topic(values: Any, reason: str) -> None:
    stage = arm(arm(), "/other")
    stage.topic("/robot/in", **FORWARD, **values)
    plan = stage.plan()
    (topic,) = plan.topics
    assert not topic.enabled
    assert reason in topic.reason
    (diagnostic,) = found(plan, "2.4.forward_command")
    assert (diagnostic.severity, diagnostic.path) == ("error", "/robot/in")
    assert reason in diagnostic.message


def test_other_interfaces_forward_nothing() -> None:
    stage = arm()
    stage.topic("/robot/out", "std_msgs/msg/Float64MultiArray", forward_joints=("/robot/pan",))
    stage.topic("/robot/in", "sensor_msgs/msg/JointState", role="subscription", forward_interface="effort")
    plan = stage.plan()
    assert all(each.enabled and len(each.dofs) == 2 for each in plan.topics)
    assert [each.severity for each in found(plan, "2.4.forward_command")] == ["warning", "warning"]


def test_mimic_followers_are_not_commanded() -> None:
    stage = arm()
    stage.body("/robot/finger")
    rule = {"newton:mimicJoint": ("/robot/pan",)}
    stage.joint("/robot/follow", "/robot/base", "/robot/finger", solver_attributes=rule)
    stage.topic("/robot/out", "sensor_msgs/msg/JointState")
    stage.topic("/robot/in", "std_msgs/msg/Float64MultiArray", role="subscription")
    plan = stage.plan()
    assert [len(topic.dofs) for topic in plan.topics] == [3, 2]


# --- Implicit ----------------------------------------------------------------------------------------------------


def test_implicit_interfaces() -> None:
    plan = arm().plan()
    states, commands = plan.topics
    assert (states.name, states.publish_rate) == ("/robot/joint_states", 50.0)
    assert states.type == commands.type == "sensor_msgs/msg/JointState"
    assert (commands.name, commands.role, commands.publish_rate) == (
        "/robot/joint_commands",
        "subscription",
        None,
    )
    assert states.implicit
    assert commands.implicit
    assert states.path == commands.path == "/robot"
    assert states.qos.reliability == "reliable"


@each_case("kind", ["topic", "service", "action"])
def test_any_declared_interface_means_no_implicit_ones(kind: str) -> None:
    stage = arm()
    getattr(stage, kind)("/robot/declared")
    assert not any(topic.implicit for topic in stage.plan().topics)


def test_implicit_interfaces_can_be_turned_off_and_need_a_movable_joint() -> None:
    assert arm().plan(implicit_interfaces=False).topics == ()
    stage = robot()
    stage.body("/robot/base")
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    assert stage.plan().topics == ()


def test_publishers_that_the_backend_listens_to_are_disabled() -> None:
    stage = rover()
    stage.topic("/robot/joint_states", "sensor_msgs/msg/JointState")
    plan = stage.plan()
    same = disable_conflicts(plan, [("/robot/joint_states", 5), ("/robot/cmd_vel", None)])
    assert same == plan
    settled = disable_conflicts(plan, [("/robot/joint_states", None)])
    assert [t.enabled for t in settled.topics] == [True, True, False]
    assert settled.topics[2].reason == "the backend listens to /robot/joint_states"
    assert [c.enabled for c in settled.controllers if c.schema == "RosControlJointStateBroadcasterAPI"] == [
        False
    ]


def test_without_interfaces_each_says_why_it_is_not_there() -> None:
    stage = rover()
    stage.controller(diff_drive())
    plan = stage.plan(interfaces="none")
    assert plan.robots == stage.plan().robots, "frames and joints stay"
    everything = [*plan.topics, *plan.services, *plan.actions, *plan.controllers]
    assert len(everything) > 2
    assert not any(each.enabled for each in everything)
    assert {each.reason for each in everything} == {"interfaces is none"}
    assert not any(controller.switchable for controller in plan.controllers)


def test_without_interfaces_there_are_no_implicit_ones_either() -> None:
    stage = arm()
    assert [topic.enabled for topic in stage.plan().topics] == [True, True]
    assert [topic.enabled for topic in stage.plan(interfaces="none").topics] == [False, False]
