"""Equality of what is known: data classes, containers and arrays compared by value, NaN equal to NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def same(one: Any, other: Any) -> bool:
    """Returns whether two values hold the same.

    Data classes count field by field, also those that compare by identity because they hold arrays; fields that are
    marked as no part of a comparison are left out.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other)
    if is_dataclass(one):
        return all(
            same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one) if each.compare
        )
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other) or (one != one and other != other)


def _same_arrays(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
