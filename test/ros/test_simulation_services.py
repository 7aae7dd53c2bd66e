"""The standard simulation interfaces over DDS: what is offered, entities, time, steps and resets, code by code."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")

from free_bodies import CRATE, GRAVITY, START, STEP_NS, FreeBodies, world
from geometry_msgs.msg import Vector3
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile
from simulation_client import FAILED, NOT_FOUND, OK, PAUSED, PLAYING, STOPPED, UNSUPPORTED, Simulator, seconds
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import (
    Bounds,
    EntityCategory,
    EntityState,
    SimulationState,
    SimulatorFeatures,
    TagsFilter,
)
from simulation_interfaces.srv import (
    GetCurrentWorld,
    GetEntitiesStates,
    GetEntityBounds,
    GetEntityInfo,
    GetEntityState,
    GetSimulatorFeatures,
    ResetSimulation,
    SetEntityInfo,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)

from ros_plans import plan
from usd_ros_bridge import Bridge, BridgeOptions
from usd_ros_bridge.ros import bridge_time
from usd_ros_bridge.ros.simulation import simulation_interfaces
from usd_ros_bridge.ros.simulation.entity_services import EntityServices
from usd_ros_bridge.ros.simulation.results import answered

HELD = BridgeOptions(start_paused=True)


@pytest.fixture
def simulator(start, ros_harness):
    """A paused simulation, and a client of it."""
    running = start(world(), FreeBodies(), options=HELD)
    client = Simulator(ros_harness)
    client.running = running
    return client


# --- What is offered -----------------------------------------------------------------------------------------------


def test_features_are_what_is_served(simulator):
    features = simulator.ask(GetSimulatorFeatures).features
    assert set(features.features) == {
        getattr(SimulatorFeatures, name)
        for name in (
            "ENTITY_TAGS", "ENTITY_BOUNDS", "ENTITY_BOUNDS_BOX", "ENTITY_CATEGORIES", "ENTITY_STATE_GETTING",
            "ENTITY_STATE_SETTING", "ENTITY_INFO_GETTING", "ENTITY_INFO_SETTING", "SIMULATION_RESET",
            "SIMULATION_RESET_TIME", "SIMULATION_RESET_STATE", "SIMULATION_STATE_GETTING",
            "SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE", "STEP_SIMULATION_SINGLE",
            "STEP_SIMULATION_MULTIPLE", "STEP_SIMULATION_ACTION", "WORLD_INFO_GETTING",
        )
    }  # fmt: skip
    assert features.spawn_formats == []
    assert "FreeBodies" in features.custom_info
    assert simulator.running.infos.containing("13 services and 1 action in /")


def test_names_are_in_the_namespace_of_the_node(start, ros_harness):
    start(world(), FreeBodies(), node_namespace="/sim", options=HELD)
    assert Simulator(ros_harness, "/sim").state() == PAUSED


def test_backend_without_entities_offers_time_alone(start, ros_harness):
    class TimeOnly:
        """FreeBodies without what EntityBackend is made of."""

        def __init__(self):
            self._bodies = FreeBodies()
            self.capabilities = self._bodies.capabilities
            for name in ("open", "inputs", "receive", "step", "reset", "close"):
                setattr(self, name, getattr(self._bodies, name))

    running = start(world(), TimeOnly(), options=HELD)
    features = Simulator(ros_harness).ask(GetSimulatorFeatures).features.features
    assert SimulatorFeatures.ENTITY_STATE_GETTING not in features
    assert SimulatorFeatures.STEP_SIMULATION_ACTION in features
    assert "/get_entities" not in dict(running.bridge.node.get_service_names_and_types())


def test_backend_that_follows_time_offers_nothing(start):
    running = start(plan())
    names = dict(running.bridge.node.get_service_names_and_types())
    assert not any(name.endswith("get_simulator_features") for name in names)
    assert not running.infos.containing("simulation_interfaces")


def test_missing_package_is_reported_in_one_line(start, monkeypatch):
    monkeypatch.setattr(
        bridge_time.AmentCatalog, "contains", lambda _self, name: not name.startswith("simulation_")
    )
    running = start(world(), FreeBodies(), options=HELD)
    (line,) = running.infos.containing("simulation_interfaces")
    assert "is not installed" in line
    assert "\n" not in line
    assert "/get_simulator_features" not in dict(running.bridge.node.get_service_names_and_types())


# --- Entities ------------------------------------------------------------------------------------------------------


def test_entities_are_listed_by_name_category_and_tag(simulator):
    robot = EntityCategory(category=EntityCategory.CATEGORY_ROBOT)
    assert simulator.entities() == ["arm", "crate", "wall", "arm/link"]
    assert simulator.entities(filter="^[^/]*$") == ["arm", "crate", "wall"]
    assert simulator.entities(filter="^(crate|wall)$") == ["crate", "wall"]
    assert simulator.entities(categories=[robot]) == ["arm"]
    assert simulator.entities(tags=TagsFilter(tags=["prop", "kinematic"])) == ["crate", "wall"]
    both = TagsFilter(tags=["prop", "kinematic"], filter_mode=TagsFilter.FILTER_MODE_ALL)
    assert simulator.entities(tags=both) == ["wall"]
    assert simulator.entities(filter="a", categories=[robot], tags=both) == []


def test_entities_are_listed_by_what_they_overlap_with(simulator):
    def bounds(kind, *points):
        return Bounds(type=kind, points=[Vector3(x=x, y=y, z=z) for x, y, z in points])

    # The crate reaches down to 9.5 m at the start.
    assert simulator.entities(bounds=bounds(Bounds.TYPE_SPHERE, (0.0, 3.0, 9.0), (0.51, 0.0, 0.0))) == [
        "crate"
    ]
    assert simulator.entities(bounds=bounds(Bounds.TYPE_SPHERE, (0.0, 3.0, 9.0), (0.49, 0.0, 0.0))) == []
    near = bounds(Bounds.TYPE_BOX, (6.0, 1.0, 1.0), (-1.0, -1.0, -1.0))
    assert simulator.entities(bounds=near) == ["arm", "wall", "arm/link"]
    hull = bounds(Bounds.TYPE_CONVEX_HULL, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    assert simulator.entities(bounds=hull).result == UNSUPPORTED
    assert simulator.entities(bounds=bounds(Bounds.TYPE_SPHERE, (0.0, 0.0, 0.0))).result == FAILED


def test_filters_that_are_not_valid_are_refused(simulator):
    for filters in ({"filter": "("}, {"categories": [EntityCategory(category=77)]}):
        refused = simulator.entities(**filters)
        assert refused.result == FAILED
        assert refused.error_message


def test_state_of_a_falling_body_is_that_of_its_stamp(simulator):
    simulator.ask(StepSimulation, steps=200)
    state = simulator.ask(GetEntityState, entity="crate").state
    time = seconds(state)
    assert time == pytest.approx(200 * STEP_NS * 1e-9, abs=1e-12)
    assert state.header.frame_id == "world"
    assert state.twist.linear.z == pytest.approx(GRAVITY[2] * time)
    # Semi-implicit: the position of n steps of equal length.
    fallen = GRAVITY[2] * (STEP_NS * 1e-9) ** 2 * 200 * 201 / 2
    assert state.pose.position.z == pytest.approx(START[CRATE][2] + fallen)
    assert state.acceleration.linear.z == pytest.approx(GRAVITY[2])


def test_states_come_with_their_names(simulator):
    request = GetEntitiesStates.Request()
    request.filters.filter = "wall|crate"
    response = simulator.ask(GetEntitiesStates, filters=request.filters)
    assert response.result.result == OK
    assert response.entities == ["crate", "wall"]
    assert [state.pose.position.x for state in response.states] == [0.0, 5.0]


def test_unknown_entities_are_not_found(simulator):
    for service in (GetEntityState, GetEntityInfo, GetEntityBounds, SetEntityInfo, SetEntityState):
        result = simulator.ask(service, entity="nobody\n").result
        assert result.result == NOT_FOUND
        assert result.error_message == r"there is no entity 'nobody\n'"


def test_entity_is_put_where_a_frame_says(simulator):
    """At rest the arm's link is at (1, 0, 0), its tool half a metre on; the crate is above."""
    for frame, expected in (
        ("", (1.0, 2.0, 3.0)),
        ("world", (1.0, 2.0, 3.0)),
        ("arm/tool", (2.5, 2.0, 3.0)),
        ("tool", (2.5, 2.0, 3.0)),
        ("arm/link", (2.0, 2.0, 3.0)),
        ("wall", (6.0, 2.0, 3.0)),
    ):
        assert simulator.put("crate", xyz=(1.0, 2.0, 3.0), frame=frame).result == OK, frame
        np.testing.assert_allclose(simulator.where("crate"), expected, atol=1e-12, err_msg=frame)


