"""Sweep files: YAML, checked by the JSON Schema of the package (`sweep.schema.json`)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, one_of, quoted
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.sweep.distributions import parse_distribution
from usd_ros_bridge.sweep.run_specs import MAX_RUNS, plan_runs
from usd_ros_bridge.sweep.sweep_description import (
    FunctionDriver,
    LaunchDriver,
    Randomization,
    RunMetric,
    Sampling,
    Signal,
    StartPose,
    StopCondition,
    Sweep,
    TopicCommand,
    is_distribution,
    references,
    resolve,
)
from usd_ros_bridge.sweep.yaml_lines import DocumentPath, read_yaml

_SCHEMA: Final = Path(__file__).with_name("sweep.schema.json")
_OPERATIONS: Final = ("set", "scale", "add")
_SIGNAL: Final = ("body", "joint", "axis", "goal", "low", "high", "other", "function", "arguments")
_AS_THEY_ARE: Final = (
    "asset",
    "duration",
    "repeats",
    "seed",
    "variants",
    "backend",
    "backend_options",
    "options",
    "step",
    "joints",
    "record",
)
_SAME_FOR_ALL: Final = ("name", "asset", "backend", "options")
"""What a worker opens once."""


class _PlaceError(Exception):
    """A fault at a place of the document."""

    def __init__(self, path: DocumentPath, message: str) -> None:
        super().__init__(message)
        self.path = path


def load_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Read a sweep file.

    Args:
        path: YAML file. Relative paths in it count from its folder.

    Raises:
        OptionError: The file cannot be read, or is no sweep: one line with the file, line, and place in the document.
        BridgeError: PyYAML or jsonschema is not installed.
    """
    file = Path(path)
    document, lines = read_yaml(file)
    try:
        return _parse(document, name=file.stem, directory=str(file.resolve().parent))
    except _PlaceError as fault:
        line = next((lines[each] for each in _upwards(fault.path) if each in lines), 1)
        raise OptionError(f"{file}:{line}: {_placed(fault)}") from None


def parse_sweep(document: Mapping[str, Any], *, source: str = "sweep", directory: str = "") -> Sweep:
    """Make a sweep of the contents of a sweep file.

    Args:
        document: The contents, as YAML or JSON gives them.
        source: What messages call it; the name of a sweep that has none.
        directory: Folder that relative paths count from.

    Raises:
        OptionError: It is no sweep.
        BridgeError: jsonschema is not installed.
    """
    try:
        return _parse(document, name=source, directory=directory)
    except _PlaceError as fault:
        raise OptionError(f"{source}: {_placed(fault)}") from None


@cache
def _schema_text() -> str:
    return _SCHEMA.read_text(encoding="utf-8")


