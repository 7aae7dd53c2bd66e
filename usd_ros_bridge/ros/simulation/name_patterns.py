"""POSIX extended regular expressions for the names of entities, matched in linear time.

A client sends the expression, so neither Python's `re` nor the C library can be used: both can take exponential time or
memory. Here an expression becomes a small program (Thompson's construction) and each character of a name costs at most
one pass over it. Sets of program positions are remembered, as in a lazily built DFA. No groups are captured, so the
result does not depend on which of several matches is the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_PATTERN: Final = 256
"""Characters of an expression."""
MAX_NESTING: Final = 32
"""Groups inside each other."""
MAX_PROGRAM: Final = 2000
"""Instructions of an expression, with its repetitions written out."""
MAX_STEPS: Final = 1_000_000
"""Instructions visited for all names of a request: about half a second."""

_MAX_REPEAT: Final = 255
"""RE_DUP_MAX, the largest count of an interval."""

_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": str.isdigit,
    "graph": lambda c: "!" <= c <= "~",
    "lower": str.islower,
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in " \t\n\r\f\v",
    "upper": str.isupper,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
"""The character classes of POSIX. As in the C locale, only ASCII characters are in one."""


class TooCostlyError(ValueError):
    """Matching took more steps than a request may use."""


class _Characters(NamedTuple):
    """Set of characters: any of these, or all but these."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    inverted: bool = False

    def contain(self, character: str) -> bool:
        """Return whether `character` is one of them."""
        found = any(low <= character <= high for low, high in self.ranges) or (
            character < "\x80" and any(_CLASSES[name](character) for name in self.classes)
        )
        return found is not self.inverted