def test_twist_is_turned_with_its_frame(simulator):
    half = np.sqrt(0.5)
    assert simulator.put("arm", quaternion=(0.0, 0.0, half, half)).result == OK
    assert simulator.put("crate", velocity=(1.0, 0.0, 0.0), frame="base").result == OK
    twist = simulator.ask(GetEntityState, entity="crate").state.twist.linear
    np.testing.assert_allclose([twist.x, twist.y, twist.z], [0.0, 1.0, 0.0], atol=1e-12)


def test_what_is_put_elsewhere_goes_on_from_there(simulator):
    simulator.put("crate", xyz=(0.0, 0.0, 100.0), velocity=(2.0, 0.0, 0.0))
    simulator.ask(StepSimulation, steps=50)
    np.testing.assert_allclose(simulator.where("crate")[0], 2.0 * 50 * STEP_NS * 1e-9)


def test_states_that_are_not_possible_are_refused(simulator):
    invalid = SetEntityState.Response.INVALID_POSE
    assert simulator.put("crate", quaternion=(0.0, 0.0, 0.0, 0.0)).result == invalid
    assert simulator.put("crate", xyz=(float("nan"), 0.0, 0.0)).result == invalid
    assert simulator.put("crate", quaternion=(0.0, 0.0, 0.707, 0.707)).result == OK
    assert simulator.put("crate", velocity=(float("inf"), 0.0, 0.0)).result == FAILED
    unknown = simulator.put("crate", frame="nowhere")
    assert (unknown.result, unknown.error_message) == (NOT_FOUND, "there is no frame or entity 'nowhere'")
    hanging = simulator.put("arm/link")
    assert hanging.result == FAILED
    assert "/arm/hinge" in hanging.error_message


