"""Serialized messages whose numbers are written in place: what a tick publishes without building message objects."""

from __future__ import annotations

from usd_ros_bridge.ros.cdr.copies import Copies
from usd_ros_bridge.ros.cdr.layout import TemplateError
from usd_ros_bridge.ros.cdr.outlet import Outlet
from usd_ros_bridge.ros.cdr.shared import SharedMessages
from usd_ros_bridge.ros.cdr.template import Column, StampColumn, Template
from usd_ros_bridge.ros.cdr.together import Place, Row, Together

__all__ = [
    "Column", "Copies", "Outlet", "Place", "Row", "SharedMessages", "StampColumn", "Template", "TemplateError",
    "Together",
]  # fmt: skip
