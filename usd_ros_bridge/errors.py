"""Exceptions that callers catch, and text that is safe to show in their messages."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Final

MAX_QUOTED = 128
MAX_PATH = 512
"""Longer ones do not help to find a file."""
MAX_CANDIDATES = 20_000
"""Names that a misspelt one is compared with."""
_SINGLE: Final = struct.Struct("f")
_ALIKE = 0.6
"""Least similarity of a suggested name, as difflib counts it: 1 for equal names."""


class BridgeError(Exception):
    """Base of every exception that usd_ros_bridge raises for a caller's mistake.

    Faults of an asset are never exceptions: they are `Diagnostic` values in the plan. Text that the message quotes
    is escaped, so that it may be shown anywhere.
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
    """The plan has diagnostics that the caller does not accept: the options `strict` and `degraded`."""


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


def question_about(names: Sequence[str]) -> str:
    """Return the question `did you mean x or y?` about names that are known to be meant, "" for none."""
    *others, last = names or ("",)
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def nearest(name: str, candidates: Iterable[str], *, count: int = 3) -> list[str]:
    """Return the candidates that a misspelt name may stand for, the most similar first. Upper case counts as lower.

    Args:
        name: What somebody wrote.
        candidates: Names that exist. The first 20,000 are compared.
        count: The most names to return.
    """
    # Imported late: most processes never meet a misspelt name.
    from difflib import SequenceMatcher
    from itertools import islice

    matcher = SequenceMatcher(b=name[:MAX_QUOTED].lower(), autojunk=False)
    found: list[tuple[float, str]] = []
    for candidate in dict.fromkeys(islice(candidates, MAX_CANDIDATES)):
        matcher.set_seq1(candidate[:MAX_QUOTED].lower())
        if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
            found.append((matcher.ratio(), candidate))
    best = sorted((-ratio, candidate) for ratio, candidate in found if ratio >= _ALIKE)
    return [candidate for _, candidate in best[:count]]


def did_you_mean(name: str, candidates: Iterable[str], *, count: int = 3) -> str:
    """Return the question `did you mean x or y?` about a misspelt name, "" if no candidate is like it.

    Args:
        name: What somebody wrote.
        candidates: Names that exist.
        count: The most names to suggest.
    """
    return question_about(nearest(name, candidates, count=count))


def alternatives(name: str, candidates: Iterable[str], *, count: int = 8, label: str = "there are") -> str:
    """Return what exists instead of a name that does not: names like it as a question, then all names or a few.

    Args:
        name: What somebody wrote.
        candidates: Names that exist. Of more than `count`, those like `name` are shown, then the first ones in order.
        count: The most names to show.
        label: What stands before the names.
    """
    names = sorted(set(candidates))
    close = nearest(name, names)
    shown = names if len(names) <= count else list(dict.fromkeys([*close, *names]))[:count]
    listed = ", ".join(shown) or "none"
    if len(names) > len(shown):
        listed += f" and {len(names) - len(shown)} more"
    question = did_you_mean(name, close)
    return f"{question} {label}: {listed}" if question else f"{label}: {listed}"


def one_of(name: str, values: Iterable[str]) -> str:
    """Return the remedy for a name that is not among a few: a question about what was meant, and all values."""
    possible = tuple(values)
    question = did_you_mean(name, possible)
    return f"{question} use one of {', '.join(possible)}" if question else f"use one of {', '.join(possible)}"


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
    """Return `value` in quotes, control characters escaped and bounded in length, for a message.

    A number that is a float32 has the digits that its layer has: 0.1, and not 0.10000000149011612.
    """
    text = str(_as_in_layers(value))
    if len(text) > MAX_QUOTED:
        text = text[:MAX_QUOTED] + "..."
    return "'" + text.encode("unicode_escape").decode("ascii") + "'"


def _as_in_layers(value: object) -> object:
    if type(value) is tuple:
        return tuple(map(_as_in_layers, value[:MAX_QUOTED]))
    if type(value) is not float or not math.isfinite(value):
        return value
    try:
        if _float32(value) != value:
            return value
        return next(
            short for digits in range(6, 10) if _float32(short := float(f"{value:.{digits}g}")) == value
        )
    except (OverflowError, StopIteration):
        return value


def _float32(value: float) -> float:
    single: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return single


def quoted_path(path: object) -> str:
    """Return the path of a file in quotes, for a message: whole, so that it can be copied.

    Letters of all languages stay as they are. Characters that cannot be shown are escaped.
    """
    text = str(path)
    if len(text) > MAX_PATH:
        text = text[:MAX_PATH] + "..."
    shown = (each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
    return "'" + "".join(shown) + "'"


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
