"""Time that the bridge owns: /clock, who follows it, the node's services, the same bytes for the same commands."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_system_default
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage

from builders.pendulums import PendulumBackend
from programs import run_python
from ros_plans import JOINT_COMMANDS, JOINT_STATES, arm, layout, plan, publisher
from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.runtime import sim_time

MS = 1_000_000
STEP = 2 * MS
FAST = BridgeOptions(real_time_factor=0.0)
PAUSED = BridgeOptions(real_time_factor=0.0, start_paused=True)
CLOCK_QOS = 100
"""Depth: reliable, as subscriptions are by default."""


def stamp_ns(time: Any) -> int:
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


class Heard:
    """What a subscription of the test's own received."""

    def __init__(
        self, harness: Any, message_class: Any, name: str, qos: Any = 10, *, raw: bool = False
    ) -> None:
        self.messages: list[Any] = []
        self.subscription = harness.node.create_subscription(
            message_class, name, self.messages.append, qos, raw=raw
        )


@pytest.fixture
def call(ros_harness: Any) -> Callable[..., Any]:
    """Calls a service of the bridge's node and returns the response."""

    def ask(service_class: Any, name: str, request: Any = None) -> Any:
        client = ros_harness.node.create_client(service_class, f"/usd_ros_bridge/{name}")
        ros_harness.wait_for(client.service_is_ready, what=name)
        future = client.call_async(request or service_class.Request())
        ros_harness.wait_for(future.done, what=f"an answer of {name}")
        return future.result()

    return ask


def states_plan() -> BridgePlan:
    return plan(JOINT_STATES, JOINT_COMMANDS)


# --- /clock -------------------------------------------------------------------------------------------------------


def test_the_clock_runs_on_the_grid_that_stamps_are_on(start: Any, ros_harness: Any) -> None:
    clock = Heard(ros_harness, Clock, "/clock", CLOCK_QOS)
    states = Heard(ros_harness, JointState, "/arm/joint_states", 1000)
    running = start(states_plan(), PendulumBackend(STEP))
    ros_harness.wait_for(lambda: len(states.messages) > 20 and len(clock.messages) > 20, what="states")
    times = [stamp_ns(message.clock) for message in clock.messages]
    assert times == sorted(times)
    # Time 0 is told while the bridge opens.
    assert all(time % (10 * MS) == STEP for time in times if time), (
        "100 Hz of bridge time, from the first step"
    )
    stamps = [stamp_ns(message.header.stamp) for message in states.messages]
    assert {later - earlier for earlier, later in pairwise(stamps)} == {20 * MS}
    assert stamps[0] % (20 * MS) == STEP, "rates begin at the first step"
    row = running.row("/clock")
    assert (row.authored_rate, row.type, row.state) == (100.0, "rosgraph_msgs/msg/Clock", "active")


@pytest.mark.parametrize(
    "qos", [10, qos_profile_system_default, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)]
)
def test_the_clock_is_heard_with_default_qos_and_as_rclpy_subscribes(
    start: Any, ros_harness: Any, qos: Any
) -> None:
    clock = Heard(ros_harness, Clock, "/clock", qos)
    start(states_plan(), PendulumBackend(STEP))
    ros_harness.wait_for(lambda: len(clock.messages) > 3, what="/clock")


def test_once_in_each_domain_and_reliable(
    start: Any, ros_harness: Any, domain_id: int, other_domain_id: int
) -> None:
    robots = (arm("/a", path="/a"), arm("/b", domain_id=other_domain_id, path="/b", row=1, index=1))
    bodies = plan(robots=robots, layout=layout("/a", "/b"))
    running = start(bodies, PendulumBackend(), options=FAST)
    rows = [row for row in running.bridge.status().interfaces if row.name == "/clock"]
    assert sorted(row.domain_id for row in rows) == sorted([domain_id, other_domain_id])
    ros_harness.wait_for(lambda: ros_harness.node.count_publishers("/clock") > 0, what="/clock")
    (info,) = ros_harness.node.get_publishers_info_by_topic("/clock")
    assert info.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    assert info.qos_profile.durability == DurabilityPolicy.VOLATILE


