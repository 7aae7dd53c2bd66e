"""Names of what a URDF has and a plan has not: no two links, and no two joints, may share one."""

from __future__ import annotations

import re

from usd_ros_bridge.model.plan import RobotPlan

_NOT_IN_A_FRAME_ID = re.compile(r"[^A-Za-z0-9_./-]")


class LinkNames:
    """Names of the links and joints of one robot. A link and a joint may share theirs.

    Attributes:
        added: Links that are no frame of the plan, in the order in which they were named.
    """

    def __init__(self, robot: RobotPlan) -> None:
        """Takes the names that the plan gives."""
        self._links = {robot.parent_frame, robot.odom_frame, *(frame.id for frame in robot.frames)}
        self._joints = {joint.name for joint in robot.joints}
        self._joints.update(dof.name for joint in robot.joints for dof in joint.dofs)
        self.added: list[str] = []

    def link_after(self, dof: str) -> str:
        """Returns a name for the link that a degree of freedom moves; tf2 takes it for a frame id."""
        name = _free(_NOT_IN_A_FRAME_ID.sub("_", dof).lstrip("/") + "_link", self._links)
        self.added.append(name)
        return name

    def joint(self, wanted: str) -> str:
        """Returns a name for a joint, as near to `wanted` as there is one free."""
        return _free(wanted, self._joints)


class ShapeNames:
    """Names of the shapes of one link."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def claim(self, wanted: str) -> str:
        """Returns `wanted`, with `_` and a number behind it where it is taken."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name


def _free(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted
