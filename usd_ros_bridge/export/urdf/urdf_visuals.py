"""Visuals and collisions of links: the shapes of a plan as geometries of URDF."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.model.appearance import Color, srgb
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Dof,
    Mesh,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
    Visual,
    cone_mesh,
)
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose, compose, inverse, normalized, roll_pitch_yaw
from usd_ros_bridge.spatial.transforms import FloatArray

ShapeKind = Literal["visual", "collision"]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedShape:
    """A visual or a collision shape. A shape that is both is two of these.

    Attributes:
        kind: Element of the link.
        path: Prim path.
        carrier_from_shape: Pose in its body; in the world if it has no body.
        shape: The shape.
        color: Colour of a visual, None for a collision.
    """

    kind: ShapeKind
    path: str
    carrier_from_shape: Pose
    shape: Shape
    color: Color | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UrdfScene:
    """The physics scene of a plan, indexed once for all robots.

    Attributes:
        bodies: Bodies by prim path.
        dofs: Degrees of freedom by layout row.
        shapes_of_body: Shapes by the path of their body.
        fixed_shapes: Shapes without a body, by the path of the robot that they are below.
        loop_joints: Paths of joints that close loops, by the paths of the bodies at their ends.
    """

    bodies: Mapping[str, Body] = field(default_factory=dict)
    dofs: Mapping[int, Dof] = field(default_factory=dict)
    shapes_of_body: Mapping[str, Sequence[PlacedShape]] = field(default_factory=dict)
    fixed_shapes: Mapping[str, Sequence[PlacedShape]] = field(default_factory=dict)
    loop_joints: Mapping[str, Sequence[str]] = field(default_factory=dict)


def urdf_scene(plan: BridgePlan) -> UrdfScene:
    """Return the physics of a plan, indexed; empty for a plan without physics."""
    scene = plan.physics
    if scene is None:
        return UrdfScene()
    shapes_of_body: dict[str, list[PlacedShape]] = defaultdict(list)
    fixed_shapes: dict[str, list[PlacedShape]] = defaultdict(list)
    robots = {robot.path for robot in plan.robots}
    shapes: list[Visual | Collider] = [*scene.visuals, *scene.colliders]
    for each in shapes:
        if each.body != WORLD_BODY:
            shapes_of_body[scene.bodies[each.body].path] += _placed_shapes(each)
        elif robot := at_or_above(each.path, robots):
            fixed_shapes[robot] += _placed_shapes(each)
    return UrdfScene(
        bodies={body.path: body for body in scene.bodies},
        dofs={dof.row: dof for joint in scene.joints for dof in joint.dofs if dof.row >= 0},
        shapes_of_body=shapes_of_body,
        fixed_shapes=fixed_shapes,
        loop_joints=_loop_joints(scene),
    )


def _placed_shapes(each: Visual | Collider) -> list[PlacedShape]:
    shapes = []
    if each.color is not None:
        shapes.append(PlacedShape("visual", each.path, each.body_from_shape, each.shape, each.color))
    if isinstance(each, Collider):
        shapes.append(PlacedShape("collision", each.path, each.body_from_shape, each.shape, None))
    return shapes


def at_or_above(path: str, wanted: Set[str]) -> str:
    """Return the nearest of `wanted` at or above a prim path, "" for none."""
    while path and path not in wanted:
        path = path.rpartition("/")[0]
    return path


def _loop_joints(scene: PhysicsScene) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for joint in scene.joints:
        if joint.closes_loop:
            for body in {joint.body0, joint.body1} - {WORLD_BODY}:
                found[scene.bodies[body].path].append(joint.path)
    return found


# --- Shapes as URDF geometries ---

PLANE_THICKNESS = 1e-3
"""Thickness of a plane of finite size, metres: URDF has no geometry without one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Primitive:
    """A geometry of URDF.

    Attributes:
        tag: `box`, `cylinder` or `sphere`.
        sizes: Attributes in metres; those of a box along X, Y and Z.
        shape_from_primitive: Its pose in the shape.
        suffix: End of its name, to distinguish the primitives of one shape.
    """

    tag: str
    sizes: Mapping[str, tuple[float, ...]]
    shape_from_primitive: Pose = IDENTITY_POSE
    suffix: str = ""


