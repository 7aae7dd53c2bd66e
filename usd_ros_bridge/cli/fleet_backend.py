"""The answer to the question which backend fits an asset, for a fleet, whose own process loads no OpenUSD."""

from __future__ import annotations

import json
import os
import sys


def answer() -> None:
    """Read node parameters as JSON from standard input, plan the asset, and print the name of its backend as JSON.

    Raises:
        BridgeError: The asset cannot be planned with them.
    """
    from usd_ros_bridge.cli.common import given_options, load_asset, split_options
    from usd_ros_bridge.ros.backend_choice import AUTO, choose

    parameters = json.load(sys.stdin)
    # Libraries print, too: theirs goes to stderr.
    sys.stdout.flush()
    result = os.dup(1)
    os.dup2(2, 1)
    read, plan_options = split_options(parameters)
    asset = given_options(parameters)["asset"]
    plan = load_asset(asset, read_options=read, plan_options=plan_options, physics=True)
    choice = choose(plan, AUTO, inform=lambda _key, _text: None)
    with os.fdopen(result, "w") as stream:
        json.dump({"backend": choice.name}, stream)
