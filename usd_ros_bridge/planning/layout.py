"""The layout: which bodies and degrees of freedom have rows in the state's arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Layout
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.spatial.transforms import FloatArray


def assign_rows(
    index: StageIndex,
    kinematics: KinematicModel,
    bases: Iterable[Base],
    controllers: Iterable[ControllerPlan],
    needing: Iterable[str],
) -> dict[str, int]:
    """Return the row of each body: those in trees, and what carries a frame or an interface or is commanded."""
    bodies = {body for robot in kinematics.robots for body in robot.bodies}
    bodies.update(base.body for base in bases)
    bodies.update(str(controller.parameters.get("body", "")) for controller in controllers)
    bodies.update(map(index.carrier_at, needing))
    bodies.discard("")
    return {path: row for row, path in enumerate(index.sort(bodies))}


def build_layout(
    index: StageIndex, kinematics: KinematicModel, body_rows: Mapping[str, int], world_from_body: FloatArray
) -> Layout:
    """Return the layout with everything at rest."""
    pairs = [
        (joint.path, dof)
        for robot in kinematics.robots
        for joint in robot.joints
        for dof in kinematics.joint_dofs(joint.path)
    ]
    dofs = [dof for _, dof in pairs]
    return Layout(
        bodies=tuple(body_rows),
        dofs=tuple(dof.name for dof in dofs),
        dof_joints=tuple(path for path, _ in pairs),
        body_pose=world_from_body,
        joint_position=_column([dof.position for dof in dofs]),
        lower=_column([dof.lower for dof in dofs]),
        upper=_column([dof.upper for dof in dofs]),
        max_velocity=_column([dof.max_velocity for dof in dofs]),
        kinematic=np.array(
            [path not in index.bodies or bool(index.bodies[path].kinematic_enabled) for path in body_rows],
            dtype=bool,
        ),
    )


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)
