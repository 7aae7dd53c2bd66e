"""Targets of controllers: joints, one by one or as collections, and bodies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.plan import DofPlan
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.diagnostic_collector import DiagnosticCollector
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex

_COLLECTION = ".collection:"


class Fault(Exception):  # noqa: N818 (not an error of the program: it ends the reading of one controller)
    """Why a controller cannot work."""


class ControllerTargets:
    """Resolves relationship targets, and says what is wrong with them."""

    def __init__(
        self,
        index: StageIndex,
        kinematics: KinematicModel,
        joints: RobotJoints,
        bases: Sequence[Base],
        findings: DiagnosticCollector,
    ) -> None:
        self._index = index
        self._kinematics = kinematics
        self._joints = joints
        self._bases = bases
        self._findings = findings
        self._held = {edge.child for robot in kinematics.robots for edge in robot.edges}

    def expanded(self, targets: Iterable[str] | None, name: str) -> list[str]:
        """Return the joints that the relationship `name` targets; of a collection, its joints in traversal order.

        Raises:
            Fault: A collection does not exist.
        """
        result: list[str] = []
        for target in targets or ():
            if _COLLECTION not in target:
                result.append(target)
            elif target in self._index.records.collections:
                members = self._index.records.collections[target]
                result += [path for path in members if path in self._joints.robot_of_joint]
            else:
                raise Fault(f"{name}: the collection {quoted(target)} does not exist")
        return result

    def dofs(
        self, path: str, targets: Iterable[str] | None, name: str, *, writes: bool
    ) -> tuple[list[DofPlan], set[int]]:
        """Return the degrees of freedom of the joints that a controller names, and the robots that they belong to.

        Args:
            path: The controller, for warnings.
            targets: The relationship's targets.
            name: Its name.
            writes: Whether the controller commands them: those that mimic others are left out, with a warning.

        Raises:
            Fault: One is no joint, or cannot move, or there is none.
        """
        expanded = self.expanded(targets, name)
        if not expanded:
            raise Fault(f"{name} names no joint")
        dofs: dict[int, DofPlan] = {}
        robots = set()
        for target in expanded:
            of_joint = self._dofs_of(target, name)
            robots.add(self._joints.robot_of_joint[target])
            for dof in of_joint:
                if writes and dof.mimic is not None:
                    self._warn_of_follower(path, target)
                else:
                    dofs[dof.row] = dof
        return list(dofs.values()), robots

    def base_of(self, robot: int) -> str:
        """Return the body that a robot moves with where nothing ties it to the world, "" where something does."""
        base = self._bases[robot] if robot >= 0 else Base()
        return base.body if base.free else ""

    def is_free(self, body: str) -> bool:
        """Return whether a rigid body is held by no joint, but for those that hang from it."""
        return body in self._index.bodies and body not in self._held

    def is_body(self, path: str) -> bool:
        """Return whether a prim is a rigid body."""
        return path in self._index.bodies

    def _dofs_of(self, target: str, name: str) -> tuple[DofPlan, ...]:
        if target not in self._joints.robot_of_joint:
            known = target in self._joints.authored
            raise Fault(
                f"{name}: {quoted(target)} " + ("is in no robot's tree of joints" if known else "is no joint")
            )
        dofs = self._kinematics.joint_dofs(target)
        if not dofs:
            raise Fault(f"{name}: the joint {quoted(target)} cannot move")
        return dofs

    def _warn_of_follower(self, path: str, target: str) -> None:
        self._findings.warning(
            "4.2.3.target",
            path,
            f"{quoted(target)} is a mimic joint; it is not commanded",
            "name its leader only",
        )
