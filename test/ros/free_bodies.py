"""A small backend that owns time: bodies that fly freely, a hinge that turns, entities that can be put elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros_plans import plan
from usd_ros_bridge.backends.base import BackendContext, BackendInput, Capabilities, EntityState
from usd_ros_bridge.model.physics import Body, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray, compose, exponential, pose

STEP_NS = 2_000_000
GRAVITY = np.array([0.0, 0.0, -9.81])
CRATE, WALL, BASE, LINK = "/crate", "/wall", "/arm/base", "/arm/link"
START = {CRATE: pose((0.0, 3.0, 10.0)), WALL: pose((5.0, 0.0, 0.0)), BASE: pose()}
HALF = {CRATE: np.full(3, 0.5), WALL: np.array([0.1, 4.0, 1.0]), BASE: np.full(3, 0.2)}
LINK_SPEED = 0.1


def world(*interfaces: object, **changes: object) -> BridgePlan:
    """An arm, a crate that falls and a kinematic wall."""
    made = plan(*interfaces, asset="/worlds/yard.usda")  # type: ignore[arg-type]
    bodies = (Body(path=CRATE), Body(path=WALL, kinematic=True))
    return replace(made, physics=PhysicsScene(bodies=bodies), **changes)  # type: ignore[arg-type]


class FreeBodies:
    """The crate falls, the arm's base floats and its link turns at a constant speed: closed forms, step by step."""

    def __init__(self) -> None:
        self.capabilities = Capabilities(step_ns=STEP_NS)

    def open(self, context: BackendContext) -> None:
        self.context = context
        self.reset()

    def inputs(self) -> tuple[BackendInput, ...]:
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, _commands: Commands) -> State:
        if self._time_ns is None:
            self._time_ns = time_ns - STEP_NS
        while self._time_ns < time_ns:
            self._time_ns += STEP_NS
            self._advance(STEP_NS * 1e-9)
        return self._state(time_ns)

    def reset(self) -> None:
        self._time_ns: int | None = None
        self._angle = 0.0
        self._pose = {path: each.copy() for path, each in START.items()}
        self._twist = {path: np.zeros(6) for path in START}

    def close(self) -> None:
        pass

    # --- EntityBackend -----------------------------------------------------------------------------------------

    def entities(self) -> tuple[str, ...]:
        return (BASE, LINK, CRATE, WALL)

    def entity_state(self, path: str) -> EntityState:
        if path == LINK:
            turned = exponential(np.array([0.0, 0.0, self._angle]))
            link = compose(self._pose[BASE], pose((1.0, 0.0, 0.0), turned))
            return EntityState(pose=link, twist=np.zeros(6))
        acceleration = np.concatenate((GRAVITY, np.zeros(3))) if path == CRATE else None
        return EntityState(pose=self._pose[path], twist=self._twist[path], acceleration=acceleration)

    def set_entity_state(
        self, path: str, *, pose: FloatArray | None = None, twist: FloatArray | None = None
    ) -> str:
        if path == LINK:
            return "'/arm/link' hangs from the joint '/arm/hinge'"
        if pose is not None:
            self._pose[path] = pose.copy()
        if twist is not None:
            self._twist[path] = twist.copy()
        return ""

    def entity_bounds(self, path: str) -> tuple[FloatArray, FloatArray] | None:
        half = HALF.get(path)
        return None if half is None else (-half, half)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        self._angle += LINK_SPEED * seconds
        self._twist[CRATE][:3] += GRAVITY * seconds
        for path, twist in self._twist.items():
            self._pose[path][:3] += twist[:3] * seconds

    def _state(self, time_ns: int) -> State:
        return State(
            time_ns=time_ns,
            joint_position=np.array([self._angle]),
            joint_velocity=np.array([LINK_SPEED]),
            joint_effort=np.full(1, np.nan),
            body_pose=np.stack([self._pose[BASE], self.entity_state(LINK).pose]),
        )
