"""The degrees of freedom of all robots: which each joint has, their names, rows, mimics and order in JointState."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import DofPlan, JointType, MimicPlan
from usd_ros_bridge.planning import joint_names
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.dofs import Motion, joint_motions
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint
from usd_ros_bridge.planning.mimic import hold_followers, resolve_mimics
from usd_ros_bridge.planning.rest import RestSolver, lengths
from usd_ros_bridge.planning.robot_tree import RobotTree
from usd_ros_bridge.planning.stage_index import StageIndex


def find_motions(
    joints: Sequence[Joint], index: StageIndex, options: PlanOptions, findings: Findings
) -> tuple[list[JointType], list[tuple[Motion, ...]]]:
    """Returns the kind and the degrees of freedom of each joint; equal joints of equal robots are looked at once."""
    kinds, motions = [], []
    known: dict[tuple[int, ...], tuple[JointType, tuple[Motion, ...]]] = {}
    for joint, length in zip(joints, lengths(joints, index).tolist(), strict=True):
        key = (joint.record.specs, *length)
        same = known.get(key)
        if same is not None:
            kinds.append(same[0])
            motions.append(same[1])
            continue
        before = len(findings)
        kind, of_joint = joint_motions(
            joint.record,
            joint.kind,
            length=length,
            solvers=options.schema_resolvers,
            units=index.units,
            findings=findings,
        )
        if joint.record.specs and len(findings) == before:
            known[key] = kind, of_joint
        kinds.append(kind)
        motions.append(of_joint)
    return kinds, motions


def hold_all_followers(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: list[tuple[Motion, ...]],
    index: StageIndex,
    options: PlanOptions,
) -> None:
    """Lock the degrees of freedom that mimic a fixed joint, in place: they stay at the rule's offset."""
    for robot in robots:
        held = hold_followers(
            robot.joints,
            {joint.path: motions[joint_rows[joint.path]] for joint in robot.joints},
            solvers=options.schema_resolvers,
            units=index.units,
        )
        for path, of_joint in held.items():
            motions[joint_rows[path]] = of_joint


def name_all_joints(
    robots: Sequence[RobotTree],
    authored: Mapping[str, str],
    index: StageIndex,
    contexts: Contexts,
    options: PlanOptions,
    findings: Findings,
) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, str]]:
    """Names the joints of all robots.

    Returns:
        The ROS name of each joint by path, unique in its robot; the same for each nested context by path; and the name
        that each joint in a nested context has in the nearest one, by path.
    """
    overrides = {r.path: r.name_override for r in index.records.isaac_joints if r.name_override}
    result: dict[str, str] = {}
    in_contexts: dict[str, dict[str, str]] = {}
    nearest: dict[str, str] = {}
    for robot in robots:
        isaac = overrides if options.isaac_names or robot.context.path in contexts.without_ros else {}
        around = _contexts_of_joints(robot, contexts)
        result.update(joint_names.name_joints(robot.joints, authored, isaac, around, findings))
        nested = {context.path for found in around.values() for context in found}
        for path in sorted(nested):
            own = [joint for joint in robot.joints if any(each.path == path for each in around[joint.path])]
            inner = {
                j.path: [each for each in around[j.path] if each.path.startswith(path + "/")] for j in own
            }
            # What is wrong with their names was found for the whole robot.
            in_contexts[path] = joint_names.name_joints(own, authored, isaac, inner, Findings())
        nearest.update({path: in_contexts[found[0].path][path] for path, found in around.items() if found})
    return result, in_contexts, nearest


def _contexts_of_joints(robot: RobotTree, contexts: Contexts) -> dict[str, list[Context]]:
    """Returns the nested contexts that each joint is in, nearest first: by its own prim, else by the body it moves."""
    if not contexts.has_nested(robot.context.path):
        return {}
    children = {joint.path: edge.child for edge in robot.edges for joint in edge.joints}
    return {
        joint.path: list(
            dict.fromkeys([*contexts.nested(joint.path), *contexts.nested(children[joint.path])])
        )
        for joint in robot.joints
    }


