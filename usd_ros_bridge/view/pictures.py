"""Pictures of Image and CompressedImage messages as red, green and blue, small enough for the page."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.view.point_clouds import UndrawableMessageError, shades

MAX_SIDE = 640
"""Pixels of the longer side that are shown; of more, every second, third and so on."""
MAX_PIXELS = 8192
"""Pixels of a side of a compressed picture that is read."""

ENCODINGS: Final[dict[str, tuple[str, int, str]]] = {
    "rgb8": ("u1", 3, "rgb"),
    "bgr8": ("u1", 3, "bgr"),
    "rgba8": ("u1", 4, "rgb"),
    "bgra8": ("u1", 4, "bgr"),
    "rgb16": ("u2", 3, "rgb"),
    "bgr16": ("u2", 3, "bgr"),
    "8UC3": ("u1", 3, "bgr"),
    "8UC4": ("u1", 4, "bgr"),
    "mono8": ("u1", 1, "grey"),
    "8UC1": ("u1", 1, "grey"),
    "mono16": ("u2", 1, "grey"),
    "16UC1": ("u2", 1, "millimetres"),
    "32FC1": ("f4", 1, "metres"),
}
"""Encodings of sensor_msgs/image_encodings.hpp that are shown: numpy's type, channels, and what they are."""

_DEPTH_HEADER: Final = struct.Struct("<iff")
_INVERSE_DEPTH: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture to show.

    Attributes:
        pixels: (H, W, 3) red, green, blue.
        width: Pixels of the message, of which those shown may be a part.
        height: Likewise.
        note: What the colours mean, "" for a photograph.
    """

    pixels: NDArray[np.uint8]
    width: int
    height: int
    note: str = ""


def image_picture(message: Any, *, max_side: int = MAX_SIDE) -> Picture:
    """Return the picture of an Image. Depth becomes colours from blue (near) to red (far), black where there is none.

    Args:
        message: sensor_msgs/msg/Image.
        max_side: Most pixels of a side.

    Raises:
        UndrawableMessageError: Its encoding is not shown here, or it has less data than it says.
    """
    known = ENCODINGS.get(message.encoding)
    if known is None:
        raise UndrawableMessageError(
            f"the encoding {quoted(message.encoding)} is not shown; shown are {', '.join(ENCODINGS)}"
        )
    kind, channels, meaning = known
    width, height, step = int(message.width), int(message.height), int(message.step)
    dtype = np.dtype((">" if message.is_bigendian else "<") + kind)
    size = dtype.itemsize * channels
    data = np.frombuffer(message.data, np.uint8)
    needed = step * (height - 1) + size * width if height else 0
    if not width or not height:
        raise UndrawableMessageError("the image has no pixels")
    if step < size * width or len(data) < needed:
        raise UndrawableMessageError(
            f"{width}x{height} pixels of {message.encoding} do not fit {len(data)} bytes with a step of {step}"
        )
    every = _every(width, height, max_side)
    grid: NDArray[Any] = np.ndarray(
        (height, width, channels), dtype, data, strides=(step, size, dtype.itemsize)
    )
    return _picture(grid[::every, ::every], meaning, width, height)


def compressed_picture(message: Any, *, max_side: int = MAX_SIDE) -> Picture:
    """Return the picture of a CompressedImage: JPEG, PNG, or the depth of image_transport's plugins.

    Args:
        message: sensor_msgs/msg/CompressedImage.
        max_side: Most pixels of a side.

    Raises:
        UndrawableMessageError: It is none of these, broken, or too large.
    """
    kind = str(message.format)
    data = bytes(message.data)
    encoding, _, transport = kind.partition(";")
    if "compressedDepth" in transport:
        return _compressed_depth(data, encoding.strip(), max_side)
    pixels, width, height = _decode(data, max_side)
    if pixels.ndim == 3:
        return _picture(pixels, "rgb", width, height)
    meaning = "millimetres" if encoding.strip() == "16UC1" else "grey"
    return _picture(pixels[..., None], meaning, width, height)


def _picture(pixels: NDArray[Any], meaning: str, width: int, height: int) -> Picture:
    note = ""
    if meaning in ("metres", "millimetres"):
        shown, note = _depth_colors(pixels[..., 0], 1.0 if meaning == "metres" else 1e-3)
    else:
        if pixels.dtype.itemsize == 2:
            pixels = pixels >> 8
        pixels = np.repeat(pixels, 3, axis=2) if meaning == "grey" else pixels[..., :3]
        shown = np.ascontiguousarray(pixels[..., ::-1] if meaning == "bgr" else pixels, dtype=np.uint8)
    return Picture(pixels=shown, width=width, height=height, note=note)


def _depth_colors(depth: NDArray[Any], unit: float) -> tuple[NDArray[np.uint8], str]:
    """Return colours of depths, and what they mean. 0 and what is not finite is no depth (REP 118)."""
    metres = depth.astype(np.float32)
    metres[~(metres > 0.0)] = np.nan
    metres *= unit
    finite = metres[np.isfinite(metres)]
    if not finite.size:
        return np.zeros((*depth.shape, 3), np.uint8), "no depth"
    return shades(metres), f"{finite.min():.2f} m (blue) to {finite.max():.2f} m (red)"


def _compressed_depth(data: bytes, encoding: str, max_side: int) -> Picture:
    """Return the picture of compressed_depth_image_transport: a header, then 16 bits of inverse depth, or of mm."""
    if len(data) < _DEPTH_HEADER.size:
        raise UndrawableMessageError("the compressed depth is cut off")
    kind, a, b = _DEPTH_HEADER.unpack_from(data)
    pixels, width, height = _decode(data[_DEPTH_HEADER.size :], max_side)
    if pixels.ndim != 2:
        raise UndrawableMessageError("the compressed depth is not grey")
    if encoding == "32FC1" and kind == _INVERSE_DEPTH:
        values = pixels.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            metres = np.where(values > 0.0, a / (values - b), np.nan)
        return _picture(metres[..., None], "metres", width, height)
    return _picture(pixels[..., None], "millimetres", width, height)


def _decode(data: bytes, max_side: int) -> tuple[NDArray[Any], int, int]:
    """Return pixels, (H, W) or (H, W, 3), reduced to `max_side`, and the size before."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as picture:
            width, height = picture.size
            if max(width, height) > MAX_PIXELS:
                raise UndrawableMessageError(
                    f"{width}x{height} pixels are too many, at most {MAX_PIXELS} a side"
                )
            # A JPEG is decoded at a half, a quarter or an eighth of its size where that suffices.
            picture.draft(None, (max_side, max_side))
            is_plain = picture.mode in ("L", "I;16", "I")
            pixels = np.asarray(picture if is_plain else picture.convert("RGB"))
    except UndrawableMessageError:
        raise
    except Exception as error:
        # Pillow raises OSError, SyntaxError, ValueError, struct.error and others for broken files.
        raise UndrawableMessageError("the compressed image is broken, or neither JPEG nor PNG") from error
    every = _every(pixels.shape[1], pixels.shape[0], max_side)
    pixels = pixels[::every, ::every]
    return (pixels.astype(np.uint16) if pixels.dtype.itemsize > 2 else pixels), width, height


def _every(width: int, height: int, max_side: int) -> int:
    return max(1, -(-max(width, height) // max(1, max_side)))
