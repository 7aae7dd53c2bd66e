"""Plans of real stages: kinematics and frames at rest give back the poses that the stage authors."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.plans import rest_of
from case_tables import each_case
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.backends.playback import PlaybackBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray, pose_array, to_matrix

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

ROOT = Path(__file__).resolve().parents[3]
ASSETS = [
    *(ROOT / "examples" / name for name in ("rover/world.usda", "arm/arm.usda", "fleet/fleet.usda")),
    *sorted((ROOT / "test/assets").glob("joint_*.usda")),
    *sorted((ROOT / "test/assets").glob("frame_*.usda")),
    *sorted((ROOT / "test/assets").glob("units_*.usda")),
    *sorted((ROOT / "test/assets").glob("error_joint_*.usda")),
    ROOT / "test/assets/instance_proxies.usda",
    ROOT / "test/assets/scale_on_body.usda",
]
# Joint frames are stored as float32.
TOLERANCE = 1e-6


@cache
def plan_of(asset: Path) -> BridgePlan:
    from usd_ros_bridge.api import load_plan

    return load_plan(str(asset))


@each_case("asset", ASSETS)
def test_joints_at_rest_put_bodies_where_they_are_authored(asset: Path) -> None:
    plan = plan_of(asset)
    bodies = Kinematics(plan).body_poses(rest_of(plan))
    assert_allclose(to_matrix(bodies), to_matrix(plan.layout.body_pose), atol=TOLERANCE)


@each_case("joint_driven", [True, False])
@each_case("asset", ASSETS)
def test_frames_at_rest_are_where_they_are_authored(asset: Path, joint_driven: bool) -> None:
    plan = plan_of(asset)
    kinematics, reporter = Kinematics(plan), OnceReporter(lambda _kind, _message: None)
    frames = FrameTable(plan, kinematics, joint_driven=joint_driven, report=reporter.report)
    snapshot = Snapshot(plan, kinematics, frames, joint_driven=joint_driven)
    snapshot.begin(rest_of(plan))
    for index, robot in enumerate(plan.robots):
        for row, number in enumerate(frames.robots[index].moving):
            if number == robot.base and robot.base_transform == "odometry":
                continue
            expected = pose_array(robot.frames[number].parent_from_frame)
            actual = snapshot.frame_poses(index)[row]
            assert_allclose(
                to_matrix(actual), to_matrix(expected), atol=TOLERANCE, err_msg=robot.frames[number].id
            )
    assert reporter.reported() == ()


@each_case("asset", ASSETS)
def test_measured_poses_and_joint_positions_agree_away_from_rest(asset: Path) -> None:
    plan = plan_of(asset)
    kinematics, report = Kinematics(plan), OnceReporter(lambda _kind, _message: None).report
    shown: list[FloatArray] = []
    state = rest_of(plan)
    state.joint_position += np.random.default_rng(7).uniform(-0.5, 0.5, len(state.joint_position))
    bodies = kinematics.body_poses(state)
    for joint_driven in (True, False):
        frames = FrameTable(plan, kinematics, joint_driven=joint_driven, report=report)
        snapshot = Snapshot(plan, kinematics, frames, joint_driven=joint_driven)
        snapshot.begin(rest_of(plan))  # odometry starts here for both
        snapshot.reset()
        state.body_pose[:] = plan.layout.body_pose if joint_driven else bodies
        snapshot.begin(state)
        shown.append(snapshot.all_frame_poses.copy())
    assert_allclose(to_matrix(shown[0]), to_matrix(shown[1]), atol=TOLERANCE)


@each_case("backend", [NullBackend, KinematicBackend, PlaybackBackend])
@each_case("asset", ASSETS)
def test_every_backend_runs_every_asset_without_a_fault(asset: Path, backend: type) -> None:
    plan = plan_of(asset)
    reporter = OnceReporter(lambda _kind, _message: None)
    with Runtime(plan, backend(), reporter=reporter) as runtime:
        runtime.tick(1_000_000_000)
        assert np.isfinite(runtime.snapshot.all_frame_poses).all()
        runtime.tick(1_500_000_000)
        assert np.isfinite(runtime.snapshot.all_frame_poses).all()
        assert np.isfinite(runtime.snapshot.body_twist).all()
    assert {report.kind for report in reporter.reported()} <= {"playback.empty"}


def test_an_animated_asset_plays() -> None:
    plan = plan_of(ROOT / "test/assets/frame_animated.usda")
    assert plan.scene.pose_tracks
    with Runtime(plan, PlaybackBackend()) as runtime:
        first = plan.scene.pose_tracks[0]
        runtime.tick(0)
        assert_allclose(runtime.snapshot.body_pose[first.row], first.world_from_body[0], atol=1e-9)
        runtime.tick(round((first.time[-1] - first.time[0]) * 0.5e9))
        assert not np.allclose(runtime.snapshot.body_pose[first.row], first.world_from_body[0])
