"""usd_ros_bridge: OpenUSD robots as live ROS 2 interfaces (REP 0158).

The names below are the public surface. They are loaded when first used, so that importing the package costs nothing
and needs neither OpenUSD nor ROS.
"""

from __future__ import annotations

TYPE_CHECKING = False  # That of typing, whose import takes longer than all of this.
if TYPE_CHECKING:
    from typing import Any

    from usd_ros_bridge.api import add_physics as add_physics
    from usd_ros_bridge.api import load_plan as load_plan
    from usd_ros_bridge.backends.array import ArrayBackend as ArrayBackend
    from usd_ros_bridge.backends.host_arrays import rows_of as rows_of
    from usd_ros_bridge.backends.protocol import ActionBackend as ActionBackend
    from usd_ros_bridge.backends.protocol import Backend as Backend
    from usd_ros_bridge.backends.protocol import BackendContext as BackendContext
    from usd_ros_bridge.backends.protocol import BackendInput as BackendInput
    from usd_ros_bridge.backends.protocol import Capabilities as Capabilities
    from usd_ros_bridge.backends.protocol import EntityBackend as EntityBackend
    from usd_ros_bridge.backends.protocol import EntityState as EntityState
    from usd_ros_bridge.backends.protocol import Goal as Goal
    from usd_ros_bridge.backends.protocol import SensorBackend as SensorBackend
    from usd_ros_bridge.backends.protocol import ServiceBackend as ServiceBackend
    from usd_ros_bridge.backends.protocol import SuccessorBackend as SuccessorBackend
    from usd_ros_bridge.model.diagnostics import Diagnostic as Diagnostic
    from usd_ros_bridge.model.errors import BridgeError as BridgeError
    from usd_ros_bridge.model.errors import CallTimeoutError as CallTimeoutError
    from usd_ros_bridge.model.errors import GoalAbortedError as GoalAbortedError
    from usd_ros_bridge.model.options import PlanOptions as PlanOptions
    from usd_ros_bridge.model.options import ReadOptions as ReadOptions
    from usd_ros_bridge.model.options import VariantSelection as VariantSelection
    from usd_ros_bridge.model.plan import BridgePlan as BridgePlan
    from usd_ros_bridge.model.state import Commands as Commands
    from usd_ros_bridge.model.state import Layout as Layout
    from usd_ros_bridge.model.state import SensorSample as SensorSample
    from usd_ros_bridge.model.state import State as State
    from usd_ros_bridge.ros.bridge import Bridge as Bridge
    from usd_ros_bridge.ros.calls import Call as Call
    from usd_ros_bridge.ros.handlers import Binding as Binding
    from usd_ros_bridge.ros.handlers import HandlerRegistry as HandlerRegistry
    from usd_ros_bridge.ros.transport import use_large_message_transport as use_large_message_transport
    from usd_ros_bridge.runtime.time_control import TimeControl as TimeControl
    from usd_ros_bridge.runtime.time_control import TimeOptions as TimeOptions

__version__ = "0.1.0"

_HOMES = {
    "ActionBackend": "backends.protocol",
    "ArrayBackend": "backends.array",
    "Backend": "backends.protocol",
    "BackendContext": "backends.protocol",
    "BackendInput": "backends.protocol",
    "Binding": "ros.handlers",
    "Bridge": "ros.bridge",
    "BridgeError": "model.errors",
    "BridgePlan": "model.plan",
    "Call": "ros.calls",
    "CallTimeoutError": "model.errors",
    "Capabilities": "backends.protocol",
    "Commands": "model.state",
    "Diagnostic": "model.diagnostics",
    "EntityBackend": "backends.protocol",
    "EntityState": "backends.protocol",
    "Goal": "backends.protocol",
    "GoalAbortedError": "model.errors",
    "HandlerRegistry": "ros.handlers",
    "Layout": "model.state",
    "PlanOptions": "model.options",
    "ReadOptions": "model.options",
    "SensorBackend": "backends.protocol",
    "SensorSample": "model.state",
    "ServiceBackend": "backends.protocol",
    "State": "model.state",
    "SuccessorBackend": "backends.protocol",
    "TimeControl": "runtime.time_control",
    "TimeOptions": "runtime.time_control",
    "VariantSelection": "model.options",
    "add_physics": "api",
    "load_plan": "api",
    "rows_of": "backends.host_arrays",
    "use_large_message_transport": "ros.transport",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
