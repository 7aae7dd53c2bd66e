"""The playback backend and its interpolation, against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation, Slerp

from builders.plans import PlanBuilder, gripper, rest_of, rover
from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge.backends.playback import PlaybackBackend
from usd_ros_bridge.backends.time_samples import PoseTracks, ScalarTracks
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, Scene
from usd_ros_bridge.model.state import JointTrack, PoseTrack
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose, to_matrix

SECOND = 1_000_000_000


def joint_track(row: int, *keys: tuple[float, float]) -> JointTrack:
    return JointTrack(
        row=row, time=np.array([key[0] for key in keys]), position=np.array([key[1] for key in keys])
    )


class Bench(OpenBackend):
    """An open backend; times are seconds since its first step, which is at an odd time."""

    def __init__(self, plan: BridgePlan, **options: str) -> None:
        super().__init__(plan, PlaybackBackend(), first=1_234_567_891_000_000_000, **options)

    def wheel(self, seconds: float) -> float:
        return float(self.at(seconds).joint_position[0])


def wheel_plan(start: float | None = None, end: float | None = None) -> BridgePlan:
    scene = Scene(joint_tracks=(joint_track(0, (1.0, 0.0), (2.0, 10.0), (4.0, 0.0)),), start=start, end=end)
    return rover().build(scene)


def test_plays_the_range_of_the_samples_and_starts_over() -> None:
    bench = Bench(wheel_plan())
    played = [bench.wheel(t) for t in (0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 3.5, 30.25)]
    assert_allclose(played, [0.0, 5.0, 10.0, 5.0, 2.5, 0.0, 5.0, 2.5], atol=1e-6)


def test_plays_the_stages_range_where_it_has_one_and_holds_outside_the_samples() -> None:
    bench = Bench(wheel_plan(start=0.0, end=5.0))
    assert_allclose([bench.wheel(t) for t in (0.0, 0.9, 1.5, 4.5, 5.0)], [0.0, 0.0, 5.0, 0.0, 0.0], atol=1e-6)
    assert bench.at(0.5).joint_velocity[0] == 0.0
    assert bench.at(1.5).joint_velocity[0] == pytest.approx(10.0)
    assert bench.at(3.0).joint_velocity[0] == pytest.approx(-5.0)


def test_rate_start_and_end_are_options() -> None:
    bench = Bench(wheel_plan(), rate="0.5", start="1.5", end="2.5")
    assert_allclose([bench.wheel(t) for t in (0.0, 0.5, 1.0, 2.0)], [5.0, 7.5, 10.0, 5.0], atol=1e-6)
    assert bench.at(0.5).joint_velocity[0] == pytest.approx(5.0)


def test_without_loop_it_stays_at_the_end() -> None:
    bench = Bench(wheel_plan(), loop="false", end="3.0")
    bench.at(0.0)
    assert_allclose([bench.wheel(t) for t in (0.5, 2.0, 9.0)], [5.0, 5.0, 5.0], atol=1e-6)
    assert bench.at(9.0).joint_velocity[0] == 0.0


def test_a_reset_starts_over_at_any_time() -> None:
    bench = Bench(wheel_plan())
    bench.at(0.0)
    assert bench.wheel(1.0) == pytest.approx(10.0)
    bench.backend.reset()
    bench.first = 17
    assert bench.wheel(0.0) == 0.0


@each_case("options", [{"rate": "0"}, {"rate": "-1"}, {"start": "3", "end": "2"}, {"start": "9"}])
def test_impossible_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(BackendError, match="playback"):
        Bench(wheel_plan(), **options)


def test_a_joint_without_samples_holds_but_a_mimic_joint_follows_its_leader() -> None:
    builder = gripper()
    left = builder.robots[0].row("left_finger_joint")
    bench = Bench(builder.build(Scene(joint_tracks=(joint_track(left, (0.0, 0.0), (1.0, 0.04)),))))
    bench.at(0.0)
    state = bench.at(0.5)
    assert_allclose(state.joint_position, [0.3, 0.02, 0.021])
    assert_allclose(state.joint_velocity, [0.0, 0.04, 0.04])


def test_a_stage_without_samples_shows_the_authored_state_and_says_so() -> None:
    bench = Bench(gripper(rover()).build())
    assert_allclose(bench.at(3.0).joint_position, bench.plan.layout.joint_position)
    assert_allclose(bench.at(3.0).body_pose, bench.plan.layout.body_pose)
    assert bench.kinds == ["playback.empty"]
    assert bench.backend.capabilities.joint_driven


def test_a_base_moves_along_its_samples_with_its_velocity() -> None:
    start, end = pose((0.0, 0.0, 0.0)), pose((2.0, 0.0, 0.0), (0.0, 0.0, np.sin(0.5), np.cos(0.5)))
    track = PoseTrack(row=0, time=np.array([0.0, 2.0]), world_from_body=np.array([start, end]))
    bench = Bench(rover().build(Scene(pose_tracks=(track,))), rate="2")
    bench.at(0.0)
    state = bench.at(0.5)
    assert_allclose(
        to_matrix(state.body_pose[0]),
        to_matrix(pose((1.0, 0.0, 0.0), (0.0, 0.0, np.sin(0.25), np.cos(0.25)))),
        atol=1e-6,
    )
    assert state.body_twist is not None
    assert_allclose(state.body_twist[0], [2.0, 0.0, 0.0, 0.0, 0.0, 1.0], atol=1e-9)
    assert bench.backend.capabilities.joint_driven


def recorded(builder: PlanBuilder, positions: FloatArray, rows: list[int] | None = None) -> BridgePlan:
    """Records body poses of given joint positions (T, D), one second apart."""
    plan = builder.build()
    kinematics, state = Kinematics(plan), rest_of(plan)
    poses = []
    for position in positions:
        state.joint_position[:] = position
        poses.append(kinematics.body_poses(state))
    time = np.arange(float(len(positions)))
    return builder.build(
        Scene(
            pose_tracks=tuple(
                PoseTrack(row=row, time=time, world_from_body=np.array([p[row] for p in poses]))
                for row in (range(len(plan.layout.bodies)) if rows is None else rows)
            )
        )
    )


def test_recorded_bodies_are_shown_as_recorded_and_their_joints_as_projected() -> None:
    rng = np.random.default_rng(5)
    positions = np.cumsum(rng.uniform(-1.0, 1.0, (6, 3)), axis=0)
    plan = recorded(rover(), positions)
    bench = Bench(plan)
    assert not bench.backend.capabilities.joint_driven
    for second, position in enumerate(positions[:-1]):
        state = bench.at(float(second))
        # Angles are known up to whole turns; the recording starts within half a turn of rest.
        assert_allclose(state.joint_position, position, atol=1e-6)
        assert_allclose(state.body_pose[0], plan.layout.body_pose[0], atol=1e-6)
        assert_allclose(
            to_matrix(state.body_pose[3]),
            to_matrix(plan.scene.pose_tracks[3].world_from_body[second]),
            atol=1e-6,
        )


def test_angles_go_on_beyond_half_a_turn() -> None:
    positions = np.array([[k * 1.0, 0.0, 0.0] for k in range(12)])
    bench = Bench(recorded(rover(), positions))
    assert_allclose([bench.wheel(float(second)) for second in range(11)], np.arange(11.0), atol=1e-6)


def test_prismatic_and_inverted_joints_are_projected_with_their_sign() -> None:
    robot = PlanBuilder().robot()
    robot.body("a")
    robot.body("b")
    robot.joint("turn", "a", "b", axis="X", inverted=True)
    robot.body("c")
    robot.joint("slide", "b", "c", axis="Z", kind="prismatic", inverted=True)
    positions = np.array([[0.0, 0.0], [0.5, -0.2], [1.0, 0.4]])
    bench = Bench(recorded(robot.plan, positions))
    bench.at(0.0)
    assert_allclose(bench.at(1.0).joint_position, positions[1], atol=1e-9)


def test_where_some_bodies_are_recorded_joints_carry_the_others_along() -> None:
    builder = gripper()
    robot = builder.robots[0]
    positions = np.array([[0.3, 0.0, 0.001], [0.9, 0.0, 0.001]])
    plan = recorded(builder, positions, rows=[robot.body_row("palm")])
    bench = Bench(plan)
    assert bench.backend.capabilities.joint_driven
    bench.at(0.0)
    assert_allclose(bench.at(0.5).joint_position[0], 0.6, atol=1e-9)


def test_a_fixed_base_needs_no_samples_to_show_bodies_as_recorded() -> None:
    positions = np.array([[0.3, 0.0, 0.001], [0.9, 0.02, 0.021]])
    builder = gripper()
    rows = [builder.robots[0].body_row(name) for name in ("palm", "left_finger", "right_finger")]
    assert not Bench(recorded(builder, positions, rows)).backend.capabilities.joint_driven


def test_a_joint_of_several_degrees_of_freedom_is_reported() -> None:
    robot = PlanBuilder().robot()
    robot.body("a")
    robot.body("b")
    robot.joint("ball", "a", "b", kind="spherical")
    bench = Bench(recorded(robot.plan, np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])))
    assert bench.kinds == ["playback.project:/robot/b"]
    bench.at(0.0)
    assert_allclose(
        to_matrix(bench.at(0.999999).body_pose[1]),
        to_matrix(bench.plan.scene.pose_tracks[1].world_from_body[1]),
        atol=1e-5,
    )


key_times = st.lists(st.integers(0, 100), min_size=1, max_size=8, unique=True).map(
    lambda t: np.array(sorted(t)) / 10.0
)


@settings(deadline=None)
@given(st.lists(key_times, min_size=1, max_size=6), st.integers(-20, 120), st.integers(0, 99))
def test_scalars_are_interpolated_as_numpy_does(times: list[FloatArray], tenths: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=len(time)) for time in times]
    at = tenths / 10.0
    found, rate = ScalarTracks(times, values).at(at)
    assert_allclose(
        found, [np.interp(at, time, value) for time, value in zip(times, values, strict=True)], atol=1e-9
    )
    for index, time in enumerate(times):
        if at < time[0] or at > time[-1] or len(time) == 1:
            assert rate[index] == 0.0


@settings(deadline=None)
@given(st.lists(key_times, min_size=1, max_size=4), st.floats(-1.0, 11.0), st.integers(0, 99))
def test_poses_are_interpolated_as_scipy_does(times: list[FloatArray], at: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns = [Rotation.random(len(time), random_state=seed + index) for index, time in enumerate(times)]
    poses = [
        np.concatenate((rng.normal(size=(len(time), 3)), turn.as_quat().reshape(-1, 4)), axis=1)
        for time, turn in zip(times, turns, strict=True)
    ]
    found, _ = PoseTracks(times, poses).at(at)
    for row, (time, keys, turn) in enumerate(zip(times, poses, turns, strict=True)):
        held = float(np.clip(at, time[0], time[-1]))
        assert_allclose(
            found[row, :3], [np.interp(held, time, keys[:, axis]) for axis in range(3)], atol=1e-9
        )
        expected = Slerp(time, turn)([held])[0] if len(time) > 1 else turn[0]
        assert abs(np.dot(found[row, 3:], expected.as_quat())) == pytest.approx(1.0)


def test_at_a_key_the_segment_that_begins_there_counts() -> None:
    tracks = ScalarTracks([np.array([0.0, 1.0, 2.0])], [np.array([0.0, 3.0, -2.0])])
    assert tracks.at(1.0)[1][0] == pytest.approx(-5.0)


def test_a_twist_of_a_track_is_the_motion_between_its_keys() -> None:
    start = pose((1.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5))
    end = compose(start, pose((0.0, 2.0, 0.0), (np.sin(0.3), 0.0, 0.0, np.cos(0.3))))
    tracks = PoseTracks([np.array([0.0, 4.0])], [np.array([start, end])])
    (before, _), (after, twist) = tracks.at(1.0), tracks.at(1.0 + 1e-6)
    assert_allclose(twist[0, :3], (after[0, :3] - before[0, :3]) / 1e-6, atol=1e-6)
    assert_allclose(np.linalg.norm(twist[0, 3:]), 0.6 / 4.0)
    assert not tracks.at(9.0)[1].any()


def test_no_tracks_at_all() -> None:
    assert ScalarTracks([], []).at(1.0)[0].shape == (0,)
    assert PoseTracks([], []).at(1.0)[0].shape == (0, 7)
