r"""Text of layers that is not UTF-8: found in their files, and replaced in memory before Python reads it.

OpenUSD keeps any bytes as text. Python's bindings raise UnicodeDecodeError where such text is read, in any of hundreds
of calls. A text layer may have the bytes themselves, or an escape such as `\x9b`.
"""

from __future__ import annotations

import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from pxr import Ar, Sdf

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import NOT_UTF8_REMEDY, Diagnostic

CRATE: Final = b"PXR-USDC"
TEXT: Final = (b"#usda", b"#sdf")
QUOTED: Final = re.compile(
    rb'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    rb"|@@@.*?@@@|@[^@\n]*@|/\*.*?\*/|(?:#|//)[^\n]*",
    re.DOTALL,
)
"""Strings, asset paths and comments of a text layer."""

MARK: Final = "\N{REPLACEMENT CHARACTER}"
"""In place of bytes that are not UTF-8, as `bytes.decode(errors="replace")` has it."""

_WITH_ESCAPES: Final = re.compile(rb"(?:[\x80-\xff]|\\x[89a-fA-F][0-9a-fA-F]|\\[23][0-7]{2})+|\\.", re.DOTALL)
"""Bytes of a string beyond ASCII, as such or as escapes; or another escape: of `\\\\x9b`, the two backslashes."""
_BYTE: Final = re.compile(rb"\\x(..)|\\(...)|(.)", re.DOTALL)
_ESCAPES: Final = (b"\\x", b"\\2", b"\\3")
"""How escapes beyond ASCII begin."""
_HEAD: Final = struct.Struct("<q")
_SIZE: Final = struct.Struct("<i")
_PAIR: Final = struct.Struct("<qq")
_SECTION: Final = struct.Struct("<16sqq")
_TOKENS: Final = struct.Struct("<QQQ")
_TOC_AT: Final = 16
_PACKED_SINCE: Final = 4
"""Minor version of crate files since which tokens are packed."""
_TEXT_TYPES: Final = ("string", "token", "asset", "pathExpression", "opaque")
_VALUES: Final = ("default", "timeSamples")
_UNREAD: Final = ("comment", "documentation")
"""Metadata for people alone."""
_LONG: Final = 15
_MORE: Final = 255


class TextFault(NamedTuple):
    """Where a layer has text that is not UTF-8.

    Attributes:
        path: Path of the prim in the layer, without variant selections; "" for the layer's own metadata.
        attribute: Name of the property or metadata.
    """

    path: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.attribute} of {self.path}" if self.path else self.attribute


def text_in_file(path: str, file: str) -> bytes:
    """Return the content of a text layer, or all text of a binary one, with a zero after each piece; else nothing.

    Args:
        path: Path of the layer, `file.usdz[inner path]` in an archive.
        file: The file to read; `path` may be another name of it.
    """
    try:
        with _opened(path, file) as stream:
            start = stream.read(len(CRATE))
            if start == CRATE:
                return _crate_tokens(stream)
            return start + stream.read() if start.startswith(TEXT) else b""
    except (OSError, LookupError, ValueError, struct.error, NotImplementedError, zipfile.BadZipFile):
        return b""  # OpenUSD reports the fault.


def has_bad_text(text: bytes) -> bool:
    """Return whether any of what `text_in_file` returned is not UTF-8."""
    if not text.startswith(TEXT):
        return not _is_utf8(text)
    if not any(escape in text for escape in _ESCAPES):
        return not _is_utf8(text)
    return _replaced(text) != text


def bad_text(layer: Any) -> list[TextFault]:
    """Return where an open layer has text that is not UTF-8."""
    return list(dict.fromkeys(_marked(_cleaned(layer))))


def replace_bad_text(layer: Any) -> list[TextFault]:
    """Replace the text of a layer that is not UTF-8, in memory; its file is not changed.

    Args:
        layer: A layer that no stage has composed yet.

    Returns:
        Where there was such text.
    """
    cleaned = _cleaned(layer)
    layer.SetPermissionToEdit(True)
    layer.TransferContent(cleaned)
    return list(dict.fromkeys(_marked(cleaned)))


def text_diagnostic(fault: TextFault, layer: Any) -> Diagnostic:
    """Return the diagnostic of text that was replaced."""
    return Diagnostic(
        code="1.2.5.text",
        severity="error",
        path=fault.path,
        attribute=fault.attribute,
        message=f"{fault} in the layer {quoted(layer.GetDisplayName())} is not UTF-8; {quoted(MARK)} replaces what "
        "cannot be read",
        remedy=NOT_UTF8_REMEDY,
        layer=layer.identifier,
    )


# --- Finding ---------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str, file: str) -> Iterator[IO[bytes]]:
    """Open the bytes of a layer, also of one in a usdz archive."""
    file_format = Sdf.FileFormat.FindByExtension(file)
    if file_format is None or not file_format.IsPackage():
        with Path(file).open("rb") as stream:
            yield stream
        return
    with zipfile.ZipFile(file) as archive:
        # An archive's own layer is its first file.
        inner = Ar.SplitPackageRelativePathOuter(path)[1] or archive.namelist()[0]
        if archive.getinfo(inner).compress_type != zipfile.ZIP_STORED:
            raise zipfile.BadZipFile("OpenUSD reads no compressed files")
        with archive.open(inner) as stream:
            yield stream


