"""The null backend: holds the state that the asset authors, plays its animations, and takes no commands."""

from __future__ import annotations

from usd_ros_bridge.backends.protocol import BackendContext, BackendInput, Capabilities
from usd_ros_bridge.backends.rest import rest_state
from usd_ros_bridge.backends.settings import parse_settings
from usd_ros_bridge.backends.timeline import AnimatedRows
from usd_ros_bridge.model.state import Commands, State


class NullBackend:
    """Shows an asset as it is authored, at the time it is asked for."""

    capabilities = Capabilities(commands=False, every_step=False)

    def __init__(self) -> None:
        self._state: State | None = None
        self._animated: AnimatedRows | None = None

    def open(self, context: BackendContext) -> None:
        """Takes the state at rest from the plan."""
        parse_settings("null", context.options, {})
        self._state = rest_state(context.plan)
        self._animated = AnimatedRows(context.plan)

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - commands nothing heeds
        """Returns the state at rest with the time asked for."""
        assert self._state is not None, "the backend is not open"
        self._state.time_ns = time_ns
        assert self._animated is not None
        self._animated.show_at(self._state, time_ns)
        return self._state

    def reset(self) -> None:
        """Starts animations over; all else is at rest."""
        if self._animated is not None:
            self._animated.reset()

    def close(self) -> None:
        """Lets the state go."""
        self._state = self._animated = None

    def successor(self) -> NullBackend:
        """Returns another one, not open yet."""
        return NullBackend()

    def take_over(self, other: NullBackend) -> None:
        """Goes on with animations; else what the asset says now is what is shown."""
        assert self._animated is not None, "the backend is not open"
        assert other._animated is not None, "the other backend is not open"
        self._animated.take_over(other._animated)
