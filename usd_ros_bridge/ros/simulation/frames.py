"""Frames that requests are given in: the world's, robots' frames, and entities by their names."""

from __future__ import annotations

from usd_ros_bridge.backends.protocol import EntityBackend
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import WORLD, BridgePlan, FramePlan
from usd_ros_bridge.model.transforms import IDENTITY, FloatArray, compose
from usd_ros_bridge.ros.simulation.results import FAILED, NOT_FOUND, RefusedError
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.edges import pose_array


def world_frame_ids(plan: BridgePlan) -> frozenset[str]:
    """Returns the names of the world frame: its own, none, and what robots' topmost frames hang from."""
    return frozenset(("", WORLD, *(robot.parent_frame for robot in plan.robots)))


def world_from_frame(runtime: Runtime, backend: EntityBackend, frame_id: str) -> FloatArray | None:
    """Returns where a frame is now, (7,); None where no robot has it. In the tick's thread.

    A frame is named by its id, where one robot alone has that, or with the robot's namespace in front, as on /tf.

    Args:
        runtime: Whose frames.
        backend: Knows where bodies are, also those that were put elsewhere since the last tick.
        frame_id: The frame.

    Raises:
        RefusedError: Several robots have the frame, or nothing is known yet of the one that does.
    """
    plan = runtime.plan
    if frame_id in world_frame_ids(plan):
        return IDENTITY
    found = []
    for robot in plan.robots:
        prefix = robot.namespace.strip("/")
        for frame in robot.frames:
            full = f"{prefix}/{frame.id}" if prefix else frame.id
            if frame_id == full:
                return _pose(runtime, backend, frame)
            if frame_id == frame.id:
                found.append((frame, full))
    if len(found) > 1:
        names = ", ".join(sorted(full for _, full in found))
        raise RefusedError(FAILED, f"the frame {quoted(frame_id)} is one of several: {names}")
    return _pose(runtime, backend, found[0][0]) if found else None


def unknown_frame(frame_id: str) -> RefusedError:
    """Returns the answer to a request that is given in a frame that nobody knows."""
    return RefusedError(NOT_FOUND, f"there is no frame or entity {quoted(frame_id)}")


def _pose(runtime: Runtime, backend: EntityBackend, frame: FramePlan) -> FloatArray:
    offset = pose_array(frame.carrier_from_frame)
    if frame.carrier < 0:
        return offset
    try:
        carrier = backend.entity_state(runtime.plan.layout.bodies[frame.carrier]).pose
    except KeyError:
        # An animated Xform: no body, and known from the last tick alone.
        if runtime.time_ns is None:
            raise RefusedError(FAILED, f"where the frame {quoted(frame.id)} is, is not known yet") from None
        carrier = runtime.snapshot.pose(frame.carrier)
    return compose(carrier, offset)