def name_context_dofs(
    context_names: Mapping[str, Mapping[str, str]],
    joint_rows: Mapping[str, int],
    dofs: Sequence[tuple[DofPlan, ...]],
) -> dict[str, dict[int, str]]:
    """Returns for each nested context by path the names of its degrees of freedom by row.

    Args:
        context_names: Names of each context's joints by path.
        joint_rows: Row in `dofs` by joint path.
        dofs: Degrees of freedom of each joint.
    """
    result: dict[str, dict[int, str]] = {}
    for context, names in context_names.items():
        taken = set(names.values())
        of_context = result[context] = {}
        for path, name in names.items():
            of_joint = dofs[joint_rows[path]]
            own = joint_names.dof_names(name, [dof.axis for dof in of_joint], taken)
            of_context.update(zip((dof.row for dof in of_joint), own, strict=True))
    return result


def find_mimics(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[Motion, ...]],
    index: StageIndex,
    options: PlanOptions,
    findings: Findings,
) -> dict[int, MimicPlan]:
    """Returns what each degree of freedom that mimics another follows, by row."""
    result: dict[int, MimicPlan] = {}
    first = 0
    for robot in robots:
        of_robot = {joint.path: motions[joint_rows[joint.path]] for joint in robot.joints}
        rows = {}
        for path, of_joint in of_robot.items():
            rows[path] = first
            first += len(of_joint)
        result.update(
            resolve_mimics(
                robot.joints,
                of_robot,
                rows,
                solvers=options.schema_resolvers,
                units=index.units,
                findings=findings,
            )
        )
    return result


def number_dofs(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[Motion, ...]],
    solver: RestSolver,
    names: Mapping[str, str],
    mimics: Mapping[int, MimicPlan],
) -> list[tuple[DofPlan, ...]]:
    """Returns the degrees of freedom of each joint, in the order of `joint_rows`; robot by robot they get rows."""
    result: list[tuple[DofPlan, ...]] = [()] * len(joint_rows)
    row = 0
    for robot in robots:
        taken = {names[joint.path] for joint in robot.joints}
        for joint in robot.joints:
            number = joint_rows[joint.path]
            of_joint = motions[number]
            if not of_joint:
                continue
            plans = []
            dof_names = joint_names.dof_names(names[joint.path], [m.axis for m in of_joint], taken)
            for name, motion, position in zip(dof_names, of_joint, solver.positions[number], strict=True):
                plans.append(
                    DofPlan(
                        name=name,
                        row=row,
                        axis=motion.axis,
                        position=position,
                        lower=motion.lower,
                        upper=motion.upper,
                        max_velocity=motion.max_velocity,
                        max_effort=motion.max_effort,
                        mimic=mimics.get(row),
                    )
                )
                row += 1
            result[number] = tuple(plans)
    return result


def joint_state_order(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    dofs: Sequence[tuple[DofPlan, ...]],
    index: StageIndex,
) -> list[tuple[int, ...]]:
    """Returns each robot's degrees of freedom, by row, in the order in which JointState names them."""
    result = []
    records = index.records
    for robot in robots:
        of_robot = [(joint, dofs[joint_rows[joint.path]]) for joint in robot.joints]
        rows = [dof.row for _, of_joint in of_robot for dof in of_joint]
        isaac = None
        if records.isaac_robots or records.isaac_joints:
            isaac = joint_names.isaac_order(robot.context.path, records.isaac_robots, records.isaac_joints)
        if isaac is not None:
            keys = {
                dof.row: isaac.sort_key(joint.record, dof.axis, place, number)
                for place, (joint, of_joint) in enumerate(of_robot)
                for number, dof in enumerate(of_joint)
            }
            rows.sort(key=keys.__getitem__)
        result.append(tuple(rows))
    return result
