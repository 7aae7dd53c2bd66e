"""Trajectories on the kinematic backend: how exactly they are followed, and many controllers at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from scipy.interpolate import BPoly, CubicHermiteSpline
from trajectory_bench import Port, S, goal, trajectory

from builders.plans import PlanBuilder
from case_tables import each_case
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.trajectory.controller import JointTrajectoryControllers
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State

MS = 1_000_000
WALL = 1_795_000_000 * S
PERIOD = 2 * MS


def arms(count: int, joints: int = 7) -> BridgePlan:
    """Returns arms, each with a controller of all its joints."""
    builder, controllers = PlanBuilder(), []
    for index in range(count):
        robot = builder.robot(f"/arm_{index}", namespace=f"/arm_{index}")
        robot.body("base")
        names = [f"joint_{joint}" for joint in range(joints)]
        for joint, name in enumerate(names):
            robot.body(f"link_{joint}")
            robot.joint(name, "base" if joint == 0 else f"link_{joint - 1}", f"link_{joint}")
        controllers.append(
            ControllerPlan(
                path=f"/arm_{index}/controller",
                schema="RosControlJointTrajectoryAPI",
                joints=tuple(names),
                dofs=tuple(robot.row(name) for name in names),
                robot=index,
            )
        )
    return replace(builder.build(), controllers=tuple(controllers))


class Loop:
    """Controllers and the kinematic backend, ticked at 500 Hz of wall time."""

    def __init__(self, plan: BridgePlan) -> None:
        self.group = JointTrajectoryControllers(
            ControllerContext(plan=plan, report=self._report), plan.controllers
        )
        self.backend = KinematicBackend()
        self.backend.open(BackendContext(plan=plan, report=self._report))
        self.commands = Commands(plan.layout)
        self.now = WALL
        self.state: State = self.backend.step(self.now, self.commands)

    def tick(self) -> State:
        self.now += PERIOD
        self.commands.clear()
        self.group.command(self.now, self.state, self.commands)
        self.state = self.backend.step(self.now, self.commands)
        self.group.observe(self.state)
        return self.state

    @staticmethod
    def _report(kind: str, message: str) -> None:
        raise AssertionError((kind, message))


@each_case("degree", [1, 3, 5])
def test_500_points_of_7_joints_at_500_hz_stay_within_a_billionth_of_the_analytic_spline(degree: int) -> None:
    rng = np.random.default_rng(degree)
    loop = Loop(arms(1))
    names = tuple(f"joint_{joint}" for joint in range(7))
    times = np.cumsum(rng.uniform(0.011, 0.03, 500)).round(9)
    position = np.cumsum(rng.normal(scale=0.02, size=(500, 7)), axis=0)
    velocity, acceleration = rng.normal(size=(2, 500, 7))
    velocity[-1] = acceleration[-1] = 0.0
    sample = trajectory(
        times.tolist(),
        position,
        velocity if degree >= 3 else None,
        acceleration if degree == 5 else None,
        names=names,
    )
    port = Port()
    begin = loop.now + PERIOD
    loop.group.start(0, goal(sample), port, time_ns=begin, state=loop.state)
    knots = np.concatenate(([0.0], sample.times_ns / S))
    rest = np.zeros((1, 7))
    values = [np.vstack((rest, rows)) for rows in (position, velocity, acceleration)]
    truth = {
        1: lambda t: np.array([np.interp(t, knots, values[0][:, joint]) for joint in range(7)]),
        3: CubicHermiteSpline(knots, values[0], values[1]),
        5: BPoly.from_derivatives(knots, np.stack(values, axis=1)),
    }[degree]
    worst, ticks = 0.0, 0
    while not port.ends:
        state = loop.tick()
        elapsed = min((loop.now - begin) / S, knots[-1])
        worst = max(worst, float(np.abs(state.joint_position - truth(elapsed)).max()))
        ticks += 1
    assert ticks > 2500
    assert port.outcome == "succeeded"
    assert worst <= 1e-9


def test_many_controllers_follow_their_own_and_idle_ones_stay_still() -> None:
    loop = Loop(arms(50, joints=2))
    ports = {}
    for row in range(0, 50, 7):
        sample = trajectory([0.02 * (row + 1)], [[row + 1.0, -1.0]], names=("joint_0", "joint_1"))
        ports[row] = Port()
        loop.group.start(row, goal(sample), ports[row], time_ns=loop.now + PERIOD, state=loop.state)
    while loop.group.busy:
        loop.tick()
    assert {port.outcome for port in ports.values()} == {"succeeded"}
    position = loop.state.joint_position.reshape(50, 2)
    for row in range(50):
        assert_allclose(position[row], [row + 1.0, -1.0] if row in ports else [0.0, 0.0])


def test_a_controller_that_takes_joints_over_in_the_same_tick_has_the_last_word() -> None:
    plan = arms(1, joints=2)
    first = plan.controllers[0]
    second = replace(first, path="/arm_0/other", enabled=False, reason="control:starts_enabled is false")
    # The one that hands over comes last in the plan and holds; the one that follows comes first.
    loop = Loop(replace(plan, controllers=(second, first)))
    names = ("joint_0", "joint_1")
    old, new = Port(), Port()
    loop.group.start(
        1, goal(trajectory([1.0], [[1.0, 1.0]], names=names)), old, time_ns=loop.now, state=loop.state
    )
    for _ in range(100):
        loop.tick()
    loop.group.set_active(1, False, time_ns=loop.now, state=loop.state)
    loop.group.set_active(0, True, time_ns=loop.now, state=loop.state)
    step = goal(trajectory([0.0], [[0.7, 0.7]], names=names))
    loop.group.start(0, step, new, time_ns=loop.now, state=loop.state)
    assert_allclose(loop.tick().joint_position, [0.7, 0.7])
    assert old.outcome == "aborted"
