"""The URDF document of a robot: links are the frames of /tf, joints are those of JointState.

It describes the selected variants of the asset, as far as URDF can (REP 0158 sections 3.7 and 3.8).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf.link_tree import LinkTree, UrdfJoint, link_tree
from usd_ros_bridge.export.urdf.urdf_visuals import (
    ROUNDING,
    LinkShapes,
    UrdfScene,
    add_origin,
    number,
    numbers,
    urdf_scene,
)
from usd_ros_bridge.model.diagnostics import CONTAINED, Diagnostic, internal_fault
from usd_ros_bridge.model.physics import Dof, Inertial
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.spatial.pose import Pose, normalized, rotation_matrix

UNLIMITED: Final = 1e9
"""Written for a limit that does not exist (rad, m, rad/s, m/s, N m or N): URDF requires numbers, and its parsers reject
infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Urdf:
    """A robot description.

    Attributes:
        name: Name of the robot: `assetInfo.name` of its context prim, else the prim's name.
        text: The XML document.
        links: Names of the links, the root first, parents before children.
        joints: Names of the joints, in the order of the links that they lead to.
        added_links: Those of `links` that are not frames of the bridge: massless links between the degrees of freedom
            of a joint, or on a joint's axis that does not pass through the origin of its child.
        diagnostics: Parts that URDF cannot express, or that were left out.
    """

    name: str
    text: str
    links: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    added_links: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def robot_urdf(plan: BridgePlan, robot: int, *, meshes: MeshCache | None = None) -> Urdf:
    """Return a robot of a plan as URDF. For several robots of one plan, `UrdfExporter` is faster.

    Args:
        plan: The plan.
        robot: Index in `plan.robots`.
        meshes: Destination of mesh files. None leaves meshes out.
    """
    return UrdfExporter(plan, meshes=meshes).robot(robot)


class UrdfExporter:
    """Export robots of a plan as URDF."""

    def __init__(self, plan: BridgePlan, *, meshes: MeshCache | None = None) -> None:
        """Index the physics of the plan.

        Args:
            plan: The plan. Masses, shapes, friction and damping are those of `plan.physics`; a plan without physics
                gives links and joints only.
            meshes: Destination of mesh files. None leaves meshes out.
        """
        self._plan = plan
        self._meshes = meshes
        self._scene = urdf_scene(plan)

    def robot(self, number: int) -> Urdf:
        """Return a robot as URDF. Faults of the asset are diagnostics, never exceptions.

        Frame ids have no prefix: readers of the URDF add it (`frame_prefix` of robot_state_publisher, "TF Prefix" of
        RViz).

        Args:
            number: Index in `plan.robots`.
        """
        robot = self._plan.robots[number]
        try:
            return self._write(robot)
        except CONTAINED as error:
            fault = internal_fault(robot.path, "writing this robot as URDF", error)
            root = _robot_element(robot)
            return Urdf(name=root.attrib["name"], text=document_text(root), diagnostics=(fault,))

    def _write(self, robot: RobotPlan) -> Urdf:
        tree = link_tree(robot)
        shapes = LinkShapes(
            robot, tree.frames, self._scene, body_pose=self._plan.layout.body_pose, meshes=self._meshes
        )
        return _Writer(robot, tree, self._scene, shapes).write()


class _Writer:
    """Write one robot into a document."""

    def __init__(self, robot: RobotPlan, tree: LinkTree, scene: UrdfScene, shapes: LinkShapes) -> None:
        self._robot = robot
        self._tree = tree
        self._scene = scene
        self._shapes = shapes
        self._root = _robot_element(robot)
        self._leaders = {
            joint.dof.row: joint.name for chain in tree.joints.values() for joint in chain if joint.dof
        }
        self._links: list[str] = []
        self._joints: list[str] = []
        self._diagnostics = list(tree.diagnostics)

    def write(self) -> Urdf:
        robot, tree = self._robot, self._tree
        if not (tree.frames and robot.frames[tree.frames[0]].id == tree.root):
            self._add_link(tree.root)
        for index in tree.frames:
            self._add_frame(robot.frames[index], tree.joints.get(index, ()))
        for place, material in enumerate(self._shapes.materials()):
            self._root.insert(place, material)
        return Urdf(
            name=self._root.attrib["name"],
            text=document_text(self._root),
            links=tuple(self._links),
            joints=tuple(self._joints),
            added_links=tree.added,
            diagnostics=(*self._diagnostics, *self._loops(), *self._shapes.diagnostics),
        )

    def _add_frame(self, frame: FramePlan, chain: Sequence[UrdfJoint]) -> None:
        for joint in chain[:-1]:
            self._add_link(joint.child)
        link = self._add_link(frame.id)
        body = self._scene.bodies.get(frame.path)
        if body is not None:
            add_inertial(link, body.inertial)
        self._shapes.add_to(link, frame)
        for joint in chain:
            self._add_joint(joint, frame.path)

    def _add_link(self, name: str) -> ET.Element:
        self._links.append(name)
        return ET.SubElement(self._root, "link", {"name": name})

    def _add_joint(self, joint: UrdfJoint, path: str) -> None:
        self._joints.append(joint.name)
        dof = joint.dof
        leader = None
        if dof is not None and dof.mimic is not None:
            name = self._leaders.get(dof.mimic.leader)
            if name is not None:
                leader = name, dof.mimic.multiplier, dof.mimic.offset
            else:
                self._diagnostics.append(_missing_leader(joint.name, path))
        physics = None if dof is None else self._scene.dofs.get(dof.row)
        add_joint(self._root, joint, physics=physics, leader=leader)

    def _loops(self) -> list[Diagnostic]:
        # A distance joint is an edge of the bridge's tree, and closes a loop for engines.
        edges = {joint.path for joint in self._robot.joints}
        frames = [self._robot.frames[number] for number in self._tree.frames]
        closing = dict.fromkeys(
            path for frame in frames for path in self._scene.loop_joints.get(frame.path, ())
        )
        return [
            Diagnostic(
                code="3.8.loop",
                severity="info",
                path=path,
                message="the joint closes a loop; a URDF is a tree, and the joint is no part of it",
            )
            for path in closing
            if path not in edges
        ]


