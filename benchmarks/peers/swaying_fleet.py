"""Runs a bridge whose robots move all the time, until its input ends.

`python -m benchmarks.peers.swaying_fleet STAGE TF_RATE`.
"""

from __future__ import annotations

import sys
import threading

from benchmarks.peers import input_ended, tell
from benchmarks.robots import SwayingBackend
from usd_ros_bridge import Bridge, BridgeOptions, load_plan, tune_process


def main() -> None:
    """Runs the bridge, tells when it is open."""
    stage, rate = sys.argv[1], float(sys.argv[2])
    tune_process()
    ended = input_ended()
    options = BridgeOptions(tf_rate=rate, publish_description=False)
    with Bridge(load_plan(stage), SwayingBackend(), options=options, report=lambda *_: None) as bridge:
        threading.Thread(target=lambda: (ended.wait(), bridge.stop()), daemon=True).start()
        tell("open")
        bridge.spin()


if __name__ == "__main__":
    main()
