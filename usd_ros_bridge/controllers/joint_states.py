"""Joint state broadcasters: whether they are active is all there is to them, the publisher does the rest.

joint_state_broadcaster of ros2_controllers; RosControlJointStateBroadcasterAPI of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from usd_ros_bridge.controllers.protocol import ControllerContext
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, State


class JointStateBroadcasters:
    """All joint state broadcasters of a plan. The publisher of one that is inactive publishes nothing."""

    dynamic: ClassVar[frozenset[str]] = frozenset()
    busy = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Needs nothing."""

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:
        """Nothing to start or stop."""

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """None is dynamic."""

    def take(self, row: int, sample: object, *, time_ns: int) -> None:
        """Has no command topic."""

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Commands nothing."""

    def observe(self, state: State) -> None:
        """The publisher reads the state itself."""

    def reset(self) -> None:
        """Remembers nothing."""
