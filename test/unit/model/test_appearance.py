"""Colours of images and descriptions."""

from __future__ import annotations

import pytest

from usd_ros_bridge.model.appearance import srgb


def test_colours_are_encoded_as_images_show_them() -> None:
    assert srgb((0.0, 0.002, 0.5, 0.25)) == pytest.approx((0.0, 0.02584, 0.735357, 0.25), abs=1e-5)
    assert srgb((1.0, 1.0, 1.0, 1.0)) == pytest.approx((1.0, 1.0, 1.0, 1.0))
