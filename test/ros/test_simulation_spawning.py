"""Spawning and deleting over DDS, with the rover's world in MuJoCo: what was there goes on as before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from sensor_msgs.msg import JointState
from simulation_client import FAILED, NOT_FOUND, OK, STOPPED, UNSUPPORTED, Simulator, seconds
from simulation_interfaces.msg import SimulationState, SimulatorFeatures
from simulation_interfaces.srv import (
    DeleteEntity,
    GetEntityState,
    GetSimulatorFeatures,
    GetSpawnables,
    ResetSimulation,
    SetSimulationState,
    SpawnEntity,
    StepSimulation,
)

from usd_ros_bridge import load_plan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.ros.simulation import simulation_interfaces
from usd_ros_bridge.ros.simulation.spawn_services import SpawnServices, find_file

ROVER = Path(__file__).resolve().parents[2] / "examples" / "rover"
BOX = """#usda 1.0
(
    defaultPrim = "box"
    metersPerUnit = 1
    upAxis = "Z"
)
def Cube "box" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
)
{
    double size = 0.4
}
"""


@pytest.fixture
def assets(tmp_path):
    (tmp_path / "box.usda").write_text(BOX, encoding="utf-8")
    (tmp_path / "empty.usda").write_text("#usda 1.0\n", encoding="utf-8")
    (tmp_path / "broken.usda").write_text("this is no USD", encoding="utf-8")
    missing = BOX.replace("prepend apiSchemas", "references = @./gone.usda@\n    prepend apiSchemas")
    (tmp_path / "missing.usda").write_text(missing, encoding="utf-8")
    return tmp_path


@pytest.fixture
def simulator(start, ros_harness, assets):
    running = start(
        load_plan(ROVER / "world.usda", physics=True),
        "mujoco",
        backend_options={"gl": "none"},
        start_paused=True,
        spawn_roots=(str(ROVER), str(assets)),
    )
    client = Simulator(ros_harness)
    client.running = running
    return client


def spawn(
    simulator,
    uri,
    *,
    name="",
    xyz=(0.0, 0.0, 1.0),
    namespace="",
    frame="",
    renaming=False,
    quaternion=(0, 0, 0, 1),
):
    request = SpawnEntity.Request()
    request.initial_pose.header.frame_id = frame
    p, q = request.initial_pose.pose.position, request.initial_pose.pose.orientation
    p.x, p.y, p.z = xyz
    q.x, q.y, q.z, q.w = map(float, quaternion)
    return simulator.ask(
        SpawnEntity, name=name, allow_renaming=renaming, uri=uri, entity_namespace=namespace,
        initial_pose=request.initial_pose,
    )  # fmt: skip


def pose(simulator, entity):
    response = simulator.ask(GetEntityState, entity=entity)
    assert response.result.result == OK, response.result.error_message
    p, q = response.state.pose.position, response.state.pose.orientation
    return seconds(response.state), np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])


def test_spawned_body_is_where_it_was_wanted_and_falls(simulator):
    response = spawn(simulator, "box.usda", name="parcel", xyz=(1.0, 2.0, 3.0))
    assert (response.result.result, response.entity_name) == (OK, "parcel"), response.result.error_message
    assert simulator.entities(filter="^[^/]+$") == ["rover", "crate", "parcel"]
    np.testing.assert_allclose(pose(simulator, "parcel")[1], [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0], atol=1e-9)
    simulator.ask(StepSimulation, steps=2000)
    assert pose(simulator, "parcel")[1][2] == pytest.approx(0.2, abs=5e-3)


def test_what_was_there_goes_on(simulator):
    """Both runs are the same to the last bit but for what was spawned far away."""
    simulator.put("crate", xyz=(5.0, 5.0, 4.0), velocity=(1.0, 0.0, 0.0))
    simulator.ask(StepSimulation, steps=100)
    time, before = pose(simulator, "crate")
    assert spawn(simulator, "box.usda", name="far", xyz=(50.0, 50.0, 0.2)).result.result == OK
    assert pose(simulator, "crate")[0] == time
    np.testing.assert_array_equal(pose(simulator, "crate")[1], before)
    velocity = simulator.ask(GetEntityState, entity="crate").state.twist.linear
    assert (velocity.x, velocity.z) == (pytest.approx(1.0), pytest.approx(-9.81 * 0.2))
    simulator.ask(StepSimulation, steps=100)
    assert pose(simulator, "crate")[0] == pytest.approx(time + 0.2)
    assert pose(simulator, "crate")[1][0] == pytest.approx(5.0 + 0.4)


def test_a_bridge_of_some_contexts_serves_what_is_spawned_into_it(start, ros_harness, assets):
    running = start(
        load_plan(ROVER / "world.usda", physics=True, plan_options=PlanOptions(contexts=("/World/rover",))),
        "mujoco",
        backend_options={"gl": "none"},
        start_paused=True,
        spawn_roots=(str(ROVER), str(assets)),
    )
    client = Simulator(ros_harness)
    for uri, name in (("rover.usda", "rover_2"), ("box.usda", "parcel")):
        response = spawn(client, uri, name=name, xyz=(-3.0, 0.0, 0.1), namespace="second")
        assert response.result.result == OK, response.result.error_message
    assert "/rover_2" in [robot.path for robot in running.bridge.plan.robots]
    assert {"rover_2", "parcel"} <= set(client.entities(filter="^[^/]+$"))
    assert client.ask(DeleteEntity, entity="rover_2").result.result == OK
    assert not [each for each in running.bridge.plan.robots if each.path == "/rover_2"]
    assert running.bridge.plan.options.spawned == ("/parcel",)


def test_robot_comes_with_its_interfaces_under_its_namespace(simulator):
    heard = []
    simulator.harness.node.create_subscription(JointState, "/second/joint_states", heard.append, 10)
    response = spawn(simulator, "rover.usda", name="rover_2", xyz=(-3.0, 0.0, 0.1), namespace="second")
    assert response.result.result == OK, response.result.error_message
    assert response.result.error_message == ""
    assert simulator.entities(filter="^[^/]+$") == ["rover", "rover_2", "crate"]
    assert simulator.entities(filter="rover_2/.*wheel") == ["rover_2/left_wheel", "rover_2/right_wheel"]
    simulator.set_state(1)
    simulator.harness.wait_for(lambda: heard, what="joint states of the second rover")
    assert {"left_wheel_joint", "right_wheel_joint"} <= set(heard[0].name)


def test_pose_may_be_given_in_a_frame(simulator):
    rover = pose(simulator, "rover")[1]
    assert spawn(simulator, "box.usda", name="ahead", xyz=(2.0, 0.0, 0.5), frame="rover").result.result == OK
    offset = pose(simulator, "ahead")[1][:3] - rover[:3]
    assert np.linalg.norm(offset) == pytest.approx(np.hypot(2.0, 0.5))


def test_deleted_entities_are_gone_and_their_names_free(simulator):
    spawn(simulator, "box.usda", name="parcel")
    assert simulator.ask(DeleteEntity, entity="parcel").result.result == OK
    assert "parcel" not in simulator.entities()
    assert simulator.ask(DeleteEntity, entity="parcel").result.result == NOT_FOUND
    assert spawn(simulator, "box.usda", name="parcel").result.result == OK


@pytest.mark.parametrize("service", [SetSimulationState, ResetSimulation])
def test_deleting_what_was_spawned_may_take_its_time(request, monkeypatch, service):
    # Shorter than what is deleted takes; the services that are asked here need no more, or have no limit.
    short_s, clear = 0.2, SpawnServices.clear

    async def slow_clear(self):
        await asyncio.sleep(5 * short_s)
        await clear(self)

    monkeypatch.setattr(SpawnServices, "clear", slow_clear)
    monkeypatch.setitem(simulation_interfaces._row.__kwdefaults__, "timeout", short_s)  # noqa: SLF001
    simulator = request.getfixturevalue("simulator")
    assert spawn(simulator, "box.usda", name="parcel").result.result == OK
    fields = {}
    if service is SetSimulationState:
        fields["state"] = SimulationState(state=STOPPED)
    done = simulator.ask(service, **fields)
    assert done.result.result == OK, done.result.error_message
    assert spawn(simulator, "box.usda", name="parcel").result.result == OK


def test_what_belongs_to_the_asset_stays(simulator):
    for name in ("crate", "rover", "rover/left_wheel"):
        refused = simulator.ask(DeleteEntity, entity=name).result
        assert (refused.result, "was not spawned" in refused.error_message) == (FAILED, True)


def test_reset_of_what_was_spawned_leaves_the_rest_as_it_is(simulator):
    request = ResetSimulation.Request
    spawn(simulator, "box.usda", name="one")
    simulator.ask(StepSimulation, steps=50)
    time, crate = pose(simulator, "crate")
    assert simulator.ask(ResetSimulation, scope=request.SCOPE_SPAWNED).result.result == OK
    assert simulator.entities(filter="^[^/]+$") == ["rover", "crate"]
    assert pose(simulator, "crate")[0] == time
    np.testing.assert_array_equal(pose(simulator, "crate")[1], crate)
    spawn(simulator, "box.usda", name="two")
    assert simulator.ask(ResetSimulation).result.result == OK
    assert simulator.entities(filter="^[^/]+$") == ["rover", "crate"]
    assert pose(simulator, "crate")[0] == 0.0


def test_names_are_unique_or_made_so(simulator):
    codes = SpawnEntity.Response
    assert spawn(simulator, "box.usda", name="crate").result.result == codes.NAME_NOT_UNIQUE
    assert spawn(simulator, "box.usda").result.result == codes.NAME_INVALID
    assert spawn(simulator, "box.usda", name="no-prim").result.result == codes.NAME_INVALID
    assert spawn(simulator, "box.usda", name="crate", renaming=True).entity_name == "crate_1"
    assert spawn(simulator, "box.usda", renaming=True, xyz=(0.0, 9.0, 1.0)).entity_name == "box"
    assert (
        spawn(simulator, "box.usda", name="2-b", renaming=True, xyz=(9.0, 9.0, 1.0)).entity_name
        == "entity_2_b_1"
    )


def test_requests_that_cannot_be_met_say_why_and_change_nothing(simulator, assets):
    codes = SpawnEntity.Response
    for uri, code in (
        ("", codes.NO_RESOURCE),
        ("box.urdf", codes.UNSUPPORTED_FORMAT),
        ("gone.usda", NOT_FOUND),
        ("../world.usda", NOT_FOUND),
        (str(assets.parent / "box.usda"), NOT_FOUND),
        ("file:///etc/../etc/passwd.usda", NOT_FOUND),
        ("https://example.org/box.usda", NOT_FOUND),
        ("broken.usda", codes.RESOURCE_PARSE_ERROR),
        ("empty.usda", codes.RESOURCE_PARSE_ERROR),
        ("missing.usda", codes.MISSING_ASSETS),
    ):
        response = spawn(simulator, uri, name="thing")
        assert response.result.result == code, (uri, response.result.error_message)
        assert response.result.error_message
    assert (
        spawn(simulator, "box.usda", name="thing", namespace="2nd").result.result == codes.NAMESPACE_INVALID
    )
    assert (
        spawn(simulator, "box.usda", name="thing", quaternion=(0, 0, 0, 0)).result.result
        == codes.INVALID_POSE
    )
    assert spawn(simulator, "box.usda", name="thing", frame="nowhere").result.result == NOT_FOUND
    assert simulator.entities(filter="^[^/]+$") == ["rover", "crate"]
    assert spawn(simulator, "box.usda", name="thing").result.result == OK


def test_features_and_spawnables_tell_of_it(simulator, assets):
    features = simulator.ask(GetSimulatorFeatures).features
    wanted = {SimulatorFeatures.SPAWNING, SimulatorFeatures.DELETING, SimulatorFeatures.SPAWNABLES}
    assert wanted | {SimulatorFeatures.SIMULATION_RESET_SPAWNED} <= set(features.features)
    assert features.spawn_formats == ["usd"]
    uris = [each.uri for each in simulator.ask(GetSpawnables).spawnables]
    assert {str(assets / "box.usda"), str(ROVER / "rover.usda")} <= set(uris)
    odd = simulator.ask(GetSpawnables, sources=["cloud"])
    assert (odd.result.result, "cloud" in odd.result.error_message) == (OK, True)


def test_nothing_is_spawned_without_roots(start, ros_harness):
    running = start(
        load_plan(ROVER / "world.usda", physics=True),
        "mujoco",
        backend_options={"gl": "none"},
        start_paused=True,
    )
    client = Simulator(ros_harness)
    assert SimulatorFeatures.SPAWNING not in client.ask(GetSimulatorFeatures).features.features
    assert "/spawn_entity" not in dict(running.bridge.node.get_service_names_and_types())
    assert client.ask(ResetSimulation, scope=4).result.result == UNSUPPORTED


def test_files_outside_of_the_roots_are_not_found_by_links_either(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "box.usda").write_text(BOX, encoding="utf-8")
    (inside / "link.usda").symlink_to(outside / "box.usda")
    roots = (inside.resolve(),)
    assert find_file("box.usda", roots) == inside / "box.usda"
    assert find_file(f"file://{inside}/box.usda", roots) == inside / "box.usda"
    for uri in (
        "link.usda",
        "../outside/box.usda",
        str(outside / "box.usda"),
        "x" * 5000,
        "a\0b",
        "//host/box.usda",
    ):
        assert find_file(uri, roots) is None, uri
