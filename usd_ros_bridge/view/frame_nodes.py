"""Scene nodes that follow frames, for what hangs from a frame: labels, scans, clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.view.tf_poses import FramePoses

if TYPE_CHECKING:
    import viser


def robot_name(robot: RobotPlan) -> str:
    """Return the name of a robot on the page: its namespace, else its own name."""
    return robot.namespace.strip("/") or robot.name or robot.path.rpartition("/")[2]


def robot_names(plan: BridgePlan) -> tuple[str, ...]:
    """Return the unique names of a plan's robots, as parts of scene nodes' names."""
    names: list[str] = []
    taken: set[str] = set()
    for number, robot in enumerate(plan.robots):
        name = robot_name(robot)
        if name in taken:
            name = f"{name}_{number}"
        taken.add(name)
        names.append(name)
    return tuple(names)


class FrameNodes:
    """Scene nodes at frames, each made when something asks for it: a node nobody uses costs nothing."""

    def __init__(self, server: viser.ViserServer, plan: BridgePlan, frames: FramePoses) -> None:
        """Store the arguments."""
        self._server = server
        self._frames = frames
        self._names = robot_names(plan)
        self._handles: dict[int, Any] = {}
        self._seen = -1

    def node(self, robot: int, frame_id: str) -> str:
        """Return the name of the scene node at a frame: `/robots/ROBOT/FRAME`. Nodes added below it move along.

        Args:
            robot: Index in `plan.robots`.
            frame_id: Id of the frame, without prefix.

        Raises:
            KeyError: The robot has no such frame.
        """
        row = self._frames.rows[robot, frame_id]
        name = f"/robots/{self._names[robot]}/{frame_id}"
        if row not in self._handles:
            self._handles[row] = self._server.scene.add_frame(
                name,
                show_axes=False,
                position=self._frames.positions[row],
                wxyz=self._frames.rotations[row],
            )
        return name

    def update(self) -> None:
        """Move the nodes to their frames, where anything has moved."""
        if self._frames.changes == self._seen:
            return
        self._seen = self._frames.changes
        for row, handle in tuple(self._handles.items()):
            # viser sends nothing where a value is the same.
            handle.position = self._frames.positions[row]
            handle.wxyz = self._frames.rotations[row]

    def close(self) -> None:
        """Remove the nodes, and what hangs from them. Idempotent."""
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()
