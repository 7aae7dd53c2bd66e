"""A supervised process: its exit status, whatever is sent to it and whenever."""

from __future__ import annotations

import asyncio
import logging
import signal

import pytest

from usd_ros_bridge.fleet.supervised_process import SupervisedProcess

ENDS = ["/bin/sh", "-c", "trap '' INT TERM; exit 3"]


async def ended(process: SupervisedProcess, *, meanwhile: str) -> int:
    """Return the status of a process to which something is done again and again until its end."""
    running = asyncio.ensure_future(process.run())
    while not running.done():
        if process.process_id is not None:
            getattr(process, meanwhile)()
        await asyncio.sleep(0)
    return running.result()


@pytest.mark.parametrize("meanwhile", ["interrupt", "terminate"])
def test_a_signal_at_the_very_end_does_not_change_the_status(
    meanwhile: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> set[int]:
        processes = [SupervisedProcess(ENDS, environment={}, on_line=lambda *_: None) for _ in range(20)]
        return {await ended(each, meanwhile=meanwhile) for each in processes}

    number = signal.SIGINT if meanwhile == "interrupt" else signal.SIGTERM
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        # One that is signalled before its first line has no trap yet.
        assert asyncio.run(run()) <= {3, -number}
    assert caplog.messages == []
