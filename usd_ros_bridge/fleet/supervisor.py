"""Run the processes of a fleet, keep them running, and end them together."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import secrets
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from usd_ros_bridge.errors import BridgeError, StrictError, escaped
from usd_ros_bridge.fleet.discovery_server import ServerCommand, server_command
from usd_ros_bridge.fleet.fleet import Fleet
from usd_ros_bridge.fleet.machines import (
    CONNECTION_CLOSED,
    INTERRUPT,
    NOT_EXECUTABLE,
    NOT_FOUND,
    REACHED,
    SSH_FAILED,
)
from usd_ros_bridge.fleet.node_locks import node_locks
from usd_ros_bridge.fleet.process_keeper import ProcessKeeper, RestartDelays
from usd_ros_bridge.fleet.shards import FleetShard
from usd_ros_bridge.process_settings import EXIT_STRICT, EXIT_USAGE, STATUS_PREFIX, discard_output

MAX_RESTART_DELAY_S = 30.0

_REFUSAL = "usd_ros_bridge: "
"""Beginning of the one line with which the bridge refuses what its caller asked for."""

_FILES = 128
_FILES_OF_SHARD = 12
"""Open files of the supervisor: its own, and for each shard those that its start needs."""

_SERVER_RUNS_S = 5.0
"""A discovery server that has run this long once works, seconds."""

_REPEATED_S = 1.0
"""Signals this soon after the first are the same request."""

Write = Callable[[str, bool], None]
"""`write(line, is_error)`."""


class FleetError(BridgeError):
    """A process of the fleet cannot do what the caller asked for, and would not if it were started again."""


def print_line(line: str, is_error: bool) -> None:
    """Print a line on standard output or standard error, if the process has it (`>&-`)."""
    stream = sys.stderr if is_error else sys.stdout
    if stream is None:
        return
    try:
        stream.write(line + "\n")
    except UnicodeEncodeError:
        # A shard may print what this process's locale has no letters for.
        encoding = stream.encoding
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


@dataclass(slots=True)
class ShardState:
    """State of a shard, of all its runs.

    Attributes:
        robots: Number of its robots while it is ready, else None.
        was_ready: It has been ready before: it is started again, whatever it says.
        was_reached: Its other machine was reached in this run.
        finished: It has ended by itself, as it was asked to.
        refusal: A line that is printed only if another one follows: the reason of its end, perhaps.
        last: The last line.
    """

    robots: int | None = None
    was_ready: bool = False
    was_reached: bool = False
    finished: bool = False
    refusal: str = ""
    last: str = ""


class Supervisor:
    """Run a fleet. Shards and the discovery server are started again when they end; none touches another."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        max_restart_delay: float = MAX_RESTART_DELAY_S,
        write: Write = print_line,
    ) -> None:
        """Store the arguments.

        Args:
            fleet: What to run.
            max_restart_delay: The longest wait before a process is started again, seconds.
            write: Print a line.
        """
        self._fleet = fleet
        self._max_restart_delay = max_restart_delay
        self._write = write
        # No line of anybody else's begins with it.
        self._token = f"@{secrets.token_hex(8)} "
        self._states = {shard.number: ShardState() for shard in fleet.shards}
        self._keepers: list[ProcessKeeper] = []
        self._ending = asyncio.Event()
        self._ending_since = 0.0
        self._shown = ""
        self._is_mute = False
        self._watch = ExitStack()

    def run(self) -> None:
        """Run the fleet until SIGINT or SIGTERM, or until its shards end as they were asked to.

        Raises:
            BridgeError: It cannot run: the caller's mistake, in one line.
        """
        _raise_limit_of_files(_FILES + _FILES_OF_SHARD * len(self._fleet.shards))
        with ExitStack() as stack:
            stack.enter_context(node_locks(shard.full_name for shard in self._fleet.shards))
            server = self._server_command()
            for warning in self._fleet.warnings:
                self._say(f"warning: {warning}")
            try:
                asyncio.run(self._run(server))
            finally:
                # Signals are repeated, by launch, by terminals and by people.
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_IGN)

    def _server_command(self) -> ServerCommand | None:
        """Return how the discovery server is run, None if there is none to run."""
        server = self._fleet.discovery_server
        return None if server is None or not self._fleet.starts_server else server_command(server)

    async def _run(self, server: ServerCommand | None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        self._watch_reader()
        servers = [] if server is None else [self._server_keeper(server)]
        shards = [self._shard_keeper(shard) for shard in self._fleet.shards]
        self._keepers = [*servers, *shards]
        server_tasks = [asyncio.ensure_future(each.keep()) for each in servers]
        tasks = [asyncio.ensure_future(each.keep()) for each in shards]
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await _wait_for_end(server_tasks, tasks, ending)
        finally:
            self._ending.set()
            ending.cancel()
            await asyncio.gather(*(each.close() for each in shards))
            # Last: nodes that close say so to it.
            await asyncio.gather(*(each.close() for each in servers))
            results = await asyncio.gather(*server_tasks, *tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, OSError):
                raise FleetError(
                    f"{result.filename or 'a process'} cannot be started: {result.strerror}"
                ) from result
            if isinstance(result, BaseException):
                raise result

    def _on_signal(self) -> None:
        now = time.monotonic()
        if not self._ending.is_set():
            self._ending_since = now
            self._say("ending")
            self._ending.set()
        elif now - self._ending_since > _REPEATED_S:
            for keeper in self._keepers:
                keeper.kill()

    # --- Discovery server --------------------------------------------------------------------------------------

    def _server_keeper(self, command: ServerCommand) -> ProcessKeeper:
        delays = RestartDelays(most_s=self._max_restart_delay)
        has_run = False
        last = ""

        def on_line(line: str, is_error: bool) -> None:
            nonlocal last
            last = line if line.strip() else last
            self._print(f"[discovery server] {line}", is_error)

        def on_end(status: int, ran_s: float) -> float:
            nonlocal has_run
            has_run = has_run or ran_s >= _SERVER_RUNS_S
            if status > 0 and not has_run:
                # It refuses its address, for instance, and would do so again.
                self._ending.set()
                raise FleetError(f"the discovery server {_how_it_ended(status)}: {last or 'it says nothing'}")
            delay = max(delays.after(ran_s), command.restart_delay)
            self._say(f"the discovery server {_how_it_ended(status)}, {_starts_again(delay)}")
            return delay

        return ProcessKeeper(
            command.words,
            environment=command.environment,
            on_line=on_line,
            on_end=on_end,
        )

    # --- Shards ------------------------------------------------------------------------------------------------

    def _shard_keeper(self, shard: FleetShard) -> ProcessKeeper:
        mark = {STATUS_PREFIX: self._token}
        return ProcessKeeper(
            self._fleet.command(shard, mark),
            environment={**self._fleet.environment, **mark},
            on_line=partial(self._on_line, shard),
            on_end=partial(self._on_end, shard, RestartDelays(most_s=self._max_restart_delay)),
            interrupt=b"" if shard.machine.is_local else INTERRUPT,
        )

    def _on_line(self, shard: FleetShard, line: str, is_error: bool) -> None:
        state = self._states[shard.number]
        if not shard.machine.is_local and CONNECTION_CLOSED.fullmatch(line):
            return
        if line.startswith(self._token):
            self._write_refusal(shard)
            self._on_status(state, line[len(self._token) :])
            return
        self._write_refusal(shard)
        if line.strip():
            state.last = line
        may_refuse = line.startswith(_REFUSAL) or not shard.machine.is_local
        if may_refuse and not state.was_ready:
            state.refusal = line
        elif not self._ending.is_set() or state.was_ready:
            # What shards say that are ended because another one refuses: the fleet has one line to say.
            self._print(f"[{shard.number}] {line}", is_error)

    def _write_refusal(self, shard: FleetShard) -> None:
        """Print the line that was held back: it was not the reason of an end."""
        state = self._states[shard.number]
        if state.refusal:
            self._print(f"[{shard.number}] {state.refusal}", True)
            state.refusal = ""

    def _on_status(self, state: ShardState, text: str) -> None:
        try:
            status = json.loads(text)
        except ValueError:
            return
        if status.get("state") == "ready":
            state.robots, state.was_ready = int(status.get("robots", 0)), True
            self._show()
        elif status.get("state") == REACHED:
            state.was_reached = True
        elif status.get("state") == "finished":
            state.finished = True

    def _on_end(self, shard: FleetShard, delays: RestartDelays, status: int, ran_s: float) -> float | None:
        state = self._states[shard.number]
        state.robots, self._shown = None, ""
        if state.finished:
            self._say(f"shard {shard.number} has finished")
            if not shard.parameters.get("duration"):
                # Somebody has ended the simulation.
                self._ending.set()
            return None
        if not state.was_ready and (reason := _refusal(shard, state, status)):
            self._ending.set()
            raise StrictError(reason) if status == EXIT_STRICT else FleetError(reason)
        state.was_reached = False
        self._write_refusal(shard)
        delay = delays.after(ran_s)
        self._say(f"shard {shard.number} {_how_it_ended(status)}, {_starts_again(delay)}")
        return delay

    # --- Output ------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Print how many shards are ready, if that has changed."""
        ready = [each.robots for each in self._states.values() if each.robots is not None]
        here, all_shards = len(self._states), self._fleet.count
        ours = f" of {all_shards}" if here < all_shards else ""
        robots = sum(ready)
        if len(ready) == here:
            text = (
                f"{here}{ours} shard{_s(here if not ours else all_shards)} ready, {robots} robot{_s(robots)}"
            )
        else:
            text = f"{len(ready)} of {here} shards ready"
        if text == self._shown:
            return
        self._shown = text
        self._say(text)
        idle = ready.count(0)
        if len(ready) == here and robots and idle:
            enough = here - idle
            self._say(
                f"warning: {idle} shard{_s(idle)} {'has' if idle == 1 else 'have'} no robot: "
                f"{enough} shard{_s(enough)} {'is' if enough == 1 else 'are'} enough"
            )

    def _say(self, text: str) -> None:
        self._print(f"fleet: {escaped(text)}", False)

    def _print(self, line: str, is_error: bool) -> None:
        """Print a line. Where its reader goes away (`| head`), the fleet ends, without another word."""
        if self._is_mute:
            return
        try:
            self._write(line, is_error)
        except OSError:
            self._end_mutely()

    def _watch_reader(self) -> None:
        """End the fleet where the reader of its output goes away, even if there is nothing to print."""
        if sys.stdout is None:
            return
        output = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(output).st_mode) and _is_write_only(output):
            # Nothing can be read from this end of a pipe: the event is that the other end is closed.
            loop = asyncio.get_running_loop()
            loop.add_reader(output, self._end_mutely)
            self._watch.callback(loop.remove_reader, output)

    def _end_mutely(self) -> None:
        if not self._is_mute:
            self._is_mute = True
            self._ending.set()
            self._watch.close()
            discard_output()


