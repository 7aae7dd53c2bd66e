"""Quality of service, resolved (REP 0158 section 2.4, REP 2003)."""

from __future__ import annotations

from typing import Literal, cast

from usd_ros_bridge.errors import one_of, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import message_type
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.model.records import TopicRecord, fallback
from usd_ros_bridge.options import SystemDefaultQos

MAX_DEPTH = 10_000

MATCHED = ("reliability", "durability")
"""Policies that match_publisher takes from the publisher: what is authored does not count."""

_VALUES = {
    "reliability": ("system_default", "reliable", "best_effort"),
    "durability": ("system_default", "transient_local", "volatile"),
    "history": ("system_default", "keep_last", "keep_all"),
}


def resolve_qos(
    record: TopicRecord, type_name: str, name: str, policy: SystemDefaultQos, findings: DiagnosticCollector
) -> tuple[QosPlan, str]:
    """Return the quality of service of a topic, and why it cannot be used, "" where it can.

    Args:
        record: The topic as authored.
        type_name: Message type, which decides what system_default means.
        name: Resolved name.
        policy: Whether system_default is resolved here or left to the middleware.
        findings: Takes unknown tokens and impossible depths.
    """
    reason = ""
    match = bool(fallback(record, "match_publisher"))
    tokens = {field: fallback(record, field) for field in _VALUES}
    for field, values in _VALUES.items():
        token = tokens[field]
        if token not in values and match and record.role == "subscription" and field in MATCHED:
            tokens[field] = "system_default"
            findings.warning(
                "2.4.qos.match_publisher",
                record.path,
                f"the {field} {quoted(token)} is unknown; match_publisher is true and takes the publisher's",
                f"leave it out, or {one_of(str(token), values)}",
                attribute=f"ros:topic:qos:{field}",
            )
        elif token not in values:
            reason = f"the {field} {quoted(token)} is unknown"
            findings.error(
                f"2.4.qos.{field}",
                record.path,
                reason,
                one_of(str(token), values),
                attribute=f"ros:topic:qos:{field}",
            )
    depth = fallback(record, "depth")
    history = tokens["history"]
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
    if match and record.role == "publisher":
        findings.warning(
            "2.4.qos.match_publisher",
            record.path,
            "match_publisher is for subscriptions; it is ignored",
            "author reliability and durability",
            attribute="ros:topic:qos:match_publisher",
        )
        match = False
    reliability, durability = tokens["reliability"], tokens["durability"]
    if policy == "resolved":
        reliability = _default(
            reliability, "best_effort" if message_type(type_name).best_effort else "reliable"
        )
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
    meaning = message_type(type_name)
    return meaning.latched or (bool(meaning.latched_name) and meaning.latched_name == name.rpartition("/")[2])
