"""docs/reference/view_layers.md against the layers of the page."""

from __future__ import annotations

from typing import get_args

import pytest

from markdown_docs import codes, page_text, rows
from usd_ros_bridge.model import message_types
from usd_ros_bridge.view import layer_drawings, point_clouds, sensor_layers
from usd_ros_bridge.view.display_layers import (
    KINDS,
    MAX_IMAGES_SHOWN,
    MAX_ROBOTS_SHOWN,
    SHOWN_AT_START,
    LayerKind,
)
from usd_ros_bridge.view.frame_tree import MAX_ROBOTS
from usd_ros_bridge.view.pictures import ENCODINGS, MAX_SIDE

pytestmark = pytest.mark.docs

SHOW = page_text("view_layers.md")
LAYERS = list(rows(SHOW, "layer"))


def test_the_table_has_every_layer_with_its_types() -> None:
    assert [kind for kind, *_ in LAYERS] == list(get_args(LayerKind))
    for kind, types, *_ in LAYERS:
        drawn = [name for name, layer in KINDS.items() if layer == kind]
        assert set(drawn) <= set(codes(types)), kind
    types_of = {kind: codes(types) for kind, types, *_ in LAYERS}
    assert types_of["trajectory"] == [message_types.JOINT_TRAJECTORY, message_types.FOLLOW_JOINT_TRAJECTORY]
    assert types_of["contact"] == [message_types.BOOL]
    assert types_of["trail"] == [message_types.TF_MESSAGE]


def test_the_table_says_what_is_on_at_the_start() -> None:
    assert {kind for kind, *_, start in LAYERS if start.startswith("on")} == SHOWN_AT_START
    assert f"on, with at most {MAX_IMAGES_SHOWN} pictures" in SHOW
    assert f"With more than {MAX_ROBOTS_SHOWN} robots" in SHOW


def test_limits_are_those_of_the_code() -> None:
    text = " ".join(SHOW.split())
    assert f"Of more than {point_clouds.MAX_POINTS:,} points" in text
    assert f"pictures with more than {MAX_SIDE} pixels" in text
    assert f"up to {layer_drawings.TRAIL_POINTS:,} points" in text
    assert f"one of the first {MAX_ROBOTS}" in text
    clouds, images = (round(1.0 / sensor_layers.PERIODS_S[kind]) for kind in ("cloud", "image"))
    assert f"30 times a second, clouds {clouds} and pictures {images} times" in text


def test_every_encoding_is_listed() -> None:
    line = SHOW[SHOW.index("Pictures have one of the encodings") : SHOW.index("Compressed ones are")]
    assert codes(line) == list(ENCODINGS)
