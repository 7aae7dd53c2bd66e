"""Plan a physics scene of records, one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Inertial, Joint, PhysicsScene
from usd_ros_bridge.model.physics_records import MassRecord, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.contexts import plan_contexts
from usd_ros_bridge.planning.kinematics.joint_graph import read_joints
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel, plan_kinematics
from usd_ros_bridge.planning.kinematics.solver_attributes import check_solvers
from usd_ros_bridge.planning.physics.actuators import drive_joints, plan_actuators
from usd_ros_bridge.planning.physics.bodies import BodyTable, order_bodies, plan_bodies
from usd_ros_bridge.planning.physics.colliders import SceneShapes, plan_shapes, report_misplaced_masses
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
from usd_ros_bridge.planning.physics.unmapped import report_unmapped
from usd_ros_bridge.planning.physics.world import Owners, plan_world
from usd_ros_bridge.planning.plan_scene import pose_tracks
from usd_ros_bridge.planning.served_contexts import serve_contexts
from usd_ros_bridge.planning.stage_index import StageIndex, index_stage


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
    world = plan_world(physics, index.units, solvers, findings)
    owners = Owners(physics, world, index, solvers, findings)
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
    report_unmapped(records, physics, findings)
    apart_bodies, apart_colliders = plan_filters(
        physics, table, kinematics, bodies, joints, shapes.colliders, plan, index, solvers, findings
    )
    colliders, groups, apart_groups = plan_groups(
        physics, shapes.colliders, shapes.records, findings, _owners_of(shapes.colliders, bodies, owners)
    )
    if not (bodies or joints or colliders):
        findings.warning(
            "1.3.physics",
            "",
            "the stage has no physics: no rigid body, no joint and no collider",
            "apply PhysicsRigidBodyAPI and PhysicsCollisionAPI, or use the kinematic backend",
        )
    sites = plan_sites(physics, table, index, findings)
    wraps = plan_wraps(physics, table, index, findings)
    tendons = plan_tendons(physics, joints, sites, wraps, findings)
    return PhysicsScene(
        gravity=world.gravity,
        timestep=world.timestep,
        solver=world.solver,
        mujoco_options=world.mujoco_options,
        bodies=bodies,
        joints=joints,
        colliders=colliders,
        visuals=tuple(shapes.visuals),
        apart_bodies=apart_bodies,
        apart_colliders=apart_colliders,
        groups=groups,
        apart_groups=apart_groups,
        sensors=plan_sensors(physics, plan, bodies, joints, findings, poses=index.poses),
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


def _owners_of(colliders: Sequence[Collider], bodies: Sequence[Body], owners: Owners) -> list[str]:
    """Return the scene of each collider, nothing where all are in one: a body's colliders are where the body is."""
    if not owners.several:
        return []
    return [
        owners.at(collider.path if collider.body == WORLD_BODY else bodies[collider.body].path)
        for collider in colliders
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
            hangs=path in kinematics.hangs,
        )
        for path in table.paths
    ]
    report_assumed(planner.assumed, index.units.kilograms, plan, table, inertials, findings)
    return inertials
