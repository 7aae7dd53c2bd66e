"""Options of the MuJoCo backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.backends.mujoco.built import SpecOptions
from usd_ros_bridge.backends.settings import Parser, count_in, flag, number_in, parse_settings, setting
from usd_ros_bridge.model import ranges

Integrator = Literal["euler", "rk4", "implicit", "implicitfast"]
Divergence = Literal["reset", "hold"]
Gl = Literal["auto", "egl", "osmesa", "none"]

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
        loop: Whether time samples of the stage start over at their end.
        lockstep: Whether heavy sensors are waited for, so that the same commands give the same messages.
    """

    spec: SpecOptions = _SPEC
    on_divergence: Divergence = "reset"
    gl: Gl = "auto"
    shadows: bool = False
    samples: int = 0
    noise: bool = True
    lockstep: bool = False
    loop: bool = True

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
            loop=setting(values, "loop", bool, True),
        )


def _one_of(*possible: str) -> Parser:
    def parse(text: str) -> object:
        value = text.strip().lower()
        if value not in possible:
            raise ValueError(f"one of {', '.join(possible)}")
        return value

    return parse


_PARSERS: Mapping[str, Parser] = {
    "dt": number_in(ranges.STEP),
    "integrator": _one_of("euler", "rk4", "implicit", "implicitfast"),
    "on_divergence": _one_of("reset", "hold"),
    "gl": _one_of("auto", "egl", "osmesa", "none"),
    "shadows": flag,
    "samples": count_in(ranges.SAMPLES),
    "noise": flag,
    "lockstep": flag,
    "loop": flag,
    "decompose": flag,
    "max_hulls": count_in(ranges.HULLS),
    "decompose_seconds": number_in(ranges.DECOMPOSITION_TIME),
}
