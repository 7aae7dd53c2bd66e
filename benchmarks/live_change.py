"""Live change: variants switched under load, and what other processes see of it.

The rover in its world gets a variant set that puts a mast on it: two frames, a scan and a pose. A subscriber in another
process checks every message of the publishers that do not change, a watcher in a third the graph.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import Child, peer

SWITCHES = 500
BACKENDS = ("kinematic", "mujoco")
RATE = 100.0
WORLD = ROOT / "examples" / "rover" / "world.usda"
PRIM, SET = "/World/rover", "mast"
APPEARING = "/rover/mast_scan"
CMD_VEL = "/rover/cmd_vel"
STEADY = "/steady"
"""Topic of a process in which nothing changes."""
UNCHANGED = {
    "/rover/joint_states": "sensor_msgs/msg/JointState",
    "/rover/odom": "nav_msgs/msg/Odometry",
    "/rover/imu": "sensor_msgs/msg/Imu",
    "/rover/tf": "tf2_msgs/msg/TFMessage",
}
NONE, LATE, MEMORY, LATENCY = Target(0.0), Target(2.0), Target(2.0), Target(100.0)
_PERIOD_NS = 1e9 / RATE
_STEADY_LATE = 0.5
"""By how many periods the steady publisher's message is late where the machine is taken to be."""
_PAUSE_S = 0.1
_WARM_UP, _QUICK_WARM_UP = 150, 10
_MATCHING_S = 1.0
_TIMEOUT = 60.0

Rows = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]

_LAYER = """\
#usda 1.0
(
    defaultPrim = "World"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    subLayers = [@{world}@]
    timeCodesPerSecond = 1
    upAxis = "Z"
)

over "World"
{{
    over "rover" (
        prepend variantSets = "mast"
        variants = {{
            string mast = "off"
        }}
    )
    {{
        over "Interfaces"
        {{
            over "joint_states"
            {{
                double ros:topic:publish_rate = {rate}
            }}

            over "odom"
            {{
                double ros:topic:publish_rate = {rate}
            }}
        }}

        over "imu_link"
        {{
            double ros:topic:publish_rate = {rate}
            token ros:topic:qos:reliability = "reliable"
        }}

        variantSet "mast" = {{
            "off" {{
            }}
            "on" {{
                def Xform "mast" (
                    prepend apiSchemas = ["RosFrameAPI"]
                )
                {{
                    double3 xformOp:translate = (-0.1, 0, 0.5)
                    uniform token[] xformOpOrder = ["xformOp:translate"]

                    def Xform "mast_scan" (
                        prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI"]
                    )
                    {{
                        string ros:topic:name = "mast_scan"
                        double ros:topic:publish_rate = 10
                        token ros:topic:role = "publisher"
                        string ros:topic:type = "sensor_msgs/msg/LaserScan"
                    }}

                    def Scope "mast_pose" (
                        prepend apiSchemas = ["RosTopicAPI"]
                    )
                    {{
                        string ros:topic:name = "mast_pose"
                        double ros:topic:publish_rate = 50
                        token ros:topic:role = "publisher"
                        string ros:topic:type = "geometry_msgs/msg/PoseStamped"
                    }}
                }}
            }}
        }}
    }}
}}
"""


