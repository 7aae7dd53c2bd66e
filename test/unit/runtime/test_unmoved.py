"""Controllers and topics towards what a backend does not move: inactive, reported once, and active after a change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from builders.groups import NotingPort
from builders.physics import VELOCITY_DRIVE, with_physics
from builders.plans import rover
from builders.samples import joint_sample, twist_sample
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.actuation import Unmoved
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, TrajectorySample
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime

ASSETS = Path(__file__).parents[2] / "assets"
STEP = 2_000_000
TWIST = "geometry_msgs/msg/Twist"
CONTROLLER, FOLLOW = "/robot/controller", "/robot/follow"


@dataclass
class Running:
    """An open runtime, what it warned of, and what it informed of."""

    runtime: Runtime
    warnings: dict[str, str]
    news: dict[str, str]

    def refusal(self) -> str:
        """Why a goal for both joints is refused, "" where it is accepted."""
        queue = self.runtime.goal_queue(FOLLOW)
        assert queue is not None
        return queue.check(goal())

    def topic(self, path: str) -> TopicPlan:
        return next(each for each in self.runtime.plan.topics if each.path == path)

    def run(self, steps: int) -> np.ndarray:
        """Ticks, and returns the joints' positions."""
        start = self.runtime.time_ns or 0
        for number in range(1, steps + 1):
            self.runtime.tick(start + number * STEP)
        return self.runtime.snapshot.state.joint_position.copy()


@contextmanager
def running(plan: BridgePlan, backend: Backend) -> Iterator[Running]:
    warnings: dict[str, str] = {}
    news: dict[str, str] = {}
    reporter = OnceReporter(warnings.__setitem__)
    with Runtime(plan, backend, reporter=reporter, inform=news.__setitem__) as runtime:
        yield Running(runtime, warnings, news)


def arm(drives: str, *, physics: bool = True) -> BridgePlan:
    selected = ReadOptions(variants=(VariantSelection("/robot", "drives", drives),))
    return load_plan(ASSETS / "actuation_drives.usda", read_options=selected, physics=physics)


def goal() -> FollowTrajectoryGoal:
    nothing = (np.zeros(0),)
    return FollowTrajectoryGoal(
        trajectory=TrajectorySample(
            stamp_ns=0,
            joint_names=("shoulder", "elbow"),
            times_ns=np.array([500_000_000]),
            positions=(np.array([0.25, -0.25]),),
            velocities=nothing,
            accelerations=nothing,
            efforts=nothing,
        )
    )


@each_case(
    ("drives", "words"),
    [
        ("none", "'shoulder' and 'elbow' (there is no drive)"),
        ("one", "'elbow' (there is no drive)"),
        ("damped", "'elbow' (the drive has no stiffness)"),
        ("weak", "'shoulder' and 'elbow' (the effort limit is 0)"),
    ],
)
def test_goals_of_joints_that_mujoco_does_not_move_are_refused_with_the_reason(
    drives: str, words: str
) -> None:
    with running(arm(drives), MujocoBackend()) as r:
        assert words in r.warnings[f"controller.cannot_move:{CONTROLLER}"], "said at the start"
        assert r.refusal().startswith(
            f"controller {CONTROLLER} is inactive: position commands do not move {words}"
        )
        status = next(s for s in r.runtime.controllers.status() if s.path == CONTROLLER)
        assert not status.active
        assert words in status.fault
        assert words in r.runtime.controllers.refusal([CONTROLLER], []), "nobody can switch it on"


def test_an_arm_with_drives_follows_its_goal() -> None:
    with running(arm("both"), MujocoBackend()) as r:
        assert r.refusal() == ""
        r.run(1)
        port = NotingPort()
        queue = r.runtime.goal_queue(FOLLOW)
        assert queue is not None
        queue.start(goal(), port)
        position = r.run(600)
        assert [outcome for outcome, _ in port.ends] == ["succeeded"]
        assert position == pytest.approx([0.25, -0.25], abs=0.01)
        assert not any(kind.startswith("controller") for kind in r.warnings)


def test_without_forces_no_joint_needs_a_drive() -> None:
    with running(arm("none", physics=False), KinematicBackend()) as r:
        assert r.refusal() == ""
        assert r.warnings == {}


def test_a_backend_without_commands_is_news_and_refuses_goals() -> None:
    with running(arm("both", physics=False), NullBackend()) as r:
        assert r.refusal() == f"controller {CONTROLLER} is inactive: the backend takes no commands"
        assert list(r.news) == ["controller.no_commands"]
        assert CONTROLLER in r.news["controller.no_commands"]
        assert r.warnings == {}
        assert not any(status.fault for status in r.runtime.controllers.status())


def test_a_change_to_drives_makes_the_controller_active_and_back() -> None:
    with running(arm("none"), MujocoBackend()) as r:
        r.run(3)
        for drives, accepted in (("both", True), ("one", False), ("both", True)):
            _, change = r.runtime.prepare(arm(drives))
            change.commit()
            change.cleanup()
            assert (r.refusal() == "") is accepted, drives
            assert r.runtime.controllers.active(CONTROLLER) is accepted


def test_a_controller_that_was_switched_off_stays_off_when_drives_come() -> None:
    with running(arm("both"), MujocoBackend()) as r:
        r.run(1)
        r.runtime.controllers.switch([], [CONTROLLER])
        for drives in ("none", "both"):
            _, change = r.runtime.prepare(arm(drives))
            change.commit()
            change.cleanup()
            assert not r.runtime.controllers.active(CONTROLLER), drives


