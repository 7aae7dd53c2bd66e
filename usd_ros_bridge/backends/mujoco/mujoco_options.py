"""MujocoOptions: the options of the mujoco backend; and MuJoCo's own options, as the asset authors them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import mujoco
import numpy as np

from usd_ros_bridge.backends.backend_options import Divergence, Gl, Integrator, option_parsers
from usd_ros_bridge.backends.base import parse_options
from usd_ros_bridge.model.physics import PhysicsScene


@dataclass(frozen=True, slots=True, kw_only=True)
class MujocoOptions:
    """The options of the backend.

    Attributes:
        timestep: s; None for what the asset authors, else DEFAULT_TIMESTEP.
        integrator: None for what the asset authors, else implicitfast.
        decompose: Decompose meshes into convex parts where the asset asks for it.
        max_hulls: Most convex parts of one mesh.
        decompose_seconds: s: how long the decomposition of one mesh may take.
        stiff_drives: Solve stiff drives together with contacts and limits; False leaves all drives to actuators.
        multiccd: Several contact points for each pair of convex shapes; False for one, unless the asset authors it.
        on_divergence: After a divergence, reset to the initial state or hold the last good one.
        gl: Library that renders images; `none` casts rays.
        shadows: The sun casts shadows in images.
        samples: Samples per pixel of an image, for smooth edges; 0 for none.
        noise: Apply authored noise.
        loop: Restart time samples of the stage at their end.
        lockstep: Wait for asynchronous sensors: the same commands then give the same messages.
    """

    timestep: float | None = None
    integrator: Integrator | None = None
    decompose: bool = True
    max_hulls: int = 32
    decompose_seconds: float = 60.0
    stiff_drives: bool = True
    multiccd: bool = True
    on_divergence: Divergence = "reset"
    gl: Gl = "auto"
    shadows: bool = False
    samples: int = 0
    noise: bool = True
    lockstep: bool = False
    loop: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> MujocoOptions:
        """Parse `key=value` texts.

        Raises:
            BackendError: A key is unknown or a value not possible.
        """
        values = parse_options("mujoco", options, option_parsers("mujoco"))
        if "dt" in values:
            values["timestep"] = values.pop("dt")
        return cls(**values)  # type: ignore[arg-type]


DEFAULT_TIMESTEP = 0.002
"""s: length of a step without an authored one."""


def enum_members(kind: str, prefix: str, *names: str) -> dict[str, Any]:
    """Return members of an enumeration of MuJoCo by the names that assets author: `joint_in_parent`, `rk4`."""
    members = getattr(mujoco, f"mjt{kind}")
    return {name: getattr(members, f"mj{prefix}_{name.replace('_', '').upper()}") for name in names}


_INTEGRATORS = enum_members("Integrator", "INT", *get_args(Integrator))
_CONES = enum_members("Cone", "CONE", "pyramidal", "elliptic")
_SOLVERS = enum_members("Solver", "SOL", "pgs", "cg", "newton")
_JACOBIANS = enum_members("Jacobian", "JAC", "dense", "sparse", "auto")
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
MOST_ITERATIONS = 1000
"""Largest limit of iterations of any kind: a step is one call, which nothing interrupts."""
_LEAST_ITERATIONS = 20
"""Least limit of solver iterations: other engines' counts, often 1, have another meaning."""
_IMPRATIO = 10.0
"""Stiffness of friction over that of contact: bodies on a slope do not creep."""


def set_solver_options(spec: Any, scene: PhysicsScene, options: MujocoOptions) -> None:
    """Set the options of a specification (MjSpec): those of the backend, else as authored, else the bridge's."""
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
            value = type(default)(scene.solver[name])
            setattr(spec.option, name, min(value, MOST_ITERATIONS) if isinstance(default, int) else value)
    for name in _VECTORS:
        values = scene.solver.get(name, ())
        getattr(spec.option, name)[: len(values)] = values
    spec.option.disableactuator = sum(
        1 << group for group in {*scene.solver.get("disabled_actuator_groups", ())} if 0 <= group <= 30
    )
    _set_flags(spec.option, scene, options)
    _set_masses(spec.compiler, scene)


def _iterations(scene: PhysicsScene, default: int) -> int:
    """Return the solver's iterations: exactly those authored where the asset uses MuJoCo's own schema."""
    wanted = min(int(scene.solver.get("iterations", 0)), MOST_ITERATIONS) or default
    return wanted if scene.mujoco_options else max(wanted, _LEAST_ITERATIONS)


def _set_flags(option: Any, scene: PhysicsScene, options: MujocoOptions) -> None:
    """Set MuJoCo's flags as authored, else to the bridge's or MuJoCo's defaults.

    Releases differ in their flags, and in which of them are on by default.
    """
    filters_parents = not any(joint.collides for joint in scene.joints)
    chosen = {"filterparent": False, "multiccd": options.multiccd} | {
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


def _set_masses(compiler: Any, scene: PhysicsScene) -> None:
    """Set the compiler's bounds of masses and moments of inertia."""
    compiler.balanceinertia = bool(scene.solver.get("balance_inertia", False))
    compiler.boundmass = float(scene.solver.get("bound_mass", 0.0))
    compiler.boundinertia = float(scene.solver.get("bound_inertia", 0.0))


def _authored(scene: PhysicsScene, name: str, known: dict[str, Any], default: str) -> str:
    value = str(scene.solver.get(name, default)).lower()
    return value if value in known else default