def test_kinematic_bodies_are_put_but_not_pushed(simulator):
    assert simulator.put("wall", xyz=(7.0, 0.0, 0.0)).result == OK
    np.testing.assert_allclose(simulator.where("wall"), (7.0, 0.0, 0.0))
    pushed = simulator.put("wall", velocity=(1.0, 0.0, 0.0))
    assert pushed.result == FAILED
    assert "kinematic" in pushed.error_message


def test_flags_of_release_2_1_choose_what_is_set():
    """Kilted and Jazzy have no such request: one is made up with its three fields more."""
    backend = FreeBodies()
    backend.reset()
    runtime = SimpleNamespace(plan=world(), time_ns=None, now_ns=0)
    state = EntityState()
    state.pose.position.x, state.twist.linear.x, state.acceleration.linear.x = 3.0, 2.0, 1.0
    for flags, position, velocity in (((0, 0, 1), 0.0, 0.0), ((1, 0, 0), 3.0, 0.0), ((0, 1, 0), 3.0, 2.0)):
        names = ("set_pose", "set_twist", "set_acceleration")
        request = SimpleNamespace(
            entity="crate", state=state, **dict(zip(names, map(bool, flags), strict=True))
        )
        EntityServices(runtime, backend).set_entity_state(request, None)
        now = backend.entity_state(CRATE)
        assert (now.pose[0], now.twist[0]) == (position, velocity), flags


