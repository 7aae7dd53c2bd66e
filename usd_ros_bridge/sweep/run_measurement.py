"""Measurement of a run: signals after each step, stop conditions, and the metrics at the end."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, one_of, quoted
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.sweep.function_loader import describe_fault
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.signals import Measure, make_signal
from usd_ros_bridge.sweep.sweep_description import RunMetric, Signal, StopCondition


class StopReason(NamedTuple):
    """A stop condition that was met.

    Attributes:
        name: Of the condition.
        condition: The condition.
        value: Of its signal.
    """

    name: str
    condition: StopCondition
    value: float

    def __str__(self) -> str:
        condition = self.condition
        word, limit = (
            ("above", condition.above) if condition.above is not None else ("below", condition.below)
        )
        held = f" for {condition.hold:g} s" if condition.hold else ""
        return f"{self.name}: {condition.signal.kind} {self.value:g} is {word} {limit:g}{held}"


class _Watch:
    """A stop condition and since when it holds."""

    __slots__ = (
        "after_ns",
        "condition",
        "goes_on",
        "hold_ns",
        "limit",
        "measure",
        "met_ns",
        "name",
        "sign",
        "since_ns",
    )

    def __init__(self, name: str, condition: StopCondition, measure: Measure) -> None:
        self.name = name
        self.condition = condition
        self.measure = measure
        above = condition.above is not None
        if above == (condition.below is not None):
            raise OptionError(f"stop.{name}: give either above or below")
        self.sign = 1.0 if above else -1.0
        self.limit = self.sign * number(condition.above if above else condition.below, f"stop.{name}")
        self.hold_ns = round(number(condition.hold, f"stop.{name}.for") * SECOND_NS)
        self.after_ns = round(number(condition.after, f"stop.{name}.after") * SECOND_NS)
        self.goes_on = condition.outcome == "continue"
        self.since_ns = -1
        self.met_ns = -1


class RunMeasurement:
    """Measure a run. `sample` is called after each step, at a constant rate.

    Signals are numbers in arrays of doubles: 8 bytes for each step. Statistics are computed over them at the end.
    """

    def __init__(
        self,
        run: RunContext,
        stop: Mapping[str, StopCondition],
        metrics: Mapping[str, RunMetric],
        step_ns: int,
    ) -> None:
        """Find what is measured.

        Args:
            run: The run, whose bridge is open.
            stop: Stop conditions by name.
            metrics: Metrics by name.
            step_ns: Time between two calls of `sample`, nanoseconds.

        Raises:
            OptionError: A signal, body, joint, function or condition is not there.
        """
        self._run = run
        self._metrics = dict(metrics)
        self._step_ns = step_ns
        self._shared: list[tuple[Signal, array[float]]] = []
        self._recorded: list[tuple[Any, Measure]] = []
        self._watches: list[_Watch] = []
        for name, condition in stop.items():
            self._watches.append(_Watch(name, condition, _made(condition.signal, run, f"stop.{name}")))
        self._watched = self._watches
        for name, metric in metrics.items():
            self._add_metric(name, metric)

    def sample(self, time_ns: int) -> StopReason | None:
        """Measure all signals after a step.

        Args:
            time_ns: Time of the run, nanoseconds.

        Returns:
            The first stop condition that is met now.
        """
        for append, measure in self._recorded:
            append(measure())
        goes_on = False
        for watch in self._watched:
            value = watch.measure()
            if value * watch.sign <= watch.limit or value != value or time_ns < watch.after_ns:
                watch.since_ns = -1
                continue
            if watch.since_ns < 0:
                watch.since_ns = time_ns
            if time_ns - watch.since_ns >= watch.hold_ns:
                watch.met_ns = time_ns
                if not watch.goes_on:
                    return StopReason(watch.name, watch.condition, value)
                goes_on = True
        if goes_on:
            # Those that are met once and end nothing are not looked at again.
            self._watched = [each for each in self._watched if each.met_ns < 0]
        return None

    def metrics(self) -> tuple[dict[str, float], str]:
        """Return the metrics of the run so far, and the first fault of a function, one line; "" for none.

        A metric without a value, and one whose function raises, is NaN.
        """
        found: dict[str, float] = {}
        fault = ""
        for name, metric in self._metrics.items():
            if metric.time_to:
                met = next(each.met_ns for each in self._watches if each.name == metric.time_to)
                found[name] = met / SECOND_NS if met >= 0 else math.nan
            elif metric.function:
                function = self._run.load_function(metric.function)
                try:
                    found[name] = float(function(self._run, **dict(metric.arguments)))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - the other metrics are kept
                    found[name] = math.nan
                    fault = fault or f"metrics.{name}: {describe_fault(error)}"
            else:
                assert metric.signal is not None
                found[name] = self._statistic(name, metric, metric.signal)
        return found, fault

    def _add_metric(self, name: str, metric: RunMetric) -> None:
        if metric.time_to:
            names = [each.name for each in self._watches]
            if metric.time_to not in names:
                raise OptionError(
                    f"metrics.{name}: there is no stop condition {quoted(metric.time_to)}; "
                    f"{alternatives(metric.time_to, names)}"
                )
        elif metric.function:
            self._run.load_function(metric.function)
        elif metric.signal is None:
            raise OptionError(f"metrics.{name}: give a signal, a function or time_to")
        else:
            if metric.statistic not in STATISTICS:
                raise OptionError(f"metrics.{name}: {one_of(metric.statistic, STATISTICS)}")
            number(metric.after, f"metrics.{name}.after")
            self._record(name, metric.signal)

    def _record(self, name: str, signal: Signal) -> None:
        """Record a signal, once for all metrics of it."""
        if any(each == signal for each, _ in self._shared):
            return
        values = array("d")
        self._shared.append((signal, values))
        self._recorded.append((values.append, _made(signal, self._run, f"metrics.{name}")))

    def _statistic(self, name: str, metric: RunMetric, signal: Signal) -> float:
        recorded = next(values for each, values in self._shared if each == signal)
        values = np.frombuffer(recorded, dtype=np.float64) if recorded else np.zeros(0)
        # Sample k is of the time (k + 1) * step.
        skipped = max(-(-round(number(metric.after, name) * SECOND_NS) // self._step_ns) - 1, 0)
        values = values[skipped:]
        if not values.size:
            return math.nan
        if metric.statistic == "percentile":
            return float(np.percentile(values, metric.percentile))
        if metric.statistic == "integral":
            return float(values.sum()) * self._step_ns / SECOND_NS
        return float(STATISTICS[metric.statistic](values))


def number(value: Any, what: str) -> float:
    """Return a number of a sweep.

    Raises:
        OptionError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{what}: {quoted(value)} is no finite number")
    return float(value)


def _made(signal: Signal, run: RunContext, place: str) -> Measure:
    try:
        return make_signal(signal, run)
    except BridgeError as error:
        raise OptionError(f"{place}: {error}") from None


def _rms(values: NDArray[np.float64]) -> Any:
    return math.sqrt(float(np.mean(values * values)))


STATISTICS: dict[str, Any] = {
    "final": lambda values: values[-1],
    "initial": lambda values: values[0],
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "integral": np.sum,
    "rms": _rms,
    "stddev": np.std,
    "range": np.ptp,
    "percentile": np.percentile,
}
"""What each statistic makes of the values of a signal."""
