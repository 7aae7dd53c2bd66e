"""What is seen of a robot's links and what of them collides: `visual` and `collision` elements."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.export.urdf_joints import array
from usd_ros_bridge.export.urdf_meshes import MeshFiles
from usd_ros_bridge.export.urdf_names import ShapeNames
from usd_ros_bridge.export.urdf_shapes import Primitive, bounds, primitives
from usd_ros_bridge.export.urdf_xml import Materials, add_geometry, add_origin, number, numbers
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.looks import Color
from usd_ros_bridge.model.physics import WORLD_BODY, Collider, Mesh, PhysicsScene, Shape, Visual
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.model.transforms import FloatArray, compose, relative

Kind = Literal["visual", "collision"]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A shape on a link. `color` is None for what only collides."""

    kind: Kind
    path: str
    link_from_shape: FloatArray
    shape: Shape
    color: Color | None


class Shapes:
    """The shapes of one robot, by link."""

    def __init__(self, plan: BridgePlan, robot: RobotPlan, links: tuple[int, ...]) -> None:
        """Sorts shapes to links.

        Args:
            plan: The plan.
            robot: The robot.
            links: Indices in RobotPlan.frames of the frames that are links.
        """
        self._plan = plan
        self._robot = robot
        self._frames = {robot.frames[number].path: robot.frames[number] for number in links}
        self._parts: dict[str, list[_Part]] = defaultdict(list)
        self._findings: list[Diagnostic] = []
        self._without_file = 0
        if plan.physics is not None:
            self._sort(plan.physics)

    def add_to(
        self, link: ET.Element, frame: FramePlan, materials: Materials, files: MeshFiles | None
    ) -> None:
        """Adds a link's visuals, then its collisions.

        Args:
            link: The element.
            frame: The frame that is the link.
            materials: Takes the colours.
            files: Takes the meshes; None leaves them out.
        """
        for kind in ("visual", "collision"):
            names = ShapeNames()
            for part in self._parts.get(frame.path, ()):
                if part.kind == kind:
                    self._add(link, part, names, materials, files)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was left out so far."""
        # One that holds for the whole directory comes back for every mesh.
        found = tuple(dict.fromkeys(self._findings))
        if not self._without_file:
            return found
        return (
            *found,
            Diagnostic(
                code="3.8.mesh",
                severity="info",
                path=self._robot.path,
                message=f"URDF names mesh files, and there is no place for them: {self._without_file} left out",
                remedy="name a directory for mesh files",
            ),
        )

    # --- Which shape is on which link -------------------------------------------------------------------------

    def _sort(self, scene: PhysicsScene) -> None:
        paths = {number: body.path for number, body in enumerate(scene.bodies) if body.path in self._frames}
        for visual in scene.visuals:
            self._take(paths, visual, "visual", visual.color)
        for collider in scene.colliders:
            if collider.color is not None:
                self._take(paths, collider, "visual", collider.color)
            self._take(paths, collider, "collision", None)

    def _take(self, paths: dict[int, str], each: Visual | Collider, kind: Kind, color: Color | None) -> None:
        path = paths.get(each.body, "")
        place = array(each.body_from_shape)
        if each.body == WORLD_BODY and (frame := self._fixed_frame_at(each.path)) is not None:
            path, place = frame.path, relative(self._world_from(frame), place)
        if path:
            self._parts[path].append(_Part(kind, each.path, place, each.shape, color))

    def _fixed_frame_at(self, path: str) -> FramePlan | None:
        """The nearest link at or above a prim that no rigid body carries: a pedestal on the context, for example."""
        while path.startswith(self._robot.path):
            if path in self._frames:
                return self._frames[path]
            path = path.rpartition("/")[0]
        return None

    def _world_from(self, frame: FramePlan) -> FloatArray:
        place = array(frame.carrier_from_frame)
        return place if frame.carrier < 0 else compose(self._plan.layout.body_pose[frame.carrier], place)

    # --- What URDF has for it ---------------------------------------------------------------------------------

    def _add(
        self, link: ET.Element, part: _Part, names: ShapeNames, materials: Materials, files: MeshFiles | None
    ) -> None:
        found = primitives(part.shape)
        if isinstance(found, Mesh) and part.kind == "collision":
            found = bounds(found)
        if isinstance(found, Mesh):
            self._add_mesh(link, part, found, names, materials, files)
        elif found is None:
            self._say_endless(part)
        else:
            for primitive in found:
                self._add_primitive(link, part, primitive, names, materials)

    def _add_primitive(
        self, link: ET.Element, part: _Part, primitive: Primitive, names: ShapeNames, materials: Materials
    ) -> None:
        name = names.claim(_prim_name(part.path) + primitive.suffix)
        element = ET.SubElement(link, part.kind, {"name": name})
        add_origin(element, compose(part.link_from_shape, array(primitive.shape_from_primitive)))
        sizes = {size: " ".join(map(number, values)) for size, values in primitive.sizes.items()}
        add_geometry(element, primitive.tag, sizes)
        if part.color is not None:
            materials.add_to(element, part.color)

    def _add_mesh(
        self,
        link: ET.Element,
        part: _Part,
        mesh: Mesh,
        names: ShapeNames,
        materials: Materials,
        files: MeshFiles | None,
    ) -> None:
        if files is None:
            self._without_file += 1
            return
        file = files.place(mesh, path=part.path, color=part.color)
        if isinstance(file, Diagnostic):
            self._findings.append(file)
            return
        self._findings += file.diagnostics
        element = ET.SubElement(link, part.kind, {"name": names.claim(_prim_name(part.path))})
        add_origin(element, part.link_from_shape)
        attributes = {"filename": file.uri}
        if file.scale != (1.0, 1.0, 1.0):
            attributes["scale"] = numbers(file.scale)
        add_geometry(element, "mesh", attributes)
        if part.color is not None and not file.has_looks:
            materials.add_to(element, part.color)

    def _say_endless(self, part: _Part) -> None:
        self._findings.append(
            Diagnostic(
                code="3.8.shape",
                severity="warning",
                path=part.path,
                message=f"a plane without end is no {part.kind} of the URDF, which has no such geometry",
                remedy="keep the ground outside of the robot, or give the plane a width and a length",
            )
        )


def _prim_name(path: str) -> str:
    return path.rpartition("/")[2]
