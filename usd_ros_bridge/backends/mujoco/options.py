"""Options of the MuJoCo backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.backends.mujoco.built import SpecOptions
from usd_ros_bridge.backends.settings import Parser, flag, number, parse_settings, positive_number, setting

Integrator = Literal["euler", "rk4", "implicit", "implicitfast"]
Divergence = Literal["reset", "hold"]
Gl = Literal["auto", "egl", "osmesa", "none"]

MAX_SAMPLES = 16

_SPEC = SpecOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class MujocoOptions:
    """What the caller decides.

    Attributes:
        spec: About the model.
        on_divergence: What follows a simulation that diverged: the state at rest, or the last good one, held.
        gl: What renders images; `none` has rays cast instead.
        shadows: Whether the sun casts shadows in images.
        samples: Per pixel of an image, for smooth edges; 0 for none.
        noise: Whether authored noise acts.
        lockstep: Whether heavy sensors are waited for, so that the same commands give the same messages.
    """

    spec: SpecOptions = _SPEC
    on_divergence: Divergence = "reset"
    gl: Gl = "auto"
    shadows: bool = False
    samples: int = 0
    noise: bool = True
    lockstep: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> MujocoOptions:
        """Reads `key=value` texts.

        Raises:
            BackendError: A key is unknown or a value not possible.
        """
        values = parse_settings("mujoco", options, _PARSERS)
        spec = SpecOptions(
            timestep=values.get("dt"),  # type: ignore[arg-type]
            integrator=values.get("integrator"),  # type: ignore[arg-type]
            decompose=setting(values, "decompose", bool, _SPEC.decompose),
            max_hulls=setting(values, "max_hulls", int, _SPEC.max_hulls),
            decompose_seconds=setting(values, "decompose_seconds", float, _SPEC.decompose_seconds),
        )
        return cls(
            spec=spec,
            on_divergence=values.get("on_divergence", "reset"),  # type: ignore[arg-type]
            gl=values.get("gl", "auto"),  # type: ignore[arg-type]
            shadows=setting(values, "shadows", bool, False),
            samples=setting(values, "samples", int, 0),
            noise=setting(values, "noise", bool, True),
            lockstep=setting(values, "lockstep", bool, False),
        )


def _one_of(*possible: str) -> Parser:
    def parse(text: str) -> object:
        value = text.strip().lower()
        if value not in possible:
            raise ValueError(f"one of {', '.join(possible)}")
        return value

    return parse


def _timestep(text: str) -> object:
    value = number(text)
    if not 1e-6 <= value <= 0.1:
        raise ValueError("a number of seconds from 1e-6 to 0.1")
    return value


def _count(text: str) -> object:
    if not text.strip().isdecimal() or int(text) == 0:
        raise ValueError("a whole number greater than zero")
    return int(text)


def _samples(text: str) -> object:
    if not text.strip().isdecimal() or int(text) > MAX_SAMPLES:
        raise ValueError(f"a whole number from 0 to {MAX_SAMPLES}")
    return int(text)


_PARSERS: Mapping[str, Parser] = {
    "dt": _timestep,
    "integrator": _one_of("euler", "rk4", "implicit", "implicitfast"),
    "on_divergence": _one_of("reset", "hold"),
    "gl": _one_of("auto", "egl", "osmesa", "none"),
    "shadows": flag,
    "samples": _samples,
    "noise": flag,
    "lockstep": flag,
    "decompose": flag,
    "max_hulls": _count,
    "decompose_seconds": positive_number,
}
