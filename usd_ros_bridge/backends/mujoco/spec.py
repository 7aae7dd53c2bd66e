"""A physics scene becomes a MuJoCo specification: docs/mujoco.md has the mapping, row by row."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.bodies import add_bodies, lay_to_sleep
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
from usd_ros_bridge.backends.mujoco.controls import actuated_dofs, add_actuators
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
_OPTIONS = (
    "tolerance",
    "ls_iterations",
    "ls_tolerance",
    "noslip_iterations",
    "noslip_tolerance",
    "ccd_iterations",
    "ccd_tolerance",
    "sdf_initpoints",
    "sdf_iterations",
    "density",
    "viscosity",
    "o_margin",
)
"""Numbers of `option` that have the same name in a scene's solver attributes."""
_VECTORS = ("wind", "magnetic", "o_solref", "o_solimp", "o_friction")
"""Likewise those of several numbers."""
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
    offsets = dof_offsets(scene)
    built = Built(
        spec=mujoco.MjSpec(),
        scene=scene,
        report=report,
        options=options or SpecOptions(),
        offsets=offsets,
        actuated=actuated_dofs(scene, offsets),
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
    add_actuators(built)
    lay_to_sleep(built)
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
    spec.option.iterations = _iterations(scene, spec.option.iterations)
    for name in _OPTIONS:
        if name in scene.solver:
            default = getattr(spec.option, name)
            setattr(spec.option, name, type(default)(scene.solver[name]))
    for name in _VECTORS:
        values = scene.solver.get(name, ())
        getattr(spec.option, name)[: len(values)] = values
    spec.option.disableactuator = sum(
        1 << group for group in {*scene.solver.get("disabled_actuator_groups", ())} if 0 <= group <= 30
    )
    _set_flags(built)
    _set_masses(built)


def _iterations(scene: PhysicsScene, default: int) -> int:
    """Returns the solver's iterations: exactly as many as asked for where MuJoCo's own schema is in use."""
    wanted = int(scene.solver.get("iterations", 0)) or default
    return wanted if scene.mujoco_options else max(wanted, _FEWEST)


def _set_flags(built: Built) -> None:
    """Sets MuJoCo's switches as authored; those that nobody authored are the bridge's own or MuJoCo's.

    Releases differ in what they have switches for, and in whether they are on unless disabled.
    """
    scene, option = built.scene, built.spec.option
    filters_parents = not any(joint.collides for joint in scene.joints)
    chosen = {"filterparent": False, "multiccd": False} | {
        name.removeprefix("flag_"): bool(value)
        for name, value in scene.solver.items()
        if name.startswith("flag_")
    }
    # A joint whose bodies collide says so in UsdPhysics' words; MuJoCo's rule would keep them apart.
    chosen["filterparent"] &= filters_parents
    for name, on in chosen.items():
        disable = getattr(mujoco.mjtDisableBit, f"mjDSBL_{name.upper()}", None)
        enable = getattr(mujoco.mjtEnableBit, f"mjENBL_{name.upper()}", None)
        if disable is not None:
            option.disableflags = _with_bit(option.disableflags, disable, on=not on)
        elif enable is not None:
            option.enableflags = _with_bit(option.enableflags, enable, on=on)
        elif name in ("spring", "damper") and not on:
            # Releases that have one switch for both.
            both = not (chosen.get("spring", True) or chosen.get("damper", True))
            option.disableflags |= mujoco.mjtDisableBit.mjDSBL_PASSIVE if both else 0


def _with_bit(bits: int, bit: Any, *, on: bool) -> int:
    return bits | int(bit) if on else bits & ~int(bit)


def _set_masses(built: Built) -> None:
    """Sets what MuJoCo's compiler does to masses and moments of inertia."""
    solver, compiler = built.scene.solver, built.spec.compiler
    compiler.balanceinertia = bool(solver.get("balance_inertia", False))
    compiler.boundmass = float(solver.get("bound_mass", 0.0))
    compiler.boundinertia = float(solver.get("bound_inertia", 0.0))


def _authored(scene: PhysicsScene, name: str, known: dict[str, Any], default: str) -> str:
    value = str(scene.solver.get(name, default)).lower()
    return value if value in known else default
