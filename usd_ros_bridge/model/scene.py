"""The scene: what engines, sensors and exports need of an asset beyond its interfaces, in SI units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraModel:
    """A pinhole camera as sensor_msgs/msg/CameraInfo describes it, from a UsdGeomCamera.

    Attributes:
        path: Prim path of the camera.
        width: Pixels.
        height: Pixels.
        fx: Focal length in pixels, horizontally.
        fy: Focal length in pixels, vertically.
        cx: Principal point in pixels, from the left edge.
        cy: Principal point in pixels, from the top edge.
        near: Near clipping distance in metres.
        far: Far clipping distance in metres.
    """

    path: str
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    near: float
    far: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoseTrack:
    """Time samples of a body or animated Xform.

    Attributes:
        row: Layout row of the body.
        time: (T,) seconds (time code over timeCodesPerSecond), increasing.
        world_from_body: (T, 7) poses in the ROS world.
        carrier: Layout row of the nearest body or animated Xform above, which carries it; -1 for the world.
        carrier_from_body: (T, 7) poses in that; None where the world carries it.
    """

    row: int
    time: NDArray[np.float64]
    world_from_body: NDArray[np.float64]
    carrier: int = -1
    carrier_from_body: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointTrack:
    """Time samples of one degree of freedom.

    Attributes:
        row: Layout row of the degree of freedom.
        time: (T,) seconds (time code over timeCodesPerSecond), increasing.
        position: (T,) rad or m.
    """

    row: int
    time: NDArray[np.float64]
    position: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """Cameras and baked time samples.

    Attributes:
        cameras: Cameras that an interface refers to.
        pose_tracks: Animated bodies and Xforms.
        joint_tracks: Degrees of freedom with time-sampled positions.
        start: First time of the stage's range in seconds (0 is time code 0), None where not authored.
        end: Last time of the stage's range in seconds, None where not authored.
    """

    cameras: tuple[CameraModel, ...] = ()
    pose_tracks: tuple[PoseTrack, ...] = ()
    joint_tracks: tuple[JointTrack, ...] = ()
    start: float | None = None
    end: float | None = None
