"""Points of scans and clouds against loops over single numbers, for messages of every layout."""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.view.point_clouds import UndrawableMessageError, cloud_points, scan_points, shades

pytestmark = pytest.mark.app

LETTERS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 8: "d"}
FLOAT32, FLOAT64, UINT8, UINT32 = 7, 8, 2, 6


def scan(ranges, **changes):
    fields = {
        "angle_min": -1.0,
        "angle_increment": 0.1,
        "range_min": 0.1,
        "range_max": 10.0,
        "ranges": np.array(ranges, np.float32),
    }
    return SimpleNamespace(**(fields | changes))


def field(name, offset, datatype=FLOAT32):
    return SimpleNamespace(name=name, offset=offset, datatype=datatype, count=1)


def cloud(points, fields, step, *, big=False, width=None, padding=0):
    """A PointCloud2 of rows of values by field name, packed with struct."""
    order = ">" if big else "<"
    width = width or len(points)
    height = len(points) // width
    row_step = width * step + padding
    data = bytearray(height * row_step)
    for number, values in enumerate(points):
        start = (number // width) * row_step + (number % width) * step
        for each in fields:
            struct.pack_into(order + LETTERS[each.datatype], data, start + each.offset, values[each.name])
    return SimpleNamespace(
        width=width,
        height=height,
        fields=fields,
        is_bigendian=big,
        point_step=step,
        row_step=row_step,
        data=np.frombuffer(bytes(data), np.uint8),
    )


def xyz(*points):
    return [dict(zip("xyz", point, strict=True)) for point in points]


XYZ = [field("x", 0), field("y", 4), field("z", 8)]


def test_points_of_a_scan_are_on_its_rays():
    found = scan_points(scan([1.0, 2.0, 3.0]))
    wanted = [
        (r * math.cos(-1.0 + 0.1 * i), r * math.sin(-1.0 + 0.1 * i), 0.0) for i, r in enumerate((1, 2, 3))
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.05, 10.5, 0.0, -1.0])
def test_a_ray_without_a_valid_range_has_no_point(value):
    assert len(scan_points(scan([1.0, value, 2.0]))) == 2


def test_a_scan_of_nothing_has_no_points():
    assert scan_points(scan([])).shape == (0, 3)
    assert scan_points(scan([1.0], angle_increment=math.nan, angle_min=math.nan)).shape == (0, 3)


def test_of_a_long_scan_every_other_ray_is_shown():
    whole = scan_points(scan(np.linspace(1.0, 9.0, 100)))
    np.testing.assert_array_equal(scan_points(scan(np.linspace(1.0, 9.0, 100)), limit=50), whole[::2])


@given(
    points=st.lists(
        st.tuples(*[st.floats(width=32, allow_nan=True, allow_infinity=True)] * 3), min_size=1, max_size=12
    ),
    datatype=st.sampled_from([FLOAT32, FLOAT64]),
    big=st.booleans(),
    padding=st.integers(0, 9),
    lead=st.integers(0, 5),
    reverse=st.booleans(),
    rows=st.integers(1, 3),
)
def test_a_cloud_of_any_layout_is_read(points, datatype, big, padding, lead, reverse, rows):
    size = 4 if datatype == FLOAT32 else 8
    names = "zyx" if reverse else "xyz"
    fields = [field(name, lead + size * i, datatype) for i, name in enumerate(names)]
    points = points * rows
    message = cloud(
        xyz(*points), fields, lead + 3 * size + 2, big=big, width=len(points) // rows, padding=padding
    )
    found = cloud_points(message)
    wanted = [point for point in points if all(map(math.isfinite, point))]
    np.testing.assert_array_equal(found.points, np.array(wanted, np.float32).reshape(-1, 3))
    assert found.colors.shape == found.points.shape
    assert found.total == len(points)


