"""Make a plan of records, one step after another."""

from __future__ import annotations

from dataclasses import replace

from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import TypeCatalog, message_type
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.base_link import (
    choose_bases,
    odometry_owners,
    resolve_base_transforms,
    wheel_joints,
)
from usd_ros_bridge.planning.conflicts import check_offered, without_interfaces
from usd_ros_bridge.planning.contexts import plan_contexts
from usd_ros_bridge.planning.frames import FramePlanner, place_frames
from usd_ros_bridge.planning.interfaces import (
    check_duplicates,
    check_overrides,
    draft_interfaces,
    external_interfaces,
    implicit_interfaces,
    overridden,
    with_rates,
)
from usd_ros_bridge.planning.kinematics.joint_graph import read_joints
from usd_ros_bridge.planning.kinematics.kinematic_model import (
    KinematicModel,
    plan_kinematics,
    rest_body_poses,
)
from usd_ros_bridge.planning.kinematics.solver_attributes import check_solvers
from usd_ros_bridge.planning.names import Nearest
from usd_ros_bridge.planning.physics.physics_scene import plan_physics_scene
from usd_ros_bridge.planning.placement import InterfacePlacer, check_joints, narrow_to_broadcasters
from usd_ros_bridge.planning.plan_controllers import plan_controllers, with_forward_commands
from usd_ros_bridge.planning.plan_scene import plan_scene
from usd_ros_bridge.planning.plugin_sensors import plan_plugin_sensors
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.robot_selection import selects_robots
from usd_ros_bridge.planning.robots import (
    assign_rows,
    build_layout,
    build_robots,
    check_parent_frames,
    check_sizes,
)
from usd_ros_bridge.planning.served_contexts import serve_contexts
from usd_ros_bridge.planning.stage_index import StageIndex, index_stage
from usd_ros_bridge.process_settings import gc_paused


def make_plan(
    records: StageRecords, options: PlanOptions, *, catalog: TypeCatalog | None = None
) -> BridgePlan:
    """Plan everything the bridge will do for a stage.

    Args:
        records: The stage as read.
        options: The caller's decisions.
        catalog: Which interface types exist; None checks the form of type names only.

    Returns:
        The plan, with a physics scene if the records have physics. Faults of the asset are in its diagnostics, those
        of reading first.

    Raises:
        OptionError: An option has a value that is not possible, a context that is not on the stage among them.
    """
    check_solvers(options.schema_resolvers)
    with gc_paused():
        served = serve_contexts(records, options)
        records, options = served.records, served.options
        plan, index, kinematics = _plan_robots(records, options, catalog)
        plan = replace(
            plan,
            contexts=tuple([each.path for each in served.robots]),
            context_namespaces=tuple([each.namespace for each in served.robots]),
        )
        plan = without_interfaces(plan) if options.interfaces == "none" else plan
        return plan if records.physics is None else plan_physics_scene(plan, index, kinematics, options)


def _plan_robots(
    records: StageRecords, options: PlanOptions, catalog: TypeCatalog | None
) -> tuple[BridgePlan, StageIndex, KinematicModel]:
    findings = DiagnosticCollector(records.diagnostics)
    records = with_rates(records, options)
    index = index_stage(records, findings)
    contexts = plan_contexts(records, options, findings)

    joints = read_joints(index, findings)
    kinematics = plan_kinematics(index, contexts, joints, options, findings)
    robot_joints = RobotJoints(joints, contexts, kinematics, records.actuators, records.isaac_robots)

    declared = draft_interfaces(index, contexts, options, catalog, findings)
    declared += external_interfaces(records.controllers, declared, contexts, options)
    interfaces = check_duplicates(overridden(declared, options), findings)
    interfaces += overridden(implicit_interfaces(declared, kinematics, options, records.actuators), options)
    check_overrides(interfaces, options, findings)

    needing = [*contexts.by_path, *(r.path for r in records.frames), *(d.path for d in interfaces)]
    bases = choose_bases(
        kinematics,
        index,
        wheels=wheel_joints(records),
        needing=needing,
        wanting={d.context.root for d in interfaces if d.context and message_type(d.type).of_body},
    )
    controllers, interfaces = plan_controllers(
        index, contexts, kinematics, robot_joints, bases, interfaces, findings
    )
    base_transforms, odom_frames = resolve_base_transforms(
        bases,
        [robot.context for robot in kinematics.robots],
        odometry_owners(controllers, interfaces),
        options,
        findings,
    )

    body_rows = assign_rows(index, kinematics, bases, controllers, needing)
    world_from_body = rest_body_poses(kinematics, body_rows, index, findings)
    drafts = FramePlanner(index, contexts, kinematics, bases, odom_frames, options, findings).plan(needing)
    frames = place_frames(drafts, index, kinematics, body_rows, world_from_body, odom_frames)
    del drafts  # tens of thousands in a fleet: the garbage collector would traverse them

    robots = build_robots(
        kinematics,
        frames,
        bases,
        base_transforms,
        odom_frames,
        body_rows,
        options,
        implicit=contexts.implicit,
        asset_names=records.asset_names,
    )
    check_parent_frames(records.contexts, robots, findings)
    check_sizes(records.metrics, robots, world_from_body, findings)
    camera_at = Nearest({record.path for record in records.cameras})
    cameras = {camera_at(draft.path) for draft in interfaces if draft.kind == "topic"}
    scene = plan_scene(records, cameras, kinematics, body_rows, options.schema_resolvers, index, findings)
    topics, services, actions = InterfacePlacer(
        index, robots, frames, robot_joints, body_rows, scene, options, findings
    ).place(interfaces)
    topics = narrow_to_broadcasters(topics, controllers)
    topics = with_forward_commands(topics, index, kinematics, robot_joints, bases, findings)
    topics = check_offered(topics, robots, findings)
    check_joints(topics, robots, findings)
    topics, sensors = plan_plugin_sensors(records, topics, findings)
    if not robots and not selects_robots(options):
        findings.warning(
            "2.1.no_robot",
            "",
            "the stage has no robot: no context, and nothing below the default prim",
            "apply RosContextAPI to the robot's root prim",
        )
    plan = BridgePlan(
        asset=records.asset,
        robots=tuple(robots),
        topics=topics,
        services=services,
        actions=actions,
        controllers=tuple(controllers),
        sensors=sensors,
        diagnostics=findings.all(),
        layout=build_layout(index, kinematics, body_rows, world_from_body),
        scene=scene,
    )
    return plan, index, kinematics
