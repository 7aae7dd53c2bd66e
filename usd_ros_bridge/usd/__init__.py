"""OpenUSD: stage to records. The only package that imports `pxr`."""

from usd_ros_bridge.usd.open import open_stage
from usd_ros_bridge.usd.read.stage_reader import read_stage
from usd_ros_bridge.usd.schemas import register_schemas
from usd_ros_bridge.usd.tf_errors import quiet

__all__ = [
    "open_stage",
    "quiet",
    "read_stage",
    "register_schemas",
]
