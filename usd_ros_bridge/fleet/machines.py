"""Machines of a fleet: which shards they run, and how a shard is started on another one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.process_settings import STATUS_PREFIX

LOCAL: Final = "localhost"
"""Name of the machine of the process that starts the fleet."""

INTERRUPT: Final = b"\x03"
"""What ends a program at the other end of `ssh -tt`, as Ctrl-C does."""

REACHED: Final = "reached"
"""State that another machine reports before it runs a shard."""
SSH_FAILED: Final = 255
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
"""Exit statuses of ssh, and of a shell whose set-up failed or that lacks the program."""

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*")
"""Never one that ssh would take as an option."""
_MOST_WEIGHT: Final = 1000
# A cut connection ends both ends within 15 s. LogLevel: else its last line is that the connection is closed, not why.
# -tt: the end of the terminal ends what runs in it.
_SSH_OPTIONS: Final = (
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    "-tt",
)

CONNECTION_CLOSED: Final = re.compile(r"(Connection|Shared connection) to \S+ closed\.")
"""Last line of ssh where the user's options let it say more: it is no reason of the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that runs shards.

    Attributes:
        host: As ssh takes it: a host, `user@host` or an alias of ssh's configuration. LOCAL: no ssh.
        weight: Share of the shards that it runs.
    """

    host: str = LOCAL
    weight: int = 1

    @property
    def is_local(self) -> bool:
        """Return whether its shards are started without ssh."""
        return self.host == LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteShell:
    """How programs are started on other machines.

    Attributes:
        ssh: The ssh command, with options of the user's.
        setup: What a shell does there first, as `source /opt/ros/kilted/setup.bash`; "" for nothing.
        command: The command line of this package there: `usd_ros_bridge`, or a path to it.
    """

    ssh: str = "ssh"
    setup: str = ""
    command: str = "usd_ros_bridge"

    def command_line(
        self, host: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the local command that runs the package's command line on another machine.

        Args:
            host: The machine.
            arguments: Of the package's command line.
            environment: Variables that it gets there.

        Raises:
            OptionError: A part of it cannot be split into words.
        """
        words = [f"{name}={value}" for name, value in environment.items()]
        run = f"exec env {shlex.join(words)} {self.command} {shlex.join(arguments)}"
        # `source` is bash's. `eval`: commands that end in `;` or a comment are possible, and those that cannot be read
        # fail. `exec`: one process, which the end of the terminal reaches.
        if STATUS_PREFIX in environment:
            # ssh's own failure and the death of what it runs have the same exit status.
            said = environment[STATUS_PREFIX] + json.dumps({"state": REACHED})
            run = f"printf '%s\\n' {shlex.quote(said)}; {run}"
        script = f"eval {shlex.quote(self.setup)} || exit {NOT_EXECUTABLE}; {run}" if self.setup else run
        return (*_words("ssh", self.ssh), *_SSH_OPTIONS, host, f"exec bash -c {shlex.quote(script)}")


def _words(name: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"{name} {quoted(text)} is not possible: {error}") from error
    if not words:
        raise OptionError(f"{name} is empty: give a command")
    return words


def parse_machines(texts: Iterable[str]) -> tuple[Machine, ...]:
    """Return machines from texts that each hold one or, separated by commas, several: `host`, `user@host`, `host*3`.

    Raises:
        OptionError: A text has another form, or a machine is there twice.
    """
    machines: list[Machine] = []
    for text in (part.strip() for each in texts for part in each.split(",")):
        if not text:
            continue
        host, star, weight = text.partition("*")
        if not _HOST.fullmatch(host):
            raise OptionError(f"machine {quoted(text)} is not possible: give HOST, USER@HOST or HOST*WEIGHT")
        if star and not (re.fullmatch(r"[0-9]{1,4}", weight) and 1 <= int(weight) <= _MOST_WEIGHT):
            raise OptionError(f"machine {quoted(text)}: its weight is a whole number, 1 to {_MOST_WEIGHT}")
        if any(host == each.host for each in machines):
            raise OptionError(f"machine {quoted(host)} is there twice: {host}*2 gives it two shares")
        machines.append(Machine(host=host, weight=int(weight) if star else 1))
    return tuple(machines) or (Machine(),)


def deal(shards: int, machines: Sequence[Machine]) -> list[Machine]:
    """Return the machine of each shard: blocks in order, as large as the weights say.

    Raises:
        OptionError: There are fewer shards than machines: one would have nothing to do.
    """
    if shards < len(machines):
        raise OptionError(f"{shards} shards are too few for {len(machines)} machines: one each, at least")
    total = sum(each.weight for each in machines)
    dealt: list[Machine] = []
    weight = 0
    for number, machine in enumerate(machines, 1):
        weight += machine.weight
        # Rounding leaves no machine out: not this one, and none of those that come.
        end = max(round(shards * weight / total), len(dealt) + 1)
        end = min(end, shards - (len(machines) - number))
        dealt += [machine] * (end - len(dealt))
    return dealt
