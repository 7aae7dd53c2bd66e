"""Single bodies: the poses and motions that all bodies at once have, whatever the tree, times and measurements."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from builders.plans import PlanBuilder, gripper, rest_of, rover
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.body_motion import BodyMotion, MotionTracker
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import compose, normalized, twist_exponential


def snapshot_of(plan: BridgePlan) -> Snapshot:
    kinematics = Kinematics(plan)
    frames = FrameTable(plan, kinematics, joint_driven=True, report=lambda _kind, _message: None)
    return Snapshot(plan, kinematics, frames, joint_driven=True)


def chain(links: int) -> BridgePlan:
    builder = PlanBuilder()
    robot = builder.robot()
    robot.body("base")
    for number in range(links):
        robot.body(f"link_{number}")
        robot.joint(
            f"joint_{number}",
            f"link_{number - 1}" if number else "base",
            f"link_{number}",
            axis=("X", "Y", "Z")[number % 3],  # type: ignore[arg-type]
        )
    return builder.build()


def move(state: State, generator: np.random.Generator) -> None:
    state.joint_position[:] = generator.uniform(-2.0, 2.0, state.joint_position.shape)
    twists = generator.uniform(-0.5, 0.5, (len(state.body_pose), 6))
    state.body_pose[:] = compose(state.body_pose, twist_exponential(twists))
    state.body_pose[:, 3:] = normalized(state.body_pose[:, 3:])


@each_case("plan", [rover().build(), gripper().build(), chain(12)])
@each_case("measured", [False, True])
def test_single_bodies_are_as_all_bodies(plan: BridgePlan, measured: bool) -> None:
    generator = np.random.default_rng(7)
    alone, together, state = snapshot_of(plan), snapshot_of(plan), rest_of(plan)
    state.body_twist = None
    # No time passes between two of the states, and it goes back at one.
    for time_ns in (0, 10_000_000, 10_000_000, 25_000_000, 20_000_000, 40_000_000, 50_000_000):
        state.time_ns = time_ns
        move(state, generator)
        if measured:
            state.body_twist = generator.uniform(-1.0, 1.0, (len(state.body_pose), 6))
            state.body_twist[0, 2] = np.nan
        alone.begin(state)
        together.begin(state)
        twists, accelerations = together.body_twist, together.body_acceleration
        for row in reversed(range(len(plan.layout.bodies))):
            assert_allclose(alone.body(row), together.body_pose[row], atol=1e-12)
            assert_allclose(alone.acceleration(row), accelerations[row], rtol=1e-9, atol=1e-6)
            assert_allclose(alone.twist(row), twists[row], rtol=1e-9, atol=1e-9)


def test_what_was_before_a_reset_does_not_count() -> None:
    snapshot, state = snapshot_of(rover().build()), rest_of(rover().build())
    state.body_twist = None
    for time_ns in (0, 10_000_000):
        state.time_ns = time_ns
        state.body_pose[0, 0] += 0.1
        snapshot.begin(state)
        twist = snapshot.twist(0)
    assert_allclose(twist[0], 10.0)
    snapshot.reset()
    state.time_ns, state.body_pose[0, 0] = 5_000_000, 3.0
    snapshot.begin(state)
    assert_allclose(snapshot.twist(0), 0.0)
    assert_allclose(snapshot.acceleration(0), 0.0)


def test_a_pose_that_is_not_finite_is_passed_on_and_forgotten() -> None:
    motion, tracker = BodyMotion(), MotionTracker(1)
    rest = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    for tick, height in enumerate((0.0, np.nan, np.inf, 1.0, 1.5)):
        pose = rest.copy()
        pose[0, 2] = height
        with np.errstate(invalid="ignore"):
            tracker.observe(np.array([tick * 1_000_000_000]), pose, None)
        motion.observe(tick * 1_000_000_000, pose[0].tolist(), None)
        assert_allclose(motion.twist, tracker.twist[0])
        assert np.isfinite(motion.twist).all() == (tick in (0, 4))
