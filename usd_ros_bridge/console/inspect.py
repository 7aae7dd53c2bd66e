"""`inspect` for people: a plan as rich tables and a tree of frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from usd_ros_bridge.console.physics import physics_tables
from usd_ros_bridge.console.text import MOST_ROWS, SEVERITY_STYLES, number, plain, table, vector
from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic
from usd_ros_bridge.model.plan import (
    BridgePlan,
    ControllerPlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
)


def print_plan(plan: BridgePlan, console: Console) -> None:
    """Prints everything that the plan says, robots first, diagnostics last."""
    console.print(Rule(plain(plan.asset, style="bold")))
    for robot in plan.robots:
        console.print(_robot(robot))
    for renderable in _interfaces(plan):
        console.print(renderable)
    if plan.physics is not None:
        for table in physics_tables(plan.physics):
            console.print(table)
    if plan.diagnostics:
        console.print(diagnostics_table(plan.diagnostics))
    console.print(_summary(plan))


def _summary(plan: BridgePlan) -> Text:
    frames = sum(len(robot.frames) for robot in plan.robots)
    joints = sum(len(robot.joints) for robot in plan.robots)
    counts = [(len(plan.robots), "robot"), (frames, "frame"), (joints, "joint"), (len(plan.topics), "topic")]
    counts += [(len(plan.services), "service"), (len(plan.actions), "action")]
    counts += [(len(plan.controllers), "controller")]
    counts += [(sum(d.severity == s for d in plan.diagnostics), s) for s in SEVERITIES]
    return Text(
        ", ".join(f"{n} {what}{'' if n == 1 or what == 'info' else 's'}" for n, what in counts), style="bold"
    )


def _robot(robot: RobotPlan) -> RenderableType:
    domain = "default" if robot.domain_id is None else str(robot.domain_id)
    tf = ", ".join(f"{output.tf} + {output.tf_static}" for output in robot.tf_outputs) or "not published"
    head = Text.assemble(
        "robot ", plain(robot.path, style="bold cyan"), "  namespace ", plain(robot.namespace, style="bold"),
        f"  domain {domain}  tf: ", plain(tf), "  (implicit context)" if robot.implicit else "",
    )  # fmt: skip
    parts: list[RenderableType] = [head, _frames(robot)]
    if robot.joints:
        parts.append(_joint_table(robot.joints))
    return Group(*parts)


def _frames(robot: RobotPlan) -> RenderableType:
    """Return a tree of the frames; a table where there are very many: the width of a tree grows with its depth."""
    if len(robot.frames) <= MOST_ROWS:
        return _frame_tree(robot)
    rows: list[Sequence[Text | str]] = []
    for frame in robot.frames:
        kind = "static" if frame.static else "moving"
        pose = f"{vector(frame.parent_from_frame.translation)} {vector(frame.parent_from_frame.rotation)}"
        rows.append((plain(frame.id), plain(frame.parent), kind, pose, plain(frame.path)))
    return table("frames", ("frame", "parent", "", "pose in parent", "prim"), rows)


def _frame_tree(robot: RobotPlan) -> Tree:
    children: dict[int, list[int]] = defaultdict(list)
    for index, frame in enumerate(robot.frames):
        children[frame.parent_index].append(index)
    root = Tree(Text("frames", style="dim"))
    tops: dict[str, Tree] = {}
    pending: list[tuple[Tree, int]] = []
    for index in reversed(children[-1]):
        top = robot.frames[index].parent
        if top not in tops:
            tops[top] = root.add(plain(top, style="dim"))
        pending.append((tops[top], index))
    while pending:
        branch, index = pending.pop()
        node = branch.add(_frame_label(robot.frames[index]))
        pending.extend((node, child) for child in reversed(children[index]))
    return root


def _frame_label(frame: FramePlan) -> Text:
    kind = ("static", "green") if frame.static else ("moving", "magenta")
    pose = frame.parent_from_frame
    return Text.assemble(
        plain(frame.id, style="bold"), " ", kind, " ",
        (f"{vector(pose.translation)} {vector(pose.rotation)} ", "dim"), plain(frame.path, style="dim"),
    )  # fmt: skip


def _joint_table(joints: Sequence[JointPlan]) -> RenderableType:
    columns = ("joint", "type", "parent", "child", "axis", "position", "lower", "upper")
    rows: list[Sequence[Text | str]] = []
    for joint in joints:
        dof = joint.dofs[0] if len(joint.dofs) == 1 else None
        mimic = "" if dof is None or dof.mimic is None else " (mimic)"
        limits = (None, None) if dof is None else (_finite(dof.lower), _finite(dof.upper))
        values = [number(dof.position if dof else None), number(limits[0]), number(limits[1])]
        ends = plain(joint.parent), plain(joint.child)
        rows.append((plain(joint.name), joint.type + mimic, *ends, joint.axis or "", *values))
    return table("joints", columns, rows)


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _interfaces(plan: BridgePlan) -> Iterable[RenderableType]:
    if plan.topics:
        columns = ("topic", "role", "type", "Hz", "frame_id", "QoS", "state")
        rows: list[Sequence[Text | str]] = [
            (
                plain(topic.name), plain(topic.role), plain(topic.type), number(topic.publish_rate),
                plain(topic.frame_id), qos_text(topic.qos), state_text(topic),
            )
            for topic in plan.topics
        ]  # fmt: skip
        yield table("topics", columns, rows)
    for title, interfaces in (("services", plan.services), ("actions", plan.actions)):
        if interfaces:
            rows = [
                (plain(each.name), plain(each.role), plain(each.type), plain(each.path), state_text(each))
                for each in interfaces
            ]
            yield table(title, (title[:-1], "role", "type", "prim", "state"), rows)
    if plan.controllers:
        rows = []
        for controller in plan.controllers:
            schema = controller.schema + (" (implied)" if controller.implied else "")
            joints = plain(" ".join(controller.joints))
            rows.append((plain(controller.path), schema, joints, state_text(controller)))
        yield table("controllers", ("controller", "schema", "joints", "state"), rows)


def qos_text(qos: QosPlan) -> Text:
    """Returns a quality of service in one line."""
    if qos.match_publisher:
        return Text("match publisher")
    depth = f" {qos.depth}" if qos.history == "keep_last" else ""
    return Text(f"{qos.reliability}, {qos.durability}, {qos.history}{depth}")


def state_text(item: InterfacePlan | ControllerPlan | TopicPlan) -> Text:
    """Returns `enabled`, or why not; in yellow where a controller may be switched on all the same."""
    if item.enabled:
        return Text("enabled", style="green")
    switchable = isinstance(item, ControllerPlan) and item.switchable
    return plain(item.reason or "disabled", style="yellow" if switchable else "red")


def diagnostics_table(diagnostics: Iterable[Diagnostic]) -> RenderableType:
    """Returns a table of diagnostics, worst first."""
    rows: list[Sequence[Text | str]] = []
    for diagnostic in sorted(diagnostics, key=lambda d: SEVERITIES.index(d.severity)):
        where = f"{diagnostic.path}.{diagnostic.attribute}" if diagnostic.attribute else diagnostic.path
        severity = Text(diagnostic.severity, style=SEVERITY_STYLES[diagnostic.severity])
        texts = [plain(text) for text in (diagnostic.code, where, diagnostic.message, diagnostic.remedy)]
        rows.append((severity, *texts))
    return table("diagnostics", ("severity", "code", "prim", "message", "remedy"), rows)
