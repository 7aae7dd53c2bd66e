"""Drawings of layers: how the newest message of a topic looks in the scene, one class for each kind of layer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.physics import Cone, cone_mesh
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.transforms import FloatArray, compose, wxyz
from usd_ros_bridge.view.display_layers import DisplayLayer, LayerKind
from usd_ros_bridge.view.header_frames import HeaderFrames
from usd_ros_bridge.view.pictures import Picture
from usd_ros_bridge.view.point_clouds import UndrawableMessageError, cloud_points, scan_points
from usd_ros_bridge.view.tool_paths import ToolPath

if TYPE_CHECKING:
    import viser

Color = tuple[int, int, int]

SCAN_COLOR: Final[Color] = (235, 40, 30)
TRAIL_COLOR: Final[Color] = (30, 110, 230)
GOAL_COLOR: Final[Color] = (240, 150, 20)
FORCE_COLOR: Final[Color] = (220, 40, 40)
TORQUE_COLOR: Final[Color] = (240, 190, 20)
MOTION_COLOR: Final[Color] = (40, 170, 70)
RANGE_COLOR: Final[Color] = (250, 140, 30)
CONTACT_COLOR: Final[Color] = (250, 30, 30)

TRAIL_POINTS = 1000
TRAIL_STEP_M = 0.01
"""Distance after which a trail gets another point."""
TRAIL_JUMP_M = 2.0
"""Distance in one step after which a trail starts again: the robot was put elsewhere."""
LONGEST_ARROW_M = 1.0
MAX_RANGE_M = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingContext:
    """What drawings share.

    Attributes:
        server: The page's server.
        plan: The plan that runs.
        headers: Poses of frames that messages name.
        pictures: Newest picture by the frame of its camera, for frustums.
    """

    server: viser.ViserServer
    plan: BridgePlan
    headers: HeaderFrames
    pictures: dict[str, Picture] = field(default_factory=dict)


class LayerDrawing(Protocol):
    """A layer in the scene, from when it is switched on until it is switched off."""

    def draw(self, message: Any) -> str:
        """Show a message. Return what to say about it, "" for nothing.

        Raises:
            UndrawableMessageError: It cannot be shown; the text says why.
        """

    def follow(self) -> None:
        """Follow frames that have moved; called once a refresh."""

    def close(self) -> None:
        """Remove what was drawn."""


class Trail:
    """The newest points of a way, at least TRAIL_STEP_M apart."""

    def __init__(self) -> None:
        """Begin with no points."""
        self._points: deque[FloatArray] = deque(maxlen=TRAIL_POINTS)

    def add(self, point: FloatArray) -> bool:
        """Add a point (3,) m if it is far enough from the last one. Return whether the trail has changed."""
        if not np.isfinite(point).all():
            return False
        if self._points:
            distance = float(np.linalg.norm(point - self._points[-1]))
            if distance < TRAIL_STEP_M:
                return False
            if distance > TRAIL_JUMP_M:
                self._points.clear()
        self._points.append(np.array(point, dtype=np.float64))
        return True

    def clear(self) -> None:
        """Forget all points."""
        self._points.clear()

    def segments(self) -> NDArray[np.float32]:
        """Return the lines (N, 2, 3) between consecutive points."""
        return segments(np.array(self._points).reshape(-1, 3))


def segments(points: NDArray[Any]) -> NDArray[np.float32]:
    """Return the lines (N - 1, 2, 3) between consecutive points (N, 3)."""
    lines: NDArray[np.float32] = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
    return lines


class _Drawing:
    """A scene node at the pose of a message's frame, and what hangs from it."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        self.layer = layer
        self.context = context
        self.scene = context.server.scene
        self.name = node_name(layer)
        self._root = self.scene.add_frame(self.name, show_axes=False)
        self._lines: dict[str, Any] = {}

    def draw(self, message: Any) -> str:
        """Show a message."""
        raise NotImplementedError

    def follow(self) -> None:
        """Follow nothing: what was measured stays where it was measured until the next message."""

    def close(self) -> None:
        """Remove the node and what hangs from it."""
        self._root.remove()

    def frame_pose(self, frame: str) -> FloatArray:
        """Return `fixed_from_frame` (7,) of a header's frame.

        Raises:
            UndrawableMessageError: /tf does not say where it is.
        """
        pose = self.context.headers.pose(self.layer.robot, frame)
        if pose is None:
            raise UndrawableMessageError(f"no transform of the frame {quoted(frame)} on /tf")
        return pose

    def place(self, pose: FloatArray) -> None:
        """Move the node."""
        if not np.isfinite(pose).all():
            raise UndrawableMessageError("its pose is not finite")
        self._root.position = pose[:3]
        self._root.wxyz = wxyz(pose[3:])

    def show_lines(self, name: str, lines: NDArray[np.float32], color: Color) -> None:
        """Show lines (N, 2, 3) below the node in place of those of the same name."""
        old = self._lines.pop(name, None)
        if len(lines):
            self._lines[name] = self.scene.add_line_segments(
                f"{self.name}/{name}", lines, colors=color, thickness=3.0, thickness_units="screen"
            )
        elif old is not None:
            old.remove()


