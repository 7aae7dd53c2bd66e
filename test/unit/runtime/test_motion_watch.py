"""What no robot does is said once a joint or base: by the motion that a test gives, and by physics that goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from builders.physics import with_physics
from builders.plans import PlanBuilder, gripper, rest_of, rover
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.model.physics import Drive
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.motion_watch import MotionWatch
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.pose import Pose

MS = 1_000_000
SECOND = 1_000_000_000
PALM, LEFT, RIGHT = "palm_joint", "left_finger_joint", "right_finger_joint"
WHEELS = ("left_wheel_joint", "right_wheel_joint")
RADIUS = 0.05
Motion = Callable[[State, float], None]
"""Set the state of a time, seconds."""


class Watched:
    """A watch of a plan, and what it said."""

    def __init__(self, plan: BridgePlan, *, kinematic: bool = False, period_ns: int = 10 * MS) -> None:
        self.plan, self.period_ns = plan, period_ns
        self.said: list[tuple[str, str]] = []
        self.watch = MotionWatch(plan, lambda *report: self.said.append(report), kinematic=kinematic)
        self.state = rest_of(plan)
        self.state.body_twist = np.zeros((len(plan.layout.bodies), 6))
        self.time_ns = 0

    def run(self, seconds: float, motion: Motion) -> list[str]:
        """Watches for some time. Returns the kinds of what was said."""
        for _ in range(round(seconds * SECOND) // self.period_ns):
            self.time_ns += self.period_ns
            self.state.time_ns = self.time_ns
            motion(self.state, self.time_ns / SECOND)
            self.watch.observe(self.state)
        return [kind for kind, _ in self.said]


def row(plan: BridgePlan, dof: str) -> int:
    return plan.layout.dofs.index(dof)


def at(plan: BridgePlan, dof: str, position: float) -> Motion:
    """Returns the motion of a joint that stands somewhere."""

    def stand(state: State, _seconds: float) -> None:
        state.joint_position[row(plan, dof)] = position

    return stand


# --- Limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dof", "position", "path"),
    [
        # 10 % of the range of 6 rad are 0.6 rad; the finger's 10 mm are more than 10 % of its 40 mm.
        (PALM, 3.0 + 0.61, "/gripper/joints/palm_joint"),
        (PALM, -3.0 - 0.61, "/gripper/joints/palm_joint"),
        (LEFT, 0.04 + 0.0101, "/gripper/joints/left_finger_joint"),
        (LEFT, -0.0101, "/gripper/joints/left_finger_joint"),
    ],
)
def test_a_joint_far_beyond_a_limit_is_said_once_after_half_a_second(
    dof: str, position: float, path: str
) -> None:
    plan = gripper().build()
    watched = Watched(plan)
    assert watched.run(0.45, at(plan, dof, position)) == []
    assert watched.run(0.15, at(plan, dof, position)) == [f"joint.beyond_limits:{path}"]
    message = watched.said[0][1]
    assert dof in message
    assert f"{position:.4g}" in message
    watched.run(0.5, at(plan, dof, 0.0))
    assert len(watched.run(5.0, at(plan, dof, position))) == 1


@pytest.mark.parametrize(
    ("dof", "position"),
    [(PALM, 3.0 + 0.59), (PALM, -3.0 - 0.59), (LEFT, 0.0499), (LEFT, -0.0099), (RIGHT, 3.0)],
)
def test_a_joint_a_little_beyond_a_limit_or_a_follower_is_not_said(dof: str, position: float) -> None:
    plan = gripper().build()
    assert Watched(plan).run(2.0, at(plan, dof, position)) == []


def test_a_joint_that_comes_back_in_between_is_not_said() -> None:
    plan = gripper().build()

    def bounce(state: State, seconds: float) -> None:
        state.joint_position[row(plan, LEFT)] = -0.02 if seconds % 0.4 < 0.3 else 0.01

    assert Watched(plan).run(5.0, bounce) == []


@pytest.mark.parametrize(("limits", "beyond"), [((0.0, np.inf), -0.2), ((-np.inf, 0.0), 0.2)])
def test_a_joint_with_one_limit_has_no_range(limits: tuple[float, float], beyond: float) -> None:
    builder = PlanBuilder()
    robot = builder.robot("/door")
    robot.body("frame")
    robot.body("leaf")
    robot.joint("hinge", "frame", "leaf", limits=limits)
    plan = builder.build()
    watched = Watched(plan)
    assert watched.run(1.0, at(plan, "hinge", 0.45 * beyond)) == []
    assert watched.run(1.0, at(plan, "hinge", beyond)) == ["joint.beyond_limits:/door/joints/hinge"]


def test_time_that_starts_over_starts_the_half_second_over() -> None:
    plan = gripper().build()
    watched = Watched(plan)
    watched.run(0.45, at(plan, LEFT, -0.1))
    watched.watch.reset()
    watched.time_ns = 0
    assert watched.run(0.45, at(plan, LEFT, -0.1)) == []
    assert len(watched.run(0.2, at(plan, LEFT, -0.1))) == 1


# --- Bases -----------------------------------------------------------------------------------------------------------


def driven_rover() -> BridgePlan:
    builder = rover()
    parameters = {
        "wheel_separation": 0.4,
        "wheel_radius": RADIUS,
        "left_wheels": WHEELS[:1],
        "right_wheels": WHEELS[1:],
    }
    builder.robots[0].controller("drive", "RosControlDiffDriveAPI", WHEELS, parameters=parameters)
    return builder.build()


def moving(plan: BridgePlan, linear: float, angular: float, left: float, right: float) -> Motion:
    """Returns the motion of a rover along its own X, and the speeds of its wheels at their rims, m/s."""
    base = plan.robots[0].base_row

    def move(state: State, _seconds: float) -> None:
        assert state.body_twist is not None
        state.body_twist[base] = (0.0, linear, 0.0, 0.0, 0.0, angular)
        state.joint_velocity[[row(plan, wheel) for wheel in WHEELS]] = np.array([left, right]) / RADIUS

    return move


@pytest.mark.parametrize(
    ("linear", "wheels", "said"),
    [(1.65, 0.5, True), (0.751, 0.5, True), (0.749, 0.5, False), (0.06, 0.0, True), (0.04, 0.0, False)],
)
def test_a_base_that_is_faster_than_its_wheels_is_said_after_a_second(
    linear: float, wheels: float, said: bool
) -> None:
    plan = driven_rover()
    watched = Watched(plan)
    assert watched.run(0.95, moving(plan, linear, 0.0, -wheels, wheels)) == []
    expected = ["base.faster_than_wheels:/rover"] if said else []
    assert watched.run(3.0, moving(plan, linear, 0.0, -wheels, wheels)) == expected


def test_a_base_whose_origin_is_far_from_its_wheels_turns_on_the_spot_without_a_word() -> None:
    """The origin is 1 m ahead of the axle: it moves at 1 m/s while the wheels' rims move at 0.2 m/s."""
    builder = PlanBuilder()
    robot = builder.robot("/rover")
    robot.body("base_link")
    for side, y in (("left", 0.2), ("right", -0.2)):
        robot.body(f"{side}_wheel")
        robot.joint(
            f"{side}_wheel_joint",
            "base_link",
            f"{side}_wheel",
            axis="Y",
            kind="continuous",
            body0_from_joint=Pose((-1.0, y, 0.0)),
        )
    parameters = {
        "wheel_separation": 0.4,
        "wheel_radius": RADIUS,
        "left_wheels": WHEELS[:1],
        "right_wheels": WHEELS[1:],
    }
    robot.controller("drive", "RosControlDiffDriveAPI", WHEELS, parameters=parameters)
    plan = builder.build()
    assert Watched(plan).run(3.0, moving(plan, 1.0, 1.0, -0.2, 0.2)) == []
    assert Watched(plan).run(3.0, moving(plan, 1.4, 1.0, -0.2, 0.2)) == ["base.faster_than_wheels:/rover"]


