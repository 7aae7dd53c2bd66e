"""Measuring beside the loop: on the state of the stamp, at the authored rate, or less often and said so."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("mujoco", reason="mujoco is not installed: pip install usd-ros-bridge[mujoco]")

import mujoco

from usd_ros_bridge.backends.mujoco.instruments import Arrays
from usd_ros_bridge.backends.mujoco.sensors import SensorWorker
from usd_ros_bridge.model.state import SensorSample

MS = 1_000_000
PRIM = "/camera"
WORLD = """
<mujoco>
  <worldbody>
    <body name="slider"><joint type="slide" axis="1 0 0"/><geom size=".1"/></body>
    <body name="moved" mocap="true"><geom size=".1"/></body>
  </worldbody>
</mujoco>
"""
PATIENCE = 60.0


class Bench:
    """A slider at x = time in seconds and a kinematic body at y = time, asked at times that the test says."""

    def __init__(self, *, lockstep: bool) -> None:
        self.model = mujoco.MjModel.from_xml_string(WORLD)
        self.data = mujoco.MjData(self.model)
        self.reports: list[tuple[str, str]] = []
        self.worker = SensorWorker(
            self.model,
            self.data,
            report=lambda *report: self.reports.append(report),
            lockstep=lockstep,
            name="beside_test",
        )
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.now_ns = 0

    def look(self, data: Any) -> Arrays:
        self.threads.add(threading.current_thread().name)
        self.begun.release()
        assert self.gate.wait(PATIENCE)
        return {"data": np.array([data.xpos[1, 0], data.xpos[2, 1]])}

    def at(self, time_ns: int) -> int:
        self.now_ns = time_ns
        self.data.qpos[0] = time_ns * 1e-9
        self.data.mocap_pos[0, 1] = time_ns * 1e-9
        return time_ns

    def settle(self) -> None:
        """Waits until everything that was submitted is done."""
        done = threading.Event()

        def job(_: Any) -> Arrays:
            done.set()
            return {}

        self.worker.submit("/settle", self.worker.snapshot(self.now_ns), job)
        assert done.wait(PATIENCE)


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*, lockstep: bool = False) -> Bench:
        made.append(Bench(lockstep=lockstep))
        return made[-1]

    yield make
    for each in made:
        each.gate.set()
        each.worker.close()


def values(sample: SensorSample | None) -> np.ndarray:
    assert sample is not None
    return np.asarray(sample.arrays["data"])


def test_a_sample_shows_the_state_of_its_stamp_whatever_came_after(bench: Callable[..., Bench]) -> None:
    it = bench()
    sensor = it.worker.add_sensor(PRIM, 10.0, it.look)
    it.gate.clear()
    assert sensor.measure(it.at(100 * MS)) is None
    assert it.begun.acquire(timeout=PATIENCE)
    it.at(170 * MS)
    it.gate.set()
    it.settle()
    sample = sensor.measure(it.at(180 * MS))
    assert sample is not None
    assert sample.stamp_ns == 100 * MS
    assert_allclose(values(sample), 0.1)
    assert it.threads == {"beside_test_0"}


def test_it_is_measured_once_in_a_period_of_bridge_time(bench: Callable[..., Bench]) -> None:
    it = bench(lockstep=True)
    sensor = it.worker.add_sensor(PRIM, 15.0, it.look)
    stamps = []
    for tick in range(1, 401):
        sample = sensor.measure(it.at(tick * 5 * MS))
        assert sample is not None
        assert_allclose(values(sample), sample.stamp_ns * 1e-9)
        stamps.append(sample.stamp_ns)
    # The first one at once, then with the first step at or after each k / 15 s.
    due = [math.ceil(k * 1000 / 15 / 5 - 1e-9) * 5 * MS for k in range(1, 31)]
    assert sorted(set(stamps)) == [5 * MS, *due]


def test_what_cannot_keep_its_rate_is_skipped_and_said_so(bench: Callable[..., Bench]) -> None:
    it = bench()
    sensor = it.worker.add_sensor(PRIM, 10.0, it.look)
    sensor.measure(it.at(10 * MS))
    it.settle()
    assert sensor.measure(it.at(20 * MS)) is not None
    it.gate.clear()
    for tick in range(3, 1000):
        sensor.measure(it.at(tick * 10 * MS))
    assert it.begun.acquire(timeout=PATIENCE)
    assert it.begun.acquire(timeout=PATIENCE)
    assert {kind for kind, _ in it.reports} == {f"sensor.slow:{PRIM}"}
    assert "10 Hz of bridge time were asked for" in it.reports[0][1]
    it.gate.set()
    it.settle()
    # One measurement was pending and no other: the rest of the periods were skipped.
    assert not it.begun.acquire(blocking=False)
    sample = sensor.measure(it.at(10_000 * MS))
    assert sample is not None
    assert sample.stamp_ns == 100 * MS
    it.settle()
    assert values(sensor.measure(it.at(10_010 * MS)))[0] == pytest.approx(10.0)


def test_a_loop_that_asks_too_seldom_is_not_the_sensors_fault(bench: Callable[..., Bench]) -> None:
    it = bench()
    sensor = it.worker.add_sensor(PRIM, 100.0, it.look)
    for tick in range(1, 1000):
        sensor.measure(it.at(tick * 20 * MS))
        it.settle()
    assert it.reports == []


def test_sensors_of_a_rate_show_the_same_state(bench: Callable[..., Bench]) -> None:
    it = bench()
    first, second = (it.worker.add_sensor(f"/{n}", 10.0, it.look) for n in (1, 2))
    for sensor in (first, second):
        sensor.measure(it.at(100 * MS))
    it.settle()
    samples = [sensor.measure(it.at(110 * MS)) for sensor in (first, second)]
    assert [sample and sample.stamp_ns for sample in samples] == [100 * MS, 100 * MS]
    assert [sample and sample.prim for sample in samples] == ["/1", "/2"]


def test_all_that_is_asked_at_one_time_is_of_the_same_moment(bench: Callable[..., Bench]) -> None:
    it = bench()
    first, second = (it.worker.add_sensor(f"/{n}", 10.0, it.look) for n in (1, 2))
    it.gate.clear()
    for sensor in (first, second):
        sensor.measure(it.at(100 * MS))
    assert first.measure(it.at(110 * MS)) is None
    it.gate.set()
    it.settle()
    assert second.measure(it.at(110 * MS)) is None
    assert second.measure(it.at(120 * MS)) is not None


def test_lockstep_gives_the_same_samples_again(bench: Callable[..., Bench]) -> None:
    runs = []
    for _ in range(2):
        it = bench(lockstep=True)
        sensor = it.worker.add_sensor(PRIM, 30.0, it.look)
        samples = [sensor.measure(it.at(tick * 2 * MS)) for tick in range(1, 200)]
        runs.append([(s.stamp_ns, values(s).tobytes()) for s in samples if s is not None])
    assert runs[0] == runs[1]
    assert len(runs[0]) == 199


def test_what_raises_is_reported_once_and_the_next_one_counts(bench: Callable[..., Bench]) -> None:
    it = bench(lockstep=True)
    faults = iter([True, False])

    def job(data: Any) -> Arrays:
        if next(faults):
            raise RuntimeError("the lens cap is on")
        return it.look(data)

    sensor = it.worker.add_sensor(PRIM, 10.0, job)
    with pytest.raises(RuntimeError, match="lens cap"):
        sensor.measure(it.at(100 * MS))
    assert sensor.measure(it.at(150 * MS)) is None
    assert_allclose(values(sensor.measure(it.at(200 * MS))), 0.2)


def test_a_reset_drops_what_was_under_way(bench: Callable[..., Bench]) -> None:
    it = bench()
    sensor = it.worker.add_sensor(PRIM, 10.0, it.look)
    it.gate.clear()
    sensor.measure(it.at(500 * MS))
    assert it.begun.acquire(timeout=PATIENCE)
    it.worker.reset()
    assert sensor.measure(it.at(10 * MS)) is None
    it.gate.set()
    it.settle()
    sample = sensor.measure(it.at(20 * MS))
    assert sample is not None
    assert sample.stamp_ns == 10 * MS


def test_closing_ends_the_thread_after_releasing_what_it_owns(bench: Callable[..., Bench]) -> None:
    it = bench()
    released: list[str] = []
    it.worker.on_close(lambda: released.append(threading.current_thread().name))
    sensor = it.worker.add_sensor(PRIM, 10.0, it.look)
    sensor.measure(it.at(100 * MS))
    it.worker.close()
    it.worker.close()
    assert released == ["beside_test_0"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("beside_test")]


def test_without_a_measurement_there_is_no_thread(bench: Callable[..., Bench]) -> None:
    it = bench()
    released: list[str] = []
    it.worker.on_close(lambda: released.append("released"))
    it.worker.add_sensor(PRIM, 10.0, it.look)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("beside_test")]
    it.worker.close()
    assert released == []


def test_the_simulation_is_left_alone(bench: Callable[..., Bench]) -> None:
    it = bench(lockstep=True)
    sensor = it.worker.add_sensor(PRIM, 10.0, it.look)
    it.at(100 * MS)
    before = it.data.xpos.copy(), it.data.qpos.copy()
    sensor.measure(100 * MS)
    assert_array_equal(it.data.xpos, before[0])
    assert_array_equal(it.data.qpos, before[1])