def node_name(layer: DisplayLayer) -> str:
    """Return the name of a layer's scene node."""
    part = (layer.topic or layer.path).strip("/").replace("/", ".")
    return f"/displays/{layer.kind}/{max(layer.robot, 0)}/{part}"


class _Points(_Drawing):
    """LaserScan and PointCloud2."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._cloud: Any = None

    def draw(self, message: Any) -> str:
        self.place(self.frame_pose(message.header.frame_id))
        if self.layer.kind == "scan":
            points = scan_points(message)
            self._show(points, np.tile(np.array(SCAN_COLOR, np.uint8), (len(points), 1)), 0.03)
            return f"{len(points)} of {len(message.ranges)} rays hit"
        cloud = cloud_points(message)
        self._show(cloud.points, cloud.colors, 0.02)
        return f"{len(cloud.points)} points" + (
            f" of {cloud.total}" if cloud.total > len(cloud.points) else ""
        )

    def _show(self, points: NDArray[np.float32], colors: NDArray[np.uint8], size: float) -> None:
        if self._cloud is None:
            self._cloud = self.scene.add_point_cloud(
                f"{self.name}/points",
                points,
                colors,
                point_size=size,
                point_shape="circle",
                point_shading="flat",
                precision="float32",
            )
            return
        # Points and colours of one message must arrive together: they are of one length.
        with self.context.server.atomic():
            self._cloud.points = points
            self._cloud.colors = colors


class _Arrows(_Drawing):
    """Imu and WrenchStamped: vectors from the origin of the header's frame."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._arrows: Any = None

    def draw(self, message: Any) -> str:
        self.place(self.frame_pose(message.header.frame_id))
        if self.layer.kind == "imu":
            first, second = _vector(message.linear_acceleration), _vector(message.angular_velocity)
            self._show(first, 0.03, MOTION_COLOR, second, 0.2, TORQUE_COLOR)
            return f"{np.linalg.norm(first):.2f} m/s², {np.linalg.norm(second):.2f} rad/s"
        first, second = _vector(message.wrench.force), _vector(message.wrench.torque)
        self._show(first, 0.01, FORCE_COLOR, second, 0.05, TORQUE_COLOR)
        return f"{np.linalg.norm(first):.2f} N, {np.linalg.norm(second):.2f} N m"

    def _show(
        self,
        first: FloatArray,
        first_scale: float,
        color: Color,
        second: FloatArray,
        scale: float,
        other: Color,
    ) -> None:
        ends = np.stack([_limited(first * first_scale), _limited(second * scale)])
        points = np.stack([np.zeros((2, 3)), ends], axis=1).astype(np.float32)
        if self._arrows is None:
            self._arrows = self.scene.add_arrows(
                f"{self.name}/arrows",
                points,
                np.array([color, other], np.uint8),
                shaft_radius=0.008,
                head_radius=0.02,
                head_length=0.04,
            )
        else:
            self._arrows.points = points


