"""Records to a physics scene, one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usd_ros_bridge.model.collector import collector_paused
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Inertial, Joint, PhysicsScene
from usd_ros_bridge.model.physics_records import MassRecord, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.physics.actuators import drive_joints, plan_actuators
from usd_ros_bridge.planning.physics.bodies import BodyTable, order_bodies, plan_bodies
from usd_ros_bridge.planning.physics.colliders import Shapes, plan_shapes, report_misplaced_masses
from usd_ros_bridge.planning.physics.filters import plan_filters, plan_groups
from usd_ros_bridge.planning.physics.forest import Forest, plan_forest
from usd_ros_bridge.planning.physics.joints import plan_joints
from usd_ros_bridge.planning.physics.mass import MassPlanner, with_tensor
from usd_ros_bridge.planning.physics.massless import MasslessRule, loop_ends, report_assumed
from usd_ros_bridge.planning.physics.sensors import plan_sensors
from usd_ros_bridge.planning.physics.tendons import plan_sites, plan_tendons, plan_wraps
from usd_ros_bridge.planning.physics.unmapped import report_unmapped
from usd_ros_bridge.planning.physics.world import Owners, plan_world
from usd_ros_bridge.planning.resolvers import check_solvers
from usd_ros_bridge.planning.scene import pose_tracks
from usd_ros_bridge.planning.served_contexts import serve_contexts, serve_physics
from usd_ros_bridge.planning.stage_index import StageIndex, index_stage


def plan_physics(
    records: StageRecords,
    physics: PhysicsRecords,
    plan: BridgePlan,
    options: PlanOptions,
    *,
    visuals: bool = True,
) -> tuple[PhysicsScene, tuple[Diagnostic, ...]]:
    """Plans what engines simulate and measure.

    Args:
        records: The stage as read.
        physics: What engines need beside that.
        plan: The plan of the same records: its rows, rest poses, joint frames, limits and trees hold here, too.
        options: The caller's decisions, the same that the plan was made with.
        visuals: Whether what is only to be seen is wanted.

    Returns:
        The scene, and what is wrong with the stage's physics beyond what the plan says already.

    Raises:
        OptionError: An option has a value that is not possible.
    """
    solvers = check_solvers(options.schema_resolvers)
    served = serve_contexts(records, options)
    records, options = served.records, served.options
    physics = serve_physics(physics, served.left_out)
    findings = Findings(physics.diagnostics)
    with collector_paused():
        scene = _plan(records, physics, plan, options, solvers, findings, visuals=visuals)
    known = set(plan.diagnostics)
    return scene, tuple(found for found in dict.fromkeys(findings.all()) if found not in known)


def _plan(
    records: StageRecords,
    physics: PhysicsRecords,
    plan: BridgePlan,
    options: PlanOptions,
    solvers: tuple[str, ...],
    findings: Findings,
    *,
    visuals: bool,
) -> PhysicsScene:
    # What it finds stands in the plan's diagnostics.
    index = index_stage(records, Findings())
    world = plan_world(physics, index.units, solvers, findings)
    owners = Owners(physics, world, index, solvers, findings)
    forest = plan_forest(index, plan, options, findings)
    table = order_bodies(forest, plan, index, findings)
    joints = plan_joints(forest, table.indices, physics, index, solvers, findings)
    joints = drive_joints(physics, joints, index.units, findings)
    shapes = plan_shapes(physics, table, index, solvers, findings, visuals=visuals)
    rule = MasslessRule(physics, index, options, findings)
    inertials = _inertials(table, shapes, physics, index, forest, joints, rule, plan, solvers, findings)
    bodies = plan_bodies(table, forest, inertials, physics, plan, index, solvers, findings)
    if owners.several:
        bodies = tuple(
            replace(body, gravity_scale=body.gravity_scale * owners.gravity_scale(body.path))
            for body in bodies
        )
    floating = {robot.path: robot.base >= 0 and not robot.implicit for robot in plan.robots}
    report_misplaced_masses(physics, index, floating, findings)
    report_unmapped(records, physics, findings)
    apart_bodies, apart_colliders = plan_filters(
        physics, table, forest, bodies, joints, shapes.colliders, plan, index, solvers, findings
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
    """Returns the scene of each collider, nothing where all are in one: a body's colliders are where the body is."""
    if not owners.several:
        return []
    return [
        owners.at(collider.path if collider.body == WORLD_BODY else bodies[collider.body].path)
        for collider in colliders
    ]


def _inertials(
    table: BodyTable,
    shapes: Shapes,
    physics: PhysicsRecords,
    index: StageIndex,
    forest: Forest,
    joints: Sequence[Joint],
    rule: MasslessRule,
    plan: BridgePlan,
    solvers: Sequence[str],
    findings: Findings,
) -> list[Inertial]:
    planner = MassPlanner(index.units, findings)
    ends = loop_ends(forest, joints, table)
    inertials = [
        planner.inertial(
            path,
            _mass_record(path, physics, solvers),
            shapes.masses.get(path, ()),
            index.poses.scale[index.poses.row(path)],
            kinematic=bool(index.bodies[path].kinematic_enabled),
            weightless=path not in ends and rule.is_weightless(path),
            hangs=path in forest.hangs,
        )
        for path in table.paths
    ]
    report_assumed(planner.assumed, index.units.kilograms, plan, table, inertials, findings)
    return inertials
