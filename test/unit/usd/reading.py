"""Reading in tests: an asset in one call; and a check that repeated robots read as if each prim were read."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from pxr import Usd

from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd import open_stage, read_stage
from usd_ros_bridge.usd.read import stage_reader
from usd_ros_bridge.usd.read.instances import can_be_repeated


def physics_of(stage: Usd.Stage, **options: Any) -> PhysicsRecords:
    """Return what engines need of a stage."""
    physics = read_stage(stage, asset="stage", physics=True, **options).physics
    assert physics is not None
    return physics


def read_asset(asset: str, options: ReadOptions | None = None) -> tuple[Usd.Stage, StageRecords]:
    """Opens an asset and reads it."""
    stage = open_stage(asset, options)
    return stage, read_stage(stage, asset=asset)


def check_reading(stage: Usd.Stage, *, repeats: bool | None = None) -> StageRecords:
    """Returns the records of a stage, after a check that they are those of reading every prim of every robot."""
    seen: list[bool] = []

    def never(*args: Any) -> bool:
        seen.append(can_be_repeated(*args))
        return False

    records = read_stage(stage, asset="fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_reader, "can_be_repeated", never)
        each = read_stage(stage, asset="fleet")
    if repeats is not None:
        assert any(seen) is repeats
    for field in fields(StageRecords):
        if field.name not in ("xforms", "pose_tracks", "value_tracks", "repeats"):
            assert getattr(records, field.name) == getattr(each, field.name), field.name
    assert list(records.xforms) == list(each.xforms)
    assert list(records.order.items()) == list(each.order.items())
    for path, xform in records.xforms.items():
        other = each.xforms[path]
        assert xform.world_from_prim == pytest.approx(other.world_from_prim, abs=1e-9, nan_ok=True)
        assert replace(xform, world_from_prim=()) == replace(other, world_from_prim=())
    for mine, theirs in zip(
        (*records.pose_tracks, *records.value_tracks), (*each.pose_tracks, *each.value_tracks), strict=True
    ):
        assert mine.path == theirs.path
        np.testing.assert_array_equal(mine.time_codes, theirs.time_codes)
    specs = [[joint.specs for joint in each_records.joints] for each_records in (records, each)]
    assert [specs[0].index(number) for number in specs[0]] == [specs[1].index(number) for number in specs[1]]
    return records