def test_a_host_decides_what_its_arrays_move() -> None:
    plan = arm("none", physics=False)
    position = np.zeros(2)
    with running(plan, ArrayBackend(plan.layout, joint_position=position)) as free:
        assert free.refusal() == ""
        assert not any(kind.startswith("controller") for kind in free.warnings)
    unmoved = {"position": (Unmoved(rows=frozenset({1}), reason="the host has no motor there"),)}
    with running(plan, ArrayBackend(plan.layout, joint_position=position, unmoved=unmoved)) as held:
        assert "'elbow' (the host has no motor there)" in held.refusal()


# --- Topics -------------------------------------------------------------------------------------------------------


def test_a_topic_of_joints_without_drives_is_reported_at_the_start_and_its_efforts_act() -> None:
    with running(arm("none"), MujocoBackend()) as r:
        binding = r.runtime.bind_sink(r.topic("/robot/joint_commands"))
        assert binding.accepted
        assert "--drives" in r.warnings["sink.drive:/robot/joint_commands"]
        before = r.run(1)
        binding.deliver(joint_sample(["shoulder"], effort=[0.5]))
        assert r.run(50)[0] > before[0] + 1e-3


def test_an_array_of_positions_that_moves_nothing_is_dropped_with_the_reason() -> None:
    with running(arm("none"), MujocoBackend()) as r:
        binding = r.runtime.bind_sink(r.topic("/robot/positions"))
        assert not binding.accepted
        assert "'shoulder' and 'elbow' (there is no drive)" in binding.reason
        _, change = r.runtime.prepare(arm("one"))
        change.commit()
        change.cleanup()
        assert r.runtime.bind_sink(r.topic("/robot/positions"), into=binding).accepted
        assert "'elbow'" in r.warnings["sink.drive:/robot/positions"]


def test_some_passive_joints_of_a_topic_are_no_warning() -> None:
    with running(arm("one"), MujocoBackend()) as r:
        assert r.runtime.bind_sink(r.topic("/robot/joint_commands")).accepted
        assert "sink.drive:/robot/joint_commands" not in r.warnings


# --- Bases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [KinematicBackend, MujocoBackend])
def test_a_drive_on_a_fixed_base_is_reported_and_turns_its_wheels(backend: type[Backend]) -> None:
    plan = load_plan(ASSETS / "actuation_fixed_base.usda", physics=True)
    with running(plan, backend()) as r:
        told = r.warnings["controller.cannot_move:/robot/drive"]
        assert "/robot/base is fixed to the world by /robot/anchor" in told
        assert "--free-base" in told
        binding = r.runtime.bind_sink(r.topic("/robot/cmd_vel"))
        r.run(1)
        binding.deliver(twist_sample(0.2))
        assert (r.run(100) > 0.05).all()
        bound = r.runtime.bind_sink(r.topic("/robot/twist"))
        assert not bound.accepted
        assert "--free-base" in bound.reason


def drive(*sides: bool) -> AbstractContextManager[Running]:
    """A rover whose left and right wheel have drives, or none."""
    builder = rover()
    robot = builder.robots[0]
    command = robot.topic("cmd_vel", TWIST, "subscription")
    wheels = ["left_wheel_joint", "right_wheel_joint"]
    robot.controller(
        "drive",
        "RosControlDiffDriveAPI",
        wheels,
        interfaces=[command],
        parameters={
            "left_wheels": wheels[:1],
            "right_wheels": wheels[1:],
            "wheel_separation": 0.5,
            "wheel_radius": 0.1,
        },
    )
    drives = {name: VELOCITY_DRIVE if has else None for name, has in zip(wheels, sides, strict=True)}
    return running(with_physics(builder.build(), drives=drives), MujocoBackend())


@pytest.mark.parametrize("sides", [(False, False), (True, False)])
def test_a_drive_with_a_side_that_nothing_turns_drops_its_commands_once_reported(
    sides: tuple[bool, bool],
) -> None:
    with drive(*sides) as r:
        binding = r.runtime.bind_sink(next(t for t in r.runtime.plan.topics if t.type == TWIST))
        assert not binding.accepted
        assert binding.is_reported
        assert "'right_wheel_joint' (there is no drive)" in binding.reason.replace(
            "'left_wheel_joint' and ", ""
        )
        assert "what it receives is dropped" in r.warnings["controller.cannot_move:/rover/drive"]


def test_a_drive_whose_wheels_have_drives_is_not_reported() -> None:
    with drive(True, True) as r:
        assert not any(kind.startswith("controller") for kind in r.warnings)


@each_case(
    ("body", "kinematic", "words"),
    [
        ("base_link", False, "physics moves /rover/base_link"),
        ("mast", True, "/rover/mast hangs from a joint"),
        ("nowhere", True, "there is no body to move"),
    ],
)
def test_a_twist_of_a_body_that_is_not_moved_so_is_refused_at_the_start(
    body: str, kinematic: bool, words: str
) -> None:
    builder = rover()
    robot = builder.robots[0]
    command = robot.topic("cmd_vel", TWIST, "subscription")
    robot.controller(
        "twist", "RosControlRigidBodyTwistAPI", interfaces=[command], parameters={"body": f"/rover/{body}"}
    )
    plan = with_physics(builder.build())
    with running(plan, KinematicBackend() if kinematic else MujocoBackend()) as r:
        assert words in r.warnings["controller.cannot_move:/rover/twist"]
        assert not r.runtime.bind_sink(next(t for t in plan.topics if t.type == TWIST)).accepted
