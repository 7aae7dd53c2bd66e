"""Physics scenes: gravity, and time steps and iterations of the solvers' schemas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics_records import PhysicsRecords, PhysicsSceneRecord
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.planning.kinematics.solver_attributes import SCENE, resolve_all
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, Units
from usd_ros_bridge.ranges import STEP
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import rotate

_PARALLEL: Final = 1e-5
"""Share of gravity that may be across that of the first scene."""
EARTH: Final = 9.81
"""m/s^2, where no magnitude is authored, or a negative one (UsdPhysics)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What holds for the whole scene; as in PhysicsScene."""

    gravity: Vector3 = (0.0, 0.0, -EARTH)
    timestep: float | None = None
    solver: dict[str, Any] = field(default_factory=dict)
    mujoco_options: bool = False


def plan_world(
    physics: PhysicsRecords, units: Units, solvers: Sequence[str], findings: DiagnosticCollector
) -> World:
    """Return gravity in the ROS world, and the solver's options; the first of several scenes counts."""
    if not physics.scenes:
        return World()
    record = physics.scenes[0]
    owning = {target for targets in physics.owners.values() for target in targets}
    for other in physics.scenes[1:]:
        what = (
            "what it owns is apart from the rest" if other.path in owning else "nothing names it as its owner"
        )
        findings.warning(
            "1.3.scene",
            other.path,
            f"the stage has a physics scene already, {record.path}; everything is simulated with the time step and "
            f"the solver of that one: {what}",
            "keep one PhysicsScene",
        )
    solver = resolve_all(record.solver_attributes, SCENE, solvers, applied=record.applied)
    timestep = _timestep(solver.pop("timestep", None), record.path, findings)
    gravity = _gravity(record, units, findings)
    _to_si(solver, units)
    return World(
        gravity=gravity if solver.pop("gravity_enabled", True) else (0.0, 0.0, 0.0),
        timestep=timestep,
        solver=solver,
        mujoco_options="MjcSceneAPI" in record.applied and "mjc" in solvers,
    )


class Owners:
    """Which PhysicsScene simulates what: the first one where nothing else is authored."""

    def __init__(
        self,
        physics: PhysicsRecords,
        world: World,
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
    ) -> None:
        """Index the authored scenes.

        Args:
            physics: Scenes and owners.
            world: What holds for the first scene.
            index: The stage.
            solvers: Solvers in order of priority.
            findings: Takes owners that are no scenes, and gravity that bodies cannot have.
        """
        self._scenes = {scene.path: scene for scene in physics.scenes}
        self._first = physics.scenes[0].path if physics.scenes else ""
        self._owners: dict[str, str] = {}
        for path, targets in physics.owners.items():
            owner = next((target for target in targets if target in self._scenes), "")
            if owner:
                self._owners[path] = owner
            else:
                findings.warning(
                    "1.3.scene",
                    path,
                    f"its owner {quoted(targets[0])} is no PhysicsScene; it is simulated with what has no owner",
                    "name a PhysicsScene, or remove the relationship",
                    attribute="physics:simulationOwner",
                )
        self.several = len({self._first, *self._owners.values()}) > 1
        self._scales = {
            path: self._scale(path, world, index, solvers, findings)
            for path in dict.fromkeys(self._owners.values())
            if path != self._first
        }

    def at(self, path: str) -> str:
        """Return the scene of a body or a static collider."""
        return self._owners.get(path, self._first)

    def gravity_scale(self, body: str) -> float:
        """Return the gravity of a body's scene as a multiple of the first one's."""
        return self._scales.get(self.at(body), 1.0)

    def _scale(
        self,
        path: str,
        world: World,
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
    ) -> float:
        record = self._scenes[path]
        enabled = resolve_all(record.solver_attributes, SCENE, solvers, applied=record.applied).get(
            "gravity_enabled", True
        )
        own = np.array(_gravity(record, index.units, findings)) if enabled else np.zeros(3)
        first = np.array(world.gravity)
        square = float(first @ first)
        scale = float(own @ first) / square if square > 0.0 else 0.0
        if np.abs(own - scale * first).max() <= _PARALLEL * max(float(np.abs(own).max()), 1e-9):
            return scale
        findings.warning(
            "1.3.scene",
            path,
            f"its gravity is not along that of {self._first}: what it owns has that one",
            "give both scenes the same direction of gravity",
            attribute="physics:gravityDirection",
        )
        return 1.0


def _to_si(solver: dict[str, Any], units: Units) -> None:
    """Turn what the medium is like into SI units, and vectors into the ROS world's axes."""
    factors = {
        "density": units.kilograms / units.meters**3,
        "viscosity": units.kilograms / units.meters,
        "wind": units.meters,
        "magnetic": 1.0,
        "o_margin": units.meters,
        "total_mass": units.kilograms,
        "bound_mass": units.kilograms,
        "bound_inertia": units.kilograms * units.meters**2,
    }
    for name in factors.keys() & solver.keys():
        value = np.asarray(solver[name]) * factors[name]
        if value.ndim:
            value = rotate(units.world_from_stage[3:], value) + 0.0
        solver[name] = tuple(value.tolist()) if value.ndim else float(value)


def _timestep(seconds: float | None, path: str, findings: DiagnosticCollector) -> float | None:
    if seconds is None or seconds in STEP:
        return seconds
    findings.error(
        "1.3.scene",
        path,
        f"a time step of {quoted(seconds)} s is not in {STEP}; the backend's own is used",
        f"author a time step of {STEP}",
    )
    return None


def _gravity(record: PhysicsSceneRecord, units: Units, findings: DiagnosticCollector) -> Vector3:
    direction = np.array(fallback(record, "gravity_direction"), dtype=np.float64)
    magnitude = float(fallback(record, "gravity_magnitude"))
    if not (np.abs(direction) <= MAX_MAGNITUDE).all() or math.isnan(magnitude) or magnitude > MAX_MAGNITUDE:
        findings.error(
            "1.3.scene",
            record.path,
            f"gravity of {quoted(magnitude)} along {quoted(tuple(direction.tolist()))} cannot be used; "
            f"{EARTH:g} m/s^2 downwards is used",
            "author finite numbers",
            attribute="physics:gravityMagnitude",
        )
        return (0.0, 0.0, -EARTH)
    length = float(np.linalg.norm(direction))
    down = np.array([0.0, 0.0, -1.0])
    if length > 0.0:
        down = rotate(units.world_from_stage[3:], direction / length)
    strength = EARTH if magnitude < 0.0 else magnitude * units.meters
    x, y, z = (down * strength + 0.0).tolist()
    return x, y, z
