"""The servers of the standard simulation interfaces: which there are, and what the simulator says that it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import simulation_interfaces.srv
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import SimulatorFeatures

from usd_ros_bridge.backends.protocol import EntityBackend
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, ServicePlan
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.action import CLOSED, ActionServer
from usd_ros_bridge.ros.endpoints.service import ServiceServer
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.handlers import Bound, Handlers
from usd_ros_bridge.ros.services import BUILT_IN, Server, run_in_tick
from usd_ros_bridge.ros.simulation.control import SimulationControl
from usd_ros_bridge.ros.simulation.entity_services import EntityServices, matching_names
from usd_ros_bridge.ros.simulation.results import Answer, answered
from usd_ros_bridge.ros.simulation.spawn_options import Succession
from usd_ros_bridge.ros.simulation.spawn_services import SpawnServices
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.time_control import TimeControl

TIMEOUT_S = 10.0
STEPS_ACTION = "simulate_steps"
_TYPE = "simulation_interfaces/{kind}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
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
    """Serves the standard services and the action in the default domain, under the node's namespace.

    What the installed release of simulation_interfaces does not have is left out, as is what the backend cannot do.
    """

    def __init__(
        self,
        runtime: GuardedRuntime,
        time: TimeControl,
        domain: Domain,
        *,
        workers: Workers,
        handlers: Handlers,
        quit_process: Callable[[], bool],
        succession: Succession | None = None,
    ) -> None:
        """Stores what to serve; `open` creates the servers.

        Args:
            runtime: Open; its backend owns time.
            time: Says whether time passes.
            domain: Where to serve.
            workers: Where requests wait.
            handlers: What is bound to interfaces of the plan.
            quit_process: Has the process end soon; returns False where it is not the bridge's to end.
            succession: How entities are spawned; None where they cannot be.
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
        if succession is not None and self._entities is not None:
            self._spawning = SpawnServices(
                succession.stage, succession.roots, entities=self._entities,
                changes=succession.changes, between_ticks=succession.between_ticks,
            )  # fmt: skip
        clear = None if self._spawning is None else self._spawning.clear
        self._control = SimulationControl(time, forget=forget, quit_process=quit_process, clear=clear)
        self._may_change = runtime.remote_control == "all"
        offers = [*self._control_offers(), *self._entity_offers(), *self._spawn_offers()]
        self._offers = {
            offer.name: offer
            for offer in offers
            # What does not only ask is what the standard does not call "get".
            if (self._may_change or offer.name.startswith("get_"))
            and hasattr(simulation_interfaces.srv, offer.type)
        }
        self._step_ns = time.step_ns
        self._servers: list[ServiceServer] = []
        self._action: ActionServer | None = None

    def revise(self) -> None:
        """Looks anew at what is simulated: entities came or went; the backend is of the same kind."""
        if self._entities is not None:
            assert isinstance(self._runtime.backend, EntityBackend)
            self._entities.revise(self._runtime.backend)

    def open(self) -> None:
        """Creates the servers."""
        for offer in self._offers.values():
            plan = ServicePlan(
                path=offer.name,
                role="server",
                name=offer.name,
                type=_TYPE.format(kind="srv", name=offer.type),
            )
            server = ServiceServer(
                plan, getattr(simulation_interfaces.srv, offer.type), self._domain,
                services=self, workers=self._workers, report=self._report,
            )  # fmt: skip
            server.open()
            self._servers.append(server)
        if not self._may_change:
            return
        action = ActionPlan(
            path=STEPS_ACTION, role="server", name=STEPS_ACTION,
            type=_TYPE.format(kind="action", name="SimulateSteps"),
        )  # fmt: skip
        self._action = ActionServer(
            action, SimulateSteps, self._domain, self._report, handlers=self._handlers, workers=self._workers,
            backend=Bound(handler=self._control.simulate_steps, owner=BUILT_IN), desk=lambda _path: None,
            time_ns=lambda: self._runtime.now_ns,
        )  # fmt: skip
        self._action.open()

    def close(self) -> None:
        """Destroys them. Idempotent."""
        # What answers are methods of this.
        self._offers = {}
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        action, self._action = self._action, None
        if action is not None:
            action.close()

    def status(self) -> list[InterfaceStatus]:
        """Returns a row for each."""
        rows = [server.status() for server in self._servers]
        return rows if self._action is None else [*rows, self._action.status()]

    def summary(self) -> str:
        """Returns one line for a log."""
        namespace = self._domain.node.get_namespace()
        action = " and 1 action" if self._may_change else ""
        return f"simulation_interfaces: {len(self._offers)} services{action} in {namespace}"

    def find(self, plan: ServicePlan) -> Server:
        """Returns who answers requests to one of the services."""
        offer = self._offers.get(plan.name)
        if offer is None:
            return Server(reason=CLOSED)
        # The time-out is the answer's own: it says so in a Result.
        return Server(handler=partial(self._handle, offer), owner=BUILT_IN, timeout=None)

    def prepare(self, plan: ServicePlan) -> None:
        """Does nothing: it is known who answers."""

    # --- Own ---------------------------------------------------------------------------------------------------

    async def _handle(self, offer: Offer, request: Any, response: Any) -> Any:
        fault = await answered(offer.answer, request, response, timeout=offer.timeout)
        if fault is not None:
            self._report(
                f"service.error:{offer.name}", f"a request to {offer.name} failed: {describe(fault)}"
            )
        return response

    def _control_offers(self) -> list[Offer]:
        control = self._control
        return [
            Offer(name="get_simulator_features", type="GetSimulatorFeatures", answer=self._get_features),
            Offer(
                name="get_simulation_state", type="GetSimulationState", answer=control.get_simulation_state,
                features=("SIMULATION_STATE_GETTING",),
            ),
            Offer(
                name="set_simulation_state", type="SetSimulationState", answer=control.set_simulation_state,
                features=("SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE"),
            ),
            Offer(
                name="reset_simulation", type="ResetSimulation", answer=control.reset_simulation,
                features=("SIMULATION_RESET", "SIMULATION_RESET_TIME", "SIMULATION_RESET_STATE"),
            ),
            Offer(
                name="step_simulation", type="StepSimulation", answer=control.step_simulation, timeout=None,
                features=("STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE"),
            ),
            Offer(
                name="get_current_world", type="GetCurrentWorld", answer=self._get_world,
                features=("WORLD_INFO_GETTING",),
            ),
        ]  # fmt: skip

    def _entity_offers(self) -> list[Offer]:
        entities = self._entities
        if entities is None:
            return []
        return [
            Offer(
                name="get_entities", type="GetEntities", answer=partial(self._list, entities, entities.get_entities),
                features=("ENTITY_TAGS", "ENTITY_CATEGORIES", "ENTITY_BOUNDS_BOX"),
            ),
            Offer(
                name="get_entities_states", type="GetEntitiesStates",
                answer=partial(self._list, entities, entities.get_entities_states),
            ),
            self._offer_in_tick("get_entity_state", "GetEntityState", entities.get_entity_state,
                                "ENTITY_STATE_GETTING"),
            self._offer_in_tick("set_entity_state", "SetEntityState", entities.set_entity_state,
                                "ENTITY_STATE_SETTING"),
            self._offer_in_tick("get_entity_info", "GetEntityInfo", entities.get_entity_info, "ENTITY_INFO_GETTING"),
            self._offer_in_tick("set_entity_info", "SetEntityInfo", entities.set_entity_info, "ENTITY_INFO_SETTING"),
            self._offer_in_tick("get_entity_bounds", "GetEntityBounds", entities.get_entity_bounds, "ENTITY_BOUNDS"),
        ]  # fmt: skip

    def _spawn_offers(self) -> list[Offer]:
        spawning = self._spawning
        if spawning is None:
            return []
        return [
            Offer(
                name="spawn_entity", type="SpawnEntity", answer=spawning.spawn_entity, timeout=None,
                features=("SPAWNING", "SIMULATION_RESET_SPAWNED"),
            ),
            Offer(
                name="delete_entity", type="DeleteEntity", answer=spawning.delete_entity, timeout=None,
                features=("DELETING",),
            ),
            Offer(
                name="get_spawnables", type="GetSpawnables", answer=spawning.get_spawnables, features=("SPAWNABLES",)
            ),
        ]  # fmt: skip

    async def _list(
        self,
        entities: EntityServices,
        fill: Callable[[Any, Any, Set[str] | None], None],
        request: Any,
        response: Any,
    ) -> None:
        """Answer a request with filters. Names are matched in a thread of their own: the tick goes on meanwhile."""
        named = None
        if request.filters.filter:
            table = await asyncio.wrap_future(run_in_tick(self._runtime, lambda: entities.table))
            named = await asyncio.to_thread(matching_names, request.filters.filter, table)
        await asyncio.wrap_future(run_in_tick(self._runtime, partial(fill, request, response, named)))

    def _offer_in_tick(
        self, name: str, type_name: str, method: Callable[[Any, Any], None], *features: str
    ) -> Offer:
        async def answer(request: Any, response: Any) -> None:
            await asyncio.wrap_future(run_in_tick(self._runtime, partial(method, request, response)))

        return Offer(name=name, type=type_name, answer=answer, features=features)

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