def add_inertial(link: ET.Element, inertial: Inertial) -> None:
    """Add mass, centre of mass, and the inertia matrix about it in the link's axes. A link without mass gets none."""
    if not inertial.mass > 0.0:
        return
    element = ET.SubElement(link, "inertial")
    add_origin(element, Pose(inertial.center))
    ET.SubElement(element, "mass", {"value": number(inertial.mass)})
    matrix = _inertia(inertial)
    least = ROUNDING * max(map(abs, matrix.values()))
    values = {name: number(value if abs(value) > least else 0.0) for name, value in matrix.items()}
    ET.SubElement(element, "inertia", values)


def _inertia(inertial: Inertial) -> dict[str, float]:
    """Return `R diag(moments) R^T` by URDF's attribute names. R rotates the principal axes to the link's."""
    axes = rotation_matrix(normalized(Pose(rotation=inertial.principal)).rotation)
    return {
        f"i{'xyz'[row]}{'xyz'[column]}": sum(
            left * moment * right
            for left, moment, right in zip(axes[row], inertial.diagonal, axes[column], strict=True)
        )
        for row in range(3)
        for column in range(row, 3)
    }


def add_joint(
    robot: ET.Element, joint: UrdfJoint, *, physics: Dof | None, leader: tuple[str, float, float] | None
) -> None:
    """Add a joint.

    Args:
        robot: The document's root.
        joint: The joint.
        physics: Its degree of freedom in the physics scene, None if it has none.
        leader: Name of the joint that it mimics, multiplier and offset (rad or m); None if it mimics none.
    """
    element = ET.SubElement(robot, "joint", {"name": joint.name, "type": joint.type})
    add_origin(element, joint.origin)
    ET.SubElement(element, "parent", {"link": joint.parent})
    ET.SubElement(element, "child", {"link": joint.child})
    if joint.axis is not None:
        ET.SubElement(element, "axis", {"xyz": numbers(joint.axis)})
    if joint.dof is None:
        return
    _add_limit(element, joint)
    if physics is not None:
        _add_dynamics(element, physics)
    if leader is not None:
        name, multiplier, offset = leader
        ET.SubElement(
            element, "mimic", {"joint": name, "multiplier": number(multiplier), "offset": number(offset)}
        )


def _add_limit(element: ET.Element, joint: UrdfJoint) -> None:
    dof = joint.dof
    assert dof is not None
    bounds = {"effort": number(_finite(dof.max_effort)), "velocity": number(_finite(dof.max_velocity))}
    if joint.type != "continuous":
        bounds = {"lower": number(_finite(dof.lower)), "upper": number(_finite(dof.upper)), **bounds}
    elif math.isinf(dof.max_effort) and math.isinf(dof.max_velocity):
        return
    ET.SubElement(element, "limit", bounds)


def _finite(value: float) -> float:
    return min(max(value, -UNLIMITED), UNLIMITED)


def _add_dynamics(element: ET.Element, dof: Dof) -> None:
    passive = {"damping": 0.0 if dof.drive is not None else dof.damping, "friction": dof.friction}
    present = {name: number(value) for name, value in passive.items() if value > 0.0}
    if present:
        ET.SubElement(element, "dynamics", present)


def _robot_element(robot: RobotPlan) -> ET.Element:
    return ET.Element("robot", {"name": robot.name or robot.path.rpartition("/")[2]})


def _missing_leader(name: str, path: str) -> Diagnostic:
    return Diagnostic(
        code="3.8.mimic",
        severity="warning",
        path=path,
        message=f"the joint {name} follows one that is no part of the URDF; there, it follows none",
        remedy="connect both to the robot's base",
    )


def document_text(root: ET.Element) -> str:
    """Return a document with one element per line."""
    for element in root.iter():
        for name, value in element.attrib.items():
            element.attrib[name] = escaped(value)
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