def primitives(shape: Shape) -> tuple[Primitive, ...] | Mesh | None:
    """Return a shape as primitives that make it up, or as a mesh; None if URDF has no geometry for it."""
    match shape:
        case Sphere(radius):
            return (_ball(radius),)
        case Box((x, y, z)):
            return (Primitive(tag="box", sizes={"size": (2.0 * x, 2.0 * y, 2.0 * z)}),)
        case Cylinder(radius, half_height):
            return (_cylinder(radius, half_height),)
        case Capsule(radius, half_height) if half_height <= 0.0:
            return (_ball(radius),)
        case Capsule(radius, half_height):
            return (
                _cylinder(radius, half_height),
                _ball(radius, height=half_height, suffix="_top"),
                _ball(radius, height=-half_height, suffix="_bottom"),
            )
        case Plane((x, y)) if x > 0.0 and y > 0.0:
            size = (2.0 * x, 2.0 * y, PLANE_THICKNESS)
            below = Pose((0.0, 0.0, -0.5 * PLANE_THICKNESS))
            return (Primitive(tag="box", sizes={"size": size}, shape_from_primitive=below),)
        case Plane():
            return None
        case Cone():
            return cone_mesh(shape)
    return shape


def collision_geometry(mesh: Mesh) -> tuple[Primitive, ...] | Mesh:
    """Return the collision geometry of a mesh: its bounding box or ball if its approximation is one, else itself."""
    if mesh.approximation not in ("boundingCube", "boundingSphere") or not len(mesh.triangles):
        return mesh
    points = mesh.points[np.unique(mesh.triangles)]
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = (0.5 * (low + high)).tolist()
    centre = Pose((x, y, z))
    if mesh.approximation == "boundingCube":
        size = tuple((high - low).tolist())
        return (Primitive(tag="box", sizes={"size": size}, shape_from_primitive=centre),)
    radius = float(np.linalg.norm(points - (x, y, z), axis=-1).max())
    return (Primitive(tag="sphere", sizes={"radius": (radius,)}, shape_from_primitive=centre),)


def _ball(radius: float, *, height: float = 0.0, suffix: str = "") -> Primitive:
    place = Pose((0.0, 0.0, height))
    return Primitive(tag="sphere", sizes={"radius": (radius,)}, shape_from_primitive=place, suffix=suffix)


def _cylinder(radius: float, half_height: float) -> Primitive:
    return Primitive(tag="cylinder", sizes={"radius": (radius,), "length": (2.0 * half_height,)})


# --- Elements of links ---

ROUNDING: Final = 1e-12


def number(value: float) -> str:
    """Return a number with twelve digits. The rest is rounding."""
    return f"{value + 0.0:.12g}"


def numbers(values: Iterable[float]) -> str:
    """Return numbers; those that differ from 0 by rounding alone are 0."""
    return " ".join(number(0.0 if abs(value) < ROUNDING else value) for value in values)


def add_origin(element: ET.Element, parent_from_child: Pose) -> None:
    """Add the `origin` of a pose; the identity needs none."""
    attributes = {
        "xyz": numbers(parent_from_child.translation),
        "rpy": numbers(roll_pitch_yaw(parent_from_child.rotation)),
    }
    if any(text != "0 0 0" for text in attributes.values()):
        ET.SubElement(element, "origin", attributes)


