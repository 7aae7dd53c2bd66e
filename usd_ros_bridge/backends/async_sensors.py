"""Asynchronous sensors: measured beside the loop, once in each period of their rate; and their noise."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray

_RATE_CHECK_NS = 3_000_000_000
_RATE_CHECK_PERIODS = 10
_TOLERATED_MISSES = 0.05


def period_at(time_ns: int, rate: float) -> int:
    """Return the index of the period of a rate (Hz) that contains a time, counted from bridge time 0.

    A time just before a period belongs to it: a third of a second is no whole number of nanoseconds, and no reason to
    wait for the next step.
    """
    return int(time_ns * 1e-9 * rate + 1e-4)


class MeasuringWorker(Protocol):
    """A thread that measures copies of the state. All methods are for the thread that steps."""

    @property
    def report(self) -> Report:
        """Return what receives reports of sensors that are too slow."""
        ...

    @property
    def lockstep(self) -> bool:
        """Return whether the simulation waits for measurements."""
        ...

    def collect(self, time_ns: int) -> None:
        """Store all results that are done, once per time."""
        ...

    def snapshot(self, time_ns: int) -> Any:
        """Return a copy of the state, the same one for all requests at one time."""
        ...

    def submit(self, prim: str, snapshot: Any, job: Any) -> Future[Any]:
        """Queue a measurement."""
        ...


class AsyncSensor:
    """A sensor that a worker measures in a thread of its own.

    It is due once in each period, counted from bridge time 0: sensors of one rate measure the same states, whenever
    their subscribers came. At most one measurement of a sensor is pending; periods that begin meanwhile are skipped,
    and reported once.

    Attributes:
        prim: Prim path of the interface.
        rate: Hz.
        sample: The newest measurement, None while there is none.
        requested_ns: Bridge time of the last `measure`, -1 before.
        peers: Sensors that always measure the same states as this one: an Image and its CompressedImage.
    """

    def __init__(self, worker: MeasuringWorker, prim: str, rate: float, job: Any) -> None:
        self.prim = prim
        self.rate = rate
        self.requested_ns = -1
        self.sample: SensorSample | None = None
        self.peers: tuple[AsyncSensor, ...] = ()
        self._period_ns = max(round(1e9 / rate), 1)
        self._worker = worker
        self._job = job
        self._pending: Future[Any] | None = None
        self._pending_ns = -1
        self._error: BaseException | None = None
        self._period = -1
        self._check_start_ns = -1
        self._count = 0
        self._skipped = False

    def measure(self, time_ns: int) -> SensorSample | None:
        """Return the newest measurement, None while there is none; start another one where one is due.

        Args:
            time_ns: Bridge time of the simulation's state.

        Raises:
            Exception: The exception of a measurement, once.
        """
        self._worker.collect(time_ns)
        self._check_rate(time_ns)
        self.requested_ns = time_ns
        self._start_if_due(time_ns)
        if self._worker.lockstep:
            self.collect()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self.sample

    def collect(self) -> None:
        """Store the result of a measurement that is done; wait for it in lockstep."""
        pending = self._pending
        if pending is None or not (self._worker.lockstep or pending.done()):
            return
        self._pending = None
        self._error = pending.exception()
        if self._error is None:
            self.sample = pending.result()

    def reset(self) -> None:
        """Drop the sample and the pending measurement."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        self.sample = self._error = None
        self.requested_ns = self._period = -1
        self._skipped = False

    def measures_other(self, time_ns: int) -> bool:
        """Return whether a measurement of the state at another time is pending."""
        return self._pending is not None and self._pending_ns != time_ns

    def _start_if_due(self, time_ns: int) -> None:
        period = period_at(time_ns, self.rate)
        if period == self._period:
            return
        if self._pending is not None or any(peer.measures_other(time_ns) for peer in self.peers):
            self._skipped = True
            return
        self._period = period
        self._pending_ns = time_ns
        self._count += 1
        self._pending = self._worker.submit(self.prim, self._worker.snapshot(time_ns), self._job)

    def _check_rate(self, time_ns: int) -> None:
        """Report a rate that is not reached while measurements are requested without a pause.

        The first measurement does not count: it includes one-time preparations.
        """
        paused = self.sample is None or time_ns - self.requested_ns > 2 * self._period_ns
        elapsed = time_ns - self._check_start_ns
        if not paused and elapsed < max(_RATE_CHECK_NS, _RATE_CHECK_PERIODS * self._period_ns):
            return
        # A loop that requests too seldom is not the sensor's fault: nothing was pending then.
        expected = elapsed // self._period_ns
        if not paused and self._skipped and self._count < (1.0 - _TOLERATED_MISSES) * expected:
            achieved = self._count / (elapsed * 1e-9)
            self._worker.report(
                f"sensor.slow:{self.prim}",
                f"{self.prim}: {self.rate:g} Hz of bridge time were asked for, and {achieved:.3g} Hz were achieved: a "
                "measurement takes too long; lower its resolution, its rate, or real_time_factor",
            )
        self._check_start_ns, self._count, self._skipped = time_ns, 0, False


class SensorNoise:
    """Gaussian noise of one sensor, a function of the seed, the prim and the stamp alone.

    The same stamp has the same noise after a reset, at another rate or with other subscribers.
    """

    def __init__(self, seed: int, path: str) -> None:
        """Initialize.

        Args:
            seed: The bridge's seed.
            path: Prim path of the sensor.
        """
        digest = hashlib.blake2b(f"{seed}:{path}".encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest, "little"))
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state

    def normal(self, count: int, time_ns: int) -> FloatArray:
        """Return `count` standard normal numbers of the measurement at `time_ns`."""
        return self.generator(time_ns).standard_normal(count)

    def generator(self, time_ns: int) -> np.random.Generator:
        """Return the generator of the measurement at `time_ns`, at its start. The next call moves it."""
        counter = self._state["state"]["counter"]
        # The low word counts within a measurement, the third word is its time: no two measurements overlap.
        counter[:] = (0, 0, time_ns, 0)
        self._philox.state = self._state
        return self._generator