@pytest.mark.parametrize("datatype", [FLOAT32, UINT32])
def test_packed_colours_are_red_green_and_blue(datatype):
    bits = 0x00112233
    value = struct.unpack("<f", struct.pack("<I", bits))[0] if datatype == FLOAT32 else bits
    message = cloud([{"x": 1.0, "y": 2.0, "z": 3.0, "rgb": value}], [*XYZ, field("rgb", 12, datatype)], 16)
    assert cloud_points(message).colors.tolist() == [[0x11, 0x22, 0x33]]


def test_colours_of_single_fields_are_read():
    fields = [*XYZ, *(field(name, 12 + i, UINT8) for i, name in enumerate("rgb"))]
    message = cloud([{"x": 1.0, "y": 2.0, "z": 3.0, "r": 9, "g": 8, "b": 7}], fields, 16)
    assert cloud_points(message).colors.tolist() == [[9, 8, 7]]


def test_intensity_colours_a_cloud_else_distance():
    points = [
        {"x": 3.0, "y": 0.0, "z": 0.0, "intensity": 1.0},
        {"x": 1.0, "y": 0.0, "z": 0.0, "intensity": 5.0},
    ]
    by_intensity = cloud_points(cloud(points, [*XYZ, field("intensity", 12)], 16)).colors
    by_distance = cloud_points(cloud(points, XYZ, 12)).colors
    assert by_intensity.tolist() == by_distance[::-1].tolist()
    assert by_distance[0].tolist() == [215, 45, 40]


def test_of_a_large_cloud_evenly_spaced_points_are_shown():
    message = cloud(xyz(*[(float(i), 0.0, 0.0) for i in range(1000)]), XYZ, 12, width=100, padding=4)
    found = cloud_points(message, limit=300)
    assert found.points[:, 0].tolist() == list(range(0, 1000, 4))
    assert found.total == 1000


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"fields": [field("x", 0), field("y", 4)]}, "a cloud needs the fields x, y and z, it has x, y"),
        ({"fields": []}, "it has none"),
        ({"data": np.zeros(11, np.uint8)}, "2x1 points need 24 bytes, the cloud has 11"),
        ({"point_step": 0}, "the field x is beyond the point_step of 0 bytes"),
        ({"height": 2, "row_step": 5}, "a row_step of 5 bytes is less than 2 points of 12"),
        ({"width": 2**31, "height": 2**31, "row_step": 2**35}, "points need"),
    ],
)
def test_a_cloud_that_contradicts_itself_is_refused_in_one_line(changes, text):
    message = cloud(xyz((1, 2, 3), (4, 5, 6)), XYZ, 12)
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(UndrawableMessageError, match=text) as caught:
        cloud_points(message)
    assert "\n" not in str(caught.value)


def test_fields_of_unknown_kinds_are_left_out():
    message = cloud(xyz((1.0, 2.0, 3.0)), XYZ, 12)
    message.fields = [*XYZ, field("odd", 0, 77), field("x", 4), field("", 0)]
    assert cloud_points(message).points.tolist() == [[1.0, 2.0, 3.0]]


def test_a_cloud_without_points_is_empty():
    assert cloud_points(cloud([], XYZ, 12, width=1)).points.shape == (0, 3)


def test_what_is_no_number_is_black():
    colors = shades(np.array([[0.0, np.nan], [np.inf, 1.0]]))
    assert colors.shape == (2, 2, 3)
    assert colors[0, 1].tolist() == colors[1, 0].tolist() == [0, 0, 0]
    assert colors[0, 0].tolist() != colors[1, 1].tolist()
    assert shades(np.array([])).shape == (0, 3)


@pytest.mark.parametrize("values", [[-1.7e308, 1.7e308], [0.0, 5e-324], [1.0, 1.0], [2**63, -(2**63)]])
def test_shades_of_numbers_of_any_size_are_colours(values):
    colors = shades(np.array(values))
    assert colors.shape == (2, 3)
    assert (colors[0] != colors[1]).any() == (values[0] != values[1]) or values[1] == 5e-324
