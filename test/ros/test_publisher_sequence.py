"""Publisher sequences: publishers of other types than each other send what each of them sends alone."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from builders.plans import PlanBuilder
from usd_ros_bridge import ArrayBackend, Bridge, BridgeOptions
from usd_ros_bridge.ros.endpoints.publisher import MessagePublisher, PublisherSequence
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.spatial.pose import Pose

TYPES = {
    "joint_states": "sensor_msgs/msg/JointState",
    "imu": "sensor_msgs/msg/Imu",
    "odom": "nav_msgs/msg/Odometry",
    "pose": "geometry_msgs/msg/PoseStamped",
    "twist": "geometry_msgs/msg/TwistStamped",
    "accel": "geometry_msgs/msg/AccelStamped",
    "transform": "geometry_msgs/msg/TransformStamped",
}
PERIOD_NS = 10_000_000


def robot_plan():
    builder = PlanBuilder()
    robot = builder.robot(namespace="/robot")
    robot.body("base")
    for number, axis in enumerate(("X", "Y", "Z")):
        parent = f"link_{number - 1}" if number else "base"
        robot.body(f"link_{number}")
        robot.joint(
            f"joint_{number}",
            parent,
            f"link_{number}",
            axis=axis,
            body0_from_joint=Pose((0.1 * number, 0.2, 0.0)),
        )
    last = robot.body_row("link_2")
    for name, kind in TYPES.items():
        body = last if name == "imu" else 0
        robot.topic(
            name, kind, "publisher", publish_rate=100.0, body=body, frame_id="base", child_frame_id="base"
        )
    return builder.build()


@pytest.fixture
def run(monkeypatch):
    """`run(fault=...)`: what a moving robot's publishers send by topic, and their rows of the status."""

    def run_bridge(*, fault=""):
        sent = defaultdict(list)

        def send(self, data):
            if self.publisher.topic_name == fault:
                raise RuntimeError("it cannot be sent")
            sent[self.publisher.topic_name].append(bytes(data))

        monkeypatch.setattr(PublisherHandle, "_send_first", send)
        plan = robot_plan()
        position, pose = plan.layout.joint_position.copy(), plan.layout.body_pose.copy()
        backend = ArrayBackend(plan.layout, joint_position=position, body_pose=pose)
        options = BridgeOptions(publish_unmatched=True, tf_rate=50.0, publish_diagnostics=False)
        with Bridge(plan, backend, options=options, report=lambda *_: None) as bridge:
            for step in range(1, 21):
                position += np.array([0.01, -0.02, 0.03])
                pose[0, 0] += 0.05
                bridge.step(step * PERIOD_NS)
            rows = {
                row.name: row for row in bridge.status().interfaces if row.name in sent or row.name == fault
            }
        return dict(sent), {name: (row.count, row.errors) for name, row in rows.items()}

    return run_bridge


@pytest.fixture
def one_by_one(monkeypatch):
    """`one_by_one()`: publish without sequences from here on."""
    return lambda: monkeypatch.setattr(MessagePublisher, "sequence_key", None)


@pytest.mark.parametrize("fault", ["", "/robot/odom"])
def test_a_sequence_sends_and_counts_what_its_publishers_do_alone(run, one_by_one, monkeypatch, fault):
    calls = []
    publish = PublisherSequence.publish
    monkeypatch.setattr(PublisherSequence, "publish", lambda *given: (calls.append(1), publish(*given)))
    together = run(fault=fault)
    assert len(calls) >= 20
    calls.clear()
    one_by_one()
    assert run(fault=fault) == together
    assert not calls
    sent, rows = together
    names = {f"/robot/{name}" for name in TYPES} - {fault}
    assert names <= sent.keys()
    assert {len(sent[name]) for name in names} == {20}
    assert {rows[name] for name in names} == {(20, 0)}
    if fault:
        assert rows[fault] == (0, 20)
