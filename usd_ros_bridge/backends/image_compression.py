"""Image compression: pixels to JPEG and PNG data of a CompressedImage, as in image_transport's plugins."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BackendError

JPEG: Final = "jpeg"
PNG: Final = "png"
COMPRESSED_DEPTH: Final = "compressedDepth"

DEPTH_MAX_M: Final = 10.0
DEPTH_QUANTIZATION: Final = 100.0
"""Parameters of compressed_depth_image_transport at their defaults."""

_INVERSE_DEPTH: Final = 1
_MM_PER_M: Final = 1000.0
_MAX_UINT16: Final = 65_535.0
_ENCODINGS: Final = {
    ("uint8", 1): "mono8",
    ("uint8", 3): "rgb8",
    ("uint8", 4): "rgba8",
    ("uint16", 1): "mono16",
    ("float32", 1): "32FC1",
}


def compressed_image(
    pixels: NDArray[Any], compression: str = "", *, jpeg_quality: int = 95, png_level: int = 3
) -> Mapping[str, NDArray[np.uint8]]:
    """Return the arrays `data` and `format` of a CompressedImage.

    Depth in metres becomes 16-bit millimetres (`png`; 0 where there is none), or the inverse depth of
    compressed_depth_image_transport.

    Args:
        pixels: (H, W) uint8, uint16 or float32 (depth in m), or (H, W, 3) or (H, W, 4) uint8.
        compression: `jpeg`, `png` or `compressedDepth`; "" for `jpeg`, and `png` where a pixel has more than 8 bits.
        jpeg_quality: 1 to 100.
        png_level: 1 to 9.

    Raises:
        BackendError: Pillow is not installed.
        ValueError: The pixels are not of these shapes and types, or cannot be compressed so.
    """
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    encoding = _ENCODINGS.get((pixels.dtype.name, channels)) if pixels.ndim in (2, 3) else None
    if encoding is None:
        raise ValueError(f"pixels {pixels.shape} {pixels.dtype} are no image that can be compressed")
    if not compression:
        compression = JPEG if pixels.dtype == np.uint8 else PNG
    color = "bgr8" if channels > 1 else ""
    if compression == JPEG:
        if pixels.dtype != np.uint8:
            raise ValueError(f"a JPEG has 8 bits per colour; {encoding} has more")
        opaque = pixels[..., :3] if channels == 4 else pixels
        return _arrays(_encode(opaque, "JPEG", quality=jpeg_quality), f"{encoding}; jpeg compressed {color}")
    if compression == COMPRESSED_DEPTH:
        return _compressed_depth(pixels, encoding, png_level)
    if encoding == "32FC1":
        pixels, encoding = _millimetres(pixels), "16UC1"
    opaque = pixels[..., :3] if channels == 4 else pixels
    return _arrays(_encode(opaque, "PNG", compress_level=png_level), f"{encoding}; png compressed {color}")


def _compressed_depth(pixels: NDArray[Any], encoding: str, png_level: int) -> Mapping[str, NDArray[np.uint8]]:
    a = b = 0.0
    if encoding == "32FC1":
        a = DEPTH_QUANTIZATION * (DEPTH_QUANTIZATION + 1.0)
        b = 1.0 - a / DEPTH_MAX_M
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = a / pixels + b
        seen = (pixels > 0.0) & (pixels < DEPTH_MAX_M)
        pixels = np.where(seen, np.clip(inverse, 1.0, _MAX_UINT16), 0.0).astype(np.uint16)
    elif encoding == "mono16":
        encoding = "16UC1"
    else:
        raise ValueError(f"{encoding} is no depth")
    header = struct.pack("<iff", _INVERSE_DEPTH, a, b)
    data = header + _encode(pixels, "PNG", compress_level=png_level)
    return _arrays(data, f"{encoding}; compressedDepth png")


def _millimetres(meters: NDArray[Any]) -> NDArray[np.uint16]:
    millimetres = np.rint(meters * _MM_PER_M)
    seen = (millimetres > 0.0) & (millimetres <= _MAX_UINT16)
    return np.where(seen, millimetres, 0.0).astype(np.uint16)


def _encode(pixels: NDArray[Any], file_format: str, **options: int) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise BackendError(
            "compressed images need Pillow: pip install pillow (usd_ros_bridge[images])"
        ) from error
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, file_format, **options)
    return stream.getvalue()


def _arrays(data: bytes, image_format: str) -> Mapping[str, NDArray[np.uint8]]:
    return {
        "data": np.frombuffer(data, dtype=np.uint8),
        "format": np.frombuffer(image_format.encode(), dtype=np.uint8),
    }
