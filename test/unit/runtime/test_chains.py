"""Kinematic chains: code that is made for one chain gives the numbers of the general way, and those of arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders.plans import Axis, PlanBuilder
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.chains import LONGEST, Chains
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.pose import Pose

HALF = 0.5**0.5
ENDS = (
    Pose(),
    Pose((0.1, 0.0, -0.25)),
    Pose((0.0, 0.3, 0.0), (HALF, 0.0, 0.0, HALF)),
    Pose((0.3, 0.2, 0.1), (0.5, -0.5, 0.5, 0.5)),
)
Joint = tuple[str, Axis, Pose, Pose]
JOINTS = st.lists(
    st.tuples(
        st.sampled_from(["revolute", "prismatic", "fixed"]),
        st.sampled_from(["X", "Y", "Z"]),
        st.sampled_from(ENDS),
        st.sampled_from(ENDS),
    ),
    min_size=1,
    max_size=LONGEST + 2,
)


def arm(joints: list[Joint], *, anchored: bool) -> BridgePlan:
    robot = PlanBuilder().robot("/arm")
    robot.body("body0")
    if anchored:
        robot.joint("anchor", "", "body0", kind="fixed")
    for number, (kind, axis, start, end) in enumerate(joints):
        robot.body(f"body{number + 1}")
        robot.joint(
            f"joint{number}",
            f"body{number}",
            f"body{number + 1}",
            kind=kind,
            axis=axis,
            body0_from_joint=start,
            body1_from_joint=end,
        )
    return robot.plan.build()


# All products of a component are -0.0.
NEGATIVE_ZERO: list[Joint] = [
    ("revolute", "X", ENDS[3], ENDS[2]),
    ("revolute", "X", ENDS[0], ENDS[3]),
    ("revolute", "X", ENDS[0], ENDS[2]),
    ("revolute", "X", ENDS[2], ENDS[0]),
    ("revolute", "Y", ENDS[2], ENDS[2]),
]


@settings(deadline=None)
@example(NEGATIVE_ZERO, True, 0.5, 79)
@given(JOINTS, st.booleans(), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 1000))
def test_code_for_a_chain_gives_the_numbers_of_the_general_way(
    joints: list[Joint], anchored: bool, zeroes: float, seed: int
) -> None:
    plan = arm(joints, anchored=anchored)
    random = np.random.default_rng(seed)
    state = State.initial(plan.layout)
    state.joint_position[:] = random.uniform(-4.0, 4.0, len(state.joint_position))
    state.joint_position[random.random(len(state.joint_position)) < zeroes] = -0.0
    if not anchored:
        turn = random.normal(size=4)
        state.body_pose[0] = [*random.normal(size=3), *(turn / np.linalg.norm(turn))]
    kinematics = Kinematics(plan)
    edges = kinematics.edge_poses(state.joint_position)
    last = len(joints)
    alone = Chains(kinematics).pose(last, edges, state.body_pose, {})
    # Somebody asks for every body: each is then computed once.
    chains, known = Chains(kinematics), {}
    for row in range(last + 1):
        if kinematics.driven[row]:
            chains.pose(row, edges, state.body_pose, known)
    in_steps = chains.pose(last, edges, state.body_pose, {})
    assert in_steps == known[last]
    # By their bytes: they go into messages, where zeroes have a sign.
    assert np.array(alone).tobytes() == np.array(in_steps).tobytes()
    np.testing.assert_allclose(alone, kinematics.body_poses(state)[last], rtol=0.0, atol=1e-12)


def test_a_body_on_the_way_that_is_asked_for_later_is_shared() -> None:
    plan = arm([("revolute", "Z", Pose((0.1, 0.0, 0.0)), Pose())] * 6, anchored=True)
    kinematics, state = Kinematics(plan), State.initial(plan.layout)
    state.joint_position[:] = 0.5
    edges, chains = kinematics.edge_poses(state.joint_position), Chains(kinematics)
    before = chains.pose(6, edges, state.body_pose, {})
    chains.pose(3, edges, state.body_pose, {})
    known: dict[int, list[float]] = {}
    assert chains.pose(6, edges, state.body_pose, known) == before
    assert 3 in known


def test_a_position_that_is_not_finite_shows_in_the_pose() -> None:
    plan = arm([("revolute", "Z", Pose((0.1, 0.0, 0.0)), Pose())] * 3, anchored=True)
    kinematics, state = Kinematics(plan), State.initial(plan.layout)
    state.joint_position[1] = np.nan
    edges = kinematics.edge_poses(state.joint_position)
    assert not np.isfinite(sum(Chains(kinematics).pose(3, edges, state.body_pose, {})))
