"""A difference of two plans as JSON: what `usd_ros_bridge diff --json` prints."""

from __future__ import annotations

from typing import Any

from usd_ros_bridge.model.difference import CHANGE_MARKS, PlanDifference


def difference_to_json(found: PlanDifference) -> dict[str, Any]:
    """Returns the difference as values that `json.dumps` takes with `allow_nan=False`; nothing is null that exists."""
    return {
        **{change: len(found.of(change)) for change in CHANGE_MARKS},
        "items": [
            {
                "kind": item.kind,
                "change": item.change,
                "label": item.label,
                "name": item.name,
                "path": item.path,
                "robot": item.robot,
                "detail": item.detail,
                "fields": [
                    {"field": field.field, "old": field.old, "new": field.new} for field in item.fields
                ],
            }
            for item in found
        ],
    }