@pytest.mark.parametrize(
    "pattern", ["((.+)+)+X", "((a{255}){255}){255}", "(a", "a" * 300, r"\d", "(a|b)*a(a|b){120}X"]
)
def test_filters_of_every_cost_are_answered_and_time_goes_on(start, ros_harness, pattern):
    """`re` takes exponential time for the first of them."""
    client = Simulator(ros_harness)
    client.running = start(world(), FreeBodies())
    answer = client.entities(filter=pattern)
    assert answer == [] or (answer.result == FAILED and "is not possible" in answer.error_message)
    before = seconds(client.ask(GetEntityState, entity="crate").state)
    ros_harness.wait_for(
        lambda: seconds(client.ask(GetEntityState, entity="crate").state) > before, what="a later state"
    )


def test_poses_and_twists_that_nobody_means_are_refused(simulator):
    for value in (float("nan"), float("inf"), 1e300, -1.7e308, 2e9):
        for result in (
            simulator.put("crate", xyz=(value, 0.0, 0.0)),
            simulator.put("crate", velocity=(0.0, value, 0.0)),
        ):
            assert result.result != OK
            assert "not finite" in result.error_message or " to " in result.error_message
        bounds = Bounds(type=Bounds.TYPE_SPHERE, points=[Vector3(x=value), Vector3(x=1.0)])
        assert simulator.entities(bounds=bounds).result == FAILED
        np.testing.assert_allclose(simulator.where("crate"), START["/crate"][:3])


def test_information_of_an_entity_has_limits(simulator):
    info = simulator.ask(GetEntityInfo, entity="arm").info
    for description, tags, why in (
        ("x" * 5000, [], "4096"),
        ("", ["x"] * 65, "64 tags"),
        ("", ["x" * 257], "256"),
    ):
        info.description, info.tags = description, tags
        result = simulator.ask(SetEntityInfo, entity="arm", info=info).result
        assert result.result == FAILED
        assert why in result.error_message


def test_bounds_are_a_box_with_the_greatest_corner_first(simulator):
    bounds = simulator.ask(GetEntityBounds, entity="wall").bounds
    assert bounds.type == Bounds.TYPE_BOX
    assert [[p.x, p.y, p.z] for p in bounds.points] == [[0.1, 4.0, 1.0], [-0.1, -4.0, -1.0]]
    empty = simulator.ask(GetEntityBounds, entity="arm/link")
    assert (empty.result.result, empty.bounds.type, empty.bounds.points) == (OK, Bounds.TYPE_EMPTY, [])


def test_information_can_be_replaced_until_everything_is_reset(simulator):
    info = simulator.ask(GetEntityInfo, entity="arm").info
    assert info.category.category == EntityCategory.CATEGORY_ROBOT
    assert "/arm, namespace /arm, 1 degrees of freedom" in info.description
    info.category.category, info.tags = EntityCategory.CATEGORY_HUMAN, ["pedestrian"]
    assert simulator.ask(SetEntityInfo, entity="arm", info=info).result.result == OK
    assert simulator.entities(tags=TagsFilter(tags=["pedestrian"])) == ["arm"]
    info.category.category = 99
    assert simulator.ask(SetEntityInfo, entity="arm", info=info).result.result == FAILED
    simulator.ask(ResetSimulation)
    assert simulator.entities(tags=TagsFilter(tags=["pedestrian"])) == []


def test_world_is_the_asset(simulator):
    world_now = simulator.ask(GetCurrentWorld)
    assert world_now.result.result == OK
    assert (world_now.world.name, world_now.world.world_resource.uri) == ("yard", "/worlds/yard.usda")


def test_backend_that_raises_is_reported_to_the_client_and_the_log(start, ros_harness):
    backend = FreeBodies()
    running = start(world(), backend, options=HELD)
    backend.entity_bounds = lambda _path: 1 / 0
    result = Simulator(ros_harness).ask(GetEntityBounds, entity="crate").result
    assert result.result == FAILED
    assert "ZeroDivisionError" in result.error_message
    assert running.warnings.containing("get_entity_bounds", "ZeroDivisionError")


# --- Time ----------------------------------------------------------------------------------------------------------


