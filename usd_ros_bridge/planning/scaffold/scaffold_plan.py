"""Plan a scaffold: the contents of the REP 0158 layer for an asset that has none."""

from __future__ import annotations

from dataclasses import replace

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.scaffold import Decision, Opinion, Property, Scaffold, Survey
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.paths import prim_name
from usd_ros_bridge.planning.scaffold.robot_scaffold import RobotScaffold

_CONTROL = "RosControl"


def plan_scaffold(plan: BridgePlan, survey: Survey, *, wrap: bool = True) -> Scaffold:
    """Decide what a ROS layer says.

    Each robot of the plan gets a context, names of its joints, joint states, commands, the controllers that its joints
    allow, and frames for its links without mass.

    A robot whose root brings everything along by a payload cannot have interfaces below that root: they are to be
    outside of payloads (REP 0158 section 2.2). There the layer has a root of its own, which refers to the asset.

    Args:
        plan: Of the asset as it is, with physics and without implicit interfaces.
        survey: Of the same stage.
        wrap: Whether the layer may have a root of its own.
    """
    opinions: list[Opinion] = []
    decisions: list[Decision] = []
    namespaces = names.UniqueNames()
    for index, robot in enumerate(plan.robots):
        if robot.path in survey.closed:
            decisions.append(
                Decision(
                    outcome="left out",
                    subject="robot",
                    path=robot.path,
                    text=f"{robot.path} is an instance, which cannot be given interfaces (REP 0158 section 1.2.6)",
                )
            )
            continue
        one = RobotScaffold(plan, index, survey, namespaces)
        one.decide()
        opinions += one.opinions()
        decisions += one.decisions
    result = Scaffold(opinions=tuple(opinions), decisions=tuple(decisions))
    behind = [robot.path for robot in plan.robots if robot.path in survey.payload_roots]
    if not behind:
        return result
    if wrap and len(plan.robots) == 1 and behind == [survey.default_prim]:
        return wrapped(result, behind[0])
    note = Decision(
        outcome="note",
        subject="payload",
        path=behind[0],
        text=f"{', '.join(behind)} has its joints behind a payload, where no interface should be (REP 0158, 2.2)",
    )
    return replace(result, decisions=(*result.decisions, note))


def wrapped(scaffold: Scaffold, root: str) -> Scaffold:
    """Return a scaffold whose asset is referenced a level deeper: everything of the asset moves there.

    Args:
        scaffold: Of an asset as it is.
        root: Path of the asset's default prim, which stands at the top; the layer's own root is called the same.
    """
    inner = f"{root}/{prim_name(root)}"
    own = {opinion.path for opinion in scaffold.opinions if opinion.define} | {root}

    def moved(path: str) -> str:
        return path if path in own else inner + path[len(root) :]

    def targets(authored: Property) -> Property:
        if authored.type_name != "rel":
            return authored
        return replace(authored, value=tuple(moved(path) for path in authored.value))

    opinions = [
        replace(
            opinion,
            path=moved(opinion.path),
            properties=tuple(targets(authored) for authored in opinion.properties),
        )
        for opinion in scaffold.opinions
    ]
    note = Decision(
        outcome="note",
        subject="payload",
        path=root,
        text=f"{root} has its joints behind a payload, where no interface may be (REP 0158, 2.2): the layer has a "
        f"{root} of its own, with the asset as {inner}",
    )
    return Scaffold(opinions=tuple(opinions), decisions=(*scaffold.decisions, note), inner=inner)


def has_ros_layer(plan: BridgePlan, survey: Survey) -> bool:
    """Return whether an asset declares interfaces or controllers; a context or frames alone can be added to."""
    declared = [*plan.services, *plan.actions, *(t for t in plan.topics if not t.implicit)]
    return bool(declared) or any(schema.startswith(_CONTROL) for schema in survey.ros_prims)
