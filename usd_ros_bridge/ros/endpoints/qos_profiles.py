"""QoS profiles of rclpy: from the plan, and from discovered publishers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from usd_ros_bridge.model.plan import QosPlan

_RELIABILITY = {
    "reliable": ReliabilityPolicy.RELIABLE,
    "best_effort": ReliabilityPolicy.BEST_EFFORT,
    "system_default": ReliabilityPolicy.SYSTEM_DEFAULT,
}
_DURABILITY = {
    "volatile": DurabilityPolicy.VOLATILE,
    "transient_local": DurabilityPolicy.TRANSIENT_LOCAL,
    "system_default": DurabilityPolicy.SYSTEM_DEFAULT,
}
_HISTORY = {
    "keep_last": HistoryPolicy.KEEP_LAST,
    "keep_all": HistoryPolicy.KEEP_ALL,
    "system_default": HistoryPolicy.SYSTEM_DEFAULT,
}

TF_QOS = QosPlan(reliability="reliable", durability="volatile", depth=100)
TF_STATIC_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=1)


def profile(qos: QosPlan) -> Any:
    """Return the rclpy QoSProfile of a plan."""
    return QoSProfile(
        reliability=_RELIABILITY[qos.reliability],
        durability=_DURABILITY[qos.durability],
        history=_HISTORY[qos.history],
        depth=max(1, int(qos.depth)),
    )


def permissive(qos: QosPlan) -> QosPlan:
    """Return what matches any publisher: best effort and volatile."""
    return replace(qos, reliability="best_effort", durability="volatile")


def matching(qos: QosPlan, offered: Iterable[Any]) -> QosPlan:
    """Return the strongest request that all discovered publishers satisfy (REP 0158 section 2.4, match_publisher).

    Args:
        qos: The subscription's own profile; its history and depth stay.
        offered: rclpy QoSProfile of each discovered publisher.
    """
    profiles = list(offered)
    if not profiles:
        return permissive(qos)
    reliable = all(each.reliability == ReliabilityPolicy.RELIABLE for each in profiles)
    latched = all(each.durability == DurabilityPolicy.TRANSIENT_LOCAL for each in profiles)
    return replace(
        qos,
        reliability="reliable" if reliable else "best_effort",
        durability="transient_local" if latched else "volatile",
    )
