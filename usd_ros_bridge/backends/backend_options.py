"""The backends of the package: what each does, what it requires, and its options. Importing it loads no engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from usd_ros_bridge import ranges
from usd_ros_bridge.backends.base import (
    OptionParser,
    count_in,
    declare_options,
    flag,
    number_in,
    option_type,
    parse_options,
    topic_name,
)
from usd_ros_bridge.errors import BackendError, choices
from usd_ros_bridge.options import SOLVERS
from usd_ros_bridge.requirements import MUJOCO, NEWTON, Requirement

Integrator = Literal["euler", "rk4", "implicit", "implicitfast"]
Divergence = Literal["reset", "hold"]
Gl = Literal["auto", "egl", "osmesa", "none"]

_labels: dict[type, str] = {}

OptionKind = Literal["number", "whole number", "bool", "choice", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOption:
    """An option of a backend.

    Attributes:
        kind: What its text stands for.
        possible: Range of a number, with its unit, or the choices; "" without a limit.
        default: Default, for people.
        help: One line about it.
        parse: Parser of its text.
    """

    kind: OptionKind
    possible: str = ""
    default: str
    help: str
    parse: OptionParser


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInfo:
    """A backend of the package.

    Attributes:
        summary: One line about it.
        options: Its options by name.
        requirement: Package of others that it needs, None for none.
    """

    summary: str
    options: Mapping[str, BackendOption]
    requirement: Requirement | None = None


def option_parsers(backend: str) -> dict[str, OptionParser]:
    """Return the parsers of the options of a backend of the package, for `parse_options`."""
    return {name: option.parse for name, option in BUILT_IN_BACKENDS[backend].options.items()}


def declared_options(backend: object) -> Mapping[str, BackendOption]:
    """Return the options that a backend declares by its `option_type`, by name. Empty if it declares none.

    Args:
        backend: The backend, or its class.

    Raises:
        BackendError: A field has a type that no text stands for, or no default.
    """
    declared = option_type(backend)
    if declared is None:
        return {}
    try:
        hints = get_type_hints(declared)
    except Exception as error:
        raise BackendError(f"the types of {declared.__name__} cannot be read: {error}") from error
    return {each.name: _declared_option(declared, each, hints[each.name]) for each in fields(declared)}


def option_values(backend: object, options: Mapping[str, str]) -> Any:
    """Return an instance of a backend's `option_type`, made of the caller's texts. None if it declares none.

    Args:
        backend: The backend.
        options: Texts by key.

    Raises:
        BackendError: A key is unknown or a value not possible; the message names what is.
    """
    declared = option_type(backend)
    if declared is None:
        return None
    name = _labels.get(type(backend), type(backend).__name__)
    parsers = {key: option.parse for key, option in declared_options(backend).items()}
    values = parse_options(name, options, parsers)
    try:
        return declared(**values)
    except ValueError as error:
        raise BackendError(f"the options of backend {name} are not possible: {error}") from None


def label_backend(backend: object, name: str) -> None:
    """Call all backends of a class by a name in messages, and name their options where others are given them.

    Raises:
        BackendError: As `declared_options`.
    """
    declared = declared_options(backend)
    if declared:
        _labels[type(backend)] = name
        declare_options(name, declared)


def _declared_option(declared: type, option: Field[Any], hint: object) -> BackendOption:
    kinds = [each for each in _alternatives(hint) if each is not NoneType]
    place = f"{declared.__name__}.{option.name}"
    if option.default is MISSING and option.default_factory is MISSING:
        raise BackendError(f"{place} has no default: every option of a backend has one")
    default = "none" if option.default in (MISSING, None) else str(option.default)
    text = str(option.metadata.get("help", ""))
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if get_origin(kind) is Literal and all(isinstance(each, str) for each in get_args(kind)):
        return _choice(get_args(kind), default, text)
    make = _KINDS.get(kind)
    if make is None:
        raise BackendError(f"{place} is none of bool, int, float, str and a Literal of texts")
    return make(default, text)


def _alternatives(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _plain_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("a number")
    return value


def _plain_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number") from None


def _number(possible: ranges.NumberRange, default: str, text: str) -> BackendOption:
    return BackendOption(
        kind="number", possible=str(possible), default=default, help=text, parse=number_in(possible)
    )


def _count(possible: ranges.NumberRange, default: str, text: str) -> BackendOption:
    return BackendOption(
        kind="whole number", possible=str(possible), default=default, help=text, parse=count_in(possible)
    )


def _flag(default: str, text: str) -> BackendOption:
    return BackendOption(kind="bool", default=default, help=text, parse=flag)


def _choice(possible: tuple[str, ...], default: str, text: str) -> BackendOption:
    def parse(given: str) -> object:
        value = given.strip().lower()
        if value not in possible:
            raise ValueError(f"one of {', '.join(possible)}")
        return value

    return BackendOption(kind="choice", possible=", ".join(possible), default=default, help=text, parse=parse)


def _solvers(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or any(name not in SOLVERS for name in names):
        raise ValueError(f"a list of {choices(SOLVERS)}, separated by commas")
    return names


def _remap(text: str) -> dict[str, str]:
    """Parse `RECORDED:=PLAYED`, separated by commas; names without a slash in front are absolute, too."""
    pairs = {}
    for part in text.split(","):
        recorded, separator, played = part.partition(":=")
        if not separator:
            raise ValueError("RECORDED:=PLAYED, separated by commas")
        pairs["/" + topic_name(recorded).lstrip("/")] = "/" + topic_name(played).lstrip("/")
    return pairs


_KINDS: Final[Mapping[object, Callable[[str, str], BackendOption]]] = {
    bool: _flag,
    int: lambda default, text: BackendOption(
        kind="whole number", default=default, help=text, parse=_plain_int
    ),
    float: lambda default, text: BackendOption(kind="number", default=default, help=text, parse=_plain_float),
    str: lambda default, text: BackendOption(kind="text", default=default, help=text, parse=str),
}
"""What makes an option of the type of a dataclass's field."""

