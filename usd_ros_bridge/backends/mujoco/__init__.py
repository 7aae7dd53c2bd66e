"""The mujoco backend: rigid bodies, contacts and sensors on the CPU. Needs the extra `[mujoco]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.backend import MujocoBackend, build_spec
    from usd_ros_bridge.backends.mujoco.compiled_model import compile_model

__all__ = ["MujocoBackend", "build_spec", "compile_model"]


def __getattr__(name: str) -> Any:
    """Import MuJoCo only with the backend: without MuJoCo that is an ImportError with its name."""
    if name in __all__:
        from usd_ros_bridge.backends.mujoco.gl_context import import_mujoco

        import_mujoco()
        from usd_ros_bridge.backends.mujoco import backend, compiled_model

        return getattr(compiled_model if name == "compile_model" else backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
