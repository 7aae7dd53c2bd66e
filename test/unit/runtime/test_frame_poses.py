"""Frames between two carriers: one by one as floats, and all at once, against products of matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.plans import PlanBuilder, rest_of
from case_tables import each_case
from usd_ros_bridge.runtime import frame_poses
from usd_ros_bridge.runtime.frame_poses import WORLD, FrameTable, PosedFrame, posed_frames
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, exponential, to_matrix

BODIES = 3
number = st.floats(-3.0, 3.0, allow_subnormal=False)


@st.composite
def poses(draw: st.DrawFn) -> FloatArray:
    if draw(st.booleans()):
        return IDENTITY.copy()
    vector = np.array([draw(number) for _ in range(6)])
    return np.concatenate((vector[:3], exponential(vector[3:])))


@st.composite
def frames(draw: st.DrawFn) -> PosedFrame:
    carrier = draw(st.integers(WORLD, BODIES - 1))
    parent = draw(st.integers(WORLD, BODIES - 1))
    return PosedFrame(
        slot=0,
        carrier=carrier,
        carrier_from_frame=draw(poses()),
        parent_carrier=parent,
        carrier_from_parent=draw(poses()),
        from_start=parent >= 0 and draw(st.booleans()),
    )


def seen(start: FloatArray, now: FloatArray) -> tuple[Kinematics, Snapshot]:
    """Bodies that nothing joins, which were at `start` and are at `now`, poses (BODIES, 7)."""
    robot = PlanBuilder().robot()
    for index in range(BODIES):
        robot.body(f"body{index}")
    plan = robot.plan.build()
    kinematics = Kinematics(plan)
    table = FrameTable(plan, kinematics, joint_driven=True, report=lambda *_: None)
    snapshot = Snapshot(plan, kinematics, table, joint_driven=True)
    for time_ns, poses_then in enumerate((start, now)):
        state = rest_of(plan)
        state.time_ns = time_ns
        state.body_pose[:] = poses_then
        snapshot.begin(state)
    return kinematics, snapshot


def written(parts: list[PosedFrame], start: FloatArray, now: FloatArray, few: int) -> tuple[FloatArray, bool]:
    """Frames in every second column of an array."""
    kinematics, snapshot = seen(start, now)
    components = np.full((7, 2 * len(parts)), 5.0)
    placed = [replace(frame, slot=2 * place) for place, frame in enumerate(parts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_poses, "FEW", few)
        writer = posed_frames(placed, kinematics, joint_driven=True, components=components)
    assert writer is not None
    finite = writer.write(snapshot)
    assert (components[:, 1::2] == 5.0).all()
    return components[:, ::2].T, finite


def world_from(carrier: int, offset: FloatArray, carriers: FloatArray) -> FloatArray:
    return (to_matrix(carriers[carrier]) if carrier >= 0 else np.eye(4)) @ to_matrix(offset)


@settings(deadline=None)
@given(st.lists(frames(), min_size=1, max_size=5), st.lists(poses(), min_size=6, max_size=6))
@pytest.mark.parametrize("few", [0, 5], ids=["numpy", "floats"])
def test_frames_are_the_difference_of_two_poses(
    few: int, parts: list[PosedFrame], body_poses: list[FloatArray]
) -> None:
    now, start = np.array(body_poses[:BODIES]), np.array(body_poses[BODIES:])
    actual, finite = written(parts, start, now, few)
    assert finite
    for frame, pose in zip(parts, actual, strict=True):
        parents = start if frame.from_start else now
        world_from_parent = world_from(frame.parent_carrier, frame.carrier_from_parent, parents)
        world_from_frame = world_from(frame.carrier, frame.carrier_from_frame, now)
        np.testing.assert_allclose(
            to_matrix(pose), np.linalg.inv(world_from_parent) @ world_from_frame, rtol=0.0, atol=1e-12
        )


@each_case("few", [0, 1])
@each_case(
    ("body_pose", "spoilt"),
    [
        ([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0], [3, 4, 5, 6]),
        ([1.0, 2.0, 3.0, np.nan, 0.0, 0.0, 1.0], [3, 4, 5, 6]),
        ([1.0, np.nan, 3.0, 0.0, 0.0, 0.0, 1.0], [1]),
        ([1.0, 2.0, -np.inf, 0.0, 0.0, 0.0, 1.0], [2]),
    ],
)
def test_what_is_not_finite_shows(few: int, body_pose: list[float], spoilt: list[int]) -> None:
    frame = PosedFrame(
        slot=0,
        carrier=0,
        carrier_from_frame=IDENTITY,
        parent_carrier=WORLD,
        carrier_from_parent=IDENTITY,
        from_start=False,
    )
    body_poses = np.tile(body_pose, (BODIES, 1))
    actual, finite = written([frame], body_poses, body_poses, few)
    assert not finite
    assert np.flatnonzero(~np.isfinite(actual[0])).tolist() == spoilt


def test_no_frames() -> None:
    kinematics, _ = seen(*2 * [np.tile(IDENTITY, (BODIES, 1))])
    assert posed_frames([], kinematics, joint_driven=True, components=np.empty((7, 0))) is None
