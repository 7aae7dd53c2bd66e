"""Simulations that diverge: who was first, and what follows."""

from __future__ import annotations

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.options import Divergence
from usd_ros_bridge.backends.mujoco.simulation import MAX_SPEED, Simulation
from usd_ros_bridge.backends.protocol import Report

_LOOKS_AT_WARNINGS_EVERY = 256


class Watch:
    """Looks at every interval: a simulation that leaves the realm of numbers is put back and said so.

    Attributes:
        held: Whether the last good state is held, until a reset.
    """

    def __init__(self, simulation: Simulation, on_divergence: Divergence, report: Report) -> None:
        """Takes an open simulation."""
        self._simulation, self._mode, self._report = simulation, on_divergence, report
        self._start = simulation.save()
        self._intervals = 0
        self.held = False

    def begin(self) -> None:
        """Notes the state that an interval starts from."""
        self._start = self._simulation.save()

    def end(self, count: int) -> bool:
        """Looks at the state after an interval.

        Args:
            count: Steps in it.

        Returns:
            Whether the simulation had to be put back: to rest, or to the start of the interval.
        """
        simulation = self._simulation
        self._intervals += 1
        if self._intervals % _LOOKS_AT_WARNINGS_EVERY == 0 and simulation.overfull:
            self._report("mujoco.memory", "MuJoCo's memory for contacts is full: some contacts are left out")
        if simulation.healthy:
            return False
        time_ns = simulation.time_ns
        who = self._find(count)
        if self._mode == "hold":
            simulation.restore(self._start)
            simulation.data.qvel[:] = 0.0
            simulation.refresh()
            self.held = True
            follows = "the last good state is held until a reset"
        else:
            simulation.reset()
            follows = "back to the state at rest"
        simulation.time_ns = time_ns
        self._report(
            "mujoco.diverged", f"the simulation diverged at {time_ns * 1e-9:.3f} s, {who}: {follows}"
        )
        return True

    def reset(self) -> None:
        """Lets a held state go."""
        self.held = False

    def _find(self, count: int) -> str:
        """Goes through the interval again, step by step, to find what was the first to run away."""
        simulation = self._simulation
        simulation.restore(self._start)
        for _ in range(count):
            if not simulation.healthy:
                break
            simulation.step(1)
        model, speed = simulation.model, np.abs(simulation.data.qvel)
        if not speed.size:
            return "nothing moves"
        # The first NaN if there is one, which argmax takes for the greatest of all.
        dof = int(np.argmax(speed))
        joint = int(model.dof_jntid[dof])
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        found = model.body(int(model.jnt_bodyid[joint])) if free else model.joint(joint)
        value = f"{speed[dof]:.3g}" if speed[dof] <= np.inf else "NaN"
        kind = "body" if free else "joint"
        return f"{kind} {found.name} first: its speed is {value} ({MAX_SPEED:.0e} is too much)"
