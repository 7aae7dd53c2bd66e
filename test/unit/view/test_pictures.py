"""Pictures of images against loops over pixels, and against what the bridge itself compresses."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image as Pillow

from usd_ros_bridge.backends.image_compression import compressed_image
from usd_ros_bridge.view.pictures import compressed_picture, image_picture
from usd_ros_bridge.view.point_clouds import UndrawableMessageError, shades

pytestmark = pytest.mark.app

RANDOM = np.random.default_rng(19)


def image(pixels, encoding, *, padding=0, big=False):
    """An Image message of an array (H, W) or (H, W, C)."""
    pixels = np.asarray(pixels)
    pixels = pixels.astype(pixels.dtype.newbyteorder(">" if big else "<"))
    rows = [row.tobytes() + bytes(padding) for row in pixels]
    return SimpleNamespace(
        width=pixels.shape[1],
        height=pixels.shape[0],
        encoding=encoding,
        step=len(rows[0]),
        is_bigendian=int(big),
        data=np.frombuffer(b"".join(rows), np.uint8),
    )


def compressed(arrays):
    return SimpleNamespace(data=arrays["data"], format=arrays["format"].tobytes().decode())


def photograph(height=30, width=40):
    """Smooth colours, which JPEG keeps."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], axis=2).astype(
        np.uint8
    )


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize(
    ("encoding", "order"),
    [
        ("rgb8", (0, 1, 2)),
        ("bgr8", (2, 1, 0)),
        ("rgba8", (0, 1, 2)),
        ("bgra8", (2, 1, 0)),
        ("8UC3", (2, 1, 0)),
    ],
)
def test_colours_of_bytes_are_shown_as_they_are(encoding, order, padding):
    channels = 4 if "a" in encoding else 3
    pixels = RANDOM.integers(0, 256, (4, 5, channels), np.uint8)
    found = image_picture(image(pixels, encoding, padding=padding))
    for y in range(4):
        for x in range(5):
            assert found.pixels[y, x].tolist() == [int(pixels[y, x, channel]) for channel in order]
    assert (found.width, found.height, found.note) == (5, 4, "")


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize(("encoding", "shift"), [("mono8", 0), ("8UC1", 0), ("mono16", 8)])
def test_grey_is_grey(encoding, shift, big):
    pixels = RANDOM.integers(0, 256 << shift, (3, 4)).astype(np.uint16 if shift else np.uint8)
    found = image_picture(image(pixels, encoding, big=big)).pixels
    assert found.tolist() == [[[int(value) >> shift] * 3 for value in row] for row in pixels]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize(("encoding", "unit"), [("32FC1", 1.0), ("16UC1", 0.001)])
def test_depth_is_blue_when_near_and_red_when_far_and_black_without(encoding, unit, big):
    metres = np.array([[1.0, 2.0], [3.0, 0.0]])
    pixels = (metres / unit).astype(np.float32 if encoding == "32FC1" else np.uint16)
    found = image_picture(image(pixels, encoding, big=big))
    assert found.note == "1.00 m (blue) to 3.00 m (red)"
    assert found.pixels[0, 0].argmax() == 2
    assert found.pixels[1, 0].argmax() == 0
    assert found.pixels[1, 1].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(found.pixels, shades(np.where(metres > 0.0, metres, np.nan)))


def test_depth_without_any_says_so():
    found = image_picture(image(np.full((2, 2), np.inf, np.float32), "32FC1"))
    assert found.note == "no depth"
    assert not found.pixels.any()


def test_a_large_image_is_shown_with_every_third_pixel():
    pixels = RANDOM.integers(0, 256, (300, 1500, 3), np.uint8)
    found = image_picture(image(pixels, "rgb8"))
    np.testing.assert_array_equal(found.pixels, pixels[::3, ::3])
    assert (found.width, found.height) == (1500, 300)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"encoding": "yuv422"}, "the encoding 'yuv422' is not shown; shown are rgb8, bgr8"),
        ({"encoding": "\x1b[2J"}, r"\\x1b"),
        ({"width": 0}, "no pixels"),
        ({"step": 3}, "do not fit"),
        ({"height": 1000}, "2x1000 pixels of rgb8 do not fit 12 bytes with a step of 6"),
    ],
)
def test_an_image_that_cannot_be_shown_is_refused_in_one_line(changes, text):
    message = image(np.zeros((2, 2, 3), np.uint8), "rgb8")
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(UndrawableMessageError, match=text):
        image_picture(message)


@pytest.mark.parametrize(("compression", "tolerance"), [("jpeg", 12), ("png", 0)])
def test_compressed_colours_are_those_of_the_image(compression, tolerance):
    pixels = photograph()
    found = compressed_picture(compressed(compressed_image(pixels, compression)))
    assert np.abs(found.pixels.astype(int) - pixels).max() <= tolerance
    assert (found.width, found.height) == (40, 30)


def test_compressed_grey_is_grey():
    grey = photograph()[..., 0]
    found = compressed_picture(compressed(compressed_image(grey, "png")))
    np.testing.assert_array_equal(found.pixels, np.repeat(grey[..., None], 3, axis=2))


@pytest.mark.parametrize("compression", ["png", "compressedDepth"])
def test_compressed_depth_looks_like_the_depth_image(compression):
    metres = np.linspace(0.5, 8.0, 60, dtype=np.float32).reshape(6, 10)
    metres[0, 0] = np.inf
    found = compressed_picture(compressed(compressed_image(metres, compression)))
    wanted = image_picture(image(metres, "32FC1"))
    assert found.pixels[0, 0].tolist() == [0, 0, 0]
    assert np.abs(found.pixels.astype(int) - wanted.pixels).max() <= 3
    assert found.note.split(" m")[1:] == wanted.note.split(" m")[1:]


def test_a_large_jpeg_is_reduced():
    found = compressed_picture(compressed(compressed_image(photograph(600, 2000), "jpeg")))
    assert (found.width, found.height) == (2000, 600)
    assert max(found.pixels.shape) <= 640


def png(size):
    stream = io.BytesIO()
    Pillow.new("1", size).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"", "rgb8; jpeg compressed bgr8", "neither JPEG nor PNG"),
        (b"\xff\xd8\xff\xe0 broken", "jpeg", "neither JPEG nor PNG"),
        (png((40, 40))[:-30], "png", "neither JPEG nor PNG"),
        (png((9000, 2)), "png", "9000x2 pixels are too many, at most 8192 a side"),
        (b"GIF89a" + bytes(20), "gif", "neither JPEG nor PNG"),
        (b"short", "32FC1; compressedDepth png", "the compressed depth is cut off"),
        (bytes(12) + b"no png", "32FC1; compressedDepth png", "neither JPEG nor PNG"),
    ],
)
def test_a_compressed_image_that_cannot_be_shown_is_refused_in_one_line(data, kind, text):
    with pytest.raises(UndrawableMessageError, match=text) as caught:
        compressed_picture(SimpleNamespace(data=np.frombuffer(data, np.uint8), format=kind))
    assert "\n" not in str(caught.value)
