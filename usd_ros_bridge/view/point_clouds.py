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

_STOPS: Final = np.linspace(0.0, 1.0, 5)
_COLORS: Final = np.array(
    [(48, 60, 190), (40, 160, 230), (60, 200, 110), (245, 200, 50), (215, 45, 40)], float
)
"""Colours of shades from 0 to 1: blue, cyan, green, yellow, red."""


class UnreadableMessageError(ValueError):
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
        limit: Most rays that are looked at; of more, evenly spaced ones.
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
        limit: Most points that are looked at; of more, evenly spaced ones.

    Raises:
        UnreadableMessageError: It has no x, y and z, or less data than it says.
    """
    records = _records(message, limit)
    fields = records.dtype.names or ()
    points = np.stack([records[axis].astype(np.float32) for axis in "xyz"], axis=1)
    valid = np.isfinite(points).all(axis=1)
    points, records = points[valid], records[valid]
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
    numbers = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(numbers)
    low, high = (numbers[finite].min(), numbers[finite].max()) if finite.any() else (0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        relative = (np.where(finite, numbers, low) - low) / (high - low if high > low else 1.0)
    relative = np.nan_to_num(relative, posinf=1.0)
    colors = np.stack([np.interp(relative, _STOPS, channel) for channel in _COLORS.T], axis=-1)
    return np.where(finite[..., None], colors, 0.0).astype(np.uint8)


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
            raise UnreadableMessageError(f"the field {field.name} is beyond the point_step of {step} bytes")
        names.append(field.name)
        formats.append(order + kind)
        offsets.append(int(field.offset))
    if not {"x", "y", "z"} <= set(names):
        raise UnreadableMessageError(
            f"a cloud needs the fields x, y and z, it has {', '.join(names) or 'none'}"
        )
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})
    data = np.frombuffer(message.data, np.uint8)
    if width * height == 0:
        return np.zeros(0, layout)
    needed = row * (height - 1) + step * width
    if row < step * width and height > 1:
        raise UnreadableMessageError(f"a row_step of {row} bytes is less than {width} points of {step}")
    if len(data) < needed:
        raise UnreadableMessageError(
            f"{width}x{height} points need {needed} bytes, the cloud has {len(data)}"
        )
    grid: NDArray[Any] = np.ndarray((height, width), layout, data, strides=(row, step))
    chosen = np.arange(0, width * height, _step(width * height, limit))
    records: NDArray[Any] = grid[chosen // width, chosen % width]
    return records


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
