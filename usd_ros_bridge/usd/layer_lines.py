"""Layer lines: where a text layer says something. OpenUSD has no line numbers, so the text is scanned once more.

Only the nesting of prims, variants, properties and metadata is followed; values are skipped. The text is that of a
layer which OpenUSD has read, so its grammar is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

Key = tuple[str, str, str]
"""Path of a spec, name of its metadata or "", item of a list in that metadata or ""."""

_QUOTED: Final = (
    rb'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
)
_ASSET: Final = rb"@@@(?:\\@@@|.)*?@@@@{0,2}|@[^@\n]*@"
_PLAIN: Final = rb"\[[^\[\]\"'@#/<]*\]"
"""An array of numbers, or of vectors. One match passes over millions of them."""
_COMMENT: Final = rb"/\*.*?\*/|(?:#|//)[^\n]*"

_SPACE = re.compile(rb"(?:[\s;,]|" + _COMMENT + rb")*", re.DOTALL)
_BLANKS = re.compile(rb"(?:[ \t]|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(_QUOTED, re.DOTALL)
_ITEM = re.compile(b"|".join((_QUOTED, _ASSET, _COMMENT)), re.DOTALL)
_VALUE = re.compile(b"|".join((_QUOTED, _ASSET, rb"<[^<>]*>", rb"[^\s=;(){}\[\]\"'@<>#,]+")), re.DOTALL)
_WORD = re.compile(rb"[^\s=;(){}\[\]\"'@<>#,]+")
_PRIM = re.compile(rb"(?:def|over|class)(?=[\s\"'])")
_VARIANT_SET = re.compile(rb"variantSet(?=[\s\"'])")
_MARK = re.compile(
    b"|".join((_PLAIN, rb"(?P<begin>[\[({])", rb"(?P<end>[\])}])", _QUOTED, _ASSET, rb"<[^<>]*>", _COMMENT)),
    re.DOTALL,
)
_PLAIN_LIST = re.compile(_PLAIN)

_LISTS: Final = frozenset(
    {"apiSchemas", "references", "payload", "subLayers", "inherits", "specializes", "variants"}
)
"""Metadata whose items have lines of their own."""


def layer_lines(
    text: bytes, keys: Collection[Key] | None = None, needed: Collection[Key] = ()
) -> dict[Key, int]:
    """Return the lines of a text layer's specs, of their metadata, and of the items in it, the first being 1.

    Paths are those of Sdf: `/robot{sensor=lidar}scan.ros:topic:name`; `/` is the layer itself.

    Args:
        text: The text.
        keys: Keys that are wanted; what is not on the way to them is passed over. None for all.
        needed: The scan ends once all of these are found, if there are any.
    """
    return _Scanner(text, keys, needed).run()


def line_of_text(text: bytes, wanted: str) -> int:
    """Return the first line that has `wanted`, 0 if none has it."""
    position = text.find(wanted.encode())
    return text.count(b"\n", 0, position) + 1 if position >= 0 else 0


class _Scanner:
    def __init__(self, text: bytes, keys: Collection[Key] | None, needed: Collection[Key]) -> None:
        self._text = text
        self._keys = None if keys is None else frozenset(keys)
        self._on_the_way = frozenset(each for key in keys or () for each in _prefixes(key[0]))
        self._needed = set(needed)
        self._stops = bool(needed)
        self._at = 0
        self._line = 1
        self._counted = 0
        self._found: dict[Key, int] = {}
        # Path of each open block, and whether it holds variants.
        self._open: list[tuple[str, bool]] = [("/", False)]

    def run(self) -> dict[Key, int]:
        """Scan the whole text, without recursion: it may be nested deeply."""
        self._skip_space()
        self._add("/")
        if self._next() == b"(":
            self._read_metadata("/")
        while self._skip_space() and not (self._stops and not self._needed):
            path, holds_variants = self._open[-1]
            if self._next() == b"}":
                self._at += 1
                if len(self._open) > 1:
                    self._open.pop()
            elif holds_variants:
                self._read_variant(path)
            elif _PRIM.match(self._text, self._at):
                self._read_prim(path)
            elif _VARIANT_SET.match(self._text, self._at):
                self._read_variant_set(path)
            else:
                self._read_property(path)
        return self._found

    def _add(self, path: str, name: str = "", item: str = "") -> None:
        """Note that the scanner is at what a key stands for. The first place counts."""
        key = (path, name, item)
        if self._keys is not None and key not in self._keys:
            return
        self._needed.discard(key)
        self._line += self._text.count(b"\n", self._counted, self._at)
        self._counted = self._at
        self._found.setdefault(key, self._line)

    def _next(self) -> bytes:
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> bool:
        """Skip what separates statements, comments among it. Return whether anything is left."""
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at < len(self._text)

    def _skip_blanks(self) -> None:
        match = _BLANKS.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _read_prim(self, path: str) -> None:
        keyword = _WORD.match(self._text, self._at)
        assert keyword is not None
        self._at = keyword.end()
        self._skip_space()
        type_name = _WORD.match(self._text, self._at)
        if type_name:
            self._at = type_name.end()
            self._skip_space()
        name = self._read_string()
        if name is not None:
            separator = "" if path == "/" or path.endswith("}") else "/"
            self._read_block(f"{path}{separator}{name}")

    def _read_variant_set(self, path: str) -> None:
        self._at += len(b"variantSet")
        self._skip_space()
        name = self._read_string()
        if name is None:
            return
        self._add_string(f"{path}{{{name}=}}")
        self._skip_space()
        if self._next() == b"=":
            self._at += 1
            self._skip_space()
        if self._next() == b"{":
            self._at += 1
            self._open.append((f"{path}{{{name}=", True))

    def _read_variant(self, path: str) -> None:
        name = self._read_string()
        if name is None:
            self._at += 1
        else:
            self._read_block(f"{path}{name}}}")

    def _read_string(self) -> str | None:
        """Return the string here, and go behind it; its place is kept for `_add_string`."""
        match = _STRING.match(self._text, self._at)
        if match is None:
            return None
        self._string_at, self._at = self._at, match.end()
        return _unquoted(match[0])

    def _add_string(self, path: str) -> None:
        behind, self._at = self._at, self._string_at
        self._add(path)
        self._at = behind

    def _read_block(self, path: str) -> None:
        """Read a prim or variant from behind its name up to what is in it, or pass over it."""
        self._add_string(path)
        self._skip_space()
        is_passed_over = self._keys is not None and path not in self._on_the_way
        if self._next() == b"(":
            if is_passed_over:
                self._skip_group()
            else:
                self._read_metadata(path)
            self._skip_space()
        if self._next() == b"{":
            if is_passed_over:
                self._skip_group()
                return
            self._at += 1
            self._open.append((path, False))

    def _read_property(self, path: str) -> None:
        start = self._at
        name = b""
        name_at = start
        while match := _WORD.match(self._text, self._at):
            name, name_at = match[0], self._at
            self._at = match.end()
            self._skip_blanks()
            while self._next() in (b"[", b"]"):
                self._at += 1
                self._skip_blanks()
        if not name:
            self._at = start + 1
            return
        behind, self._at = self._at, name_at
        self._add(f"{path}.{name.partition(b'.')[0].decode(errors='replace')}")
        self._at = behind
        if self._next() == b"=":
            self._at += 1
            self._skip_value()
        # Nothing else begins with a bracket, so a line end before the metadata does no harm.
        before = self._at
        self._skip_space()
        if self._next() == b"(":
            self._skip_group()
        else:
            self._at = before

    def _read_metadata(self, path: str) -> None:
        """Read the metadata of a prim, a variant or the layer, from its bracket on."""
        self._at += 1
        while self._skip_space() and self._next() != b")":
            start = self._at
            name = ""
            while match := _WORD.match(self._text, self._at):
                name, start = match[0].decode(errors="replace"), self._at
                self._at = match.end()
                self._skip_space()
            if not name:
                self._skip_value()
                continue
            behind, self._at = self._at, start
            self._add(path, name)
            self._at = behind
            if self._next() == b"=":
                self._at += 1
                self._read_metadata_value(path, name)
        self._at += 1

    def _read_metadata_value(self, path: str, name: str) -> None:
        start = self._at
        self._skip_value()
        if name in _LISTS:
            behind = self._at
            for match in _ITEM.finditer(self._text, start, behind):
                if match[0][:1] not in b"#/":
                    self._at = match.start()
                    self._add(path, name, _unquoted(match[0]))
            self._at = behind
        # A reference that is no list has its path, and its offset, behind it.
        while self._skip_space() and self._next() in (b"<", b"("):
            self._skip_value()

    def _skip_value(self) -> None:
        self._skip_space()
        if self._next() in (b"[", b"(", b"{"):
            self._skip_group()
            return
        match = _VALUE.match(self._text, self._at)
        self._at = match.end() if match else self._at + 1

    def _skip_group(self) -> None:
        """Go behind the bracket that closes the one here."""
        plain = _PLAIN_LIST.match(self._text, self._at)
        if plain:
            self._at = plain.end()
            return
        depth = 0
        for mark in _MARK.finditer(self._text, self._at):
            kind = mark.lastgroup
            if kind == "begin":
                depth += 1
            elif kind == "end":
                depth -= 1
                if depth <= 0:
                    self._at = mark.end()
                    return
        self._at = len(self._text)


def _prefixes(path: str) -> Iterator[str]:
    """Yield the paths of all that a spec is in, and its own."""
    for at, letter in enumerate(path):
        if letter in "/{}.":
            yield path[:at]
            yield path[: at + 1]
    yield path


def _unquoted(literal: bytes) -> str:
    """Return the text of a string or an asset path."""
    for quotes in (b'"""', b"'''", b"@@@"):
        if literal.startswith(quotes) and len(literal) >= 2 * len(quotes):
            return literal[3:-3].decode(errors="replace")
    return literal[1:-1].decode(errors="replace")
