"""Runs a bridge in a process of its own and changes it when it is told to.

`python -m benchmarks.peers.changing ASSET BACKEND PRIM SET`. Each line of the input is a command: `spin`; `matched`,
which tells who is connected; `select VARIANT`, which asks for a change; `held`, which tells what the process holds;
`stop`, after which it tells what was sent.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import tell
from usd_ros_bridge import Bridge, BridgeOptions, VariantSelection, load_plan, tune_process
from usd_ros_bridge.errors import BridgeError

TF_RATE = 100.0
_TIMEOUT = 20.0


def main() -> None:
    """Runs until the end of the input."""
    # A process of the bridge's own, as that of `usd_ros_bridge run`.
    tune_process()
    asset, backend, prim, variant_set = sys.argv[1:5]
    reports: list[str] = []
    bridge = Bridge(
        load_plan(asset, physics=backend != "kinematic"),
        backend,
        options=BridgeOptions(tf_rate=TF_RATE),
        report=lambda kind, message: reports.append(f"{kind}: {message}"),
        inform=lambda *_: None,
    )
    with bridge:
        begun = threading.Event()

        def obey() -> None:
            try:
                for line in sys.stdin:
                    command, _, argument = line.strip().partition(" ")
                    if command == "spin":
                        begun.set()
                    elif command == "select":
                        _select(bridge, VariantSelection(prim, variant_set, argument))
                    elif command == "matched":
                        tell("matched", matched={row.name: row.matched for row in bridge.status().interfaces})
                    elif command == "held":
                        tell("held", **_held(bridge), reports=reports)
                    elif command == "stop":
                        bridge.stop()
            finally:
                begun.set()
                bridge.stop()

        # As the node does.
        gc.freeze()
        threading.Thread(target=obey, name="obeys", daemon=True).start()
        tell("ready")
        begun.wait()
        bridge.spin()
        tell("sent", counts={row.name: row.count for row in bridge.status().interfaces}, reports=reports)
        sys.stdin.read()


def _select(bridge: Bridge, selection: VariantSelection) -> None:
    asked_ns = time.monotonic_ns()
    try:
        report = bridge.change(variants=[selection]).result(_TIMEOUT)
    except BridgeError as error:
        tell("refused", reason=str(error))
        return
    tell(
        "selected",
        asked_ns=asked_ns,
        done_ns=time.monotonic_ns(),
        opened=len(report.opened),
        closed=len(report.closed),
        kept=report.kept,
        planning_s=report.planning_s,
        swap_s=report.swap_s,
    )


def _held(bridge: Bridge) -> dict[str, Any]:
    """Returns what the process holds, after a collection of garbage and without what is only kept for later."""
    for _ in range(3):
        gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    node = bridge.node
    kinds = (node.publishers, node.subscriptions, node.services, node.clients, node.waitables, node.timers)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = {key: re.search(rf"{key}:\s+(\d+)", status) for key in ("VmRSS", "Threads")}
    assert all(found.values())
    return {
        "resident_mb": int(found["VmRSS"][1]) * 1024 / 1e6,  # type: ignore[index]
        "threads": int(found["Threads"][1]),  # type: ignore[index]
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "entities": sum(len(list(each)) for each in kinds),
        "objects": len(gc.get_objects()),
    }


if __name__ == "__main__":
    main()