def test_no_clock_where_none_is_wanted_or_time_is_not_owned(start: Any, ros_harness: Any) -> None:
    first = start(plan(), PendulumBackend(), publish_clock=False)
    second = start(plan(), "kinematic", node_name="other")
    assert second.bridge.time is None
    assert second.bridge.status().time is None
    assert first.bridge.status().time is not None
    ros_harness.wait_for(lambda: ros_harness.node.count_publishers("/arm/tf") == 2, what="discovery")
    names = {name for name, _ in ros_harness.node.get_topic_names_and_types()}
    assert "/clock" not in names
    assert "/clock" not in {row.name for row in first.bridge.status().interfaces}


def test_a_second_clock_is_reported(start: Any, ros_harness: Any) -> None:
    ros_harness.node.create_publisher(Clock, "/clock", CLOCK_QOS)
    running = start(plan(), PendulumBackend())
    ros_harness.wait_for(lambda: bool(running.warnings.containing("another node publishes /clock")))


FOLLOWER = textwrap.dedent(
    """
    import rclpy
    from rclpy.parameter import Parameter
    rclpy.init()
    node = rclpy.create_node("follower", parameter_overrides=[Parameter("use_sim_time", value=True)])
    times = []
    def tick():
        times.append(node.get_clock().now().nanoseconds)
        if len(times) == 12:
            raise SystemExit(print(*times, flush=True))
    node.create_timer(0.1, tick)
    rclpy.spin(node)
    """
)


@pytest.mark.process
def test_a_node_elsewhere_follows_simulated_time(start: Any) -> None:
    running = start(plan(), PendulumBackend(), real_time_factor=4.0)
    out = run_python(FOLLOWER)
    assert out.returncode == 0, out.stderr
    times = [int(each) for each in out.stdout.split()]
    assert len(times) == 12
    assert all(time % (10 * MS) == STEP for time in times), "what /clock says, and nothing in between"
    assert times[-1] <= running.bridge.status().time_ns, "it knows no later time than the bridge"
    # A timer of 0.1 s of simulated time, on a clock that moves 0.01 s at a time. A busy machine skips periods, but no
    # two calls are in the same one; by the machine's clock, periods would be 0.4 s of simulated time.
    assert times[-1] - times[0] > 10 * 100 * MS
    assert min(after - before for before, after in pairwise(times)) <= 110 * MS


def test_following_and_telling_is_a_mistake_of_the_caller() -> None:
    bridge = Bridge(plan(), PendulumBackend(), options=BridgeOptions(use_sim_time=True))
    with pytest.raises(BridgeError, match="use_sim_time is true, but the backend PendulumBackend owns time"):
        bridge.open()


@pytest.mark.parametrize("options", [BridgeOptions(clock_rate=0.0), BridgeOptions(real_time_factor=-1.0)])
def test_impossible_options(options: BridgeOptions) -> None:
    with pytest.raises(OptionError, match="is not possible"):
        Bridge(plan(), PendulumBackend(), options=options).open()


# --- Pause, step, reset -------------------------------------------------------------------------------------------


