"""Takes pictures by casting rays, where there is no OpenGL: flat colours, no textures, no shadows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.rendering import HORIZON, SEEN_GROUPS, ZENITH, clipping
from usd_ros_bridge.model.scene import CameraModel

FULL_PIXELS = 320 * 240
"""Larger colour pictures are cast with a coarser grid of rays and each ray fills a square; depth never is."""

_ROWS = 64
_AMBIENT, _HEADLIGHT = 0.5, 0.4

# Since MuJoCo 3.5 rays may give normals; the argument cannot be left out there.
_NORMALS = "normal:" in (mujoco.mj_multiRay.__doc__ or "")


class RayCamera:
    """Pictures of an MjData by rays; what cameras of `rendering.Renderer` give, at the authored resolution."""

    def __init__(self, model: Any, cameras: Sequence[CameraModel]) -> None:
        """Prepares the rays of each camera; the model has a camera named by the path of each."""
        self._model = model
        self._views = {camera.path: _View(model, camera) for camera in cameras}
        self._groups = np.zeros(mujoco.mjNGROUP, dtype=np.uint8)
        self._groups[list(SEEN_GROUPS)] = 1
        self._rgb = _colors(model)

    def color(self, data: Any, path: str) -> NDArray[np.uint8]:
        """Returns (H, W, 3) uint8 red, green, blue of the camera at `path`; `data` holds current poses."""
        view = self._views[path]
        grid = view.coarse
        depth, geoms, normals = self._cast(data, view, grid)
        world = grid.directions(data.cam_xmat[view.id])
        shade = np.full(len(depth), _AMBIENT + _HEADLIGHT)
        if normals is not None:
            lengths = np.linalg.norm(world, axis=1)
            shade = _AMBIENT + _HEADLIGHT * np.abs(np.einsum("ij,ij->i", normals, world)) / lengths
        colors = self._rgb[geoms] * shade[:, None]
        missed = ~np.isfinite(depth)
        colors[missed] = _sky(world[missed])
        rows: NDArray[np.uint8] = (
            (np.clip(colors, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8).reshape(*grid.shape, 3)
        )
        if grid.step == 1:
            return rows
        height, width = view.camera.height, view.camera.width
        large = rows.repeat(grid.step, axis=0)[:height].repeat(grid.step, axis=1)[:, :width]
        return np.ascontiguousarray(large)

    def depth(self, data: Any, path: str) -> NDArray[np.float32]:
        """Returns (H, W) float32, m along the optical axis; inf where nothing is within reach (REP 117, REP 118)."""
        view = self._views[path]
        depth, _, _ = self._cast(data, view, view.fine)
        return depth.astype(np.float32).reshape(view.fine.shape)

    def close(self) -> None:
        """Has nothing to release."""

    def _cast(
        self, data: Any, view: _View, grid: _Grid
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64] | None]:
        """Returns depths (inf: nothing), geoms and, where MuJoCo gives them, normals of a grid of rays."""
        directions = grid.directions(data.cam_xmat[view.id])
        depth, geoms, normals = self._shoot(data, view, directions, -1)
        # What is nearer than the near plane is clipped: the housing that the camera looks out of, as a rule.
        near = np.flatnonzero((depth >= 0.0) & (depth < view.near))
        if len(near):
            depth[near], geoms[near], behind = self._shoot(data, view, directions[near], view.body)
            if normals is not None and behind is not None:
                normals[near] = behind
        depth[(depth < view.near) | (depth > view.far)] = np.inf
        return depth, geoms, normals

    def _shoot(
        self, data: Any, view: _View, directions: NDArray[np.float64], excluded: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64] | None]:
        count = len(directions)
        lengths = np.linalg.norm(directions, axis=1)
        units = directions / lengths[:, None]
        depth, geoms = np.empty(count), np.empty(count, dtype=np.int32)
        normals = np.empty((count, 3)) if _NORMALS else None
        rays = _ROWS * view.camera.width
        # In blocks: others get the interpreter in between, and rays of a block lie close together.
        for begin in range(0, count, rays):
            block = slice(begin, begin + rays)
            extra = {} if normals is None else {"normal": normals[block].reshape(-1)}
            mujoco.mj_multiRay(
                m=self._model, d=data, pnt=data.cam_xpos[view.id], vec=units[block].reshape(-1),
                geomgroup=self._groups, flg_static=True, bodyexclude=excluded, geomid=geoms[block],
                dist=depth[block], nray=len(units[block]), cutoff=mujoco.mjMAXVAL, **extra,
            )  # fmt: skip
        # A direction's third coordinate in the camera is -1: distances become depths.
        return np.where(geoms >= 0, depth / lengths, -1.0), geoms, normals


class _Grid:
    """Rays through the middles of squares of pixels.

    Attributes:
        step: Pixels per side of a square.
        shape: Rows and columns.
    """

    def __init__(self, camera: CameraModel, step: int) -> None:
        self.step = step
        columns, rows = (np.arange(0, size, step) + 0.5 * step for size in (camera.width, camera.height))
        self.shape = len(rows), len(columns)
        right, down = np.meshgrid((columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy)
        self._local = np.stack([right.ravel(), -down.ravel(), np.full(right.size, -1.0)], axis=1)

    def directions(self, world_from_camera: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns (N, 3) directions in the world, 1 long along the optical axis."""
        world: NDArray[np.float64] = self._local @ world_from_camera.reshape(3, 3).T
        return world


class _View:
    def __init__(self, model: Any, camera: CameraModel) -> None:
        self.camera = camera
        self.near, self.far = clipping(camera)
        self.id = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera.path)
        self.body = int(model.cam_bodyid[self.id])
        step = int(np.ceil(np.sqrt(camera.width * camera.height / FULL_PIXELS)))
        self.fine = _Grid(camera, 1)
        self.coarse = self.fine if step <= 1 else _Grid(camera, step)


def _colors(model: Any) -> NDArray[np.float64]:
    """Returns (ngeom + 1, 3) red, green, blue of each geom."""
    colors = np.array(model.geom_rgba[:, :3], dtype=np.float64)
    dressed = model.geom_matid >= 0
    colors[dressed] = model.mat_rgba[model.geom_matid[dressed], :3]
    # One more, for rays that hit nothing: their geom is -1.
    return np.concatenate([colors, np.zeros((1, 3))])


def _sky(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    height = np.clip(directions[:, 2:] / np.linalg.norm(directions, axis=1, keepdims=True), 0.0, 1.0)
    zenith, horizon = np.array(ZENITH), np.array(HORIZON)
    blended: NDArray[np.float64] = horizon + np.sqrt(height) * (zenith - horizon)
    return blended
