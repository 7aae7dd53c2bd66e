"""robot_description: latched, one for each robot, made from the plan beside the ticks; and what keeps it from that."""

from __future__ import annotations

import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from pxr import Sdf, Usd
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from ros_plans import JOINT_STATES, arm, layout, plan, publisher
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.options import BridgeOptions, VariantSelection
from usd_ros_bridge.planning.conflicts import BRIDGES_OWN
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.description.robot_description import Descriptions
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.usd.edit.lock import lock_of

EXAMPLES = Path(__file__).parents[2] / "examples"
ROVER = EXAMPLES / "rover" / "rover.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
LATCHED = QoSProfile(
    depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
)
STRING = "std_msgs/msg/String"


@pytest.fixture(autouse=True)
def mesh_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "usd_ros_bridge" / "meshes"


def describers():
    """The threads that make descriptions. Those of earlier tests may still be ending."""
    return {each for each in threading.enumerate() if each.name == "usd_ros_bridge-description"}


def links(text):
    return {link.get("name") for link in ElementTree.fromstring(text).iter("link")}


def two_arms(second="/other"):
    return plan(robots=(arm(), arm(second, path="/other", row=1, index=1)), layout=layout("/arm", "/other"))


def test_who_comes_late_gets_it_and_its_links_are_the_frames_of_tf(start, ros_harness):
    running = start(load_plan(ROVER))
    early = ros_harness.listen(String, "/rover/robot_description", LATCHED)
    ros_harness.wait_for(lambda: early, what="the description")
    late = ros_harness.listen(String, "/rover/robot_description", LATCHED)
    ros_harness.wait_for(lambda: late, what="the description again")
    assert early[0].data == late[0].data
    (robot,) = running.bridge.plan.robots
    base = robot.frames[robot.base].id
    assert links(late[0].data) == {frame.id for frame in robot.frames}
    document = ElementTree.fromstring(late[0].data)
    children = {joint.find("child").get("link") for joint in document.iter("joint")}
    assert links(late[0].data) - children == {base}, "the root"
    assert document.find(f"link[@name='{base}']/inertial/mass").get("value"), (
        "masses are of the stage's physics"
    )
    (offered,) = ros_harness.node.get_publishers_info_by_topic("/rover/robot_description")
    assert offered.topic_type == STRING
    assert offered.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert offered.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    row = running.row("/rover/robot_description")
    assert (row.state, row.count, row.matched, row.path) == ("active", 1, 2, "/rover")
    assert running.warnings.containing("robot_description") == []


def test_meshes_are_files_that_a_description_names(start, ros_harness, mesh_directory):
    start(load_plan(ARM))
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")
    named = {
        mesh.get("filename").removeprefix("file://")
        for mesh in ElementTree.fromstring(received[0].data).iter("mesh")
    }
    assert named
    assert {Path(each).parent for each in named} == {mesh_directory}
    assert all(Path(each).is_file() for each in named)


