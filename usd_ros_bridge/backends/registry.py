"""Find backends by name, in the entry points of all installed distributions."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from usd_ros_bridge.backends.backend_options import BACKENDS
from usd_ros_bridge.backends.base import ENTRY_POINT_GROUP, Backend
from usd_ros_bridge.errors import BackendError, alternatives, quoted
from usd_ros_bridge.requirements import find_requirement, is_installed


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends that are installed, sorted."""
    return tuple(sorted(_entries()))


def load_backend(backend: str | Backend) -> Backend:
    """Make a backend.

    Args:
        backend: Name of an entry point, or a backend, which is returned unchanged.

    Returns:
        A backend that is not open.

    Raises:
        BackendError: No such backend is installed, or it cannot be imported or made; the message lists the installed
            ones, or what is missing.
    """
    if not isinstance(backend, str):
        return _checked(backend, type(backend).__name__)
    entries = _entries()
    if backend not in entries:
        raise BackendError(f"backend {quoted(backend)} is not installed; {alternatives(backend, entries)}")
    return _checked(_make(entries[backend]), backend)


def backend_fault(name: str) -> str:
    """Return why an installed backend cannot be loaded, with what cures it; "" if it can. Engines are not imported.

    Args:
        name: One of `backend_names`.
    """
    info = BACKENDS.get(name)
    if info is not None and info.requirement is not None:
        if not is_installed(info.requirement.modules[0]):
            return f"not installed: {info.requirement.remedy}"
        return ""
    try:
        load_backend(name)
    except BackendError as error:
        return str(error)
    return ""


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _make(entry: EntryPoint) -> object:
    try:
        factory = entry.load()
    except ImportError as error:
        missing = f"module {error.name} is missing" if error.name else str(error)
        if requirement := find_requirement(error):
            missing += f": {requirement.remedy}"
        raise BackendError(f"backend {entry.name} cannot be loaded: {missing}") from error
    except BackendError as error:
        raise BackendError(f"backend {entry.name} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise BackendError(f"backend {entry.name} cannot be loaded: {entry.value} does not exist") from error
    except Exception as error:
        raise BackendError(
            f"backend {entry.name} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    try:
        made: object = factory()
    except Exception as error:
        raise BackendError(f"backend {entry.name} cannot be made: {type(error).__name__}: {error}") from error
    return made


def _checked(made: object, name: str) -> Backend:
    if isinstance(made, Backend):
        return made
    needed = ("capabilities", "open", "inputs", "receive", "step", "reset", "close")
    missing = [member for member in needed if not hasattr(made, member)]
    raise BackendError(f"{name} is no backend: it has no {', '.join(missing)}")
