"""Jobs of a planner process, and the comparison of what comes back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from usd_ros_bridge.options import PlanOptions, ReadOptions
from usd_ros_bridge.planner_process import PlanJob

ASSETS = Path(__file__).parents[1] / "assets"
EXAMPLES = Path(__file__).parents[2] / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
PLANNED = (
    ROVER,
    ARM,
    ASSETS / "error_wrong_type.usda",
    ASSETS / "units_centimetres_y_up.usda",
    ASSETS / "frame_animated.usda",
)
"""Assets whose plans are compared field by field."""


def job(asset, **changes):
    """The job of planning an asset, with the defaults."""
    values = {
        "asset": str(asset),
        "read_options": ReadOptions(),
        "plan_options": PlanOptions(),
        "catalog": None,
        "physics": False,
        "describes": False,
        "mesh_directory": None,
    }
    return PlanJob(**{**values, **changes})


def differences(here, there, where="plan"):
    """Yield where two values differ, objects by their fields and arrays by their bytes."""
    if type(here) is not type(there):
        yield f"{where}: {type(here)} and {type(there)}"
    elif isinstance(here, np.ndarray):
        if here.dtype != there.dtype or here.shape != there.shape or here.tobytes() != there.tobytes():
            yield where
    elif dataclasses.is_dataclass(here):
        for field in dataclasses.fields(here):
            yield from differences(
                getattr(here, field.name), getattr(there, field.name), f"{where}.{field.name}"
            )
    elif isinstance(here, dict):
        if list(here) != list(there):
            yield f"{where}: {list(here)} and {list(there)}"
        for key in here.keys() & there.keys():
            yield from differences(here[key], there[key], f"{where}[{key!r}]")
    elif isinstance(here, (tuple, list)):
        if len(here) != len(there):
            yield f"{where}: {len(here)} and {len(there)} elements"
        for number, (one, other) in enumerate(zip(here, there, strict=False)):
            yield from differences(one, other, f"{where}[{number}]")
    elif here != there and not (here != here and there != there):
        yield f"{where}: {here!r} and {there!r}"
