"""Joints by interface, and their names there: those of its robot, or of its nested context alone.

A robot may list the joints and links that it reports (isaac:physics:robotJoints, isaac:physics:robotLinks).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from usd_ros_bridge.model.plan import DofPlan
from usd_ros_bridge.model.records import ActuatedRecord, IsaacRobotRecord
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.kinematics.joint_graph import TreeJoint
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import Nearest, ancestors, is_below


class ReportedPrims:
    """Look-up of the prims that robots report. A list that names a robot includes its list; no list means everything.

    Attributes:
        limited: Whether any robot has a list.
    """

    def __init__(self, robots: Iterable[IsaacRobotRecord], field: str, known: Container[str]) -> None:
        """Expand the lists.

        Args:
            robots: The robots of a stage.
            field: `joints` or `links`.
            known: The prims that may be listed. A list without any of them is out of date, and limits nothing.
        """
        self._lists: dict[str, Sequence[str]] = {r.path: getattr(r, field) or () for r in robots}
        self._known = known
        self._members: dict[str, frozenset[str]] = {}
        self._whole: dict[str, tuple[str, ...]] = {}
        for path in self._lists:
            members: set[str] = set()
            whole: list[str] = []
            self._expand(path, members, whole, {path})
            if whole or any(member in known for member in members):
                self._members[path] = frozenset(members)
                self._whole[path] = tuple(whole)
        self._nearest = Nearest(self._members)
        self.limited = bool(self._members)

    def reports(self, path: str) -> bool:
        """Return whether the outermost robot with a list that a prim is in reports the prim."""
        robot = self._nearest(path) if self.limited else ""
        if not robot:
            return True
        robot = next((each for each in reversed([*ancestors(robot)]) if each in self._members), robot)
        return path in self._members[robot] or any(is_below(path, root) for root in self._whole[robot])

    def listed(self) -> list[str]:
        """Return every prim that is named by a list which counts, once."""
        return list(dict.fromkeys(each for robot in self._members for each in self._lists[robot]))

    def _expand(self, robot: str, members: set[str], whole: list[str], seen: set[str]) -> None:
        for target in self._lists[robot]:
            members.add(target)
            if target not in self._lists or target in seen:
                continue
            seen.add(target)
            if self._lists[target]:
                self._expand(target, members, whole, seen)
            else:
                whole.append(target)


class RobotJoints:
    """Look-ups of degrees of freedom by interface."""

    def __init__(
        self,
        joints: Sequence[TreeJoint],
        contexts: Contexts,
        kinematics: KinematicModel,
        actuators: Iterable[ActuatedRecord] = (),
        isaac_robots: Sequence[IsaacRobotRecord] = (),
    ) -> None:
        self._contexts = contexts
        self._kinematics = kinematics
        self.authored = frozenset(joint.path for joint in joints)
        self.robot_of_root = {robot.context.path: i for i, robot in enumerate(kinematics.robots)}
        self.robot_of_joint = {j.path: i for i, robot in enumerate(kinematics.robots) for j in robot.joints}
        self._known: dict[str, tuple[DofPlan, ...]] = {}
        self._reported = ReportedPrims(isaac_robots, "joints", kinematics.joint_rows)
        self._silent = {
            dof.row
            for path in (kinematics.joint_rows if self._reported.limited else ())
            if not self._reported.reports(path)
            for dof in kinematics.joint_dofs(path)
        }
        # Whether a drive or an actuator acts on it, by row; of joints with several degrees of freedom, only those
        # where one does.
        self._driven = {
            dof.row: motion.driven
            for dofs, motions in zip(kinematics.dofs, kinematics.motions, strict=True)
            for dof, motion in zip(dofs, motions, strict=True)
            if len(dofs) == 1 or motion.driven
        }
        for path in {target for actuator in actuators for target in actuator.target or ()}:
            if path in self.robot_of_joint:
                self._driven.update((dof.row, True) for dof in kinematics.joint_dofs(path))

    def below(self, path: str) -> tuple[DofPlan, ...]:
        """Return the degrees of freedom for an interface at `path`, in the order of JointState.

        In a nested context they are its own, with the names that they have there; it may have none.
        """
        context = self._contexts.nearest(path)
        if context is None:
            return ()
        if context.path not in self._known:
            self._known[context.path] = self._of_context(context.path, context.root)
        return self._known[context.path]

    def reported(self, path: str) -> tuple[DofPlan, ...]:
        """Return those of `below` that JointState publishers show: Isaac's list of joints limits them."""
        return tuple(dof for dof in self.below(path) if dof.row not in self._silent)

    def is_narrowed(self, path: str) -> bool:
        """Return whether the joints for an interface at `path` are those of a nested context, not all the robot's."""
        context = self._contexts.nearest(path)
        if context is None or context.path == context.root:
            return False
        return len(self.below(path)) < len(self.below(context.root))

    def named(self, dofs: Iterable[DofPlan], path: str) -> list[DofPlan]:
        """Return degrees of freedom as the nearest context at or above `path` that has all of them names them."""
        dofs = list(dofs)
        for context in self._contexts.nested(path):
            names = self._kinematics.context_dofs.get(context.path, {})
            if all(dof.row in names for dof in dofs):
                return [_renamed(dof, names[dof.row]) for dof in dofs]
        return dofs

    def commandable(self, path: str) -> tuple[DofPlan, ...]:
        """Return those that an inferred controller commands: no mimic followers, no passive joints.

        A joint is passive where others of the robot have a PhysicsDriveAPI or an actuator and it has none; where none
        has one, joints with several degrees of freedom are.
        """
        free = [dof for dof in self.below(path) if dof.mimic is None]
        driven = [dof for dof in free if self.is_driven(dof.row)]
        return tuple(driven or [dof for dof in free if dof.row in self._driven])

    def is_driven(self, row: int) -> bool:
        """Return whether a PhysicsDriveAPI or an actuator acts on a degree of freedom."""
        return self._driven.get(row, False)

    def _of_context(self, path: str, root: str) -> tuple[DofPlan, ...]:
        kinematics = self._kinematics
        number = self.robot_of_root[root]
        by_row = {
            dof.row: dof
            for joint in kinematics.robots[number].joints
            for dof in kinematics.joint_dofs(joint.path)
        }
        rows = kinematics.joint_state_rows[number]
        if path == root:
            return tuple(by_row[row] for row in rows)
        names = kinematics.context_dofs.get(path, {})
        return tuple(_renamed(by_row[row], names[row]) for row in rows if row in names)


def _renamed(dof: DofPlan, name: str) -> DofPlan:
    return dof if dof.name == name else replace(dof, name=name)
