"""The mujoco backend: rigid bodies, contacts and sensors on the CPU. Needs the extra `[mujoco]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.backend import MujocoBackend

__all__ = ["MujocoBackend"]


def __getattr__(name: str) -> Any:
    """Import MuJoCo only with the backend: without MuJoCo that is an ImportError with its name."""
    if name == "MujocoBackend":
        from usd_ros_bridge.backends.mujoco.gl_context import import_mujoco

        import_mujoco()
        from usd_ros_bridge.backends.mujoco.backend import MujocoBackend

        return MujocoBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
