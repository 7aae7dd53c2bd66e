"""Shared bodies: those of own robots, which other bridges meet, and obstacles, which other bridges simulate."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.backends.base import ObstacleMotion
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.transforms import FloatArray, xyzw


class SharedBodies:
    """Read the poses of a simulation's robots, and move its obstacles.

    Attributes:
        robot_bodies: Prim paths of the bodies of robots: below one, or on joints. Loose bodies of the world are not
            shared: each bridge has its own.
        obstacles: Prim paths of the obstacles.
    """

    def __init__(self, simulation: Simulation, plan: BridgePlan) -> None:
        """Initialize.

        Args:
            simulation: The simulation.
            plan: Its plan.
        """
        self._simulation = simulation
        bodies = simulation.compiled.scene.bodies
        robots = tuple(f"{robot.path}/" for robot in plan.robots)
        jointed = {body.parent for body in bodies if body.joints}
        own = [
            index
            for index, body in enumerate(bodies)
            if not body.obstacle and (body.joints or index in jointed or f"{body.path}/".startswith(robots))
        ]
        found = [index for index, body in enumerate(bodies) if body.obstacle]
        self.robot_bodies = tuple(bodies[index].path for index in own)
        self.obstacles = tuple(bodies[index].path for index in found)
        self._ids = simulation.compiled.body_ids[np.array(own, dtype=np.intp)]
        self._obstacle_bodies = np.array(found, dtype=np.intp)

    def poses(self) -> FloatArray:
        """Return `world_from_body` (N, 7) of `robot_bodies` in the current state."""
        data = self._simulation.data
        return np.hstack((data.xpos[self._ids], xyzw(data.xquat[self._ids])))

    def move(self, motion: ObstacleMotion) -> None:
        """Put obstacles where they are now; they move on with their twists."""
        self._simulation.move_obstacles(self._obstacle_bodies[motion.rows], motion.poses, motion.twists)
