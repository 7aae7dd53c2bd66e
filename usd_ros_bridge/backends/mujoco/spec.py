"""Build a MuJoCo specification of a physics scene: docs/mujoco.md has the mapping, row by row."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.actuators import add_actuators
from usd_ros_bridge.backends.mujoco.bodies import add_bodies, set_sleep_policies
from usd_ros_bridge.backends.mujoco.collision_filtering import filter_collisions
from usd_ros_bridge.backends.mujoco.contacts import combine_materials
from usd_ros_bridge.backends.mujoco.geoms import add_colliders, add_visuals
from usd_ros_bridge.backends.mujoco.loops import add_loops
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.reporting import Report

DEFAULT_TIMESTEP = 0.002
"""s: length of a step that nobody authored."""
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
"""Numbers of `option` with the same name in a scene's solver attributes."""
_VECTORS = ("wind", "magnetic", "o_solref", "o_solimp", "o_friction")
"""Likewise, vectors."""
_LEAST_ITERATIONS = 20
"""Least limit of solver iterations: other engines' counts, often 1, have another meaning."""
_IMPRATIO = 10.0
"""Stiffness of friction over that of contact: bodies on a slope do not creep."""


def build_spec(scene: PhysicsScene, report: Report, *, options: MujocoOptions | None = None) -> SpecBuilder:
    """Build a MuJoCo specification of a scene.

    Args:
        scene: The scene.
        report: Receives what cannot be mapped: one report for each prim, of a kind that begins with `mujoco.`.
        options: Options of the backend.

    Returns:
        The specification, to which sites, cameras and sensors may be added before it is compiled.
    """
    builder = SpecBuilder(scene, report, options or MujocoOptions())
    _set_options(builder)
    add_bodies(builder)
    add_colliders(builder)
    add_visuals(builder)
    add_loops(builder)
    add_actuators(builder)
    set_sleep_policies(builder)
    filter_collisions(builder)
    combine_materials(builder)
    return builder


def _set_options(builder: SpecBuilder) -> None:
    scene, options, spec = builder.scene, builder.options, builder.spec
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
    _set_flags(builder)
    _set_masses(builder)


def _iterations(scene: PhysicsScene, default: int) -> int:
    """Return the solver's iterations: exactly those authored where the asset uses MuJoCo's own schema."""
    wanted = int(scene.solver.get("iterations", 0)) or default
    return wanted if scene.mujoco_options else max(wanted, _LEAST_ITERATIONS)


def _set_flags(builder: SpecBuilder) -> None:
    """Set MuJoCo's flags as authored, else to the bridge's or MuJoCo's defaults.

    Releases differ in their flags, and in which of them are on by default.
    """
    scene, option = builder.scene, builder.spec.option
    filters_parents = not any(joint.collides for joint in scene.joints)
    chosen = {"filterparent": False, "multiccd": False} | {
        name.removeprefix("flag_"): bool(value)
        for name, value in scene.solver.items()
        if name.startswith("flag_")
    }
    # A joint may enable collisions of its bodies (physics:collisionEnabled); MuJoCo's rule would disable them.
    chosen["filterparent"] &= filters_parents
    for name, on in chosen.items():
        disable = getattr(mujoco.mjtDisableBit, f"mjDSBL_{name.upper()}", None)
        enable = getattr(mujoco.mjtEnableBit, f"mjENBL_{name.upper()}", None)
        if disable is not None:
            option.disableflags = _with_bit(option.disableflags, disable, on=not on)
        elif enable is not None:
            option.enableflags = _with_bit(option.enableflags, enable, on=on)
        elif name in ("spring", "damper") and not on:
            # Some releases have one flag for both.
            both = not (chosen.get("spring", True) or chosen.get("damper", True))
            option.disableflags |= mujoco.mjtDisableBit.mjDSBL_PASSIVE if both else 0


def _with_bit(bits: int, bit: Any, *, on: bool) -> int:
    return bits | int(bit) if on else bits & ~int(bit)


def _set_masses(builder: SpecBuilder) -> None:
    """Set the compiler's bounds of masses and moments of inertia."""
    solver, compiler = builder.scene.solver, builder.spec.compiler
    compiler.balanceinertia = bool(solver.get("balance_inertia", False))
    compiler.boundmass = float(solver.get("bound_mass", 0.0))
    compiler.boundinertia = float(solver.get("bound_inertia", 0.0))


def _authored(scene: PhysicsScene, name: str, known: dict[str, Any], default: str) -> str:
    value = str(scene.solver.get(name, default)).lower()
    return value if value in known else default
