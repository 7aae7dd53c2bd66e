"""A robot of a plan as URDF: what robot_state_publisher, RViz, MoveIt and Nav2 read a robot from.

It says what the bridge publishes, in URDF's words: links are the frames of /tf, joints are those of JointState. Of the
asset it is the resolved variant, and nothing that URDF has no word for (REP 0158 sections 3.7 and 3.8).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from usd_ros_bridge.export.urdf_joints import UrdfJoint
from usd_ros_bridge.export.urdf_looks import Shapes
from usd_ros_bridge.export.urdf_meshes import MeshFiles
from usd_ros_bridge.export.urdf_scene import SortedScene, sort_scene
from usd_ros_bridge.export.urdf_tree import LinkTree, link_tree
from usd_ros_bridge.export.urdf_xml import add_inertial, add_joint, document
from usd_ros_bridge.model.diagnostics import CONTAINED, Diagnostic, internal_fault
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Urdf:
    """A robot description.

    Attributes:
        name: Name of the robot: `assetInfo.name` of its context prim, else the prim's name.
        text: The XML document.
        links: Names of the links, the root first, parents before children.
        joints: Names of the joints, in the order of the links that they lead to.
        added_links: Those of `links` that are no frame of the bridge: massless ones, between the several degrees of
            freedom of a joint, or where a joint's axis does not pass through its child's origin.
        diagnostics: What URDF cannot say, and what of the asset was left out.
    """

    name: str
    text: str
    links: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    added_links: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def robot_urdf(plan: BridgePlan, robot: int, *, meshes: MeshFiles | None = None) -> Urdf:
    """Returns a robot of a plan as URDF: see `UrdfExporter`, which is faster for several robots of one plan.

    Args:
        plan: The plan.
        robot: Index in `plan.robots`.
        meshes: Puts meshes into files; None leaves them out.
    """
    return UrdfExporter(plan, meshes=meshes).robot(robot)


class UrdfExporter:
    """Makes the URDFs of a plan's robots."""

    def __init__(self, plan: BridgePlan, *, meshes: MeshFiles | None = None) -> None:
        """Sorts what the plan has to what carries it.

        Args:
            plan: The plan. Masses, shapes, friction and damping are those of `plan.physics`; a plan without physics
                gives links and joints only.
            meshes: Puts meshes into files; None leaves them out.
        """
        self._plan = plan
        self._meshes = meshes
        self._scene = sort_scene(plan)

    def robot(self, number: int) -> Urdf:
        """Returns a robot as URDF; it never raises for what an asset says.

        Frame ids are without prefix: who reads the URDF adds it (`frame_prefix` of robot_state_publisher, "TF Prefix"
        of RViz).

        Args:
            number: Index in `plan.robots`.
        """
        robot = self._plan.robots[number]
        try:
            return self._write(robot)
        except CONTAINED as error:
            fault = internal_fault(robot.path, "writing this robot as URDF", error)
            root = _root(robot)
            return Urdf(name=root.attrib["name"], text=document(root), diagnostics=(fault,))

    def _write(self, robot: RobotPlan) -> Urdf:
        tree = link_tree(robot)
        shapes = Shapes(
            robot, tree.frames, self._scene, body_pose=self._plan.layout.body_pose, files=self._meshes
        )
        return _Writer(robot, tree, self._scene, shapes).write()


class _Writer:
    """One robot on its way into a document."""

    def __init__(self, robot: RobotPlan, tree: LinkTree, scene: SortedScene, shapes: Shapes) -> None:
        self._robot = robot
        self._tree = tree
        self._scene = scene
        self._shapes = shapes
        self._root = _root(robot)
        self._leaders = {
            joint.dof.row: joint.name for chain in tree.joints.values() for joint in chain if joint.dof
        }
        self._links: list[str] = []
        self._joints: list[str] = []
        self._findings = list(tree.diagnostics)

    def write(self) -> Urdf:
        robot, tree = self._robot, self._tree
        if not (tree.frames and robot.frames[tree.frames[0]].id == tree.root):
            self._add_link(tree.root)
        for number in tree.frames:
            self._add_frame(robot.frames[number], tree.joints.get(number, ()))
        for place, material in enumerate(self._shapes.materials()):
            self._root.insert(place, material)
        return Urdf(
            name=self._root.attrib["name"],
            text=document(self._root),
            links=tuple(self._links),
            joints=tuple(self._joints),
            added_links=tree.added,
            diagnostics=(*self._findings, *self._loops(), *self._shapes.diagnostics),
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
                self._findings.append(_lost_leader(joint.name, path))
        physics = None if dof is None else self._scene.dofs.get(dof.row)
        add_joint(self._root, joint, physics=physics, leader=leader)

    def _loops(self) -> list[Diagnostic]:
        # A distance joint leads to its child, and holds it in no tree of an engine.
        edges = {joint.path for joint in self._robot.joints}
        frames = [self._robot.frames[number] for number in self._tree.frames]
        closing = dict.fromkeys(path for frame in frames for path in self._scene.closing.get(frame.path, ()))
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


def _root(robot: RobotPlan) -> ET.Element:
    return ET.Element("robot", {"name": robot.name or robot.path.rpartition("/")[2]})


def _lost_leader(name: str, path: str) -> Diagnostic:
    return Diagnostic(
        code="3.8.mimic",
        severity="warning",
        path=path,
        message=f"the joint {name} follows one that is no part of the URDF; there, it follows none",
        remedy="connect both to the robot's base",
    )