def test_state_goes_between_playing_paused_and_stopped(simulator):
    already = SetSimulationState.Response.ALREADY_IN_TARGET_STATE
    assert simulator.state() == PAUSED
    assert simulator.set_state(PAUSED).result == already
    assert simulator.set_state(PLAYING).result == OK
    assert simulator.state() == PLAYING
    assert simulator.set_state(PLAYING).result == already
    simulator.harness.wait_for(lambda: simulator.where("crate")[2] < 9.99, what="the crate to fall")
    assert simulator.set_state(PAUSED).result == OK
    height = simulator.where("crate")[2]
    assert simulator.where("crate")[2] == height
    assert simulator.set_state(STOPPED).result == OK
    assert simulator.state() == STOPPED
    assert simulator.where("crate")[2] == 10.0
    assert simulator.set_state(STOPPED).result == already
    assert simulator.set_state(PAUSED).result == OK
    assert simulator.set_state(PLAYING).result == OK


def test_states_that_cannot_be_asked_for_are_refused(simulator):
    for state in (SimulationState.STATE_NO_WORLD, SimulationState.STATE_LOADING_WORLD, 200):
        assert simulator.set_state(state).result == UNSUPPORTED
        assert simulator.state() == PAUSED


def test_steps_are_exact_and_only_taken_in_a_pause(simulator):
    assert simulator.ask(StepSimulation).result.result == OK
    assert simulator.ask(StepSimulation, steps=249).result.result == OK
    assert seconds(simulator.ask(GetEntityState, entity="crate").state) == pytest.approx(0.5)
    assert simulator.ask(StepSimulation, steps=0).result.result == OK
    assert simulator.state() == PAUSED
    simulator.set_state(PLAYING)
    refused = simulator.ask(StepSimulation, steps=5).result
    assert refused.result == FAILED
    assert "not paused" in refused.error_message


def test_steps_end_when_the_simulation_plays(simulator):
    future = simulator.ask(StepSimulation, wait=False, steps=10**12)
    simulator.harness.wait_for(lambda: simulator.where("crate")[2] < 9.9, what="steps")
    assert simulator.set_state(PLAYING).result == OK
    simulator.harness.wait_for(future.done, what="the end of the steps")
    assert future.result().result.result == FAILED
    assert "ended early" in future.result().result.error_message


def test_resets_take_back_what_their_scope_says(simulator):
    request = ResetSimulation.Request

    def reset(scope):
        result = simulator.ask(ResetSimulation, scope=scope).result
        state = simulator.ask(GetEntityState, entity="crate").state
        return result.result, seconds(state), state.pose.position.z

    simulator.ask(StepSimulation, steps=100)
    time, height = reset(request.SCOPE_TIME)[1:]
    assert (time, height < 10.0) == (pytest.approx(0.2), True)
    assert reset(request.SCOPE_TIME)[0] == UNSUPPORTED
    assert reset(request.SCOPE_SPAWNED)[0] == UNSUPPORTED
    assert reset(64)[0] == UNSUPPORTED
    assert reset(request.SCOPE_STATE) == (OK, pytest.approx(0.2), 10.0)
    simulator.ask(StepSimulation, steps=100)
    assert seconds(simulator.ask(GetEntityState, entity="crate").state) == pytest.approx(0.4)
    assert reset(request.SCOPE_TIME | request.SCOPE_STATE) == (OK, 0.0, 10.0)
    for scope in (request.SCOPE_DEFAULT, request.SCOPE_ALL):
        simulator.ask(StepSimulation, steps=100)
        assert reset(scope) == (OK, 0.0, 10.0)
    assert simulator.state() == PAUSED


def test_quitting_ends_spin_after_the_answer(start, ros_harness):
    running = start(world(), FreeBodies())
    client = Simulator(ros_harness)
    assert client.set_state(SimulationState.STATE_QUITTING).result == OK
    assert running.has_ended(5.0)


