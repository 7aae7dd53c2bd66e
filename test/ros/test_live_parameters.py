"""Parameters that change a running bridge, ~/reload, and files that change: over real services, on real files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from parameter_client import ParameterClient
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.options import (
    BridgeOptions,
    PlanOptions,
    ReadOptions,
    VariantSelection,
    make_node_options,
)
from usd_ros_bridge.ros import parameters
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.change import live_parameters
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.usd import quiet

ASSET = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
    variants = {
        string head = "plain"
    }
    prepend variantSets = "head"
)
{
    string ros:context:namespace = "robot"
    def Xform "states" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {
        string ros:topic:name = "states"
        double ros:topic:publish_rate = 20
        token ros:topic:role = "publisher"
        string ros:topic:type = "geometry_msgs/msg/PoseStamped"
    }
    def Xform "off" (
        prepend apiSchemas = ["RosServiceAPI"]
    )
    {
        string ros:service:name = "off"
        token ros:service:role = "server"
        string ros:service:type = "std_srvs/srv/Trigger"
        bool ros:service:starts_enabled = 0
    }
    def Xform "faulty" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {
        string ros:topic:name = "no name"
        double ros:topic:publish_rate = 20
        token ros:topic:role = "publisher"
        string ros:topic:type = "std_msgs/msg/Bool"
    }
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
        def Xform "tip" {
        }
        def Xform "arm_frame" (
            prepend apiSchemas = ["RosFrameAPI"]
        )
        {
        }
    }
    variantSet "head" = {
        "lidar" {
            def Xform "scan" (
                prepend apiSchemas = ["RosTopicAPI"]
            )
            {
                string ros:topic:name = "scan"
                double ros:topic:publish_rate = 10
                token ros:topic:role = "publisher"
                string ros:topic:type = "sensor_msgs/msg/LaserScan"
            }
        }
        "plain" {
        }
    }
}
"""

NO_CONTEXT = ASSET.replace('    prepend apiSchemas = ["RosContextAPI"]\n', "")
LIDAR = "/robot:head=lidar"
STATES, OFF, FAULTY, SCAN = "/robot/states", "/robot/off", "/robot/faulty", "/robot/scan"


@pytest.fixture
def asset(tmp_path: Path) -> Path:
    path = tmp_path / "robot.usda"
    path.write_text(ASSET, encoding="utf-8")
    return path


def plan_of(asset: Path, **options: Any) -> Any:
    with quiet():
        return load_plan(str(asset), **options)


def topics(bridge: Bridge) -> set[str]:
    return {row.name for row in bridge.status().interfaces if row.state == "live"}


