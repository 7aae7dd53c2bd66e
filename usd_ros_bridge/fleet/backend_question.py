"""Ask another process which backend fits an asset: this one loads no OpenUSD."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from usd_ros_bridge.child_process import end_with_parent
from usd_ros_bridge.errors import BridgeError

AUTO: Final = "auto"

ANSWER_FLAG: Final = "--answer-backend"
"""Hidden option of the command `fleet`, for that other process."""

_PREFIX = "usd_ros_bridge: "


def backend_of(parameters: Mapping[str, Any], *, command: Sequence[str]) -> str:
    """Return the backend that `auto` stands for with all robots of an asset.

    Args:
        parameters: Node parameters, the asset among them.
        command: The package's command line.

    Raises:
        BridgeError: The asset cannot be planned: the message is the one of `inspect`.
    """
    asked = subprocess.run(  # noqa: S603 - this interpreter, and a program of our own
        [*command, "fleet", ANSWER_FLAG],
        input=json.dumps(dict(parameters)),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        # Planning may take minutes, and nobody waits for the answer any more.
        preexec_fn=end_with_parent(signal.SIGTERM),
    )
    lines = asked.stderr.strip().splitlines()
    if asked.returncode:
        reason = next((each for each in reversed(lines) if each.startswith(_PREFIX)), "")
        last = lines[-1] if lines else f"status {asked.returncode}"
        raise BridgeError(reason.removeprefix(_PREFIX) or f"the backend cannot be chosen: {last}")
    return str(json.loads(asked.stdout)["backend"])
