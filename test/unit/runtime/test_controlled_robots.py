"""Real controllers in the tick of the kinematic backend: trajectories, drives and switching between the two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicHermiteSpline

from builders.groups import NotingPort
from builders.plans import PlanBuilder, rover
from builders.samples import joint_sample, twist_sample
from builders.stages import write_drives
from case_tables import each_case
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    TrajectorySample,
)
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions, PlanOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.loop import ExternalClock, Loop
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.subscriptions import InputBinding
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
    forward = twist_sample(0.2)
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
            delivery.deliver(twist_sample(0.1 * number))
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


# --- Changes of the plan while something moves ---------------------------------------------------------------


EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ASSETS = Path(__file__).resolve().parents[2] / "assets"
TICK = 10 * MS


class Live:
    """An open runtime whose plan changes while it ticks."""

    def __init__(self, plan: BridgePlan, backend: Backend) -> None:
        self.reports: list[str] = []
        reporter = OnceReporter(lambda kind, _message: self.reports.append(kind))
        self.runtime = Runtime(plan, backend, reporter=reporter).open()
        self.time_ns = SECOND

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.time_ns += TICK
            self.runtime.tick(self.time_ns)

    def change(self, plan: BridgePlan) -> None:
        _, change = self.runtime.prepare(plan)
        change.commit()
        change.cleanup()

    def bind(self, kind: str) -> InputBinding:
        topics = self.runtime.plan.topics
        return self.runtime.bind_sink(
            next(each for each in topics if each.role == "subscription" and kind in each.type)
        )

    @property
    def velocity(self) -> FloatArray:
        return self.runtime.snapshot.state.joint_velocity


def backend_of(name: str) -> Backend:
    if name == "kinematic":
        return KinematicBackend()
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    from usd_ros_bridge.backends.mujoco import MujocoBackend

    return MujocoBackend()


def note(plan: BridgePlan, path: str) -> BridgePlan:
    """Returns the plan with another parameter of one controller."""
    return replace(
        plan,
        controllers=tuple(
            replace(each, parameters={**each.parameters, "note": 1.0}) if each.path == path else each
            for each in plan.controllers
        ),
    )


@each_case("backend", ["kinematic", "mujoco"])
@each_case("change", ["no interfaces", "no controllers", "disabled", "other"])
def test_a_robot_whose_controller_goes_stands_still(backend: str, change: str) -> None:
    asset, physics = str(EXAMPLES / "rover" / "world.usda"), backend == "mujoco"
    plan = load_plan(asset, physics=physics)
    live = Live(plan, backend_of(backend))
    commands = live.bind("Twist")
    live.run(2)
    for _ in range(10):
        commands.deliver(twist_sample(0.5))
        live.run(5)
    assert live.velocity.max() > 1.0
    base = plan.robots[0].base_row
    before = live.runtime.snapshot.state.body_pose[base, 0]
    drive = next(each.path for each in plan.controllers if "Drive" in each.schema)
    match change:
        case "no interfaces":
            options = PlanOptions(interfaces="none")
            live.change(load_plan(asset, physics=physics, plan_options=options))
        case "no controllers":
            live.change(replace(plan, controllers=()))
        case "disabled":
            off = tuple(
                replace(each, enabled=False, reason="off") if each.path == drive else each
                for each in plan.controllers
            )
            live.change(replace(plan, controllers=off))
        case "other":
            # It goes on, until its time-out.
            live.change(note(plan, drive))
            live.run(20)
            assert live.velocity.max() > 1.0
            return
    live.run(100)
    assert_allclose(live.velocity, 0.0, atol=1e-3)
    assert abs(live.runtime.snapshot.state.body_pose[base, 0] - before) < 0.05


@pytest.mark.parametrize("backend", ["kinematic", "mujoco"])
def test_joints_whose_trajectory_ends_with_a_change_hold_where_they_are(backend: str) -> None:
    plan = load_plan(str(EXAMPLES / "arm" / "arm.usda"), physics=backend == "mujoco")
    live, port = Live(plan, backend_of(backend)), NotingPort()
    controller = next(each for each in plan.controllers if "Trajectory" in each.schema)
    other = next(each for each in plan.controllers if each.path != controller.path)
    desk = live.runtime.goal_queue(
        next(each.path for each in plan.actions if each.path in controller.interfaces)
    )
    assert desk is not None
    live.run(5)
    nothing, end = np.zeros(0), np.zeros(len(controller.joints))
    end[0] = 1.5
    trajectory = TrajectorySample(
        stamp_ns=0,
        joint_names=controller.joints,
        times_ns=np.array([6 * SECOND]),
        positions=(end,),
        velocities=(np.zeros(len(end)),),
        accelerations=(nothing,),
        efforts=(nothing,),
    )
    desk.start(FollowTrajectoryGoal(trajectory=trajectory), port)
    live.run(300)
    joint = controller.dofs[0]
    assert live.velocity[joint] > 0.1
    before = live.runtime.snapshot.state.joint_position[joint]
    live.change(note(plan, other.path))
    ((outcome, result),) = port.ends
    assert outcome == "aborted"
    assert isinstance(result, FollowTrajectoryResult)
    assert result.error_string == "the asset has changed"
    live.run(100)
    assert live.velocity[joint] == pytest.approx(0.0, abs=1e-4)
    assert live.runtime.snapshot.state.joint_position[joint] == pytest.approx(before, abs=0.005)


def test_controllers_go_on_where_a_change_fails() -> None:
    class Failing(KinematicBackend):
        def new_instance(self) -> Failing:
            return Failing()

        def transfer_state(self, old: KinematicBackend) -> None:  # noqa: ARG002
            raise RuntimeError("no transfer")

    plan = load_plan(str(EXAMPLES / "rover" / "world.usda"))
    live = Live(plan, Failing())
    live.run(2)
    layout = replace(plan.layout, max_velocity=np.full_like(plan.layout.max_velocity, 9.0))
    _, change = live.runtime.prepare(replace(plan, layout=layout, controllers=()))
    with pytest.raises(RuntimeError, match="no transfer"):
        change.commit()
    drive = next(each.path for each in plan.controllers if "Drive" in each.schema)
    assert live.runtime.controllers.active(drive)
    live.bind("Twist").deliver(twist_sample(0.5))
    live.run(20)
    assert live.velocity.max() > 1.0


@pytest.mark.parametrize("changed", [False, True])
def test_a_control_stops_what_it_moved_before_a_change(changed: bool) -> None:
    plan = load_plan(str(ASSETS / "controller_external.usda"))
    control = next(each for each in plan.controllers if "External" in each.schema)
    live = Live(plan, KinematicBackend())
    commands = live.bind("JointState")
    live.run(3)
    commands.deliver(joint_sample(control.joints, velocity=[0.1] * len(control.joints)))
    live.run(10)
    if changed:
        live.change(note(plan, control.path))
    live.run(5)
    assert live.velocity.max() == pytest.approx(0.1), "a command holds"
    live.runtime.controllers.switch([], [control.path])
    live.run(5)
    assert_allclose(live.velocity, 0.0, atol=1e-12)


@each_case("kind", ["Twist", "JointState"])
@each_case("rebound", [False, True])
def test_what_a_topic_without_a_controller_moved_stops_when_it_closes(kind: str, rebound: bool) -> None:
    builder = rover()
    robot = builder.robots[0]
    robot.topic("command", f"{'geometry' if kind == 'Twist' else 'sensor'}_msgs/msg/{kind}", "subscription")
    plan = builder.build()
    live = Live(plan, KinematicBackend())
    commands = live.bind(kind)
    live.run(3)
    mast = robot.row("mast_joint")
    if kind == "Twist":
        commands.deliver(twist_sample(0.5))
    else:
        commands.deliver(joint_sample([plan.layout.dofs[mast]], velocity=[0.01]))
    live.run(5)
    if rebound:
        live.change(replace(plan, controllers=()))
        live.runtime.bind_sink(plan.topics[0], into=commands)
    live.run(5)

    def motion() -> float:
        state = live.runtime.snapshot.state
        return float(state.body_pose[0, 0] if kind == "Twist" else state.joint_position[mast])

    before = motion()
    live.run(5)
    assert abs(motion() - before) > 1e-5
    live.runtime.unbind(commands)
    live.run(1)
    before = motion()
    live.run(20)
    assert motion() == before
    assert live.reports == []