def test_a_directory_that_cannot_be_written_costs_the_meshes_alone(start, ros_harness, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no directory", encoding="utf-8")
    running = start(load_plan(ARM), mesh_directory=blocked / "meshes")
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")
    document = ElementTree.fromstring(received[0].data)
    assert list(document.iter("joint"))
    assert not list(document.iter("mesh"))
    # It is reported beside what is published.
    ros_harness.wait_for(lambda: len(running.warnings.containing(str(blocked))) == 1, what="a report")


def test_each_robot_has_its_own_in_its_namespace(start, ros_harness):
    start(two_arms())
    received = [
        ros_harness.listen(String, f"/{name}/robot_description", LATCHED) for name in ("arm", "other")
    ]
    ros_harness.wait_for(lambda: all(received), what="both descriptions")
    names = [ElementTree.fromstring(messages[0].data).get("name") for messages in received]
    assert names == ["arm", "other"]


def test_two_robots_of_one_topic_are_not_mixed_up(start, ros_harness):
    running = start(two_arms("/arm"))
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")
    assert ElementTree.fromstring(received[0].data).get("name") == "arm"
    rows = [row for row in running.bridge.status().interfaces if row.type == STRING]
    assert [(row.path, row.state) for row in rows] == [("/arm", "active"), ("/other", "disabled")]
    assert rows[1].reason == "/arm has that topic"
    assert ros_harness.node.count_publishers("/arm/robot_description") == 1


def test_a_declared_publisher_is_served_by_the_bridges_own(start, ros_harness):
    running = start(plan(publisher("/arm/robot_description", STRING)))
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")
    assert ElementTree.fromstring(received[0].data).get("name") == "arm"
    assert ros_harness.node.count_publishers("/arm/robot_description") == 1
    rows = [row for row in running.bridge.status().interfaces if row.name == "/arm/robot_description"]
    assert [(row.path, row.state, row.reason) for row in rows] == [
        ("/arm/arm/robot_description_publisher", "disabled", BRIDGES_OWN),
        ("/arm", "active", ""),
    ]


def test_a_source_that_is_bound_takes_its_place(ros_harness):
    bridge = Bridge(plan(publisher("/arm/robot_description", STRING)), report=lambda *_: None)
    bridge.source("/arm/robot_description", lambda _: String(data="mine"))
    received = ros_harness.listen(String, "/arm/robot_description")
    with bridge:
        rows = [row for row in bridge.status().interfaces if row.name == "/arm/robot_description"]
        assert [(row.path, row.state) for row in rows][1:] == [("/arm", "disabled")]
        time_ns = 0

        def mine() -> bool:
            nonlocal time_ns
            time_ns += 50_000_000
            bridge.step(time_ns)
            return any(message.data == "mine" for message in received)

        ros_harness.wait_for(mine, what="the source's text")


def test_who_wants_none_gets_none(start, ros_harness):
    before = describers()
    running = start(plan(JOINT_STATES), publish_description=False)
    # What is made after it would have been, is there.
    ros_harness.wait_for(
        lambda: ros_harness.node.count_publishers("/arm/joint_states") == 1, what="the bridge"
    )
    assert ros_harness.node.count_publishers("/arm/robot_description") == 0
    assert not [row for row in running.bridge.status().interfaces if row.type == STRING]
    assert describers() <= before


def test_a_hosts_stage_is_read_in_its_own_thread_when_it_steps(ros_harness):
    before = describers()
    stage = Usd.Stage.Open(str(ROVER))
    received = ros_harness.listen(String, "/rover/robot_description", LATCHED)
    with Bridge(load_plan(stage)) as bridge:
        row = next(row for row in bridge.status().interfaces if row.type == STRING)
        assert (row.state, row.reason) == ("idle", "it is being made")
        assert describers() <= before
        bridge.step(0)
        ros_harness.wait_for(lambda: received, what="the description")
    assert ElementTree.fromstring(received[0].data).find("link/inertial") is not None


def test_a_host_that_wants_no_threads_gets_it_by_polling(ros_harness):
    before = describers()
    received = ros_harness.listen(String, "/rover/robot_description", LATCHED)
    with Bridge(load_plan(ROVER), options=BridgeOptions(threaded=False)) as bridge:
        assert describers() <= before
        bridge.poll()
        ros_harness.wait_for(lambda: received, what="the description")


def test_closing_waits_for_no_description():
    for _ in range(5):
        with Bridge(load_plan(ARM)):
            pass
    for each in describers():
        each.join(60.0)
        assert not each.is_alive()


def test_a_declared_publisher_that_an_edit_adds_is_served_by_the_bridges_own(start, ros_harness):
    running = start(load_plan(ARM))
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")

    def edit(stage):
        # The root layer is shared by all stages of the process that have the file open.
        with Usd.EditContext(stage, stage.GetSessionLayer()):
            prim = stage.DefinePrim("/arm/Interfaces/description", "Xform")
            prim.AddAppliedSchema("RosTopicAPI")
            types = Sdf.ValueTypeNames
            for name, kind, value in (
                ("role", types.Token, "publisher"),
                ("name", types.String, "robot_description"),
                ("type", types.String, STRING),
                ("publish_rate", types.Double, 1.0),
            ):
                prim.CreateAttribute(f"ros:topic:{name}", kind).Set(value)

    running.bridge.change(edit=edit).result(30.0)
    rows = [row for row in running.bridge.status().interfaces if row.name == "/arm/robot_description"]
    assert [(row.path, row.state, row.reason) for row in rows] == [
        ("/arm/Interfaces/description", "disabled", BRIDGES_OWN),
        ("/arm", "active", ""),
    ]


def with_limit(before, upper):
    """The same plan with another upper limit of the first robot's joint."""
    first, *others = before.robots
    (hinge,) = first.joints
    limited = replace(hinge, dofs=(replace(hinge.dofs[0], upper=upper),))
    return replace(before, robots=(replace(first, joints=(limited,)), *others))


def test_a_variant_that_is_switched_is_described_anew(start, ros_harness):
    running = start(load_plan(ARM))
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: received, what="the description")
    assert "left_finger" in links(received[0].data)
    bridge = running.bridge
    bridge.change(variants=[VariantSelection("/arm", "gripper", "none")]).result(30.0)
    ros_harness.wait_for(lambda: len(received) == 2, what="the new description")
    assert "left_finger" not in links(received[1].data)
    assert links(received[1].data) == {frame.id for frame in bridge.plan.robots[0].frames}
    # What changes nothing of the robot is not sent again.
    bridge.change(plan_options=replace(bridge.plan.options, system_default_qos="rmw")).result(30.0)
    bridge.change(variants=[]).result(30.0)
    ros_harness.wait_for(lambda: len(received) == 3, what="the first description again")
    assert received[2].data == received[0].data
    row = running.row("/arm/robot_description")
    assert (row.count, row.matched) == (3, 1)