class _Odometry(_Drawing):
    """Odometry: axes at the body, and the way it took."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._trail = Trail()
        self._axes = self.scene.add_frame(f"{self.name}/body", axes_length=0.25, axes_radius=0.008)

    def draw(self, message: Any) -> str:
        pose = compose(self.frame_pose(message.header.frame_id), _pose(message.pose.pose))
        if not np.isfinite(pose).all():
            raise UndrawableMessageError("its pose is not finite")
        self._axes.position = pose[:3]
        self._axes.wxyz = wxyz(pose[3:])
        if self._trail.add(pose[:3]):
            self.show_lines("trail", self._trail.segments(), TRAIL_COLOR)
        twist = message.twist.twist
        return f"{np.linalg.norm(_vector(twist.linear)):.2f} m/s, {round(twist.angular.z, 2) + 0.0:.2f} rad/s"


class _Pose(_Drawing):
    """PoseStamped and TransformStamped: axes."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self.scene.add_frame(f"{self.name}/axes", axes_length=0.25, axes_radius=0.008)

    def draw(self, message: Any) -> str:
        pose = _pose(message.pose) if hasattr(message, "pose") else _transform(message.transform)
        self.place(compose(self.frame_pose(message.header.frame_id), pose))
        return ""


class _Path(_Drawing):
    """nav_msgs/msg/Path: a line through its poses."""

    def draw(self, message: Any) -> str:
        self.place(self.frame_pose(message.header.frame_id))
        points = np.array([_vector(each.pose.position) for each in message.poses[:TRAIL_POINTS]]).reshape(
            -1, 3
        )
        self.show_lines("line", segments(points[np.isfinite(points).all(axis=1)]), GOAL_COLOR)
        return f"{len(message.poses)} poses"


class _Trajectory(_Drawing):
    """What a trajectory controller follows, as the way of the tool: all of a JointTrajectory, or feedback by steps."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._path = ToolPath(context.plan, layer.robot, layer.frame)
        self._rows = dict(layer.joints)
        self._trail = Trail()
        self._goal: bytes = b""
        self._target = self.scene.add_icosphere(
            f"{self.name}/target", radius=0.015, color=GOAL_COLOR, visible=False
        )

    def draw(self, message: Any) -> str:
        self._place_root()
        if hasattr(message, "feedback"):
            return self._draw_feedback(message)
        rows = self._known(message.joint_names)
        positions = np.array(
            [list(point.positions) for point in message.points[:TRAIL_POINTS]], dtype=np.float64
        )
        if positions.ndim != 2 or positions.shape[1] != len(message.joint_names):
            raise UndrawableMessageError("its points do not have a position of each joint")
        points = self._path.points(rows, positions)
        self.show_lines("line", segments(points), GOAL_COLOR)
        self._show_target(points[-1])
        return f"{len(message.points)} points, {_seconds(message.points[-1].time_from_start):.1f} s"

    def _draw_feedback(self, message: Any) -> str:
        goal = bytes(message.goal_id.uuid)
        if goal != self._goal:
            self._goal = goal
            self._trail.clear()
        desired = message.feedback.desired
        rows = self._known(message.feedback.joint_names)
        if len(desired.positions) != len(rows):
            raise UndrawableMessageError("its feedback does not have a position of each joint")
        point = self._path.pose(dict(zip(rows, desired.positions, strict=True)))[:3]
        if self._trail.add(point):
            self.show_lines("line", self._trail.segments(), GOAL_COLOR)
        self._show_target(point)
        return f"{_seconds(desired.time_from_start):.1f} s"

    def _place_root(self) -> None:
        if self._path.root:
            self.place(self.frame_pose(self._path.root))

    def _known(self, names: Any) -> list[int]:
        rows = [self._rows.get(name, -1) for name in names]
        if not rows or min(rows) < 0:
            raise UndrawableMessageError("it names joints that are not the controller's")
        return rows

    def _show_target(self, point: FloatArray) -> None:
        self._target.position = point
        self._target.visible = True


class _Range(_Drawing):
    """Range: a cone from the sensor to what it measured."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._cone: Any = None

    def draw(self, message: Any) -> str:
        self.place(self.frame_pose(message.header.frame_id))
        farthest = min(float(message.max_range), MAX_RANGE_M)
        length = min(float(message.range), farthest)
        if not length > 0.0 or not 0.0 < message.field_of_view < math.pi:
            self._hide()
            return "nearer than it can measure" if message.range == -math.inf else "nothing measured"
        # The cone's apex is at its sensor: along -Z of a cone about Z, turned to +X.
        cone = cone_mesh(Cone(length * math.tan(0.5 * message.field_of_view), 0.5 * length))
        x, y, z = cone.points.T
        points = np.stack([0.5 * length - z, y, x], axis=1).astype(np.float32)
        self._cone = self.scene.add_mesh_simple(
            f"{self.name}/cone",
            points,
            cone.triangles.astype(np.uint32),
            color=RANGE_COLOR,
            opacity=0.35,
            side="double",
        )
        return f"{message.range:.2f} m"

    def _hide(self) -> None:
        if self._cone is not None:
            self._cone.remove()
            self._cone = None


