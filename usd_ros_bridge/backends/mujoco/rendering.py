"""Render cameras off-screen: with MuJoCo's OpenGL renderer, or by casting rays where there is no OpenGL.

One thread makes a renderer, uses it and closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.gl_context import GlKind, make_context, recycle_context
from usd_ros_bridge.backends.mujoco.rays import RAY_NORMALS
from usd_ros_bridge.backends.mujoco.spec_builder import COLLIDER_GROUP, VISUAL_GROUP
from usd_ros_bridge.model.sensors import CameraModel

SEEN_GROUPS = (COLLIDER_GROUP, VISUAL_GROUP)
"""Geom groups that cameras see: visible colliders, and visuals."""

ZENITH, HORIZON = (0.45, 0.62, 0.85), (0.85, 0.90, 0.95)
"""Red, green, blue of the sky."""

_FARTHEST = 1000.0
"""m: extent to which infinite planes are drawn at most."""
_SPARE_GEOMS = 100
_FONT_SCALE = 50


class OpenGlRenderer:
    """Render images of an MjData by OpenGL: all geoms in the groups that cameras see."""

    def __init__(
        self, model: Any, cameras: Sequence[CameraModel], kind: GlKind, *, shadows: bool = False
    ) -> None:
        """Initialize.

        Args:
            model: The model, with space for the largest image (`vis.global_.offwidth`, `offheight`).
            cameras: The cameras; the model has one named by the path of each.
            kind: Library of the context.
            shadows: The sun casts shadows: several times the cost without a GPU.

        Raises:
            Exception: An exception of the libraries: there is no OpenGL.
        """
        self._model = model
        width, height = (max(sizes) for sizes in zip(*((c.width, c.height) for c in cameras), strict=True))
        self._kind = kind
        self._context = make_context(kind, width, height)
        self._drawing: Any = None
        try:
            self._drawing = mujoco.MjrContext(model, _FONT_SCALE)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawing)
            if self._drawing.currentBuffer != mujoco.mjtFramebuffer.mjFB_OFFSCREEN:
                raise RuntimeError(f"{kind} has no off-screen buffers")
        except BaseException:
            self.close()
            raise
        self._drawing.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        # Infinite planes end there; each camera has its own clipping range for everything else.
        reach = min(max(clipping(camera)[1] for camera in cameras), _FARTHEST)
        model.vis.map.zfar = max(model.vis.map.zfar, reach / model.stat.extent)
        self._scene = mujoco.MjvScene(model, model.ngeom + _SPARE_GEOMS)
        flags = self._scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        for unwanted in (mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_HAZE):
            flags[unwanted] = False
        self._color_flags = flags.copy()
        self._depth_flags = flags.copy()
        # Plain colours without blending: transparent geoms count for depth, too.
        self._depth_flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
        self._depth_flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
        self._option = _visible_geoms()
        self._views = {camera.path: _OpenGlView(model, camera) for camera in cameras}
        # Smoothed edges would mix the numbers of two geoms.
        self._rays = RayRenderer(model, cameras) if model.vis.quality.offsamples > 0 else None

    def color(self, data: Any, path: str) -> NDArray[np.uint8]:
        """Return (H, W, 3) uint8 red, green, blue of the camera at `path`; `data` holds current poses."""
        view = self._draw(data, path, self._color_flags)
        pixels = np.empty((view.camera.height, view.camera.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, view.rect, self._drawing)
        # OpenGL's first row is the lowest.
        return np.ascontiguousarray(pixels[::-1])

    def depth(self, data: Any, path: str) -> NDArray[np.float32]:
        """Return (H, W) float32, m along the optical axis; inf where nothing is within reach (REP 117, REP 118)."""
        view = self._draw(data, path, self._depth_flags)
        pixels = np.empty((view.camera.height, view.camera.width), dtype=np.float32)
        mujoco.mjr_readPixels(None, pixels, view.rect, self._drawing)
        # The buffer holds 1 at the near plane, 0 at the far one, linear in 1 / z.
        near, far = view.near, view.far
        buffer = pixels[::-1]
        depth: NDArray[np.float32] = np.float32(near * far) / (
            np.float32(near) + buffer * np.float32(far - near)
        )
        depth[buffer <= 0.0] = np.inf
        return depth

    def segmentation(self, data: Any, path: str) -> NDArray[np.int32]:
        """Return (H, W) int32, the id of the geom that each pixel shows, -1 for none."""
        if self._rays is not None:
            return self._rays.segmentation(data, path)
        view = self._draw(data, path, self._depth_flags)
        pixels = np.empty((view.camera.height, view.camera.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, view.rect, self._drawing)
        # The colour of a pixel is the number of what is drawn, plus one.
        numbers = pixels[::-1].astype(np.int32) @ np.array((1, 1 << 8, 1 << 16), dtype=np.int32)
        drawn = self._scene.geoms[: self._scene.ngeom]
        geoms = np.full(max([0, *(each.segid + 1 for each in drawn)]) + 1, -1, dtype=np.int32)
        for each in drawn:
            if each.segid >= 0 and each.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                geoms[each.segid + 1] = each.objid
        numbers[numbers >= len(geoms)] = 0
        shown: NDArray[np.int32] = geoms[numbers]
        return shown

    def close(self) -> None:
        """Free the context. Idempotent; from the thread that made it."""
        drawing, self._drawing = self._drawing, None
        context, self._context = self._context, None
        if context is not None:
            context.make_current()
            if drawing is None:
                context.free()
            else:
                drawing.free()
                recycle_context(self._kind, context)

    def _draw(self, data: Any, path: str, flags: NDArray[np.uint8]) -> _OpenGlView:
        view = self._views[path]
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, view.mj_camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        view.apply(self._scene)
        self._scene.flags[:] = flags
        mujoco.mjr_render(view.rect, self._scene, self._drawing)
        return view


class _OpenGlView:
    """A camera in OpenGL: the frustum of CameraInfo's K, with the camera's own clipping range."""

    def __init__(self, model: Any, camera: CameraModel) -> None:
        self.camera = camera
        self.near, self.far = clipping(camera)
        self.rect = mujoco.MjrRect(0, 0, camera.width, camera.height)
        self.mj_camera = mujoco.MjvCamera()
        self.mj_camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self.mj_camera.fixedcamid = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera.path)
        left, top, right, bottom = camera.slopes
        self._center, self._half_width = 0.5 * (left + right), 0.5 * (right - left)
        self._top, self._bottom = -top, -bottom

    def apply(self, scene: Any) -> None:
        """Set the scene's two cameras (left and right eye) to this view."""
        for each in scene.camera:
            each.frustum_near, each.frustum_far = self.near, self.far
            each.frustum_center, each.frustum_width = self._center * self.near, self._half_width * self.near
            each.frustum_top, each.frustum_bottom = self._top * self.near, self._bottom * self.near


