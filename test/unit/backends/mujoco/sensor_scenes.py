"""Scenes made by hand for tests of sensors, and what measures in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.instruments import add_sensor_sites
from usd_ros_bridge.backends.mujoco.sensors import SensorReader, SensorWorker, make_sensors
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Collider,
    Dof,
    Inertial,
    Joint,
    PhysicsScene,
    Shape,
)
from usd_ros_bridge.model.sensors import Sensor
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

GRAVITY = 9.81
STEP_NS = 1_000_000


@dataclass(slots=True)
class World:
    """A simulation, what measures in it, and what it reported."""

    simulation: Simulation
    measures: Mapping[str, SensorReader]
    worker: SensorWorker
    reports: list[tuple[str, str]] = field(default_factory=list)

    def sense(self, prim: str) -> Mapping[str, Any]:
        """Returns what a sensor measures now; its stamp must be that of the state."""
        sample = self.measures[prim].measure(self.simulation.time_ns)
        assert sample is not None
        assert (sample.prim, sample.stamp_ns) == (prim, self.simulation.time_ns)
        return sample.arrays

    def run(self, seconds: float) -> None:
        self.simulation.step(round(seconds * 1e9 / self.simulation.step_ns))


def world(
    *sensors: Sensor, bodies: Sequence[Body] = (), joints: Sequence[Joint] = (),
    colliders: Sequence[Collider] = (), gravity: float = GRAVITY, seed: int = 0, noise: bool = True,
) -> World:  # fmt: skip
    """Returns a simulation of a scene with these sensors, at its start."""
    scene = PhysicsScene(
        gravity=(0.0, 0.0, -gravity), timestep=STEP_NS * 1e-9, bodies=tuple(bodies), joints=tuple(joints),
        colliders=tuple(colliders), sensors=sensors,
    )  # fmt: skip
    reports: list[tuple[str, str]] = []
    built = build_spec(scene, lambda kind, message: reports.append((kind, message)))
    add_sensor_sites(built, scene)
    simulation = Simulation(compile_model(built))
    worker = SensorWorker(
        simulation.model,
        simulation.data,
        report=lambda kind, message: reports.append((kind, message)),
        lockstep=True,
    )
    return World(simulation, make_sensors(simulation, worker, seed=seed, noise=noise), worker, reports)


def body(path: str, *, mass: float = 1.0, moment: float = 0.01, **others: Any) -> Body:
    return Body(path=path, inertial=Inertial(mass=mass, diagonal=(moment,) * 3), **others)


def solid(
    path: str, shape: Shape, *, on: int = WORLD_BODY, at: Pose = IDENTITY_POSE, **others: Any
) -> Collider:
    return Collider(path=path, body=on, body_from_shape=at, shape=shape, **others)


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0, *, axis: str = "Z", turn: float = 0.0) -> Pose:
    """Returns a pose turned by `turn` radians about an axis."""
    quaternion = [0.0, 0.0, 0.0, float(np.cos(turn / 2.0))]
    quaternion["XYZ".index(axis)] = float(np.sin(turn / 2.0))
    return Pose((x, y, z), (quaternion[0], quaternion[1], quaternion[2], quaternion[3]))


def room(length: float, width: float, height: float = 2.0) -> tuple[Collider, ...]:
    """Returns four walls around the origin whose inner faces are at half of `length` (X) and `width` (Y)."""
    thick = 0.1
    x, y = length / 2.0 + thick, width / 2.0 + thick
    return (
        solid("/front", Box((thick, y, height)), at=at(x)),
        solid("/back", Box((thick, y, height)), at=at(-x)),
        solid("/left", Box((x, thick, height)), at=at(0.0, y)),
        solid("/right", Box((x, thick, height)), at=at(0.0, -y)),
    )


def hinge(parent: int, child: int, *, anchor: Pose = IDENTITY_POSE, hangs: Pose = IDENTITY_POSE, velocity: float = 0.0,
          position: float = 0.0) -> Joint:  # fmt: skip
    """Returns a revolute joint about Y."""
    dof = Dof(axis="rotY", velocity=velocity, position=position)
    return Joint(
        path="/hinge", type="revolute", axis="Y", body0=parent, body1=child, body0_from_joint=anchor,
        body1_from_joint=hangs, dofs=(dof,),
    )  # fmt: skip