def sweep_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of sweep files."""
    schema: dict[str, Any] = json.loads(_schema_text())
    return schema


# --- The form ------------------------------------------------------------------------------------------------------


def _parse(document: Any, *, name: str, directory: str) -> Sweep:
    _check_form(document)
    sweep = _make(document, name=name, directory=directory)
    _check_references(document, sweep)
    _check_numbers(sweep)
    return sweep


def _check_form(document: Any) -> None:
    try:
        from jsonschema import Draft202012Validator
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"jsonschema cannot be imported: {error}") from error
    if not isinstance(document, Mapping):
        raise _PlaceError((), "a sweep is a mapping: begin with asset: and duration:")
    # The deepest fault first: those above follow from it.
    faults = sorted(
        Draft202012Validator(sweep_schema()).iter_errors(document), key=lambda each: str(each.path)
    )
    if faults:
        fault = faults[0]
        path, message = _describe(fault)
        raise _PlaceError(path, message)


def _describe(fault: Any) -> tuple[DocumentPath, str]:
    """Return the place and the message of a fault that jsonschema found."""
    path, schema, value = tuple(fault.absolute_path), fault.schema, fault.instance
    made = _MESSAGES.get(fault.validator)
    if fault.validator == "additionalProperties":
        known = list(schema.get("properties", ()))
        key = next(each for each in value if each not in known)
        return (*path, key), f"there is no such key; {alternatives(str(key), known, count=20)}"
    return path, made(schema, value, fault) if made else str(fault.message)


def _wrong(schema: Mapping[str, Any], value: Any, _: Any) -> str:
    expected = schema.get("title")
    if expected is None:
        kinds = schema.get("type", "value")
        expected = " or ".join([kinds] if isinstance(kinds, str) else kinds)
        expected = f"{'an' if expected[0] in 'aeiou' else 'a'} {expected}"
    shown = "nothing" if value is None else _shown(value)
    return f"{shown} is not {expected}"


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else quoted(json.dumps(value, default=str))


_MESSAGES: Final[dict[str, Callable[[Mapping[str, Any], Any, Any], str]]] = {
    "type": _wrong,
    "pattern": _wrong,
    "minItems": _wrong,
    "maxItems": _wrong,
    "minProperties": _wrong,
    "maxProperties": _wrong,
    "required": lambda schema, value, _: (
        "missing: " + ", ".join(each for each in schema["required"] if each not in value)
    ),
    "enum": lambda schema, value, _: f"{_shown(value)}: {one_of(str(value), map(str, schema['enum']))}",
    "minimum": lambda schema, value, _: f"{value} is below {schema['minimum']}",
    "maximum": lambda schema, value, _: f"{value} is above {schema['maximum']}",
    "exclusiveMinimum": lambda schema, value, _: f"{value} is not above {schema['exclusiveMinimum']}",
}
"""What the faults of jsonschema say."""


# --- The sweep -----------------------------------------------------------------------------------------------------


def _make(document: Mapping[str, Any], *, name: str, directory: str) -> Sweep:
    plain = {key: document[key] for key in _AS_THEY_ARE if key in document}
    return Sweep(
        name=str(document.get("name", name)),
        directory=directory,
        parameters={key: _parameter(key, each) for key, each in document.get("parameters", {}).items()},
        sampling=Sampling(**document.get("sampling", {"method": _default_method(document)})),
        points=tuple(document.get("points", ())),
        poses={
            prim: StartPose(**{key: tuple(value) for key, value in each.items()})
            for prim, each in document.get("poses", {}).items()
        },
        randomize=tuple(_randomization(row, each) for row, each in enumerate(document.get("randomize", ()))),
        driver=_driver(document["driver"]) if "driver" in document else None,
        commands=tuple(TopicCommand(**each) for each in document.get("commands", ())),
        stop={key: _stop(key, each) for key, each in document.get("stop", {}).items()},
        metrics={key: _metric(key, each) for key, each in document.get("metrics", {}).items()},
        **plain,
    )


def _default_method(document: Mapping[str, Any]) -> str:
    return "list" if "points" in document else "grid"


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and ("linspace" in value or "logspace" in value):
        ((kind, (first, last, count)),) = value.items()
        place = ("parameters", name, kind)
        if not (1 <= count <= MAX_RUNS and count == int(count)):
            raise _PlaceError(place, f"{count} is no number of values: 1 to {MAX_RUNS}")
        if not (math.isfinite(first) and math.isfinite(last)):
            raise _PlaceError(place, f"{first if math.isfinite(last) else last} is no finite number")
        make: Callable[..., Any] = np.linspace if kind == "linspace" else np.geomspace
        return tuple(make(first, last, int(count)).tolist())
    return tuple(value) if isinstance(value, list) else parse_distribution(value)


def _randomization(row: int, document: Mapping[str, Any]) -> Randomization:
    given = [key for key in _OPERATIONS if key in document]
    if len(given) != 1:
        raise _PlaceError(("randomize", row), "give exactly one of set, scale and add")
    others = {key: value for key, value in document.items() if key not in _OPERATIONS}
    value = document[given[0]]
    value = tuple(value) if isinstance(value, list) else parse_distribution(value)
    return Randomization(operation=given[0], value=value, **others)  # type: ignore[arg-type]


def _driver(document: Mapping[str, Any]) -> FunctionDriver | LaunchDriver:
    if ("function" in document) == ("launch" in document):
        raise _PlaceError(("driver",), "give either function or launch")
    if "function" in document:
        wrong = [key for key in ("real_time_factor", "wait") if key in document]
        if wrong:
            raise _PlaceError(("driver", wrong[0]), "is of launch files")
        return FunctionDriver(**document)
    if "rate" in document:
        raise _PlaceError(("driver", "rate"), "is of functions")
    return LaunchDriver(**document)


def _signal(document: Mapping[str, Any]) -> Signal:
    given = {key: document[key] for key in _SIGNAL if key in document}
    return Signal(kind=document["signal"], **given)


def _stop(name: str, document: Mapping[str, Any]) -> StopCondition:
    if ("above" in document) == ("below" in document):
        raise _PlaceError(("stop", name), "give either above or below")
    given = {key: document[key] for key in ("above", "below", "after", "outcome") if key in document}
    return StopCondition(signal=_signal(document), hold=document.get("for", 0.0), **given)


def _metric(name: str, document: Mapping[str, Any]) -> RunMetric:
    if "signal" in document:
        if "time_to" in document:
            raise _PlaceError(("metrics", name), "give one of signal, time_to and function")
        given = {key: document[key] for key in ("statistic", "percentile", "after") if key in document}
        return RunMetric(signal=_signal(document), **given)
    if ("time_to" in document) == ("function" in document):
        raise _PlaceError(("metrics", name), "give one of signal, time_to and function")
    wrong = [key for key in document if key not in ("time_to", "function", "arguments")]
    if wrong:
        raise _PlaceError(("metrics", name, wrong[0]), "goes with a signal")
    return RunMetric(**document)


# --- What a schema cannot say --------------------------------------------------------------------------------------


def _check_references(document: Mapping[str, Any], sweep: Sweep) -> None:
    """Check that all parameters that values refer to exist."""
    names = sweep.parameter_names
    for path, text in _texts(document, ()):
        for name in references(text):
            if path[0] in ("parameters", "points"):
                raise _PlaceError(path, "a parameter cannot refer to another one")
            if path[0] in _SAME_FOR_ALL:
                raise _PlaceError(path, f"is the same for all runs: ${{{name}}} cannot be in it")
            if name not in names:
                raise _PlaceError(path, f"${{{name}}} refers to no parameter; {alternatives(name, names)}")


def _check_numbers(sweep: Sweep) -> None:
    """Check the distributions and the sampling; the runs are planned once for it."""
    try:
        first = plan_runs(sweep)[0]
    except OptionError as error:
        text = str(error)
        place = text.partition(":")[0]
        raise _PlaceError(tuple(place.split(".")), text.partition(": ")[2] or text) from None
    for row, each in enumerate(resolve(sweep, first.parameters).randomize):
        if is_distribution(each.value):
            try:
                each.value.quantile(0.5)
            except OptionError as error:
                raise _PlaceError(("randomize", row, each.operation), str(error)) from None


def _texts(value: Any, path: DocumentPath) -> Any:
    """Yield all texts of a document with their places, keys included."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key, (*path, key))
            yield from _texts(each, (*path, key))
    elif isinstance(value, list):
        for row, each in enumerate(value):
            yield from _texts(each, (*path, row))


def _placed(fault: _PlaceError) -> str:
    place = ""
    for part in fault.path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    return f"{place}: {fault}" if place else str(fault)


def _upwards(path: DocumentPath) -> list[DocumentPath]:
    return [path[:length] for length in range(len(path), -1, -1)]