@dataclass(kw_only=True)
class Run:
    """Outcome of one run.

    Attributes:
        latencies: From the request to the change of the graph in another process, ms.
        swaps: How long each switch took between two ticks, ms.
        plannings: From each request to the new plan, ms.
        lost: Messages that were sent and not received.
        late: The worst that a message of an unchanged publisher was late while variants were switched, periods.
        late_before: The same before.
        late_steady: The same of a publisher in another process, while variants were switched.
        late_own: As `late`, of the messages that came while that one was on time.
        left_out: How many did not.
        skipped: Periods without a message while variants were switched, and before, by topic summed up.
        messages: How many came while variants were switched.
        grown: Differences of what the process holds, after the warm-up and at the end, by name.
        seconds: How long the switches took.
    """

    latencies: list[float] = field(default_factory=list)
    swaps: list[float] = field(default_factory=list)
    plannings: list[float] = field(default_factory=list)
    lost: int = 0
    late: float = 0.0
    late_before: float = 0.0
    late_steady: float = 0.0
    late_own: float = 0.0
    left_out: int = 0
    skipped: tuple[int, int] = (0, 0)
    messages: int = 0
    grown: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def run(options: Options) -> Iterator[Result]:
    """Yields what switching variants costs those who listen, by backend."""
    switches = options.scaled(SWITCHES, 10)
    for backend in BACKENDS:
        done = _measure(backend, switches, options.scaled(_WARM_UP, _QUICK_WARM_UP))
        name = f"live_change.{backend}"
        how = f"{switches} switches in {done.seconds:.0f} s with a core burning and publishers beside it"
        yield median_result(
            f"{name}.lost",
            [done.lost],
            "messages",
            target=NONE,
            compared_with=f"sent and not received, of {len(UNCHANGED)} unchanged publishers at {RATE:g} Hz; {how}",
        )
        yield median_result(
            f"{name}.late",
            [done.late],
            "periods",
            target=LATE,
            compared_with=f"the latest of {done.messages} messages; {done.late_before:.2f} without switches",
        )
        yield median_result(
            f"{name}.late_steady",
            [done.late_steady],
            "periods",
            compared_with="the same of a publisher in another process, in which nothing changes: what the machine adds",
        )
        yield median_result(
            f"{name}.late_own",
            [done.late_own],
            "periods",
            compared_with=f"the latest where that one was not late by {_STEADY_LATE:g} periods or more: without "
            f"{done.left_out} of {done.messages} messages",
        )
        yield median_result(
            f"{name}.skipped",
            [done.skipped[0]],
            "periods",
            compared_with=f"without a message, of {done.messages}; {done.skipped[1]} without switches, in less time",
        )
        for figure, values, words in (
            ("latency", done.latencies, "from the request to the graph that another process sees"),
            ("planning", done.plannings, "from the request to the new plan"),
            ("swap", done.swaps, "between two ticks"),
        ):
            latency = figure == "latency"
            yield median_result(
                f"{name}.{figure}", values, "ms", target=LATENCY if latency else None, compared_with=words
            )
            yield median_result(
                f"{name}.{figure}_worst",
                [max(values)],
                "ms",
                target=LATENCY if latency else None,
                compared_with=f"the worst of {len(values)}; {np.percentile(values, 99):.1f} ms for 99 of 100",
            )
        left = sum(max(0.0, done.grown[key]) for key in ("entities", "threads", "descriptors"))
        yield median_result(
            f"{name}.left",
            [left],
            "objects",
            target=NONE,
            compared_with="entities, threads and file descriptors more than after the warm-up",
        )
        yield median_result(
            f"{name}.memory",
            [done.grown["resident_mb"]],
            "MB",
            target=MEMORY,
            compared_with="VmRSS more than after the warm-up, after a collection of garbage",
        )


def write_asset(folder: Path) -> Path:
    """Writes the rover in its world with a mast that a variant puts on it, and returns the layer."""
    path = folder / "mast.usda"
    path.write_text(_LAYER.format(world=WORLD.as_posix(), rate=RATE), encoding="utf-8")
    return path


def _measure(backend: str, switches: int, warm_up: int) -> Run:
    done = Run()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        asset, heard = write_asset(Path(folder)), Path(folder) / "heard.npz"
        topics = [f"{topic}={type_name}" for topic, type_name in UNCHANGED.items()]
        bridge = stack.enter_context(peer("changing", str(asset), backend, PRIM, SET))
        bridge.wait_for("ready", _TIMEOUT)
        steady = f"{STEADY}=geometry_msgs/msg/TwistStamped"
        listener = stack.enter_context(peer("sequence", str(heard), *topics, steady))
        watcher = stack.enter_context(peer("graph", APPEARING))
        for each in (
            listener,
            watcher,
            stack.enter_context(peer("load", "burn")),
            stack.enter_context(peer("load", "publish", CMD_VEL, STEADY, str(RATE))),
        ):
            each.wait_for("ready", _TIMEOUT)
        _wait_for_listeners(bridge)
        bridge.say("spin")
        _switch(bridge, watcher, warm_up, Run())
        before = _held(bridge)
        begin = time.monotonic_ns()
        time.sleep(max(1.0, _PAUSE_S * switches / 4))
        middle = time.monotonic_ns()
        _switch(bridge, watcher, switches, done)
        end = time.monotonic_ns()
        after = _held(bridge)
        bridge.say("stop")
        sent = bridge.wait_for("sent", _TIMEOUT)["counts"]
        listener.close_input()
        listener.wait_for("written", _TIMEOUT)
        with np.load(heard) as file:
            rows, compared = {topic: file[topic] for topic in UNCHANGED}, {STEADY: file[STEADY]}
    done.seconds = (end - middle) / 1e9
    done.grown = {key: after[key] - before[key] for key in before if key != "reports"}
    done.lost = sum(sent[topic] - len(taken) for topic, taken in rows.items())
    (done.late_before, skipped_before, _), (done.late, skipped, done.messages) = (
        _judge(rows, *window) for window in ((begin, middle), (middle, end))
    )
    done.skipped = (skipped, skipped_before)
    done.late_steady, _, _ = _judge(compared, middle, end)
    disturbed = disturbances(compared[STEADY][:, 0])
    for taken in rows.values():
        arrivals = taken[(taken[:, 0] >= middle) & (taken[:, 0] < end), 0]
        apart = ~is_disturbed(arrivals, disturbed)
        done.late_own = max(done.late_own, float(lateness(arrivals)[apart].max()))
        done.left_out += int(len(apart) - apart.sum())
    return done


