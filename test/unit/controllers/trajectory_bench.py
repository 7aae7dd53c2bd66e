"""An arm with joint trajectory controllers on a bench: ticks in lockstep, joints that go where they are told or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from builders.plans import PlanBuilder, rest_of
from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.trajectory.controller import JointTrajectoryControllers
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    JointTolerance,
    Outcome,
    TrajectorySample,
)
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.records import JointType
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray

MS = 1_000_000
S = 1_000_000_000
TICK = 10 * MS

JOINTS = ("shoulder", "elbow", "wrist")


@dataclass
class Port:
    """A client that writes down what it is told."""

    fed_back: list[FollowTrajectoryFeedback] = field(default_factory=list)
    ends: list[tuple[Outcome, FollowTrajectoryResult]] = field(default_factory=list)

    def feedback(self, feedback: object) -> None:
        assert isinstance(feedback, FollowTrajectoryFeedback)
        assert not self.ends, "feedback after the end"
        self.fed_back.append(feedback)

    def finish(self, outcome: Outcome, result: object) -> None:
        assert isinstance(result, FollowTrajectoryResult)
        self.ends.append((outcome, result))
        assert len(self.ends) == 1, "finished twice"

    @property
    def outcome(self) -> str:
        return self.ends[0][0] if self.ends else "in progress"

    @property
    def code(self) -> int:
        return self.ends[0][1].error_code

    @property
    def text(self) -> str:
        return self.ends[0][1].error_string


def arm(kinds: Sequence[JointType] = ("revolute", "revolute", "revolute"), **parameters: Any) -> BridgePlan:
    """Returns the plan of an arm with a spare joint in front, and a controller of the others."""
    builder = PlanBuilder()
    robot = builder.robot("/arm")
    robot.body("base")
    for name, kind in zip(("spare", *JOINTS), ("revolute", *kinds), strict=True):
        robot.body(name)
        robot.joint(f"{name}", "base", name, kind=kind)
    plan = builder.build()
    controller = ControllerPlan(
        path="/arm/controller",
        schema="RosControlJointTrajectoryAPI",
        joints=JOINTS,
        dofs=tuple(robot.row(name) for name in JOINTS),
        parameters=parameters,
        robot=0,
    )
    return BridgePlan(
        asset=plan.asset, robots=plan.robots, controllers=(controller,), layout=plan.layout, scene=plan.scene
    )


class Bench:
    """Controllers and joints that follow commands exactly, except for what `stuck` and `lag` say.

    Attributes:
        now: Bridge time, nanoseconds.
        state: What was measured last.
        commanded: Commands of the last tick.
        stuck: Rows that do not move.
        clock_period_ns: Period of the clock that ticks follow, nanoseconds; 0 where they follow none.
        unmeasured: Rows whose position is shown as NaN.
    """

    def __init__(
        self, plan: BridgePlan | None = None, *, start: ArrayLike = (0.0, 0.0, 0.0), **options: Any
    ) -> None:
        self.plan = plan or arm(**options)
        self.reports: list[tuple[str, str]] = []
        self.clock_period_ns = 0
        self.group = JointTrajectoryControllers(
            ControllerContext(
                plan=self.plan,
                report=lambda *args: self.reports.append(args),
                clock_period_ns=lambda: self.clock_period_ns,
            ),
            self.plan.controllers,
        )
        self.now = 100 * S
        self.rows = np.array(self.plan.controllers[0].dofs)
        self.state: State = rest_of(self.plan)
        self.state.time_ns = self.now
        self.state.joint_position[self.rows] = start
        self.true_position = self.state.joint_position.copy()
        self.commanded = Commands(self.plan.layout)
        self.stuck: set[int] = set()
        self.unmeasured: set[int] = set()

    @property
    def position(self) -> FloatArray:
        return self.state.joint_position[self.rows]

    @property
    def command(self) -> FloatArray:
        return self.commanded.joint_position[self.rows]

    @property
    def velocity_command(self) -> FloatArray:
        return self.commanded.joint_velocity[self.rows]

    def send(self, goal: FollowTrajectoryGoal, row: int = 0) -> Port:
        """Sends a goal that must be acceptable, in the tick to come."""
        assert self.group.check(row, goal, time_ns=self.now + TICK) == ""
        port = Port()
        self.group.start(row, goal, port, time_ns=self.now + TICK, state=self.state)
        return port

    def receive(self, sample: object) -> None:
        self.group.receive(0, sample, time_ns=self.now + TICK)

    def tick(self, count: int = 1) -> None:
        self.tick_after([TICK] * count)

    def tick_after(self, intervals_ns: Iterable[int]) -> None:
        """Ticks, each some time after the one before."""
        for interval_ns in intervals_ns:
            self.now += interval_ns
            self.commanded = Commands(self.plan.layout)
            self.group.command(self.now, self.state, self.commanded)
            self.state = self._moved()
            self.group.observe(self.state)

    def run(self, port: Port, limit: int = 10_000) -> None:
        """Ticks until a goal ends."""
        for _ in range(limit):
            if port.ends:
                return
            self.tick()
        raise AssertionError("the goal does not end")

    def _moved(self) -> State:
        before = self.true_position.copy()
        told = ~np.isnan(self.commanded.joint_position)
        told[list(self.stuck)] = False
        self.true_position[told] = self.commanded.joint_position[told]
        velocity = (self.true_position - before) / (TICK / S)
        shown = self.true_position.copy()
        shown[list(self.unmeasured)] = np.nan
        return State(
            time_ns=self.now,
            joint_position=shown,
            joint_velocity=velocity,
            joint_effort=np.zeros_like(shown),
            body_pose=self.state.body_pose,
        )


def trajectory(
    times: Sequence[float],
    positions: ArrayLike,
    velocities: ArrayLike | None = None,
    accelerations: ArrayLike | None = None,
    efforts: ArrayLike | None = None,
    *,
    stamp_ns: int = 0,
    names: Sequence[str] = JOINTS,
) -> TrajectorySample:
    """Returns a trajectory of N points: times in seconds, rows of values."""

    def rows(values: ArrayLike | None) -> tuple[FloatArray, ...]:
        if values is None:
            return tuple(np.zeros(0) for _ in times)
        return tuple(np.asarray(values, dtype=np.float64))

    return TrajectorySample(
        stamp_ns=stamp_ns,
        joint_names=tuple(names),
        times_ns=np.array([round(time * S) for time in times], dtype=np.int64),
        positions=rows(positions),
        velocities=rows(velocities),
        accelerations=rows(accelerations),
        efforts=rows(efforts),
    )


def goal(
    sample: TrajectorySample,
    *,
    path: Sequence[JointTolerance] = (),
    end: Sequence[JointTolerance] = (),
    goal_time: float = 0.0,
) -> FollowTrajectoryGoal:
    """Returns a goal of a trajectory."""
    return FollowTrajectoryGoal(
        trajectory=sample,
        path_tolerance=tuple(path),
        goal_tolerance=tuple(end),
        goal_time_tolerance_ns=round(goal_time * S),
    )
