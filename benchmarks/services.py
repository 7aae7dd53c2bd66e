"""Services: the round trip of a call to a handler that is bound to a bridge, beside a server of rclpy alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.peers.serve import SERVICES
from benchmarks.processes import peer

ROUND_TRIP = Target(1.0)
_TIMEOUT = 30.0
_WARM_UP = 50


def run(options: Options) -> Iterator[Result]:
    """Yields the median round trip to the bridge and to rclpy alone, called in turns."""
    import rclpy

    context = rclpy.Context()
    rclpy.init(context=context)
    with peer("serve", "bridge") as bridge, peer("serve", "plain") as plain:
        for each in (bridge, plain):
            each.wait_for("ready")
        caller = _Caller(context)
        try:
            calls = options.scaled(500, 50)
            caller.round_trips(_WARM_UP)
            runs = [caller.round_trips(calls) for _ in range(options.repeats)]
        finally:
            caller.close()
            rclpy.shutdown(context=context)
    call = "std_srvs/SetBool from another process, rclpy's client; calls in turns"
    yield median_result(
        "controllers.service.round_trip",
        [statistics.median(each["bridge"]) * 1e3 for each in runs],
        "ms",
        target=ROUND_TRIP,
        compared_with=f"a handler bound with on_service, in a bridge that spins on the rover; {call}",
    )
    yield median_result(
        "controllers.service.plain",
        [statistics.median(each["plain"]) * 1e3 for each in runs],
        "ms",
        compared_with="a node of rclpy with nothing but the service, in the same turns",
    )
    yield median_result(
        "controllers.service.ratio",
        [statistics.median(each["bridge"]) / statistics.median(each["plain"]) for each in runs],
        "x",
        compared_with="the bridge over rclpy alone, run by run",
    )


class _Caller:
    """A node with a client of each server."""

    def __init__(self, context: Any) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from std_srvs.srv import SetBool

        self._node = rclpy.create_node("benchmark_caller", context=context)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self._node)
        self._request = SetBool.Request(data=True)
        self._clients = {kind: self._node.create_client(SetBool, name) for kind, name in SERVICES.items()}

    def round_trips(self, calls: int) -> dict[str, list[float]]:
        """Calls the servers in turns, and returns what each call took, seconds.

        Raises:
            BenchmarkError: One does not answer, or not what it should.
        """
        for kind, client in self._clients.items():
            if not client.wait_for_service(_TIMEOUT):
                raise BenchmarkError(f"nobody serves {SERVICES[kind]}")
        seconds: dict[str, list[float]] = {kind: [] for kind in self._clients}
        for _ in range(calls):
            for kind, client in self._clients.items():
                begin = time.perf_counter()
                future = client.call_async(self._request)
                # Not `spin_until_future_complete`: in Jazzy each call of it is slower than the one before, because the
                # executor keeps its done tasks whenever the condition is a new one.
                while not future.done() and time.perf_counter() - begin < _TIMEOUT:
                    self._executor.spin_once(_TIMEOUT)
                seconds[kind].append(time.perf_counter() - begin)
                if not (future.done() and future.result().success):
                    raise BenchmarkError(f"{SERVICES[kind]} does not answer as it should")
        return seconds

    def close(self) -> None:
        """Destroys the node."""
        self._executor.shutdown()
        self._node.destroy_node()
