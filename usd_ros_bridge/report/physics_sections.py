"""Sections of the page about what engines simulate: bodies, colliders, materials, filters, actuators, sensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import combinations, product
from typing import Any, Final

from usd_ros_bridge.model.diagnostics import Diagnostic, grouped
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Mesh, PhysicsScene, Shape
from usd_ros_bridge.model.plan import WORLD, BridgePlan
from usd_ros_bridge.model.sensors import Sensor
from usd_ros_bridge.report.html_parts import Html, element, facts, joined, number, numbers, prim, table, text
from usd_ros_bridge.spatial.pose import Pose

MAX_PAIRS: Final = 300
"""Filtered pairs that are listed."""
_MAX_ROBOTS: Final = 20
"""Robots whose mass and self-collision are listed."""
_MAX_BODIES: Final = 300
"""Bodies of a robot up to which the pairs that may collide are counted."""
_PHYSICS_CODES: Final = ("1.3.", "1.4.")
_COMMON: Final = frozenset(field.name for field in fields(Sensor))


def physics_section(plan: BridgePlan) -> Iterator[str]:
    """Yield the physics of a plan."""
    scene = plan.physics
    if scene is None or not (scene.bodies or scene.colliders or scene.joints):
        yield '<p class="quiet">The asset has no physics.</p>'
        return
    yield from facts(_scene_facts(plan, scene))
    yield from _not_simulated(plan.diagnostics)
    if scene.bodies:
        yield "<h3>Bodies</h3>"
        yield from table(
            (
                "body",
                "robot",
                "hangs from",
                "#mass, kg",
                "centre of mass, m",
                "moments of inertia, kg m²",
                "state",
            ),
            [_body_row(plan, scene, body) for body in scene.bodies],
        )
    if scene.colliders:
        yield "<h3>Colliders</h3>"
        columns = (
            "collider",
            "body",
            "shape",
            "#static friction",
            "#dynamic friction",
            "#restitution",
            "group",
        )
        yield from table(columns, [_collider_row(scene, each) for each in scene.colliders])
    yield from _filters(scene)
    yield from _actuators(scene)


def _scene_facts(plan: BridgePlan, scene: PhysicsScene) -> Iterator[tuple[str, object]]:
    for index, robot in enumerate(plan.robots[:_MAX_ROBOTS]):
        mass = sum(body.inertial.mass for body in scene.bodies if body.robot == index)
        yield f"mass of {robot.namespace}", f"{mass:.4g} kg"
    if len(plan.robots) > _MAX_ROBOTS:
        yield "further robots", len(plan.robots) - _MAX_ROBOTS
    props = [body for body in scene.bodies if body.robot < 0]
    if props:
        yield "mass of other bodies", f"{sum(body.inertial.mass for body in props):.4g} kg"
    yield "gravity", f"{numbers(scene.gravity)} m/s²"
    yield "time step", "the engine's" if scene.timestep is None else f"{scene.timestep:g} s"
    yield "bodies", f"{len(scene.bodies)}, {sum(body.kinematic for body in scene.bodies)} of them kinematic"
    shapes = Counter(_shape_name(each.shape) for each in scene.colliders)
    yield "colliders", f"{len(scene.colliders)}" + (f": {_counted(shapes)}" if shapes else "")
    yield "contact materials", len({each.material for each in scene.colliders if each.material is not None})
    filtered = {
        "bodies": scene.apart_bodies,
        "colliders": scene.apart_colliders,
        "groups": scene.apart_groups,
    }
    yield "filtered pairs", ", ".join(f"{len(pairs)} of {name}" for name, pairs in filtered.items())
    yield "loops", sum(joint.closes_loop for joint in scene.joints) or ""
    yield "actuators, tendons", f"{len(scene.actuators)}, {len(scene.tendons)}"
    for index, robot in enumerate(plan.robots[:_MAX_ROBOTS]):
        yield f"self-collision of {robot.namespace}", _self_collision(scene, index)
    yield "solver", ", ".join(f"{name} {value}" for name, value in scene.solver.items())


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _self_collision(scene: PhysicsScene, robot: int) -> str:
    """Return how many pairs of a robot's bodies with colliders may collide."""
    carried: dict[int, list[int]] = {}
    for row, each in enumerate(scene.colliders):
        if each.body >= 0 and scene.bodies[each.body].robot == robot:
            carried.setdefault(each.body, []).append(row)
    if len(carried) > _MAX_BODIES:
        return f"not counted: more than {_MAX_BODIES} bodies"
    apart_bodies, apart_colliders = set(scene.apart_bodies), set(scene.apart_colliders)
    apart_groups = {frozenset(pair) for pair in scene.apart_groups}
    group_of = [each.group for each in scene.colliders]
    groups = {body: {group_of[row] for row in rows} for body, rows in carried.items()}

    def may_meet(one: int, other: int) -> bool:
        if not any(frozenset(pair) not in apart_groups for pair in product(groups[one], groups[other])):
            return False
        return any(
            frozenset((group_of[row], group_of[column])) not in apart_groups
            and (min(row, column), max(row, column)) not in apart_colliders
            for row, column in product(carried[one], carried[other])
        )

    pairs = list(combinations(sorted(carried), 2))
    meeting = sum(pair not in apart_bodies and may_meet(*pair) for pair in pairs)
    return f"{meeting} of {len(pairs)} pairs of bodies"


