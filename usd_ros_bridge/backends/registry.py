"""Find backends by name: those of the package, and entry points of other distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from usd_ros_bridge.backends import backend_options
from usd_ros_bridge.backends.backend_options import BackendOption, declared_options, label_backend
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.errors import BackendError, alternatives, quoted
from usd_ros_bridge.plugins import Registry
from usd_ros_bridge.requirements import is_installed

BackendFactory = Callable[[], Any]
"""A class, or a function: called without arguments, it returns a backend that is not open."""
_PACKAGE = "usd_ros_bridge.backends"
_LOCKSTEP: Final = "lockstep"
_MEMBERS = ("capabilities", "open", "inputs", "receive", "step", "reset", "close")


def _factory_fault(found: object) -> str:
    return "" if callable(found) else f"it is a {type(found).__name__}, and must be a class"


BACKENDS: Final[Registry[BackendFactory]] = Registry(
    "backends",
    "backend",
    {
        "mujoco": f"{_PACKAGE}.mujoco:MujocoBackend",
        "newton": f"{_PACKAGE}.newton:NewtonBackend",
        "kinematic": f"{_PACKAGE}.kinematic:KinematicBackend",
        "joint_states": f"{_PACKAGE}.joint_states:JointStatesBackend",
        "playback": f"{_PACKAGE}.playback:PlaybackBackend",
        "null": f"{_PACKAGE}.null:NullBackend",
    },
    check=_factory_fault,
)


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends that are installed, sorted. None is imported."""
    return tuple(sorted(BACKENDS.names()))


def load_backend(backend: str | Backend) -> Backend:
    """Make a backend.

    Args:
        backend: Name of a backend, or a backend, which is returned unchanged.

    Returns:
        A backend that is not open.

    Raises:
        BackendError: No such backend is installed, or it cannot be imported or made; the message lists the installed
            ones, or what is missing.
    """
    if not isinstance(backend, str):
        return _checked(backend, type(backend).__name__)
    factory = BACKENDS.get(backend)
    if factory is None:
        fault = BACKENDS.fault(backend)
        raise BackendError(
            fault or f"backend {quoted(backend)} is not installed; {alternatives(backend, BACKENDS.names())}"
        )
    try:
        made: object = factory()
    except Exception as error:
        raise BackendError(f"backend {backend} cannot be made: {type(error).__name__}: {error}") from error
    checked = _checked(made, backend)
    if BACKENDS.is_foreign(backend):
        label_backend(checked, backend)
    return checked


def backend_fault(name: str) -> str:
    """Return why an installed backend cannot be loaded, with what cures it; "" if it can. Engines are not imported.

    Args:
        name: One of `backend_names`.
    """
    info = backend_options.BUILT_IN_BACKENDS.get(name)
    if info is not None and info.requirement is not None:
        if not is_installed(info.requirement.modules[0]):
            return f"not installed: {info.requirement.remedy}"
        return ""
    try:
        load_backend(name)
    except BackendError as error:
        return str(error)
    return ""


def backend_options_of(name: str) -> Mapping[str, BackendOption]:
    """Return the options of a backend by name: of the package's, or declared ones of others. Empty if unknown.

    Args:
        name: One of `backend_names` without a fault.
    """
    info = backend_options.BUILT_IN_BACKENDS.get(name)
    return declared_options(load_backend(name)) if info is None else info.options


def lockstep_options(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return backend options with `lockstep=true`, unless they have it, if the backend has such an option.

    For whoever steps as fast as possible: without it, most images and scans would be missing.

    Args:
        name: Name of a backend; one that is not installed by it has no options.
        options: Texts by key.
    """
    known = backend_options_of(name) if name in BACKENDS.names() else {}
    return {_LOCKSTEP: "true", **options} if _LOCKSTEP in known else dict(options)


def _checked(made: object, name: str) -> Backend:
    if isinstance(made, Backend):
        return made
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    raise BackendError(f"{name} is no backend: it has no {', '.join(missing)}")