class _Contact(_Drawing):
    """A contact sensor's Bool: a ball at the sensor's frame while it touches something."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._ball = self.scene.add_icosphere(
            f"{self.name}/contact", radius=0.05, color=CONTACT_COLOR, visible=False
        )

    def draw(self, message: Any) -> str:
        self.follow()
        self._ball.visible = bool(message.data)
        return "touches" if message.data else "touches nothing"

    def follow(self) -> None:
        pose = self.context.headers.pose(self.layer.robot, self.layer.frame)
        if pose is not None:
            self.place(pose)


class _Camera(_Drawing):
    """CameraInfo: the frustum of the camera, with its picture where that layer is on."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._frustum: Any = None
        self._lens = (0.0, 0.0)
        self._frame = ""
        self._picture: Picture | None = None

    def draw(self, message: Any) -> str:
        fx, fy = float(message.k[0]), float(message.k[4])
        if not (fx > 0.0 and fy > 0.0 and message.width and message.height):
            raise UndrawableMessageError("the camera is not calibrated: K is zero")
        self._frame = message.header.frame_id
        lens = (2.0 * math.atan(message.height / (2.0 * fy)), (message.width / fx) / (message.height / fy))
        if lens != self._lens:
            self._lens = lens
            self._frustum = self.scene.add_camera_frustum(
                f"{self.name}/camera", fov=lens[0], aspect=lens[1], scale=0.15, color=TRAIL_COLOR
            )
        self.place(self.frame_pose(self._frame))
        self._show_picture()
        return f"{message.width}x{message.height}, {math.degrees(lens[0]):.0f}° high"

    def follow(self) -> None:
        pose = self.context.headers.pose(self.layer.robot, self._frame) if self._frame else None
        if pose is not None:
            self.place(pose)

    def _show_picture(self) -> None:
        picture = self.context.pictures.get(picture_key(self.layer.robot, self._frame))
        if picture is not self._picture and self._frustum is not None:
            self._picture = picture
            self._frustum.image = None if picture is None else picture.pixels


def picture_key(robot: int, frame: str) -> str:
    """Return the key of a camera's newest picture."""
    return f"{robot}:{frame}"


class _FrameTrail(_Drawing):
    """The way of a frame by /tf."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext) -> None:
        super().__init__(layer, context)
        self._trail = Trail()

    def follow(self) -> None:
        pose = self.context.headers.pose(self.layer.robot, self.layer.frame)
        if pose is not None and self._trail.add(pose[:3]):
            self.show_lines("trail", self._trail.segments(), TRAIL_COLOR)


DRAWINGS: Final[dict[LayerKind, Callable[[DisplayLayer, DrawingContext], LayerDrawing]]] = {
    "scan": _Points,
    "cloud": _Points,
    "camera": _Camera,
    "odometry": _Odometry,
    "pose": _Pose,
    "path": _Path,
    "trajectory": _Trajectory,
    "range": _Range,
    "imu": _Arrows,
    "wrench": _Arrows,
    "contact": _Contact,
    "trail": _FrameTrail,
}
"""Drawing of each kind in the scene. Pictures and values are in the panel: `layer_panels`."""


def _vector(vector: Any) -> FloatArray:
    return np.array([vector.x, vector.y, vector.z], dtype=np.float64)


def _pose(pose: Any) -> FloatArray:
    q = pose.orientation
    return np.array([*_vector(pose.position), q.x, q.y, q.z, q.w], dtype=np.float64)


def _transform(transform: Any) -> FloatArray:
    q = transform.rotation
    return np.array([*_vector(transform.translation), q.x, q.y, q.z, q.w], dtype=np.float64)


def _limited(vector: FloatArray) -> FloatArray:
    """Return an arrow of at most LONGEST_ARROW_M, of none for a vector that is not finite."""
    length = float(np.linalg.norm(vector))
    if not math.isfinite(length):
        return np.zeros(3)
    return vector * (LONGEST_ARROW_M / length) if length > LONGEST_ARROW_M else vector


def _seconds(duration: Any) -> float:
    return float(duration.sec) + float(duration.nanosec) * 1e-9
