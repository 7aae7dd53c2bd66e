"""Plan a physics scene of records, one step after another: gravity and solver first, then what is simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Inertial, Joint, PhysicsScene
from usd_ros_bridge.model.physics_records import MassRecord, PhysicsRecords, PhysicsSceneRecord
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.contexts import plan_contexts
from usd_ros_bridge.planning.kinematics.joint_graph import read_joints
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel, plan_kinematics
from usd_ros_bridge.planning.kinematics.solver_attributes import SCENE, check_solvers, resolve_all
from usd_ros_bridge.planning.physics.actuation import report_unmoved
from usd_ros_bridge.planning.physics.actuators import drive_joints, plan_actuators
from usd_ros_bridge.planning.physics.bodies import (
    BodyTable,
    as_vector,
    order_bodies,
    plan_bodies,
    report_nested,
)
from usd_ros_bridge.planning.physics.colliders import (
    SceneShapes,
    plan_shapes,
    report_compounds,
    report_hulls,
    report_materials,
    report_misplaced_masses,
)
from usd_ros_bridge.planning.physics.degradation import report_degraded
from usd_ros_bridge.planning.physics.filters import plan_filters, plan_groups
from usd_ros_bridge.planning.physics.mass import (
    MasslessRule,
    MassPlanner,
    loop_ends,
    report_assumed,
    with_tensor,
)
from usd_ros_bridge.planning.physics.scene_joints import plan_joints
from usd_ros_bridge.planning.physics.sensors import plan_sensors
from usd_ros_bridge.planning.physics.tendons import plan_sites, plan_tendons, plan_wraps
from usd_ros_bridge.planning.physics.unseen import report_unseen
from usd_ros_bridge.planning.plan_scene import pose_tracks
from usd_ros_bridge.planning.robot_selection import selects_robots
from usd_ros_bridge.planning.served_contexts import serve_contexts
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, Units, index_stage
from usd_ros_bridge.ranges import STEP
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import rotate

_PARALLEL: Final = 1e-5
"""Share of gravity that may be across that of the first scene."""
EARTH: Final = 9.81
"""m/s^2, where no magnitude is authored, or a negative one (UsdPhysics)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSettings:
    """Gravity, time step and solver options of the whole scene; as in PhysicsScene."""

    gravity: Vector3 = (0.0, 0.0, -EARTH)
    timestep: float | None = None
    solver: dict[str, Any] = field(default_factory=dict)
    mujoco_options: bool = False


def plan_settings(
    physics: PhysicsRecords, units: Units, solvers: Sequence[str], findings: DiagnosticCollector
) -> SceneSettings:
    """Return gravity in the ROS world, and the solver's options; the first of several scenes counts.

    Where the first scene has no gravity, that of the next scene that owns something is returned: engines have one, and
    bodies a share of it.
    """
    if not physics.scenes:
        return SceneSettings()
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
    solver.pop("gravity_enabled", None)
    _to_si(solver, units)
    own = (_own_gravity(each, units, solvers, findings) for each in physics.scenes[1:] if each.path in owning)
    first = _own_gravity(record, units, solvers, findings)
    return SceneSettings(
        gravity=first if any(first) else next(filter(any, own), first),
        timestep=timestep,
        solver=solver,
        mujoco_options="MjcSceneAPI" in record.applied and "mjc" in solvers,
    )


