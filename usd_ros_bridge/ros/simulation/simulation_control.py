"""Services of simulation time: state, reset and steps, through TimeControl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import ResetSimulation, SetSimulationState

from usd_ros_bridge.backends.base import Goal
from usd_ros_bridge.errors import BridgeError, GoalAbortedError
from usd_ros_bridge.ros.simulation.results import FAILED, UNSUPPORTED, RefusedError, result_of
from usd_ros_bridge.runtime.sim_time import TimeControl, TimeState

STATES: dict[TimeState, int] = {
    "stopped": SimulationState.STATE_STOPPED,
    "playing": SimulationState.STATE_PLAYING,
    "paused": SimulationState.STATE_PAUSED,
}
_ALREADY = int(SetSimulationState.Response.ALREADY_IN_TARGET_STATE)
_TIME, _STATE, _SPAWNED = (
    ResetSimulation.Request.SCOPE_TIME,
    ResetSimulation.Request.SCOPE_STATE,
    ResetSimulation.Request.SCOPE_SPAWNED,
)


class SimulationControl:
    """Answers requests about time; each method is one service and raises RefusedError where it cannot be met."""

    def __init__(
        self,
        time: TimeControl,
        *,
        forget: Callable[[], None],
        quit_process: Callable[[], bool],
        clear: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            time: Says whether time passes.
            forget: Called where everything goes back to the start, time included.
            quit_process: Has the process end soon; returns False where it is not the bridge's to end.
            clear: Takes out all that was spawned; None where nothing can be.
        """
        self._time = time
        self._clear = clear
        self._forget = forget
        self._quit_process = quit_process
        self._quitting = False

    async def get_simulation_state(self, _request: Any, response: Any) -> None:
        """Answer with the state of time."""
        state = SimulationState.STATE_QUITTING if self._quitting else STATES[self._time.state]
        response.state.state = state

    async def set_simulation_state(self, request: Any, _response: Any) -> None:
        """Resume, pause or stop time, or end the bridge."""
        wanted = request.state.state
        if wanted == SimulationState.STATE_QUITTING:
            self._quit()
            return
        if wanted not in STATES.values():
            raise RefusedError(UNSUPPORTED, f"simulation state {wanted} cannot be asked for")
        if wanted == STATES[self._time.state]:
            raise RefusedError(_ALREADY, f"the simulation is {self._time.state} already")
        if wanted == SimulationState.STATE_PLAYING:
            self._time.resume()
        elif wanted == SimulationState.STATE_PAUSED:
            self._time.pause()
        else:
            if self._clear is not None:
                await self._clear()
            await asyncio.wrap_future(self._time.stop())
            self._forget()

    async def reset_simulation(self, request: Any, _response: Any) -> None:
        """Reset time, or state, or both; the state of time stays as it is."""
        scope = request.scope or ResetSimulation.Request.SCOPE_ALL
        if not scope & (_TIME | _STATE | _SPAWNED):
            raise RefusedError(UNSUPPORTED, f"there is no reset of scope {scope}")
        if scope != ResetSimulation.Request.SCOPE_ALL and scope & _SPAWNED and self._clear is None:
            raise RefusedError(UNSUPPORTED, "nothing can be spawned: there is nothing to take away")
        if scope & _TIME and not scope & _STATE:
            raise RefusedError(UNSUPPORTED, "time alone cannot start over: with SCOPE_STATE it can")
        if scope & _SPAWNED and self._clear is not None:
            await self._clear()
        if not scope & _STATE:
            return
        await asyncio.wrap_future(self._time.reset(keep_time=not scope & _TIME))
        if scope & _TIME:
            self._forget()

    async def step_simulation(self, request: Any, _response: Any) -> None:
        """Step in a pause; answer when the steps are done."""
        if request.steps:
            await self._step(request.steps)
        else:
            self._check_paused()

    async def simulate_steps(self, goal: Goal) -> Any:
        """Execute a goal: step in a pause, with feedback after each step.

        Raises:
            GoalAbortedError: Time is not paused, or goes on meanwhile.
        """
        result, steps = SimulateSteps.Result(), int(goal.request.steps)
        done = 0
        try:
            self._check_paused()
            while done < steps:
                await self._step(1)
                done += 1
                goal.feedback(SimulateSteps.Feedback(completed_steps=done, remaining_steps=steps - done))
        except asyncio.CancelledError:
            if not goal.cancel_requested:
                raise
            result.result.result, result.result.error_message = (
                FAILED,
                f"canceled after {done} of {steps} steps",
            )
            return result
        except (RefusedError, BridgeError) as error:
            result.result.result, text = result_of(error)
            result.result.error_message = f"after {done} of {steps} steps: {text}"
            raise GoalAbortedError(text, result) from error
        result.result.result = Result.RESULT_OK
        return result

    # --- Own ---------------------------------------------------------------------------------------------------

    def _check_paused(self) -> None:
        if self._time.playing:
            raise RefusedError(FAILED, "the simulation is not paused: pause it to step")

    async def _step(self, steps: int) -> None:
        self._check_paused()
        await asyncio.wrap_future(self._time.step(steps))

    def _quit(self) -> None:
        if self._quitting:
            raise RefusedError(_ALREADY, "the simulation is quitting already")
        if not self._quit_process():
            raise RefusedError(
                FAILED, "the bridge runs inside another program, which is not the bridge's to end"
            )
        self._quitting = True
        self._time.pause()
