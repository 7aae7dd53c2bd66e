"""Discovery: processes with publishers join a ROS graph, by simple discovery and with a discovery server of Fast DDS.

They send the lists of their endpoints as the bridge's own processes do; `plain` are those that do as rclpy does.

By UDP on the loopback, in a network namespace of its own: as between machines, nothing goes by shared memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from benchmarks.harness import Options, Result
from benchmarks.processes import Child, in_own_network

Mode = Literal["simple", "server", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)[:2]


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph.

    Attributes:
        participants: Processes, not counting two observers.
        endpoints: Publishers of each.
    """

    participants: int
    endpoints: int

    @property
    def name(self) -> str:
        """Its part of a figure's name."""
        return f"{self.participants}x{self.endpoints}"


FITTED = (Graph(2, 250), Graph(4, 250), Graph(8, 250), Graph(16, 250), Graph(8, 50), Graph(8, 1000))
CHECKED = (Graph(12, 500),)
"""The cost model predicts it: it is not fitted to it."""
PLAIN = (Graph(8, 250), Graph(8, 1000))
"""Measured with plain processes, too, by simple discovery."""
QUICK = (Graph(2, 20), Graph(3, 50))

_TIMEOUT = 300.0
_REST_S = 3.0
"""A participant announces itself every three seconds."""

FIGURES: dict[str, tuple[str, str]] = {
    "meet": ("s", "from the node of the last process until it sees all other nodes"),
    "join": ("s", "from the node of the last process until an observer sees the publishers of all"),
    "late": ("s", "from the node of a second observer, which comes when all is there, until it sees them"),
    "bytes": (
        "MB",
        "on the wire, with headers, from the first node until all is known, the second observer left out",
    ),
    "packets": ("packets", "the same in UDP packets"),
    "late_bytes": ("MB", "on the wire because of the second observer"),
    "rest_bytes": ("kB/s", "on the wire while nothing happens"),
    "cpu": ("s", "CPU time of all processes with publishers together, until all is known"),
    "memory": ("MB", "PSS of a process, the mean; MB of 10^6 bytes"),
    "server_cpu": ("s", "CPU time of the discovery server"),
    "server_memory": ("MB", "its PSS"),
}
"""Unit and meaning of each figure."""
_SCALES = {"MB": 1e-6, "kB/s": 1e-3}


def run(options: Options) -> Iterator[Result]:
    """Yields times, traffic, CPU time and memory of each graph, both ways in turns. Each is measured once."""
    for graph in QUICK if options.quick else (*FITTED, *CHECKED):
        for mode in (*MODES, *(("plain",) if graph in PLAIN else ())):
            yield from _results(mode, graph, _measure(mode, graph))


def _measure(mode: Mode, graph: Graph) -> dict[str, Any]:
    arguments = [mode, str(graph.participants), str(graph.endpoints), str(_TIMEOUT), str(_REST_S)]
    command = in_own_network([sys.executable, "-m", "benchmarks.peers.discovery", *arguments])
    with Child(command, name=f"discovery of {graph.participants} processes") as child:
        return child.wait_for("measured", 2 * _TIMEOUT)


def _results(mode: Mode, graph: Graph, told: dict[str, Any]) -> Iterator[Result]:
    way = {
        "simple": "simple discovery",
        "server": "a discovery server",
        "plain": "simple discovery, plain rclpy",
    }[mode]
    words = f"{graph.participants} processes with {graph.endpoints} publishers each, {way}"
    for figure, (unit, meaning) in FIGURES.items():
        if figure.startswith("server") and mode != "server":
            continue
        value = told[f"{figure}_mb" if figure.endswith("memory") else figure]
        scale = _SCALES.get(unit, 1.0) if "bytes" in figure else 1.0
        yield Result(
            name=f"discovery.{mode}.{graph.name}.{figure}",
            value=value * scale,
            unit=unit,
            compared_with=f"{words}: {meaning}",
        )
