"""Views for people: the plan of `inspect`, the differences of `diff`, and the live table of `run`.

Text from assets and peers is made safe for a terminal: no markup, no control characters, bounded.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.change import (
    CHANGE_MARKS,
    ChangeKind,
    FieldChange,
    ItemDifference,
    PlanDifference,
    value_text,
)
from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic, worst_first
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Dof, Joint, Mesh, PhysicsScene, Shape
from usd_ros_bridge.model.plan import (
    WORLD,
    BridgePlan,
    ControllerPlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
)

if TYPE_CHECKING:
    from usd_ros_bridge.reporting import Reported
    from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus

PIPED_WIDTH = 200

MOST_ROWS = 500
"""Limit for tables and trees of rich: rows of a table, frames of a tree."""

MAX_CELL = 256

SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


class TerminalConsole(Console):
    """Console that prints text without markup and control characters."""

    def __init__(self, **options: Any) -> None:
        """Create a console.

        Args:
            options: Those of rich.
        """
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments with escaped text. Rich adds its own sequences later, from the styles."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(escaped(text, keep="\n"), style)


class LongTable:
    """Long table as plain columns: rich takes 0.1 ms for each cell of its own tables."""

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
        """Store the content.

        Args:
            title: Line above the table.
            columns: Headings.
            rows: Cells.
        """
        self._title = title
        self._lines = [columns, *([str(cell) for cell in row] for row in rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        widths = [max(map(len, column)) for column in zip(*self._lines, strict=True)]
        yield Segment(self._title)
        yield Segment.line()
        for cells in self._lines:
            padded = "  ".join([cell.ljust(width) for cell, width in zip(cells, widths, strict=True)])
            yield Segment(padded.rstrip())
            yield Segment.line()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> RenderableType:
    """Return a table of rich, or a `LongTable` for many rows."""
    if len(rows) > MOST_ROWS:
        return LongTable(title, columns, rows)
    made = Table(*columns, title=title, title_justify="left")
    for row in rows:
        made.add_row(*row)
    return made


def standard_output() -> Console:
    """Return a console on standard output: as wide as the terminal, or wide enough for most tables without one."""
    return TerminalConsole(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def write_json(value: Any) -> None:
    """Write a value to standard output as indented JSON of printable ASCII."""
    text = json.dumps(value, indent=2, allow_nan=False)
    # JSON does not escape this control character.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def plain(value: object, *, style: str = "") -> Text:
    """Return `value` as rich text without markup, with escaped control characters, bounded."""
    text = str(value)
    if len(text) > MAX_CELL:
        text = text[:MAX_CELL] + "..."
    return Text(escaped(text), style=style)


def number(value: float | None, *, digits: int = 4) -> Text:
    """Return a number right-aligned and short, or an empty cell for None."""
    return Text("" if value is None else f"{value:.{digits}g}", justify="right")


def vector(values: tuple[float, ...]) -> str:
    """Return short numbers in brackets. -0 and rounding noise become 0."""
    return "[" + ", ".join(f"{0.0 if abs(v) < 5e-7 else v:.4g}" for v in values) + "]"


# --- The plan ----------------------------------------------------------------------------------------------------


def print_plan(plan: BridgePlan, console: Console) -> None:
    """Print the whole plan, robots first, diagnostics last."""
    console.print(Rule(plain(plan.asset, style="bold")))
    for robot in plan.robots:
        console.print(_robot(robot))
    for renderable in _interfaces(plan):
        console.print(renderable)
    if plan.physics is not None:
        for each in physics_tables(plan.physics):
            console.print(each)
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
        "robot ",
        plain(robot.path, style="bold cyan"),
        "  namespace ",
        plain(robot.namespace, style="bold"),
        f"  domain {domain}  tf: ",
        plain(tf),
        "  (implicit context)" if robot.implicit else "",
    )
    parts: list[RenderableType] = [head, _frames(robot)]
    if robot.joints:
        parts.append(_joint_table(robot.joints))
    return Group(*parts)


def _frames(robot: RobotPlan) -> RenderableType:
    """Return a tree of the frames, or a table if there are many: the width of a tree grows with its depth."""
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
        plain(frame.id, style="bold"),
        " ",
        kind,
        " ",
        (f"{vector(pose.translation)} {vector(pose.rotation)} ", "dim"),
        plain(frame.path, style="dim"),
    )


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
                plain(topic.name),
                plain(topic.role),
                plain(topic.type),
                number(topic.publish_rate),
                plain(topic.frame_id),
                qos_text(topic.qos),
                state_text(topic),
            )
            for topic in plan.topics
        ]
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
    """Return a quality of service in one line."""
    if qos.match_publisher:
        return Text("match publisher")
    depth = f" {qos.depth}" if qos.history == "keep_last" else ""
    return Text(f"{qos.reliability}, {qos.durability}, {qos.history}{depth}")


def state_text(item: InterfacePlan | ControllerPlan | TopicPlan) -> Text:
    """Return `enabled`, or the reason why not; in yellow if a controller can still be activated."""
    if item.enabled:
        return Text("enabled", style="green")
    switchable = isinstance(item, ControllerPlan) and item.switchable
    return plain(item.reason or "disabled", style="yellow" if switchable else "red")


def diagnostics_table(diagnostics: Iterable[Diagnostic]) -> RenderableType:
    """Return a table of diagnostics, worst first."""
    rows: list[Sequence[Text | str]] = []
    for diagnostic in worst_first(diagnostics):
        where = f"{diagnostic.path}.{diagnostic.attribute}" if diagnostic.attribute else diagnostic.path
        severity = Text(diagnostic.severity, style=SEVERITY_STYLES[diagnostic.severity])
        texts = [plain(text) for text in (where, diagnostic.message, diagnostic.remedy)]
        if diagnostic.layer:
            # On a line of its own, where a terminal can make a link of it.
            texts[0] = Text("\n").join(each for each in (texts[0], plain(diagnostic.place)) if each)
        rows.append((severity, plain(diagnostic.code), *texts))
    return table("diagnostics", ("severity", "code", "prim, file", "message", "remedy"), rows)


def physics_tables(scene: PhysicsScene) -> Iterable[RenderableType]:
    """Yield a line about the scene, then tables of its contents."""
    yield _physics_summary(scene)
    if scene.bodies:
        yield _bodies(scene.bodies)
    if scene.joints:
        yield _physics_joints(scene.joints, scene.bodies)
    if scene.colliders:
        yield _colliders(scene.colliders, scene.bodies)
    if scene.tendons:
        yield _tendons(scene)
    if scene.actuators:
        yield _actuators(scene)
    if scene.sensors:
        rows = [
            (
                plain(sensor.path),
                type(sensor).__name__.removesuffix("Sensor"),
                number(sensor.rate),
                _name(sensor.body, scene.bodies),
            )
            for sensor in scene.sensors
        ]
        yield table("sensors", ("sensor", "kind", "Hz", "body"), rows)


def _physics_summary(scene: PhysicsScene) -> Text:
    mass = sum(body.inertial.mass for body in scene.bodies if not body.kinematic)
    step = "the engine's" if scene.timestep is None else f"{scene.timestep:g} s"
    parts = [f"gravity {vector(scene.gravity)} m/s^2", f"step {step}", f"{mass:.4g} kg"]
    parts += [f"{name} {value}" for name, value in scene.solver.items()]
    counts = [(len(scene.visuals), "visual"), (len(scene.apart_bodies), "filtered pair")]
    parts += [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
    parts.append("needs forces" if scene.needs_forces else "a kinematic model will do")
    return Text.assemble(("physics  ", "bold cyan"), plain(", ".join(parts)))


def _name(body: int, bodies: Sequence[Body]) -> Text:
    return Text(WORLD, style="dim") if body == WORLD_BODY else plain(bodies[body].path.rpartition("/")[2])


def _bodies(bodies: Sequence[Body]) -> RenderableType:
    rows: list[Sequence[Text | str]] = []
    for body in bodies:
        inertial = body.inertial
        state = Text("kinematic", style="magenta") if body.kinematic else Text("free", style="green")
        places = (
            vector(inertial.center),
            _moments(inertial.diagonal),
            vector(body.world_from_body.translation),
        )
        above = _name(body.parent, bodies) if body.joints else state
        rows.append((plain(body.path), above, number(inertial.mass), *places))
    return table("bodies", ("body", "hangs from", "kg", "centre", "inertia", "at"), rows)


def _moments(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in values) + "]"


def _physics_joints(joints: Sequence[Joint], bodies: Sequence[Body]) -> RenderableType:
    columns = ("joint", "type", "body0", "body1", "axes", "drive (stiffness, damping)", "limits")
    rows: list[Sequence[Text | str]] = []
    # Several axes of a joint are several lines in a cell. A long table has one line per row.
    between = "\n" if len(joints) <= MOST_ROWS else "; "
    for joint in joints:
        kind = joint.type + (" (loop)" if joint.closes_loop else "")
        drives, limits = between.join(map(_drive, joint.dofs)), between.join(_limits(joint))
        ends = _name(joint.body0, bodies), _name(joint.body1, bodies)
        rows.append(
            (plain(joint.path), kind, *ends, " ".join(dof.axis for dof in joint.dofs), drives, limits)
        )
    return table("joints of the engine", columns, rows)


def _tendons(scene: PhysicsScene) -> RenderableType:
    rows: list[Sequence[Text | str]] = []
    for tendon in scene.tendons:
        parts = f"{len(tendon.joints)} joints" if tendon.joints else f"{len(tendon.points)} points"
        limits = "" if tendon.limits is None else _range(*tendon.limits)
        rows.append((plain(tendon.path), "fixed" if tendon.joints else "spatial", parts, limits))
    return table("tendons", ("tendon", "type", "over", "limits"), rows)


def _actuators(scene: PhysicsScene) -> RenderableType:
    rows: list[Sequence[Text | str]] = []
    for actuator in scene.actuators:
        found = (
            (actuator.joint, scene.joints),
            (actuator.tendon, scene.tendons),
            (actuator.site, scene.sites),
            (actuator.body, scene.bodies),
        )
        target = next((among[number].path for number, among in found if number >= 0), "")
        law = f"{actuator.gain[0]}, {actuator.bias[0]}, {actuator.dynamics[0]}"
        control = "" if actuator.control_range is None else _range(*actuator.control_range)
        names = plain(" ".join(actuator.names[:-1]) or actuator.path)
        rows.append(
            (names, actuator.transmission, plain(target), law, control, actuator.interface or "control")
        )
    columns = ("actuator", "on", "target", "gain, bias, dynamics", "control", "commanded by")
    return table("actuators", columns, rows)


def _drive(dof: Dof) -> str:
    if dof.mimic is not None:
        return "mimic"
    drive = dof.drive
    if drive is None:
        return "passive"
    bound = f", at most {drive.max_force:.4g}" if math.isfinite(drive.max_force) else ""
    kind = "acceleration " if drive.acceleration else ""
    return f"{kind}{drive.stiffness:.4g}, {drive.damping:.4g}{bound}"


def _limits(joint: Joint) -> list[str]:
    if joint.distance is not None:
        return [_range(*joint.distance)]
    if joint.cone is not None:
        return [f"cone {joint.cone[0]:.4g}, {joint.cone[1]:.4g}"]
    return [_range(dof.lower, dof.upper) for dof in joint.dofs]


def _range(lower: float, upper: float) -> str:
    return f"{lower:.4g} to {upper:.4g}" if math.isfinite(lower) or math.isfinite(upper) else ""


def _colliders(colliders: Sequence[Collider], bodies: Sequence[Body]) -> RenderableType:
    found: dict[tuple[int, str], Counter[str]] = {}
    for collider in colliders:
        material = collider.material
        friction = (
            "" if material is None else f"{material.static_friction:.3g} / {material.dynamic_friction:.3g}"
        )
        found.setdefault((collider.body, friction), Counter())[_shape(collider.shape)] += 1
    rows: list[Sequence[Text | str]] = []
    for (body, friction), shapes in found.items():
        told = ", ".join(f"{count} x {shape}" if count > 1 else shape for shape, count in shapes.items())
        rows.append((_name(body, bodies), told, friction))
    return table("colliders", ("body", "colliders", "friction"), rows)


def _shape(shape: Shape) -> str:
    if isinstance(shape, Mesh):
        return f"Mesh ({len(shape.triangles)} triangles, {shape.approximation})"
    return type(shape).__name__


# --- Differences of two plans ------------------------------------------------------------------------------------

_STYLES: dict[ChangeKind, str] = {"added": "green", "removed": "red", "changed": "yellow"}
_TITLES = {
    "robot": "robots",
    "topic": "topics",
    "service": "services",
    "action": "actions",
    "controller": "controllers",
    "joint": "joints",
    "frame": "frames",
}


def print_difference(found: PlanDifference, console: Console) -> None:
    """Print all differences by kind, then their numbers."""
    for kind, items in groupby(found, key=lambda item: item.kind):
        console.print(Text(_TITLES[kind], style="bold"))
        for item in items:
            # No wrapping, for `grep`.
            console.print(_difference_line(item), soft_wrap=True)
            for field in item.fields:
                console.print(_field_line(field), soft_wrap=True)
    console.print(Text(str(found), style="bold"))


def _difference_line(item: ItemDifference) -> Text:
    owner = f" of {item.robot}" if item.kind in {"joint", "frame"} else ""
    style = _STYLES[item.change]
    return Text.assemble(
        "  ",
        (CHANGE_MARKS[item.change], style),
        f" {item.label} ",
        plain(item.name, style=style),
        plain(owner),
        "  ",
        plain(item.detail, style="dim"),
    )


def _field_line(field: FieldChange) -> Text:
    return Text.assemble(
        "      ",
        plain(field.field),
        ": ",
        plain(value_text(field.old), style="red"),
        " -> ",
        plain(value_text(field.new), style="green"),
    )


# --- The live table ----------------------------------------------------------------------------------------------

REFRESH_SECONDS = 0.25
MAX_FINDINGS = 8
MAX_ROBOTS = 6
MAX_NAME = 48
MAX_REASON = 60

SLOW = 0.95
"""Part of the real-time factor below which time counts as slow."""

TIME_STYLES = {"playing": "green", "paused": "yellow", "stopped": "yellow"}
STATE_STYLES = {"active": "green", "idle": "dim", "silent": "yellow", "disabled": "red"}


@contextmanager
def live_view(status: Callable[[], BridgeStatus], *, console: Console | None = None) -> Iterator[None]:
    """Show `status()` on a terminal, refreshed by a thread, for the duration of a `with` block.

    Args:
        status: Called from the refreshing thread.
        console: Standard output by default.
    """
    ended = threading.Event()
    with Live(
        render_status(status()),
        console=console or TerminalConsole(),
        auto_refresh=False,
        vertical_overflow="crop",
    ) as live:

        def refresh() -> None:
            while not ended.wait(REFRESH_SECONDS):
                live.update(render_status(status()), refresh=True)

        thread = threading.Thread(target=refresh, name="live view", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def render_status(status: BridgeStatus) -> RenderableType:
    """Return the live table of one status."""
    parts: list[RenderableType] = [_head(status), _interface_rows(status), *_frame_lines(status)]
    findings = _findings(status)
    if findings.row_count:
        parts.append(findings)
    parts.append(Text("Ctrl-C ends", style="dim"))
    return Group(*parts)


def _head(status: BridgeStatus) -> Text:
    return Text.assemble(
        plain(status.asset, style="bold cyan"),
        "  backend ",
        plain(status.backend, style="bold"),
        *_time(status),
        f"  {status.ticks} ticks of {status.tick_seconds * 1e6:.0f} us",
        (f"  {status.backend_errors} backend errors", "bold red") if status.backend_errors else "",
    )


def _time(status: BridgeStatus) -> Iterator[str | tuple[str, str]]:
    """Yield the simulation time, its state, and its speed, if the bridge owns time."""
    passing = status.time
    if passing is None:
        return
    yield f"  time {(status.time_ns or 0) * 1e-9:.2f} s "
    yield passing.state, TIME_STYLES[passing.state]
    if passing.achieved_factor is not None:
        asked = passing.real_time_factor
        slow = passing.achieved_factor < SLOW * asked
        yield f" x{passing.achieved_factor:.2f}", "yellow" if slow else ""
        if slow:
            yield f" of {asked:g}"


def _frame_lines(status: BridgeStatus) -> Iterator[Text]:
    """Yield one line for each robot: its frames, moving and static ones in different colours."""
    for robot in status.robots[:MAX_ROBOTS]:
        line = Text.assemble(
            "frames ", plain(robot.namespace, style="bold"), ": ", overflow="ellipsis", no_wrap=True
        )
        tops = dict.fromkeys(frame.parent for frame in robot.frames if frame.parent_index < 0)
        line.append(plain(", ".join(tops), style="dim"))
        for frame in robot.frames:
            line.append(" ").append(plain(frame.id, style="green" if frame.static else "magenta"))
        yield line
    more = f", in {len(status.robots)} robots" if len(status.robots) > 1 else ""
    yield Text.assemble(
        (f"{status.moving_frames} moving", "magenta"), ", ", (f"{status.static_frames} static", "green"), more
    )


def _interface_rows(status: BridgeStatus) -> Table:
    with_domain = len({interface.domain_id for interface in status.interfaces}) > 1
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    names = [interface.name for interface in status.interfaces]
    made.add_column("interface", no_wrap=True)
    made.add_column("name", no_wrap=True, min_width=min(max(map(len, names), default=0), MAX_NAME))
    made.add_column("type", no_wrap=True)
    if with_domain:
        made.add_column("domain", justify="right")
    for title in ("Hz authored", "Hz", "peers", "count"):
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("state", no_wrap=True)
    for interface in status.interfaces:
        made.add_row(*_row(interface, with_domain=with_domain))
    return made


def _row(interface: InterfaceStatus, *, with_domain: bool) -> list[RenderableType]:
    off = interface.state == "disabled"
    asked = "" if interface.authored_rate is None else f"{interface.authored_rate:g}"
    # A publisher without subscribers has no rate, which is not the same as 0 Hz.
    unasked = interface.state == "idle" and bool(interface.reason)
    achieved = "" if off or unasked or interface.kind != "topic" else f"{interface.achieved_rate:.1f}"
    # The reason of a silent publisher is long, and among the reports. That of a disabled interface may be only here.
    state = f"off: {interface.reason}"[:MAX_REASON] if off else interface.state
    if interface.served_by and interface.state == "idle":
        # The server is more useful than `idle`. A controller is shown by the last part of its path.
        state = interface.served_by.rpartition("/")[2][:MAX_REASON]
    if interface.errors:
        state += f" ({interface.errors} failed)"
    role = interface.role if interface.kind == "topic" else f"{interface.kind} {interface.role}"
    domain = [str(interface.domain_id or "")] if with_domain else []
    return [
        plain(role, style="dim"),
        plain(interface.name, style="" if off else "bold"),
        plain(interface.type),
        *domain,
        asked,
        achieved,
        "" if off else str(interface.matched),
        "" if off else str(interface.count),
        plain(state, style="red" if interface.errors else STATE_STYLES[interface.state]),
    ]


def _findings(status: BridgeStatus) -> Table:
    """Return the newest reports and the worst diagnostics, and the number of the others."""
    made = Table(show_header=False, box=None, pad_edge=False)
    rows: list[tuple[Text, Text]] = [
        (Text("warning", style=SEVERITY_STYLES["warning"]), plain(_counted(report)))
        for report in reversed(status.reports)
    ]
    for diagnostic in sorted(status.diagnostics, key=lambda d: SEVERITIES.index(d.severity)):
        style = SEVERITY_STYLES[diagnostic.severity]
        rows.append(
            (
                Text(diagnostic.severity, style=style),
                plain(f"[{diagnostic.code}] {diagnostic.path}: {diagnostic.message}"),
            )
        )
    for row in rows[:MAX_FINDINGS]:
        made.add_row(*row)
    if len(rows) > MAX_FINDINGS:
        made.add_row("", Text(f"and {len(rows) - MAX_FINDINGS} more; `inspect` lists them", style="dim"))
    return made


def _counted(report: Reported) -> str:
    return report.message if report.count == 1 else f"{report.message} ({report.count}x)"
