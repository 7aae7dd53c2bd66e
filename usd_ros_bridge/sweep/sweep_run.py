"""One run of a sweep at a time, in lockstep. A worker keeps the stage, and what does not change, between runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Final, Literal, NamedTuple

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.recording.latest_messages import LatestMessages
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge
from usd_ros_bridge.sweep.distributions import Scalar
from usd_ros_bridge.sweep.function_driver import NEVER, Commander, CommandSchedule, FunctionRunner
from usd_ros_bridge.sweep.function_loader import describe_fault
from usd_ros_bridge.sweep.launch_driver import LaunchRunner, LiveBridge
from usd_ros_bridge.sweep.run_context import RunBridge, RunContext
from usd_ros_bridge.sweep.run_measurement import RunMeasurement, StopReason, number
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_asset import SweepAsset
from usd_ros_bridge.sweep.sweep_description import FunctionDriver, LaunchDriver, Sweep, resolve

Ending = Literal["completed", "stopped", "failed"]
MAX_WARNINGS: Final = 20
_PROGRESS_S: Final = 0.25
_CHECKED_STEPS: Final = 16
"""Steps between two checks of the clock, and of whether the state is finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What came of a run.

    Attributes:
        id: Of the run.
        index: Of the run.
        outcome: `completed` its duration, `stopped` by a condition or by the driver, or `failed`.
        reason: Of a stop or failure, one line; "" for a completed run.
        metrics: Metrics by name; NaN where there is none. Empty for a run that failed before its first step.
        drawn: Values of the randomisation by name.
        sim_time: Simulated seconds.
        steps: Number of steps.
        setup_time: Wall-clock seconds before the first step.
        run_time: Wall-clock seconds of all steps.
        warnings: What the bridge reported, each kind once, 20 at most.
    """

    id: str
    index: int
    outcome: Ending
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, Scalar] = field(default_factory=dict)
    sim_time: float = 0.0
    steps: int = 0
    setup_time: float = 0.0
    run_time: float = 0.0
    warnings: tuple[str, ...] = ()


class _RunError(BridgeError):
    """The backend failed, or its state is of no use any more."""


class RunWorker:
    """Make the runs of a sweep, one after another, in any order: a run depends on its spec alone."""

    def __init__(self, sweep: Sweep) -> None:
        """Args: sweep: What is run. Nothing is opened before the first run."""
        self._sweep = sweep
        self._asset: SweepAsset | None = None

    def check(self, spec: RunSpec) -> None:
        """Open the asset, and find what a run names in it: prims, bodies, joints, functions. No driver is started.

        Args:
            spec: A run of the sweep.

        Raises:
            BridgeError: The asset cannot be opened, or something that the sweep names is not there. One line.
        """
        run = _SingleRun(self, resolve(self._sweep, spec.parameters), spec)
        with run.opened():
            pass

    def run(
        self,
        spec: RunSpec,
        *,
        record: Path | None = None,
        domain_id: int | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> RunOutcome:
        """Make a run.

        Args:
            spec: The run.
            record: MCAP file to write; it must not exist.
            domain_id: DDS domain of the run, for a driver that is a ROS launch file (`Sweep.needs_domain`).
            on_progress: Called with the simulated time, seconds, a few times per second.

        Returns:
            What came of it. Whatever the driver, the asset or the backend raises is a failed outcome.
        """
        began = perf_counter()
        try:
            sweep = resolve(self._sweep, spec.parameters)
            if sweep.needs_domain and domain_id is None:
                raise OptionError("driver.launch: such a run needs a DDS domain")
            live = domain_id if sweep.needs_domain else None
            run = _SingleRun(self, sweep, spec, record=record, domain_id=live)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - never ends the worker
            return RunOutcome(
                id=spec.id,
                index=spec.index,
                outcome="failed",
                reason=_reason(error),
                setup_time=perf_counter() - began,
            )
        return run.make(began, on_progress or (lambda _: None))

    def open_asset(self) -> SweepAsset:
        """Return the asset, open: the first call opens it.

        Raises:
            BridgeError: It cannot be opened.
        """
        if self._asset is None:
            self._asset = SweepAsset(self._sweep)
        return self._asset

    def close(self) -> None:
        """Close the stage. Idempotent."""
        if self._asset is not None:
            self._asset.close()
            self._asset = None


class _Opened(NamedTuple):
    """What steps, measures and commands a run."""

    bridge: RunBridge
    context: RunContext
    measurement: RunMeasurement
    commanders: list[Commander]


class _SingleRun:
    """A run from its plan to its outcome."""

    def __init__(
        self,
        worker: RunWorker,
        sweep: Sweep,
        spec: RunSpec,
        *,
        record: Path | None = None,
        domain_id: int | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            worker: Has the asset.
            sweep: With the run's parameters.
            spec: The run.
            record: MCAP file to write, or None.
            domain_id: DDS domain of a live run; None: the run has no middleware.

        Raises:
            OptionError: The duration is not possible.
        """
        self._worker = worker
        self._sweep = sweep
        self._spec = spec
        self._record = record
        self._domain_id = domain_id
        self._reports: dict[str, str] = {}
        self._drawn: Mapping[str, Scalar] = {}
        self._steps = 0
        self._step_ns = 0
        self._duration_ns = max(round(number(sweep.duration, "duration") * SECOND_NS), 0)
        if not self._duration_ns:
            raise OptionError("duration: give the seconds of simulated time, above 0")

    def make(self, began: float, on_progress: Callable[[float], None]) -> RunOutcome:
        """Make the run. Return its outcome, whatever happens.

        Args:
            began: When the set-up began, of `perf_counter`.
            on_progress: As for `RunWorker.run`.
        """
        outcome: Ending = "failed"
        metrics: Mapping[str, float] = {}
        started = 0.0
        ended = 0.0
        try:
            with self.opened() as opened:
                started = perf_counter()
                try:
                    outcome, reason = self._loop(opened, on_progress)
                except Exception as error:  # noqa: BLE001 - a failed run has metrics, too
                    reason = _reason(error)
                ended = perf_counter()
                if self._steps:
                    metrics, fault = opened.measurement.metrics()
                    metrics = {**metrics, **opened.context.metrics}
                    if fault and outcome != "failed":
                        outcome, reason = "failed", fault
        except (Exception, SystemExit) as error:  # noqa: BLE001 - never ends the worker
            outcome, reason = "failed", _reason(error)
        now = perf_counter()
        return RunOutcome(
            id=self._spec.id,
            index=self._spec.index,
            outcome=outcome,
            reason=reason,
            metrics=metrics,
            drawn=self._drawn,
            sim_time=self._steps * self._step_ns / SECOND_NS,
            steps=self._steps,
            setup_time=(started or now) - began,
            run_time=(ended or now) - started if started else 0.0,
            warnings=tuple(self._reports.values()),
        )

    @contextmanager
    def opened(self) -> Iterator[_Opened]:
        """Plan the run, open its bridge, and find what it names. A launch file is started.

        Raises:
            BridgeError: Something is not possible, or not there.
        """
        sweep = self._sweep
        asset = self._worker.open_asset()
        plan, self._drawn = asset.plan(sweep, self._spec)
        with ExitStack() as resources:
            messages = LatestMessages()
            bridge = self._make_bridge(plan, asset.options.bridge, messages)
            resources.enter_context(bridge)
            context = RunContext(
                bridge,
                self._spec,
                drawn=self._drawn,
                directory=sweep.directory,
                messages=messages if self._domain_id is None else None,
            )
            self._step_ns = self._find_step(bridge)
            measurement = RunMeasurement(context, sweep.stop, sweep.metrics, self._step_ns)
            commanders: list[Commander] = []
            if sweep.commands:
                commanders.append(CommandSchedule(sweep.commands, context))
            if isinstance(sweep.driver, FunctionDriver):
                driver = FunctionRunner(sweep.driver, context)
                resources.callback(driver.close)
                commanders.append(driver)
            elif isinstance(sweep.driver, LaunchDriver):
                launch = LaunchRunner(sweep.driver, context, directory=sweep.directory)
                resources.callback(launch.close)
                if self._domain_id is not None and isinstance(bridge, LiveBridge):
                    launch.start(self._domain_id, bridge)
                commanders.append(launch)
            yield _Opened(bridge, context, measurement, commanders)

    def _make_bridge(
        self, plan: BridgePlan, options: BridgeOptions, messages: LatestMessages
    ) -> OfflineBridge | LiveBridge:
        made = self._bridge_options(options)
        backend = self._sweep.backend
        if self._domain_id is not None:
            made = replace(made, domain_id=self._domain_id, real_time_factor=0.0)
            return LiveBridge(plan, backend, options=made, report=self._report)
        return OfflineBridge(
            plan,
            backend,
            options=made,
            tap=messages,
            report=self._report,
            inform=lambda _kind, _message: None,
        )

    def _bridge_options(self, options: BridgeOptions) -> BridgeOptions:
        backend_options = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self._sweep.backend_options.items()
        }
        made = replace(
            options,
            backend_options=backend_options,
            seed=self._spec.seed,
            record=self._record,
            duration=0.0,
        )
        if self._record is None and self._domain_id is None:
            # Nobody reads them, and a URDF takes as long as reading the stage.
            made = replace(made, publish_description=False, publish_plan=False)
        return made

    def _find_step(self, bridge: RunBridge) -> int:
        """Return the time between steps, nanoseconds."""
        capabilities = bridge.runtime.capabilities
        if capabilities.topic_driven:
            raise OptionError("backend: the state of this backend arrives on topics, which a run has not")
        step_ns = capabilities.step_ns or round(number(self._sweep.step, "step") * SECOND_NS)
        if step_ns <= 0:
            raise OptionError("step: give the seconds between steps, above 0")
        if not capabilities.every_step:
            # Otherwise steps are skipped in which nothing is published.
            bridge.after_step(lambda _time, _state: None)
        return step_ns

    def _loop(self, opened: _Opened, on_progress: Callable[[float], None]) -> tuple[Ending, str]:
        """Step to the end. Return the outcome and its reason."""
        bridge, context, measurement, commanders = opened
        step, step_ns, sample = bridge.step, self._step_ns, measurement.sample
        last = -(-self._duration_ns // step_ns)
        snapshot, shown = context.snapshot, perf_counter()
        next_ns = min((each.next_ns for each in commanders), default=NEVER)
        time_ns = 0
        for done in range(1, last + 1):
            if next_ns <= time_ns:
                next_ns = self._act(commanders, time_ns)
            if context.stop_reason is not None:
                break
            time_ns += step_ns
            if not step(time_ns):
                raise _RunError(bridge.runtime.status().last_backend_error or "the backend gave no state")
            self._steps, context.time_ns = done, time_ns
            met = sample(time_ns)
            if met is not None:
                self._check(snapshot.state)
                return _ended(met)
            if done % _CHECKED_STEPS == 0:
                self._check(snapshot.state)
                now = perf_counter()
                if now - shown > _PROGRESS_S:
                    shown = now
                    on_progress(time_ns / SECOND_NS)
        if context.failed:
            return "failed", context.stop_reason or ""
        if self._steps:
            self._check(snapshot.state)
        return ("completed", "") if context.stop_reason is None else ("stopped", context.stop_reason)

    def _act(self, commanders: list[Commander], time_ns: int) -> int:
        """Let those command that are due. Return when the next one is, nanoseconds."""
        for each in commanders:
            if each.next_ns <= time_ns:
                each.act(time_ns)
        return min(each.next_ns for each in commanders)

    def _check(self, state: State) -> None:
        """Fail a run whose state is not finite, or was set back by the backend."""
        if not math.isfinite(float(state.body_pose.sum() + state.joint_position.sum())):
            raise _RunError("the state is not finite")
        for kind, message in self._reports.items():
            if kind.endswith(".diverged"):
                raise _RunError(message)

    def _report(self, kind: str, message: str) -> None:
        if len(self._reports) < MAX_WARNINGS:
            self._reports.setdefault(kind, message)


def _ended(met: StopReason) -> tuple[Ending, str]:
    outcome = met.condition.outcome
    return "stopped" if outcome == "continue" else outcome, str(met)


def _reason(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, BridgeError):
        return " ".join(str(error).split())
    return describe_fault(error)