def _not_simulated(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    found = [each for each in diagnostics if each.code.startswith(_PHYSICS_CODES)]
    if not found:
        yield "<p>No finding says that something is not simulated as authored.</p>"
        return
    plural = "" if len(found) == 1 else "s"
    yield f"<p>{len(found)} finding{plural} about physics, such as what is not simulated:</p><ul>"
    groups = grouped(found)
    for each in groups[:50]:
        yield f"<li>{prim(each.where)}: {text(each.message)} (<code>{text(each.first.code)}</code>)</li>"
    if len(groups) > 50:
        more = sum(each.count for each in groups[50:])
        yield f"<li>and {more} more: see the findings</li>"
    yield "</ul>"


def _body_row(plan: BridgePlan, scene: PhysicsScene, body: Body) -> Sequence[object]:
    inertial = body.inertial
    state = ["kinematic"] if body.kinematic else []
    state += ["no gravity"] if not body.gravity_scale else []
    state += ["starts asleep"] if body.starts_asleep else []
    state += ["damped"] if body.linear_damping or body.angular_damping else []
    state += ["surface moves"] if body.surface is not None else []
    above = _name(scene, body.parent) if body.joints else "free"
    owner = plan.robots[body.robot].namespace if body.robot >= 0 else ""
    moments = ", ".join(f"{value:.3g}" for value in inertial.diagonal)
    return (
        *(prim(body.path), owner, above, number(inertial.mass), numbers(inertial.center), moments),
        ", ".join(state),
    )


def _collider_row(scene: PhysicsScene, each: Collider) -> Sequence[object]:
    found = each.contact_material
    values = (found.static_friction, found.dynamic_friction, found.restitution)
    group = scene.groups[each.group] if each.group >= 0 else ""
    return prim(each.path), _name(scene, each.body), _shape(each.shape), *map(number, values), group


def _name(scene: PhysicsScene, body: int) -> str:
    return WORLD if body == WORLD_BODY else scene.bodies[body].path.rpartition("/")[2]


def _shape_name(shape: Shape) -> str:
    return type(shape).__name__


def _shape(shape: Shape) -> str:
    if isinstance(shape, Mesh):
        return f"Mesh, {len(shape.triangles)} triangles, {shape.approximation}"
    sizes = [f"{field.name.replace('_', ' ')} {_size(getattr(shape, field.name))}" for field in fields(shape)]
    return f"{_shape_name(shape)}, {', '.join(sizes)}"


def _size(value: Any) -> str:
    return numbers(value) if isinstance(value, tuple) else number(value)


def _filters(scene: PhysicsScene) -> Iterator[str]:
    pairs = [(scene.bodies[one].path, scene.bodies[other].path) for one, other in scene.apart_bodies]
    pairs += [
        (scene.colliders[one].path, scene.colliders[other].path) for one, other in scene.apart_colliders
    ]
    pairs += [(scene.groups[one], scene.groups[other]) for one, other in scene.apart_groups]
    if pairs:
        yield f"<details><summary>Pairs that do not collide ({len(pairs)})</summary>"
        yield from table(("one", "other"), [(prim(one), prim(other)) for one, other in pairs[:MAX_PAIRS]])
        if len(pairs) > MAX_PAIRS:
            yield f'<p class="quiet">The first {MAX_PAIRS} of {len(pairs)} pairs.</p>'
        yield "</details>"


def _actuators(scene: PhysicsScene) -> Iterator[str]:
    if not scene.actuators:
        return
    rows = []
    for each in scene.actuators:
        found = (
            (each.joint, scene.joints),
            (each.tendon, scene.tendons),
            (each.site, scene.sites),
            (each.body, scene.bodies),
        )
        target = next((among[index].path for index, among in found if index >= 0), "")
        law = f"{each.gain[0]}, {each.bias[0]}, {each.dynamics[0]}"
        rows.append((prim(each.path), each.transmission, prim(target), law, each.interface or "control"))
    yield "<h3>Actuators</h3>"
    yield from table(("actuator", "on", "target", "gain, bias, dynamics", "commanded by"), rows)


# --- Sensors ------------------------------------------------------------------------------------------------------


def sensors_section(plan: BridgePlan) -> Iterator[str]:
    """Yield sensors of backends and of plug-ins, and cameras."""
    rows: list[Sequence[object]] = []
    if plan.physics is not None:
        for each in plan.physics.sensors:
            kind = type(each).__name__.removesuffix("Sensor")
            noise = [f"noise {each.noise_stddev:.4g}"] if each.noise_stddev else []
            values = [*_own_values(plan, each), *noise]
            body = _name(plan.physics, each.body)
            rows.append((prim(each.path), kind, each.type, number(each.rate), body, _list(values)))
    for model in plan.sensors:
        values = [f"{name} {_value(value)}" for name, value in model.values.items()]
        rows.append((prim(model.path), model.schema, "", "", "", _list(values)))
    for camera in plan.scene.cameras:
        values = [f"{camera.width} x {camera.height}", f"fx {camera.fx:.4g}", f"fy {camera.fy:.4g}"]
        values += [f"{camera.near:.3g} to {camera.far:.3g} m"]
        rows.append((prim(camera.path), "camera prim", "", "", "", _list(values)))
    yield from table(("sensor", "kind", "type", "#Hz", "body", "values"), rows)
    if not rows:
        yield '<p class="quiet">None.</p>'


def _own_values(plan: BridgePlan, sensor: Sensor) -> Iterator[str]:
    """Yield the attributes of a sensor's kind; indices as what they stand for."""
    for field in fields(sensor):
        value = getattr(sensor, field.name)
        if field.name in _COMMON or isinstance(value, Pose) or value in ("", None):
            continue
        if field.name == "camera":
            value = plan.scene.cameras[value].path
        elif field.name == "joint" and plan.physics is not None:
            value = plan.physics.joints[value].path if value >= 0 else "none"
        elif field.name == "frame_body":
            continue
        yield f"{field.name} {_value(value)}"


def _list(values: Sequence[str]) -> Html:
    return joined([element("div", each) for each in values])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "no limit"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)
