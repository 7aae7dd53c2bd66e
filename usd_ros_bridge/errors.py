"""Exceptions that callers catch, and text that is safe to show in their messages."""

from __future__ import annotations

from collections.abc import Iterable

MAX_QUOTED = 128


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
    """A change of a running bridge was refused: the running version continues."""


class HandlerTimeoutError(BridgeError):
    """A handler gave no answer within its time-out."""


class GoalAbortedError(BridgeError):
    """Raised by the handler of an action to end its goal aborted, with a result of its own."""

    def __init__(self, message: str = "", result: object = None) -> None:
        """Store why, and the result message; None for one with nothing set."""
        super().__init__(message)
        self.result = result


class CallTimeoutError(BridgeError):
    """A call got no answer within its time-out; the message says whether there was a server."""


def choices(values: Iterable[str]) -> str:
    """Return `values` as a readable list for an error message, or "none"."""
    return ", ".join(sorted(values)) or "none"


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return text from outside as text that is safe to show: what is not printable as `\x1b`.

    Assets, peers, files and errors that quote them may hold escape sequences, which a terminal obeys: C0 and C1
    control characters, DEL, marks of direction and of width 0, lone surrogates. All text that leaves the bridge for
    people (terminal, logs, answers of services, XML) goes through this function where it leaves.

    Args:
        text: The text. Applying the function twice gives the same as once.
        keep: Characters to leave as they are, such as line ends.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def quoted(value: object) -> str:
    """Return `value` in quotes, control characters escaped and bounded in length, for a message."""
    text = str(value)
    if len(text) > MAX_QUOTED:
        text = text[:MAX_QUOTED] + "..."
    return "'" + text.encode("unicode_escape").decode("ascii") + "'"


def error_text(error: object, fallback: str = "its text cannot be shown") -> str:
    """Return what an error says.

    Args:
        error: An exception, or an error of OpenUSD's composition.
        fallback: Returned where the text itself raises. OpenUSD quotes what a file says, and Python cannot show it
            where it is not UTF-8.
    """
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a text that cannot be had must not hide that there was an error
        return fallback
