"""Run records: what is known of each run of a sweep at its end, as a line of the journal and a row of the table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from usd_ros_bridge.sweep.distributions import Scalar
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_run import RunOutcome

Outcome = Literal["completed", "stopped", "failed", "lost"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("completed", "stopped", "failed", "lost")
TIMES: Final = ("setup_time", "run_time", "wall_time", "started", "worker", "attempts")
"""Fields that depend on the machine, and on when and where a run was made; all others depend on the sweep alone."""

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What came of a run of a sweep.

    Attributes:
        id: Name of the run.
        index: Position among the runs of the sweep.
        seed: Seed of the run.
        parameters: Value of each parameter.
        outcome: `completed`, `stopped` or `failed` as of `RunOutcome`; `lost`: no worker survived it, or it took too
            long.
        reason: Of a run that was not completed, one line.
        metrics: Metrics by name.
        drawn: Values of the randomisation by name.
        sim_time: Simulated seconds.
        steps: Number of steps.
        setup_time: Wall-clock seconds before the first step.
        run_time: Wall-clock seconds of all steps.
        wall_time: Wall-clock seconds of the last attempt, as the sweep sees it.
        started: Begin of the last attempt, seconds since 1970.
        worker: Host and process that made it, "" if none is known.
        attempts: How often the run was begun.
        recording: MCAP file, relative to the output directory, "" for none.
        warnings: What the bridge reported.
    """

    id: str
    index: int
    seed: int
    parameters: Mapping[str, Scalar]
    outcome: Outcome
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, Scalar] = field(default_factory=dict)
    sim_time: float = 0.0
    steps: int = 0
    setup_time: float = 0.0
    run_time: float = 0.0
    wall_time: float = 0.0
    started: float = 0.0
    worker: str = ""
    attempts: int = 1
    recording: str = ""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the record as one line of strict JSON. Numbers that are not finite are text."""
        return json.dumps(
            {each.name: _plain(getattr(self, each.name)) for each in fields(self)}, allow_nan=False
        )


def record_from_json(line: str | bytes) -> RunRecord:
    """Return the record of a line.

    Raises:
        ValueError: The line is no record.
    """
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
    known = {each.name for each in fields(RunRecord)}
    values: dict[str, Any] = {name: value for name, value in document.items() if name in known}
    values["metrics"] = {key: _number(value) for key, value in values.get("metrics", {}).items()}
    values["warnings"] = tuple(values.get("warnings", ()))
    try:
        record = RunRecord(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not isinstance(record.id, str) or not isinstance(record.index, int) or record.outcome not in OUTCOMES:
        raise ValueError("no record of a run")
    return record


def finished_record(
    spec: RunSpec, outcome: RunOutcome, *, started: float, wall_time: float, worker: str, attempts: int
) -> RunRecord:
    """Return the record of a run that a worker made to its end."""
    return RunRecord(
        id=spec.id,
        index=spec.index,
        seed=spec.seed,
        parameters=dict(spec.parameters),
        outcome=outcome.outcome,
        reason=outcome.reason,
        metrics=dict(outcome.metrics),
        drawn=dict(outcome.drawn),
        sim_time=outcome.sim_time,
        steps=outcome.steps,
        setup_time=outcome.setup_time,
        run_time=outcome.run_time,
        wall_time=wall_time,
        started=started,
        worker=worker,
        attempts=attempts,
        warnings=tuple(outcome.warnings),
    )


def lost_record(
    spec: RunSpec, reason: str, *, started: float, wall_time: float, worker: str, attempts: int
) -> RunRecord:
    """Return the record of a run that no worker made to its end."""
    return RunRecord(
        id=spec.id,
        index=spec.index,
        seed=spec.seed,
        parameters=dict(spec.parameters),
        outcome="lost",
        reason=reason,
        wall_time=wall_time,
        started=started,
        worker=worker,
        attempts=attempts,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _number(value: Any) -> float:
    return _NOT_FINITE[value] if isinstance(value, str) else float(value)