def test_what_a_kinematic_backend_moves_needs_no_wheels() -> None:
    plan = driven_rover()
    assert Watched(plan, kinematic=True).run(3.0, moving(plan, 1.65, 0.0, 0.0, 0.0)) == []


def test_a_backend_without_twists_says_nothing_of_bases() -> None:
    plan = driven_rover()
    watched = Watched(plan)
    watched.state.body_twist = None
    assert watched.run(2.0, lambda _state, _seconds: None) == []


# --- Efforts ---------------------------------------------------------------------------------------------------------

FULL = 40.0


def pushing(
    plan: BridgePlan, effort: float, *, turns: int = 0, speed: float = 0.0, way: float = 0.0
) -> Motion:
    """Returns a finger that pushes: with a sign that changes after some reads, at a speed, going a way in each read."""
    finger = row(plan, LEFT)
    reads = [0]

    def push(state: State, _seconds: float) -> None:
        reads[0] += 1
        state.joint_effort[finger] = -effort if turns and reads[0] // turns % 2 else effort
        state.joint_velocity[finger] = speed
        state.joint_position[finger] = 0.01 + way * reads[0]

    return push


@pytest.mark.parametrize("turns", [1, 2, 10])
def test_full_effort_that_changes_its_sign_again_and_again_is_said_after_a_second(turns: int) -> None:
    plan = gripper().build()
    watched = Watched(plan, period_ns=2 * MS)
    assert watched.run(1.0, pushing(plan, FULL, turns=turns)) == []
    assert watched.run(0.1, pushing(plan, FULL, turns=turns)) == [
        "joint.swings:/gripper/joints/left_finger_joint"
    ]
    assert "40 N" in watched.said[0][1]
    assert len(watched.run(3.0, pushing(plan, FULL, turns=turns))) == 1


