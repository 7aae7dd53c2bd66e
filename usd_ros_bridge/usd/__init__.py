"""OpenUSD: stage to records. The only package that imports `pxr`."""

from usd_ros_bridge.usd.api import read_asset
from usd_ros_bridge.usd.attributes import PrimReader
from usd_ros_bridge.usd.opening import open_stage, quiet
from usd_ros_bridge.usd.physics import read_physics
from usd_ros_bridge.usd.reader import read_stage
from usd_ros_bridge.usd.schemas import register_schemas

__all__ = [
    "PrimReader",
    "open_stage",
    "quiet",
    "read_asset",
    "read_physics",
    "read_stage",
    "register_schemas",
]
