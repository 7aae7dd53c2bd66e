"""The null backend: hold the authored state and play animations; ignore commands."""

from __future__ import annotations

from usd_ros_bridge.backends.base import BackendContext, Capabilities, InputlessBackend, parse_options
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.model.state import Commands, State


class NullBackend(InputlessBackend):
    """Hold the authored state of an asset."""

    capabilities = Capabilities(commands=False, every_step=False)

    def __init__(self) -> None:
        self._state: State | None = None
        self._animated: AnimatedBodies | None = None

    def open(self, context: BackendContext) -> None:
        """Make the initial state of the plan."""
        parse_options("null", context.options, {})
        self._state = State.initial(context.plan.layout)
        self._animated = AnimatedBodies(context.plan)

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - ignored
        """Return the initial state at `time_ns`, with animations."""
        assert self._state is not None, "the backend is not open"
        self._state.time_ns = time_ns
        assert self._animated is not None
        self._animated.update(self._state, time_ns)
        return self._state

    def reset(self) -> None:
        """Start animations over."""
        if self._animated is not None:
            self._animated.reset()

    def close(self) -> None:
        """Free the state."""
        self._state = self._animated = None

    def new_instance(self) -> NullBackend:
        """Return another backend, not open."""
        return NullBackend()

    def transfer_state(self, old: NullBackend) -> None:
        """Continue the animations of another backend; everything else is as the asset authors it now."""
        assert self._animated is not None, "the backend is not open"
        assert old._animated is not None, "the old backend is not open"
        self._animated.transfer_state(old._animated)
