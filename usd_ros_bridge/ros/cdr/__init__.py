"""Serialized messages whose numbers are written in place: what a tick publishes without building message objects."""

from __future__ import annotations

from usd_ros_bridge.ros.cdr.layout import TemplateError
from usd_ros_bridge.ros.cdr.outlet import Outlet
from usd_ros_bridge.ros.cdr.shared import SharedMessages
from usd_ros_bridge.ros.cdr.template import Column, StampColumn, Template

__all__ = ["Column", "Outlet", "SharedMessages", "StampColumn", "Template", "TemplateError"]
