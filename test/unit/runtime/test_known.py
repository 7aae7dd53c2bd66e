"""Known numbers: what backends do not measure is empty, single unknown numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from usd_ros_bridge.runtime.snapshot import UNKNOWN, UnknownFilter

# NaN of other bits than numpy's own, as arithmetic makes it.
NEGATIVE_NAN = np.copysign(np.nan, -1.0)


@pytest.mark.parametrize("nothing", [[np.nan] * 3, [NEGATIVE_NAN] * 3, [np.nan, NEGATIVE_NAN, np.nan]])
def test_nothing_known_is_unknown(nothing: list[float]) -> None:
    assert UnknownFilter(3)(np.array(nothing)) is UNKNOWN


@pytest.mark.parametrize("some", [[0.0] * 3, [np.nan, np.nan, 1.0], [np.inf, np.nan, np.nan]])
def test_what_is_known_in_part_stays(some: list[float]) -> None:
    values = np.array(some)
    assert UnknownFilter(3)(values) is values


def test_none_of_none_stays() -> None:
    values = np.zeros(0)
    assert UnknownFilter(0)(values) is values
