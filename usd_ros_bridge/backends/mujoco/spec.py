"""A physics scene becomes a MuJoCo specification: docs/mujoco.md has the mapping, row by row."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.bodies import add_bodies
from usd_ros_bridge.backends.mujoco.built import (
    COLLIDER_GROUP,
    DEFAULT_TIMESTEP,
    HIDDEN_GROUP,
    VISUAL_GROUP,
    Built,
    SpecOptions,
    dof_offsets,
)
from usd_ros_bridge.backends.mujoco.compiled import Compiled
from usd_ros_bridge.backends.mujoco.drives import KINDS
from usd_ros_bridge.backends.mujoco.filters import add_filters
from usd_ros_bridge.backends.mujoco.loops import add_loops
from usd_ros_bridge.backends.mujoco.pairs import combine_materials
from usd_ros_bridge.backends.mujoco.shapes import add_colliders, add_visuals
from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.physics import PhysicsScene

__all__ = ["COLLIDER_GROUP", "HIDDEN_GROUP", "VISUAL_GROUP", "Built", "Compiled", "SpecOptions", "build"]

_INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
    "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
}
_CONES = {"pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL, "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}
_SOLVERS = {
    "pgs": mujoco.mjtSolver.mjSOL_PGS,
    "cg": mujoco.mjtSolver.mjSOL_CG,
    "newton": mujoco.mjtSolver.mjSOL_NEWTON,
}
_JACOBIANS = {
    "dense": mujoco.mjtJacobian.mjJAC_DENSE,
    "sparse": mujoco.mjtJacobian.mjJAC_SPARSE,
    "auto": mujoco.mjtJacobian.mjJAC_AUTO,
}
_FEWEST = 20
"""Solver iterations that are allowed at least: other engines' counts, often 1, mean something else."""
_IMPRATIO = 10.0
"""How much stiffer friction is than contact: what stands on a slope then stands still."""


def build(scene: PhysicsScene, report: Report, *, options: SpecOptions | None = None) -> Built:
    """Makes a MuJoCo specification of a scene.

    Args:
        scene: What to simulate.
        report: Takes what cannot be mapped: one report for each prim, of a kind that begins with `mujoco.`.
        options: What the caller decides.

    Returns:
        The specification, to which sites, cameras and sensors may be added before it is compiled.
    """
    dofs = sum(len(joint.dofs) for joint in scene.joints)
    built = Built(
        spec=mujoco.MjSpec(),
        scene=scene,
        report=report,
        options=options or SpecOptions(),
        offsets=dof_offsets(scene),
        joint_names=[""] * dofs,
        actuator_names={kind: [""] * dofs for kind in KINDS},
        mimicked=frozenset(
            dof.mimic.joint for joint in scene.joints for dof in joint.dofs if dof.mimic is not None
        ),
        apart_bodies=frozenset(scene.apart_bodies),
    )
    _set_options(built)
    add_bodies(built)
    add_colliders(built)
    add_visuals(built)
    add_loops(built)
    add_filters(built)
    combine_materials(built)
    return built


def _set_options(built: Built) -> None:
    scene, options, spec = built.scene, built.options, built.spec
    spec.modelname = "usd_ros_bridge"
    spec.compiler.degree = False
    spec.compiler.autolimits = False
    spec.option.gravity = np.array(scene.gravity)
    spec.option.timestep = options.timestep or scene.timestep or DEFAULT_TIMESTEP
    integrator = options.integrator or _authored(scene, "integrator", _INTEGRATORS, "implicitfast")
    spec.option.integrator = _INTEGRATORS[integrator]
    spec.option.cone = _CONES[_authored(scene, "cone", _CONES, "elliptic")]
    spec.option.solver = _SOLVERS[_authored(scene, "solver", _SOLVERS, "newton")]
    spec.option.jacobian = _JACOBIANS[_authored(scene, "jacobian", _JACOBIANS, "auto")]
    spec.option.impratio = float(scene.solver.get("impratio", _IMPRATIO))
    spec.option.tolerance = float(scene.solver.get("tolerance", spec.option.tolerance))
    spec.option.iterations = max(int(scene.solver.get("iterations", 0)) or spec.option.iterations, _FEWEST)
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    # Several points of contact for one pair of convex geoms: wheels would scrub on their rims' corners.
    multiccd = getattr(mujoco.mjtDisableBit, "mjDSBL_MULTICCD", None)
    if multiccd is not None:
        spec.option.disableflags |= multiccd


def _authored(scene: PhysicsScene, name: str, known: dict[str, Any], default: str) -> str:
    value = str(scene.solver.get(name, default)).lower()
    return value if value in known else default