def clipping(camera: CameraModel) -> tuple[float, float]:
    """Return the nearest and farthest depth of a camera, m; invalid ones are replaced."""
    near = camera.near if 0.0 < camera.near < float("inf") else 0.01
    return near, camera.far if near < camera.far < float("inf") else 1e6 * near


def _visible_geoms() -> Any:
    option = mujoco.MjvOption()
    for groups in (
        option.geomgroup,
        option.sitegroup,
        option.jointgroup,
        option.tendongroup,
        option.actuatorgroup,
    ):
        groups[:] = 0
    for group in SEEN_GROUPS:
        option.geomgroup[group] = 1
    option.flags[:] = 0
    for flag in (mujoco.mjtVisFlag.mjVIS_TEXTURE, mujoco.mjtVisFlag.mjVIS_STATIC):
        option.flags[flag] = 1
    return option


FULL_PIXELS = 320 * 240
"""Larger colour images are cast with a coarser grid of rays, each of which fills a square; depth images are not."""

_BLOCK_ROWS = 64
_AMBIENT, _HEADLIGHT = 0.5, 0.4


class RayRenderer:
    """Render images of an MjData by rays, without textures and shadows; interface as `OpenGlRenderer`."""

    def __init__(self, model: Any, cameras: Sequence[CameraModel]) -> None:
        self._model = model
        self._views = {camera.path: _RayView(model, camera) for camera in cameras}
        self._groups = np.zeros(mujoco.mjNGROUP, dtype=np.uint8)
        self._groups[list(SEEN_GROUPS)] = 1
        self._rgb = _colors(model)

    def color(self, data: Any, path: str) -> NDArray[np.uint8]:
        """Return (H, W, 3) uint8 red, green, blue of the camera at `path`; `data` holds current poses."""
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
        """Return (H, W) float32, m along the optical axis; inf where nothing is within reach (REP 117, REP 118)."""
        view = self._views[path]
        depth, _, _ = self._cast(data, view, view.fine)
        return depth.astype(np.float32).reshape(view.fine.shape)

    def segmentation(self, data: Any, path: str) -> NDArray[np.int32]:
        """Return (H, W) int32, the id of the geom that each pixel shows, -1 for none."""
        view = self._views[path]
        depth, geoms, _ = self._cast(data, view, view.fine)
        return np.where(np.isfinite(depth), geoms, -1).astype(np.int32).reshape(view.fine.shape)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _cast(
        self, data: Any, view: _RayView, grid: _RayGrid
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64] | None]:
        """Return depths (inf: no hit), geoms and, where MuJoCo has them, normals of a grid of rays."""
        directions = grid.directions(data.cam_xmat[view.id])
        depth, geoms, normals = self._cast_directions(data, view, directions, -1)
        # Hits before the near plane are clipped: usually the housing of the camera.
        near = np.flatnonzero((depth >= 0.0) & (depth < view.near))
        if len(near):
            depth[near], geoms[near], behind = self._cast_directions(data, view, directions[near], view.body)
            if normals is not None and behind is not None:
                normals[near] = behind
        depth[(depth < view.near) | (depth > view.far)] = np.inf
        return depth, geoms, normals

    def _cast_directions(
        self, data: Any, view: _RayView, directions: NDArray[np.float64], excluded: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64] | None]:
        count = len(directions)
        lengths = np.linalg.norm(directions, axis=1)
        units = directions / lengths[:, None]
        depth, geoms = np.empty(count), np.empty(count, dtype=np.int32)
        normals = np.empty((count, 3)) if RAY_NORMALS else None
        rays = _BLOCK_ROWS * view.camera.width
        # In blocks: other threads run in between, and rays of a block are close together.
        for begin in range(0, count, rays):
            block = slice(begin, begin + rays)
            extra = {} if normals is None else {"normal": normals[block].reshape(-1)}
            mujoco.mj_multiRay(
                m=self._model,
                d=data,
                pnt=data.cam_xpos[view.id],
                vec=units[block].reshape(-1),
                geomgroup=self._groups,
                flg_static=True,
                bodyexclude=excluded,
                geomid=geoms[block],
                dist=depth[block],
                nray=len(units[block]),
                cutoff=mujoco.mjMAXVAL,
                **extra,
            )
        # The third coordinate of a direction in the camera is -1: convert distances to depths.
        return np.where(geoms >= 0, depth / lengths, -1.0), geoms, normals


