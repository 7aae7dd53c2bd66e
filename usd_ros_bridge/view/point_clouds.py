"""Points of LaserScan and PointCloud2 messages, decoded with numpy: no Python object per point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 60_000
"""Points of a cloud that are shown; of more, evenly spaced ones."""

_DATATYPES: Final = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""sensor_msgs/msg/PointField's datatypes as numpy's."""

_STOPS: Final = ((48, 60, 190), (40, 160, 230), (60, 200, 110), (245, 200, 50), (215, 45, 40))
_SHADES: Final = 256
_COLORS: Final = np.stack(
    [
        np.interp(np.linspace(0.0, 1.0, _SHADES), np.linspace(0.0, 1.0, len(_STOPS)), channel)
        for channel in zip(*_STOPS, strict=True)
    ],
    axis=1,
).astype(np.uint8)
"""Colours of shades: blue, cyan, green, yellow, red."""


class UndrawableMessageError(ValueError):
    """A message contradicts itself, or has a form that the page does not show. The text says what, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSet:
    """Points in the frame of a message's header.

    Attributes:
        points: (N, 3) m; all are finite.
        colors: (N, 3) red, green, blue.
        total: Points that the message has, valid or not.
    """

    points: NDArray[np.float32]
    colors: NDArray[np.uint8]
    total: int


def scan_points(message: Any, *, limit: int = MAX_POINTS) -> NDArray[np.float32]:
    """Return the points (N, 3) of a LaserScan that are within its range limits, in the order of the rays.

    Args:
        message: sensor_msgs/msg/LaserScan.
        limit: Most rays that are read; of more, evenly spaced ones.
    """
    ranges = np.asarray(message.ranges, dtype=np.float64)
    step = _step(len(ranges), limit)
    rays = np.arange(0, len(ranges), step)
    ranges = ranges[::step]
    # REP 117: inf and -inf are no points, and NaN is neither above nor below.
    valid = np.isfinite(ranges) & (ranges >= message.range_min) & (ranges <= message.range_max)
    angles = message.angle_min + message.angle_increment * rays[valid]
    points = np.zeros((int(valid.sum()), 3), np.float32)
    points[:, 0] = ranges[valid] * np.cos(angles)
    points[:, 1] = ranges[valid] * np.sin(angles)
    return points[np.isfinite(points).all(axis=1)]


def cloud_points(message: Any, *, limit: int = MAX_POINTS) -> PointSet:
    """Return the points of a PointCloud2: coloured by `rgb`, `rgba`, r, g and b, `intensity`, or else by distance.

    Args:
        message: sensor_msgs/msg/PointCloud2.
        limit: Most points that are read; of more, evenly spaced ones.

    Raises:
        UndrawableMessageError: It has no x, y and z, or less data than it says.
    """
    records = _records(message, limit)
    fields = records.dtype.names or ()
    with np.errstate(over="ignore"):
        columns = [records[axis].astype(np.float32) for axis in "xyz"]
    valid = np.isfinite(columns[0]) & np.isfinite(columns[1]) & np.isfinite(columns[2])
    points, records = np.stack(columns, axis=1)[valid], records[valid]
    if "rgb" in fields or "rgba" in fields:
        colors = _packed_colors(records["rgb" if "rgb" in fields else "rgba"])
    elif {"r", "g", "b"} <= set(fields):
        colors = np.stack([_as_bytes(records[name]) for name in "rgb"], axis=1)
    elif "intensity" in fields:
        colors = shades(records["intensity"])
    else:
        colors = shades(np.linalg.norm(points.astype(np.float64), axis=1))
    return PointSet(points=points, colors=colors, total=int(message.width) * int(message.height))


def shades(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a colour (..., 3) for each value: blue for the least, red for the greatest, black for NaN and inf."""
    numbers = np.asarray(values)
    if numbers.dtype != np.float32:
        numbers = numbers.astype(np.float64)
    finite = np.isfinite(numbers)
    measured = numbers if finite.all() else numbers[finite]
    low, high = (float(measured.min()), float(measured.max())) if measured.size else (0.0, 0.0)
    # Halves, so that the difference of two numbers of any size is finite.
    half = 0.5 * high - 0.5 * low
    with np.errstate(invalid="ignore"):
        relative = (0.5 * numbers - 0.5 * low) / (half if half > 0.0 else 1.0)
    colors: NDArray[np.uint8] = _COLORS[(np.where(finite, relative, 0.0) * (_SHADES - 1)).astype(np.uint8)]
    colors[~finite] = 0
    return colors


def _records(message: Any, limit: int) -> NDArray[Any]:
    """Return points of a cloud as a structured array of their fields."""
    width, height = int(message.width), int(message.height)
    step, row = int(message.point_step), int(message.row_step)
    order = ">" if message.is_bigendian else "<"
    names, formats, offsets = [], [], []
    for field in message.fields:
        kind = _DATATYPES.get(int(field.datatype))
        if kind is None or field.name in names or not field.name:
            continue
        if int(field.offset) + np.dtype(kind).itemsize > step:
            raise UndrawableMessageError(f"the field {field.name} is beyond the point_step of {step} bytes")
        names.append(field.name)
        formats.append(order + kind)
        offsets.append(int(field.offset))
    if not {"x", "y", "z"} <= set(names):
        raise UndrawableMessageError(
            f"a cloud needs the fields x, y and z, it has {', '.join(names) or 'none'}"
        )
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})
    data = np.frombuffer(message.data, np.uint8)
    if width * height == 0:
        return np.zeros(0, layout)
    needed = row * (height - 1) + step * width
    if row < step * width and height > 1:
        raise UndrawableMessageError(f"a row_step of {row} bytes is less than {width} points of {step}")
    if len(data) < needed:
        raise UndrawableMessageError(
            f"{width}x{height} points need {needed} bytes, the cloud has {len(data)}"
        )
    grid: NDArray[Any] = np.ndarray((height, width), layout, data, strides=(row, step))
    return grid.reshape(-1)[:: _step(width * height, limit)]


def _step(count: int, limit: int) -> int:
    return max(1, -(-count // max(1, limit)))


def _packed_colors(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return red, green and blue of numbers whose bits are 0xAARRGGBB, as PCL packs them into a float."""
    if values.dtype.itemsize != 4:
        return shades(np.zeros(len(values)))
    bits = np.ascontiguousarray(values).view(values.dtype.str[0] + "u4")
    colors: NDArray[np.uint8] = np.stack([bits >> 16, bits >> 8, bits], axis=1).astype(np.uint8)
    return colors


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return colour values as bytes; floats are 0 to 1."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values) * 255.0
    colors: NDArray[np.uint8] = np.clip(values, 0, 255).astype(np.uint8)
    return colors
