"""/diagnostics and ~/plan as other nodes hear them: names, levels, figures, and nothing while nobody listens."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf_sender import sending

from ros_plans import JOINT_COMMANDS, JOINT_STATES, arm, layout, plan, publisher
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.plan import ServicePlan, TfOutput
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.diagnostics.diagnostic_rules import BackendWatch

ASSETS = Path(__file__).parent.parent / "assets"
NODE = "usd_ros_bridge"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
QUICK = {"diagnostics_rate": 10.0}
BUSY = ("periods passed without a message", " Hz of ", "there is too little time")
"""Words of warnings that a busy machine has coming: a stall of one period shows for ten seconds."""


class Listener:
    """Statuses by name, the newest of each."""

    def __init__(self, harness):
        self.harness = harness
        self.statuses = {}
        self.arrays = []
        harness.node.create_subscription(DiagnosticArray, "/diagnostics", self.take, 1000)

    def take(self, array):
        self.arrays.append(array)
        self.statuses |= {each.name: each for each in array.status}

    def level(self, name):
        status = self.statuses.get(f"{NODE}: {name}")
        return None if status is None else status.level

    def values(self, name):
        return {each.key: each.value for each in self.statuses[f"{NODE}: {name}"].values}

    def wait_for(self, name, level, *texts):
        def there():
            status = self.statuses.get(f"{NODE}: {name}")
            return status and status.level == level and all(text in status.message for text in texts)

        self.harness.wait_for(there, timeout=60.0, what=f"{name} at {level!r}: {texts}")
        return self.statuses[f"{NODE}: {name}"]


@pytest.fixture
def listener(ros_harness):
    return Listener(ros_harness)


def test_a_round_tells_of_everything_once(start, ros_harness, listener):
    ros_harness.listen(JointState, "/arm/joint_states")
    start(plan(JOINT_STATES, JOINT_COMMANDS), **QUICK)

    def is_told():
        return (
            listener.level("publisher /arm/joint_states") is not None
            and 45.0 < float(listener.values("publisher /arm/joint_states")["achieved rate (Hz)"]) < 55.0
            and listener.values("publisher /arm/joint_states")["subscribers"] == "1"
            # Empty where no tick came between two rounds.
            and listener.values("backend")["step time, mean (ms)"] != ""
        )

    ros_harness.wait_for(is_told, timeout=90.0, what="the rate, the subscriber and a step")
    assert listener.statuses[f"{NODE}: publisher /arm/joint_states"].hardware_id == "/arm"
    values = listener.values("publisher /arm/joint_states")
    assert (values["authored rate (Hz)"], values["prim"]) == ("50", JOINT_STATES.path)
    names = [each.name for each in listener.arrays[-1].status]
    assert len(names) == len(set(names))
    assert set(names) >= {
        f"{NODE}: {each}"
        for each in (
            "bridge", "backend", "tf", "publisher /arm/joint_states", "subscription /arm/joint_commands",
            "publisher /arm/tf", "publisher /arm/tf_static",
        )
    }  # fmt: skip
    assert not [
        (each.name, each.message)
        for each in listener.arrays[-1].status
        if each.level != DiagnosticStatus.OK and not any(text in each.message for text in BUSY)
    ]
    assert listener.arrays[-1].header.stamp.sec > 0
    backend = listener.values("backend")
    assert backend["backend"] == "KinematicBackend"
    assert float(backend["step time, mean (ms)"]) > 0.0
    assert float(backend["step time, longest (ms)"]) >= float(backend["step time, mean (ms)"])
    assert listener.values("bridge")["asset"] == "arm.usda"


class StuckBackend(NullBackend):
    """Raises in every step once it is told to."""

    stuck = False

    def step(self, time_ns, commands):
        if self.stuck:
            raise RuntimeError("a gear is stuck")
        return super().step(time_ns, commands)


def test_a_backend_that_raises_is_an_error_while_tf_goes_on(start, listener):
    backend = StuckBackend()
    start(plan(JOINT_STATES), backend, **QUICK)
    listener.wait_for("backend", DiagnosticStatus.OK)
    backend.stuck = True
    listener.wait_for("backend", DiagnosticStatus.ERROR, "RuntimeError: a gear is stuck")
    assert int(listener.values("backend")["errors"]) > 0


def test_messages_that_nothing_takes_are_a_warning_and_counted(start, ros_harness, listener):
    unknown = replace(JOINT_COMMANDS, path="/arm/text", name="/arm/text", type="std_msgs/msg/String")
    running = start(plan(JOINT_STATES, unknown), **QUICK)
    listener.wait_for("subscription /arm/text", DiagnosticStatus.WARN, "silent")
    sender = ros_harness.node.create_publisher(String, "/arm/text", 10)
    ros_harness.wait_for(lambda: ros_harness.are_connected(sender, running.bridge), what="the subscription")
    for _ in range(3):
        sender.publish(String(data="hello"))
    ros_harness.wait_for(
        lambda: listener.values("subscription /arm/text")["count"] == "3", what="three messages"
    )
    assert listener.values("subscription /arm/text")["publishers"] == "1"


def test_what_the_plan_or_ros_disables_is_an_error_and_what_somebody_switched_off_is_not(start, listener):
    faulty = publisher("/arm/a", "sensor_msgs/msg/Imu", enabled=False, reason="its rate is 0")
    off = publisher(
        "/arm/b", "sensor_msgs/msg/Imu", enabled=False, starts_enabled=False, reason="starts_enabled is false"
    )
    missing = publisher("/arm/c", "not_installed_msgs/msg/Thing")
    start(plan(faulty, off, missing), **QUICK)
    listener.wait_for("publisher /arm/a", DiagnosticStatus.ERROR, "disabled: its rate is 0")
    listener.wait_for("publisher /arm/b", DiagnosticStatus.OK, "starts_enabled is false")
    listener.wait_for("publisher /arm/c", DiagnosticStatus.ERROR, "not_installed_msgs")


def test_a_service_that_nothing_serves_is_a_warning(start, listener):
    light = ServicePlan(path="/arm/light", role="server", name="/arm/light", type="std_srvs/srv/SetBool")
    start(plan(light), **QUICK)
    listener.wait_for("server /arm/light", DiagnosticStatus.WARN, "silent")


def test_foreign_transforms_are_reported_and_clear(start, listener, monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.tf.broadcaster.CHECK_RATE", 20.0)
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.SUBSCRIBED_S", 1.0)
    start(plan(), **QUICK)
    listener.wait_for("tf", DiagnosticStatus.OK)
    with sending("/arm/tf", ("elsewhere", "link"), node="driver"):
        listener.wait_for("tf", DiagnosticStatus.ERROR, "/driver", "link (base and elsewhere)")
    listener.wait_for("tf", DiagnosticStatus.OK)


def test_nothing_is_made_while_nobody_listens(start, ros_harness, monkeypatch):
    turns, made = [], []
    create_timer, judge = Node.create_timer, BackendWatch.judge

    def counted_timer(node, period_s, callback, **options):
        return create_timer(node, period_s, lambda: (turns.append(1), callback())[1], **options)

    monkeypatch.setattr(Node, "create_timer", counted_timer)
    monkeypatch.setattr(BackendWatch, "judge", lambda *each: (made.append(1), judge(*each))[1])
    start(plan(JOINT_STATES), **QUICK)
    ros_harness.wait_for(lambda: len(turns) > 5, what="turns")
    assert not made
    listener = Listener(ros_harness)
    ros_harness.wait_for(lambda: bool(listener.arrays), what="a message")
    assert made


def test_it_can_be_left_out(start, ros_harness):
    running = start(plan(JOINT_STATES), publish_diagnostics=False)
    ros_harness.wait_for(lambda: bool(running.bridge.status().ticks), what="a tick")
    assert "/diagnostics" not in dict(running.bridge.node.get_topic_names_and_types())


def test_a_rate_that_is_not_possible_is_the_callers_mistake():
    for rate in (0.0, -1.0, float("nan"), float("inf"), 11.0):
        with pytest.raises(OptionError, match="diagnostics_rate"):
            Bridge(plan(), options=BridgeOptions(diagnostics_rate=rate)).open()


def test_a_fleet_is_reported_in_several_messages_and_none_is_left_out(
    start, ros_harness, listener, monkeypatch
):
    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.diagnostics_publisher.TURN_ROWS", 7)
    count = 20
    robots = tuple(
        arm(
            f"/r{n}",
            path=f"/r{n}",
            row=n,
            index=n,
            outputs=(TfOutput(tf=f"/r{n}/tf", tf_static=f"/r{n}/tf_static"),),
        )
        for n in range(count)
    )
    topics = tuple(
        replace(JOINT_STATES, path=f"/r{n}/js", name=f"/r{n}/joint_states", robot=n) for n in range(count)
    )
    start(plan(*topics, robots=robots, layout=layout(*(f"/r{n}" for n in range(count)))), **QUICK)
    wanted = {
        f"{NODE}: publisher /r{n}/{each}"
        for n in range(count)
        for each in ("joint_states", "tf", "tf_static")
    }
    ros_harness.wait_for(lambda: wanted <= listener.statuses.keys(), what="all interfaces")
    assert max(len(each.status) for each in listener.arrays) == 7
    assert listener.statuses[f"{NODE}: publisher /r3/joint_states"].hardware_id == "/r3"


def test_interfaces_of_one_name_are_told_apart(start, listener, ros_harness):
    twin = replace(JOINT_STATES, path="/arm/twin")
    start(plan(JOINT_STATES, twin, replace(JOINT_COMMANDS, name=JOINT_STATES.name)), **QUICK)
    names = [
        "publisher /arm/joint_states",
        "publisher /arm/joint_states of /arm/twin",
        "subscription /arm/joint_states",
    ]
    ros_harness.wait_for(
        lambda: all(listener.level(each) is not None for each in names), what="three statuses"
    )


def test_a_host_that_steps_no_more_is_stale(ros_harness, listener, monkeypatch):
    """The timer is the wall's: what stands still is told, not silent."""
    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.diagnostic_rules.STILL_S", 0.5)
    with Bridge(plan(JOINT_STATES), options=BridgeOptions(threaded=False, diagnostics_rate=10.0)) as bridge:

        def stale():
            bridge.poll()
            return listener.level("bridge") == DiagnosticStatus.STALE

        bridge.step()
        ros_harness.wait_for(stale, what="a stale bridge")
        assert "no tick" in listener.statuses[f"{NODE}: bridge"].message

        def well():
            bridge.step()
            bridge.poll()
            return listener.level("bridge") == DiagnosticStatus.OK

        ros_harness.wait_for(well, what="a bridge that is well again")


