"""The side of a runtime that follows from its plan: it is another one after a change."""

from __future__ import annotations

from usd_ros_bridge.backends.protocol import Backend, BackendInput, Capabilities
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.runtime.controllers import Controllers
from usd_ros_bridge.runtime.frames import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.parts import RuntimeParts
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.stepper import Stepper


class Planned:
    """What there is of a plan and its backend. It changes between two ticks only.

    Attributes:
        plan: The plan that is live.
        backend: What moves its robots.
        inputs: The topics that the backend needs.
        kinematics: The plan's; once open.
    """

    kinematics: Kinematics
    _stepper: Stepper
    _commands: Commands

    def __init__(self, plan: BridgePlan, backend: Backend) -> None:
        """Has nothing but a plan, and a backend that is not open yet."""
        self.plan = plan
        self.backend = backend
        self.inputs: tuple[BackendInput, ...] = ()
        self._parts: RuntimeParts | None = None
        self._snapshot: Snapshot | None = None
        # Controllers where there are any, for a tick to look at.
        self._present: Controllers | None = None

    def _adopt(self, parts: RuntimeParts) -> None:
        """Goes on with what follows from another plan."""
        self._parts = parts
        self.plan, self.backend, self.inputs = parts.plan, parts.backend, parts.inputs
        self.kinematics = parts.kinematics
        self._stepper, self._commands = parts.stepper, parts.stepper.commands
        self._present = parts.controllers if parts.controllers.present else None
        self._snapshot = parts.snapshot

    @property
    def parts(self) -> RuntimeParts:
        """What follows from the plan; once open."""
        assert self._parts is not None, "the runtime is not open"
        return self._parts

    @property
    def capabilities(self) -> Capabilities:
        """What the open backend can do."""
        return self.backend.capabilities

    @property
    def commands(self) -> Commands:
        """What the backend is told in the next step. Ask for it in each tick: who asks is taken to write."""
        self._commands.silent = False
        return self._commands

    @property
    def frames(self) -> FrameTable:
        """The frames of all robots; once open."""
        return self.parts.frames

    @property
    def controllers(self) -> Controllers:
        """The controllers; once open."""
        return self.parts.controllers

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the last tick that was not passed by; once open. Its state is there after the first tick."""
        assert self._snapshot is not None, "the runtime is not open"
        return self._snapshot
