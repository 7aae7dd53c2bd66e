"""A service `home` (std_srvs/srv/Trigger) of any robot: move all joints to position 0, then answer."""

import asyncio
from typing import Any

from usd_ros_bridge import BridgeError, HandlerRegistry

USD_ROS_BRIDGE_PROTOCOL = 1
TOLERANCE = 0.02
"""rad or m."""


def bind(handlers: HandlerRegistry) -> None:
    """Serve all services whose name ends with `home`. Called once for each bridge."""

    @handlers.on_service("home", timeout=30.0)
    async def home(_: Any, response: Any) -> None:
        targets = dict.fromkeys(handlers.plan.layout.dofs, 0.0)
        try:
            handlers.commands.set_position(targets)
        except BridgeError as error:
            response.success, response.message = False, str(error)
            return
        while max(abs(handlers.state.position(name)) for name in targets) > TOLERANCE:
            await asyncio.sleep(0.01)
        response.success = True
        response.message = f"at home at {handlers.clock.now_ns * 1e-9:.3f} s"
