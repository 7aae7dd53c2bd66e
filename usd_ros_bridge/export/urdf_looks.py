"""What is seen of a robot's links and what of them collides: `visual` and `collision` elements."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from usd_ros_bridge.export.urdf_meshes import MeshFiles
from usd_ros_bridge.export.urdf_names import ShapeNames
from usd_ros_bridge.export.urdf_poses import compose, inverse, normalized
from usd_ros_bridge.export.urdf_scene import Part, SortedScene
from usd_ros_bridge.export.urdf_shapes import Primitive, bounds, primitives
from usd_ros_bridge.export.urdf_xml import Materials, add_geometry, add_origin, number, numbers
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics import Mesh
from usd_ros_bridge.model.plan import FramePlan, Pose, RobotPlan
from usd_ros_bridge.model.state import FloatArray


class Shapes:
    """The shapes of one robot."""

    def __init__(
        self,
        robot: RobotPlan,
        links: tuple[int, ...],
        scene: SortedScene,
        *,
        body_pose: FloatArray,
        files: MeshFiles | None,
    ) -> None:
        """Finds the link of what no body carries.

        Args:
            robot: The robot.
            links: Indices in RobotPlan.frames of the frames that are links.
            scene: The shapes.
            body_pose: (B, 7) `world_from_body` at rest.
            files: Takes the meshes; None leaves them out.
        """
        self._robot = robot
        self._carried = scene.carried
        self._body_pose = body_pose
        self._files = files
        self._materials = Materials()
        self._findings: list[Diagnostic] = []
        self._without_file = 0
        self._standing = self._find_links(scene, {robot.frames[i].path: robot.frames[i] for i in links})

    def add_to(self, link: ET.Element, frame: FramePlan) -> None:
        """Adds the visuals of the link that is a frame, then its collisions."""
        placed = [(part, normalized(part.place)) for part in self._carried.get(frame.path, ())]
        if standing := self._standing.get(frame.path):
            link_from_world = inverse(self._world_from(frame))
            placed += [(part, compose(link_from_world, normalized(part.place))) for part in standing]
        for kind in ("visual", "collision"):
            names = ShapeNames()
            for part, place in placed:
                if part.kind == kind:
                    self._add(link, part, place, names)

    def _world_from(self, frame: FramePlan) -> Pose:
        carrier_from_frame = normalized(frame.carrier_from_frame)
        if frame.carrier < 0:
            return carrier_from_frame
        x, y, z, qx, qy, qz, qw = self._body_pose[frame.carrier].tolist()
        return compose(Pose((x, y, z), (qx, qy, qz, qw)), carrier_from_frame)

    def materials(self) -> list[ET.Element]:
        """Returns the definitions of all colours so far."""
        return self._materials.define()

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

    def _find_links(self, scene: SortedScene, links: Mapping[str, FramePlan]) -> dict[str, list[Part]]:
        """Sorts what no body carries to the nearest link at or above it: a pedestal to the context, for example."""
        found: dict[str, list[Part]] = {}
        for part in scene.standing.get(self._robot.path, ()):
            path = part.path
            while path and path not in links:
                path = path.rpartition("/")[0]
            if path:
                found.setdefault(path, []).append(part)
        return found

    # --- What URDF has for it ---------------------------------------------------------------------------------

    def _add(self, link: ET.Element, part: Part, place: Pose, names: ShapeNames) -> None:
        found = primitives(part.shape)
        if isinstance(found, Mesh) and part.kind == "collision":
            found = bounds(found)
        if isinstance(found, Mesh):
            self._add_mesh(link, part, place, found, names)
        elif found is None:
            self._say_endless(part)
        else:
            for primitive in found:
                self._add_primitive(link, part, place, primitive, names)

    def _add_primitive(
        self, link: ET.Element, part: Part, place: Pose, primitive: Primitive, names: ShapeNames
    ) -> None:
        name = names.claim(_prim_name(part.path) + primitive.suffix)
        element = ET.SubElement(link, part.kind, {"name": name})
        add_origin(element, compose(place, primitive.shape_from_primitive))
        sizes = {size: " ".join(map(number, values)) for size, values in primitive.sizes.items()}
        add_geometry(element, primitive.tag, sizes)
        if part.color is not None:
            self._materials.add_to(element, part.color)

    def _add_mesh(self, link: ET.Element, part: Part, place: Pose, mesh: Mesh, names: ShapeNames) -> None:
        if self._files is None:
            self._without_file += 1
            return
        file = self._files.place(mesh, path=part.path, color=part.color)
        if isinstance(file, Diagnostic):
            self._findings.append(file)
            return
        self._findings += file.diagnostics
        element = ET.SubElement(link, part.kind, {"name": names.claim(_prim_name(part.path))})
        add_origin(element, place)
        attributes = {"filename": file.uri}
        if file.scale != (1.0, 1.0, 1.0):
            attributes["scale"] = numbers(file.scale)
        add_geometry(element, "mesh", attributes)
        if part.color is not None and not file.has_looks:
            self._materials.add_to(element, part.color)

    def _say_endless(self, part: Part) -> None:
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
