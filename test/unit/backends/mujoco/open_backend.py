"""An open backend for tests, and robots that are small enough to know what they must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.physics import with_physics
from builders.plans import PlanBuilder
from open_backends import OpenBackend
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.pose import Pose

STEP_NS = 2_000_000


class Opened(OpenBackend):
    """MuJoCo's backend, open."""

    def __init__(self, plan: BridgePlan, *, time_ns: int = 0, **options: str) -> None:
        super().__init__(plan, MujocoBackend(), **options)
        self.time_ns = time_ns
        self._begun = False

    def restart(self) -> None:
        """Resets the backend; the next step is its first one again."""
        self.backend.reset()
        self.time_ns, self._begun = 0, False

    def step(self, steps: int = 1, **targets: dict[str, Any]) -> State:
        """Steps, with targets by array of Commands and name of degree of freedom or path of body.

        The first call of a backend is one step on from rest: the others follow in a second one.
        """
        commands = Commands(self.plan.layout)
        for array, values in targets.items():
            for name, value in values.items():
                row = self.body(name) if array.startswith("body") else self.row(name)
                getattr(commands, array)[row] = value
        step_ns = self.backend.capabilities.step_ns
        if not self._begun and steps > 1:
            self._begun = True
            self.time_ns += step_ns
            steps -= 1
            self.backend.step(self.time_ns, commands)
            commands.clear()
        self._begun = True
        self.time_ns += steps * step_ns
        return self.backend.step(self.time_ns, commands)


def arm(**options: Any) -> PlanBuilder:
    """Returns a builder with a base fixed to the world and a link that turns about Y, its mass 0.1 m along X."""
    builder = PlanBuilder()
    robot = builder.robot("/arm", namespace="/arm")
    robot.body("base")
    robot.joint("mount", "", "base", kind="fixed", body0_from_joint=Pose((0.0, 0.0, 1.0)))
    robot.body("link")
    robot.joint(
        "elbow",
        "base",
        "link",
        axis="Y",
        body1_from_joint=Pose((-0.1, 0.0, 0.0)),
        **{"limits": (-2.0, 2.0), **options},
    )
    return builder


def lever_torque(angle: float) -> float:
    """Returns the torque that gravity exerts on the link of `arm`, about its axis."""
    return float(1.0 * 9.81 * 0.1 * np.cos(angle))


EARTH = (0.0, 0.0, -9.81)

__all__ = ["EARTH", "STEP_NS", "Opened", "arm", "lever_torque", "with_physics"]