def test_closing_while_it_tells_raises_nothing(ros_harness, listener, monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.diagnostics_publisher.TURN_ROWS", 1)
    warnings = []
    for _ in range(3):
        bridge = Bridge(
            plan(JOINT_STATES, JOINT_COMMANDS),
            options=BridgeOptions(diagnostics_rate=10.0),
            report=lambda *each: warnings.append(each),
        )
        bridge.open()
        thread = threading.Thread(target=bridge.spin)
        thread.start()
        before = len(listener.arrays)
        ros_harness.wait_for(lambda n=before: len(listener.arrays) > n, what="a message")
        bridge.close()
        thread.join(60.0)
        assert not thread.is_alive()
    assert not [kind for kind, _ in warnings if kind.startswith(("diagnostics", "ros."))]


# --- The plan in short ------------------------------------------------------------------------------------------------


def listen_to_plan(harness, topic=f"/{NODE}/plan"):
    texts = []
    harness.node.create_subscription(String, topic, lambda message: texts.append(message.data), LATCHED)
    return texts


def test_a_late_joiner_gets_the_summary_with_the_reasons_of_what_is_not_there(start, ros_harness):
    off = publisher(
        "/arm/off", "sensor_msgs/msg/Imu", enabled=False, starts_enabled=False, reason="switched off"
    )
    missing = publisher("/arm/missing", "not_installed_msgs/msg/Thing")
    running = start(plan(JOINT_STATES, off, missing))
    ros_harness.wait_for(lambda: running.bridge.status().ticks > 3, what="ticks")
    texts = listen_to_plan(ros_harness)
    ros_harness.wait_for(lambda: bool(texts), what="the summary")
    summary = json.loads(texts[0])
    disabled = {each["name"]: each.get("disabled") for each in summary["topics"]}
    assert disabled["/arm/joint_states"] is None
    assert disabled["/arm/off"] == "switched off"
    assert "not_installed_msgs" in disabled["/arm/missing"]
    assert [each["path"] for each in summary["robots"]] == ["/arm"]
    assert len(texts) == 1


def test_whoever_gets_the_summary_finds_everything_else(start, ros_harness):
    probe = ServicePlan(path="/arm/probe", role="server", name="/arm/probe", type="std_srvs/srv/Trigger")
    running = start(replace(plan(JOINT_STATES), services=(probe,)))
    found = set()

    def look(_):
        node = running.bridge.node
        found.update(name for name, _ in node.get_service_names_and_types_by_node(node.get_name(), "/"))

    ros_harness.node.create_subscription(String, f"/{NODE}/plan", look, LATCHED)
    ros_harness.wait_for(lambda: bool(found), what="the summary")
    assert found >= {"/arm/probe", f"/{NODE}/set_parameters"}


def test_the_summary_waits_until_the_bridge_is_open(ros_harness):
    with Bridge(plan(JOINT_STATES), options=BridgeOptions(threaded=False)) as bridge:
        texts = listen_to_plan(ros_harness)
        assert not bridge.parts.summary.is_published
        ros_harness.wait_for(lambda: bridge.poll() or bool(texts), what="the summary")
    assert len(texts) == 1


def test_a_bridge_that_is_told_to_publishes_no_summary(start, ros_harness):
    running = start(plan(JOINT_STATES), publish_plan=False)
    ros_harness.wait_for(lambda: running.bridge.status().ticks > 3, what="ticks")
    assert running.bridge.node.get_publishers_info_by_topic(f"/{NODE}/plan") == []


def test_another_plan_is_another_summary_and_the_same_one_is_not_sent_again(start, ros_harness):
    running = start(plan(JOINT_STATES))
    texts = listen_to_plan(ros_harness)
    ros_harness.wait_for(lambda: len(texts) == 1, what="the summary")
    summary = running.bridge.parts.summary
    summary.prepare(plan(JOINT_STATES), None).finish()
    summary.prepare(plan(JOINT_STATES, JOINT_COMMANDS), None).finish()
    ros_harness.wait_for(lambda: len(texts) == 2, what="the next summary")
    names = [[each["name"] for each in json.loads(text)["topics"]] for text in texts]
    assert names == [["/arm/joint_states"], ["/arm/joint_states", "/arm/joint_commands"]]


# --- Change -----------------------------------------------------------------------------------------------------------


def test_both_go_on_with_another_variant(start, ros_harness, listener):
    """A sensor that the variant adds has a status and stands in the summary; the others' counts go on."""
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    from usd_ros_bridge import ReadOptions, VariantSelection, load_plan

    def chosen(name):
        return (VariantSelection("/robot", "head", name),)

    made = load_plan(ASSETS / "variant_sensor.usda", read_options=ReadOptions(variants=chosen("plain")))
    running = start(made, **QUICK)
    texts = listen_to_plan(ros_harness)
    ros_harness.wait_for(lambda: bool(texts), what="the summary")
    listener.wait_for("bridge", DiagnosticStatus.OK)
    running.bridge.change(variants=chosen("lidar")).result(60.0)
    listener.wait_for("publisher /robot/scan", DiagnosticStatus.WARN, "silent")
    ros_harness.wait_for(lambda: len(texts) == 2, what="the next summary")
    first, second = map(json.loads, texts)
    assert "/robot/scan" not in {each["name"] for each in first["topics"]}
    assert "/robot/scan" in {each["name"] for each in second["topics"]}
    assert second["variants"] == {"/robot": {"head": "lidar"}}
