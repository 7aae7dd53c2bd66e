"""Records to plan, one step after another."""

from __future__ import annotations

from dataclasses import replace

from usd_ros_bridge.model.collector import collector_paused
from usd_ros_bridge.model.options import PlanOptions, TypeCatalog
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.bases import base_frames, choose_bases
from usd_ros_bridge.planning.conflicts import check_offered, without_interfaces
from usd_ros_bridge.planning.contexts import plan_contexts
from usd_ros_bridge.planning.controllers import odometry_owners, plan_controllers, wheel_joints
from usd_ros_bridge.planning.copies import find_fleet
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.frames import FramePlanner
from usd_ros_bridge.planning.implicit import external_interfaces, implicit_interfaces
from usd_ros_bridge.planning.interfaces import OF_A_BODY, check_duplicates, draft_interfaces
from usd_ros_bridge.planning.joints import read_joints
from usd_ros_bridge.planning.kinematics import plan_kinematics, rest_body_poses
from usd_ros_bridge.planning.layout import assign_rows, build_layout
from usd_ros_bridge.planning.overrides import check_overrides, overridden, with_rates
from usd_ros_bridge.planning.paths import Nearest
from usd_ros_bridge.planning.placed_frames import place_frames
from usd_ros_bridge.planning.resolvers import check_solvers
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.robots import build_robots, check_parent_frames, resolve_base_transforms
from usd_ros_bridge.planning.scene import plan_scene
from usd_ros_bridge.planning.served_contexts import serve_contexts
from usd_ros_bridge.planning.stage_index import index_stage
from usd_ros_bridge.planning.stamping import stamp
from usd_ros_bridge.planning.topics import InterfacePlacer, check_joints, narrow_to_broadcasters


def make_plan(
    records: StageRecords, options: PlanOptions, *, catalog: TypeCatalog | None = None
) -> BridgePlan:
    """Plans everything the bridge will do for a stage.

    Args:
        records: The stage as read.
        options: The caller's decisions.
        catalog: Which interface types exist; None checks the form of type names only.

    Returns:
        The plan. Faults of the asset are in its diagnostics, those of reading first.

    Raises:
        OptionError: An option has a value that is not possible, a context that is not on the stage among them.
    """
    check_solvers(options.schema_resolvers)
    with collector_paused():
        served = serve_contexts(records, options)
        records, options = served.records, served.options
        plan = _plan_fleet(records, options, catalog) or plan_each(records, options, catalog)
        plan = replace(plan, contexts=served.robots)
        return without_interfaces(plan) if options.interfaces == "none" else plan


def _plan_fleet(
    records: StageRecords, options: PlanOptions, catalog: TypeCatalog | None
) -> BridgePlan | None:
    """Plans robots that repeat others as copies of them; None where that cannot be done, or there are none."""
    # On a topic that all share no two robots have the same frame ids.
    fleet = None if options.tf_output == "shared" else find_fleet(records, options)
    return None if fleet is None else stamp(plan_each(fleet.distinct, options, catalog), fleet, options)


def plan_each(records: StageRecords, options: PlanOptions, catalog: TypeCatalog | None) -> BridgePlan:
    """Plans every robot by itself, also those that repeat others; arguments as for `make_plan`."""
    findings = Findings(records.diagnostics)
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
        wanting={d.context.root for d in interfaces if d.context is not None and d.type in OF_A_BODY},
    )
    controllers, interfaces = plan_controllers(
        index, contexts, kinematics, robot_joints, bases, interfaces, findings
    )
    base_transforms, odom_frames = resolve_base_transforms(
        bases, odometry_owners(controllers, interfaces), options
    )

    body_rows = assign_rows(index, kinematics, bases, controllers, needing)
    world_from_body = rest_body_poses(kinematics, body_rows, index, findings)
    odom_by_body = base_frames(bases, odom_frames)
    planner = FramePlanner(index, contexts, kinematics, bases, odom_by_body, options, findings)
    frames = place_frames(planner.plan(needing), index, kinematics, body_rows, world_from_body, odom_by_body)

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
    camera_at = Nearest({record.path for record in records.cameras})
    cameras = {camera_at(draft.path) for draft in interfaces if draft.kind == "topic"}
    scene = plan_scene(records, cameras, kinematics, body_rows, options.schema_resolvers, index, findings)
    topics, services, actions = InterfacePlacer(
        index, robots, frames, robot_joints, body_rows, scene, options
    ).place(interfaces)
    topics = narrow_to_broadcasters(topics, controllers)
    topics = check_offered(topics, robots, findings)
    check_joints(topics, robots, findings)
    if not robots and not options.contexts:
        findings.warning(
            "2.1.no_robot",
            "",
            "the stage has no robot: no context, and nothing below the default prim",
            "apply RosContextAPI to the robot's root prim",
        )
    return BridgePlan(
        asset=records.asset,
        robots=tuple(robots),
        topics=topics,
        services=services,
        actions=actions,
        controllers=tuple(controllers),
        diagnostics=findings.all(),
        layout=build_layout(index, kinematics, body_rows, world_from_body),
        scene=scene,
    )
