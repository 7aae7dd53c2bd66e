"""Reading an asset in one call."""

from __future__ import annotations

from pxr import Usd

from usd_ros_bridge.model.options import ReadOptions
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.usd.opening import open_stage
from usd_ros_bridge.usd.reader import read_stage


def read_asset(asset: str, options: ReadOptions | None = None) -> tuple[Usd.Stage, StageRecords]:
    """Opens an asset and reads it.

    Args:
        asset: As for `open_stage`.
        options: As for `open_stage`.

    Returns:
        The stage, which the caller holds as long as its prims are used, and the records.

    Raises:
        BridgeError: As for `open_stage`.
    """
    stage = open_stage(asset, options)
    return stage, read_stage(stage, asset=asset)