def test_full_effort_that_is_read_in_the_same_phase_each_time_is_said() -> None:
    """It moves at 0.5 m/s in each state, and does not get anywhere."""
    plan = gripper().build()
    assert Watched(plan).run(1.2, pushing(plan, FULL, speed=0.5)) == [
        "joint.swings:/gripper/joints/left_finger_joint"
    ]


@pytest.mark.parametrize(
    ("effort", "turns", "speed", "way"),
    [
        (0.9 * FULL, 1, 0.0, 0.0),
        (FULL, 0, 0.0, 0.0),
        (FULL, 0, 0.009, 0.0),
        (FULL, 0, 0.5, 0.005),
        (FULL, 20, 0.0, 0.0),
        (np.nan, 1, 0.5, 0.0),
    ],
    ids=["not full", "holds an object", "trembles", "moves on", "works slowly", "unknown"],
)
def test_other_efforts_are_not_said(effort: float, turns: int, speed: float, way: float) -> None:
    plan = gripper().build()
    said = Watched(plan).run(2.0, pushing(plan, effort, turns=turns, speed=speed, way=way))
    assert [kind for kind in said if kind.startswith("joint.swings")] == []


def test_a_swing_that_ends_in_between_is_not_said() -> None:
    plan = gripper().build()
    watched = Watched(plan)
    for _ in range(5):
        assert watched.run(0.8, pushing(plan, FULL, turns=1)) == []
        assert watched.run(0.2, pushing(plan, 1.0, turns=1)) == []


def test_time_that_starts_over_forgets_the_last_efforts() -> None:
    """Turns are stamped: those from before the reset lie in the future, and would make a held object a swing."""
    plan = gripper().build()
    watched = Watched(plan)
    watched.run(0.95, pushing(plan, FULL, turns=1))
    watched.watch.reset()
    watched.time_ns = 0
    assert watched.run(3.0, pushing(plan, -FULL)) == []


@pytest.mark.parametrize(("stiff_drives", "said"), [("false", 1), ("true", 0)])
def test_a_drive_that_its_time_step_cannot_resolve_is_said(stiff_drives: str, said: int) -> None:
    """A finger of 1 kg on a drive of 2e6 N/m and 800 N: actuators swing for ever, rows of the solver come to rest."""
    mujoco = pytest.importorskip("usd_ros_bridge.backends.mujoco", exc_type=ImportError)
    builder = PlanBuilder()
    robot = builder.robot("/gripper")
    robot.body("mount")
    robot.joint("mount_joint", "", "mount", kind="fixed")
    robot.body("finger")
    robot.joint(LEFT, "mount", "finger", axis="Y", kind="prismatic", limits=(0.0, 0.1), max_effort=800.0)
    drive = Drive(stiffness=2e6, damping=2e5, target_position=0.06, max_force=800.0)
    plan = with_physics(builder.build(), drives={LEFT: drive})
    options = BridgeOptions(backend_options={"stiff_drives": stiff_drives})
    reporter = OnceReporter(lambda *_: None)
    with Runtime(plan, mujoco.MujocoBackend(), options=options, reporter=reporter) as runtime:
        for tick in range(300):
            runtime.tick((tick + 1) * 10 * MS)
    assert reporter.count(f"joint.swings:/gripper/joints/{LEFT}") == said


# --- In the runtime --------------------------------------------------------------------------------------------------


def test_a_host_s_robot_that_breaks_out_of_its_limits_is_in_the_status() -> None:
    plan = gripper().build()
    positions = plan.layout.joint_position.copy()
    backend = ArrayBackend(plan.layout, body_pose=plan.layout.body_pose, joint_position=positions)
    with Runtime(plan, backend, reporter=OnceReporter(lambda *_: None)) as runtime:
        positions[row(plan, LEFT)] = -0.35
        for tick in range(100):
            runtime.tick(SECOND + tick * 10 * MS)
        (report,) = runtime.status().reports
    assert (report.kind, report.count) == ("joint.beyond_limits:/gripper/joints/left_finger_joint", 1)
