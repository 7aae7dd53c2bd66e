"""Joint state broadcasters: their publishers send while they are active; they command nothing.

joint_state_broadcaster of ros2_controllers; RosControlJointStateBroadcasterAPI of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from usd_ros_bridge.controllers.base import ControllerContext
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, State


class JointStateBroadcasters:
    """All joint state broadcasters of a plan. The publisher of one that is inactive publishes nothing."""

    dynamic: ClassVar[frozenset[str]] = frozenset()
    busy = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Do nothing: the publisher reads the state."""

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:
        """Do nothing: there is nothing to start or stop."""

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Do nothing: no parameter is dynamic."""

    def take(self, row: int, sample: object, *, time_ns: int) -> None:
        """Do nothing: there is no command topic."""

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Command nothing."""

    def observe(self, state: State) -> None:
        """The publisher reads the state itself."""

    def reset(self) -> None:
        """Remember nothing."""