class SceneOwners:
    """Look-up of the PhysicsScene that simulates a prim: the first one where nothing else is authored."""

    def __init__(
        self,
        physics: PhysicsRecords,
        settings: SceneSettings,
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
    ) -> None:
        """Index the authored scenes.

        Args:
            physics: Scenes and owners.
            settings: Those of the first scene.
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
            path: self._scale(path, settings, index, solvers, findings)
            for path in dict.fromkeys((self._first, *self._owners.values()))
            if self.several
        }

    def at(self, path: str) -> str:
        """Return the scene of a body or a static collider."""
        return self._owners.get(path, self._first)

    def gravity_scale(self, body: str) -> float:
        """Return the gravity of a body's scene as a multiple of the engine's."""
        return self._scales.get(self.at(body), 1.0)

    def _scale(
        self,
        path: str,
        settings: SceneSettings,
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
    ) -> float:
        # Faults of the first scene's gravity have been reported.
        reported = DiagnosticCollector() if path == self._first else findings
        own = np.array(_own_gravity(self._scenes[path], index.units, solvers, reported))
        first = np.array(settings.gravity)
        square = float(first @ first)
        scale = float(own @ first) / square if square > 0.0 else 0.0
        if np.abs(own - scale * first).max() <= _PARALLEL * max(float(np.abs(own).max()), 1e-9):
            return scale
        findings.warning(
            "1.3.scene",
            path,
            f"its gravity is not along that of the scenes before it: what it owns has {quoted(settings.gravity)} m/s^2",
            "give all scenes the same direction of gravity",
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


def _own_gravity(
    record: PhysicsSceneRecord, units: Units, solvers: Sequence[str], findings: DiagnosticCollector
) -> Vector3:
    """Return the gravity of a scene in the ROS world, none where a solver's attribute switches it off."""
    enabled = resolve_all(record.solver_attributes, SCENE, solvers, applied=record.applied)
    gravity = _gravity(record, units, findings)
    return gravity if enabled.get("gravity_enabled", True) else (0.0, 0.0, 0.0)


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
    return as_vector(down * strength)


def add_physics_scene(plan: BridgePlan, records: StageRecords, options: PlanOptions) -> BridgePlan:
    """Add the physics scene to a plan that was made without physics.

    Args:
        plan: The plan of the same stage.
        records: The stage as read, with physics.
        options: The options that the plan was made with.

    Returns:
        The plan with its scene. Its diagnostics include what is wrong with the stage's physics.

    Raises:
        OptionError: An option has a value that is not possible.
    """
    check_solvers(options.schema_resolvers)
    served = serve_contexts(records, options)
    # What these find stands in the plan's diagnostics.
    found = DiagnosticCollector()
    index = index_stage(served.records, found)
    contexts = plan_contexts(served.records, served.options, found)
    kinematics = plan_kinematics(index, contexts, read_joints(index, found), served.options, found)
    return plan_physics_scene(plan, index, kinematics, served.options)


def plan_physics_scene(
    plan: BridgePlan, index: StageIndex, kinematics: KinematicModel, options: PlanOptions
) -> BridgePlan:
    """Plan what engines simulate and measure.

    Args:
        plan: The plan without physics.
        index: The stage, read with physics.
        kinematics: The joints of the plan, and those that are left out of /tf.
        options: The options that the plan was made with.

    Returns:
        The plan with its scene and the diagnostics of that.
    """
    physics = index.records.physics
    assert physics is not None
    findings = DiagnosticCollector(physics.diagnostics)
    scene = _plan(index, physics, kinematics, plan, options, findings)
    report_unmoved(replace(plan, physics=scene), scene, findings)
    known = set(plan.diagnostics)
    found = tuple(each for each in dict.fromkeys(findings.all()) if each not in known)
    return replace(plan, physics=scene, diagnostics=plan.diagnostics + found)


