"""Physics materials and solver attributes become the contact parameters of geoms."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.model.physics import Collider, ContactMaterial

BOUND_PRIORITY = 1
"""Priority of geoms with a bound material: it decides over those without, whose friction nobody chose."""
FRICTIONLESS = 1e-5
"""As little friction as MuJoCo takes for none."""
_STEPS_PER_BOUNCE = 12.0
"""Time steps that half an oscillation of a bouncing contact takes: fewer lose energy, more sink in."""
_PHASES = 16
_LEAST_BOUNCE = math.exp(-2.0)
"""What a critically damped contact gives back anyway; MuJoCo's own contacts are such."""


def set_contact(built: Built, geom: Any, collider: Collider) -> None:
    """Sets how a collider's geom slides, sticks and bounces; what is not authored stays as MuJoCo has it."""
    if collider.material is not None:
        geom.priority = BOUND_PRIORITY
        friction = sliding_friction(collider.material)
        geom.friction[0] = friction
        if friction <= FRICTIONLESS:
            geom.condim = 1
        set_bounce(geom, collider.material.restitution, built.spec.option.timestep)
    # No gap: contacts that are found early bear no force in MuJoCo, and its versions count it differently.
    geom.margin = max(0.0, float(collider.solver.get("margin", geom.margin)))
    geom.solmix = float(collider.solver.get("solmix", geom.solmix))
    geom.condim = int(collider.solver.get("condim", geom.condim))
    geom.priority = int(collider.solver.get("priority", geom.priority))
    if {"contact_stiffness", "contact_damping"} <= collider.solver.keys():
        geom.solref = spring(collider.solver["contact_stiffness"], collider.solver["contact_damping"])
    for name in ("solref", "solimp"):
        if name in collider.solver:
            values = np.atleast_1d(np.asarray(collider.solver[name], dtype=np.float64))
            getattr(geom, name)[: len(values)] = values
    for place, name in ((1, "torsional_friction"), (2, "rolling_friction")):
        if name in collider.solver:
            geom.friction[place] = float(collider.solver[name])


def spring(stiffness: float, damping: float) -> list[float]:
    """Returns MuJoCo's time constant and damping ratio of a stiffness and a damping, as Newton converts them."""
    return [2.0 / damping, 0.5 * damping / math.sqrt(stiffness)]


def set_bounce(element: Any, restitution: float, timestep: float) -> None:
    """Makes a geom or pair bounce, where the material gives back more than any contact does."""
    if restitution > _LEAST_BOUNCE:
        element.solref = bouncing(restitution, timestep)
        # Hard from the first touch: an impedance that grew with depth would bend the spring's law.
        element.solimp = [0.99, 0.99, 0.001, 0.5, 2.0]


def sliding_friction(material: ContactMaterial) -> float:
    """Returns MuJoCo's one coefficient of sliding friction: the dynamic one.

    A material with a static coefficient only (the schema's fallback for the other is 0) takes that.
    """
    return material.dynamic_friction if material.dynamic_friction > 0.0 else material.static_friction


def bouncing(restitution: float, timestep: float) -> list[float]:
    """Returns the contact's stiffness and damping, negative as MuJoCo's `solref` has them.

    A spring and damper that a body meets, and leaves when it stops pushing, sends it back with `restitution` times its
    speed. Its stiffness is what the time step can resolve.
    """
    frequency = math.pi / (_STEPS_PER_BOUNCE * timestep)
    return [-(frequency**2), -2.0 * damping_ratio(min(restitution, 1.0)) * frequency]


@lru_cache(maxsize=256)
def damping_ratio(restitution: float) -> float:
    """Returns the damping ratio of a contact that gives back `restitution` of the speed, in MuJoCo's own steps.

    In continuous time, with `r` the ratio and `s = sqrt(1 - r^2)`, it would be
    `e = exp(-r / s * (pi - atan2(2 r s, 1 - 2 r^2)))`; the few steps that a bounce takes lose some more.
    """
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if stepped_restitution(middle) > restitution:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def stepped_restitution(ratio: float) -> float:
    """Returns the share of the speed that a contact gives back, the mean over where within a step it begins."""
    frequency = math.pi / _STEPS_PER_BOUNCE
    total = 0.0
    for phase in range(_PHASES):
        position, velocity = -(phase + 0.5) / _PHASES, -1.0
        while position < 0.0:
            push = -frequency * (frequency * position + 2.0 * ratio * velocity)
            if push <= 0.0 and velocity > 0.0:
                break
            velocity += max(push, 0.0)
            position += velocity
        total += velocity
    return total / _PHASES