def _wait_for_listeners(bridge: Child) -> None:
    """Waits until every message that is sent reaches the listener."""
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        bridge.say("matched")
        matched = bridge.wait_for("matched", _TIMEOUT)["matched"]
        if all(matched.get(topic, 0) for topic in (*UNCHANGED, CMD_VEL)):
            # The bridge knows of the listener: time for the listener to know of the bridge.
            time.sleep(_MATCHING_S)
            return
        time.sleep(0.1)
    raise BenchmarkError(f"the listener was not matched: {matched}")


def _switch(bridge: Child, watcher: Child, switches: int, done: Run) -> None:
    for number in range(switches):
        on = number % 2 == 0
        bridge.say(f"select {'on' if on else 'off'}")
        told = bridge.wait_for("selected", _TIMEOUT)
        seen = watcher.wait_for("appeared" if on else "vanished", _TIMEOUT)["seen_ns"]
        done.latencies.append((seen - told["asked_ns"]) / 1e6)
        done.swaps.append(1e3 * told["swap_s"])
        done.plannings.append(1e3 * told["planning_s"])
        if not (told["opened"] if on else told["closed"]):
            raise BenchmarkError(f"switch {number} changed nothing: {told}")
        time.sleep(max(0.0, _PAUSE_S - (time.monotonic_ns() - told["asked_ns"]) / 1e9))


def _held(bridge: Child) -> dict[str, Any]:
    bridge.say("held")
    told = bridge.wait_for("held", _TIMEOUT)
    return {key: value for key, value in told.items() if key != "event"}


def _judge(rows: Mapping[str, Rows], begin_ns: int, end_ns: int) -> tuple[float, int, int]:
    """Returns the worst lateness in periods, the periods without a message, and the messages of a span of time."""
    worst, skipped, messages = 0.0, 0, 0
    for topic, taken in rows.items():
        inside = taken[(taken[:, 0] >= begin_ns) & (taken[:, 0] < end_ns)]
        if len(inside) < (end_ns - begin_ns) / _PERIOD_NS / 2:
            raise BenchmarkError(f"{topic}: {len(inside)} messages in {(end_ns - begin_ns) / 1e9:.1f} s")
        arrivals, stamps = inside[:, 0], inside[:, 1]
        if (step := int(np.diff(stamps).min())) <= 0:
            raise BenchmarkError(f"{topic}: stamps that do not grow: one is {step} ns after the one before")
        worst = max(worst, float(lateness(arrivals).max()))
        gaps = np.round(np.diff(stamps) / _PERIOD_NS).astype(int) - 1
        skipped += int(gaps[gaps > 0].sum())
        messages += len(inside)
    return worst, skipped, messages


def lateness(arrivals_ns: Rows) -> npt.NDArray[np.float64]:
    """Returns by how many periods each message came later than it was due, one period after the one before it.

    Args:
        arrivals_ns: When messages came, in order.
    """
    late: npt.NDArray[np.float64] = np.diff(arrivals_ns) / _PERIOD_NS - 1.0
    return late


def disturbances(steady_ns: Times) -> Rows:
    """Returns from when to when the machine was late, with a period before and after.

    Args:
        steady_ns: When messages came of a publisher that has nothing to be late for, in order.

    Returns:
        (D, 2) times, in order.
    """
    late = lateness(steady_ns) >= _STEADY_LATE
    period = int(_PERIOD_NS)
    return np.stack((steady_ns[:-1][late] - period, steady_ns[1:][late] + period), axis=1)


def is_disturbed(arrivals_ns: Times, disturbed: Rows) -> npt.NDArray[np.bool_]:
    """Returns of each message but the first whether the time since the one before it overlaps a disturbance.

    Args:
        arrivals_ns: When messages came, in order.
        disturbed: (D, 2), of `disturbances`.
    """
    begin, end = arrivals_ns[:-1], arrivals_ns[1:]
    # The first disturbance that ends after the wait began is the only one that has to be looked at: they are in order.
    first = np.searchsorted(disturbed[:, 1], begin, side="right")
    found = first < len(disturbed)
    result = np.zeros(len(begin), dtype=bool)
    result[found] = disturbed[first[found], 0] < end[found]
    return result
