"""Which frames of a robot are links of its URDF, and by which joints they hang together (REP 0158 section 3.7)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.export.urdf_joints import UrdfJoint, edge_chain
from usd_ros_bridge.export.urdf_names import LinkNames
from usd_ros_bridge.export.urdf_poses import normalized
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import FramePlan, RobotPlan

MOST_NAMED: Final = 8
"""Frames in one message."""

PARENT_FRAME = -1
"""Where an index of a frame is asked for: the frame that the robot hangs from, which is none of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkTree:
    """The links and joints of one robot.

    Attributes:
        root: Name of the root link.
        frames: Indices in RobotPlan.frames of the frames that are links, parents first; the root first where it is one
            of them.
        joints: By frame, the joints that lead to it from its parent; none lead to the root.
        added: Massless links between joints, which are no frames.
        diagnostics: What was left out.
    """

    root: str
    frames: tuple[int, ...]
    joints: dict[int, tuple[UrdfJoint, ...]]
    added: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def link_tree(robot: RobotPlan) -> LinkTree:
    """Returns a robot's frames as a tree of links.

    The root of a robot that is free is its base: what it hangs from is no part of it. That of any other is its topmost
    frame, the context's, and so it is where the base is but a body among other frames, without joints (a crate in a
    cell). Where several frames hang from the parent frame, or joints move the topmost one, it is the parent frame.
    """
    root, members = _members(robot)
    names = LinkNames(robot)
    joints = {number: _joints_to(robot, number, names) for number in members if number != root}
    findings = _left_out(robot, members) if robot.base >= 0 and root == robot.base else []
    findings += [_floating(robot.frames[number]) for number, chain in joints.items() if _floats(chain)]
    return LinkTree(
        root=robot.parent_frame if root == PARENT_FRAME else robot.frames[root].id,
        frames=members,
        joints=joints,
        added=tuple(names.added),
        diagnostics=tuple(findings),
    )


def _members(robot: RobotPlan) -> tuple[int, tuple[int, ...]]:
    if robot.base >= 0:
        found = {robot.base}
        for number, frame in enumerate(robot.frames):
            if frame.parent_index in found:
                found.add(number)
        if robot.edges or robot.frames[robot.base].parent_index < 0 or not _lost(robot, found):
            return robot.base, (robot.base, *sorted(found - {robot.base}))
    tops = [number for number, frame in enumerate(robot.frames) if frame.parent_index < 0]
    whole = tuple(range(len(robot.frames)))
    if len(tops) == 1 and not _has_dofs(robot, robot.frames[tops[0]]):
        return tops[0], whole
    return PARENT_FRAME, whole


def _lost(robot: RobotPlan, members: Collection[int]) -> list[FramePlan]:
    """The frames that are no members. The context of a robot that moves stays where it is, by design."""
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


def _floats(chain: tuple[UrdfJoint, ...]) -> bool:
    return chain[0].type == "floating"


def _left_out(robot: RobotPlan, members: tuple[int, ...]) -> list[Diagnostic]:
    lost = _lost(robot, set(members))
    if not lost:
        return []
    names = ", ".join(frame.id for frame in lost[:MOST_NAMED]) + (", ..." if len(lost) > MOST_NAMED else "")
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
