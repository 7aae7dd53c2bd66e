"""A running bridge goes on with another plan: what did not change stays, and the rest is as after a fresh start."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from action_plans import SUCCEEDED, Client, goal
from edited_stage import edited_stage
from live_changes import (
    FOLLOW,
    HEAD,
    LATCHED,
    POINTS,
    ROVER,
    SCAN,
    STATES,
    STATIC,
    STEP_NS,
    TIMEOUT_S,
    fresh,
    gids,
    head,
    names,
    publishers,
)
from pxr import Gf, Sdf, UsdGeom
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import Bridge, PlanOptions, ReadOptions, VariantSelection, load_plan, tune_process
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.state import State
from usd_ros_bridge.process_settings import SWITCH_INTERVAL_S
from usd_ros_bridge.ros.wire.cdr_template import Template
from usd_ros_bridge.testing.graphs import graph_of, settled_difference, transform_line


def stamp_ns(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


# --- What stays ------------------------------------------------------------------------------------------------------


def test_publishers_that_did_not_change_are_the_same_to_everyone(start, edited_asset, ros_harness):
    running = start(load_plan(edited_asset))
    bridge, node = running.bridge, ros_harness.node
    kept = (STATES, SCAN, "/rover/tf")
    ros_harness.wait_for(lambda: all(gids(node, name) for name in kept), what="discovery")
    before, known = publishers(bridge), {name: gids(node, name) for name in kept}
    report = bridge.change(variants=head("both")).result(TIMEOUT_S)
    assert report.opened == (f"publisher {POINTS}",)
    assert report.closed == ()
    plan = load_plan(edited_asset)
    assert report.kept == len([*plan.topics, *plan.services, *plan.actions])
    ros_harness.wait_for(lambda: gids(node, POINTS), what="the new publisher")
    after = publishers(bridge)
    assert after.keys() - before.keys() == {POINTS}
    assert all(after[name] is each for name, each in before.items())
    assert known == {name: gids(node, name) for name in known}


def test_a_change_and_its_undoing_end_where_it_began(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before = graph_of(bridge)
    for _ in range(3):
        bridge.change(variants=head("bare")).result(TIMEOUT_S)
        assert SCAN not in names(bridge)
        bridge.change(variants=[]).result(TIMEOUT_S)
        assert not settled_difference(bridge, before)


@pytest.mark.parametrize("tunes", [False, True])
def test_a_change_takes_short_turns_in_a_tuned_process_alone(
    start, edited_asset, ros_harness, monkeypatch, tunes
):
    if tunes:
        tune_process()
    usual_s, changed, paused = sys.getswitchinterval(), [], []
    monkeypatch.setattr(sys, "setswitchinterval", changed.append)
    monkeypatch.setattr(gc, "disable", lambda: paused.append(threading.current_thread().name))
    bridge = start(load_plan(edited_asset)).bridge
    for variant in ("both", "bare"):
        assert bridge.change(variants=head(variant)).result(TIMEOUT_S).kept
    bridge.close()
    ros_harness.wait_for(lambda: len(changed) % 2 == 0, what="the end of each turn")
    assert bool(paused) == tunes
    assert set(changed) == ({min(usual_s, SWITCH_INTERVAL_S), usual_s} if tunes else set())


def test_no_message_of_an_unchanged_publisher_is_left_out(step_on, ros_harness):
    stage = edited_stage()
    stage.GetPrimAtPath("/World/arm/joint_states").GetAttribute("ros:topic:publish_rate").Set(100.0)
    stamps: list[int] = []

    ros_harness.node.create_subscription(
        JointState, STATES, lambda message: stamps.append(stamp_ns(message)), 1000
    )
    stepped = step_on(stage, scene_edits=True)
    bridge = stepped.bridge
    stepped.until(lambda: len(stamps) > 3, "discovery")
    for variant in ("both", "bare", "lidar", "both", "bare"):
        stepped.finish(bridge.change(variants=head(variant)))
    stepped.step(3)
    last = stepped.time_ns
    ros_harness.wait_for(lambda: stamps[-1] == last, what="the last message")
    assert stamps == list(range(stamps[0], last + 1, STEP_NS))


def test_messages_that_stay_as_they_are_are_not_made_again(step_on, ros_harness, monkeypatch):
    stage = edited_stage()
    stepped = step_on(stage, scene_edits=True)
    states: list[JointState] = ros_harness.listen(JointState, STATES, 1000)
    transforms: list[TFMessage] = ros_harness.listen(TFMessage, "/arm/tf", 1000)
    bridge = stepped.bridge
    dofs = bridge.plan.layout.dofs
    stepped.until(lambda: states and transforms, "the first messages")
    made: list[str] = []

    class Counted(Template):
        def __init__(self, message: Any) -> None:
            made.append(type(message).__name__)
            super().__init__(message)

    monkeypatch.setattr("usd_ros_bridge.ros.codecs.message_encoder.Template", Counted)
    before = bridge.parts.runtime.snapshot
    stepped.finish(bridge.change(variants=head("both")))
    assert bridge.parts.runtime.snapshot is not before
    bridge.parts.runtime.commands.joint_position[dofs.index("shoulder")] = 0.7
    stepped.step(2)
    last = stepped.time_ns
    stepped.until(lambda: stamp_ns(states[-1]) > last, "what came afterwards")
    assert dict(zip(states[-1].name, states[-1].position, strict=True))["shoulder"] == pytest.approx(0.7)
    assert {"JointState", "TFMessage"}.isdisjoint(made), made


def test_joints_stay_where_they_are_by_name(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    bridge = stepped.bridge
    dofs = bridge.plan.layout.dofs
    commanded = bridge.parts.runtime.commands.joint_position
    commanded[dofs.index("shoulder")], commanded[dofs.index("elbow")] = 0.7, 0.25
    stepped.step(2)
    with Sdf.ChangeBlock():
        # A robot in front of the others: all rows move.
        layer = stage.GetRootLayer()
        Sdf.CopySpec(layer, "/World/rover", layer, "/World/first")
        layer.GetAttributeAtPath("/World/first.ros:context:namespace").default = "first"
        layer.GetPrimAtPath("/World").nameChildrenOrder = ["first"]
    stepped.until(lambda: len(bridge.plan.layout.dofs) > len(dofs), "the new robot")
    stepped.step()
    state = bridge.parts.runtime.snapshot.state
    dofs = bridge.plan.layout.dofs
    assert state.joint_position[dofs.index("shoulder")] == pytest.approx(0.7)
    assert state.joint_position[dofs.index("elbow")] == pytest.approx(0.25)


def test_a_changed_rate_is_a_schedule_and_no_new_publisher(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    bridge = stepped.bridge
    before = publishers(bridge)[STATES]
    stage.GetPrimAtPath("/World/arm/joint_states").GetAttribute("ros:topic:publish_rate").Set(20.0)
    emitters = bridge.parts.runtime.status

    def rate() -> float | None:
        return next(each.rate for each in emitters().publications if each.name == "/World/arm/joint_states")

    stepped.until(lambda: rate() == 20.0, "the new rate")
    assert publishers(bridge)[STATES] is before


def test_an_array_of_velocities_that_becomes_one_of_positions_stops_what_moved(step_on, ros_harness):
    stage = edited_stage()
    topic = stage.DefinePrim("/World/arm/forward", "Xform")
    topic.AddAppliedSchema("RosTopicAPI")
    for name, kind, value in (
        ("ros:topic:name", Sdf.ValueTypeNames.String, "forward"),
        ("ros:topic:role", Sdf.ValueTypeNames.Token, "subscription"),
        ("ros:topic:type", Sdf.ValueTypeNames.String, "std_msgs/msg/Float64MultiArray"),
        ("usd_ros_bridge:forward_command:interface", Sdf.ValueTypeNames.Token, "velocity"),
    ):
        topic.CreateAttribute(name, kind).Set(value)
    stepped = step_on(stage)
    runtime, names_of_dofs = stepped.bridge.parts.runtime, stepped.bridge.plan.layout.dofs
    rows = [names_of_dofs.index(name) for name in ("shoulder", "elbow")]
    publisher = ros_harness.node.create_publisher(Float64MultiArray, "/arm/forward", 10)
    stepped.until(lambda: publisher.get_subscription_count() == 1, "the subscription")
    publisher.publish(Float64MultiArray(data=[0.2, 0.1]))

    def state() -> State:
        return runtime.snapshot.state

    stepped.until(lambda: min(state().joint_position[rows]) > 0.01, "a motion")
    stage.GetPrimAtPath("/World/arm/forward").GetAttribute("usd_ros_bridge:forward_command:interface").Set(
        "position"
    )
    stepped.until(lambda: not any(state().joint_velocity[rows]), "the end of the motion")
    stood = state().joint_position[rows].copy()
    stepped.step(20)
    np.testing.assert_array_equal(state().joint_position[rows], stood)
    stepped.until(lambda: publisher.get_subscription_count() == 1, "the subscription after the change")

    def arrived() -> bool:
        publisher.publish(Float64MultiArray(data=[0.7, 0.25]))
        return np.allclose(state().joint_position[rows], [0.7, 0.25])

    stepped.until(arrived, "the positions")


def test_a_goal_goes_on_while_another_robot_changes(start, edited_asset, ros_harness):
    from control_msgs.action import FollowJointTrajectory

    bridge = start(load_plan(edited_asset)).bridge
    client = Client(ros_harness, FollowJointTrajectory, FOLLOW)
    try:
        both = goal(1.5, 0.4, joint="shoulder")
        both.trajectory.joint_names = ["shoulder", "elbow"]
        both.trajectory.points[0].positions = [0.4, 0.1]
        sent = client.send(both)
        assert sent.handle.accepted
        for variant in ("both", "bare", "lidar"):
            bridge.change(variants=head(variant)).result(TIMEOUT_S)
        assert client.wait(sent).status == SUCCEEDED
        position = bridge.parts.runtime.snapshot.state.joint_position
        assert position[bridge.plan.layout.dofs.index("shoulder")] == pytest.approx(0.4)
    finally:
        client.close()


def active(bridge: Bridge) -> set[str]:
    return {each.path for each in bridge.controllers() if each.active}


def test_a_controller_that_was_switched_stays_so(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    drive = f"{ROVER}/drive"
    bridge.switch_controllers(deactivate=[drive]).result(TIMEOUT_S)
    bridge.change(variants=head("both")).result(TIMEOUT_S)
    assert drive not in active(bridge)
    assert active(bridge) == {each.path for each in bridge.plan.controllers if each.enabled} - {drive}
    bridge.switch_controllers(activate=[drive]).result(TIMEOUT_S)
    bridge.change(variants=head("bare")).result(TIMEOUT_S)
    assert drive in active(bridge)


def test_a_controller_that_never_could_be_active_keeps_no_other_of_its_prim_off(step_on):
    stage = edited_stage()
    commands = f"{ROVER}/cmd_vel"
    stage.GetPrimAtPath(commands).AddAppliedSchema("RosControlJointStateBroadcasterAPI")
    stepped = step_on(stage)
    assert commands not in active(stepped.bridge)
    # Without the drive the command is for the base itself.
    stage.GetPrimAtPath(f"{ROVER}/drive").SetActive(False)
    stepped.until(lambda: commands in active(stepped.bridge), "the implied controller")


# --- What changes ----------------------------------------------------------------------------------------------------


def test_static_frames_that_vanished_are_superseded(start, edited_asset, ros_harness):
    heard: list[list[str]] = []

    def take(message: TFMessage) -> None:
        heard.append([transform_line(each).split()[2] for each in message.transforms])

    subscription = ros_harness.node.create_subscription(TFMessage, STATIC, take, LATCHED)
    bridge = start(load_plan(edited_asset)).bridge
    ros_harness.wait_for(lambda: heard and "scan" in heard[-1], what="the first set")
    bridge.change(variants=head("bare")).result(TIMEOUT_S)
    ros_harness.wait_for(lambda: "scan" not in heard[-1], what="the set without the lidar")
    bridge.change(variants=head("both")).result(TIMEOUT_S)
    ros_harness.wait_for(lambda: {"scan", "points"} <= set(heard[-1]), what="the set with both")
    ros_harness.node.destroy_subscription(subscription)
    heard.clear()
    ros_harness.node.create_subscription(TFMessage, STATIC, take, LATCHED)
    ros_harness.wait_for(lambda: bool(heard), what="what a late joiner gets")
    assert {"scan", "points", "imu"} <= set(heard[-1])


def test_options_of_planning_change(start, edited_asset, other_domain_id):
    bridge = start(load_plan(edited_asset)).bridge
    options = PlanOptions(tf_output="global", rates={"/World/arm/joint_states": 10.0})
    bridge.change(plan_options=options).result(TIMEOUT_S)
    assert bridge.plan.options == options
    assert "/tf" in names(bridge)
    assert not settled_difference(
        bridge, fresh(edited_asset, plan_options=options, domain_id=other_domain_id)
    )


def test_two_changes_at_once_are_both_done(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    first = bridge.change(variants=head("both"))
    second = bridge.change(plan_options=PlanOptions(enabled={"/World/rover/odom": False}))
    for each in (first, second):
        assert isinstance(each.result(TIMEOUT_S), ChangeReport)
    assert POINTS in names(bridge)
    assert "/rover/odom" not in names(bridge)


def test_a_change_that_was_given_up_is_none(step_on):
    stepped = step_on(edited_stage(), scene_edits=True)
    bridge = stepped.bridge
    first = bridge.change(variants=head("both"))
    given_up = bridge.change(variants=head("bare"))
    given_up.cancel()
    stepped.finish(first)
    stepped.finish(bridge.change(plan_options=PlanOptions()))
    assert bridge.changes.variants == tuple(head("both"))
    assert POINTS in names(bridge)


def test_changes_from_several_threads_are_all_done(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    done: list[ChangeReport] = []

    def change(variant: str) -> None:
        done.extend(bridge.change(variants=head(variant)).result(TIMEOUT_S) for _ in range(5))

    threads = [threading.Thread(target=change, args=(variant,)) for variant in ("both", "bare", "lidar")]
    for each in threads:
        each.start()
    for each in threads:
        # Each makes five changes.
        each.join(5 * TIMEOUT_S)
    assert len(done) == 15


def test_an_edit_by_the_bridge_is_an_edit_of_its_stage(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge

    def edit(stage: Any) -> None:
        stage.GetPrimAtPath("/World/mast").SetActive(False)

    report = bridge.change(edit=edit).result(TIMEOUT_S)
    assert "publisher /mast/view" in report.closed
    assert not any(name.startswith("/mast/") for name in names(bridge))


def test_files_are_read_again(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before = publishers(bridge)
    text = edited_asset.read_text(encoding="utf-8")
    edited_asset.write_text(
        text.replace('string ros:topic:name = "upper_pose"', 'string ros:topic:name = "elbow_pose"'),
        encoding="utf-8",
    )
    report = bridge.reload().result(TIMEOUT_S)
    assert (report.opened, report.closed) == (("publisher /arm/elbow_pose",), ("publisher /arm/upper_pose",))
    assert publishers(bridge)[STATES] is before[STATES]
    edited_asset.write_text(text, encoding="utf-8")
    bridge.reload().result(TIMEOUT_S)
    assert "/arm/upper_pose" in names(bridge)


def test_findings_of_a_change_name_the_line_of_the_file_that_was_read_again(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    text = edited_asset.read_text(encoding="utf-8")
    edited_asset.write_text(
        text.replace('ros:topic:name = "upper_pose"', 'ros:topic:name = "upper pose"'), encoding="utf-8"
    )
    (found,) = bridge.reload().result(TIMEOUT_S).found
    assert (found.code, found.layer) == ("2.3.name", str(edited_asset))
    assert '"upper pose"' in edited_asset.read_text(encoding="utf-8").splitlines()[found.line - 1]
    edited_asset.write_text(
        edited_asset.read_text(encoding="utf-8").replace("def Xform", "\n# moved\ndef Xform", 1),
        encoding="utf-8",
    )
    assert bridge.reload().result(TIMEOUT_S).found == ()
    assert {each.line for each in bridge.plan.diagnostics if each == found} == {found.line + 2}


def test_a_misspelt_attribute_that_comes_while_the_bridge_runs_is_a_warning_with_its_place(
    start, edited_asset
):
    running = start(load_plan(edited_asset))
    text = edited_asset.read_text(encoding="utf-8")
    edited_asset.write_text(
        text.replace('ros:topic:name = "upper_pose"', 'ros:topic:nmae = "upper_pose"'), encoding="utf-8"
    )
    running.bridge.reload().result(TIMEOUT_S)
    assert running.warnings.containing(
        "ros:topic:nmae", "did you mean ros:topic:name?", f"{edited_asset.name}:"
    )
    assert running.warnings.containing("error [2.3.name]", "there is no name")


def test_a_context_that_moves_to_another_domain_takes_its_interfaces_along(step_on, other_domain_id):
    stage = edited_stage()
    stepped = step_on(stage)
    with Sdf.ChangeBlock():
        mast = stage.GetPrimAtPath("/World/mast")
        mast.CreateAttribute("ros:context:domain_id", Sdf.ValueTypeNames.Int, custom=False).Set(
            other_domain_id
        )

    def row() -> Any:
        return next(each for each in stepped.bridge.status().interfaces if each.name == "/mast/view")

    stepped.until(lambda: row().domain_id == other_domain_id, "the other domain")
    stepped.until(lambda: "/mast/view" not in publishers(stepped.bridge), "the end of the publisher")


def test_listeners_are_notified_of_each_change(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    told: list[ChangeReport] = []
    heard = threading.Event()

    def tell(report: ChangeReport) -> None:
        told.append(report)
        heard.set()

    bridge.changes.on_change(tell)
    bridge.change(variants=head("both")).result(TIMEOUT_S)
    assert heard.wait(TIMEOUT_S)
    assert told[0].opened == (f"publisher {POINTS}",)
    assert str(told[0]).endswith("unchanged")
    assert bridge.changes.variants == tuple(head("both"))
    assert bridge.changes.plan is bridge.plan


def test_findings_of_an_edit_name_the_session_layer(step_on):
    stepped = step_on(stage := edited_stage(), scene_edits=True)
    before = stepped.bridge.plan.diagnostics

    stage.SetEditTarget(stage.GetSessionLayer())
    stage.GetAttributeAtPath("/World/arm/joint_states.ros:topic:name").Set("joint states")
    stepped.until(lambda: stepped.bridge.plan.diagnostics != before, "the new plan")
    (found,) = [each for each in stepped.bridge.plan.diagnostics if each not in before]
    assert found.layer == stage.GetSessionLayer().GetDisplayName()


# --- Edits of a host's stage -----------------------------------------------------------------------------------------


def test_an_edit_of_the_hosts_stage_is_followed_between_two_steps(step_on, other_domain_id):
    stage = edited_stage()
    stepped = step_on(stage)
    stage.GetPrimAtPath(ROVER).GetVariantSet(HEAD).SetVariantSelection("both")
    stepped.until(lambda: POINTS in names(stepped.bridge), "the publisher of the other variant")
    wanted = fresh(stage, domain_id=other_domain_id)
    stepped.until(lambda: not graph_of(stepped.bridge).difference(wanted), "the graph of a fresh start")


def test_without_threads_the_host_does_it_all(step_on):
    stage = edited_stage()
    stepped = step_on(stage, threaded=False)
    stage.GetPrimAtPath(ROVER).GetVariantSet(HEAD).SetVariantSelection("bare")
    stepped.until(lambda: SCAN not in names(stepped.bridge), "the end of the scan")
    stepped.finish(stepped.bridge.change(plan_options=PlanOptions(publish_tf=False)))
    assert STATIC not in names(stepped.bridge)
    assert STATIC not in publishers(stepped.bridge)


def test_a_hosts_node_and_executor_serve_a_change(step_on, ros_harness):
    stage = edited_stage()
    stepped = step_on(stage, node=ros_harness.node)
    stage.GetPrimAtPath("/World/rover/lamps").SetActive(False)
    stepped.until(lambda: "/rover/lamps" not in names(stepped.bridge), "the end of the service")
    stage.GetPrimAtPath("/World/rover/lamps").SetActive(True)
    stepped.until(lambda: "/rover/lamps" in names(stepped.bridge), "the service")
    stepped.bridge.close()
    left = {each.topic_name for each in ros_harness.node.publishers}
    assert left == {"/parameter_events"}, left


def test_bodies_that_a_host_moves_are_no_change(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    reports: list[ChangeReport] = []
    stepped.bridge.changes.on_change(reports.append)
    before = graph_of(stepped.bridge)
    for number in range(50):
        UsdGeom.XformCommonAPI(stage.GetPrimAtPath("/World/box")).SetTranslate(
            Gf.Vec3d(0.0, 0.0, 0.1 * number)
        )
        stepped.step()
    # What is asked for afterwards is done in its turn: by then the moves would have been.
    stepped.finish(stepped.bridge.change(plan_options=PlanOptions()))
    assert len(reports) <= 1
    assert not settled_difference(stepped.bridge, before, step=stepped.step)


# --- Physics ---------------------------------------------------------------------------------------------------------


def test_a_simulation_goes_on_from_where_it_is(start, tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    world = Path(__file__).parents[2] / "examples" / "rover" / "world.usda"
    path = tmp_path / "mast.usda"
    path.write_text(MAST.replace("WORLD", str(world)), encoding="utf-8")
    plan = load_plan(path, physics=True, read_options=ReadOptions(variants=mast("off")))
    running = start(plan, "mujoco")
    bridge = running.bridge
    before = publishers(bridge)
    report = bridge.change(variants=mast("on")).result(TIMEOUT_S)
    assert "publisher /rover/mast_scan" in report.opened
    after = publishers(bridge)
    assert all(after[name] is each for name, each in before.items())
    first = bridge.status().time_ns
    report = bridge.change(variants=mast("off")).result(TIMEOUT_S)
    assert "publisher /rover/mast_scan" in report.closed
    assert bridge.status().time_ns >= first > 0
    assert not [each for each in bridge.status().reports if "backwards" in each.kind]


def mast(variant: str) -> tuple[VariantSelection, ...]:
    return (VariantSelection("/World/rover", "mast", variant),)


MAST = """#usda 1.0
(
    defaultPrim = "World"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    subLayers = [@WORLD@]
    timeCodesPerSecond = 1
    upAxis = "Z"
)

over "World"
{
    over "rover" (
        prepend variantSets = "mast"
    )
    {
        variantSet "mast" = {
            "off" {
            }
            "on" {
                def Xform "mast" (
                    prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI"]
                )
                {
                    string ros:topic:name = "mast_scan"
                    double ros:topic:publish_rate = 10
                    token ros:topic:role = "publisher"
                    string ros:topic:type = "sensor_msgs/msg/LaserScan"
                }
            }
        }
    }
}
"""
