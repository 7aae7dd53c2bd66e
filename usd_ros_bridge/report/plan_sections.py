"""Sections of the page about a plan: findings, differences, frames, joints, interfaces, controllers, variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from usd_ros_bridge.model.change import CHANGE_MARKS, PlanDifference, value_text
from usd_ros_bridge.model.diagnostics import Diagnostic, worst_first
from usd_ros_bridge.model.physics import Dof
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    ControllerPlan,
    DofPlan,
    InterfacePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.options import VariantSet
from usd_ros_bridge.report.finding_formats import diagnostics_url
from usd_ros_bridge.report.frame_drawing import MAX_FRAMES, draw_frames
from usd_ros_bridge.report.html_parts import Html, element, facts, joined, number, prim, table, text

MAX_OPEN_ROBOTS = 3
"""Robots whose frames are unfolded at first."""
MAX_ROBOTS = 50
"""Robots whose frames are drawn."""
MAX_DIFFERENCES = 2000
"""Differences that are listed."""

_TITLES = {"robot": "Robots", "topic": "Topics", "service": "Services", "action": "Actions"} | {
    "controller": "Controllers",
    "joint": "Joints",
    "frame": "Frames",
}


# --- Findings -----------------------------------------------------------------------------------------------------


def findings_section(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield the table of findings, worst first."""
    if not diagnostics:
        yield '<p class="quiet">The asset has no findings.</p>'
    rows = []
    for each in worst_first(diagnostics):
        where = prim(f"{each.path}.{each.attribute}" if each.attribute else each.path)
        remedy = element("div", each.remedy, class_="remedy") if each.remedy else ""
        severity = element("b", each.severity, class_=each.severity)
        code = element("a", each.code, href=diagnostics_url(each.code), rel="noreferrer")
        rows.append((severity, code, joined([each.message, remedy]), where, element("code", each.place)))
    yield from table(("severity", "code", "~finding and remedy", "prim", "file and line"), rows)


# --- Differences --------------------------------------------------------------------------------------------------


def difference_section(found: PlanDifference, *, old: str, new: str) -> Iterator[str]:
    """Yield what differs from another asset or variant."""
    yield f"<p>From {element('code', old)} to {element('code', new)}: {text(found)}.</p>"
    rows, classes = [], []
    for item in found.items[:MAX_DIFFERENCES]:
        owner = f" of {item.robot}" if item.kind in {"joint", "frame"} else ""
        changes = joined(
            [
                element(
                    "div",
                    joined(
                        [
                            f"{field.field}: ",
                            element("span", value_text(field.old), class_="removed"),
                            " → ",
                            element("span", value_text(field.new), class_="added"),
                        ]
                    ),
                )
                for field in item.fields
            ]
        )
        mark = element("b", f"{CHANGE_MARKS[item.change]} {item.change}", class_=item.change)
        what = item.label if item.label != item.kind else _TITLES[item.kind].lower()[:-1]
        rows.append((mark, what, joined([element("code", item.name), owner]), changes or text(item.detail)))
        classes.append(f"of-{item.change}")
    yield from table(("change", "kind", "name", "fields"), rows, row_classes=classes)
    if len(found) > MAX_DIFFERENCES:
        yield f'<p class="quiet">The first {MAX_DIFFERENCES} of {len(found)} differences.</p>'


# --- Frames -------------------------------------------------------------------------------------------------------


def frames_section(plan: BridgePlan) -> Iterator[str]:
    """Yield the robots, each with its frame tree."""
    yield (
        '<p class="quiet"><span class="legend"></span> moves: /tf &emsp; <span class="legend static"></span> fixed: '
        "/tf_static. Grey: the joint that moves a frame, or fixes it. Click a frame to mark it in the 3D view.</p>"
    )
    for index, robot in enumerate(plan.robots[:MAX_ROBOTS]):
        opened = " open" if index < MAX_OPEN_ROBOTS else ""
        count = len(robot.frames)
        yield f"<details{opened}><summary>{text(robot.namespace)} ({prim(robot.path)}), {count} frames</summary>"
        yield from facts(_robot_facts(robot))
        if robot.frames:
            yield f'<div class="drawing">{draw_frames(index, robot)}</div>'
        if count > MAX_FRAMES:
            yield f'<p class="quiet">The first {MAX_FRAMES} of {count} frames.</p>'
        yield "</details>"
    if len(plan.robots) > MAX_ROBOTS:
        yield f'<p class="quiet">The first {MAX_ROBOTS} of {len(plan.robots)} robots.</p>'


def _robot_facts(robot: RobotPlan) -> Iterator[tuple[str, object]]:
    yield "namespace", robot.namespace
    yield "domain", "default" if robot.domain_id is None else robot.domain_id
    topics = [f"{each.tf}, {each.tf_static}" for each in robot.tf_outputs]
    yield "transforms", "; ".join(topics) or "not published"
    yield "base", robot.frames[robot.base].id if robot.base >= 0 else "fixed"
    if robot.base >= 0:
        yield "base transform", robot.base_transform
    if robot.implicit:
        yield "context", "implicit: the default prim"


# --- Joints -------------------------------------------------------------------------------------------------------


def joints_section(plan: BridgePlan) -> Iterator[str]:
    """Yield a table of joints for each robot that has some, one row for each degree of freedom."""
    dofs = {} if plan.physics is None else _dofs_by_row(plan)
    columns = (
        *("joint", "type", "parent", "child", "axis", "#position", "#lower", "#upper", "#max. velocity"),
        *("#max. effort", "~drive", "follows", "prim"),
    )
    for robot in plan.robots[:MAX_ROBOTS]:
        if not robot.joints:
            continue
        if len(plan.robots) > 1:
            yield f"<h3>{text(robot.namespace)}</h3>"
        yield from table(columns, [row for joint in robot.joints for row in _joint_rows(plan, joint, dofs)])
    if len(plan.robots) > MAX_ROBOTS:
        yield f'<p class="quiet">The joints of the first {MAX_ROBOTS} of {len(plan.robots)} robots.</p>'
    yield '<p class="quiet">Radians and N m, metres and N, and per second. An empty limit: there is none.</p>'


