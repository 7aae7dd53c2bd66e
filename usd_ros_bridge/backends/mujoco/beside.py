"""Measures heavy sensors beside the loop: on snapshots of the state, in a thread of its own, at their own rate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.state import SensorSample

Arrays = Mapping[str, NDArray[Any]]

Job = Callable[[Any], Arrays]
"""Measures on the worker's own MjData, whose poses are those of the snapshot; returns arrays that nobody changes."""

_JUDGED_NS = 3_000_000_000
_JUDGED_PERIODS = 10
_MISSED = 0.05
_PATIENCE_S = 1.0


def period_at(time_ns: int, rate: float) -> int:
    """Returns which period of a rate (Hz) a time is in, counted from bridge time 0.

    A time just before a period counts for it: a third of a second is no whole number of nanoseconds, and no reason to
    wait for the next step.
    """
    return int(time_ns * 1e-9 * rate + 1e-4)


class Simulated(Protocol):
    """What there is to take snapshots of: an MjModel, and an MjData whose positions are those of `time_ns`."""

    @property
    def model(self) -> Any: ...  # noqa: D102 - see the class

    @property
    def data(self) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All that poses follow from.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds.
        qpos: (nq,) positions.
        mocap_pos: (nmocap, 3) positions of kinematic bodies.
        mocap_quat: (nmocap, 4) their quaternions, w x y z.
    """

    time_ns: int
    qpos: NDArray[np.float64]
    mocap_pos: NDArray[np.float64]
    mocap_quat: NDArray[np.float64]

    @classmethod
    def take(cls, simulation: Simulated, time_ns: int) -> Snapshot:
        """Copies the state of a simulation."""
        data = simulation.data
        return cls(
            time_ns=time_ns,
            qpos=data.qpos.copy(),
            mocap_pos=data.mocap_pos.copy(),
            mocap_quat=data.mocap_quat.copy(),
        )

    def show(self, model: Any, data: Any) -> None:
        """Puts all poses of `data` to those of the snapshot: bodies, geoms, sites, cameras and lights."""
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = self.qpos, self.mocap_pos, self.mocap_quat
        data.time = self.time_ns * 1e-9
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)


class BesideSensor:
    """A sensor that is measured beside the loop.

    It is due once in each period, counted from bridge time 0: sensors of one rate show the same states, whenever
    somebody began to listen. At most one measurement of a sensor is under way; periods that begin meanwhile are
    skipped, and said to be, once.

    Attributes:
        peers: Sensors that show the same states as this one, whatever is skipped: an Image and a CompressedImage.
    """

    def __init__(self, beside: Beside, prim: str, rate: float, job: Job) -> None:
        """Made by `Beside.sensor`."""
        self.prim = prim
        self.rate = rate
        self.period_ns = max(round(1e9 / rate), 1)
        self.asked_ns = -1
        self.sample: SensorSample | None = None
        self.peers: tuple[BesideSensor, ...] = ()
        self._beside = beside
        self._job = job
        self._began_ns = -1
        self._pending: Future[SensorSample] | None = None
        self._error: BaseException | None = None
        self._slot = -1
        self._since_ns = -1
        self._taken = 0
        self._busy = False

    def measure(self, time_ns: int) -> SensorSample | None:
        """Returns the newest measurement, None while there is none; begins another one where one is due.

        Args:
            time_ns: Bridge time of the simulation's state.

        Raises:
            Exception: What a measurement raised, once.
        """
        self._beside.latch(time_ns)
        self._judge(time_ns)
        self.asked_ns = time_ns
        self._begin(time_ns)
        if self._beside.lockstep:
            self.latch()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self.sample

    def latch(self) -> None:
        """Takes the result of a measurement that is done; in lockstep it is waited for."""
        pending = self._pending
        if pending is None or not (self._beside.lockstep or pending.done()):
            return
        self._pending = None
        self._error = pending.exception()
        if self._error is None:
            self.sample = pending.result()

    def forget(self) -> None:
        """Drops what was measured, and what is under way."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        self.sample = self._error = None
        self.asked_ns = self._slot = -1
        self._busy = False

    def measures_other(self, time_ns: int) -> bool:
        """Returns whether the state of another time is being measured."""
        return self._pending is not None and self._began_ns != time_ns

    def _begin(self, time_ns: int) -> None:
        slot = period_at(time_ns, self.rate)
        if slot == self._slot:
            return
        if self._pending is not None or any(peer.measures_other(time_ns) for peer in self.peers):
            self._busy = True
            return
        self._slot = slot
        self._began_ns = time_ns
        self._taken += 1
        self._pending = self._beside.submit(self.prim, self._beside.snapshot(time_ns), self._job)

    def _judge(self, time_ns: int) -> None:
        """Compares what was measured with what was asked for, where it was asked for without a pause.

        The first measurement does not count: whatever it has to get ready takes its time once.
        """
        pause = self.sample is None or time_ns - self.asked_ns > 2 * self.period_ns
        judged = time_ns - self._since_ns
        if not pause and judged < max(_JUDGED_NS, _JUDGED_PERIODS * self.period_ns):
            return
        # A loop that asks too seldom is not the sensor's fault: nothing was under way then when it asked.
        if not pause and self._busy and self._taken < (1.0 - _MISSED) * (judged // self.period_ns):
            self._beside.report(
                f"sensor.slow:{self.prim}",
                f"{self.prim}: {self.rate:g} Hz of bridge time were asked for, and {self._taken / (judged * 1e-9):.3g} "
                f"Hz were achieved: a measurement takes too long; lower its resolution, its rate, or real_time_factor",
            )
        self._since_ns, self._taken, self._busy = time_ns, 0, False


class Beside:
    """A worker: one thread, which owns what it measures with (its MjData, its GL context).

    All methods are for the thread that steps. The worker's thread starts with the first measurement.

    Attributes:
        report: Takes what is too slow.
        lockstep: Whether measurements are waited for.
        model: The simulation's MjModel.
    """

    def __init__(
        self, simulation: Simulated, *, report: Report, lockstep: bool = False, name: str = "usd_ros_bridge.beside"
    ) -> None:  # fmt: skip
        """Stores what to take snapshots of.

        Args:
            simulation: The simulation.
            report: Takes what is too slow.
            lockstep: Wait for each measurement: the same states then give the same samples at the same times.
            name: Of the thread.
        """
        self.report = report
        self.lockstep = lockstep
        self.model = simulation.model
        self._simulation = simulation
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._sensors: list[BesideSensor] = []
        self._releases: list[Callable[[], None]] = []
        self._resets: list[Callable[[], None]] = []
        self._data: Any = None
        self._shown: Snapshot | None = None
        self._snapshot: Snapshot | None = None
        self._latched_ns = -1
        self._started = self._closed = False
        self._ended = threading.Event()
        self._before: threading.Event | None = None

    def follow(self, other: Beside) -> None:
        """Begins when another one has ended, which is closed soon: what it owned can be used again then."""
        self._before = other._ended

    def sensor(self, prim: str, rate: float, job: Job) -> BesideSensor:
        """Returns a sensor that `job` measures.

        Args:
            prim: Prim path of the interface.
            rate: Hz.
            job: Measures; runs in the worker's thread.
        """
        sensor = BesideSensor(self, prim, rate, job)
        self._sensors.append(sensor)
        return sensor

    @property
    def shown(self) -> Snapshot | None:
        """The snapshot that the worker measures now; for jobs, which run in its thread."""
        return self._shown

    def at_close(self, release: Callable[[], None]) -> None:
        """Has `release` called at the end in the worker's thread, if that was ever started."""
        self._releases.append(release)

    def at_reset(self, forget: Callable[[], None]) -> None:
        """Has `forget` called by `reset`."""
        self._resets.append(forget)

    def snapshot(self, time_ns: int) -> Snapshot:
        """Returns a copy of the simulation's state, the same one for all who ask at one time."""
        if self._snapshot is None or self._snapshot.time_ns != time_ns:
            self._snapshot = Snapshot.take(self._simulation, time_ns)
        return self._snapshot

    def submit(self, prim: str, snapshot: Snapshot, job: Job) -> Future[SensorSample]:
        """Has `job` measure a snapshot, after what was submitted before."""
        self._started = True
        return self._executor.submit(self._measure, prim, snapshot, job)

    def latch(self, time_ns: int) -> None:
        """Takes all results that are done, once per time: whoever asks at one time sees results of the same moment."""
        if time_ns == self._latched_ns:
            return
        self._latched_ns = time_ns
        for sensor in self._sensors:
            sensor.latch()

    def reset(self) -> None:
        """Drops all that was measured and is under way: time may start over."""
        for sensor in self._sensors:
            sensor.forget()
        for forget in self._resets:
            forget()
        self._snapshot = None
        self._latched_ns = -1

    def close(self) -> None:
        """Ends the thread after the measurement that is under way, and releases what it owns. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for sensor in self._sensors:
            sensor.forget()
            sensor.peers = ()
        released = None
        if self._started:
            # Refused while the interpreter shuts down: what the thread owns ends with the process then.
            with suppress(RuntimeError):
                released = self._executor.submit(self._release)
        self._executor.shutdown(wait=True)
        if released is not None:
            released.result()
        # They know of this in turn: without them the simulation is freed now, and not by a search that holds up a tick.
        for known in (self._sensors, self._releases, self._resets):
            known.clear()
        self._ended.set()

    def _measure(self, prim: str, snapshot: Snapshot, job: Job) -> SensorSample:
        if self._before is not None:
            self._before.wait(_PATIENCE_S)
            self._before = None
        if self._data is None:
            self._data = mujoco.MjData(self.model)
        if self._shown is not snapshot:
            snapshot.show(self.model, self._data)
            self._shown = snapshot
        return SensorSample(prim=prim, stamp_ns=snapshot.time_ns, arrays=job(self._data))

    def _release(self) -> None:
        for release in self._releases:
            release()
        self._data = self._shown = None
