"""Real controllers in the tick of the kinematic backend: trajectories, drives and switching between the two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicHermiteSpline

from builders.groups import NotingPort
from builders.plans import PlanBuilder, rover
from builders.stages import write_drives
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    TrajectorySample,
)
from usd_ros_bridge.model.state import TwistSample
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.runtime.loop import ExternalClock, Loop
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray

MS = 1_000_000
SECOND = 1_000_000_000
FOLLOW = "control_msgs/action/FollowJointTrajectory"
JOINTS = 7


def arm(**options: object) -> Runtime:
    """Returns an open runtime of an arm that follows trajectories of all its joints."""
    builder = PlanBuilder()
    robot = builder.robot("/arm")
    robot.body("link_0")
    for number in range(1, JOINTS + 1):
        robot.body(f"link_{number}")
        robot.joint(f"joint_{number}", f"link_{number - 1}", f"link_{number}", axis="XYZ"[number % 3])  # type: ignore[arg-type]
    follow = robot.action("follow", FOLLOW)
    robot.controller("controller", "RosControlJointTrajectoryAPI", names(), interfaces=[follow])
    return Runtime(builder.build(), KinematicBackend(), options=BridgeOptions(**options)).open()


def names() -> tuple[str, ...]:
    return tuple(f"joint_{number}" for number in range(1, JOINTS + 1))


def goal(times: FloatArray, positions: FloatArray, velocities: FloatArray) -> FollowTrajectoryGoal:
    nothing = tuple(np.zeros(0) for _ in times)
    return FollowTrajectoryGoal(
        trajectory=TrajectorySample(
            stamp_ns=0,
            joint_names=names(),
            times_ns=np.round(times * 1e9).astype(np.int64),
            positions=tuple(positions),
            velocities=tuple(velocities),
            accelerations=nothing,
            efforts=nothing,
        )
    )


def wave(count: int, seconds: float) -> tuple[FollowTrajectoryGoal, CubicHermiteSpline]:
    """Returns a goal of `count` points, and the spline from rest through them."""
    times = np.linspace(0.0, seconds, count + 1)
    phases = 0.4 * np.arange(1, JOINTS + 1) * times[:, None]
    positions, velocities = np.sin(phases), 0.4 * np.arange(1, JOINTS + 1) * np.cos(phases)
    velocities[0] = velocities[-1] = 0.0
    return goal(times[1:], positions[1:], velocities[1:]), CubicHermiteSpline(times, positions, velocities)


def test_500_points_at_500_hz_are_followed_to_the_last_bit_that_matters() -> None:
    runtime = arm()
    desk, port = runtime.goal_queue("/arm/follow"), NotingPort()
    assert desk is not None
    runtime.tick(SECOND)
    message, spline = wave(500, 5.0)
    assert desk.check(message) == ""
    desk.start(message, port)
    start = SECOND + 2 * MS
    largest, ticks = 0.0, 0
    while not port.ends:
        time_ns = start + ticks * 2 * MS
        runtime.tick(time_ns)
        wanted = spline(min((time_ns - start) * 1e-9, 5.0))
        largest = max(largest, float(np.abs(runtime.snapshot.state.joint_position - wanted).max()))
        ticks += 1
    assert largest <= 1e-12
    assert 2501 <= ticks <= 2503
    outcome, result = port.ends[0]
    assert outcome == "succeeded"
    assert isinstance(result, FollowTrajectoryResult)
    assert result.error_code == 0
    assert len(port.told) == pytest.approx(100, abs=2), "20 Hz"
    assert all(isinstance(feedback, FollowTrajectoryFeedback) for feedback in port.told)


def test_a_loop_follows_at_the_rate_of_controllers_and_then_sleeps() -> None:
    runtime = arm(controller_rate=200.0)
    desk, port = runtime.goal_queue("/arm/follow"), NotingPort()
    assert desk is not None
    clock = _Following()
    loop = Loop(runtime, clock)
    runtime.tick(SECOND)
    desk.start(wave(20, 0.5)[0], port)
    clock.advance(2 * SECOND)
    clock.end = loop.stop
    loop.run()
    assert [outcome for outcome, _ in port.ends] == ["succeeded"]
    assert set(np.diff(clock.woken)) == {5 * MS}
    assert len(clock.woken) == pytest.approx(100, abs=3)
    assert runtime.next_due_ns() is None


class _Following(ExternalClock):
    """Time that passes in waits only, without a period of its own, and ends once nobody waits for a time."""

    period_ns = 0

    def __init__(self) -> None:
        super().__init__()
        self.woken: list[int] = []
        self.end = lambda: None

    def wait(self, deadline_ns: int | None, wakeup: object) -> None:  # type: ignore[override]  # noqa: ARG002
        if self.woken and deadline_ns is None:
            self.end()
        elif deadline_ns:
            self.woken.append(deadline_ns)
            self.advance(deadline_ns)


def test_joints_go_from_a_trajectory_to_a_drive_and_back_in_one_switch() -> None:
    wheels = ("left_wheel_joint", "right_wheel_joint")
    builder = rover()
    robot = builder.robots[0]
    cmd_vel = robot.topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription")
    follow = robot.action("follow", FOLLOW)
    robot.controller(
        "drive",
        "RosControlDiffDriveAPI",
        wheels,
        interfaces=[cmd_vel],
        parameters={
            "wheel_separation": 0.4,
            "wheel_radius": 0.05,
            "left_wheels": wheels[:1],
            "right_wheels": wheels[1:],
        },
    )
    robot.controller(
        "turn",
        "RosControlJointTrajectoryAPI",
        wheels,
        interfaces=[follow],
        enabled=False,
        reason="starts_enabled is false",
    )
    runtime = Runtime(builder.build(), KinematicBackend()).open()
    controllers, delivery = runtime.controllers, runtime.bind_sink(cmd_vel)
    forward = TwistSample(stamp_ns=0, twist=np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0]))
    time_ns = SECOND

    def tick(count: int) -> None:
        nonlocal time_ns
        for _ in range(count):
            runtime.tick(time_ns)
            time_ns += 10 * MS

    tick(1)
    delivery.deliver(forward)
    tick(10)
    assert_allclose(runtime.snapshot.state.joint_velocity[:2], 4.0)
    with pytest.raises(BridgeError, match=r"left_wheel_joint.*/rover/drive.*/rover/turn"):
        controllers.switch(["/rover/turn"], [])
    runtime.post(lambda: controllers.switch(["/rover/turn"], ["/rover/drive"]))
    tick(1)
    stopped = runtime.snapshot.state.joint_position[:2].copy()
    tick(5)
    assert_allclose(runtime.snapshot.state.joint_velocity[:2], 0.0, atol=1e-12)
    delivery.deliver(forward)
    tick(5)
    assert_allclose(runtime.snapshot.state.joint_position[:2], stopped, atol=0.05)
    assert runtime.status().sinks[0].dropped == 1
    runtime.post(lambda: controllers.switch(["/rover/drive"], ["/rover/turn"]))
    tick(1)
    delivery.deliver(forward)
    tick(10)
    assert_allclose(runtime.snapshot.state.joint_velocity[:2], 4.0)


class _Broadcaster(Publication):
    """Notes what goes to /tf of one robot."""

    def __init__(self, robot: int) -> None:
        super().__init__()
        self.robot = robot
        self.stamps: list[int] = []
        self.base: FloatArray = np.zeros(7)

    def publish(self, snapshot: Snapshot) -> bool:
        self.stamps.append(snapshot.time_ns)
        self.base = snapshot.frame_poses(self.robot)[0].copy()
        return True


def test_a_fleet_of_drives_goes_where_it_is_told_and_tf_keeps_its_rate(tmp_path: Path) -> None:
    plan = load_plan(write_drives(tmp_path, robots=5))
    runtime = Runtime(plan, KinematicBackend()).open()
    broadcasters = [_Broadcaster(robot) for robot in range(len(plan.robots))]
    for broadcaster in broadcasters:
        runtime.add_publication(broadcaster, name="/tf", rate=50.0)
    deliveries = [runtime.bind_sink(topic) for topic in plan.topics if topic.role == "subscription"]
    assert len(deliveries) == len(plan.robots) == 5
    for tick in range(201):
        for number, delivery in enumerate(deliveries if tick % 10 == 0 else []):
            delivery.deliver(TwistSample(stamp_ns=0, twist=np.array([0.1 * number, 0, 0, 0, 0, 0.0])))
        runtime.tick(SECOND + tick * 10 * MS)
    for number, (robot, broadcaster) in enumerate(zip(plan.robots, broadcasters, strict=True)):
        children = [robot.frames[i].id for i in runtime.frames.robots[number].moving]
        children += [robot.frames[i].id for i in runtime.frames.robots[number].static]
        assert len(children) == len(set(children)), "one parent for each"
        assert robot.frames[robot.base].parent == "odom"
        assert broadcaster.stamps == [SECOND + tick * 20 * MS for tick in range(101)]
        odometry = runtime.snapshot.odometry(number)
        assert odometry is not None
        assert_allclose(broadcaster.base, odometry.pose, atol=1e-12)
        # What arrived before the first state was commanded in the second tick.
        assert odometry.pose[0] == pytest.approx(0.2 * number, abs=0.05)
        assert bool(odometry.pose[0]) == bool(number)
