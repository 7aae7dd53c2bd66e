"""Arrays of a host, of any library, as numpy arrays; and their rows in the order of a layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BackendError, quoted

Array = NDArray[Any]
RowArray = NDArray[np.intp]

UNMAPPED = -1
"""Row of an entry that the host does not have."""

_CPU = 1
"""kDLCPU of dlpack.h."""

_SHOWN = 5


def to_numpy(source: Any, name: str) -> Array:
    """Convert a host's array to a numpy array, without a copy if it is in the processor's memory.

    Args:
        source: A numpy array, or anything with `__array_interface__`, `__cuda_array_interface__` or `__dlpack__`.
        name: Name of the array, for messages.

    Raises:
        BackendError: It is of another type, or its library cannot copy it from the device.
    """
    if type(source) is np.ndarray:
        return source
    if hasattr(source, "__array_interface__"):
        return np.asarray(source)
    if hasattr(source, "__cuda_array_interface__"):
        return _from_device(source, name)
    if hasattr(source, "__dlpack__"):
        return _from_dlpack(source, name)
    raise BackendError(
        f"{name} is a {type(source).__name__}: it must be a numpy array, have __array_interface__, __dlpack__ or "
        "__cuda_array_interface__, or be a callable that returns such an array"
    )


def _from_dlpack(source: Any, name: str) -> Array:
    device = source.__dlpack_device__()
    if int(device[0]) != _CPU:
        return _from_device(source, name)
    try:
        return np.asarray(np.from_dlpack(source))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BackendError(f"{name} cannot be read through __dlpack__: {error}") from error


def _from_device(source: Any, name: str) -> Array:
    """Copy by the array's own library, which synchronizes its stream: CuPy, PyTorch, Warp, then DLPack."""
    failure: Exception | None = None
    for method in ("get", "cpu", "numpy"):
        copy = getattr(source, method, None)
        if copy is None:
            continue
        try:
            return np.asarray(copy())
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            failure = error
    if hasattr(source, "__dlpack__"):
        dlpack: Any = np.from_dlpack
        try:
            return np.asarray(dlpack(source, device="cpu"))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            failure = error
    reason = f" ({failure})" if failure else ""
    raise BackendError(
        f"{name} is in a device's memory and its type, {type(source).__name__}, has no get(), cpu(), numpy() or "
        f"__dlpack__ that copies it to the host{reason}: hand over a callable that does"
    )


def rows_of(
    names: Sequence[str],
    host_names: Iterable[str],
    *,
    key: Callable[[str], str] | None = None,
    partial: bool = False,
) -> RowArray:
    """Return the row of a host's array for each entry of a layout; call it once, when the host loads.

    Args:
        names: `layout.bodies`, `layout.dofs` or `layout.dof_joints`.
        host_names: Names of the host's rows, in their order.
        key: Converts an entry of `names` to the host's name; None for equal names.
        partial: Entries that the host does not have get -1 and stay at rest; False: they are an error.

    Returns:
        (len(names),) indices into `host_names`.

    Raises:
        BackendError: A name is missing, or ambiguous.
    """
    wanted = list(names) if key is None else [key(name) for name in names]
    row_by_name: dict[str, int] = {}
    several = set()
    for row, name in enumerate(host_names):
        if row_by_name.setdefault(name, row) != row:
            several.add(name)
    if missing := [] if partial else [name for name in wanted if name not in row_by_name]:
        raise BackendError(f"the host has no row for {_listed(missing)}; it has {_listed(list(row_by_name))}")
    if clashing := [name for name in wanted if name in several]:
        raise BackendError(f"the host has several rows for {_listed(clashing)}")
    if len(set(wanted)) < len(wanted):
        twice = [name for name in dict.fromkeys(wanted) if wanted.count(name) > 1]
        raise BackendError(
            f"{_listed(twice)}: several entries of the layout; joint names are unique within a robot only, "
            "layout.dof_joints has their prim paths"
        )
    return np.array([row_by_name.get(name, UNMAPPED) for name in wanted], dtype=np.intp)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown or "none"
