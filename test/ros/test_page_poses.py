"""Frame poses of the page: what is on /tf and /tf_static, composed as tf2 does, by matrices of another library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.tf_messages import TfMessageReader
from usd_ros_bridge.view.tf_poses import FramePoses, levels

pytestmark = pytest.mark.app

trimesh = pytest.importorskip("trimesh", reason="viser brings trimesh: make setup-tests")
EXAMPLES = Path(__file__).parents[2] / "examples"
FLEET = EXAMPLES / "fleet" / "fleet.usda"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"


def transform(parent: str, child: str, numbers, stamp: int = 0) -> TransformStamped:
    message = TransformStamped()
    message.header.frame_id, message.child_frame_id = parent, child
    message.header.stamp.sec = stamp
    t, r = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z, r.x, r.y, r.z, r.w = map(float, numbers)
    return message


def random_poses(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    poses = random.normal(size=(count, 7))
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    return poses


def matrix(pose) -> np.ndarray:
    """`parent_from_child` by trimesh, whose quaternions have the scalar first."""
    found = trimesh.transformations.quaternion_matrix(np.roll(pose[3:], 1))
    found[:3, 3] = pose[:3]
    return found


class Tree:
    """The transforms of one pair of topics, as tf2 keeps them: the newest of each child."""

    def __init__(self) -> None:
        self.newest: dict[str, tuple[str, np.ndarray]] = {}

    def receive(self, message: TFMessage) -> None:
        for each in message.transforms:
            t, r = each.transform.translation, each.transform.rotation
            self.newest[each.child_frame_id] = (
                each.header.frame_id,
                matrix(np.array([t.x, t.y, t.z, r.x, r.y, r.z, r.w])),
            )

    def look_up(self, frame: str, fixed: str = "world") -> np.ndarray | None:
        found = np.eye(4)
        while frame != fixed:
            if frame not in self.newest:
                return None
            frame, parent_from_frame = self.newest[frame]
            found = parent_from_frame @ found
        return found


# --- Messages ---


def test_names_and_numbers_of_any_message_are_those_that_rclpy_reads() -> None:
    reader = TfMessageReader()
    for seed, count in enumerate((0, 1, 2, 3, 7, 30)):
        names = [
            ("world" if not n else f"link{'x' * n}_{n - 1}", f"link{'x' * (n + 1)}_{n}") for n in range(count)
        ]
        for repeat in range(3):
            poses = random_poses(count, seed * 10 + repeat)
            sent = TFMessage(
                transforms=[
                    transform(*pair, pose, stamp=repeat) for pair, pose in zip(names, poses, strict=True)
                ]
            )
            found = reader.read(serialize_message(sent))
            assert found is not None
            assert list(zip(found[0].parents, found[0].children, strict=True)) == names
            np.testing.assert_array_equal(found[1], poses)


def test_a_layout_is_read_once_and_then_recognised() -> None:
    reader = TfMessageReader()
    first, second = (
        serialize_message(TFMessage(transforms=[transform("a", "b", pose)])) for pose in random_poses(2, 1)
    )
    other = serialize_message(TFMessage(transforms=[transform("a", "c", random_poses(1, 2)[0])]))
    names = reader.read(first)[0]
    assert reader.read(second)[0] is names
    assert reader.read(other)[0].children == ("c",)
    assert reader.read(first)[0] is names


def test_of_messages_that_wait_the_newest_of_each_layout_is_read() -> None:
    reader = TfMessageReader()
    poses = random_poses(5, 3)
    names = ["b", "c", "b", "c", "b"]
    messages = [
        serialize_message(TFMessage(transforms=[transform("a", child, pose)]))
        for child, pose in zip(names, poses, strict=True)
    ]
    found = reader.read_newest(messages)
    assert [each.children for each, _ in found] == [("c",), ("b",)]
    np.testing.assert_array_equal(found[0][1][0], poses[3])
    np.testing.assert_array_equal(found[1][1][0], poses[4])


@pytest.mark.parametrize("end", [0, 3, 4, 7, 9, 20, 60])
def test_a_message_that_is_cut_off_is_not_read(end: int) -> None:
    whole = serialize_message(TFMessage(transforms=[transform("world", "base", (0, 0, 0, 0, 0, 0, 1))]))
    assert TfMessageReader().read(whole[:end]) is None


def test_other_encapsulations_are_read_by_rclpy() -> None:
    poses = np.ones((1, 7))
    reader = TfMessageReader(lambda _: (["b"], ["a"], poses))
    names, found = reader.read(b"\x00\x00\x00\x00rest")
    assert names.children == ("b",)
    assert found is poses


# --- Composition ---


def test_levels_are_the_depths_of_a_forest_and_leave_out_cycles() -> None:
    found = levels(np.array([-1, 0, 1, 0, -1, 4, 7, 6]))
    assert [each.tolist() for each in found] == [[0, 4], [1, 3, 5], [2]]


@pytest.fixture(params=["namespaced", "global", "shared"])
def fleet(request) -> BridgePlan:
    return load_plan(FLEET, plan_options=PlanOptions(tf_output=request.param))


def test_at_rest_frames_are_where_the_plan_has_their_bodies(fleet: BridgePlan) -> None:
    frames = FramePoses(fleet)
    compared = 0
    for number, robot in enumerate(fleet.robots):
        for frame in robot.frames:
            world_from_frame = matrix(
                np.concatenate([frame.carrier_from_frame.translation, frame.carrier_from_frame.rotation])
            )
            if frame.carrier >= 0:
                world_from_frame = matrix(fleet.layout.body_pose[frame.carrier]) @ world_from_frame
            row = frames.rows[number, frame.id]
            found = matrix(np.concatenate([frames.positions[row], np.roll(frames.rotations[row], -1)]))
            np.testing.assert_allclose(found, world_from_frame, atol=1e-6)
            compared += 1
    assert compared > 20


def test_messages_are_composed_as_tf2_does(fleet: BridgePlan) -> None:
    frames = FramePoses(fleet)
    reader, trees = TfMessageReader(), {}
    for number, robot in enumerate(fleet.robots):
        output = robot.tf_outputs[0]
        key = (robot.domain_id, output.tf, output.tf_static)
        prefix = output.prefix
        poses = random_poses(len(robot.frames), number)
        message = TFMessage(
            transforms=[
                transform(
                    frame.parent if frame.parent == robot.parent_frame else prefix + frame.parent,
                    prefix + frame.id,
                    pose,
                )
                for frame, pose in zip(robot.frames, poses, strict=True)
            ]
        )
        # Another node says where odometry began.
        message.transforms.append(transform("world", f"{prefix}odom", random_poses(1, 100 + number)[0]))
        trees.setdefault(key, Tree()).receive(message)
        assert frames.receive([(key, *reader.read(serialize_message(message)))])
        assert not frames.receive([(key, *reader.read(serialize_message(message)))])
    frames.compose()
    assert frames.known.all()
    for (number, frame_id), row in frames.rows.items():
        output = fleet.robots[number].tf_outputs[0]
        tree = trees[fleet.robots[number].domain_id, output.tf, output.tf_static]
        expected = tree.look_up(output.prefix + frame_id)
        assert expected is not None
        found = matrix(np.concatenate([frames.positions[row], np.roll(frames.rotations[row], -1)]))
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_pose_that_is_not_finite_or_turns_nowhere_is_ignored() -> None:
    plan = load_plan(ARM)
    frames = FramePoses(plan)
    output = plan.robots[0].tf_outputs[0]
    key = (plan.robots[0].domain_id, output.tf, output.tf_static)
    before = frames.positions.copy()
    frame = plan.robots[0].frames[1]
    for numbers in ((np.nan, 0, 0, 0, 0, 0, 1), (5, 0, 0, 0, 0, 0, 0), (np.inf, 0, 0, 0, 0, 0, 1)):
        message = TFMessage(transforms=[transform(frame.parent, frame.id, numbers)])
        assert not frames.receive([(key, *TfMessageReader().read(serialize_message(message)))])
    np.testing.assert_array_equal(frames.positions, before)


# --- Over DDS ---


@pytest.fixture
def graph() -> Iterator[GraphClient]:
    client = GraphClient(report=lambda kind, message: pytest.fail(f"{kind}: {message}")).open()
    yield client
    client.close()


@pytest.mark.parametrize("asset", [ROVER, ARM, FLEET], ids=lambda path: path.stem)
def test_poses_of_a_running_bridge_are_those_of_another_subscriber(
    asset: Path, start: Callable, graph: GraphClient, ros_harness
) -> None:
    plan = load_plan(asset)
    start(plan, "kinematic")
    trees: dict[tuple, Tree] = {}
    static = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    for robot in plan.robots:
        output = robot.tf_outputs[0]
        tree = trees.setdefault((output.tf, output.tf_static), Tree())
        ros_harness.node.create_subscription(TFMessage, output.tf, tree.receive, 100)
        ros_harness.node.create_subscription(TFMessage, output.tf_static, tree.receive, static)
    frames = FramePoses(plan)
    frames.resume(graph)
    end = time.monotonic() + 90.0
    while not frames.known.all() or any(
        trees[o.tf, o.tf_static].newest.keys() < {f.id for f in r.frames}
        for r in plan.robots
        for o in r.tf_outputs[:1]
    ):
        assert time.monotonic() < end, (
            f"unknown: {[key for key, row in frames.rows.items() if not frames.known[row]]}"
        )
        frames.update()
        ros_harness.executor.spin_once(timeout_sec=0.02)
    compared = 0
    for (number, frame_id), row in frames.rows.items():
        output = plan.robots[number].tf_outputs[0]
        expected = trees[output.tf, output.tf_static].look_up(frame_id)
        if expected is None:
            # It hangs from odom, which tf2 knows nothing about.
            continue
        found = matrix(np.concatenate([frames.positions[row], np.roll(frames.rotations[row], -1)]))
        np.testing.assert_allclose(found, expected, atol=1e-9)
        compared += 1
    assert compared or asset == ROVER
    frames.pause()
    assert not frames.update()
