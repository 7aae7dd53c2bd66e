"""The servers of the package simulation_interfaces: which there are, and what the simulator says that it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import simulation_interfaces.srv
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import SimulatorFeatures

from usd_ros_bridge.backends.base import EntityBackend
from usd_ros_bridge.model.message_types import SIMULATOR_FEATURES, simulation_type
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, ServicePlan
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.action_server import CLOSED, ActionServer
from usd_ros_bridge.ros.endpoints.handlers import Bound, Handlers
from usd_ros_bridge.ros.endpoints.service import ServiceServer
from usd_ros_bridge.ros.endpoints.service_handlers import BUILT_IN, Server, run_in_tick
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.interface_types import AmentCatalog
from usd_ros_bridge.ros.simulation.entity_services import EntityServices, matching_names
from usd_ros_bridge.ros.simulation.results import Answer, answered
from usd_ros_bridge.ros.simulation.simulation_control import SimulationControl
from usd_ros_bridge.ros.simulation.spawn_options import SpawnContext
from usd_ros_bridge.ros.simulation.spawn_services import SpawnServices
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.sim_time import TimeControl

if TYPE_CHECKING:
    pass


TIMEOUT_S = 10.0
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
        spawning: SpawnContext | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            runtime: Open; its backend owns time.
            time: Says whether time passes.
            domain: Where to serve.
            workers: Where requests wait.
            handlers: What is bound to interfaces of the plan.
            quit_process: Has the process end soon; returns False where it is not the bridge's to end.
            spawning: For spawning; None if nothing can be spawned.
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
        if spawning is not None and self._entities is not None:
            self._spawning = SpawnServices(spawning, self._entities)
        clear = None if self._spawning is None else self._spawning.clear
        self._control = SimulationControl(time, forget=forget, quit_process=quit_process, clear=clear)
        self._may_change = runtime.options.remote_control == "all"
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

    def update_entities(self) -> None:
        """Use the backend of the new plan, which is of the same kind and has other entities."""
        if self._entities is not None:
            assert isinstance(self._runtime.backend, EntityBackend)
            self._entities.set_backend(self._runtime.backend)

    def open(self) -> None:
        """Create the servers."""
        for offer in self._offers.values():
            plan = ServicePlan(
                path=offer.name,
                role="server",
                name=offer.name,
                type=simulation_type("srv", offer.type),
            )
            server = ServiceServer(
                plan,
                getattr(simulation_interfaces.srv, offer.type),
                self._domain,
                services=self,
                workers=self._workers,
                report=self._report,
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
        """Destroy them. Idempotent."""
        # What answers are methods of this.
        self._offers = {}
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        action, self._action = self._action, None
        if action is not None:
            action.close()

    def status(self) -> list[InterfaceStatus]:
        """Return a row for each."""
        rows = [server.status() for server in self._servers]
        return rows if self._action is None else [*rows, self._action.status()]

    def summary(self) -> str:
        """Return one line for a log."""
        namespace = self._domain.node.get_namespace()
        action = " and 1 action" if self._may_change else ""
        return f"simulation_interfaces: {len(self._offers)} services{action} in {namespace}"

    def find(self, plan: ServicePlan) -> Server:
        """Return who answers requests to one of the services."""
        offer = self._offers.get(plan.name)
        if offer is None:
            return Server(reason=CLOSED)
        # The time-out is the answer's own: it says so in a Result.
        return Server(handler=partial(self._handle, offer), owner=BUILT_IN, timeout=None)

    def prepare(self, plan: ServicePlan) -> None:
        """Do nothing: it is known who answers."""

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
            _row("set_simulation_state", control.set_simulation_state, *states),
            _row("reset_simulation", control.reset_simulation, *resets),
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
        """Answer a request with filters. Names are matched in a thread of their own: the tick goes on meanwhile."""
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


def offer_simulation(
    runtime: GuardedRuntime,
    time: TimeControl,
    domain: Domain,
    *,
    workers: Workers,
    handlers: Handlers,
    quit_process: Callable[[], bool],
    inform: Report,
    spawning: SpawnContext | None = None,
) -> SimulationInterfaces | None:
    """Return the standard interfaces, to be opened; None, and one line says so, where their package is missing.

    Args:
        runtime: Open; its backend owns time.
        time: Says whether time passes.
        domain: Where to serve.
        workers: Where requests wait.
        handlers: What is bound to interfaces of the plan.
        quit_process: Has the process end soon; returns False where it is not the bridge's to end.
        inform: Told what is offered, or why nothing is.
        spawning: For spawning; None if nothing can be spawned.
    """
    if runtime.options.remote_control == "none":
        return None
    if not AmentCatalog().contains(SIMULATOR_FEATURES):
        inform(
            "simulation_interfaces",
            "simulation_interfaces is not installed, so its services are not offered "
            "(apt install ros-$ROS_DISTRO-simulation-interfaces)",
        )
        return None

    offered = SimulationInterfaces(
        runtime,
        time,
        domain,
        workers=workers,
        handlers=handlers,
        quit_process=quit_process,
        spawning=spawning,
    )
    inform("simulation_interfaces", offered.summary())
    return offered