_STEP = "length of a step"
_TIME_SAMPLES = "restart time samples at the end of the stage's range; false stays at the end"

_MUJOCO_OPTIONS = {
    "dt": _number(ranges.STEP, "the asset's, else 0.002", _STEP),
    "integrator": _choice(get_args(Integrator), "the asset's, else implicitfast", "integrator of a step"),
    "stiff_drives": _flag(
        "true", "solve stiff drives together with contacts; off leaves all drives to actuators"
    ),
    "multiccd": _flag("true", "several contact points for each pair of convex shapes; off has one"),
    "on_divergence": _choice(
        get_args(Divergence),
        "reset",
        "after a divergence, go back to the state at rest, or hold the last good one",
    ),
    "decompose": _flag("true", "decompose meshes into convex parts if the asset requests it"),
    "max_hulls": _count(ranges.HULLS, "32", "most convex parts of one mesh"),
    "decompose_seconds": _number(
        ranges.DECOMPOSITION_TIME, "60", "how long the decomposition of one mesh may take"
    ),
    "noise": _flag("true", "apply the authored noise of sensors"),
    "loop": _flag("true", _TIME_SAMPLES),
    "lockstep": _flag(
        "false", "wait for asynchronous sensors: the same commands then give the same messages"
    ),
    "gl": _choice(get_args(Gl), "auto", "library that renders images; none casts rays"),
    "shadows": _flag("false", "the sun casts shadows in images"),
    "samples": _count(ranges.SAMPLES, "0", "samples per pixel of an image, for smooth edges; 0 for none"),
}
_NEWTON_OPTIONS = {
    "dt": _number(ranges.STEP, "the asset's, else 0.002", _STEP),
    "device": BackendOption(
        kind="text", possible="cpu, cuda:0 ...", default="Warp's choice", help="device of Warp", parse=str
    ),
    "schema_resolvers": BackendOption(
        kind="text",
        possible=f"of {', '.join(SOLVERS)}, separated by commas",
        default=",".join(SOLVERS),
        help="solvers whose schemas are read, by priority",
        parse=_solvers,
    ),
}
_JOINT_STATES_OPTIONS = {
    "topic": BackendOption(
        kind="text",
        possible="a topic name",
        default="joint_states",
        help="topic of the joint states, relative to each robot's namespace or absolute",
        parse=topic_name,
    ),
    "ignore_timestamp": _flag("false", "use every message, however old its stamp is"),
}
_PLAYBACK_OPTIONS = {
    "rate": _number(ranges.PLAYBACK_RATE, "1", "recorded seconds per second"),
    "start": _number(
        ranges.PLAYBACK_TIME,
        "start of the stage's range, else of its samples; of a bag 0",
        "where it starts, seconds of the stage, or since the first message of the bag",
    ),
    "end": _number(ranges.PLAYBACK_TIME, "end of the same", "where it ends, likewise"),
    "loop": _flag("true", "go back to the start at the end; false stays at the end"),
    "bag": BackendOption(
        kind="text",
        possible="a .mcap or .db3 file, or a rosbag2 directory",
        default="none: the stage's time samples",
        help="bag whose joint states and transforms are played",
        parse=str.strip,
    ),
    "remap": BackendOption(
        kind="text",
        possible="RECORDED:=PLAYED, separated by commas",
        default="none",
        help="other names for topics of the bag",
        parse=_remap,
    ),
}

BUILT_IN_BACKENDS: Mapping[str, BackendInfo] = {
    "mujoco": BackendInfo(
        summary="simulates drives, gravity and contacts with MuJoCo; measures sensors, owns time",
        options=_MUJOCO_OPTIONS,
        requirement=MUJOCO,
    ),
    "newton": BackendInfo(
        summary="simulates drives, gravity and contacts with Newton; owns time",
        options=_NEWTON_OPTIONS,
        requirement=NEWTON,
    ),
    "kinematic": BackendInfo(
        summary="moves joints and bases by commands, without forces",
        options={"loop": _flag("true", _TIME_SAMPLES)},
    ),
    "joint_states": BackendInfo(
        summary="takes joint positions from a topic, as robot_state_publisher does",
        options=_JOINT_STATES_OPTIONS,
    ),
    "playback": BackendInfo(summary="plays the stage's time samples, or a bag", options=_PLAYBACK_OPTIONS),
    "null": BackendInfo(summary="shows the state as authored", options={}),
}

for _backend, _info in BUILT_IN_BACKENDS.items():
    declare_options(_backend, _info.options)
