"""Values: from what USD returns to the plain Python types of records, and whether anything is lost on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pxr import Gf, Sdf

VECTORS: Final = (
    Gf.Vec2d, Gf.Vec2f, Gf.Vec2h, Gf.Vec2i,
    Gf.Vec3d, Gf.Vec3f, Gf.Vec3h, Gf.Vec3i,
    Gf.Vec4d, Gf.Vec4f, Gf.Vec4h, Gf.Vec4i,
)  # fmt: skip
QUATERNIONS: Final = (Gf.Quatd, Gf.Quatf, Gf.Quath)

MAX_ELEMENTS: Final = 4096
"""Longest array that is copied from an attribute; nothing that the bridge reads needs more."""


class Unusable(Exception):  # noqa: N818 (never leaves this package: it says that a value has the wrong type)
    """The value cannot stand for the type without loss."""


def elements(value: Any) -> list[Any]:
    """Returns the elements of a short vector or array of OpenUSD.

    Python's own iteration ends with a C++ exception, which takes ten times as long.
    """
    return [value[row] for row in range(len(value))]


def plain(value: Any) -> Any:
    """Returns a USD value as Python numbers, strings, booleans and tuples, None where it is none of these."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, QUATERNIONS):
        return (*map(float, elements(value.imaginary)), float(value.real))
    if isinstance(value, VECTORS):
        return tuple(elements(value))
    if isinstance(value, Sdf.AssetPath):
        return value.path
    if isinstance(value, Sdf.TimeCode):
        return float(value.GetValue())
    try:
        if len(value) > MAX_ELEMENTS:
            return None
        return tuple(plain(element) for element in value)
    except TypeError:
        return None


def _number(value: Any) -> float:
    if isinstance(value, Sdf.TimeCode):
        return float(value.GetValue())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise Unusable
    if not -(2**31) <= value < 2**31:
        raise Unusable
    return int(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in {0, 1}:
        return bool(value)
    raise Unusable


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable
    return value


def _asset(value: Any) -> str:
    if not isinstance(value, Sdf.AssetPath):
        raise Unusable
    return str(value.path)


def _quaternion(value: Any) -> tuple[float, ...]:
    if not isinstance(value, QUATERNIONS):
        raise Unusable
    return (*map(float, elements(value.imaginary)), float(value.real))


def _vector(size: int, element: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, VECTORS) or len(value) != size:
            raise Unusable
        return tuple([element(component) for component in elements(value)])

    return convert


def _array(element: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            raise Unusable
        try:
            if len(value) > MAX_ELEMENTS:
                raise Unusable
            return tuple(element(each) for each in value)
        except TypeError:
            raise Unusable from None

    return convert


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _boolean,
    "int": _integer,
    "float": _number,
    "double": _number,
    "string": _text,
    "token": _text,
    "asset": _asset,
    "token[]": _array(_text),
    "double[]": _array(_number),
    "float[]": _array(_number),
    "int[]": _array(_integer),
    "int2": _vector(2, _integer),
    "float2": _vector(2, _number),
    "float3": _vector(3, _number),
    "color4f": _vector(4, _number),
    "point3f": _vector(3, _number),
    "vector3f": _vector(3, _number),
    "quatf": _quaternion,
}


def convert(value: Any, type_name: str) -> Any:
    """Returns `value` as the plain Python type that stands for the SdfValueTypeName `type_name`.

    Raises:
        Unusable: It cannot, or not without loss.
    """
    return _CONVERTERS[type_name](value)
