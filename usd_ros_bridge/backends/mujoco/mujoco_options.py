"""MujocoOptions: the options of the mujoco backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge import ranges
from usd_ros_bridge.backends.base import OptionParser, count_in, flag, number_in, parse_options

Integrator = Literal["euler", "rk4", "implicit", "implicitfast"]
Divergence = Literal["reset", "hold"]
Gl = Literal["auto", "egl", "osmesa", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MujocoOptions:
    """The options of the backend.

    Attributes:
        timestep: s; None for what the asset authors, else DEFAULT_TIMESTEP.
        integrator: None for what the asset authors, else implicitfast.
        decompose: Decompose meshes into convex parts where the asset asks for it.
        max_hulls: Most convex parts of one mesh.
        decompose_seconds: s: how long the decomposition of one mesh may take.
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
        values = parse_options("mujoco", options, OPTION_PARSERS)
        if "dt" in values:
            values["timestep"] = values.pop("dt")
        return cls(**values)  # type: ignore[arg-type]


def _one_of(*possible: str) -> OptionParser:
    def parse(text: str) -> object:
        value = text.strip().lower()
        if value not in possible:
            raise ValueError(f"one of {', '.join(possible)}")
        return value

    return parse


OPTION_PARSERS: Mapping[str, OptionParser] = {
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