_ANY: Final = _Characters(inverted=True)


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of an expression.

    Attributes:
        kind: "character", "start", "end", "all" (one after another), "any" (alternatives) or "repeat".
        parts: The parts that it is made of.
        characters: Of a "character".
        low: Least count of a "repeat".
        high: Greatest count of a "repeat"; None for no limit.
        size: Instructions that it compiles to.
    """

    kind: str
    parts: tuple[_Node, ...] = ()
    characters: _Characters = _ANY
    low: int = 0
    high: int | None = None
    size: int = 1


class _Parser:
    """Parse an expression; raise ValueError if it is not valid."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nesting = 0

    def parse(self) -> _Node:
        """Return the whole expression."""
        node = self._alternatives()
        if self._at < len(self._text):
            raise ValueError("unmatched )")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _alternatives(self) -> _Node:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        return self._sized(
            _Node("any", tuple(parts), size=sum(each.size for each in parts) + 2 * len(parts) - 2)
        )

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while (character := self._peek()) and character not in "|)":
            parts.append(self._repeated(self._atom()))
        return self._sized(_Node("all", tuple(parts), size=sum(each.size for each in parts)))

    def _atom(self) -> _Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return _Node("character", characters=self._bracket())
        if character in "*+?{":
            raise ValueError(f"nothing stands before {character} to repeat")
        if character == ".":
            return _Node("character")
        if character in "^$":
            return _Node("start" if character == "^" else "end")
        if character == "\\":
            character = self._escaped()
        return _Node("character", characters=_Characters(((character, character),)))

    def _group(self) -> _Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise ValueError(f"more than {MAX_NESTING} groups are inside each other")
        node = self._alternatives()
        if self._next() != ")":
            raise ValueError("unmatched (")
        self._nesting -= 1
        return node

    def _escaped(self) -> str:
        character = self._next()
        if not character:
            raise ValueError("it ends with a backslash")
        if character.isalnum():
            raise ValueError(
                f"\\{character} is not in POSIX extended expressions: classes are written [[:digit:]], [[:space:]]"
            )
        return character

    def _repeated(self, node: _Node) -> _Node:
        while (character := self._peek()) and character in "*+?{":
            self._at += 1
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self._interval()
            if node.kind in ("start", "end"):
                raise ValueError(f"nothing stands before {character} to repeat")
            copies = low + 1 if high is None else high
            size = (node.size + 1) * copies + 1
            node = self._sized(_Node("repeat", (node,), low=low, high=high, size=size))
        return node

    def _interval(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        text = self._text[self._at : end] if end >= 0 else ""
        low, comma, high = text.partition(",")
        counts = all(each == "" or (each.isascii() and each.isdigit()) for each in (low, high))
        if not counts or not (low or comma):
            raise ValueError("{ has to be followed by a count, as in {2} or {1,3}")
        self._at = end + 1
        least = self._count(low or "0")
        most = least if not comma else self._count(high) if high else None
        if most is not None and most < least:
            raise ValueError(f"{{{text}}} has its larger count first")
        return least, most

    @staticmethod
    def _count(text: str) -> int:
        if len(text) > 3 or int(text) > _MAX_REPEAT:
            raise ValueError(f"a count is at most {_MAX_REPEAT}")
        return int(text)

    @staticmethod
    def _sized(node: _Node) -> _Node:
        if node.size > MAX_PROGRAM:
            raise ValueError(f"with its repetitions written out it has more than {MAX_PROGRAM} parts")
        return node

    # --- Brackets ----------------------------------------------------------------------------------------------

    def _bracket(self) -> _Characters:
        inverted = self._peek() == "^"
        self._at += inverted
        ranges: list[tuple[str, str]] = []
        classes: list[str] = []
        first = True
        while (character := self._peek()) != "]" or first:
            if not character:
                raise ValueError("unmatched [")
            first = False
            if self._text.startswith("[:", self._at):
                classes.append(self._class())
                continue
            low = self._bound()
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._bound()
            if high < low:
                raise ValueError(f"the range {low}-{high} has its larger end first")
            ranges.append((low, high))
        self._at += 1
        return _Characters(tuple(ranges), tuple(classes), inverted)

    def _class(self) -> str:
        name = self._enclosed(":")
        if name not in _CLASSES:
            raise ValueError(f"there is no character class [:{name}:]")
        return name

    def _bound(self) -> str:
        """Return a character of a bracket expression, which may be written [.x.] or [=x=]."""
        following = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "[" or following not in (".", "=", ":") or not following:
            return self._next()
        element = self._enclosed(following)
        if len(element) != 1 or following == ":":
            raise ValueError(f"[{following}{element}{following}] is not one character")
        return element

    def _enclosed(self, mark: str) -> str:
        end = self._text.find(f"{mark}]", self._at + 2)
        if end < 0:
            raise ValueError(f"unmatched [{mark}")
        text = self._text[self._at + 2 : end]
        self._at = end + 2
        return text


_SPLIT, _CHARACTER, _START, _END, _MATCH = range(5)


class _Program:
    """Instructions `(operation, arguments)`; each goes on with the next one, a split with those it names."""

    def __init__(self, node: _Node) -> None:
        self.code: list[tuple[int, tuple[int, ...]]] = []
        self.characters: dict[int, _Characters] = {}
        self._add(node)
        self._emit(_MATCH)

    def _emit(self, operation: int, *arguments: int) -> int:
        self.code.append((operation, arguments))
        return len(self.code) - 1

    def _add(self, node: _Node) -> None:
        if node.kind == "character":
            self.characters[self._emit(_CHARACTER)] = node.characters
        elif node.kind in ("start", "end"):
            self._emit(_START if node.kind == "start" else _END)
        elif node.kind == "all":
            for each in node.parts:
                self._add(each)
        elif node.kind == "any":
            self._add_alternatives(node.parts)
        else:
            self._add_repeated(node)

    def _add_alternatives(self, parts: Iterable[_Node]) -> None:
        *others, last = parts
        jumps = []
        for each in others:
            split = self._emit(_SPLIT)
            self._add(each)
            jumps.append(self._emit(_SPLIT))
            self.code[split] = (_SPLIT, (split + 1, len(self.code)))
        self._add(last)
        for jump in jumps:
            self.code[jump] = (_SPLIT, (len(self.code),))

    def _add_repeated(self, node: _Node) -> None:
        part = node.parts[0]
        for _ in range(node.low):
            self._add(part)
        if node.high is None:
            split = self._emit(_SPLIT)
            self._add(part)
            self._emit(_SPLIT, split)
            self.code[split] = (_SPLIT, (split + 1, len(self.code)))
            return
        splits = []
        for _ in range(node.high - node.low):
            splits.append(self._emit(_SPLIT))
            self._add(part)
        for split in splits:
            self.code[split] = (_SPLIT, (split + 1, len(self.code)))


class NamePattern:
    """A POSIX extended regular expression, for one request. A match anywhere in a name counts, as for regexec(3)."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise ValueError(f"it has {len(text)} characters, at most {MAX_PATTERN} are possible")
        self._program = _Program(_Parser(text).parse())
        self._steps = 0
        self._sets: dict[tuple[int, ...], int] = {}
        self._positions: list[tuple[int, ...]] = []
        self._moves: list[dict[str, int]] = []
        self._ends: list[dict[bool, bool]] = []
        self._start = self._set({0}, at_start=True)
        self._restart = self._closure({0}, at_start=False)

    def matches(self, name: str) -> bool:
        """Return whether some part of `name` matches.

        Raises:
            TooCostlyError: This and the names before took too many steps.
        """
        state, moves = self._start, self._moves
        for character in name:
            if state < 0:
                return True
            following = moves[state].get(character)
            state = self._move(state, character) if following is None else following
        return state < 0 or self._matches_at_end(state, at_start=not name)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _move(self, state: int, character: str) -> int:
        """Return the set after `character`; -1 where a match is complete."""
        positions = self._positions[state]
        self._spend(len(positions))
        characters = self._program.characters
        after = {at + 1 for at in positions if at in characters and characters[at].contain(character)}
        following = self._moves[state][character] = self._set(after, at_start=False)
        return following

    def _set(self, positions: set[int], *, at_start: bool) -> int:
        """Return the number of the set that is reached from `positions` without a character, and by starting again."""
        reached = self._closure(positions, at_start=at_start)
        if not at_start:
            reached |= self._restart
        if len(self._program.code) - 1 in reached:
            return -1
        key = tuple(sorted(reached))
        number = self._sets.get(key)
        if number is None:
            number = self._sets[key] = len(self._positions)
            self._positions.append(key)
            self._moves.append({})
            self._ends.append({})
        return number

    def _matches_at_end(self, state: int, *, at_start: bool) -> bool:
        known = self._ends[state]
        if at_start not in known:
            reached = self._closure(set(self._positions[state]), at_start=at_start, at_end=True)
            known[at_start] = len(self._program.code) - 1 in reached
        return known[at_start]

    def _closure(self, positions: set[int], *, at_start: bool, at_end: bool = False) -> set[int]:
        """Return all positions that are reached without a character; characters and waiting ends stay in the set."""
        reached: set[int] = set()
        waiting = list(positions)
        while waiting:
            at = waiting.pop()
            if at in reached:
                continue
            reached.add(at)
            operation, arguments = self._program.code[at]
            if operation == _SPLIT:
                waiting.extend(arguments)
            elif (operation == _START and at_start) or (operation == _END and at_end):
                waiting.append(at + 1)
        self._spend(len(reached))
        return reached

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooCostlyError("matching it takes too long: use a simpler expression")
