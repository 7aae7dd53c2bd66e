"""A supervised process: its exit status, whatever is sent to it and whenever."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from usd_ros_bridge.fleet.process_keeper import ProcessKeeper
from usd_ros_bridge.fleet.supervised_process import SupervisedProcess

TIMEOUT_S = 60.0
LEAVES_A_CHILD = ["/bin/sh", "-c", "setsid sleep 600 & echo $!; exit 3"]
"""Its child has a session of its own, and holds the pipes open."""
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


def end_child(lines: list[str]) -> None:
    """End what LEAVES_A_CHILD has left."""
    for line in lines:
        with suppress(ProcessLookupError):
            os.kill(int(line), signal.SIGKILL)


def test_a_process_has_ended_although_its_child_holds_the_pipes_open() -> None:
    lines: list[str] = []

    def descriptors() -> set[str]:
        return {path.name for path in Path("/proc/self/fd").iterdir()}

    async def run() -> int:
        before = descriptors()
        process = SupervisedProcess(
            LEAVES_A_CHILD, environment={}, on_line=lambda line, _: lines.append(line)
        )
        status = await asyncio.wait_for(process.run(), TIMEOUT_S)
        # asyncio closes pipes in its next turns.
        for _ in range(20):
            await asyncio.sleep(0)
        assert descriptors() <= before
        return status

    try:
        assert asyncio.run(run()) == 3
        assert len(lines) == 1
    finally:
        end_child(lines)


def test_a_kept_process_starts_again_and_ends_although_its_child_holds_the_pipes_open() -> None:
    lines: list[str] = []

    async def run() -> list[int]:
        statuses: list[int] = []
        second = asyncio.Event()

        def on_line(line: str, _is_error: bool) -> None:
            lines.append(line)
            if len(lines) == 2:
                second.set()

        def on_end(status: int, _ran_s: float) -> float:
            statuses.append(status)
            return 0.0

        keeper = ProcessKeeper(LEAVES_A_CHILD, environment={}, on_line=on_line, on_end=on_end)
        kept = asyncio.ensure_future(keeper.keep())
        await asyncio.wait_for(second.wait(), TIMEOUT_S)
        await asyncio.wait_for(keeper.close(), TIMEOUT_S)
        await kept
        return statuses

    try:
        assert set(asyncio.run(run())) == {3}
    finally:
        end_child(lines)
