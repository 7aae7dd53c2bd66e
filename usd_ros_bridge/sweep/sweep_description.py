"""Sweep: what is run, over which parameters, what is measured. Frozen data, from a file or from Python.

A value may refer to a parameter: the text `${name}` is the parameter's value, and a text with more in it, such as
`wheels_${size}`, holds the value as text. `resolve` puts the parameters of a run in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, Literal, TypeVar

from usd_ros_bridge.errors import OptionError, alternatives, quoted
from usd_ros_bridge.sweep.distributions import DISTRIBUTIONS, Scalar

SamplingMethod = Literal["grid", "zip", "list", "random", "latin_hypercube", "sobol"]
Statistic = Literal[
    "final", "initial", "min", "max", "mean", "integral", "rms", "stddev", "range", "percentile"
]
Operation = Literal["set", "scale", "add"]
SAMPLED: Final[tuple[SamplingMethod, ...]] = ("random", "latin_hypercube", "sobol")
"""Methods that draw points; the others take the values as they are."""

_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the values of the parameters make the points of a sweep.

    Attributes:
        method: `grid`: all combinations, the last parameter changes fastest. `zip`: the values side by side. `list`:
            the points of `Sweep.points`. `random`, `latin_hypercube`, `sobol`: `count` points, from distributions.
        count: Number of points that are drawn; of no effect for the others.
    """

    method: SamplingMethod = "grid"
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPose:
    """Where a robot or a body stands at the start.

    Attributes:
        position: x, y, z in metres in the world; None: as authored.
        rpy: Roll, pitch and yaw in radians in the world; None: as authored.
    """

    position: tuple[Any, Any, Any] | None = None
    rpy: tuple[Any, Any, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomization:
    """A change of an attribute of the asset for a run, written as an over on the session layer.

    Attributes:
        select: Prims: a path, a glob (`*` in a name, `**` over levels), or a collection (`/World.collection:wheels`).
        attribute: `mass`, `friction`, `stiffness`, `damping` or `gravity`, or an attribute by name (`physics:*`,
            `drive:*`, `ros:*` and those of solvers). In the units of the stage.
        value: A number, `${parameter}`, or a distribution.
        operation: `set` the value, `scale` the authored one by it, or `add` it.
        each: Draw for each prim; False: draw once for all.
        name: Name of the drawn value in the results. "": made of the attribute and the selector.
    """

    select: str
    attribute: str
    value: Any
    operation: Operation = "set"
    each: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDriver:
    """A Python function drives the run.

    Attributes:
        function: `module:function`, `path.py:function`, or the function. It takes the run, and is a generator that
            yields the seconds to wait, or a plain function that is called once per period.
        rate: Hz, at which a plain function is called; 0: at every step.
        arguments: Keyword arguments of the function.
    """

    function: str | Callable[..., Any]
    rate: Any = 0.0
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchDriver:
    """A ROS launch file drives the run: the run is a bridge in a DDS domain of its own.

    Attributes:
        launch: Launch file.
        arguments: Launch arguments.
        real_time_factor: As of the node: 0 for as fast as possible.
        wait: Seconds that time waits at the start for a node that uses an interface of the asset; then the run fails.
    """

    launch: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    real_time_factor: Any = 1.0
    wait: Any = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCommand:
    """A message that is sent to a subscription of the asset.

    Attributes:
        at: Time of the run, seconds.
        topic: Name or prim path of the subscription.
        message: Fields of the message.
        every: Seconds between repetitions; 0: sent once.
        until: Time of the last repetition, seconds; None: the end of the run.
    """

    at: Any
    topic: str
    message: Mapping[str, Any]
    every: Any = 0.0
    until: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A number that is measured after each step.

    Attributes:
        kind: What is measured: a name of `SIGNALS` in `sweep/signals.py`, or `function`.
        body: Prim path of a body.
        joint: Prim path or name of a joint; "": all joints together, where the kind allows.
        axis: `x`, `y` or `z`, where the kind is about one.
        goal: A position, m, or the path of a body.
        low: Lowest corner of a box, m.
        high: Highest corner of a box, m.
        other: Glob of the colliders or bodies of a contact; "": any.
        function: `module:function` or `path.py:function`, or the function: takes the run, returns a number.
        arguments: Keyword arguments of the function.
    """

    kind: str
    body: str = ""
    joint: str = ""
    axis: str = ""
    goal: Any = None
    low: Any = None
    high: Any = None
    other: str = ""
    function: str | Callable[..., Any] = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCondition:
    """What ends a run early.

    Attributes:
        signal: The signal that is watched.
        above: The condition holds while the signal is above this, or
        below: below this.
        hold: Seconds for which it must hold without a break.
        after: Time of the run, seconds, before which it is not checked.
        outcome: How the run counts that it ends. `continue`: it continues, and metrics have the time of the first time.
    """

    signal: Signal
    above: Any = None
    below: Any = None
    hold: Any = 0.0
    after: Any = 0.0
    outcome: Literal["stopped", "completed", "failed", "continue"] = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetric:
    """A number that a run results in.

    Attributes:
        signal: The signal; None for `time_to` and `function`.
        statistic: What of the signal over the run.
        percentile: 0 to 100, of the statistic `percentile`.
        after: Time of the run, seconds, from which on the signal counts.
        time_to: Name of a stop condition: the time, seconds, at which it was first met; NaN if it was not.
        function: `module:function` or `path.py:function`, or the function: takes the run at its end, returns a number.
        arguments: Keyword arguments of the function.
    """

    signal: Signal | None = None
    statistic: Statistic = "final"
    percentile: float = 50.0
    after: Any = 0.0
    time_to: str = ""
    function: str | Callable[..., Any] = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Runs of an asset over parameters. Frozen, and it can be pickled. `load_sweep` reads it from a file.

    Attributes:
        name: Name in results and reports.
        asset: USD file; a relative path counts from `directory`.
        duration: Seconds of simulated time at most.
        parameters: By name: a value, a sequence of values, or a distribution.
        sampling: How the values make points.
        points: Parameters of each point, for the method `list`.
        repeats: Runs of each point, with other random numbers.
        seed: Seed of all random numbers.
        variants: By `/Prim/Path:set` the variant.
        backend: Name of a backend.
        backend_options: Options of the backend.
        options: Other options, by the names of the node's parameters.
        step: Seconds between steps of a backend without a time step of its own.
        poses: By prim path of a robot or body, where it stands at the start.
        joints: By prim path or name of a joint, its position at the start, rad or m.
        randomize: Changes of the asset's attributes.
        driver: What commands the robot; None: only `commands`.
        commands: Messages to the robot.
        stop: Stop conditions by name.
        metrics: Metrics by name.
        record: Which runs keep an MCAP file.
        directory: Folder that relative paths of asset, driver and functions count from.
    """

    name: str
    asset: str
    duration: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    points: tuple[Mapping[str, Scalar], ...] = ()
    repeats: int = 1
    seed: int = 0
    variants: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "auto"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    step: Any = 0.01
    poses: Mapping[str, StartPose] = field(default_factory=dict)
    joints: Mapping[str, Any] = field(default_factory=dict)
    randomize: tuple[Randomization, ...] = ()
    driver: FunctionDriver | LaunchDriver | None = None
    commands: tuple[TopicCommand, ...] = ()
    stop: Mapping[str, StopCondition] = field(default_factory=dict)
    metrics: Mapping[str, RunMetric] = field(default_factory=dict)
    record: Literal["none", "failed", "all"] = "none"
    directory: str = ""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Return the names of the parameters, in order."""
        return tuple(dict.fromkeys((*self.parameters, *(name for point in self.points for name in point))))

    @property
    def needs_domain(self) -> bool:
        """Return whether a run opens a DDS domain: its driver is a ROS launch file."""
        return isinstance(self.driver, LaunchDriver)

    def description(self) -> dict[str, Any]:
        """Return the sweep as plain data for JSON: all but `directory`. Equal sweeps have equal descriptions."""
        described = _plain(self)
        del described["directory"]
        assert isinstance(described, dict)
        return described

    def digest(self) -> str:
        """Return a SHA-256 of the description, in hexadecimal: that of another sweep is another one.

        The contents of the asset and of the driver do not count.
        """
        text = json.dumps(self.description(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def with_parameters(self, values: Mapping[str, Scalar]) -> Sweep:
        """Return the sweep with parameters that have one value each.

        Raises:
            OptionError: There is no such parameter.
        """
        for name in values:
            if name not in self.parameter_names:
                raise OptionError(
                    f"there is no parameter {quoted(name)}; {alternatives(name, self.parameter_names)}"
                )
        points = tuple({**point, **{k: v for k, v in values.items() if k in point}} for point in self.points)
        given = {name: values.get(name, value) for name, value in self.parameters.items()}
        return replace(self, parameters=given, points=points)


# --- References to parameters ------------------------------------------------------------------------------------


def resolve(value: _T, parameters: Mapping[str, Scalar]) -> _T:
    """Return a value with the parameters of a run in place of the references to them.

    Args:
        value: A value, text, sequence, mapping or dataclass of a sweep.
        parameters: Values by name.

    Raises:
        OptionError: A text refers to a parameter that there is not.
    """
    resolved: Any = value
    if isinstance(value, str):
        resolved = _resolve_text(value, parameters)
    elif is_dataclass(value) and not isinstance(value, type):
        resolved = replace(
            value, **{each.name: resolve(getattr(value, each.name), parameters) for each in fields(value)}
        )
    elif isinstance(value, Mapping):
        resolved = {resolve(key, parameters): resolve(each, parameters) for key, each in value.items()}
    elif isinstance(value, (tuple, list)):
        resolved = type(value)(resolve(each, parameters) for each in value)
    return resolved  # type: ignore[no-any-return]


def references(value: Any) -> Iterator[str]:
    """Yield the names of the parameters that a value refers to."""
    if isinstance(value, str):
        yield from (match.group(1) for match in _REFERENCE.finditer(value))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from references(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from references(key)
            yield from references(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from references(each)


def is_distribution(value: Any) -> bool:
    """Return whether a value is a distribution."""
    return isinstance(value, DISTRIBUTIONS)


def values_of(parameter: Any) -> Sequence[Any] | None:
    """Return the values that a parameter lists, one for a single value, None for a distribution."""
    if is_distribution(parameter):
        return None
    return parameter if isinstance(parameter, (tuple, list)) else (parameter,)


def function_name(function: str | Callable[..., Any]) -> str:
    """Return a function as text: `module:function`."""
    if isinstance(function, str):
        return function
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', repr(type(function)))}"


def _resolve_text(text: str, parameters: Mapping[str, Scalar]) -> Any:
    whole = _REFERENCE.fullmatch(text)
    if whole is not None:
        return _value(whole.group(1), parameters)
    return _REFERENCE.sub(lambda match: _text(_value(match.group(1), parameters)), text)


def _value(name: str, parameters: Mapping[str, Scalar]) -> Scalar:
    if name not in parameters:
        there = alternatives(name, parameters)
        raise OptionError(f"${{{name}}} refers to no parameter of the sweep; {there}")
    return parameters[name]


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; dataclasses with their type, infinities as text."""
    if is_dataclass(value) and not isinstance(value, type):
        described = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return described if isinstance(value, Sweep) else {"is": type(value).__name__, **described}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if callable(value):
        return function_name(value)
    if isinstance(value, float) and value - value != 0.0:
        return str(value)
    return value