class _RayGrid:
    """Rays through the centres of squares of pixels.

    Attributes:
        step: Pixels per side of a square.
        shape: Rows and columns.
    """

    def __init__(self, camera: CameraModel, step: int) -> None:
        self.step = step
        columns, rows = (
            np.arange(0, size, step) + 0.5 * (step - 1) for size in (camera.width, camera.height)
        )
        self.shape = len(rows), len(columns)
        right, down = np.meshgrid((columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy)
        self._local = np.stack([right.ravel(), -down.ravel(), np.full(right.size, -1.0)], axis=1)

    def directions(self, world_from_camera: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (N, 3) directions in the world, 1 long along the optical axis."""
        world: NDArray[np.float64] = self._local @ world_from_camera.reshape(3, 3).T
        return world


class _RayView:
    def __init__(self, model: Any, camera: CameraModel) -> None:
        self.camera = camera
        self.near, self.far = clipping(camera)
        self.id = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera.path)
        self.body = int(model.cam_bodyid[self.id])
        step = int(np.ceil(np.sqrt(camera.width * camera.height / FULL_PIXELS)))
        self.fine = _RayGrid(camera, 1)
        self.coarse = self.fine if step <= 1 else _RayGrid(camera, step)


def _colors(model: Any) -> NDArray[np.float64]:
    """Return (ngeom + 1, 3) red, green, blue of each geom."""
    colors = np.array(model.geom_rgba[:, :3], dtype=np.float64)
    has_material = model.geom_matid >= 0
    colors[has_material] = model.mat_rgba[model.geom_matid[has_material], :3]
    # One more, for rays that hit nothing: their geom is -1.
    return np.concatenate([colors, np.zeros((1, 3))])


def _sky(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    height = np.clip(directions[:, 2:] / np.linalg.norm(directions, axis=1, keepdims=True), 0.0, 1.0)
    zenith, horizon = np.array(ZENITH), np.array(HORIZON)
    blended: NDArray[np.float64] = horizon + np.sqrt(height) * (zenith - horizon)
    return blended
