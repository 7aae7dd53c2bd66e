"""Compressed images: what another decoder, and image_transport's own formulas, read from them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from case_tables import each_case

pytest.importorskip("PIL", reason="pillow is not installed: make setup")
from PIL import Image

from usd_ros_bridge.backends.image_compression import compressed_image

HEIGHT, WIDTH = 24, 36


def read_png(data: bytes) -> NDArray[np.generic]:
    """Decodes a PNG without interlace by the specification alone (ISO/IEC 15948): what the encoder has no part in."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = chunks.get(kind, b"") + body
        at += 12 + length
    width, height, bits, color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    channels = {0: 1, 2: 3}[color]
    step = channels * bits // 8
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * step)
    lines = np.zeros((height, width * step), np.int64)
    for row in range(height):
        for column in range(width * step):
            left = lines[row, column - step] if column >= step else 0
            up = lines[row - 1, column] if row else 0
            corner = lines[row - 1, column - step] if row and column >= step else 0
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda each: abs(guess - each))
            base = (0, left, up, (left + up) // 2, paeth)[raw[row, 0]]
            lines[row, column] = (int(raw[row, 1 + column]) + base) % 256
    samples = lines.astype(np.uint8).tobytes()
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.frombuffer(samples, ">u2" if bits == 16 else np.uint8).reshape(shape)


def picture(channels: int = 3) -> NDArray[np.uint8]:
    across, down = np.meshgrid(np.linspace(0, 255, WIDTH), np.linspace(0, 255, HEIGHT))
    planes = np.stack([across, down, 255 - across, np.full_like(across, 255)], axis=-1).astype(np.uint8)
    return planes[..., :channels] if channels > 1 else planes[..., 0]


def depths() -> NDArray[np.float32]:
    meters = np.linspace(0.2, 9.9, HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)
    meters[0, :4] = [np.inf, np.nan, 0.0, 70.0]
    return meters


@each_case(("channels", "encoding"), [(1, "mono8"), (3, "rgb8"), (4, "rgba8")])
def test_png_is_without_loss(channels: int, encoding: str) -> None:
    arrays = compressed_image(picture(channels), "png")
    color = "" if channels == 1 else "bgr8"
    assert arrays["format"].tobytes().decode() == f"{encoding}; png compressed {color}"
    expected = picture(channels)[..., :3] if channels > 1 else picture(1)
    np.testing.assert_array_equal(read_png(arrays["data"].tobytes()), expected)


@each_case(("channels", "encoding"), [(1, "mono8"), (3, "rgb8"), (4, "rgba8")])
def test_jpeg_is_near_and_nearer_with_more_quality(channels: int, encoding: str) -> None:
    errors, sizes = [], []
    expected = (picture(channels)[..., :3] if channels > 1 else picture(1)).astype(int)
    for quality in (30, 95):
        arrays = compressed_image(picture(channels), "jpeg", jpeg_quality=quality)
        color = "" if channels == 1 else "bgr8"
        assert arrays["format"].tobytes().decode() == f"{encoding}; jpeg compressed {color}"
        data = arrays["data"].tobytes()
        errors.append(np.abs(np.asarray(Image.open(io.BytesIO(data))).astype(int) - expected).mean())
        sizes.append(len(data))
    assert errors[1] < 3.0
    assert errors[1] < errors[0]
    assert sizes[0] < sizes[1]


def test_depth_as_png_is_in_millimetres() -> None:
    arrays = compressed_image(depths(), "png")
    assert arrays["format"].tobytes().decode() == "16UC1; png compressed "
    read = read_png(arrays["data"].tobytes()).astype(float)
    assert read[0, :4].tolist() == [0.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(read[1:] / 1000.0, depths()[1:], atol=0.00051)


def test_compressed_depth_is_read_as_compressed_depth_image_transport_reads_it() -> None:
    arrays = compressed_image(depths(), "compressedDepth")
    assert arrays["format"].tobytes().decode() == "32FC1; compressedDepth png"
    data = arrays["data"].tobytes()
    # Its ConfigHeader: an enum, and the two numbers of the quantization.
    kind, a, b = struct.unpack("<iff", data[:12])
    assert kind == 1
    inverse = read_png(data[12:]).astype(np.float64)
    with np.errstate(divide="ignore"):
        meters = np.where(inverse != 0, a / (inverse - b), np.nan)
    assert np.isnan(meters[0, :4]).all()
    # A step of the quantization is 1 / 10100 of an inverse metre.
    np.testing.assert_allclose(1.0 / meters[1:], 1.0 / depths()[1:], atol=1.1 / 10100.0)


def test_what_is_not_said_follows_from_the_pixels() -> None:
    assert compressed_image(picture())["format"].tobytes().startswith(b"rgb8; jpeg")
    assert compressed_image(depths())["format"].tobytes().startswith(b"16UC1; png")
    deep = (np.arange(HEIGHT * WIDTH, dtype=np.uint16) * 60).reshape(HEIGHT, WIDTH)
    arrays = compressed_image(deep)
    assert arrays["format"].tobytes() == b"mono16; png compressed "
    np.testing.assert_array_equal(read_png(arrays["data"].tobytes()), deep)


@each_case(
    ("pixels", "compression"),
    [
        (np.zeros((3, 4, 5), np.uint8), ""),
        (np.zeros((3, 4), np.float64), ""),
        (np.zeros(5, np.uint8), ""),
        (np.zeros((3, 4), np.float32), "jpeg"),
        (np.zeros((3, 4), np.uint8), "compressedDepth"),
    ],
)
def test_what_cannot_be_compressed_is_refused(pixels: NDArray[np.generic], compression: str) -> None:
    with pytest.raises(ValueError, match=r"image|JPEG|depth"):
        compressed_image(pixels, compression)
