"""Servers of the package simulation_interfaces: state and steps of simulated time, entities, spawning, features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import simulation_interfaces.srv
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import Result, SimulationState, SimulatorFeatures
from simulation_interfaces.srv import ResetSimulation, SetSimulationState

from usd_ros_bridge.backends.base import EntityBackend, Goal
from usd_ros_bridge.errors import BridgeError, GoalAbortedError
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.message_types import simulation_type
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.action_server import ActionServer
from usd_ros_bridge.ros.endpoints.handlers import Bound, Handlers
from usd_ros_bridge.ros.endpoints.service import ServiceServer, make_built_in_server
from usd_ros_bridge.ros.endpoints.service_handlers import BUILT_IN, run_in_tick
from usd_ros_bridge.ros.simulation.entity_services import EntityServices, matching_names
from usd_ros_bridge.ros.simulation.results import (
    FAILED,
    UNSUPPORTED,
    Answer,
    RefusedError,
    answered,
    not_done,
    result_of,
)
from usd_ros_bridge.ros.simulation.spawn_services import SpawnServices
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.runtime import Runtime
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
    """Answer requests about time. Each method is one service; it raises RefusedError for what is not possible."""

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
            time: Control of simulated time.
            forget: Drop edits of entities; called when everything starts over, time included.
            quit_process: End the process soon. Return False if it is not the bridge's to end.
            clear: Delete all spawned entities; None if nothing can be spawned.
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
            await _until_done(self._time.stop())
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
        await _until_done(self._time.reset(keep_time=not scope & _TIME))
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
            GoalAbortedError: Time is not paused, or continues meanwhile.
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


TIMEOUT_S = 10.0


async def _until_done(future: Future[Any]) -> None:
    """Wait for what a tick does.

    Raises:
        RefusedError: There is no tick.
    """
    try:
        await asyncio.wait_for(asyncio.wrap_future(future), TIMEOUT_S)
    except asyncio.TimeoutError:
        raise RefusedError(FAILED, not_done(TIMEOUT_S)) from None


STEPS_ACTION = "simulate_steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """A service that is offered.

    Attributes:
        name: Relative to the node's namespace.
        type: Name of the type in simulation_interfaces.srv.
        answer: Fills in a response.
        features: What GetSimulatorFeatures lists for it.
        timeout: Seconds until the answer is that there is none, None for no limit.
    """

    name: str
    type: str
    answer: Answer
    features: tuple[str, ...] = ()
    timeout: float | None = TIMEOUT_S


class SimulationInterfaces:
    """Serve the standard services and the action in the default domain, in the node's namespace.

    Services that the installed release of simulation_interfaces or the backend does not have are left out.
    """

    def __init__(
        self,
        runtime: Runtime,
        time: TimeControl,
        domain: Domain,
        *,
        workers: Workers,
        handlers: Handlers,
        quit_process: Callable[[], bool],
        request_change: Callable[..., Future[ChangeReport]],
        spawn_roots: tuple[Path, ...],
    ) -> None:
        """Store the arguments.

        Args:
            runtime: Open; its backend owns time.
            time: Control of simulated time.
            domain: Domain of the servers.
            workers: Run requests.
            handlers: Handlers of the plan's interfaces.
            quit_process: End the process soon. Return False if it is not the bridge's to end.
            request_change: Change the plan to spawn something, as `ChangeCoordinator.request`.
            spawn_roots: Directories to spawn from, links resolved; none if nothing can be spawned.
        """
        self._runtime = runtime
        self._domain = domain
        self._workers = workers
        self._handlers = handlers
        self._report = runtime.reporter.report
        backend = runtime.backend
        self._entities = EntityServices(runtime, backend) if isinstance(backend, EntityBackend) else None
        forget = (lambda: None) if self._entities is None else self._entities.forget
        self._spawning = None
        if self._entities is not None and spawn_roots:
            self._spawning = SpawnServices(
                runtime, self._entities, roots=spawn_roots, request_change=request_change
            )
        clear = None if self._spawning is None else self._spawning.clear
        self._control = SimulationControl(time, forget=forget, quit_process=quit_process, clear=clear)
        self._may_change = runtime.options.remote_control == "all"
        offers = [*self._control_offers(), *self._entity_offers(), *self._spawn_offers()]
        self._offers = {
            offer.name: offer
            for offer in offers
            # Those whose name does not begin with "get" change something.
            if (self._may_change or offer.name.startswith("get_"))
            and hasattr(simulation_interfaces.srv, offer.type)
        }
        self._step_ns = time.step_ns
        self._servers: list[ServiceServer] = []
        self._action: ActionServer | None = None

    def update_entities(self) -> None:
        """Use the backend of the new plan, which is of the same kind and has other entities."""
        if self._entities is not None:
            assert isinstance(self._runtime.backend, EntityBackend)
            self._entities.set_backend(self._runtime.backend)

    def open(self) -> None:
        """Create the servers."""
        for offer in self._offers.values():
            # The time-out is that of the answer, which says so in a Result.
            server = make_built_in_server(
                offer.name,
                simulation_type("srv", offer.type),
                getattr(simulation_interfaces.srv, offer.type),
                self._domain,
                partial(self._handle, offer),
                workers=self._workers,
                report=self._report,
                timeout=None,
            )
            server.open()
            self._servers.append(server)
        if not self._may_change:
            return
        action = ActionPlan(
            path=STEPS_ACTION,
            role="server",
            name=STEPS_ACTION,
            type=simulation_type("action", "SimulateSteps"),
        )
        self._action = ActionServer(
            action,
            SimulateSteps,
            self._domain,
            self._report,
            handlers=self._handlers,
            workers=self._workers,
            backend=Bound(handler=self._control.simulate_steps, owner=BUILT_IN),
            goal_queue=lambda _path: None,
            time_ns=lambda: self._runtime.now_ns,
        )
        self._action.open()

    def close(self) -> None:
        """Destroy the servers. Idempotent."""
        # They hold methods of this object.
        self._offers = {}
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        action, self._action = self._action, None
        if action is not None:
            action.close()

    def status(self) -> list[InterfaceStatus]:
        """Return the status of each server."""
        rows = [server.status() for server in self._servers]
        return rows if self._action is None else [*rows, self._action.status()]

    def summary(self) -> str:
        """Return one line for a log."""
        namespace = self._domain.node.get_namespace()
        action = " and 1 action" if self._may_change else ""
        return f"simulation_interfaces: {len(self._offers)} services{action} in {namespace}"

    # --- Own ---------------------------------------------------------------------------------------------------

    async def _handle(self, offer: ServiceRow, request: Any, response: Any) -> Any:
        fault = await answered(offer.answer, request, response, timeout=offer.timeout)
        if fault is not None:
            self._report(
                f"service.error:{offer.name}", f"a request to {offer.name} failed: {describe(fault)}"
            )
        return response

    def _control_offers(self) -> list[ServiceRow]:
        control = self._control
        resets = ("SIMULATION_RESET", "SIMULATION_RESET_TIME", "SIMULATION_RESET_STATE")
        states = ("SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE")
        steps = ("STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE")
        return [
            _row("get_simulator_features", self._get_features),
            _row("get_simulation_state", control.get_simulation_state, "SIMULATION_STATE_GETTING"),
            # They delete what was spawned, which takes its time in a large world: a half of it would be wrong.
            _row("set_simulation_state", control.set_simulation_state, *states, timeout=None),
            _row("reset_simulation", control.reset_simulation, *resets, timeout=None),
            _row("step_simulation", control.step_simulation, *steps, timeout=None),
            _row("get_current_world", self._get_world, "WORLD_INFO_GETTING"),
        ]

    def _entity_offers(self) -> list[ServiceRow]:
        entities, in_tick = self._entities, self._in_tick
        if entities is None:
            return []
        get_all = partial(self._list, entities, entities.get_entities)
        get_states = partial(self._list, entities, entities.get_entities_states)
        return [
            _row("get_entities", get_all, "ENTITY_TAGS", "ENTITY_CATEGORIES", "ENTITY_BOUNDS_BOX"),
            _row("get_entities_states", get_states),
            _row("get_entity_state", in_tick(entities.get_entity_state), "ENTITY_STATE_GETTING"),
            _row("set_entity_state", in_tick(entities.set_entity_state), "ENTITY_STATE_SETTING"),
            _row("get_entity_info", in_tick(entities.get_entity_info), "ENTITY_INFO_GETTING"),
            _row("set_entity_info", in_tick(entities.set_entity_info), "ENTITY_INFO_SETTING"),
            _row("get_entity_bounds", in_tick(entities.get_entity_bounds), "ENTITY_BOUNDS"),
        ]

    def _spawn_offers(self) -> list[ServiceRow]:
        spawning = self._spawning
        if spawning is None:
            return []
        spawn, delete = spawning.spawn_entity, spawning.delete_entity
        return [
            _row("spawn_entity", spawn, "SPAWNING", "SIMULATION_RESET_SPAWNED", timeout=None),
            _row("delete_entity", delete, "DELETING", timeout=None),
            _row("get_spawnables", spawning.get_spawnables, "SPAWNABLES"),
        ]

    async def _list(
        self,
        entities: EntityServices,
        fill: Callable[[Any, Any, Set[str] | None], None],
        request: Any,
        response: Any,
    ) -> None:
        """Answer a request with filters. Names are matched in a thread of their own: the tick continues meanwhile."""
        named = None
        if request.filters.filter:
            table = await asyncio.wrap_future(run_in_tick(self._runtime, lambda: entities.table))
            named = await asyncio.to_thread(matching_names, request.filters.filter, table)
        await asyncio.wrap_future(run_in_tick(self._runtime, partial(fill, request, response, named)))

    def _in_tick(self, method: Callable[[Any, Any], None]) -> Answer:
        async def answer(request: Any, response: Any) -> None:
            await asyncio.wrap_future(run_in_tick(self._runtime, partial(method, request, response)))

        return answer

    async def _get_features(self, _request: Any, response: Any) -> None:
        names = [name for offer in self._offers.values() for name in offer.features]
        if self._may_change:
            names.append("STEP_SIMULATION_ACTION")
        # Older releases know fewer of them.
        response.features.features = sorted(
            getattr(SimulatorFeatures, name) for name in names if hasattr(SimulatorFeatures, name)
        )
        response.features.spawn_formats = ["usd"] if "spawn_entity" in self._offers else []
        backend = type(self._runtime.backend).__name__
        response.features.custom_info = f"usd_ros_bridge, {backend}, steps of {self._step_ns * 1e-9:.6g} s"

    async def _get_world(self, _request: Any, response: Any) -> None:
        plan: BridgePlan = self._runtime.plan
        world = response.world
        # In 2.0 alone it has another name.
        resource = world.world_resource if hasattr(world, "world_resource") else world.level_resource
        world.name, resource.uri = PurePath(plan.asset).stem, plan.asset
        world.description = f"{len(plan.robots)} robots"


def _row(name: str, answer: Answer, *features: str, timeout: float | None = TIMEOUT_S) -> ServiceRow:
    """Return the row of a service whose type has its name, as those of simulation_interfaces have."""
    type_name = name.title().replace("_", "")
    return ServiceRow(name=name, type=type_name, answer=answer, features=features, timeout=timeout)
