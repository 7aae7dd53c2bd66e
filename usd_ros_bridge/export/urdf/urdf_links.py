"""Links of a URDF: the frames of a robot as a tree, and the joints between them (REP 0158 section 3.7)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.export.urdf.urdf_joints import LinkNames, UrdfJoint, edge_chain
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import FramePlan, RobotPlan
from usd_ros_bridge.spatial.pose import normalized

MAX_NAMED: Final = 8
"""Frames that one message names."""

PARENT_FRAME = -1
"""In place of the index of a frame: the robot's parent frame, which is not a frame of the robot."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkTree:
    """The links and joints of one robot.

    Attributes:
        root: Name of the root link.
        frames: Indices in RobotPlan.frames of the frames that are links, parents first; the root first if it is one
            of them.
        joints: By frame, the joints that lead to it from its parent. The root has none.
        added: Massless links between joints. They are not frames.
        diagnostics: Frames that were left out.
    """

    root: str
    frames: tuple[int, ...]
    joints: dict[int, tuple[UrdfJoint, ...]]
    added: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def link_tree(robot: RobotPlan) -> LinkTree:
    """Return a robot's frames as a tree of links.

    The root of a free robot is its base. The root of any other robot is its topmost frame, that of the context; also
    if the base is a body among other frames, without joints (a crate in a cell). The parent frame is the root if
    several frames are its children, or if joints move the topmost frame.
    """
    root, members = _members(robot)
    names = LinkNames(robot)
    joints = {number: _joints_to(robot, number, names) for number in members if number != root}
    diagnostics = _left_out(robot, members) if robot.base >= 0 and root == robot.base else []
    diagnostics += [
        _floating(robot.frames[number]) for number, chain in joints.items() if chain[0].type == "floating"
    ]
    return LinkTree(
        root=robot.parent_frame if root == PARENT_FRAME else robot.frames[root].id,
        frames=members,
        joints=joints,
        added=tuple(names.added),
        diagnostics=tuple(diagnostics),
    )


def _members(robot: RobotPlan) -> tuple[int, tuple[int, ...]]:
    if robot.base >= 0:
        found = {robot.base}
        for number, frame in enumerate(robot.frames):
            if frame.parent_index in found:
                found.add(number)
        if robot.edges or robot.frames[robot.base].parent_index < 0 or not _unconnected(robot, found):
            return robot.base, (robot.base, *sorted(found - {robot.base}))
    tops = [number for number, frame in enumerate(robot.frames) if frame.parent_index < 0]
    everything = tuple(range(len(robot.frames)))
    if len(tops) == 1 and not _has_dofs(robot, robot.frames[tops[0]]):
        return tops[0], everything
    return PARENT_FRAME, everything


def _unconnected(robot: RobotPlan, members: Collection[int]) -> list[FramePlan]:
    """Return the frames that are not members. The context of a robot that moves is left out by design."""
    frames = enumerate(robot.frames)
    return [frame for number, frame in frames if number not in members and frame.path != robot.path]


def _has_dofs(robot: RobotPlan, frame: FramePlan) -> bool:
    return frame.edge >= 0 and not robot.edges[frame.edge].rigid


def _joints_to(robot: RobotPlan, number: int, names: LinkNames) -> tuple[UrdfJoint, ...]:
    frame = robot.frames[number]
    if frame.edge >= 0:
        return edge_chain(robot, robot.edges[frame.edge], parent=frame.parent, child=frame.id, names=names)
    above = robot.frames[frame.parent_index].carrier if frame.parent_index >= 0 else -1
    return (
        UrdfJoint(
            name=names.joint(f"{frame.id}_joint"),
            type="fixed" if frame.static or frame.carrier == above else "floating",
            parent=frame.parent,
            child=frame.id,
            origin=normalized(frame.parent_from_frame),
        ),
    )


def _left_out(robot: RobotPlan, members: tuple[int, ...]) -> list[Diagnostic]:
    lost = _unconnected(robot, set(members))
    if not lost:
        return []
    names = ", ".join(frame.id for frame in lost[:MAX_NAMED]) + (", ..." if len(lost) > MAX_NAMED else "")
    return [
        Diagnostic(
            code="3.8.frame",
            severity="warning",
            path=lost[0].path,
            message=f"{len(lost)} of {len(robot.frames)} frames do not hang from the robot's base "
            f"{robot.frames[robot.base].id}, and are no links of the URDF: {names}",
            remedy="connect them to the base by joints, or move them below the bodies that carry them",
        )
    ]


def _floating(frame: FramePlan) -> Diagnostic:
    return Diagnostic(
        code="3.8.floating",
        severity="info",
        path=frame.path,
        message=f"no joint position determines the frame {frame.id}; a floating joint of the URDF leads to it",
        remedy="take its transform from the bridge: robot_state_publisher does not know it",
    )
