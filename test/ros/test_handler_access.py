"""What handlers see of a running bridge: a state of one moment, commands that reach the engine, time, and the tick."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from foreign_plugins import install_plugin
from ros_plans import JOINT_STATES, plan
from usd_ros_bridge import (
    BackendContext,
    Bridge,
    BridgeError,
    BridgeOptions,
    Capabilities,
    Commands,
    ReadOptions,
    State,
    TickState,
    VariantSelection,
    load_plan,
)
from usd_ros_bridge.model.plan import BridgePlan, ServicePlan
from usd_ros_bridge.runtime.tick_access import IDLE_S

ROOT = Path(__file__).parents[2]
DRIVES = ROOT / "test" / "assets" / "actuation_drives.usda"
PAN_TILT = ROOT / "examples" / "mujoco_loop" / "pan_tilt.usda"
FLEET = ROOT / "examples" / "fleet" / "fleet.usda"
MS = 1_000_000
READ = ServicePlan(path="/robot/read", role="server", name="/robot/read", type="std_srvs/srv/Trigger")
NAME = "state for handlers"


def driven_plan(variant: str = "both") -> BridgePlan:
    read = ReadOptions(variants=(VariantSelection("/robot", "drives", variant),))
    made = load_plan(DRIVES, read_options=read, physics=True)
    return replace(made, services=(*made.services, READ))


def host(given: BridgePlan, backend: Any = "mujoco", **options: Any) -> Bridge:
    """Return a bridge that the test steps."""
    return Bridge(given, backend, options=BridgeOptions(threaded=False, **options))


def copies(bridge: Bridge) -> bool:
    """Return whether ticks copy their state."""
    return any(each.name == NAME for each in bridge.parts.runtime.status().publications)


# --- The state ----------------------------------------------------------------------------------------------------


def test_a_service_answers_with_the_position_that_joint_states_show(start, ros_harness) -> None:
    running = start(driven_plan(), "mujoco", real_time_factor=1.0)
    bridge, states = running.bridge, {}

    @bridge.on_service(READ.path)
    def read(request: Any, response: Any) -> None:
        state = bridge.state
        response.success = True
        response.message = (
            f"{state.time_ns} {state.position('shoulder')!r} {state.position('/robot/elbow')!r}"
        )

    def note(message: JointState) -> None:
        stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        states[stamp] = dict(zip(message.name, message.position, strict=True))

    ros_harness.node.create_subscription(JointState, "/robot/joint_states", note, 100)
    client = ros_harness.node.create_client(Trigger, "/robot/read")
    ros_harness.wait_for(client.service_is_ready, what="the service")
    bridge.commands.set_position({"shoulder": 0.8, "elbow": -0.5})
    compared = 0

    def ask() -> None:
        nonlocal compared
        future = client.call_async(Trigger.Request())
        ros_harness.wait_for(future.done, what="an answer")
        assert future.result().success, future.result().message
        stamp, shoulder, elbow = future.result().message.split()
        ros_harness.wait_for(lambda: states and max(states) >= int(stamp), what="joint states")
        shown = states.get(int(stamp))
        # Ticks between two messages have a state, too.
        if shown is not None:
            assert (shown["shoulder"], shown["elbow"]) == (float(shoulder), float(elbow))
            compared += 1

    def is_enough() -> bool:
        ask()
        return compared >= 3 and abs(bridge.state.position("shoulder")) > 0.1

    ros_harness.wait_for(is_enough, timeout=60.0, what="common stamps")


class CountingBackend:
    """Write the time into every number of its state, one number after another: a torn state shows."""

    capabilities = Capabilities(joint_driven=False)

    def open(self, context: BackendContext) -> None:
        self.state = State.initial(context.plan.layout)

    def inputs(self) -> tuple[()]:
        return ()

    def receive(self, key: str, sample: object) -> None:
        raise AssertionError(key, sample)

    def step(self, time_ns: int, commands: Commands) -> State:
        del commands
        for array in (self.state.joint_position, self.state.joint_velocity, self.state.body_pose.reshape(-1)):
            for index in range(array.size):
                array[index] = time_ns
        self.state.time_ns = time_ns
        return self.state

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("readers", [1, pytest.param(3, marks=pytest.mark.heavy)])
def test_all_numbers_are_of_one_tick_while_it_runs_at_speed(readers: int) -> None:
    found: list[set[float]] = []
    times: list[list[int]] = [[] for _ in range(readers)]
    faults: list[BaseException] = []
    ended = threading.Event()

    def read(bridge: Bridge, seen: list[int]) -> None:
        try:
            while not ended.is_set():
                state = bridge.state
                numbers = {*state.joint_position, *state.joint_velocity, *state.body_pose.ravel()}
                if state.time_ns and numbers != {float(state.time_ns)}:
                    found.append(numbers)
                seen.append(state.time_ns)
        except BaseException as error:  # noqa: BLE001 - raised in the test
            faults.append(error)

    with host(plan(JOINT_STATES), CountingBackend()) as bridge:
        bridge.step(1)
        threads = [threading.Thread(target=read, args=(bridge, seen)) for seen in times]
        for thread in threads:
            thread.start()
        tick = 1
        while tick < 8_000 and not (tick > 1_500 and all(len(set(seen)) > 50 for seen in times)):
            tick += 1
            bridge.step(tick * MS)
        ended.set()
        for thread in threads:
            thread.join(10.0)
    assert faults == []
    assert found == []
    for seen in times:
        assert len(set(seen)) > 20
        assert seen == sorted(seen)


def test_bodies_are_where_the_joints_of_the_same_tick_put_them(start) -> None:
    running = start(driven_plan(), "mujoco", real_time_factor=0.0)
    bridge = running.bridge
    bridge.commands.set_position({"shoulder": 1.2})
    angles = []
    while len(angles) < 300 or max(angles) < 0.5:
        state = bridge.state
        angle = state.position("shoulder")
        x, y, z, w = state.pose("/robot/upper")[3:]
        assert np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)) == pytest.approx(
            angle, abs=1e-9
        )
        angles.append(angle)


def test_a_state_stays_as_it_was_and_cannot_be_changed() -> None:
    with host(driven_plan()) as bridge:
        bridge.step()
        first = bridge.state
        position = first.position("shoulder")
        bridge.commands.set_position({"shoulder": 1.0})
        for _ in range(50):
            bridge.step()
        assert first.position("shoulder") == position
        assert bridge.state.position("shoulder") > position
        for array in (first.joint_position, first.body_pose, first.joint_effort):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


def test_before_the_first_tick_it_is_the_state_at_rest_and_without_ticks_nobody_waits() -> None:
    given = driven_plan()
    with host(given) as bridge:
        np.testing.assert_array_equal(bridge.state.joint_position, given.layout.joint_position)
        bridge.step()
        results: Future[TickState] = Future()
        thread = threading.Thread(target=lambda: results.set_result(bridge.state))
        thread.start()
        assert results.result(60.0).time_ns == bridge.parts.runtime.time_ns
        thread.join()


def test_a_coroutine_and_a_job_of_the_tick_read_it_too(start, ros_harness) -> None:
    running = start(driven_plan(), "mujoco", real_time_factor=0.0)
    bridge = running.bridge

    @bridge.on_service(READ.path)
    async def read(request: Any, response: Any) -> None:
        await asyncio.sleep(0)
        in_tick: Future[int] = Future()
        bridge.post(lambda: in_tick.set_result(bridge.state.time_ns))
        later = await asyncio.wrap_future(in_tick)
        response.success = bridge.state.time_ns >= later > 0

    client = ros_harness.node.create_client(Trigger, "/robot/read")
    ros_harness.wait_for(client.service_is_ready, what="the service")
    future = client.call_async(Trigger.Request())
    ros_harness.wait_for(future.done, what="the answer")
    assert future.result().success, future.result().message


def test_the_state_follows_a_change_of_the_plan(start, tmp_path) -> None:
    # A copy: OpenUSD shares the layer with other tests.
    asset = shutil.copy(DRIVES, tmp_path)
    running = start(load_plan(asset, physics=True), "mujoco", real_time_factor=0.0)
    bridge = running.bridge
    before = bridge.state
    change = bridge.change(edit=lambda stage: stage.GetPrimAtPath("/robot/elbow").SetActive(False))
    change.result(timeout=30.0)
    while bridge.state.layout is before.layout:
        pass
    assert before.position("elbow") == pytest.approx(0.0, abs=1e-3)
    with pytest.raises(BridgeError, match=r"no joint 'elbow'; .*shoulder"):
        bridge.state.position("elbow")


def test_a_state_that_arrives_by_topic_is_seen_too(start, ros_harness) -> None:
    bridge = start(plan(JOINT_STATES), "joint_states").bridge
    publisher = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    seen: set[float] = set()

    def is_seen(position: float) -> bool:
        message = JointState(name=["hinge"], position=[position])
        message.header.stamp = ros_harness.node.get_clock().now().to_msg()
        publisher.publish(message)
        seen.add(bridge.state.position("hinge"))
        return position in seen

    for position in (0.25, -0.5, 0.75):
        ros_harness.wait_for(lambda position=position: is_seen(position), what=f"position {position}")
    assert seen <= {0.0, 0.25, -0.5, 0.75}


def test_ticks_cost_nothing_more_before_and_after_somebody_reads(
    monkeypatch: pytest.MonkeyPatch, number_of_calls: Callable[[Callable[[], Any]], int]
) -> None:
    monkeypatch.setattr("usd_ros_bridge.runtime.tick_access.IDLE_S", 0.0)
    with host(plan(JOINT_STATES), "kinematic") as bridge:
        for tick in range(1, 10):
            bridge.step(tick * MS)
        usual = number_of_calls(lambda: bridge.step(10 * MS))
        assert not copies(bridge)
        assert bridge.state.time_ns
        bridge.step(11 * MS)
        assert copies(bridge)
        for tick in range(12, 16):
            bridge.step(tick * MS)
        assert not copies(bridge)
        assert number_of_calls(lambda: bridge.step(17 * MS)) <= usual
    assert IDLE_S > 0.5


# --- Commands -----------------------------------------------------------------------------------------------------


def test_positions_reach_mujoco() -> None:
    with host(driven_plan()) as bridge:
        bridge.step()
        bridge.commands.set_position({"shoulder": 0.7, "/robot/elbow": -0.4})
        for _ in range(2000):
            bridge.step()
        data = bridge.parts.runtime.backend.simulation.data
        assert data.joint("/robot/shoulder").qpos[0] == pytest.approx(0.7, abs=0.01)
        assert bridge.state.position("elbow") == pytest.approx(-0.4, abs=0.01)
        assert bridge.state.position("elbow") == data.joint("/robot/elbow").qpos[0]


def test_velocities_and_efforts_reach_mujoco() -> None:
    with host(driven_plan("damped")) as bridge:
        bridge.step()
        bridge.commands.set_velocity({"elbow": 0.5})
        for _ in range(500):
            bridge.step()
        assert bridge.state.velocity("elbow") == pytest.approx(0.5, abs=0.05)
    with host(load_plan(PAN_TILT, physics=True)) as bridge:
        bridge.step()
        bridge.commands.set_effort({"pan_joint": 0.01})
        bridge.step()
        bridge.step()
        assert bridge.state.effort("pan_joint") == pytest.approx(0.01)
        assert bridge.state.velocity("pan_joint") > 0.0


def test_a_position_beyond_a_limit_is_clamped_and_reported(start) -> None:
    running = start(driven_plan(), "mujoco", real_time_factor=0.0)
    running.bridge.commands.set_position({"shoulder": 3.0})
    assert running.warnings.containing("a handler: clamped", "'shoulder'")
    while running.bridge.state.position("shoulder") < 1.5:
        pass
    assert running.bridge.state.position("shoulder") < 1.6


def test_what_cannot_be_commanded_is_one_line() -> None:
    for variant, targets, line in (
        ("both", {"sholder": 1.0}, "there is no joint 'sholder'; did you mean shoulder? there are: "),
        ("both", {"shoulder": float("nan")}, "the position of joint 'shoulder' is not finite"),
        ("none", {"shoulder": 1.0}, "joint 'shoulder' cannot be moved by position: there is no drive"),
    ):
        with host(driven_plan(variant)) as bridge, pytest.raises(BridgeError) as error:
            bridge.commands.set_position(targets)
        assert str(error.value).startswith(line)


def test_a_backend_without_commands_says_so() -> None:
    with (
        host(plan(JOINT_STATES), "joint_states") as bridge,
        pytest.raises(BridgeError, match="takes no commands"),
    ):
        bridge.commands.set_position({"hinge": 0.1})


def test_joints_of_several_robots_are_told_apart() -> None:
    given = load_plan(FLEET, physics=True)
    with host(given) as bridge:
        bridge.step()
        with pytest.raises(BridgeError, match=r"2 robots have a joint 'left_wheel_joint': name one of them"):
            bridge.state.position("left_wheel_joint")
        robots = [
            each.path for each in given.robots if any(j.name == "left_wheel_joint" for j in each.joints)
        ]
        bridge.commands.set_velocity({"left_wheel_joint": 2.0}, robot=robots[1])
        for _ in range(100):
            bridge.step()
        assert bridge.state.velocity("left_wheel_joint", robot=robots[1]) > 0.5
        assert abs(bridge.state.velocity("left_wheel_joint", robot=robots[0])) < 0.2
        with pytest.raises(BridgeError, match="there is no robot '/nobody'"):
            bridge.state.position("left_wheel_joint", robot="/nobody")


# --- Time, the tick, and the life of a bridge ---------------------------------------------------------------------


def test_the_clock_is_that_of_the_bridge() -> None:
    with host(plan(JOINT_STATES), "kinematic") as bridge:
        bridge.step(1_500 * MS)
        assert bridge.clock.now_ns == 1_500 * MS
        stamp = bridge.clock.to_msg()
        assert (stamp.sec, stamp.nanosec) == (1, 500 * MS)


def test_a_posted_job_runs_in_the_thread_that_steps() -> None:
    with host(plan(JOINT_STATES), "kinematic") as bridge:
        threads: list[int] = []
        poster = threading.Thread(target=lambda: bridge.post(lambda: threads.append(threading.get_ident())))
        poster.start()
        poster.join()
        assert threads == []
        bridge.step(MS)
        assert threads == [threading.get_ident()]


def test_only_an_open_bridge_can_be_seen() -> None:
    bridge = host(plan(JOINT_STATES), "kinematic")
    uses: list[Callable[[], object]] = [
        lambda: bridge.state,
        lambda: bridge.commands,
        lambda: bridge.clock,
        lambda: bridge.post(print),
    ]
    for use in uses:
        with pytest.raises(BridgeError, match="the bridge is not open"):
            use()
    with bridge:
        commands = bridge.commands
        assert bridge.state.time_ns == 0
    for use in uses:
        with pytest.raises(BridgeError, match="the bridge is not open"):
            use()
    assert commands is not None


def test_handlers_of_a_package_see_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(
        tmp_path,
        "seeing-handlers",
        entry_points={"handlers": {"seeing": "seeing_handlers:bind"}},
        modules={"seeing_handlers": "seen = []\ndef bind(handlers):\n    seen.append(handlers)\n"},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with host(driven_plan(), handlers=("seeing",)) as bridge:
        from seeing_handlers import seen

        (package,) = seen
        bridge.step()
        assert package.state.time_ns == bridge.state.time_ns
        assert package.plan is bridge.plan
        assert package.clock.now_ns == bridge.clock.now_ns
        assert package.commands is bridge.commands


def test_the_documented_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "reference" / "handlers.md").read_text(encoding="utf-8")
    (block,) = [
        each.split("```")[0]
        for each in page.split("```python\n")[1:]
        if "bridge.state" in each.split("```")[0]
    ]
    monkeypatch.chdir(ROOT)
    namespace: dict[str, Any] = {}
    # The test steps by itself.
    bound, loop, _ = block.partition("\nwith bridge:")
    assert loop
    exec(compile(bound, "handlers.md", "exec"), namespace)
    with namespace["bridge"] as bridge:
        bridge.step(MS)
        response = Trigger.Response()
        namespace["report_wheel"](None, response)
        assert response.message == f"0.000 rad at {MS} ns"
        bridge.step(500 * MS)
        namespace["report_wheel"](None, response)
        assert response.message == f"0.500 rad at {500 * MS} ns"
