"""Parameters of drives and contacts in MuJoCo's model of an asset, to compare with those of another engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco

from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.stiff_drives import SolvedDrive, solve_drives
from usd_ros_bridge.model.physics import PhysicsScene


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactSettings:
    """How MuJoCo solves the contacts of a collider; those of a pair follow from both.

    Attributes:
        path: Prim path of the collider.
        friction: Sliding, torsional (m) and rolling (m) friction.
        priority: The settings of the collider with the higher priority are used; equal ones are combined.
        solref: Time constant, s, and damping ratio; two negative numbers are stiffness and damping.
        solimp: Impedance: least, greatest, width (m), midpoint and power.
        dimensions: Of a contact's force: 1 without friction, 3 with sliding, 4 with torsional, 6 with rolling friction.
        margin: Distance at which contacts begin, m.
    """

    path: str
    friction: tuple[float, float, float]
    priority: int
    solref: tuple[float, float]
    solimp: tuple[float, float, float, float, float]
    dimensions: int
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Parameters of MuJoCo's model of a scene.

    Attributes:
        version: Of MuJoCo.
        timestep: s.
        integrator: Name of the integrator.
        multiccd: A pair of convex shapes may have several contacts.
        drives: How each drive is solved.
        contacts: By collider; a mesh of several convex parts has one.
    """

    version: str
    timestep: float
    integrator: str
    multiccd: bool
    drives: tuple[SolvedDrive, ...]
    contacts: tuple[ContactSettings, ...]


def engine_settings(scene: PhysicsScene) -> EngineSettings:
    """Return the parameters of MuJoCo's model of a scene.

    Meshes are not decomposed: that takes long, and changes no number here.

    Raises:
        BackendError: MuJoCo refuses the scene.
    """
    compiled = compile_model(build_spec(scene, lambda *_: None, options=MujocoOptions(decompose=False)))
    model = compiled.model
    return EngineSettings(
        version=mujoco.__version__,
        timestep=float(model.opt.timestep),
        integrator=mujoco.mjtIntegrator(model.opt.integrator).name.removeprefix("mjINT_").lower(),
        multiccd=_has_multiccd(model),
        drives=solve_drives(compiled),
        contacts=tuple(
            _contact_settings(model, int(geoms[0]), collider.path)
            for geoms, collider in zip(compiled.geom_ids, scene.colliders, strict=True)
            if len(geoms) and geoms[0] >= 0
        ),
    )


def _has_multiccd(model: Any) -> bool:
    # Before MuJoCo 4 it is enabled, from then on disabled by a flag.
    disable = getattr(mujoco.mjtDisableBit, "mjDSBL_MULTICCD", None)
    if disable is not None:
        return not model.opt.disableflags & disable
    return bool(model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_MULTICCD)


def _contact_settings(model: Any, geom: int, path: str) -> ContactSettings:
    return ContactSettings(
        path=path,
        friction=tuple(model.geom_friction[geom].tolist()),
        priority=int(model.geom_priority[geom]),
        solref=tuple(model.geom_solref[geom].tolist()),
        solimp=tuple(model.geom_solimp[geom].tolist()),
        dimensions=int(model.geom_condim[geom]),
        margin=float(model.geom_margin[geom]),
    )