def _dofs_by_row(plan: BridgePlan) -> Mapping[int, Dof]:
    assert plan.physics is not None
    return {dof.row: dof for joint in plan.physics.joints for dof in joint.dofs if dof.row >= 0}


def _joint_rows(plan: BridgePlan, joint: JointPlan, dofs: Mapping[int, Dof]) -> Iterator[Sequence[object]]:
    kind = joint.type + (", inverted" if joint.inverted else "")
    ends = (kind, joint.parent, joint.child)
    if not joint.dofs:
        yield element("code", joint.name), *ends, *([None] * 8), prim(joint.path)
    for dof in joint.dofs:
        engine = dofs.get(dof.row)
        limits = (dof.position, dof.lower, dof.upper, dof.max_velocity)
        effort = dof.max_effort if engine is None else min(dof.max_effort, engine.max_effort)
        axis = (joint.axis or "") if len(joint.dofs) == 1 else dof.axis
        yield (
            *(element("code", dof.name), *ends, axis, *map(number, (*limits, effort))),
            *("" if engine is None else _drive(engine), _leader(plan, dof), prim(joint.path)),
        )


def _drive(dof: Dof) -> str:
    drive = dof.drive
    if drive is None:
        return ""
    parts = [f"stiffness {drive.stiffness:.4g}", f"damping {drive.damping:.4g}"]
    if math.isfinite(drive.max_force):
        parts.append(f"at most {drive.max_force:.4g}")
    if drive.acceleration:
        parts.append("acceleration")
    return ", ".join(parts)


def _leader(plan: BridgePlan, dof: DofPlan) -> str:
    mimic = dof.mimic
    if mimic is None:
        return ""
    offset = f" + {mimic.offset:.4g}" if mimic.offset else ""
    more = " + higher powers" if mimic.polynomial else ""
    return f"{mimic.multiplier:.4g} * {plan.layout.dofs[mimic.leader]}{offset}{more}"


# --- Interfaces and controllers -----------------------------------------------------------------------------------


def interfaces_section(plan: BridgePlan) -> Iterator[str]:
    """Yield topics, services and actions."""
    columns = ("name", "kind", "type", "#Hz", "frame_id", "~QoS", "state", "prim")
    interfaces: list[TopicPlan | ServicePlan | ActionPlan] = [*plan.topics, *plan.services, *plan.actions]
    yield from table(columns, [_interface_row(each) for each in interfaces])
    if not interfaces:
        yield '<p class="quiet">None.</p>'


def _interface_row(each: TopicPlan | ServicePlan | ActionPlan) -> Sequence[object]:
    kind = each.role
    rate, frame, qos = None, "", ""
    if isinstance(each, TopicPlan):
        rate, qos = each.publish_rate, qos_text(each.qos)
        frame = f"{each.frame_id}, child {each.child_frame_id}" if each.child_frame_id else each.frame_id
        kind += ", implicit" if each.implicit else ""
    else:
        kind = f"{'service' if isinstance(each, ServicePlan) else 'action'} {each.role}"
    if each.domain_id is not None:
        kind += f", domain {each.domain_id}"
    return (
        element("code", each.name),
        kind,
        each.type,
        number(rate),
        frame,
        qos,
        _state(each),
        prim(each.path),
    )


def qos_text(qos: QosPlan) -> str:
    """Return a quality of service in one line."""
    if qos.match_publisher:
        return "match publisher"
    depth = f" {qos.depth}" if qos.history == "keep_last" else ""
    return f"{qos.reliability}, {qos.durability}, {qos.history}{depth}"


def _state(each: InterfacePlan | ControllerPlan) -> Html:
    if each.enabled:
        return element("span", "enabled", class_="on")
    return element("span", each.reason or "disabled", class_="off")


def controllers_section(plan: BridgePlan) -> Iterator[str]:
    """Yield controllers with their joints and parameters."""
    rows = []
    for each in plan.controllers:
        parameters = [f"{name} = {_parameter(value)}" for name, value in sorted(each.parameters.items())]
        shown: Html | str = ""
        if parameters:
            lines = joined([element("div", line) for line in parameters])
            shown = Html(f"<details><summary>{len(parameters)}</summary>{lines}</details>")
        schema = each.schema + (" (implied)" if each.implied else "")
        interfaces = joined(map(prim, each.interfaces), "<br>")
        rows.append((prim(each.path), schema, ", ".join(each.joints), interfaces, shown, _state(each)))
    yield from table(("controller", "schema", "~joints", "interfaces", "parameters", "state"), rows)
    if not rows:
        yield '<p class="quiet">None.</p>'


def _parameter(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_parameter, value))}]"
    return str(value)


# --- Variants and layers ------------------------------------------------------------------------------------------


def composition_section(layers: Sequence[str], variants: Sequence[VariantSet]) -> Iterator[str]:
    """Yield the layer files, and the variant sets with their choices."""
    rows = [
        (
            prim(each.prim_path),
            each.name,
            joined(
                [
                    element("b", name, class_="on") if name == each.selected else name
                    for name in each.variants
                ],
                ", ",
            ),
            each.selected,
        )
        for each in variants
    ]
    if rows:
        yield "<h3>Variant sets</h3>"
        yield from table(("prim", "set", "variants", "selected"), rows)
    yield f"<h3>Layers ({len(layers)})</h3>"
    yield from table(("file",), [(element("code", each),) for each in layers])