def test_services_pause_step_and_reset(
    start: Any, ros_harness: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time between two messages of /clock in a pause.
    monkeypatch.setattr(sim_time, "IDLE_NS", 100 * MS)
    clock = Heard(ros_harness, Clock, "/clock", CLOCK_QOS)
    transforms = Heard(ros_harness, TFMessage, "/arm/tf", 1000)
    backend = PendulumBackend(STEP)
    bridge = start(plan(), backend).bridge
    ros_harness.wait_for(lambda: len(transforms.messages) > 3, what="/tf")

    response = call(SetBool, "set_paused", SetBool.Request(data=True))
    assert (response.success, response.message) == (True, "paused")
    paused_ns = bridge.parts.runtime.now_ns
    seen = len(clock.messages)
    ros_harness.wait_for(lambda: len(clock.messages) > seen + 1, what="/clock in a pause")
    assert {stamp_ns(message.clock) for message in clock.messages[-2:]} == {paused_ns}

    response = call(Trigger, "step")
    assert (response.success, bridge.parts.runtime.now_ns) == (True, paused_ns + STEP)
    assert f"{bridge.parts.runtime.now_ns * 1e-9:.9g} s" in response.message

    response = call(Trigger, "reset")
    assert response.success
    assert (bridge.parts.runtime.now_ns, backend.resets) == (0, 1)
    assert bridge.time is not None
    assert bridge.time.state == "paused"
    ros_harness.wait_for(lambda: stamp_ns(clock.messages[-1].clock) == 0, what="/clock at the start")

    call(SetBool, "set_paused", SetBool.Request(data=False))
    ros_harness.wait_for(lambda: len(since_reset(transforms)) > 1, what="/tf again")
    assert since_reset(transforms)[:2] == [STEP, STEP + 20 * MS]

    response = call(Trigger, "step")
    assert not response.success
    assert "not paused" in response.message


def since_reset(transforms: Heard) -> list[int]:
    """Return the stamps after time went back, but for the start itself."""
    stamps = [stamp_ns(message.transforms[0].header.stamp) for message in transforms.messages]
    back = [index for index in range(1, len(stamps)) if stamps[index] < stamps[index - 1]]
    return [stamp for stamp in stamps[back[-1] :] if stamp] if back else []


def test_the_clock_is_published_where_time_comes_to_stand_still(
    start: Any, ros_harness: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is no period of /clock, and a pause may come right after one: nobody waits for the next look."""
    monkeypatch.setattr(sim_time, "IDLE_NS", 3600 * 1_000_000_000)
    told: list[int] = []
    clock = Heard(ros_harness, Clock, "/clock", CLOCK_QOS)
    running = start(plan(), PendulumBackend(STEP), options=PAUSED)
    ros_harness.wait_for(
        lambda: running.row("/clock").matched == 1 and ros_harness.knows_publisher("/clock"),
        what="the test's subscription",
    )
    for _ in range(5):
        assert call(Trigger, "step").success
        now = running.bridge.parts.runtime.now_ns
        ros_harness.wait_for(lambda: told_times(clock)[-1:] == [now], what="the clock")  # noqa: B023
        told.append(now)
    assert told == [STEP * count for count in range(1, 6)]
    control = running.bridge.time
    assert control is not None
    control.resume()
    ros_harness.wait_for(lambda: told_times(clock)[-1] > 20 * STEP, what="time that passes")
    control.pause()
    ros_harness.wait_for(lambda: told_times(clock)[-1] == running.bridge.parts.runtime.now_ns, what="its end")


def told_times(clock: Heard) -> list[int]:
    return [stamp_ns(message.clock) for message in clock.messages]


def test_services_are_there_where_a_host_polls_and_steps(ros_harness: Any) -> None:
    with Bridge(plan(), PendulumBackend(STEP), options=replace(PAUSED, threaded=False)) as bridge:
        assert not bridge.step()
        client = ros_harness.node.create_client(Trigger, "/usd_ros_bridge/step")

        def drive(condition: Callable[[], bool]) -> None:
            def met() -> bool:
                bridge.poll()
                bridge.step()
                return condition()

            ros_harness.wait_for(met)

        drive(client.service_is_ready)
        assert bridge.parts.runtime.now_ns == 0
        future = client.call_async(Trigger.Request())
        drive(future.done)
        assert future.result().success
        assert bridge.parts.runtime.now_ns == STEP


def test_a_reset_from_python(start: Any, ros_harness: Any) -> None:
    backend = PendulumBackend(STEP)
    running = start(plan(), backend, options=FAST)
    time = running.bridge.time
    assert time.step_ns == STEP
    time.pause()
    with pytest.raises(BridgeError):
        Bridge.step(running.bridge)
    assert time.reset().result(60.0) == 0
    assert time.step(50).result(60.0) == 50 * STEP
    assert time.reset(keep_time=True).result(60.0) == 50 * STEP
    assert time.step(1).result(60.0) == 51 * STEP
    running.bridge.reset()
    ros_harness.wait_for(lambda: running.bridge.parts.runtime.now_ns == 0, what="the reset")
    assert backend.resets == 3
    assert running.warnings.faults == []


def test_pending_requests_of_a_pause_end_when_the_bridge_closes() -> None:
    bridge = Bridge(plan(), PendulumBackend(STEP), options=PAUSED).open()
    time = bridge.time
    assert time is not None
    steps = time.step(5)
    bridge.close()
    with pytest.raises(BridgeError, match="closed"):
        steps.result(0)
    with pytest.raises(BridgeError, match="not open"):
        _ = bridge.time


def test_the_factor_is_a_parameter_that_can_be_set(ros_harness: Any) -> None:
    from usd_ros_bridge.ros import parameters
    from usd_ros_bridge.ros.domains import Domains

    domains = Domains(report=lambda _kind, _message: None)
    parameters.declare(domains.main.node)
    with Bridge(plan(), PendulumBackend(STEP), options=PAUSED, node=domains) as bridge:
        client = ros_harness.node.create_client(SetParameters, "/usd_ros_bridge/set_parameters")
        ros_harness.wait_for(client.service_is_ready)
        for name, value, message in (
            ("real_time_factor", 2.5, ""),
            ("real_time_factor", -1.0, "range"),
            ("clock_rate", 5.0, "start it again"),
        ):
            parameter = Parameter(name, value=value).to_parameter_msg()
            assert parameter.value.type == ParameterType.PARAMETER_DOUBLE
            future = client.call_async(SetParameters.Request(parameters=[parameter]))
            ros_harness.wait_for(future.done)
            (result,) = future.result().results
            assert result.successful == (not message)
            assert message in result.reason
        assert bridge.time is not None
        ros_harness.wait_for(lambda: bridge.time.real_time_factor == 2.5)


# --- Lockstep -----------------------------------------------------------------------------------------------------


@pytest.fixture
def record(ros_harness: Any) -> Callable[[float], dict[str, list[bytes]]]:
    """Drives a bridge from a host with commands at given times and returns the bytes of all that it publishes."""

    def run(target: float) -> dict[str, list[bytes]]:
        heard = {
            "/clock": Heard(ros_harness, Clock, "/clock", CLOCK_QOS, raw=True),
            "/arm/tf": Heard(ros_harness, TFMessage, "/arm/tf", 1000, raw=True),
            "/arm/joint_states": Heard(ros_harness, JointState, "/arm/joint_states", 1000, raw=True),
        }
        commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
        try:
            with Bridge(
                states_plan(),
                PendulumBackend(STEP, start=0.3),
                options=BridgeOptions(threaded=False),
                report=lambda *_: None,
            ) as bridge:
                ready = [each.subscription.get_publisher_count for each in heard.values()]
                ros_harness.wait_for(
                    lambda: all(count() == 1 for count in ready) and commands.get_subscription_count() == 1,
                    what="discovery",
                )
                _wait_for_bridge(ros_harness, bridge)
                for number in range(1, 61):
                    if number in (10, 30):
                        commands.publish(JointState(name=["hinge"], position=[target / number]))
                        _wait_for_sample(ros_harness, bridge)
                    assert bridge.step(number * 10 * MS)
                ros_harness.wait_for(
                    lambda: len(heard["/arm/joint_states"].messages) == 30, what="all states"
                )
                ros_harness.wait_for(lambda: len(heard["/arm/tf"].messages) == 30, what="all transforms")
        finally:
            for each in heard.values():
                ros_harness.node.destroy_subscription(each.subscription)
            ros_harness.node.destroy_publisher(commands)
        return {name: [bytes(message) for message in each.messages] for name, each in heard.items()}

    return run


def _wait_for_bridge(harness: Any, bridge: Bridge) -> None:
    """Waits until the bridge's own end knows of the subscribers, too."""

    def met() -> bool:
        bridge.poll()
        rows = {row.name: row.matched for row in bridge.status().interfaces}
        return all(
            rows[name] >= 1 for name in ("/clock", "/arm/tf", "/arm/joint_states", "/arm/joint_commands")
        )

    harness.wait_for(met, what="matching")


def _wait_for_sample(harness: Any, bridge: Bridge) -> None:
    def met() -> bool:
        bridge.poll()
        return bridge.parts.runtime.inbox.pending

    harness.wait_for(met, what="the command")


def test_the_same_commands_at_the_same_times_make_the_same_bytes(
    record: Callable[[float], dict[str, list[bytes]]],
) -> None:
    first, second, other = record(20.0), record(20.0), record(21.0)
    for name in ("/arm/tf", "/arm/joint_states"):
        assert len(first[name]) == 30
        assert first[name] == second[name], name
        assert first[name][:5] == other[name][:5]
        assert first[name][-1] != other[name][-1], "commands count"
    assert len(set(first["/arm/joint_states"])) == 30
    # Best effort and depth 1: some may be lost on the way.
    told = {serialize_message(Clock(clock=Time(nanosec=k * 10 * MS))) for k in range(61)}
    for run in (first, second):
        assert run["/clock"]
        assert set(run["/clock"]) <= told


# --- Sensors beside the loop --------------------------------------------------------------------------------------


class Gyros(PendulumBackend):
    """Pendulums with two imaginary gyros: one is measured beside the loop every 6 ms, one when it is asked."""

    def __init__(self) -> None:
        super().__init__(STEP)
        self.asked: list[str] = []

    def open(self, context: Any) -> None:
        super().open(context)
        self.capabilities = Capabilities(
            step_ns=STEP,
            sensors=frozenset({"/arm/beside", "/arm/inline"}),
            async_sensors=frozenset({"/arm/beside"}),
        )

    def sense(self, prim: str) -> SensorSample:
        self.asked.append(prim)
        now = self._time_ns or 0
        shown = now if prim == "/arm/inline" else max(now // (6 * MS), 1) * 6 * MS
        zeros = np.zeros(3)
        return SensorSample(
            prim=prim,
            stamp_ns=shown,
            arrays={
                "orientation": np.array([0.0, 0.0, 0.0, 1.0]),
                "angular_velocity": zeros,
                "linear_acceleration": zeros,
            },
        )


def test_what_is_measured_beside_the_loop_is_sent_as_it_comes(ros_harness: Any) -> None:
    imus = plan(
        *(
            replace(publisher(path, "sensor_msgs/msg/Imu", rate=rate), path=path)
            for path, rate in (("/arm/beside", 100.0), ("/arm/inline", 50.0))
        )
    )
    backend = Gyros()
    options = replace(PAUSED, publish_unmatched=True, controller_rate=500.0, threaded=False)
    with Bridge(imus, backend, options=options) as bridge:
        heard = {name: Heard(ros_harness, Imu, f"/arm/{name}", 1000) for name in ("beside", "inline")}
        ros_harness.wait_for(
            lambda: all(each.subscription.get_publisher_count() for each in heard.values()), what="discovery"
        )
        bridge.time.resume()  # type: ignore[union-attr]
        for _ in range(30):
            bridge.step()
        rows = {row.name: row for row in bridge.status().interfaces}
        # After 60 ms: at 6, 12, ... 60 ms, and at 2, 22 and 42 ms.
        assert (rows["/arm/beside"].count, rows["/arm/inline"].count) == (10, 3)
        assert (rows["/arm/beside"].authored_rate, rows["/arm/inline"].authored_rate) == (100.0, 50.0)
        assert backend.asked.count("/arm/beside") == 30, "asked at every tick"
        assert backend.asked.count("/arm/inline") == 3, "asked when it is due"
