"""Assets simulated by MuJoCo: rigid bodies, contacts and sensors on the CPU. Needs the extra `[mujoco]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.backend import MujocoBackend

__all__ = ["MujocoBackend"]


def __getattr__(name: str) -> Any:
    """Imports MuJoCo only for those who ask for the backend: its absence is then an ImportError that names it."""
    if name == "MujocoBackend":
        from usd_ros_bridge.backends.mujoco.gl import import_mujoco

        import_mujoco()
        from usd_ros_bridge.backends.mujoco.backend import MujocoBackend

        return MujocoBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
