"""Faults of the caller: one family of exceptions, each with a message that fits on one line."""

from __future__ import annotations

from collections.abc import Iterable

from usd_ros_bridge.model.diagnostics import escaped


class BridgeError(Exception):
    """Base of every exception that usd_ros_bridge raises for a caller's mistake.

    Faults of an asset are never exceptions: they are `Diagnostic` values in the plan. What the message quotes is
    escaped, so that it may be shown anywhere.
    """

    def __str__(self) -> str:
        return escaped(super().__str__(), keep="\n")


class AssetError(BridgeError):
    """The asset's root layer is missing or cannot be opened."""


class OptionError(BridgeError):
    """An option has a value that is not possible; the message names what is."""


class VariantError(OptionError):
    """A variant set or variant was asked for that the stage does not have."""


class BackendError(BridgeError):
    """A backend is unknown, not installed, or refuses its options."""


class StrictError(BridgeError):
    """The plan has error diagnostics and the caller asked for `strict`."""


class ChangeRefusedError(BridgeError):
    """A change of a running bridge was refused: what runs goes on as it was."""


class HandlerTimeoutError(BridgeError):
    """A handler gave no answer within its time-out."""


class GoalAbortedError(BridgeError):
    """Raised by the handler of an action to end its goal aborted, with a result of its own."""

    def __init__(self, message: str = "", result: object = None) -> None:
        """Stores why, and the result message; None for one with nothing set."""
        super().__init__(message)
        self.result = result


class CallTimeoutError(BridgeError):
    """A call got no answer within its time-out; the message says whether there was a server."""


def choices(values: Iterable[str]) -> str:
    """Returns `values` as a readable list for an error message, or "none"."""
    return ", ".join(sorted(values)) or "none"
