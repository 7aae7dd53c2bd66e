"""The bridge inside hosts: their node, their thread, their arrays, with and without background threads."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState, LaserScan
from tf2_msgs.msg import TFMessage

from programs import run_python
from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan, publisher
from usd_ros_bridge import ArrayBackend, Bridge, BridgeOptions
from usd_ros_bridge.errors import BackendError

MS = 1_000_000
STATES, COMMANDS = "/arm/joint_states", "/arm/joint_commands"


def stamp_ns(message):
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def matched(bridge, name):
    """Whether a topic of the bridge has one listener."""
    return [row.matched for row in bridge.status().interfaces if row.name == name] == [1]


def test_a_host_at_a_kilohertz_in_its_own_thread_is_shown_as_it_is(ros_harness):
    """The host's node is spun by the host's executor, in one thread, while another thread simulates and steps."""
    received = ros_harness.listen(JointState, STATES, 1000)
    transforms = ros_harness.listen(TFMessage, "/arm/tf", 1000)
    described = plan(replace(JOINT_STATES, publish_rate=100.0))
    position = np.zeros(len(described.layout.dofs))
    backend = ArrayBackend(described.layout, joint_position=position, commands=False)
    failures, done = [], threading.Event()

    def simulate(bridge):
        try:
            for tick in range(1, 1501):
                position[:] = tick * 1e-4
                assert bridge.step(tick * MS)
        except Exception as error:  # noqa: BLE001 - shown by the test below
            failures.append(error)
        finally:
            done.set()

    with Bridge(described, backend, options=BridgeOptions(tf_rate=50.0), node=ros_harness.node) as bridge:
        ros_harness.wait_for(lambda: matched(bridge, STATES), what="discovery")
        host = threading.Thread(target=simulate, args=(bridge,))
        host.start()
        ros_harness.wait_for(done.is_set, what="the host's loop")
        host.join()
        assert failures == []
        ros_harness.wait_for(lambda: len(received) >= 150, what="joint states of 1.5 s")
        assert bridge.status().ticks == 1500
        assert bridge.status().reports == ()
    assert 150 <= len(received) <= 151
    for message in received:
        # What stands in the array at a step is what that step's stamp shows.
        assert message.position[0] == pytest.approx(stamp_ns(message) / MS * 1e-4, abs=1e-12)
    assert transforms


def test_a_hosts_executor_brings_commands_and_the_host_is_informed(ros_harness):
    commands = ros_harness.node.create_publisher(JointState, COMMANDS, 10)
    received = ros_harness.listen(JointState, STATES)
    described = plan(JOINT_STATES, JOINT_COMMANDS)
    position = np.zeros(len(described.layout.dofs))
    told = []

    def actuate(given):
        told.append(threading.current_thread())
        np.copyto(position, given.joint_position, where=~np.isnan(given.joint_position))

    backend = ArrayBackend(described.layout, joint_position=position, on_commands=actuate)
    with Bridge(described, backend, node=ros_harness.node) as bridge:
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(commands, bridge), what="the bridge's subscription"
        )
        commands.publish(JointState(name=["hinge"], position=[0.5]))

        def followed():
            bridge.step()
            return bool(received) and received[-1].position[0] == 0.5

        ros_harness.wait_for(followed, what="the commanded position")
        assert told == [threading.current_thread()], "once, in the thread that steps"
        assert backend.commands.joint_position[0] == 0.5


def test_a_host_without_threads_polls_and_reads_commands_after_the_step(ros_harness):
    commands = ros_harness.node.create_publisher(JointState, COMMANDS, 10)
    described = plan(JOINT_STATES, JOINT_COMMANDS)
    backend = ArrayBackend(described.layout)
    threads = set(threading.enumerate())
    with Bridge(described, backend, options=BridgeOptions(threaded=False)) as bridge:
        # One of an earlier test may end meanwhile.
        assert set(threading.enumerate()) <= threads
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(commands, bridge), what="the bridge's subscription"
        )
        commands.publish(JointState(name=["hinge"], position=[0.25]))

        def commanded():
            bridge.poll()
            bridge.step()
            return backend.commands.joint_position[0] == 0.25

        ros_harness.wait_for(commanded, what="the command")


def test_a_getter_follows_a_host_that_swaps_buffers(ros_harness):
    received = ros_harness.listen(JointState, STATES, 100)
    described = plan(JOINT_STATES)
    front, back = np.zeros(1, np.float32), np.ones(1, np.float32)
    buffers = [front, back]
    backend = ArrayBackend(described.layout, joint_position=lambda: buffers[0], commands=False)
    with Bridge(described, backend, node=ros_harness.node) as bridge:
        ros_harness.wait_for(lambda: matched(bridge, STATES), what="discovery")
        for tick in range(1, 11):
            buffers.reverse()
            bridge.step(tick * 100 * MS)
        ros_harness.wait_for(lambda: len(received) == 10, what="ten joint states")
    assert [message.position[0] for message in received] == [1.0, 0.0] * 5


def test_a_hosts_laser_is_sent_once_for_each_scan(ros_harness):
    received = ros_harness.listen(LaserScan, "/arm/scan")
    laser = publisher("/arm/scan", "sensor_msgs/msg/LaserScan", rate=50.0)
    described = plan(laser)
    scans = iter([np.array([1.0, 2.0, 3.0], np.float32), None, np.array([4.0, 5.0, 6.0], np.float32), None])
    limits = {"angle_min": -0.5, "angle_max": 0.5, "range_min": 0.1, "range_max": 10.0}

    def scan():
        ranges = next(scans, None)
        return None if ranges is None else {"ranges": ranges, **limits}

    backend = ArrayBackend(described.layout, sensors={laser.path: scan})
    with Bridge(described, backend, node=ros_harness.node) as bridge:
        ros_harness.wait_for(lambda: matched(bridge, "/arm/scan"), what="discovery")
        for tick in range(1, 7):
            bridge.step(tick * 20 * MS)
        ros_harness.wait_for(lambda: len(received) >= 2, what="two scans")
    assert [list(message.ranges) for message in received] == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert [stamp_ns(message) for message in received] == [20 * MS, 60 * MS]
    assert received[0].angle_increment == pytest.approx(0.5)
    assert received[0].range_max == pytest.approx(10.0)


def test_spin_runs_the_bridges_own_loop_on_the_hosts_arrays(start, ros_harness):
    received = ros_harness.listen(JointState, STATES)
    described = plan(JOINT_STATES)
    position = np.array([0.125])
    start(described, ArrayBackend(described.layout, joint_position=position))
    ros_harness.wait_for(lambda: bool(received), what="joint states")
    position[:] = 0.375
    ros_harness.wait_for(lambda: received[-1].position[0] == 0.375, what="the new position")


def test_the_hosts_node_and_executor_outlive_the_bridge(ros_harness):
    described = plan(JOINT_STATES)
    for _ in range(2):
        with Bridge(described, ArrayBackend(described.layout), node=ros_harness.node) as bridge:
            bridge.step()
    assert isinstance(ros_harness.executor, SingleThreadedExecutor)
    assert ros_harness.node in ros_harness.executor.get_nodes()
    begin = time.monotonic()
    fired = []
    ros_harness.node.create_timer(0.01, lambda: fired.append(time.monotonic() - begin))
    ros_harness.wait_for(lambda: len(fired) >= 2, what="the host's own timer")


def test_an_array_of_the_wrong_shape_fails_open_in_one_line(ros_harness):
    described = plan(JOINT_STATES)
    bridge = Bridge(
        described, ArrayBackend(described.layout, joint_position=np.zeros(3)), node=ros_harness.node
    )
    with pytest.raises(BackendError, match=r"^joint_position has shape \(3,\), but must have \(1,\)$"):
        bridge.open()
    bridge.close()


def test_velocities_differ_from_poses_where_commands_come_between_steps(ros_harness):
    """Steps that were passed by, then a command: twists are still those between two steps of the host."""
    described = plan(JOINT_STATES, JOINT_COMMANDS)
    layout = described.layout
    pose = layout.body_pose.copy()
    backend = ArrayBackend(layout, body_pose=pose)
    with Bridge(described, backend, options=BridgeOptions(tf_rate=10.0), node=ros_harness.node) as bridge:
        runtime = bridge.parts.runtime
        twists = []
        for tick in range(1, 401):
            pose[:, 0] = tick * 1e-3
            if tick % 100 == 0 or tick == 270:
                runtime.commands.joint_position[0] = 0.1
            bridge.step(tick * MS)
            if tick % 100 == 0:
                twists.append(runtime.snapshot.body_twist[0, 0])
    assert twists[1:] == pytest.approx([1.0] * 3, rel=1e-6)


def test_a_hosts_callbacks_run_around_each_step(ros_harness):
    """They are added before and after the opening, run in the thread that steps, and end with the bridge."""
    described = plan(JOINT_STATES)
    calls, threads = [], set()

    def note(what):
        def call(time_ns, _seen):
            calls.append((what, time_ns))
            threads.add(threading.current_thread())

        return call

    bridge = Bridge(described, "kinematic", options=BridgeOptions(tf_rate=1.0))
    early = bridge.before_step(note("early"))
    with bridge:
        for tick in range(1, 4):
            bridge.step(tick * MS)
        with bridge.after_step(note("late")):
            bridge.step(4 * MS)
        early.remove()
        bridge.step(5 * MS)
        bridge.after_step(note("last"))
        bridge.step(6 * MS)
    assert calls == [
        *(("early", tick * MS) for tick in range(1, 5)),
        ("late", 4 * MS),
        ("last", 6 * MS),
    ]
    assert threads == {threading.current_thread()}


def test_callbacks_run_in_spin_and_with_a_backend_that_owns_time(ros_harness):
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    asset = Path(__file__).resolve().parents[2] / "examples" / "arm" / "arm.usda"
    times = []
    with Bridge.open_asset(
        asset, backend="mujoco", options=BridgeOptions(real_time_factor=0.0, duration=0.1)
    ) as bridge:

        def check(time_ns, state):
            times.append(time_ns)
            assert state.time_ns == time_ns
            assert np.isfinite(state.body_pose).all()

        bridge.after_step(check)
        bridge.spin()
        assert bridge.status().reports == ()
    assert times == sorted(set(times))
    assert len(times) > 3


TWO_DOMAINS = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def Xform "left" (prepend apiSchemas = ["PhysicsMassAPI", "PhysicsRigidBodyAPI", "RosContextAPI"])
    {
        float physics:mass = 1
        string ros:context:namespace = "left"
    }
    def Xform "right" (prepend apiSchemas = ["PhysicsMassAPI", "PhysicsRigidBodyAPI", "RosContextAPI"])
    {
        float physics:mass = 1
        string ros:context:namespace = "right"
        int ros:context:domain_id = OTHER
    }
}
"""
CHANGING_HOST = """
import sys, threading
import rclpy
from usd_ros_bridge import Bridge, BridgeOptions, load_plan

asset, mode = sys.argv[1:]
node = None
if mode == "node":
    rclpy.init()
    node = rclpy.create_node("host")
plan = load_plan(asset, physics=False)
with Bridge(plan, "kinematic", node=node, options=BridgeOptions(threaded=False)) as bridge:
    assert len(bridge.parts.domains.opened) == 2
    left = "/World/left"
    call = bridge.change(
        edit=lambda stage: stage.GetPrimAtPath(left).GetAttribute("ros:context:namespace").Set("new")
    )
    pause = threading.Event()
    while not call.done():
        bridge.step()
        if mode != "step":
            bridge.poll()
        pause.wait(0.01)
    call.result()
    print("changed to", *(each.namespace for each in bridge.plan.robots), flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("mode", ["poll", "step", "node"])
def test_a_host_without_threads_changes_a_bridge_of_two_domains(mode, domain_id, other_domain_id, tmp_path):
    asset = tmp_path / "world.usda"
    asset.write_text(TWO_DOMAINS.replace("OTHER", str(other_domain_id)), encoding="utf-8")
    # One thread that waits for itself never ends.
    done = run_python(CHANGING_HOST, asset, mode, env={"ROS_DOMAIN_ID": str(domain_id)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "changed to /new /right"
