"""Built-in sinks: what samples command, what is refused, and with what words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.plans import PlanBuilder, gripper, rover
from builders.samples import joint_sample, twist_sample
from case_tables import each_case
from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.model.state import ArraySample, Commands, PoseSample, TwistSample
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.command_sinks import (
    MovingSink,
    SinkContext,
    SinkRefusal,
    UnknownFrameError,
    make_sink,
)
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, pose

JOINT_STATE = "sensor_msgs/msg/JointState"
ARRAY = "std_msgs/msg/Float64MultiArray"
TWIST = "geometry_msgs/msg/Twist"
POSE = "geometry_msgs/msg/PoseStamped"
KINEMATIC = Capabilities(kinematic=True)
PHYSICS = Capabilities()


class Bench:
    """One subscription of a robot, its sink, and the commands it writes."""

    def __init__(
        self, builder: PlanBuilder, kind: str, *, capabilities: Capabilities = KINEMATIC, **topic: Any
    ) -> None:
        self.topic: TopicPlan = builder.robots[-1].topic("command", kind, "subscription", **topic)
        self.plan = builder.build()
        self.reporter = OnceReporter(lambda _kind, _message: None)
        self.frames: dict[str, FloatArray] = {"world": IDENTITY}
        self.commands = Commands(self.plan.layout)
        self.sink = make_sink(
            SinkContext(
                plan=self.plan,
                kinematics=Kinematics(self.plan),
                capabilities=capabilities,
                report=self.reporter.report,
                resolve=self.resolve,
            ),
            self.topic,
        )

    def resolve(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:  # noqa: ARG002
        if frame_id not in self.frames:
            raise UnknownFrameError("no transform to it is known")
        return self.frames[frame_id]

    def send(self, sample: object) -> Commands:
        self.commands.clear()
        self.sink.apply(sample, self.commands)
        return self.commands

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.reporter.reported()]


def nothing(commands: Commands) -> bool:
    return all(
        np.isnan(array).all()
        for array in (
            commands.joint_position,
            commands.joint_velocity,
            commands.joint_effort,
            commands.body_twist,
            commands.body_pose,
        )
    )


def test_targets_go_to_joints_by_name() -> None:
    bench = Bench(rover(), JOINT_STATE)
    commands = bench.send(
        joint_sample(["mast_joint", "left_wheel_joint"], [0.5, 1.5], [0.1, 0.2], [3.0, 4.0])
    )
    assert_allclose(commands.joint_position, [1.5, np.nan, 0.5])
    assert_allclose(commands.joint_velocity, [0.2, np.nan, 0.1])
    assert_allclose(commands.joint_effort, [4.0, np.nan, 3.0])


def test_an_empty_array_and_what_is_not_finite_command_nothing() -> None:
    bench = Bench(rover(), JOINT_STATE)
    commands = bench.send(joint_sample(["mast_joint", "left_wheel_joint"], velocity=[np.nan, 2.0]))
    assert np.isnan(commands.joint_position).all()
    assert_allclose(commands.joint_velocity, [2.0, np.nan, np.nan])
    assert nothing(bench.send(joint_sample(["mast_joint"], [np.inf])))
    assert bench.kinds() == []


@each_case("field", ["position", "velocity", "effort"])
def test_a_message_of_unequal_lengths_is_ignored_as_a_whole(field: str) -> None:
    bench = Bench(rover(), JOINT_STATE)
    arrays = {"position": [0.1, 0.2], field: [0.1]}
    assert nothing(bench.send(joint_sample(["mast_joint", "left_wheel_joint"], **arrays)))
    assert bench.kinds() == ["sink.length:/rover/command"]


def test_unknown_names_are_ignored_and_reported_once() -> None:
    bench = Bench(rover(), JOINT_STATE)
    for _ in range(3):
        commands = bench.send(joint_sample(["elbow", "mast_joint"], [9.0, 0.5]))
        assert_allclose(commands.joint_position, [np.nan, np.nan, 0.5])
    assert bench.kinds() == ["sink.joint:/rover/command"]
    assert "'elbow'" in bench.reporter.reported()[0].message


def test_names_that_nobody_knows_are_one_report_whatever_they_are() -> None:
    bench = Bench(rover(), JOINT_STATE)
    for turn in range(200):
        names = [f"joint_{turn}_{index}" * 100 for index in range(20)]
        commands = bench.send(joint_sample([*names, "mast_joint"], [9.0] * 20 + [0.5]))
        assert_allclose(commands.joint_position, [np.nan, np.nan, 0.5])
    (report,) = bench.reporter.reported()
    assert (report.kind, report.count) == ("sink.joint:/rover/command", 200)
    assert "20 of the joints" in report.message
    assert "and 15 more" in report.message
    assert len(report.message) < 2000


def test_frames_that_nobody_knows_are_one_report_whatever_they_are() -> None:
    bench = Bench(rover(), POSE)
    for turn in range(200):
        assert nothing(bench.send(PoseSample(stamp_ns=0, frame_id=f"f{turn}" * 1000, frame_from_body=pose())))
    (report,) = bench.reporter.reported()
    assert (report.kind, report.count) == ("sink.frame:/rover/command", 200)
    assert len(report.message) < 1000


def test_changed_names_are_looked_up_again() -> None:
    bench = Bench(rover(), JOINT_STATE)
    bench.send(joint_sample(["mast_joint"], [0.5]))
    commands = bench.send(joint_sample(["left_wheel_joint"], [0.7]))
    assert_allclose(commands.joint_position, [0.7, np.nan, np.nan])


def test_mimic_joints_are_not_commanded() -> None:
    bench = Bench(gripper(), JOINT_STATE)
    commands = bench.send(joint_sample(["right_finger_joint", "palm_joint"], [0.02, 0.5]))
    assert_allclose(commands.joint_position, [0.5, np.nan, np.nan])


def test_an_array_goes_to_the_commanded_joints_in_order() -> None:
    bench = Bench(gripper(), ARRAY)
    commands = bench.send(ArraySample(values=np.array([0.25, np.nan])))
    assert_allclose(commands.joint_position, [0.25, np.nan, np.nan])
    commands = bench.send(ArraySample(values=np.array([0.25, 0.01])))
    assert_allclose(commands.joint_position, [0.25, 0.01, np.nan])


@pytest.mark.parametrize("interface", ["velocity", "effort"])
def test_an_array_of_velocities_or_efforts_is_what_a_joint_state_commands_and_stops_with_its_topic(
    interface: str,
) -> None:
    rows = (2, 0)
    array = Bench(rover(), ARRAY, dofs=rows, command_interface=interface)
    named = Bench(rover(), JOINT_STATE)
    sample = joint_sample(["mast_joint", "left_wheel_joint"], **{interface: [3.0, -40.0]})
    expected = named.send(sample)
    commands = array.send(ArraySample(values=np.array([3.0, -40.0])))
    for name in ("joint_position", "joint_velocity", "joint_effort"):
        np.testing.assert_array_equal(getattr(commands, name), getattr(expected, name))
    assert_allclose(getattr(commands, f"joint_{interface}"), [-40.0, np.nan, 3.0])
    # NaN commands nothing.
    commands = array.send(ArraySample(values=np.array([np.nan, 1.0])))
    assert_allclose(getattr(commands, f"joint_{interface}"), [1.0, np.nan, np.nan])
    assert nothing(array.send(ArraySample(values=np.ones(3))))
    after = Bench(rover(), ARRAY, dofs=rows, command_interface=interface)
    assert isinstance(array.sink, MovingSink)
    assert isinstance(after.sink, MovingSink)
    after.sink.continue_from(array.sink)
    for bench in (array, after):
        bench.commands.clear()
        bench.sink.release(bench.plan.layout, bench.commands)
        assert_allclose(getattr(bench.commands, f"joint_{interface}"), [0.0, np.nan, 0.0])


@pytest.mark.parametrize("kind", [JOINT_STATE, ARRAY])
def test_positions_beyond_limits_are_clamped_with_one_report(kind: str) -> None:
    bench = Bench(gripper(), kind)
    names = ["palm_joint", "left_finger_joint"]
    for turn in range(100):
        values = np.array([100.0 if kind == ARRAY else np.nan, 0.5 + turn])
        sample = ArraySample(values=values) if kind == ARRAY else joint_sample(names, values)
        commands = bench.send(sample)
        assert commands.joint_position[1] == 0.04
    (report,) = bench.reporter.reported()
    assert (report.kind, report.count) == ("sink.limits:/gripper/command", 100)
    assert "beyond its upper limit" in report.message


def test_an_array_of_another_length_is_ignored_and_the_joints_named() -> None:
    bench = Bench(gripper(), ARRAY)
    assert nothing(bench.send(ArraySample(values=np.zeros(3))))
    assert "palm_joint, left_finger_joint" in bench.reporter.reported()[0].message


def test_a_twist_moves_the_base() -> None:
    bench = Bench(rover(), TWIST)
    commands = bench.send(twist_sample(1.0, 0.5))
    assert_allclose(commands.body_twist[0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.5])
    assert np.isnan(commands.body_twist[1:]).all()


def test_a_twist_on_a_link_moves_the_base_it_belongs_to() -> None:
    builder = rover()
    bench = Bench(builder, TWIST, body=builder.robots[0].body_row("mast"))
    commands = bench.send(TwistSample(stamp_ns=0, twist=np.ones(6)))
    assert_allclose(commands.body_twist[0], 1.0)


@each_case("fault", [np.nan, np.inf, 1e200, -2e6])
def test_a_twist_that_is_not_finite_is_ignored(fault: float) -> None:
    bench = Bench(rover(), TWIST)
    assert nothing(bench.send(twist_sample(fault)))
    assert bench.kinds() == ["sink.finite:/rover/command"]


def test_a_pose_moves_a_body_in_any_frame_that_is_known() -> None:
    bench = Bench(rover(), POSE)
    bench.frames["map"] = pose((10.0, 0.0, 0.0), (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)))
    commands = bench.send(PoseSample(stamp_ns=0, frame_id="map", frame_from_body=pose((1.0, 0.0, 0.0))))
    assert_allclose(commands.body_pose[0, :3], [10.0, 1.0, 0.0], atol=1e-12)
    scaled = bench.send(
        PoseSample(stamp_ns=0, frame_id="world", frame_from_body=pose(rotation=(0.0, 0.0, 0.0, 3.0)))
    )
    assert_allclose(scaled.body_pose[0], IDENTITY)


def test_a_pose_without_rotation_or_in_an_unknown_frame_is_ignored() -> None:
    bench = Bench(rover(), POSE)
    assert nothing(bench.send(PoseSample(stamp_ns=0, frame_id="world", frame_from_body=np.zeros(7))))
    assert nothing(bench.send(PoseSample(stamp_ns=0, frame_id="mars", frame_from_body=pose())))
    assert bench.kinds() == ["sink.finite:/rover/command", "sink.frame:/rover/command"]


@each_case(
    ("builder", "kind", "options", "reason"),
    [
        (rover(), "sensor_msgs/msg/Image", {}, "nothing takes messages of type sensor_msgs/msg/Image"),
        (rover(), JOINT_STATE, {"dofs": ()}, "no joint below its context"),
        (rover(), JOINT_STATE, {"capabilities": Capabilities(commands=False)}, "takes no commands"),
        (gripper(), TWIST, {}, "fixed to the world by"),
        (rover(), TWIST, {"capabilities": PHYSICS}, "physics moves the body"),
        (rover(), TWIST, {"body": -1, "robot": -1}, "no body"),
    ],
)
def test_refusals_say_why(builder: PlanBuilder, kind: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SinkRefusal, match=reason):
        Bench(builder, kind, **options)


def test_physics_moves_no_body_by_twist_but_a_kinematic_one() -> None:
    robot = PlanBuilder().robot()
    robot.body("conveyor", kinematic=True)
    bench = Bench(robot.plan, TWIST, capabilities=PHYSICS)
    assert_allclose(bench.send(TwistSample(stamp_ns=0, twist=np.ones(6))).body_twist[0], 1.0)
