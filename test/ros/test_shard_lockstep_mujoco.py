"""Shards of a MuJoCo world in lockstep: what one process simulates, several simulate together."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed")

from geometry_msgs.msg import Twist
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState, LaserScan
from std_srvs.srv import SetBool, Trigger

from builders.carts import HALF, STEP_NS, write_rovers, write_sliders
from shard_bridges import RunningShard, largest_difference, running_shards
from usd_ros_bridge import Bridge, BridgeOptions, PlanOptions, load_plan
from usd_ros_bridge.errors import BridgeError, OptionError

SENSOR_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
SLIDERS = ((0.0, 0.0), (2.0, 0.0), (0.0, 3.0))
ROVERS = ((0.0, 0.0), (0.0, 5.0), (0.0, -5.0))


class Driver:
    """Commands robots over ROS in the pauses between requested steps, so that they act at known times."""

    def __init__(self, harness: Any, shards: Sequence[RunningShard]) -> None:
        self.harness, self.shards = harness, shards
        self.publishers: dict[str, Any] = {}

    def send(self, topic: str, message: Any) -> None:
        """Send a command, and wait until the shard of that robot has it."""
        if topic not in self.publishers:
            self.publishers[topic] = self.harness.node.create_publisher(type(message), topic, 10)
        publisher = self.publishers[topic]
        (shard,) = [
            each
            for each in self.shards
            if any(
                row.name == topic and row.role == "subscription" for row in each.bridge.status().interfaces
            )
        ]
        self.harness.wait_for(lambda: self.harness.are_connected(publisher, shard.bridge), what=topic)
        before = shard.count(topic)
        publisher.publish(message)
        self.harness.wait_for(lambda: shard.count(topic) > before, what=f"a command on {topic}")

    def drive(self, number: int, speed: float) -> None:
        self.send(f"/robot_{number}/joint_commands", JointState(name=["slide"], velocity=[speed]))

    def turn(self, number: int, speed: float, rate: float) -> None:
        command = Twist()
        command.linear.x, command.angular.z = speed, rate
        self.send(f"/robot_{number}/cmd_vel", command)

    def step(self, seconds: float) -> int:
        """Step all, and return the time, nanoseconds."""
        time = self.shards[0].bridge.time
        assert time is not None
        done = time.step(round(seconds * 1e9) // STEP_NS)
        self.harness.wait_for(done.done, timeout=120.0, what="steps")
        now = done.result()
        # The leader's steps are done once all others are there.
        assert {shard.now_ns for shard in self.shards} == {now}
        return now


def trajectories(harness: Any, asset: Path, count: int, drive: Any) -> dict[int, Any]:
    """Return the poses of all bodies by time."""
    with running_shards(asset, count) as shards:
        drive(Driver(harness, shards))
        found: dict[int, Any] = {}
        for shard in shards:
            assert not shard.warnings
            for time, poses in shard.poses.items():
                found.setdefault(time, {}).update(poses)
        return found


def slide(driver: Driver) -> None:
    for phase in range(4):
        for number in (1, 2, 3):
            driver.drive(number, 0.4 * math.cos(phase + number))
        driver.step(0.75)


def rove(driver: Driver) -> None:
    for phase in range(6):
        for number in (1, 2, 3):
            driver.turn(number, 0.3 * math.cos(phase + number), 0.8 * math.sin(phase * number))
        # Drives stop without commands.
        driver.step(0.4)


def test_sliders_in_three_shards_move_bit_for_bit_as_in_one_process(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    one = trajectories(ros_harness, asset, 1, slide)
    three = trajectories(ros_harness, asset, 3, slide)
    assert sorted(one) == sorted(three)
    assert max(one) == 3_000_000_000
    assert np.ptp([poses["/World/robot_1/box"][0] for poses in one.values()]) > 0.2
    assert max(largest_difference(one[time], three[time]) for time in one) == 0.0


def test_rovers_in_two_shards_move_as_in_one_process(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_rovers(tmp_path, ROVERS)
    one = trajectories(ros_harness, asset, 1, rove)
    two = trajectories(ros_harness, asset, 2, rove)
    assert sorted(one) == sorted(two)
    path = [poses["/World/robot_1"][:2] for poses in one.values()]
    assert np.ptp(path, axis=0).max() > 0.1, "they drive"
    # Measured: 5e-14. MuJoCo's solver adds up contacts of all robots in another order.
    assert max(largest_difference(one[time], two[time]) for time in one) < 1e-9


def seen_from(origin: Any, angle: float, boxes: Sequence[Any]) -> float:
    """Return the distance at which a horizontal ray meets the nearest of boxes that stand along the axes."""
    direction = np.array([math.cos(angle), math.sin(angle)])
    nearest = math.inf
    for center in boxes:
        with np.errstate(divide="ignore"):
            near, far = (
                (center[:2] - origin[:2] + sign * np.array(HALF[:2])) / direction for sign in (-1.0, 1.0)
            )
        begin, end = np.minimum(near, far).max(), np.maximum(near, far).min()
        if 0.0 < begin <= end:
            nearest = min(nearest, float(begin))
    return nearest


def test_a_lidar_sees_robots_of_other_shards_where_they_are(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    scans: list[LaserScan] = []
    ros_harness.node.create_subscription(LaserScan, "/robot_1/scan", scans.append, SENSOR_QOS)
    with running_shards(asset, 2) as shards:
        driver = Driver(ros_harness, shards)
        ros_harness.wait_for(lambda: ros_harness.node.count_publishers("/robot_1/scan") > 0, what="scans")
        driver.step(0.1)
        driver.drive(2, 0.5)
        driver.drive(3, -0.7)
        end = driver.step(2.0)
        ros_harness.wait_for(
            lambda: scans and stamp_ns(scans[-1].header.stamp) >= end - 20_000_000, what="scans"
        )
        poses = {time: {**shards[0].poses[time], **shards[1].poses[time]} for time in shards[0].poses}
    last = scans[-1]
    for scan in scans[5:]:
        there = poses[stamp_ns(scan.header.stamp)]
        own, *others = (there[f"/World/robot_{number}/box"] for number in (1, 2, 3))
        expected = [seen_from(own, angle_of(scan, ray), others) for ray in range(len(scan.ranges))]
        hits = [math.isfinite(each) and each < scan.range_max for each in expected]
        # A ray along an edge may meet it or not.
        assert sum(math.isfinite(got) != hit for got, hit in zip(scan.ranges, hits, strict=True)) <= 4
        both = [
            (got, wanted)
            for got, wanted, hit in zip(scan.ranges, expected, hits, strict=True)
            if hit and math.isfinite(got)
        ]
        assert len(both) > 10
        # While they speed up, the other shard knows their speed of the period before.
        off = sorted(abs(got - wanted) for got, wanted in both)
        assert off[int(0.8 * len(off))] < (1e-5 if scan is last else 3e-3)


def angle_of(scan: LaserScan, ray: int) -> float:
    return scan.angle_min + ray * scan.angle_increment


def stamp_ns(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def test_a_robot_is_stopped_by_one_of_another_shard_which_does_not_move(
    ros_harness: Any, tmp_path: Path
) -> None:
    asset = write_sliders(tmp_path, ((0.0, 0.0), (0.0, 3.0), (2.0, 0.0), (0.0, 6.0)))
    plans = (PlanOptions(other_robots="obstacles"), PlanOptions())
    with running_shards(asset, 2, plan_options=plans) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(1, 1.0)
        driver.drive(2, 1.0)
        driver.step(4.0)
    ours, theirs = shards[0].poses, shards[1].poses
    assert {pose["/World/robot_3/box"][0] for pose in theirs.values()} == {2.0}
    last, before = (ours[time] for time in sorted(ours)[:-3:-1])
    contact = 2.0 - 2 * HALF[0]
    assert last["/World/robot_1/box"][0] == pytest.approx(contact, abs=5e-3)
    assert last["/World/robot_1/box"][0] == pytest.approx(before["/World/robot_1/box"][0], abs=1e-4)
    assert last["/World/robot_2/box"][0] > 3.0, "nothing is in its way"


def test_robots_of_two_shards_push_each_other(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    with running_shards(asset, 2) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(1, 1.0)
        driver.step(4.0)
    ends = [shard.poses[4_000_000_000] for shard in shards]
    gap = ends[1]["/World/robot_2/box"][0] - ends[0]["/World/robot_1/box"][0] - 2 * HALF[0]
    assert abs(gap) < 0.02
    assert ends[1]["/World/robot_2/box"][0] > 2.1, "for its own shard, what pushes it is immovable"


def test_without_obstacles_robots_of_other_shards_are_not_there(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    with running_shards(asset, 2, plan_options=[PlanOptions()] * 2) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(1, 1.0)
        driver.step(4.0)
        assert shards[0].backend.obstacles() == ()
    assert shards[0].poses[max(shards[0].poses)]["/World/robot_1/box"][0] > 3.0


def bump(ros_harness: Any, asset: Path, *, slowed: bool) -> list[Any]:
    """Return the poses of robots of three shards that push each other."""
    choose = random.Random(7)
    with running_shards(asset, 3) as shards:
        if slowed:
            for shard in shards[1:]:
                shard.bridge.before_step(lambda *_: time.sleep(choose.choice((0.0, 0.001, 0.01))))
        driver = Driver(ros_harness, shards)
        driver.drive(1, 1.0)
        driver.drive(2, -0.5)
        driver.drive(3, 0.3)
        driver.step(2.0)
        driver.drive(1, -0.5)
        driver.step(1.0)
        assert len({tuple(sorted(shard.poses)) for shard in shards}) == 1, "the same ticks"
        return [shard.poses for shard in shards]


def test_contacts_are_the_same_in_every_run_however_slow_a_shard_is(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, ((0.0, 0.0), (1.2, 0.0), (-1.2, 0.0)))
    expected, slowed = (bump(ros_harness, asset, slowed=slow) for slow in (False, True))
    for one, other in zip(expected, slowed, strict=True):
        assert sorted(one) == sorted(other)
        assert max(largest_difference(one[time], other[time]) for time in one) == 0.0
    ends = [expected[0][at]["/World/robot_1/box"][0] for at in sorted(expected[0])]
    assert max(ends) < 0.9, "it was stopped"


def test_the_leaders_services_act_on_all(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)

    def ask(name: str, service_class: Any, **fields: Any) -> Any:
        client = ros_harness.node.create_client(service_class, f"/shard_1/{name}")
        ros_harness.wait_for(client.service_is_ready, what=name)
        future = client.call_async(service_class.Request(**fields))
        ros_harness.wait_for(future.done, what=f"an answer of {name}")
        assert future.result().success, future.result().message
        return future.result()

    with running_shards(asset, 2) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(2, 1.0)
        for count in range(1, 8):
            ask("step", Trigger)
            assert {shard.now_ns for shard in shards} == {count * STEP_NS}
        names = {name for name, _ in ros_harness.node.get_service_names_and_types()}
        assert "/shard_1/step" in names
        assert not names & {"/shard_2/step", "/shard_2/reset", "/shard_2/set_paused"}
        ask("set_paused", SetBool, data=False)
        ros_harness.wait_for(lambda: shards[1].now_ns > 1_000_000_000, what="time that passes")
        ask("set_paused", SetBool, data=True)
        stood = shards[0].now_ns
        ros_harness.wait_for(lambda: stood - shards[1].now_ns < 10_000_000, what="the follower")
        assert shards[1].poses[max(shards[1].poses)]["/World/robot_2/box"][0] > 2.5
        driver.step(0.002)
        ask("reset", Trigger)
        ros_harness.wait_for(lambda: {shard.now_ns for shard in shards} == {0}, what="a reset of all")
        driver.step(0.002)
        for shard in shards:
            assert shard.poses[STEP_NS][f"/World/robot_{1 if shard is shards[0] else 2}/box"][0] in (0.0, 2.0)
        time = shards[1].bridge.time
        assert time is not None
        with pytest.raises(BridgeError, match="ask the leader"):
            time.pause()
        with pytest.raises(BridgeError, match="ask the leader"):
            time.step().result()
        with pytest.raises(BridgeError, match="ask the leader"):
            time.reset().result()


def test_shards_go_on_when_they_read_their_stage_again(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    options = BridgeOptions(real_time_factor=0.0)
    with running_shards(asset, 2, options=options) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(2, 0.2)
        text = asset.read_text()
        for size in ("0.5", "0.6"):
            asset.write_text(text.replace("(0.4, 0.3, 0.1)", f"({size}, 0.3, 0.1)"))
            for shard in shards:
                report = shard.bridge.reload().result()
                assert not report.found, report
                reached = shard.now_ns
                ros_harness.wait_for(
                    lambda reached=reached: min(each.now_ns for each in shards) > reached + 1_000_000_000,
                    what="time",
                )
        with pytest.raises(BridgeError, match="the shard that the bridge started as"):
            shards[1].bridge.change(plan_options=PlanOptions(shard="1/2", other_robots="obstacles")).result()
        place = shards[0].backend.obstacles().index("/World/robot_2/box")
        simulation = shards[0].backend.simulation
        assert simulation.model.geom("/World/robot_2/box/shape").size[0] == pytest.approx(0.3)
        ros_harness.wait_for(
            lambda: (
                abs(
                    simulation.data.mocap_pos[place, 0]
                    - shards[1].poses[max(shards[1].poses)]["/World/robot_2/box"][0]
                )
                < 0.05
            ),
            what="the obstacle where the robot is",
        )


def test_without_lockstep_obstacles_follow_the_newest_poses(ros_harness: Any, tmp_path: Path) -> None:
    asset = write_sliders(tmp_path, SLIDERS)
    options = BridgeOptions(real_time_factor=1.0)
    with running_shards(asset, 2, roles=("off", "off"), options=options) as shards:
        driver = Driver(ros_harness, shards)
        driver.drive(2, 1.0)
        mocap = shards[0].backend.simulation.data.mocap_pos
        place = shards[0].backend.obstacles().index("/World/robot_2/box")

        def is_there() -> bool:
            theirs = shards[1].poses[max(shards[1].poses)]["/World/robot_2/box"][0]
            return theirs > 2.3 and abs(mocap[place, 0] - theirs) < 0.1

        ros_harness.wait_for(is_there, what="a robot that moves here as there")


def test_lockstep_needs_a_shard_and_a_backend_that_owns_time(tmp_path: Path) -> None:
    plan = load_plan(write_sliders(tmp_path, SLIDERS), physics=True)
    for role in ("leader", "follower"):
        with pytest.raises(OptionError, match="shard:=1/2"):
            Bridge(plan, "mujoco", options=BridgeOptions(lockstep=role)).open()
        with pytest.raises(OptionError, match="follows the node's time"):
            Bridge(plan, "kinematic", options=BridgeOptions(lockstep=role)).open()
