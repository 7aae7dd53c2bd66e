"""Views for people: the plan of `inspect` and the differences of `diff`. `live_app` is that of `run`.

Text from assets and peers is made safe for a terminal: no markup, no control characters, bounded.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console, ConsoleOptions, Group, RenderableType
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
from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic, grouped, worst_first
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
    from usd_ros_bridge.backends.mujoco.engine_settings import EngineSettings
    from usd_ros_bridge.backends.mujoco.stiff_drives import SolvedDrive

PIPED_WIDTH = 200

NARROW = 120
"""Columns below which tables become lists, which shorten nothing."""

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

    def on_broken_pipe(self) -> NoReturn:
        """Raise BrokenPipeError: what to do is up to the caller. Rich would end the process with status 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class PlanTable:
    """A table of rich; on a narrow terminal a list, which shortens nothing; with very many rows plain columns.

    Rich takes 0.1 ms for each cell of its own tables.
    """

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
        """Store the content.

        Args:
            title: Line above the table.
            columns: Headings.
            rows: Cells.
        """
        self._title = title
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if console.width < NARROW:
            yield from self._list()
        elif len(self._rows) > MOST_ROWS:
            yield from self._plain_columns()
        else:
            made = Table(title=self._title, title_justify="left")
            for column in self._columns:
                made.add_column(column, overflow="fold")
            for row in self._rows:
                made.add_row(*row)
            yield made

    def _list(self) -> Iterator[Text]:
        """Yield the first cell of each row, which names it, and in a line below it the others that are not empty."""
        yield Text(self._title, style="bold")
        for first, *others in self._rows:
            yield Text.assemble("  ", _unaligned(first, style="bold"))
            shown = [
                Text.assemble((f"{column} " if column else "", "dim"), _unaligned(cell))
                for column, cell in zip(self._columns[1:], others, strict=True)
                if str(cell)
            ]
            if shown:
                yield Text.assemble("    ", Text(", ").join(shown))

    def _plain_columns(self) -> Iterator[Text]:
        lines = [self._columns, *([str(cell) for cell in row] for row in self._rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        yield Text(self._title)
        for cells in lines:
            padded = "  ".join([cell.ljust(width) for cell, width in zip(cells, widths, strict=True)])
            yield Text(padded.rstrip(), no_wrap=True, overflow="ignore")


def _unaligned(cell: Text | str, *, style: str = "") -> Text:
    shown = cell.copy() if isinstance(cell, Text) else Text(cell)
    shown.justify = None
    shown.stylize(style)
    return shown


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> RenderableType:
    """Return a table, which becomes a list on a narrow terminal."""
    return PlanTable(title, columns, rows)


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


def print_plan(plan: BridgePlan, console: Console, settings: EngineSettings | str | None = None) -> None:
    """Print the whole plan, robots first, diagnostics last.

    Args:
        plan: The plan.
        console: Where to print.
        settings: What MuJoCo makes of its physics, or why that is not known; None leaves it out.
    """
    # A terminal wraps what is too long for a line: rich would cut names in two.
    narrow = console.width < NARROW
    title = plain(plan.asset, style="bold")
    # A rule cuts a title that does not fit.
    fits = title.cell_len + len("─  ─") <= console.width
    console.print(Rule(title) if fits else title, soft_wrap=not fits)
    for robot in plan.robots:
        console.print(_robot(robot), soft_wrap=narrow)
    for renderable in _interfaces(plan):
        console.print(renderable, soft_wrap=narrow)
    if plan.physics is not None:
        for each in physics_tables(plan.physics):
            console.print(each, soft_wrap=narrow)
    if settings is not None:
        print_engine(settings, console)
    if plan.diagnostics:
        console.print(diagnostics_table(plan.diagnostics), soft_wrap=narrow)
    console.print(_summary(plan), soft_wrap=narrow)


def print_engine(settings: EngineSettings | str, console: Console) -> None:
    """Print what MuJoCo makes of an asset's drives and colliders."""
    for each in engine_tables(settings):
        console.print(each, soft_wrap=console.width < NARROW)


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
    parts: list[RenderableType] = [head, FrameTree(robot)]
    if robot.joints:
        parts.append(_joint_table(robot.joints))
    return Group(*parts)


class FrameTree:
    """The frames of a robot as a tree: narrow terminals get indented lines, very many frames a table."""

    def __init__(self, robot: RobotPlan) -> None:
        """Args: robot: The robot."""
        self._robot = robot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if len(self._robot.frames) > MOST_ROWS:
            # The width of a tree grows with its depth.
            yield self._table()
        elif console.width < NARROW:
            yield Text("frames", style="bold")
            for label, depth in self._labels():
                yield Text.assemble("  " * (depth + 1), label)
        else:
            root = Tree(Text("frames", style="dim"))
            branches = [root]
            for label, depth in self._labels():
                del branches[depth + 1 :]
                branches.append(branches[depth].add(label))
            yield root

    def _labels(self) -> Iterator[tuple[Text, int]]:
        """Yield each label with its depth, parents first: the frames that others hang from, then the robot's own."""
        frames = self._robot.frames
        children: dict[int, list[int]] = defaultdict(list)
        for index, frame in enumerate(frames):
            children[frame.parent_index].append(index)
        tops: dict[str, list[int]] = defaultdict(list)
        for index in children[-1]:
            tops[frames[index].parent].append(index)
        for top, indices in tops.items():
            yield plain(top, style="dim"), 0
            pending = [(index, 1) for index in reversed(indices)]
            while pending:
                index, depth = pending.pop()
                yield _frame_label(frames[index]), depth
                pending.extend((child, depth + 1) for child in reversed(children[index]))

    def _table(self) -> RenderableType:
        rows: list[Sequence[Text | str]] = []
        for frame in self._robot.frames:
            kind = "static" if frame.static else "moving"
            pose = f"{vector(frame.parent_from_frame.translation)} {vector(frame.parent_from_frame.rotation)}"
            rows.append((plain(frame.id), plain(frame.parent), kind, pose, plain(frame.path)))
        return table("frames", ("frame", "parent", "", "pose in parent", "prim"), rows)


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
    if plan.sensors:
        sensors = [
            (
                plain(each.path),
                plain(each.schema),
                plain(", ".join(f"{name} {_value_text(value)}" for name, value in each.values.items())),
            )
            for each in plan.sensors
        ]
        yield table("sensors of plug-ins", ("publisher", "model", "values"), sensors)


def _value_text(value: Any) -> str:
    """Return a value of a sensor's attribute, numbers short."""
    if isinstance(value, tuple):
        return vector(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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
    """Return a table of diagnostics, worst first: one row for those that say the same about several prims."""
    rows: list[Sequence[Text | str]] = []
    for group in grouped(worst_first(diagnostics)):
        diagnostic = group.first
        severity = Text(diagnostic.severity, style=SEVERITY_STYLES[diagnostic.severity])
        texts = [plain(text) for text in (group.where, group.message, diagnostic.remedy)]
        if diagnostic.layer:
            # On a line of its own, where a terminal can make a link of it.
            texts[0] = Text("\n").join(each for each in (texts[0], plain(diagnostic.place)) if each)
        rows.append((severity, plain(diagnostic.code), *texts))
    return table("diagnostics", ("severity", "code", "prim, file", "message", "remedy"), rows)


_SHOWN_PATHS = 3
"""Colliders of the same settings that are named."""


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


def engine_tables(settings: EngineSettings | str) -> Iterable[RenderableType]:
    """Yield what MuJoCo makes of the drives and colliders, or why that is not known."""
    title = ("in MuJoCo  ", "bold cyan")
    if isinstance(settings, str):
        yield Text.assemble(title, plain(f"not known: {settings}"))
        return
    contacts = "several contacts" if settings.multiccd else "one contact"
    yield Text.assemble(
        title,
        plain(
            f"{settings.version}, step {settings.timestep:g} s, {settings.integrator}, {contacts} for a pair of convex "
            "shapes"
        ),
    )
    if settings.drives:
        columns = ("drive", "solved as", "stiffness, damping", "effort", "g w")
        yield table("drives in MuJoCo", columns, [_solved_drive(each) for each in settings.drives])
    if settings.contacts:
        found: dict[tuple[str, ...], list[str]] = {}
        for each in settings.contacts:
            values = (_numbers(each.friction), _numbers(each.solref), _numbers(each.solimp[:2]))
            key = (*values, str(each.dimensions), str(each.priority))
            found.setdefault(key, []).append(each.path)
        rows: list[Sequence[Text | str]] = [(plain(_listed(paths)), *key) for key, paths in found.items()]
        titles = ("colliders", "friction", "solref", "solimp", "dimensions", "priority")
        yield table("contacts in MuJoCo", titles, rows)


def _solved_drive(drive: SolvedDrive) -> Sequence[Text | str]:
    solved = "row of the solver" if not drive.actuator_because else f"actuator: {drive.actuator_because}"
    effort = _range(*drive.effort) or "no limit"
    return (
        plain(drive.joint),
        solved,
        _numbers((drive.stiffness, drive.damping)),
        effort,
        f"{drive.ratio:.3g}",
    )


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_SHOWN_PATHS]) + (
        f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    )


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
        material = collider.contact_material
        friction = f"{material.static_friction:.3g} / {material.dynamic_friction:.3g}"
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
    degraded: tuple[tuple[ChangeKind, Sequence[Diagnostic]], ...] = (
        ("added", found.degraded_added),
        ("removed", found.degraded_removed),
    )
    if any(diagnostics for _, diagnostics in degraded):
        console.print(Text("not simulated", style="bold"))
    for change, diagnostics in degraded:
        for group in grouped(diagnostics):
            mark = (CHANGE_MARKS[change], _STYLES[change])
            console.print(
                Text.assemble("  ", mark, " ", plain(f"{group.where}: {group.message}")), soft_wrap=True
            )
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