class Moved:
    """Descriptions without a bridge round them, moved from plan to plan."""

    def __init__(self, first):
        self.reports = []
        self.domains = Domains(report=self.report)
        self.descriptions = Descriptions(
            first,
            self.domains,
            options=BridgeOptions(),
            workers=Workers(),
            in_tick=None,
            wait_for_tick=lambda _: None,
            report=self.report,
        )
        self.descriptions.open()

    def report(self, kind, message):
        self.reports.append((kind, message))

    def rows(self):
        return {row.path: row for row in self.descriptions.status() if row.kind == "topic"}

    def close(self):
        self.descriptions.close()
        self.domains.close()


@pytest.fixture
def moved():
    opened = Moved(two_arms())
    yield opened
    opened.close()


def test_another_plan_keeps_what_holds_and_sends_what_changed(moved, ros_harness):
    names = ("/arm/robot_description", "/other/robot_description")
    first, second = (ros_harness.listen(String, name, LATCHED) for name in names)
    ros_harness.wait_for(lambda: first and second, what="both descriptions")
    gids = [bytes(ros_harness.node.get_publishers_info_by_topic(name)[0].endpoint_gid) for name in names]
    moved.descriptions.prepare(with_limit(two_arms(), 2.5), None).cleanup()
    ros_harness.wait_for(lambda: len(first) == 2, what="the new description")
    assert "2.5" in first[1].data
    assert {path: row.count for path, row in moved.rows().items()} == {"/arm": 2, "/other": 1}
    after = [bytes(ros_harness.node.get_publishers_info_by_topic(name)[0].endpoint_gid) for name in names]
    assert after == gids


def test_a_robot_that_is_gone_is_described_no_more_and_a_new_one_is(moved, ros_harness):
    first = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: first, what="the description")
    moved.descriptions.prepare(
        plan(robots=(arm(), arm("/new", path="/new", row=1, index=1)), layout=layout("/arm", "/new")), None
    ).cleanup()
    new = ros_harness.listen(String, "/new/robot_description", LATCHED)
    ros_harness.wait_for(lambda: new, what="the new robot's description")
    ros_harness.wait_for(
        lambda: ros_harness.node.count_publishers("/other/robot_description") == 0, what="the old one's end"
    )
    assert {path: row.count for path, row in moved.rows().items()} == {"/arm": 1, "/new": 1}
    late = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    ros_harness.wait_for(lambda: late, what="what was sent before the change")


def test_of_changes_that_follow_each_other_closely_the_last_one_counts(moved, ros_harness):
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    for tenths in range(1, 201):
        moved.descriptions.prepare(with_limit(two_arms(), tenths / 10), None).cleanup()
    ros_harness.wait_for(lambda: received and 'upper="20' in received[-1].data, what="the last description")
    assert moved.rows()["/arm"].count < 100


def test_what_cannot_be_described_is_reported(moved, ros_harness):
    # What is no stage fails as one does that cannot be read.
    moved.descriptions.prepare(
        replace(two_arms("/another"), stage=object(), stage_owned=True), None
    ).cleanup()
    ros_harness.wait_for(lambda: moved.reports, what="the report")
    ((kind, message),) = moved.reports
    assert kind == "description"
    assert "robot_description" in message
    row = moved.rows()["/other"]
    assert (row.name, row.state, row.count) == ("/another/robot_description", "idle", 0)
    assert row.reason not in ("", "it is being made")


def test_who_is_to_edit_the_stage_interrupts_its_reading_and_it_is_described_afterwards(
    ros_harness, monkeypatch
):
    # A slow editor gets its turn all the same before the reader comes back.
    monkeypatch.setattr("usd_ros_bridge.ros.description.description_builder._QUIET_S", 1.0)
    first = load_plan(ARM)
    turn, edited = lock_of(first.stage), threading.Event()
    editors, read_on = [], []

    def edit():
        with turn:
            edited.set()

    def wait_for_tick(_wants):
        # Called by the reader, which has the turn, and later on by who makes the description.
        if not editors:
            editors.append(threading.Thread(target=edit))
            editors[0].start()
            # Not through the harness: the test's own thread is in its executor.
            deadline = time.monotonic() + 60.0
            while not turn.is_wanted and time.monotonic() < deadline:
                time.sleep(0.002)
        else:
            read_on.append(edited.is_set())

    domains = Domains(report=lambda *_: None)
    descriptions = Descriptions(
        first,
        domains,
        options=BridgeOptions(),
        workers=Workers(),
        in_tick=None,
        wait_for_tick=wait_for_tick,
        report=lambda *_: None,
    )
    received = ros_harness.listen(String, "/arm/robot_description", LATCHED)
    try:
        descriptions.open()
        ros_harness.wait_for(edited.is_set, what="the editor's turn")
        ros_harness.wait_for(lambda: received, what="the description")
        assert read_on
        assert all(read_on), "it is read on before the edit"
        assert "left_finger" in links(received[0].data)
    finally:
        descriptions.close()
        domains.close()
        editors[0].join(20.0)