def test_without_ticks_nothing_is_reset_and_the_client_hears_it(monkeypatch):
    monkeypatch.setattr(simulation_interfaces, "TIMEOUT_S", 0.01)
    asked = []

    def ask(**_scope):
        asked.append(Future())
        return asked[-1]

    control = simulation_interfaces.SimulationControl(
        SimpleNamespace(state="playing", stop=ask, reset=ask), forget=lambda: None, quit_process=lambda: False
    )
    stop, reset = SetSimulationState.Request(), ResetSimulation.Request()
    stop.state.state = STOPPED
    for answer, request, response in (
        (control.set_simulation_state, stop, SetSimulationState.Response()),
        (control.reset_simulation, reset, ResetSimulation.Response()),
    ):
        answering = answered(answer, request, response, timeout=None)
        assert asyncio.run(asyncio.wait_for(answering, 60.0)) is None
        assert response.result.result == FAILED
        assert "does the simulation run?" in response.result.error_message
    # Nothing of it happens later.
    assert [each.cancelled() for each in asked] == [True, True]


def test_host_is_not_ended(ros_harness):
    with Bridge(world(), FreeBodies(), options=HELD):
        client = Simulator(ros_harness)
        refused = client.set_state(SimulationState.STATE_QUITTING)
        assert refused.result == FAILED
        assert "inside another program" in refused.error_message


# --- The action ----------------------------------------------------------------------------------------------------


class Steps:
    """A goal of SimulateSteps, followed."""

    def __init__(self, harness, steps):
        self.harness = harness
        self.feedback = []
        # Feedback comes faster than a loaded machine lets this node take it: rclpy's queue of 10 would drop some.
        self._client = ActionClient(
            harness.node, SimulateSteps, "simulate_steps", feedback_sub_qos_profile=QoSProfile(depth=100)
        )
        harness.wait_for(self._client.server_is_ready, what="simulate_steps")
        self.send(steps)

    def send(self, steps):
        """Sends a goal, with the client of the one before."""
        harness = self.harness
        # Late feedback of the goal before goes to the list of that goal.
        feedback = self.feedback = []
        goal = SimulateSteps.Goal(steps=steps)
        sent = self._client.send_goal_async(
            goal, feedback_callback=lambda each: feedback.append(each.feedback)
        )
        harness.wait_for(sent.done, what="the goal's acceptance")
        self.handle = sent.result()

    def end(self):
        """Asks for the result and waits for it. rclpy's client drops the goal's feedback that it takes after that."""
        result = self.handle.get_result_async()
        self.harness.wait_for(result.done, what="the goal's end")
        return result.result()


def test_steps_of_an_action_give_feedback_each(simulator):
    steps = Steps(simulator.harness, 1)
    taken = 1
    # Feedback that is sent before the middleware has connected both ends is lost: one step at a time until one comes.
    while steps.end() and not steps.feedback:
        assert taken < 100
        steps.send(1)
        taken += 1
    steps.send(20)
    simulator.harness.wait_for(lambda: len(steps.feedback) == 20, what="all feedback")
    assert steps.end().result.result.result == OK
    told = [(each.completed_steps, each.remaining_steps) for each in steps.feedback]
    assert told == [(done, 20 - done) for done in range(1, 21)]
    time_s = seconds(simulator.ask(GetEntityState, entity="crate").state)
    assert time_s == pytest.approx((taken + 20) * STEP_NS * 1e-9)
    assert simulator.state() == PAUSED


def test_steps_of_an_action_can_be_canceled(simulator):
    steps = Steps(simulator.harness, 10**12)
    simulator.harness.wait_for(lambda: steps.feedback, what="feedback")
    canceled = steps.handle.cancel_goal_async()
    simulator.harness.wait_for(canceled.done, what="the cancel")
    ended = steps.end()
    assert ended.status == 5  # CANCELED
    assert ended.result.result.result == FAILED
    assert "canceled after" in ended.result.result.error_message
    state = simulator.ask(GetEntityState, entity="crate").state
    assert seconds(state) == seconds(simulator.ask(GetEntityState, entity="crate").state)


def test_steps_of_an_action_are_refused_while_playing(simulator):
    simulator.set_state(PLAYING)
    ended = Steps(simulator.harness, 3).end()
    assert ended.status == 6  # ABORTED
    assert ended.result.result.result == FAILED
    assert "not paused" in ended.result.result.error_message
