"""Quality of service, resolved (REP 0158 section 2.4, REP 2003)."""

from __future__ import annotations

from typing import Literal, cast

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.options import SystemDefaultQos
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.model.records import TopicRecord, fallback
from usd_ros_bridge.planning.findings import Findings

MAX_DEPTH = 10_000

STREAMING = frozenset(
    f"sensor_msgs/msg/{name}"
    for name in (
        "Image",
        "CompressedImage",
        "CameraInfo",
        "PointCloud2",
        "LaserScan",
        "MultiEchoLaserScan",
        "Imu",
        "Range",
        "MagneticField",
        "FluidPressure",
        "Temperature",
        "RelativeHumidity",
        "Illuminance",
        "NavSatFix",
    )
)
"""Types whose system_default reliability is best effort, in both roles."""

LATCHED = frozenset({"nav_msgs/msg/OccupancyGrid"})
"""Types whose system_default durability is transient local."""

_DESCRIPTION = "robot_description"

_VALUES = {
    "reliability": ("system_default", "reliable", "best_effort"),
    "durability": ("system_default", "transient_local", "volatile"),
    "history": ("system_default", "keep_last", "keep_all"),
}


def resolve_qos(
    record: TopicRecord, type_name: str, name: str, policy: SystemDefaultQos, findings: Findings
) -> tuple[QosPlan, str]:
    """Returns the quality of service of a topic, and why it cannot be used, "" where it can.

    Args:
        record: The topic as authored.
        type_name: Message type, which decides what system_default means.
        name: Resolved name.
        policy: Whether system_default is resolved here or left to the middleware.
        findings: Takes unknown tokens and impossible depths.
    """
    reason = ""
    for field, values in _VALUES.items():
        token = fallback(record, field)
        if token not in values:
            reason = f"the {field} {quoted(token)} is unknown"
            findings.error(
                f"2.4.qos.{field}",
                record.path,
                reason,
                f"use one of {', '.join(values)}",
                attribute=f"ros:topic:qos:{field}",
            )
    depth = fallback(record, "depth")
    history = fallback(record, "history")
    if history != "keep_all" and not 1 <= depth <= MAX_DEPTH:
        reason = f"the depth {quoted(depth)} is not in 1 to {MAX_DEPTH}"
        findings.error(
            "2.4.qos.depth",
            record.path,
            reason,
            "author the size of the queue",
            attribute="ros:topic:qos:depth",
        )
    if reason:
        return QosPlan(), reason
    match = bool(fallback(record, "match_publisher"))
    if match and record.role == "publisher":
        findings.warning(
            "2.4.qos.match_publisher",
            record.path,
            "match_publisher is for subscriptions; it is ignored",
            "author reliability and durability",
            attribute="ros:topic:qos:match_publisher",
        )
        match = False
    reliability, durability = fallback(record, "reliability"), fallback(record, "durability")
    if policy == "resolved":
        reliability = _default(reliability, "best_effort" if type_name in STREAMING else "reliable")
        durability = _default(durability, "transient_local" if _is_latched(type_name, name) else "volatile")
        history = _default(history, "keep_last")
    return QosPlan(
        reliability=cast(Literal["reliable", "best_effort", "system_default"], reliability),
        durability=cast(Literal["volatile", "transient_local", "system_default"], durability),
        history=cast(Literal["keep_last", "keep_all", "system_default"], history),
        depth=depth if 1 <= depth <= MAX_DEPTH else 10,
        match_publisher=match,
    ), ""


def _default(authored: str, resolved: str) -> str:
    return resolved if authored == "system_default" else authored


def _is_latched(type_name: str, name: str) -> bool:
    if type_name == "std_msgs/msg/String":
        return name.rpartition("/")[2] == _DESCRIPTION
    return type_name in LATCHED