def _is_write_only(descriptor: int) -> bool:
    """Return whether nothing can be read from it. A logger's FIFO is often open for both (`exec 7<>fifo`)."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _raise_limit_of_files(count: int) -> None:
    """Raise the limit of open files of this process, as far as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _wait_for_end(
    servers: Sequence[asyncio.Task[None]], shards: Sequence[asyncio.Task[None]], ending: asyncio.Task[Any]
) -> None:
    """Wait until one fails, all shards have ended, or the end is asked for."""
    tasks = [*servers, *shards]
    while not (ending.done() or all(each.done() for each in shards) or any(map(_failed, tasks))):
        pending: list[asyncio.Task[Any]] = [each for each in (*tasks, ending) if not each.done()]
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


def _refusal(shard: FleetShard, state: ShardState, status: int) -> str:
    """Return why a shard that was never ready would not be if it were started again, "" if it may be."""
    if status in (EXIT_USAGE, EXIT_STRICT) and state.refusal.startswith(_REFUSAL):
        return state.refusal.removeprefix(_REFUSAL)
    if shard.machine.is_local:
        return ""
    host = shard.machine.host
    if status == SSH_FAILED and not state.was_reached:
        return f"machine {host} cannot be reached: {state.last or 'ssh says nothing'}"
    if status in (NOT_EXECUTABLE, NOT_FOUND):
        return f"machine {host} cannot run the bridge (see --remote-command and --remote-setup): {state.last}"
    return ""


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"was ended by signal {-status} ({signal.strsignal(-status) or 'unknown'})"
    return f"ended with status {status}"


def _starts_again(delay: float) -> str:
    return f"starts again in {delay:g} s" if delay else "starts again"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
