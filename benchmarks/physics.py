"""Physics: what a step of MuJoCo costs through the backend, beside a bare `mj_step` of the same model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np

from benchmarks.harness import ROOT, Options, Result, Target, interleaved, median_result
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands

ARM = ROOT / "examples" / "arm" / "arm.usda"
WORLD = ROOT / "examples" / "rover" / "world.usda"
STEPS = {"arm": Target(60_000.0, "at least"), "rover": Target(28_000.0, "at least")}
OVERHEAD, COMMANDED = Target(15.0), Target(8.0)
BULK = 50
"""Steps in one call: a tick of 100 ms at 2 ms a step."""
_SETTLING = 500


class Simulated:
    """An asset in an open backend, and the same model bare."""

    def __init__(self, plan: BridgePlan, velocity: float) -> None:
        """Opens the backend and lets it settle.

        Args:
            plan: With physics.
            velocity: What all joints without a limit are commanded, rad/s: a rover that drives has wheels that slip.
        """
        self.backend = MujocoBackend()
        self.backend.open(BackendContext(plan=plan, report=lambda _kind, _message: None))
        self._step_ns = self.backend.capabilities.step_ns
        self._time_ns = 0
        self._silent = Commands(plan.layout)
        self._silent.silent = True
        self._commands = Commands(plan.layout)
        self._position = plan.layout.joint_position.copy()
        turning = ~np.isfinite(plan.layout.upper - plan.layout.lower)
        self._commands.joint_velocity[turning] = velocity
        self.one_by_one(self._commands)
        for _ in range(_SETTLING):
            self.one_by_one()
        self._model: Any = self.backend.simulation.model
        self._data = mujoco.MjData(self._model)
        kept = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(self._model, kept))
        mujoco.mj_getState(self._model, self.backend.simulation.data, state, kept)
        mujoco.mj_setState(self._model, self._data, state, kept)

    def one_by_one(self, commands: Commands | None = None) -> None:
        """One step in a call, nothing commanded."""
        self._time_ns += self._step_ns
        self.backend.step(self._time_ns, commands or self._silent)

    def commanded(self) -> None:
        """One step in a call with a target for every joint, as a trajectory gives, and velocities held."""
        self._commands.clear()
        self._commands.joint_position[:] = self._position
        self.one_by_one(self._commands)

    def in_bulk(self) -> None:
        """Many steps in a call."""
        self._time_ns += BULK * self._step_ns
        self.backend.step(self._time_ns, self._silent)

    def bare(self) -> None:
        """One `mj_step`, of a state that nobody reads."""
        mujoco.mj_step(self._model, self._data)

    def close(self) -> None:
        """Closes the backend."""
        self.backend.close()


def run(options: Options) -> Iterator[Result]:
    """Yields steps per second of the arm and of the rover in its world, and what the backend adds to one."""
    for name, asset, velocity in (("arm", ARM, 0.0), ("rover", WORLD, 3.0)):
        simulated = Simulated(load_plan(asset, physics=True), velocity)
        calls: tuple[Callable[[], None], ...] = (
            simulated.one_by_one,
            simulated.bare,
            simulated.in_bulk,
            simulated.commanded,
        )
        runs = [list(values) for values in interleaved(calls, options)]
        simulated.close()
        yield from _results(name, runs)


def _results(name: str, runs: list[list[float]]) -> Iterator[Result]:
    yield median_result(
        f"physics.{name}.steps",
        [1.0 / values[0] for values in runs],
        "/s",
        target=STEPS[name],
        compared_with="one step in each call of Backend.step, its state read, nothing commanded or published",
    )
    yield median_result(
        f"physics.{name}.overhead",
        [(values[0] - values[1]) * 1e6 for values in runs],
        "us",
        target=OVERHEAD,
        compared_with="that less a bare mj_step of the same model, run by run",
    )
    yield median_result(
        f"physics.{name}.overhead_commanded",
        [(values[3] - values[1]) * 1e6 for values in runs],
        "us",
        target=COMMANDED,
        compared_with="the same with a position target for every joint in each step",
    )
    yield median_result(
        f"physics.{name}.bulk",
        [BULK / values[2] for values in runs],
        "/s",
        compared_with=f"{BULK} steps in each call, as between two ticks of the bridge",
    )
    yield median_result(
        f"physics.{name}.bare", [1.0 / values[1] for values in runs], "/s", compared_with="a bare mj_step"
    )