class UrdfMaterials:
    """Colours of a document: each is defined once at the top, and visuals refer to it by name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add_to(self, visual: ET.Element, color: Color) -> None:
        """Refer to a colour in a visual: linear as in OpenUSD, sRGB in the document."""
        rgba = " ".join(number(round(value, 6)) for value in srgb(color))
        name = self._names.setdefault(rgba, f"color_{len(self._names) + 1}")
        ET.SubElement(visual, "material", {"name": name})

    def define(self) -> list[ET.Element]:
        """Return the definitions of all colours referred to so far."""
        found = []
        for rgba, name in self._names.items():
            material = ET.Element("material", {"name": name})
            ET.SubElement(material, "color", {"rgba": rgba})
            found.append(material)
        return found


def add_geometry(shape: ET.Element, tag: str, attributes: Mapping[str, str]) -> None:
    """Add the geometry of a visual or collision."""
    ET.SubElement(ET.SubElement(shape, "geometry"), tag, dict(attributes))


class LinkShapes:
    """Write the visuals and collisions of one robot's links."""

    def __init__(
        self,
        robot: RobotPlan,
        links: tuple[int, ...],
        scene: UrdfScene,
        *,
        body_pose: FloatArray,
        meshes: MeshCache | None,
    ) -> None:
        """Find the links of shapes without a body.

        Args:
            robot: The robot.
            links: Indices in RobotPlan.frames of the frames that are links.
            scene: The shapes.
            body_pose: (B, 7) `world_from_body` at rest.
            meshes: Destination of mesh files. None leaves meshes out.
        """
        self._robot = robot
        self._shapes_of_body = scene.shapes_of_body
        self._body_pose = body_pose
        self._meshes = meshes
        self._materials = UrdfMaterials()
        self._diagnostics: list[Diagnostic] = []
        self._meshes_without_file = 0
        self._fixed_shapes = self._by_nearest_link(
            scene.fixed_shapes.get(robot.path, ()), {robot.frames[i].path for i in links}
        )

    @staticmethod
    def _by_nearest_link(shapes: Sequence[PlacedShape], links: Set[str]) -> dict[str, list[PlacedShape]]:
        """Return shapes by the nearest link at or above them: a pedestal is part of the context's, for example."""
        found: dict[str, list[PlacedShape]] = {}
        for shape in shapes:
            path = at_or_above(shape.path, links)
            if path:
                found.setdefault(path, []).append(shape)
        return found

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return what was left out so far."""
        # A fault of the directory comes back for every mesh.
        found = tuple(dict.fromkeys(self._diagnostics))
        if not self._meshes_without_file:
            return found
        return (
            *found,
            Diagnostic(
                code="3.8.mesh",
                severity="info",
                path=self._robot.path,
                message="URDF names mesh files, and there is no place for them: "
                f"{self._meshes_without_file} left out",
                remedy="name a directory for mesh files",
            ),
        )

    def materials(self) -> list[ET.Element]:
        """Return the definitions of all colours so far."""
        return self._materials.define()

    def add_to(self, link: ET.Element, frame: FramePlan) -> None:
        """Add the visuals of the link of a frame, then its collisions."""
        placed = [
            (shape, normalized(shape.carrier_from_shape))
            for shape in self._shapes_of_body.get(frame.path, ())
        ]
        if fixed := self._fixed_shapes.get(frame.path):
            link_from_world = inverse(self._world_from(frame))
            placed += [
                (shape, compose(link_from_world, normalized(shape.carrier_from_shape))) for shape in fixed
            ]
        for kind in ("visual", "collision"):
            names = _ShapeNames()
            for shape, link_from_shape in placed:
                if shape.kind == kind:
                    self._add_shape(link, shape, link_from_shape, names)

    def _world_from(self, frame: FramePlan) -> Pose:
        carrier_from_frame = normalized(frame.carrier_from_frame)
        if frame.carrier < 0:
            return carrier_from_frame
        x, y, z, qx, qy, qz, qw = self._body_pose[frame.carrier].tolist()
        return compose(Pose((x, y, z), (qx, qy, qz, qw)), carrier_from_frame)

    def _add_shape(
        self, link: ET.Element, shape: PlacedShape, link_from_shape: Pose, names: _ShapeNames
    ) -> None:
        found = primitives(shape.shape)
        if isinstance(found, Mesh) and shape.kind == "collision":
            found = collision_geometry(found)
        if isinstance(found, Mesh):
            self._add_mesh(link, shape, link_from_shape, found, names)
        elif found is None:
            self._diagnostics.append(_endless_plane(shape))
        else:
            for primitive in found:
                self._add_primitive(link, shape, link_from_shape, primitive, names)

    def _add_primitive(
        self,
        link: ET.Element,
        shape: PlacedShape,
        link_from_shape: Pose,
        primitive: Primitive,
        names: _ShapeNames,
    ) -> None:
        name = names.unique(_prim_name(shape.path) + primitive.suffix)
        element = ET.SubElement(link, shape.kind, {"name": name})
        add_origin(element, compose(link_from_shape, primitive.shape_from_primitive))
        sizes = {size: " ".join(map(number, values)) for size, values in primitive.sizes.items()}
        add_geometry(element, primitive.tag, sizes)
        if shape.color is not None:
            self._materials.add_to(element, shape.color)

    def _add_mesh(
        self, link: ET.Element, shape: PlacedShape, link_from_shape: Pose, mesh: Mesh, names: _ShapeNames
    ) -> None:
        if self._meshes is None:
            self._meshes_without_file += 1
            return
        file = self._meshes.write(mesh, path=shape.path, color=shape.color)
        if isinstance(file, Diagnostic):
            self._diagnostics.append(file)
            return
        self._diagnostics += file.diagnostics
        element = ET.SubElement(link, shape.kind, {"name": names.unique(_prim_name(shape.path))})
        add_origin(element, link_from_shape)
        add_geometry(element, "mesh", {"filename": file.uri})
        if shape.color is not None and not file.has_colors:
            self._materials.add_to(element, shape.color)


def _endless_plane(shape: PlacedShape) -> Diagnostic:
    return Diagnostic(
        code="3.8.shape",
        severity="warning",
        path=shape.path,
        message=f"a plane without end is no {shape.kind} of the URDF, which has no such geometry",
        remedy="keep the ground outside of the robot, or give the plane a width and a length",
    )


def _prim_name(path: str) -> str:
    return path.rpartition("/")[2]


class _ShapeNames:
    """Unique names of the shapes of one link."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or with `_` and a number after it if another shape has it."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name
