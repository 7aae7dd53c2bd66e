"""Robots of the page: their meshes, frames and names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.export.surface import SurfaceMaker
from usd_ros_bridge.model.physics import Collider, PhysicsScene, Visual
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, inverse, pose_array, xyzw
from usd_ros_bridge.view.frame_nodes import robot_name
from usd_ros_bridge.view.mesh_batches import Instance, MeshBatches
from usd_ros_bridge.view.page_component import PageContext, Picked
from usd_ros_bridge.view.tf_poses import FramePoses

FEW_FRAMES: Final = 60
"""Frames whose axes are shown at first."""
MAX_LABELS: Final = 300
"""Names of frames, or robots, that are shown."""
MAX_ROBOT_NAMES: Final = 50
"""Robots whose names are shown at first."""
_AXES_SHARE: Final = 0.08
"""Length of axes, as a share of the robots' size."""


class SceneMeshes:
    """Show the robots: layers `meshes`, `shadows`, `axes`, `frame_names` and `robot_names`."""

    def __init__(self) -> None:
        self._context: PageContext | None = None
        self._batches: MeshBatches | None = None
        self._axes: Any = None
        self._labels: list[Any] = []
        self._robot_labels: list[Any] = []
        self._sources: FloatArray = np.zeros((0, 7))
        self._seen = -1

    def open(self, context: PageContext) -> None:
        """Add the robots, where the plan has them at rest."""
        self._context = context
        instances = tuple(robot_instances(context.plan, context.frames, context.report))
        batches = self._batches = MeshBatches(
            context.server, "/meshes/robots", instances, pick=context.picks.notify
        )
        batches.open(self._poses(), visible=True)
        bounds = batches.bounds
        if bounds is not None:
            _look_at(context.server, bounds)
        size = 1.0 if bounds is None else float(np.linalg.norm(bounds[1] - bounds[0]))
        self._add_axes(context, size / max(1.0, math.sqrt(len(context.plan.robots))))
        layers, robots = context.layers, len(context.plan.robots)
        layers.add("meshes", "robots", batches.show)
        layers.add(
            "axes", "frames", self._show_axes, visible=robots <= 1 and len(context.frames.rows) <= FEW_FRAMES
        )
        layers.add("frame_names", "frame names", self._show_names, visible=False)
        layers.add(
            "robot_names", "robot names", self._show_robot_names, visible=1 < robots <= MAX_ROBOT_NAMES
        )

    def resume(self) -> None:
        """Do nothing: the page subscribes to transforms."""

    def update(self) -> None:
        """Move what has moved."""
        context = self._context
        if context is None or self._batches is None:
            return
        self._batches.hide_robots(context.hidden_robots)
        if context.frames.changes == self._seen:
            return
        self._seen = context.frames.changes
        self._batches.update(self._poses())
        self._place_axes()

    def pause(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Remove the robots. Idempotent."""
        if self._batches is not None:
            self._batches.close()
        self._show_names(False)
        self._show_robot_names(False)
        axes, self._axes = self._axes, None
        if axes is not None:
            axes.remove()
        self._context = self._batches = None

    def _poses(self) -> FloatArray:
        """Return (F, 7) poses of all frames."""
        assert self._context is not None
        frames = self._context.frames
        return np.concatenate([frames.positions, xyzw(frames.rotations)], axis=1)

    # --- Axes and names ---

    def _add_axes(self, context: PageContext, size: float) -> None:
        frames = context.frames
        if len(frames.rows):
            length = _AXES_SHARE * size
            self._axes = context.server.scene.add_batched_axes(
                "/axes",
                frames.rotations.astype(np.float32),
                frames.positions.astype(np.float32),
                axes_length=length,
                axes_radius=0.05 * length,
                visible=False,
            )

    def _show_axes(self, visible: bool) -> None:
        if self._axes is not None:
            self._axes.visible = visible
            self._place_axes()

    def _place_axes(self) -> None:
        if self._axes is not None and self._axes.visible and self._context is not None:
            frames = self._context.frames
            self._axes.batched_positions = frames.positions.astype(np.float32)
            self._axes.batched_wxyzs = frames.rotations.astype(np.float32)

    def _show_names(self, visible: bool) -> None:
        """Add names of frames, which follow them, or remove them."""
        context = self._context
        if not visible or context is None:
            _remove(self._labels)
            return
        if not self._labels:
            for robot, frame in list(context.frames.rows)[:MAX_LABELS]:
                node = context.nodes.node(robot, frame)
                self._labels.append(context.server.scene.add_label(f"{node}/frame_name", frame))

    def _show_robot_names(self, visible: bool) -> None:
        context = self._context
        if not visible or context is None:
            _remove(self._robot_labels)
            return
        if not self._robot_labels:
            for number, robot in enumerate(context.plan.robots[:MAX_LABELS]):
                if robot.frames:
                    # The base, where the topmost frame stays behind.
                    frame = robot.frames[max(robot.base, 0)]
                    node = context.nodes.node(number, frame.id)
                    self._robot_labels.append(
                        context.server.scene.add_label(
                            f"{node}/robot_name", robot_name(robot), anchor="bottom-center"
                        )
                    )


def _remove(labels: list[Any]) -> None:
    for label in labels:
        label.remove()
    labels.clear()


def _look_at(server: Any, bounds: NDArray[np.float64]) -> None:
    """Let new browsers look at a box from the front, a little from above."""
    middle, radius = bounds.mean(axis=0), max(0.5 * float(np.linalg.norm(bounds[1] - bounds[0])), 0.05)
    camera = server.initial_camera
    camera.look_at = tuple(middle)
    camera.position = tuple(middle + 1.7 * radius * np.array([0.75, -0.55, 0.45]))
    camera.near = min(0.01, 0.01 * radius)
    camera.far = max(1000.0, 50.0 * radius)


# --- Which meshes, and where ---


def visible_shapes(scene: PhysicsScene) -> Iterator[Visual | Collider]:
    """Yield what is to be seen, in the order of the plan."""
    shapes: list[Visual | Collider] = [*scene.visuals, *scene.colliders]
    for each in shapes:
        if each.color is not None:
            yield each


def robot_instances(plan: BridgePlan, frames: FramePoses, report: Report) -> Iterator[Instance]:
    """Yield the visible shapes of bodies that frames follow; their sources are the rows of the frames.

    Args:
        plan: With physics, else there are none.
        frames: Poses of its frames.
        report: For meshes and textures that cannot be shown.
    """
    if plan.physics is None:
        return
    surfaces = SurfaceMaker(report)
    places = BodyPlaces(plan)
    for each in visible_shapes(plan.physics):
        found = places.find(each.body)
        if found is None or each.color is None:
            continue
        robot, frame_id, frame_from_body = found
        source = frames.rows[robot, frame_id]
        pose = compose(frame_from_body, pose_array(each.body_from_shape))
        picked = Picked(robot=robot, frame=frame_id, path=each.path)
        for surface in surfaces.surfaces(each.shape, each.color, path=each.path):
            yield Instance(surface, source, pose, picked)


class BodyPlaces:
    """The frames that bodies are seen with."""

    def __init__(self, plan: BridgePlan) -> None:
        """Args: plan: With physics."""
        assert plan.physics is not None
        self._bodies = plan.physics.bodies
        by_path: dict[str, tuple[int, str, FloatArray]] = {}
        by_row: dict[int, tuple[int, str, FloatArray]] = {}
        for number, robot in enumerate(plan.robots):
            for place in _frame_places(number, robot):
                path, row, found = place
                by_path.setdefault(path, found)
                if row >= 0:
                    by_row.setdefault(row, found)
        self._by_path, self._by_row = by_path, by_row

    def find(self, body: int) -> tuple[int, str, FloatArray] | None:
        """Return the robot, the id of the frame, and `frame_from_body` of a body; None if no frame follows it.

        Args:
            body: Index in PhysicsScene.bodies, WORLD_BODY for the world.
        """
        if body < 0:
            return None
        each = self._bodies[body]
        return self._by_path.get(each.path) or (self._by_row.get(each.row) if each.row >= 0 else None)


def _frame_places(number: int, robot: RobotPlan) -> Iterator[tuple[str, int, tuple[int, str, FloatArray]]]:
    for frame in robot.frames:
        if frame.carrier >= 0:
            offset = frame.carrier_from_frame
            frame_from_carrier = IDENTITY if offset == IDENTITY_POSE else inverse(pose_array(offset))
            yield frame.path, frame.carrier, (number, frame.id, frame_from_carrier)
