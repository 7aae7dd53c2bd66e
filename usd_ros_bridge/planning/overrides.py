"""Overrides: interfaces that the caller switches on or off, and rates that replace authored ones, by prim path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.diagnostic_collector import DiagnosticCollector
from usd_ros_bridge.planning.interfaces import SWITCHED_OFF, InterfaceDraft
from usd_ros_bridge.ranges import RATE

_RATE: Final = "ros:topic:publish_rate"


def with_rates(records: StageRecords, options: PlanOptions) -> StageRecords:
    """Return records in which publishers have the rates that the caller wants, where those can be."""
    rates = {path: rate for path, rate in options.rates.items() if rate in RATE}
    if not rates:
        return records
    topics = [
        # Whatever is wrong with the authored rate does not matter any more.
        replace(
            topic,
            publish_rate=rates[topic.path],
            invalid=tuple(name for name in topic.invalid if name != _RATE),
        )
        if topic.path in rates and topic.role == "publisher"
        else topic
        for topic in records.topics
    ]
    return replace(records, topics=tuple(topics))


def overridden(drafts: Sequence[InterfaceDraft], options: PlanOptions) -> list[InterfaceDraft]:
    """Return interfaces, on or off and at the rates that the caller wants; faulty ones as they are."""
    if not (options.enabled or options.rates):
        return list(drafts)
    return [_overridden(draft, options) for draft in drafts]


def _overridden(draft: InterfaceDraft, options: PlanOptions) -> InterfaceDraft:
    rate, wanted = options.rates.get(draft.path), options.enabled.get(draft.path)
    if draft.publish_rate is not None and rate is not None and rate in RATE:
        draft = replace(draft, publish_rate=rate)
    if wanted is not None and draft.is_switchable:
        draft = replace(draft, reason="" if wanted else SWITCHED_OFF)
    return draft


def check_overrides(
    drafts: Iterable[InterfaceDraft], options: PlanOptions, findings: DiagnosticCollector
) -> None:
    """Report overrides that mean nothing here."""
    if not (options.enabled or options.rates):
        return
    roles: dict[str, set[str]] = {}
    for draft in drafts:
        roles.setdefault(draft.path, set()).add(draft.role)
    for path in options.enabled:
        if path not in roles:
            findings.warning(
                "2.3.enabled",
                path,
                "enabled is set for this path, where there is no interface",
                "name the prim of an interface",
            )
    for path, rate in options.rates.items():
        if "publisher" not in roles.get(path, ()):
            findings.warning(
                "2.4.rate",
                path,
                "a rate is set for this path, where there is no publisher",
                "name the prim of a publisher",
            )
        elif rate not in RATE:
            findings.warning(
                "2.4.rate",
                path,
                f"the rate {quoted(rate)} is not in {RATE}; the authored one counts",
                f"give a rate of {RATE}",
            )
