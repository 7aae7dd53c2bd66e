"""Programs that benchmarks run in processes of their own: a listener, a driver, a camera, a fleet."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any


def tell(event: str, **facts: Any) -> None:
    """Report the progress of this process to the benchmark."""
    print(json.dumps({"event": event, **facts}), flush=True)


def input_ended() -> threading.Event:
    """Returns an event that is set when the benchmark closes this process's input, or ends itself."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, name="waits for the end", daemon=True).start()
    return ended
