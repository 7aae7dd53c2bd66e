"""Options of a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from usd_ros_bridge.runtime.inbox import DEFAULT_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """How a runtime runs.

    Attributes:
        backend_options: The backend's `key=value` options, as text.
        seed: Seed for anything random in the backend.
        queue_depth: Samples kept per subscription between two ticks; the newest win.
        controller_rate: Hz at which a loop ticks while controllers are busy (update_rate of controller_manager). A
            host's steps run them anyway.
    """

    backend_options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    queue_depth: int = DEFAULT_DEPTH
    controller_rate: float = 100.0