def _plan(
    index: StageIndex,
    physics: PhysicsRecords,
    kinematics: KinematicModel,
    plan: BridgePlan,
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> PhysicsScene:
    records, solvers = index.records, tuple(options.schema_resolvers)
    settings = plan_settings(physics, index.units, solvers, findings)
    owners = SceneOwners(physics, settings, index, solvers, findings)
    findings.extend(kinematics.left_out)
    table = order_bodies(kinematics, plan, index, findings)
    joints = plan_joints(kinematics, table.indices, physics, index, solvers, findings)
    joints = drive_joints(physics, joints, index.units, findings)
    shapes = plan_shapes(physics, table, index, solvers, findings)
    rule = MasslessRule(physics, index, options, findings)
    inertials = _inertials(table, shapes, physics, index, kinematics, joints, rule, plan, solvers, findings)
    bodies = plan_bodies(table, kinematics, joints, inertials, physics, plan, index, solvers, findings)
    if owners.several:
        bodies = tuple(
            replace(body, gravity_scale=body.gravity_scale * owners.gravity_scale(body.path))
            for body in bodies
        )
    floating = {robot.path: robot.base >= 0 and not robot.implicit for robot in plan.robots}
    report_misplaced_masses(physics, index, floating, findings)
    report_nested(kinematics, index, findings)
    report_compounds(physics, findings)
    report_materials(physics, shapes, findings)
    report_hulls(shapes, bodies, joints, findings)
    report_degraded(records, physics, findings, engine=options.engine, solvers=solvers)
    apart_bodies, apart_colliders = plan_filters(
        physics, table, kinematics, bodies, joints, shapes.colliders, plan, index, solvers, findings
    )
    colliders, groups, apart_groups = plan_groups(
        physics, shapes.colliders, shapes.records, findings, _owners_of(shapes, bodies, owners)
    )
    # A part without robots says nothing of the stage.
    if not (bodies or joints or colliders) and (plan.robots or not selects_robots(options)):
        findings.warning(
            "1.3.physics",
            "",
            "the stage has no physics: no rigid body, no joint and no collider",
            "apply PhysicsRigidBodyAPI and PhysicsCollisionAPI, or use the kinematic backend",
        )
    sites = plan_sites(physics, table, index, findings)
    wraps = plan_wraps(physics, table, index, findings)
    tendons = plan_tendons(physics, joints, sites, wraps, findings)
    sensors = plan_sensors(physics, plan, bodies, joints, findings, poses=index.poses)
    if options.engine == "mujoco":  # Newton's backend takes no pictures.
        report_unseen(physics.unseen, sensors, findings)
    return PhysicsScene(
        gravity=settings.gravity,
        timestep=settings.timestep,
        solver=settings.solver,
        mujoco_options=settings.mujoco_options,
        bodies=bodies,
        joints=joints,
        colliders=colliders,
        visuals=tuple(shapes.visuals),
        apart_bodies=apart_bodies,
        apart_colliders=apart_colliders,
        groups=groups,
        apart_groups=apart_groups,
        sensors=sensors,
        tracks=pose_tracks(
            records,
            {body.path: number for number, body in enumerate(bodies) if body.kinematic},
            index.units,
            findings,
        ),
        sites=sites,
        wraps=wraps,
        tendons=tendons,
        actuators=plan_actuators(physics, bodies, joints, sites, tendons, plan, index.units, findings),
    )


def _mass_record(path: str, physics: PhysicsRecords, solvers: Sequence[str]) -> MassRecord | None:
    record = physics.masses.get(path)
    tensor = physics.body_solver_attributes.get(path, {}).get("newton:inertia")
    return record if tensor is None or "newton" not in solvers else with_tensor(record, path, tensor)


def _owners_of(shapes: SceneShapes, bodies: Sequence[Body], owners: SceneOwners) -> list[str]:
    """Return the scene of each collider, nothing where all are in one: a body's colliders are where the body is."""
    if not owners.several:
        return []
    return [
        owners.at(
            record.collider or record.path if collider.body == WORLD_BODY else bodies[collider.body].path
        )
        for collider, record in zip(shapes.colliders, shapes.records, strict=True)
    ]


def _inertials(
    table: BodyTable,
    shapes: SceneShapes,
    physics: PhysicsRecords,
    index: StageIndex,
    kinematics: KinematicModel,
    joints: Sequence[Joint],
    rule: MasslessRule,
    plan: BridgePlan,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> list[Inertial]:
    planner = MassPlanner(index.units, findings)
    ends = loop_ends(kinematics, joints, table)
    inertials = [
        planner.inertial(
            path,
            _mass_record(path, physics, solvers),
            shapes.masses.get(path, ()),
            index.poses.scale[index.poses.row(path)],
            kinematic=bool(index.bodies[path].kinematic_enabled),
            weightless=path not in ends and rule.is_weightless(path),
            attached=path in kinematics.attachments,
        )
        for path in table.paths
    ]
    report_assumed(planner.assumed, index.units.kilograms, plan, table, inertials, findings)
    return inertials