class Live:
    """A running bridge, its parameters, and what it is seen to have."""

    def __init__(self, harness: Any, running: Any) -> None:
        self.harness = harness
        self.running = running
        self.bridge: Bridge = running.bridge
        self.parameters = ParameterClient(harness)

    def names(self) -> dict[str, str]:
        node, who = self.harness.node, ("usd_ros_bridge", "/")
        self.harness.wait_for(lambda: who in node.get_node_names_and_namespaces(), what="the bridge's node")
        found = node.get_publisher_names_and_types_by_node(*who)
        found += node.get_service_names_and_types_by_node(*who)
        return {
            name: types[0]
            for name, types in found
            if name.startswith("/robot/") or name in ("/tf", "/tf_static")
        }

    def wait_for_names(self, *, there: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> None:
        def done() -> bool:
            now = self.names()
            return all(name in now for name in there) and not any(name in now for name in gone)

        self.harness.wait_for(done, what=f"{there} there and {gone} gone")

    def publisher(self) -> Any:
        (found,) = [each for each in self.bridge.node.publishers if each.topic_name == "/robot/states"]
        return found


@pytest.fixture
def live(start: Any, ros_harness: Any, asset: Path) -> Callable[..., Live]:
    def run(**options: Any) -> Live:
        return Live(ros_harness, start(plan_of(asset), **options))

    return run


# --- Parameters ------------------------------------------------------------------------------------------------


def test_parameters_show_what_holds(live: Callable[..., Live]) -> None:
    here = live()
    names = here.parameters.names()
    assert {*live_parameters.LIVE_OPTIONS, "variants", "tf_rate"} <= names
    assert {f"enabled.{path}" for path in (STATES, OFF, FAULTY)} | {f"rate.{STATES}", f"rate.{FAULTY}"} == {
        name for name in names if "/" in name
    }
    get = here.parameters.get
    assert get("variants") == [""]
    assert get("tf_output") == "namespaced"
    assert get("schema_resolvers") == ["newton", "physx", "mjc"]
    assert (get(f"enabled.{STATES}"), get(f"enabled.{OFF}"), get(f"enabled.{FAULTY}")) == (True, False, False)
    assert get(f"rate.{STATES}") == 20.0
    assert "Hz" in here.parameters.describe(f"rate.{STATES}").additional_constraints


def test_a_variant_is_switched_and_its_parameters_come_and_go(live: Callable[..., Live]) -> None:
    here = live()
    publisher = here.publisher()
    assert here.parameters.set("variants", [LIDAR]) == ""
    here.wait_for_names(there=("/robot/scan", "/robot/states"))
    here.harness.wait_for(lambda: f"rate.{SCAN}" in here.parameters.names(), what="its parameters")
    assert here.parameters.get(f"rate.{SCAN}") == 10.0
    assert here.bridge.plan.variants == (VariantSelection("/robot", "head", "lidar"),)
    assert here.parameters.set("variants", [""]) == ""
    here.wait_for_names(there=("/robot/states",), gone=("/robot/scan",))
    here.harness.wait_for(lambda: f"rate.{SCAN}" not in here.parameters.names(), what="no parameters")
    assert here.publisher() is publisher


def test_interfaces_are_switched_and_rates_set_without_a_new_publisher(live: Callable[..., Live]) -> None:
    here = live()
    publisher = here.publisher()
    assert here.parameters.set_together({f"enabled.{OFF}": True, f"rate.{STATES}": 40.0}) == ""
    here.wait_for_names(there=("/robot/off", "/robot/states"))
    assert here.publisher() is publisher

    def has_rate() -> bool:
        (topic,) = [each for each in here.bridge.plan.topics if each.path == STATES]
        return topic.publish_rate == 40.0

    # Endpoints are there before the plan that they belong to counts.
    here.harness.wait_for(has_rate, what="the rate")
    assert here.parameters.set(f"enabled.{STATES}", False) == ""
    here.wait_for_names(there=("/robot/off",), gone=("/robot/states",))
    assert here.parameters.set_together({f"enabled.{STATES}": True, f"enabled.{OFF}": False}) == ""
    here.wait_for_names(there=("/robot/states",), gone=("/robot/off",))
    assert here.parameters.set(f"rate.{STATES}", 20.0) == ""
    # What is as the asset says needs no option.
    here.harness.wait_for(
        lambda: not (here.bridge.plan.options.enabled or here.bridge.plan.options.rates), what="no overrides"
    )


def test_options_of_planning_change_together_in_one_change(live: Callable[..., Live]) -> None:
    here = live()
    reports: list[Any] = []
    here.bridge.changes.on_change(reports.append)
    values = {"tf_output": "global", "frame_prefix": "left_", "frames_from_xforms": True}
    assert here.parameters.set_together(values) == ""
    here.wait_for_names(there=("/tf_static",), gone=("/robot/tf_static",))
    here.harness.wait_for(lambda: reports, what="the report")
    assert len(reports) == 1
    assert {name: getattr(here.bridge.plan.options, name) for name in values} == values
    assert "tf_output" in reports[0].why


def test_true_and_false_are_strings_or_bools(live: Callable[..., Live]) -> None:
    here = live()
    for value, held in ((True, True), ("auto", "auto"), ("false", False), (False, False), ("true", True)):
        assert here.parameters.set("frames_from_xforms", value) == ""
        here.harness.wait_for(
            lambda held=held: here.bridge.plan.options.frames_from_xforms == held, what=f"{held} in the plan"
        )
    assert "there are" in here.parameters.set("frames_from_xforms", "some")


def test_true_and_false_may_be_bools_at_the_start(ros_harness: Any) -> None:
    for given, held in ((True, True), (False, False), ("false", False), ("auto", "auto")):
        domains = Domains(report=print, parameter_overrides=[Parameter("frames_from_xforms", value=given)])
        try:
            values = parameters.declare(domains.main.node)
            assert make_node_options(values, node_namespace="/").plan.frames_from_xforms == held
        finally:
            domains.close()


def test_the_rate_of_transforms_needs_no_plan(live: Callable[..., Live]) -> None:
    here = live()
    plan = here.bridge.plan

    def rates() -> set[float | None]:
        return {row.authored_rate for row in here.bridge.status().interfaces if row.name == "/robot/tf"}

    assert here.parameters.set("tf_rate", 5.0) == ""
    here.harness.wait_for(lambda: rates() <= {5.0}, what="the rate")
    assert here.bridge.plan is plan
    assert here.parameters.get("tf_rate") == 5.0


def test_the_rate_has_the_name_of_robot_state_publisher_too(ros_harness: Any, asset: Path) -> None:
    domains = Domains(report=print, parameter_overrides=[Parameter("publish_frequency", value=5.0)])
    values = parameters.declare(domains.main.node)
    rate = make_node_options(values, node_namespace="/").bridge.tf_rate
    client = ParameterClient(ros_harness)
    with Bridge(plan_of(asset), options=BridgeOptions(tf_rate=rate), node=domains) as bridge:
        for name, value, expected in (
            ("publish_frequency", 8.0, 8.0),
            ("tf_rate", 30.0, 8.0),
            ("publish_frequency", 0.0, 30.0),
        ):
            assert client.set(name, value) == ""
            bridge.step()
            rates = {row.authored_rate for row in bridge.status().interfaces if row.name == "/robot/tf"}
            assert rates == {expected}
            assert client.get("tf_rate") in (50.0, 30.0)


def test_a_rate_of_every_step_cannot_be_set(ros_harness: Any, asset: Path) -> None:
    domains = Domains(report=print)
    parameters.declare(domains.main.node)
    with Bridge(plan_of(asset), options=BridgeOptions(tf_rate=None), node=domains):
        assert "every state" in ParameterClient(ros_harness).set("tf_rate", 7.0)


def test_nonsense_is_refused_with_a_reason(live: Callable[..., Live]) -> None:
    here = live()
    for name, value, reason in (
        ("variants", ["/robot:head=none"], "it has: lidar, plain"),
        ("variants", ["/robot:tail=long"], "no variant set 'tail'"),
        ("variants", ["robot"], "has not the form"),
        ("variants", ["/nobody:head=lidar"], "no prim '/nobody'"),
        ("tf_output", "everywhere", "is not possible; there are: both, global, namespaced"),
        ("schema_resolvers", ["newton", "bullet"], "'bullet' is not possible"),
        ("frame_prefix", "/left", "begin with '/'"),
        ("frame_prefix", "a b", "letters"),
        ("base_transform", "nobody", "is not possible"),
        ("tf_rate", 0.0, "range"),
        ("tf_rate", "often", "type"),
        (f"rate.{STATES}", 0.0, "0.001 to 10000 Hz"),
        (f"rate.{STATES}", float("nan"), "0.001 to 10000 Hz"),
        (f"rate.{STATES}", 1e6, "0.001 to 10000 Hz"),
        (f"enabled.{FAULTY}", True, "no name"),
        (f"enabled.{STATES}", "yes", "type"),
        ("enabled./robot/nobody", True, "undeclared"),
    ):
        plan, before = here.bridge.plan, here.parameters.get(name)
        assert reason.lower() in here.parameters.set(name, value).lower()
        assert here.parameters.get(name) == before
        assert here.bridge.plan is plan
        # One bad value of several keeps the others from counting, too.
        if name != "publish_tf":
            assert here.parameters.set_together({"publish_tf": False, name: value})
            assert here.parameters.get("publish_tf") is True


def test_what_is_refused_when_it_is_planned_is_set_back(live: Callable[..., Live], asset: Path) -> None:
    here = live()
    with pytest.raises(Exception, match="not now"):
        here.bridge.change(edit=_fail).result(60.0)
    # The context goes away in the file: nothing can be planned that is accepted.
    asset.write_text(NO_CONTEXT, encoding="utf-8")
    with pytest.raises(Exception, match="RosContextAPI"):
        here.bridge.reload().result(60.0)
    assert here.parameters.set("frame_prefix", "left_") == ""
    here.parameters.wait("frame_prefix", "")
    here.harness.wait_for(
        lambda: here.running.warnings.containing("frame_prefix", "set back"), what="the report"
    )
    assert here.bridge.plan.options.frame_prefix == ""
    asset.write_text(ASSET, encoding="utf-8")
    here.bridge.reload().result(60.0)
    assert here.parameters.set("frame_prefix", "left_") == ""
    here.harness.wait_for(lambda: here.bridge.plan.options.frame_prefix == "left_", what="the prefix")


def _fail(_stage: Any) -> None:
    raise ValueError("not now")


def test_parameters_follow_what_others_change(live: Callable[..., Live]) -> None:
    here = live()
    here.bridge.change(
        variants=[VariantSelection("/robot", "head", "lidar")],
        plan_options=PlanOptions(tf_output="both", enabled={OFF: True}, rates={SCAN: 7.0}),
    ).result(60.0)
    here.parameters.wait("variants", [LIDAR])
    assert here.parameters.get("tf_output") == "both"
    here.parameters.wait(f"enabled.{OFF}", True)
    here.parameters.wait(f"rate.{SCAN}", 7.0)


def test_values_given_at_the_start_hold(start: Any, ros_harness: Any, asset: Path) -> None:
    given = [Parameter(f"enabled.{STATES}", value=False), Parameter(f"rate.{SCAN}", value=3.0)]
    options = ReadOptions(variants=(VariantSelection("/robot", "head", "lidar"),))
    here = Live(ros_harness, start(plan_of(asset, read_options=options), parameter_overrides=given))
    here.wait_for_names(there=("/robot/scan",), gone=("/robot/states",))
    assert here.parameters.get("variants") == [LIDAR]
    assert here.bridge.plan.options.rates == {SCAN: 3.0}


def test_an_impossible_value_at_the_start_is_the_callers_mistake(asset: Path) -> None:
    for given in ({f"rate.{STATES}": -1.0}, {f"rate.{STATES}": "fast"}, {f"enabled.{FAULTY}": True}):
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        with (
            pytest.raises(OptionError, match="/robot/"),
            Bridge(plan_of(asset), options=BridgeOptions(parameter_overrides=overrides)),
        ):
            pass


def test_the_parameters_of_the_node_are_the_same_ones(ros_harness: Any, asset: Path) -> None:
    domains = Domains(report=print, parameter_overrides=[Parameter("tf_output", value="both")])
    values = parameters.declare(domains.main.node)
    options = make_node_options(values, node_namespace="/")
    plan = plan_of(asset, plan_options=options.plan)
    client = ParameterClient(ros_harness)
    with Bridge(plan, node=domains) as bridge:
        assert client.get("tf_output") == "both"
        assert client.set("tf_output", "global") == ""
        while bridge.plan.options.tf_output != "global":
            bridge.step()
        assert "start it again" in client.set("backend", "null")
        assert client.get("backend") == "auto"


def test_a_hosts_node_gets_parameters_of_interfaces_alone(ros_harness: Any, asset: Path) -> None:
    with Bridge(plan_of(asset), node=ros_harness.node) as bridge:
        assert ros_harness.node.has_parameter(f"rate.{STATES}")
        assert not ros_harness.node.has_parameter("variants")
        result = ros_harness.node.set_parameters([Parameter(f"rate.{STATES}", value=5.0)])[0]
        assert result.successful

        def stepped() -> bool:
            bridge.step()
            return dict(bridge.plan.options.rates) == {STATES: 5.0}

        ros_harness.wait_for(stepped, what="the rate")
    assert not ros_harness.node.has_parameter(f"rate.{STATES}")


def test_where_there_are_too_many_each_is_declared_when_it_is_set(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_parameters, "MAX_DECLARED", 3)
    here = live()
    assert not any("/" in name for name in here.parameters.names())
    assert here.parameters.set(f"enabled.{OFF}", True) == ""
    here.wait_for_names(there=("/robot/off",))
    assert {name for name in here.parameters.names() if "/" in name} == {f"enabled.{OFF}"}
    assert here.parameters.set(f"rate.{STATES}", 0.0)
    assert here.parameters.set("enabled./robot/nobody", True)


def test_a_plan_without_a_stage_says_that_it_cannot_change(ros_harness: Any, start: Any) -> None:
    from usd_ros_bridge.model.plan import BridgePlan

    here = Live(ros_harness, start(BridgePlan(asset="by hand")))
    assert "no stage" in here.parameters.set("publish_tf", False)
    assert here.parameters.set("tf_rate", 7.0) == ""


# --- Reload, files ---------------------------------------------------------------------------------------------


@pytest.fixture
def reload(ros_harness: Any) -> Iterator[Callable[[], tuple[bool, str]]]:
    client = ros_harness.node.create_client(Trigger, "/usd_ros_bridge/reload")

    def call() -> tuple[bool, str]:
        ros_harness.wait_for(client.service_is_ready, what="~/reload")
        future = client.call_async(Trigger.Request())
        ros_harness.wait_for(future.done, what="its answer")
        return future.result().success, future.result().message

    yield call
    ros_harness.node.destroy_client(client)


def test_reload_goes_on_with_what_the_file_is(live: Callable[..., Live], asset: Path, reload: Any) -> None:
    here = live()
    publisher = here.publisher()
    asset.write_text(ASSET.replace('"off"', '"other"'), encoding="utf-8")
    done, message = reload()
    assert done, message
    assert "unchanged" in message
    here.harness.wait_for(lambda: "enabled./robot/other" in here.parameters.names(), what="parameters")
    assert here.publisher() is publisher
    for text, reason in (
        (ASSET[:-3], "cannot read 'robot.usda'"),
        (f"{ASSET}def \x1b]0;owned\x07", "cannot read 'robot.usda'"),
        (ASSET.replace('    defaultPrim = "robot"\n', ""), "default prim"),
        (NO_CONTEXT, "RosContextAPI"),
    ):
        asset.write_text(text, encoding="utf-8")
        done, message = reload()
        assert (done, reason in message) == (False, True), message
        assert message.isprintable(), message
        assert here.publisher() is publisher
    asset.unlink()
    done, message = reload()
    assert (done, "No such file" in message) == (False, True)
    asset.write_text(ASSET, encoding="utf-8")
    assert reload()[0]
    here.harness.wait_for(lambda: f"enabled.{OFF}" in here.parameters.names(), what="parameters")


def test_files_that_change_are_followed(live: Callable[..., Live], asset: Path) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed: make setup")
    here = live(watch=True)
    publisher = here.publisher()
    part = asset.with_name("part.usda")
    part.write_text(
        ASSET.replace('"robot"', '"part"').replace('= "states"', '= "part_states"'), encoding="utf-8"
    )
    reference = 'def Xform "more" (references = @part.usda@) {\n    }\n    def Xform "base"'
    asset.write_text(ASSET.replace('def Xform "base"', reference), encoding="utf-8")
    here.wait_for_names(there=("/robot/part/part_states", "/robot/states"))
    # What is new is followed, too.
    part.write_text(
        part.read_text(encoding="utf-8").replace('= "part_states"', '= "states_of_part"'), encoding="utf-8"
    )
    here.wait_for_names(there=("/robot/part/states_of_part",), gone=("/robot/part/part_states",))
    # Half a file changes nothing; neither does one that goes.
    whole = part.read_text(encoding="utf-8")
    part.write_text(whole[:-3], encoding="utf-8")
    here.harness.wait_for(lambda: here.running.warnings.containing("cannot read 'part.usda'"), what="report")
    part.unlink()
    here.harness.wait_for(lambda: here.running.warnings.containing("No such file"), what="report")
    assert "/robot/part/states_of_part" in here.names()
    part.write_text(whole.replace('= "states_of_part"', '= "back"'), encoding="utf-8")
    here.wait_for_names(there=("/robot/part/back",))
    assert here.publisher() is publisher


def test_a_file_that_is_saved_during_the_start_is_read_again(
    start: Any, ros_harness: Any, asset: Path
) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed: make setup")
    plan = plan_of(asset)
    # The bridge opens only after this.
    asset.write_text(ASSET.replace('= "states"', '= "saved_states"'), encoding="utf-8")
    here = Live(ros_harness, start(plan, watch=True))
    here.wait_for_names(there=("/robot/saved_states",), gone=("/robot/states",))


def test_a_hosts_files_are_the_hosts(asset: Path) -> None:
    from pxr import Usd

    stage = Usd.Stage.Open(str(asset))
    bridge = Bridge(load_plan(stage), options=BridgeOptions(watch=True))
    with pytest.raises(OptionError, match="host"), bridge:
        pass
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("host", context=context)
    with Bridge(load_plan(stage), node=node) as bridge:
        call = bridge.reload()
        while not call.done():
            bridge.step()
        with pytest.raises(BridgeError, match="host"):
            call.result()
    node.destroy_node()
    context.try_shutdown()


# --- Contexts --------------------------------------------------------------------------------------------------


def test_robots_open_and_close_with_contexts_and_others_stay(start: Any, ros_harness: Any) -> None:
    fleet = Path(__file__).parents[2] / "examples" / "fleet" / "fleet.usda"
    here = Live(ros_harness, start(plan_of(fleet, plan_options=PlanOptions(contexts=("/Fleet/rover_2",)))))

    def robots() -> list[str]:
        return [robot.path for robot in here.bridge.plan.robots]

    def states() -> Any:
        (found,) = [
            each for each in here.bridge.node.publishers if each.topic_name == "/rover_2/joint_states"
        ]
        return found

    assert robots() == here.parameters.get("contexts") == ["/Fleet/rover_2"]
    publisher = states()
    assert here.parameters.set("contexts", ["/Fleet/rover_2,/Fleet/arm"]) == ""
    here.harness.wait_for(lambda: robots() == ["/Fleet/rover_2", "/Fleet/arm"], what="the arm")
    assert states() is publisher
    assert "/Fleet/rover_1, /Fleet/rover_2, /Fleet/arm" in here.parameters.set("contexts", ["/Fleet/nobody"])
    assert here.parameters.set("contexts", [""]) == ""
    here.harness.wait_for(lambda: len(robots()) == 3, what="all robots")
    assert states() is publisher
