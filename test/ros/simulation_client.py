"""A client of the standard simulation interfaces, and short names for their codes."""

from __future__ import annotations

import numpy as np
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import (
    DeleteEntity,
    GetCurrentWorld,
    GetEntities,
    GetEntitiesStates,
    GetEntityBounds,
    GetEntityInfo,
    GetEntityState,
    GetSimulationState,
    GetSimulatorFeatures,
    GetSpawnables,
    ResetSimulation,
    SetEntityInfo,
    SetEntityState,
    SetSimulationState,
    SpawnEntity,
    StepSimulation,
)

OK, FAILED = Result.RESULT_OK, Result.RESULT_OPERATION_FAILED
NOT_FOUND, UNSUPPORTED = Result.RESULT_NOT_FOUND, Result.RESULT_FEATURE_UNSUPPORTED
STOPPED, PLAYING, PAUSED = (
    SimulationState.STATE_STOPPED,
    SimulationState.STATE_PLAYING,
    SimulationState.STATE_PAUSED,
)
NAMES = {
    GetCurrentWorld: "get_current_world", GetEntities: "get_entities", GetEntitiesStates: "get_entities_states",
    GetEntityBounds: "get_entity_bounds", GetEntityInfo: "get_entity_info", GetEntityState: "get_entity_state",
    GetSimulationState: "get_simulation_state", GetSimulatorFeatures: "get_simulator_features",
    ResetSimulation: "reset_simulation", SetEntityInfo: "set_entity_info", SetEntityState: "set_entity_state",
    SetSimulationState: "set_simulation_state", StepSimulation: "step_simulation", SpawnEntity: "spawn_entity",
    DeleteEntity: "delete_entity", GetSpawnables: "get_spawnables",
}  # fmt: skip


class Simulator:
    """A client of everything that is offered."""

    def __init__(self, harness, namespace=""):
        self.harness = harness
        self.namespace = namespace
        self._clients = {}

    def ask(self, service, *, wait=True, **fields):
        client = self._clients.get(service)
        if client is None:
            name = f"{self.namespace}/{NAMES[service]}"
            client = self._clients[service] = self.harness.node.create_client(service, name)
            self.harness.wait_for(client.service_is_ready, what=name)
        future = client.call_async(service.Request(**fields))
        if not wait:
            return future
        self.harness.wait_for(future.done, what=f"the answer of {NAMES[service]}")
        return future.result()

    def set_state(self, state):
        return self.ask(SetSimulationState, state=SimulationState(state=state)).result

    def state(self):
        return self.ask(GetSimulationState).state.state

    def entities(self, **filters):
        request = GetEntities.Request()
        for name, value in filters.items():
            setattr(request.filters, name, value)
        response = self.ask(GetEntities, filters=request.filters)
        return response.entities if response.result.result == OK else response.result

    def put(
        self,
        entity,
        *,
        xyz=(0.0, 0.0, 0.0),
        quaternion=(0.0, 0.0, 0.0, 1.0),
        velocity=(0.0, 0.0, 0.0),
        frame="",
    ):
        request = SetEntityState.Request(entity=entity)
        request.state.header.frame_id = frame
        p, q, v = request.state.pose.position, request.state.pose.orientation, request.state.twist.linear
        p.x, p.y, p.z = xyz
        q.x, q.y, q.z, q.w = quaternion
        v.x, v.y, v.z = velocity
        for flag in ("set_pose", "set_twist"):
            if hasattr(request, flag):
                setattr(request, flag, True)
        return self.ask(SetEntityState, entity=entity, **{
            name: getattr(request, name) for name in request.get_fields_and_field_types() if name != "entity"
        }).result  # fmt: skip

    def where(self, entity):
        response = self.ask(GetEntityState, entity=entity)
        assert response.result.result == OK, response.result.error_message
        p = response.state.pose.position
        return np.array([p.x, p.y, p.z])


def seconds(state):
    return state.header.stamp.sec + state.header.stamp.nanosec * 1e-9
