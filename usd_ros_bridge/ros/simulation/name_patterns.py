"""POSIX extended regular expressions for the names of entities, matched by the library `regex` within a time limit.

A client sends the expression. Python's `re` and the C library can take exponential time for one; `regex` has a time
limit for matching, but none for compiling, so what an expression may have is checked before.
"""

from __future__ import annotations

import re
import time
from typing import Final

from usd_ros_bridge.requirements import REGEX

MAX_PATTERN: Final = 256
"""Characters of an expression."""
MAX_NESTING: Final = 32
"""Groups inside each other."""
MAX_COPIES: Final = 2000
"""Product of all counts of an expression: nested ones are written out when it is compiled."""
MAX_TIME_S: Final = 0.5
"""CPU time of matching for all names of a request."""

_CLASSES: Final = re.compile("alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit")
_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.?)"
    r"|\[(?P<inverted>\^?)(?P<set>\]?(?:\[:\w*:\]|[^]])*)\]"
    r"|\{(?P<low>[0-9]*)(?P<comma>,?)(?P<high>[0-9]*)\}"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_CLASS: Final = re.compile(r"\[:(\w*):\]")
_SPECIAL: Final = re.compile(r"[\\\[\]&~|]")
"""Characters that `regex` takes for more than themselves in a set, and POSIX does not."""


class NamePattern:
    """An expression, for one request. A match anywhere in a name counts, as for regexec(3)."""

    def __init__(self, text: str) -> None:
        """Compile the expression.

        Raises:
            ValueError: It is not valid, or beyond a limit, or `regex` is not installed.
        """
        if len(text) > MAX_PATTERN:
            raise ValueError(f"it has {len(text)} characters, at most {MAX_PATTERN} are possible")
        try:
            import regex
        except ImportError as error:
            raise ValueError(REGEX.fault(error)) from error
        try:
            # Classes have only ASCII characters. Patterns of clients stay out of the library's cache.
            self._pattern = regex.compile(
                _translated(text), regex.V0 | regex.ASCII | regex.DOTALL, cache_pattern=False
            )
        except regex.error as error:
            raise ValueError(error.msg) from error
        self._left_s = MAX_TIME_S

    def matches(self, name: str) -> bool:
        """Return whether some part of `name` matches. Other threads run meanwhile.

        Raises:
            ValueError: This name and those before took too long.
        """
        begin = time.thread_time()
        try:
            return self._pattern.search(name, timeout=self._left_s, concurrent=True) is not None
        except TimeoutError as error:
            raise ValueError("matching it takes too long: use a simpler expression") from error
        finally:
            # A limit of 0 would be none.
            self._left_s = max(self._left_s - (time.thread_time() - begin), 1e-6)


def _translated(text: str) -> str:
    """Return an expression in the syntax of `regex`, which has more operators.

    Raises:
        ValueError: It is not valid, or has too many copies or groups.
    """
    parts: list[str] = []
    depth, copies = 0, 1
    can_repeat, repeats = False, ""
    for token in _TOKEN.finditer(text):
        plain = token["plain"] or ""
        is_repetition = plain in ("*", "+", "?") or token["low"] is not None
        if is_repetition and repeats:
            raise ValueError(f"{token[0]} follows {repeats}: put a group around what is repeated")
        if is_repetition and not can_repeat:
            raise ValueError(f"nothing is before {token[0]} to repeat")
        can_repeat, repeats = plain not in ("(", "|", "^", "$"), token[0] if is_repetition else ""
        if plain:
            depth += (plain == "(") - (plain == ")")
            parts.append(_plain(plain))
        elif token["escaped"] is not None:
            parts.append(_escaped(token["escaped"]))
        elif token["set"] is not None:
            parts.append(f"[{token['inverted']}{_set(token['set'])}]")
        else:
            copies *= _copies(token)
            parts.append(token[0])
        if depth > MAX_NESTING:
            raise ValueError(f"more than {MAX_NESTING} groups are inside each other")
        if copies > MAX_COPIES:
            raise ValueError(f"its counts make more than {MAX_COPIES} copies together")
    return "".join(parts)


def _plain(character: str) -> str:
    if character == "[":
        raise ValueError("unmatched [")
    if character == "{":
        raise ValueError("{ has to be followed by a count, as in {2} or {1,3}")
    # `$` would also match before a line end.
    return {"$": r"\Z", "^": r"\A", "(": "(?:"}.get(character, character)


def _escaped(character: str) -> str:
    if not character:
        raise ValueError("it ends with a backslash")
    if character.isalnum():
        raise ValueError(
            f"\\{character} is not in POSIX extended expressions: classes are written [[:digit:]], [[:space:]]"
        )
    return re.escape(character)


def _set(inside: str) -> str:
    """Return what is between the brackets of a set: characters, and names of classes between them."""
    parts = _CLASS.split(inside)
    for number, part in enumerate(parts):
        if number % 2:
            if not _CLASSES.fullmatch(part):
                raise ValueError(f"there is no character class [:{part}:]")
            parts[number] = f"[:{part}:]"
        elif found := re.search(r"\[[:.=]", part):
            raise ValueError(f"{found[0]} in a set is only possible as a class, such as [:digit:]")
        else:
            parts[number] = _SPECIAL.sub(r"\\\g<0>", part)
    return "".join(parts)


def _copies(token: re.Match[str]) -> int:
    """Return the largest number of copies that a count asks for."""
    low, comma, high = token["low"], token["comma"], token["high"]
    if not (low or comma):
        raise ValueError("{ has to be followed by a count, as in {2} or {1,3}")
    return max(int(low or "0"), int(high or "0"), 1)
