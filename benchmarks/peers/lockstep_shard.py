"""Simulates a part of a stage in lockstep: `python -m benchmarks.peers.lockstep_shard ASSET K/N`.

The first shard leads, and answers each line `run SECONDS` with the wall time that this much bridge time took, as fast
as possible. One shard alone, `1/1`, has no lockstep.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from benchmarks.peers import tell


def main() -> None:
    """Runs until the end of the input."""
    from usd_ros_bridge import Bridge, BridgeOptions, PlanOptions, load_plan

    asset, shard = sys.argv[1:]
    number, _, count = shard.partition("/")
    role: Any = "off" if count == "1" else "leader" if number == "1" else "follower"
    plan = load_plan(asset, plan_options=PlanOptions(shard=shard, other_robots="obstacles"), physics=True)
    options = BridgeOptions(
        node_name=f"shard_{number}",
        lockstep=role,
        real_time_factor=0.0,
        start_paused=role != "follower",
        publish_description=False,
        backend_options={"gl": "none"},
    )
    with Bridge(plan, "mujoco", options=options, report=lambda *_: None, inform=lambda *_: None) as bridge:
        spinning = threading.Thread(target=bridge.spin, name="spins")
        spinning.start()
        tell("ready")
        for line in sys.stdin:
            control = bridge.time
            assert control is not None
            steps = round(float(line.split()[1]) * 1e9) // control.step_ns
            began = time.perf_counter()
            control.step(steps).result()
            tell("ran", seconds=time.perf_counter() - began)
        bridge.stop()
        spinning.join()


if __name__ == "__main__":
    main()
