"""`inspect --physics` for people: what engines simulate, as rich tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from usd_ros_bridge.console.text import MOST_ROWS, number, plain, table, vector
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Dof, Joint, Mesh, PhysicsScene, Shape
from usd_ros_bridge.model.plan import WORLD


def physics_tables(scene: PhysicsScene) -> Iterable[RenderableType]:
    """Yields a line about the scene, then tables of what it has."""
    yield _head(scene)
    if scene.bodies:
        yield _bodies(scene.bodies)
    if scene.joints:
        yield _joints(scene.joints, scene.bodies)
    if scene.colliders:
        yield _colliders(scene.colliders, scene.bodies)
    if scene.tendons:
        yield _tendons(scene)
    if scene.actuators:
        yield _actuators(scene)
    if scene.sensors:
        rows = [
            (
                plain(sensor.path), type(sensor).__name__.removesuffix("Sensor"), number(sensor.rate),
                _name(sensor.body, scene.bodies),
            )
            for sensor in scene.sensors
        ]  # fmt: skip
        yield table("sensors", ("sensor", "kind", "Hz", "body"), rows)


def _head(scene: PhysicsScene) -> Text:
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


def _joints(joints: Sequence[Joint], bodies: Sequence[Body]) -> RenderableType:
    columns = ("joint", "type", "body0", "body1", "axes", "drive (stiffness, damping)", "limits")
    rows: list[Sequence[Text | str]] = []
    # A cell has several lines where a joint has several axes; a long table has lines only.
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
