"""Whether the standard simulation interfaces are offered: where their package is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.simulation.spawn_options import Succession
from usd_ros_bridge.ros.types import AmentCatalog
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.time_control import TimeControl

if TYPE_CHECKING:
    from usd_ros_bridge.ros.simulation.servers import SimulationInterfaces

FIRST = "simulation_interfaces/srv/GetSimulatorFeatures"
"""What every simulator that follows the standard serves."""


def offer_simulation(
    runtime: GuardedRuntime,
    time: TimeControl,
    domain: Domain,
    *,
    workers: Workers,
    handlers: Handlers,
    quit_process: Callable[[], bool],
    inform: Report,
    succession: Succession | None = None,
) -> SimulationInterfaces | None:
    """Returns the standard interfaces, to be opened; None, and one line says so, where their package is missing.

    Args:
        runtime: Open; its backend owns time.
        time: Says whether time passes.
        domain: Where to serve.
        workers: Where requests wait.
        handlers: What is bound to interfaces of the plan.
        quit_process: Has the process end soon; returns False where it is not the bridge's to end.
        inform: Told what is offered, or why nothing is.
        succession: How entities are spawned; None where they cannot be.
    """
    if runtime.remote_control == "none":
        return None
    if not AmentCatalog().contains(FIRST):
        inform(
            "simulation_interfaces",
            "simulation_interfaces is not installed, so its services are not offered "
            "(apt install ros-$ROS_DISTRO-simulation-interfaces)",
        )
        return None
    from usd_ros_bridge.ros.simulation.servers import SimulationInterfaces

    offered = SimulationInterfaces(
        runtime,
        time,
        domain,
        workers=workers,
        handlers=handlers,
        quit_process=quit_process,
        succession=succession,
    )
    inform("simulation_interfaces", offered.summary())
    return offered
