"""Status of a running bridge at one moment: the rows of the live view. Data only; no rclpy here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import InterfaceKind, QosPlan, RobotPlan
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.runtime.sim_time import TimeState

InterfaceState = Literal["active", "idle", "silent", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceStatus:
    """One interface.

    Attributes:
        kind: `topic`, `service` or `action`.
        role: `publisher`, `subscription`, `server` or `client`.
        path: Prim path; "" for what the backend or the bridge itself needs.
        name: Resolved name, remaps applied.
        type: Interface type.
        domain_id: DDS domain, None where the interface was not created and has none of its own.
        authored_rate: Hz, None for what has no rate.
        achieved_rate: Hz lately: of bridge time for publishers, of wall time for subscriptions and services.
        matched: How many peers the middleware has connected: subscribers, publishers, clients or servers.
        count: Messages sent or received, requests or goals answered.
        errors: How many of them failed.
        last_error: What was wrong with the last one, in one line; "" where that is not known.
        dropped: Messages that arrived and nothing took; periods of a publisher that passed without a tick or a message.
        state: `active` (data flows), `idle` (would flow), `silent` (nothing here feeds or uses it) or `disabled`.
        reason: Why it is silent, disabled or, as a publisher without subscribers or of an inactive controller, idle,
            else "".
        served_by: Who answers, takes messages or makes them: `embedder`, `package NAME`, `backend`, `built-in` or a
            controller's prim path; "" where nobody does, and for topics that carry what the plan says.
        qos: Quality of service of a topic, None for services and actions.
    """

    kind: InterfaceKind
    role: str
    path: str
    name: str
    type: str
    domain_id: int | None = None
    authored_rate: float | None = None
    achieved_rate: float = 0.0
    matched: int = 0
    count: int = 0
    errors: int = 0
    last_error: str = ""
    dropped: int = 0
    state: InterfaceState
    reason: str = ""
    served_by: str = ""
    qos: QosPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStatus:
    """How time passes that the bridge owns.

    Attributes:
        state: Whether it passes by itself.
        real_time_factor: Seconds of it that are to pass in a second; 0 for as many as possible.
        achieved_factor: How many do, None where that is not known yet or time stands still.
    """

    state: TimeState
    real_time_factor: float
    achieved_factor: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeStatus:
    """A running bridge.

    Attributes:
        asset: As the caller named it.
        backend: Name of the backend.
        time_ns: Bridge time of the last tick, None before the first.
        ticks: Ticks so far.
        tick_seconds: Mean wall time of recent ticks.
        backend_errors: Ticks in which the backend raised.
        interfaces: In the plan's order, then what the backend listens to, then the TF topics, then robot descriptions,
            then /clock and the services that control time, where the backend owns it.
        moving_frames: Frames on /tf.
        static_frames: Frames on /tf_static.
        robots: The plan's robots, with their frames.
        diagnostics: What is wrong with the asset.
        reports: What went wrong at run time, each kind once, with a count.
        time: How time passes where the backend owns it, else None.
    """

    asset: str
    backend: str
    time_ns: int | None
    ticks: int
    tick_seconds: float
    backend_errors: int
    interfaces: tuple[InterfaceStatus, ...]
    moving_frames: int
    static_frames: int
    robots: tuple[RobotPlan, ...]
    diagnostics: tuple[Diagnostic, ...]
    reports: tuple[Reported, ...]
    time: TimeStatus | None = None
