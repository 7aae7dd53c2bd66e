"""Drivers of a run in Python, and messages at given times: what commands the robot before each step."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.sweep.function_loader import describe_fault
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.run_measurement import number
from usd_ros_bridge.sweep.sweep_description import FunctionDriver, TopicCommand, function_name

NEVER = 2**62
"""Time of what does not come, nanoseconds."""


class DriverError(BridgeError):
    """A driver raised."""


class Commander(Protocol):
    """What acts before steps.

    Attributes:
        next_ns: Time of the run from which on `act` is to be called, nanoseconds.
    """

    next_ns: int

    def act(self, time_ns: int) -> None:
        """Command the step that begins at a time of the run, nanoseconds."""
        ...


class FunctionRunner:
    """Run a driver: a generator is resumed when the seconds that it yielded are over, a plain function is called."""

    def __init__(self, driver: FunctionDriver, run: RunContext) -> None:
        """Load the function.

        Args:
            driver: With the parameters of the run.
            run: The run.

        Raises:
            OptionError: There is no such function, or the rate is not possible.
        """
        self.next_ns = 0
        self._name = function_name(driver.function)
        self._call = partial(run.load_function(driver.function), run, **dict(driver.arguments))
        rate = number(driver.rate, "driver.rate")
        if rate < 0.0:
            raise OptionError(f"driver.rate: {rate:g} is negative")
        self._period_ns = round(SECOND_NS / rate) if rate else 0
        self._script: Generator[Any, None, None] | None = None

    def act(self, time_ns: int) -> None:
        """Call or resume the function.

        Raises:
            DriverError: It raised, or yielded something else than seconds.
        """
        try:
            if self._script is None:
                returned = self._call()
                if not inspect.isgenerator(returned):
                    # From when it was due: the rate holds, too, where the period is no multiple of the step.
                    self.next_ns = max(self.next_ns + self._period_ns, time_ns)
                    return
                self._script = cast("Generator[Any, None, None]", returned)
            waited = next(self._script)
        except StopIteration:
            self.next_ns = NEVER
            return
        except (Exception, SystemExit) as error:
            raise DriverError(f"the driver raised: {describe_fault(error, within=self._name)}") from error
        self.next_ns = time_ns + self._wait_ns(waited)

    def close(self) -> None:
        """End a generator: its `finally` blocks run."""
        if self._script is not None:
            self._script.close()
            self._script = None

    def _wait_ns(self, waited: Any) -> int:
        if waited is None:
            return 0
        try:
            return max(round(float(waited) * SECOND_NS), 0)
        except (TypeError, ValueError, OverflowError):
            raise DriverError(
                f"the driver {self._name} yielded {quoted(waited)}: yield the seconds to wait"
            ) from None


class CommandSchedule:
    """Send the messages of a sweep's table of commands at their times."""

    def __init__(self, commands: Sequence[TopicCommand], run: RunContext) -> None:
        """Args: commands: With the parameters of the run. run: The run."""
        self._run = run
        self._entries = [_Entry(row, each) for row, each in enumerate(commands)]
        self.next_ns = min((each.next_ns for each in self._entries), default=NEVER)

    def act(self, time_ns: int) -> None:
        """Send the messages that are due, in the order of the table.

        Raises:
            BridgeError: There is no such subscription, or the message does not fit.
        """
        for entry in self._entries:
            if entry.next_ns <= time_ns:
                entry.send(self._run, time_ns)
        self.next_ns = min((each.next_ns for each in self._entries), default=NEVER)


class _Entry:
    """A command, and when it is sent next."""

    def __init__(self, row: int, command: TopicCommand) -> None:
        place = f"commands[{row}]"
        self._place = place
        self._topic = command.topic
        self._message: Mapping[str, Any] = command.message
        self._every_ns = round(number(command.every, f"{place}.every") * SECOND_NS)
        until = command.until
        self._until_ns = NEVER if until is None else round(number(until, f"{place}.until") * SECOND_NS)
        self.next_ns = round(number(command.at, f"{place}.at") * SECOND_NS)

    def send(self, run: RunContext, time_ns: int) -> None:
        try:
            run.send(self._topic, self._message)
        except BridgeError as error:
            raise OptionError(f"{self._place}: {error}") from None
        again_ns = max(self.next_ns + self._every_ns, time_ns + 1)
        self.next_ns = again_ns if self._every_ns > 0 and again_ns <= self._until_ns else NEVER
