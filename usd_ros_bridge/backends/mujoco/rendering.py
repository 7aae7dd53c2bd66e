"""Renders cameras off-screen with MuJoCo's OpenGL renderer. One thread makes a renderer, uses it and closes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.gl import GlKind, give_back, make_context
from usd_ros_bridge.model.scene import CameraModel

SEEN_GROUPS = (0, 2)
"""Geom groups that cameras see: colliders that are to be seen, and visuals."""

ZENITH, HORIZON = (0.45, 0.62, 0.85), (0.85, 0.90, 0.95)
"""Red, green, blue of the sky."""

_FARTHEST = 1000.0
"""m: how far endless planes are drawn at most."""
_SPARE_GEOMS = 100
_FONT_SCALE = 50


class Renderer:
    """Pictures of an MjData by OpenGL: of everything in the groups that cameras see, and of nothing else."""

    def __init__(
        self, model: Any, cameras: Sequence[CameraModel], kind: GlKind, *, shadows: bool = False
    ) -> None:
        """Acquires a GL context for the calling thread.

        Args:
            model: The model, with room for the largest picture (`vis.global_.offwidth`, `offheight`).
            cameras: What pictures are to be taken with; the model has a camera named by the path of each.
            kind: What the context is made of.
            shadows: Whether the sun casts shadows: several times the time without a GPU.

        Raises:
            Exception: What the libraries raise where there is no OpenGL.
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
        # Endless planes end there; for all else each camera has its own clipping range.
        reach = min(max(clipping(camera)[1] for camera in cameras), _FARTHEST)
        model.vis.map.zfar = max(model.vis.map.zfar, reach / model.stat.extent)
        self._scene = mujoco.MjvScene(model, model.ngeom + _SPARE_GEOMS)
        flags = self._scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        for unwanted in (mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_HAZE):
            flags[unwanted] = False
        self._color_flags = flags.copy()
        self._depth_flags = flags.copy()
        # Drawn in plain colours, and never blended: nothing transparent is in the way of a depth.
        self._depth_flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
        self._depth_flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
        self._option = _seen_only()
        self._views = {camera.path: _View(model, camera) for camera in cameras}

    def color(self, data: Any, path: str) -> NDArray[np.uint8]:
        """Returns (H, W, 3) uint8 red, green, blue of the camera at `path`; `data` holds current poses."""
        view = self._draw(data, path, self._color_flags)
        pixels = np.empty((view.camera.height, view.camera.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, view.rect, self._drawing)
        # OpenGL's first row is the lowest.
        return np.ascontiguousarray(pixels[::-1])

    def depth(self, data: Any, path: str) -> NDArray[np.float32]:
        """Returns (H, W) float32, m along the optical axis; inf where nothing is within reach (REP 117, REP 118)."""
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

    def close(self) -> None:
        """Releases the context. Idempotent; from the thread that made it."""
        drawing, self._drawing = self._drawing, None
        context, self._context = self._context, None
        if context is not None:
            context.make_current()
            if drawing is None:
                context.free()
            else:
                drawing.free()
                give_back(self._kind, context)

    def _draw(self, data: Any, path: str, flags: NDArray[np.uint8]) -> _View:
        view = self._views[path]
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, view.eye, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        view.aim(self._scene)
        self._scene.flags[:] = flags
        mujoco.mjr_render(view.rect, self._scene, self._drawing)
        return view


class _View:
    """A camera as OpenGL has it: the frustum that CameraInfo's K describes, with the camera's own clipping range."""

    def __init__(self, model: Any, camera: CameraModel) -> None:
        self.camera = camera
        self.near, self.far = clipping(camera)
        self.rect = mujoco.MjrRect(0, 0, camera.width, camera.height)
        self.eye = mujoco.MjvCamera()
        self.eye.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self.eye.fixedcamid = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera.path)
        left, right = -camera.cx / camera.fx, (camera.width - camera.cx) / camera.fx
        self._center, self._half_width = 0.5 * (left + right), 0.5 * (right - left)
        self._top, self._bottom = camera.cy / camera.fy, (camera.cy - camera.height) / camera.fy

    def aim(self, scene: Any) -> None:
        """Sets the scene's two eyes, which are one."""
        for each in scene.camera:
            each.frustum_near, each.frustum_far = self.near, self.far
            each.frustum_center, each.frustum_width = self._center * self.near, self._half_width * self.near
            each.frustum_top, each.frustum_bottom = self._top * self.near, self._bottom * self.near


def clipping(camera: CameraModel) -> tuple[float, float]:
    """Returns the nearest and farthest depth of a camera, m, as far as they are possible."""
    near = camera.near if 0.0 < camera.near < float("inf") else 0.01
    return near, camera.far if near < camera.far < float("inf") else 1e6 * near


def _seen_only() -> Any:
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