def _crate_tokens(stream: IO[bytes]) -> bytes:
    """Return all text of a binary layer: its tokens. Every string, path and name of it is one of them.

    The layout is that of OpenUSD's crateFile.cpp: a table of contents; its section TOKENS is an LZ4 block.
    """
    minor = stream.read(2)[1]
    stream.seek(_TOC_AT)
    stream.seek(*_HEAD.unpack(stream.read(_HEAD.size)))
    (sections,) = _HEAD.unpack(stream.read(_HEAD.size))
    for _ in range(sections):
        name, start, _size = _SECTION.unpack(stream.read(_SECTION.size))
        if name.rstrip(b"\0") != b"TOKENS":
            continue
        stream.seek(start)
        if minor < _PACKED_SINCE:
            return stream.read(_PAIR.unpack(stream.read(_PAIR.size))[1])
        _count, _size, packed = _TOKENS.unpack(stream.read(_TOKENS.size))
        blocks = stream.read(packed)
        return b"".join(_unpacked(each) for each in _blocks(blocks))
    return b""


def _blocks(data: bytes) -> Iterator[bytes]:
    """Yield the LZ4 blocks of what OpenUSD packed (TfFastCompression): one, or several with their sizes."""
    if not data[0]:
        yield data[1:]
        return
    at = 1
    for _ in range(data[0]):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        yield data[at : at + size]
        at += size


def _unpacked(block: bytes) -> bytes:
    """Return the content of an LZ4 block (its format is in lz4_Block_format.md of the library)."""
    out = bytearray()
    at, size = 0, len(block)
    while at < size:
        token = block[at]
        at += 1
        length = token >> 4
        if length == _LONG:
            while block[at] == _MORE:
                length += _MORE
                at += 1
            length += block[at]
            at += 1
        out += block[at : at + length]
        at += length
        if at >= size:
            break
        offset = block[at] | block[at + 1] << 8
        at += 2
        length = (token & _LONG) + 4
        if token & _LONG == _LONG:
            while block[at] == _MORE:
                length += _MORE
                at += 1
            length += block[at]
            at += 1
        begin = len(out) - offset
        piece = out[begin : begin + length]
        # A match may reach into what it makes itself.
        out += piece if len(piece) == length else (piece * (length // len(piece) + 1))[:length]
    return bytes(out)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- Replacing -------------------------------------------------------------------------------------------------


def _cleaned(layer: Any) -> Any:
    """Return a copy of a layer with its bad text replaced."""
    with tempfile.TemporaryDirectory(prefix="usd_ros_bridge-") as folder:
        file = Path(folder, "layer.usda")
        layer.Export(str(file))
        content = file.read_bytes()
    cleaned = Sdf.Layer.CreateAnonymous(".usda")
    cleaned.ImportFromString(_replaced(content).decode())
    return cleaned


def _replaced(content: bytes) -> bytes:
    """Return a text layer with the mark in place of each text that is not UTF-8."""

    def replace(found: re.Match[bytes]) -> bytes:
        # Only strings have escapes.
        return _WITH_ESCAPES.sub(_readable, found[0]) if found[0][:1] in b"\"'" else found[0]

    return QUOTED.sub(replace, content).decode(errors="replace").encode()


def _readable(run: re.Match[bytes]) -> bytes:
    """Return a run of bytes and escapes as it is written if it is UTF-8, else what can be read of it."""
    data = _bytes_of(run[0])
    return run[0] if _is_utf8(data) else data.decode(errors="replace").encode()


def _bytes_of(run: bytes) -> bytes:
    """Return the bytes that a run of bytes and escapes is for; of any other escape, ASCII."""
    if run[:1] == b"\\" and not run[1:2].isdigit() and run[1:2] != b"x":
        return b""
    return bytes(
        int(each[1], 16) if each[1] else int(each[2], 8) if each[2] else each[3][0]
        for each in _BYTE.finditer(run)
    )


def _marked(layer: Any) -> Iterator[TextFault]:
    """Yield where a layer has the mark."""
    paths: list[Any] = []
    layer.Traverse(Sdf.Path.absoluteRootPath, paths.append)
    for path in sorted(paths):
        spec = layer.GetObjectAtPath(path)
        if spec is None:
            continue
        for key in spec.ListInfoKeys():
            if key in _UNREAD or (key in _VALUES and not str(spec.typeName).startswith(_TEXT_TYPES)):
                continue
            if MARK in str(spec.GetInfo(key)):
                prim = str(path.GetPrimPath().StripAllVariantSelections())
                yield TextFault("" if prim == "/" else prim, path.name if path.IsPropertyPath() else key)
