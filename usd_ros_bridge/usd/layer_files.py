"""Layer files: open regular files only, within limits, and from private copies where others may write them.

OpenUSD maps layer files, text as well as binary: a file that is truncated in place meanwhile ends the process with
SIGBUS. A FIFO or a device blocks the thread that opens it. So the bridge checks each file before OpenUSD opens it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from pxr import Ar, Sdf, Tf

from usd_ros_bridge.errors import AssetError, quoted
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd.packages import SCHEME
from usd_ros_bridge.usd.text_encoding import (
    CRATE,
    QUOTED,
    TEXT,
    TextFault,
    has_bad_text,
    replace_bad_text,
    text_in_file,
)

T = TypeVar("T")

_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_CHUNK: Final = 1 << 20
_REST_S: Final = 0.05
"""How long nobody may have modified a file: a half-written text layer may be a layer."""

_STEPS: Final = bytes.maketrans(b"{[(}])", b"\x01\x01\x01\xff\xff\xff")
"""Brackets as signed bytes: a level more, a level less."""
_OTHERS: Final = bytes(set(range(256)).difference(b"{[(}])"))


class FileRefusedError(Exception):
    """A file is not opened; the message says why."""


FileVersion = tuple[int, int, int]
"""What distinguishes versions of a file: size, time of modification in nanoseconds, inode."""


class LayerFiles:
    """Opener of the layer files of one stage. Any thread may use it, one at a time.

    Attributes:
        versions: Of the files that were opened, by path, from just before each was read: what is saved while it is
            read is another version.
        kept: Layers that are open though nothing is composed from them, by identifier.
        text_faults: Where layers had text that is not UTF-8, by identifier.
    """

    def __init__(self, options: ReadOptions | None = None) -> None:
        """Store the limits.

        Args:
            options: Limits, and whether layers are read from private copies. None for the defaults.
        """
        self.options = options or ReadOptions()
        self.versions: dict[str, FileVersion] = {}
        self.kept: dict[str, Any] = {}
        self.text_faults: dict[str, list[TextFault]] = {}
        self._bytes: dict[str, int] = {}
        self._placeholders: dict[str, Any] = {}
        # Until they are composed: a layer without references is freed, and OpenUSD would read its file itself.
        self._held: dict[str, Any] = {}
        self._imports: dict[str, _Import] = {}

    def open(self, identifier: str) -> Any:
        """Return the layer of an identifier, None where nothing is found.

        Raises:
            FileRefusedError: It is no regular file.
            AssetError: A limit is exceeded.
            Tf.ErrorException: OpenUSD cannot read it.
        """
        if identifier in self._placeholders:
            raise FileRefusedError("it was refused before")
        layer = Sdf.Layer.Find(identifier)
        if layer is not None:
            return layer
        file = resolved_file(identifier)
        if file is None:
            return Sdf.Layer.FindOrOpen(identifier)
        self.check(file)
        if not self.options.private_copies:
            layer = Sdf.Layer.FindOrOpen(identifier)
            if self._make_readable(layer, file):
                self.note_import(layer, file)
            return layer
        with self.copy(file) as copy:
            layer = self._held[identifier] = _opened_from(identifier, copy)
            self._make_readable(layer, copy)
        self.note_import(layer, file)
        return layer

    def _make_readable(self, layer: Any, file: str) -> bool:
        """Check the text of a layer that was read from a file, and replace what is not UTF-8.

        Returns:
            Whether any was replaced.

        Raises:
            AssetError: It has text that is nested too deeply.
        """
        text = b"" if layer is None else text_in_file(layer.realPath or layer.identifier, file)
        if not text.startswith(TEXT) and _is_any_deeper(text.split(b"\0"), self.options.max_nesting):
            raise AssetError(f"{quoted(Path(file).name)}: {exceeded('nesting', self.options.max_nesting)}")
        if not has_bad_text(text):
            return False
        self.text_faults[layer.identifier] = replace_bad_text(layer)
        # Composed later on, OpenUSD would read it again.
        self.keep((layer,))
        return True

    def check(self, file: str) -> None:
        """Check a file before anything reads it. A file that is missing is left to OpenUSD to report.

        Raises:
            FileRefusedError: It is no regular file, or empty.
            AssetError: A limit is exceeded.
        """
        with suppress(OSError):
            self.versions[file] = file_version(file)
        size = regular_file_size(file)
        if size is None:
            return
        if size == 0:
            raise FileRefusedError("the file is empty")
        self._bytes[file] = size
        if len(self._bytes) > self.options.max_layers:
            raise AssetError(exceeded("layers", self.options.max_layers))
        if sum(self._bytes.values()) > self.options.max_bytes:
            raise AssetError(exceeded("bytes", self.options.max_bytes))
        if is_nested_deeper(file, self.options.max_nesting):
            raise AssetError(f"{quoted(Path(file).name)}: {exceeded('nesting', self.options.max_nesting)}")

    def note_import(self, layer: Any, file: str) -> None:
        """Note that a layer was read from a copy of a file: OpenUSD takes it for edited."""
        if layer is not None and file in self.versions:
            self._imports[layer.identifier] = _Import(layer, self.versions[file])

    def take_imports(self, other: LayerFiles) -> None:
        """Take over what another opener noted of layers that it read from copies."""
        self._imports.update(other._imports)

    def unedited_version(self, layer: Any, file: str) -> FileVersion | None:
        """Return the version of its file that a layer still has the content of.

        Returns:
            None if it was edited since it was read. Where the version is not known, the file's version now.
        """
        imported = self._imports.get(layer.identifier)
        if imported is not None:
            return None if imported.is_edited else imported.version
        if layer.dirty:
            return None
        try:
            return self.versions.get(file) or file_version(file)
        except OSError:
            return None

    def keep(self, layers: Iterable[Any]) -> None:
        """Keep layers open as long as the stage: what they are needed for is not composed now, and may be later on."""
        self.kept.update({layer.identifier: layer for layer in layers if not layer.anonymous})

    def release(self) -> None:
        """Release layers that were opened from copies, once the stage holds them."""
        self._held.clear()

    def hold_place(self, identifier: str) -> None:
        """Register an empty layer of this identifier, so that OpenUSD never opens the file."""
        if identifier not in self._placeholders and Sdf.Layer.Find(identifier) is None:
            self._placeholders[identifier] = Sdf.Layer.New(
                Sdf.FileFormat.FindByExtension("usda"), Sdf.Layer.SplitIdentifier(identifier)[0]
            )

    @contextmanager
    def copy(self, file: str, stop: Callable[[], bool] | None = None) -> Iterator[str]:
        """Copy a file to a private folder while the context lasts: what OpenUSD maps of it stays as it is.

        Args:
            file: Path of the file.
            stop: Return True to give up.

        Raises:
            FileRefusedError: It is no regular file, empty, being written, or cannot be read.
        """
        folder = tempfile.mkdtemp(prefix="usd_ros_bridge-")
        try:
            target = Path(folder, Path(file).name)
            _copy_regular(file, target, self.options.max_bytes, stop)
            yield str(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Import:
    """A layer that was read from a copy of a file, and whether it has changed since.

    Attributes:
        version: Version of the file.
        is_edited: Set by the thread that edits the layer.
    """

    def __init__(self, layer: Any, version: FileVersion) -> None:
        self.version = version
        self.is_edited = False
        self._key = Tf.Notice.Register(Sdf.Notice.LayersDidChangeSentPerLayer, self._on_change, layer)

    def _on_change(self, _notice: Any, _layer: Any) -> None:
        self.is_edited = True


def exceeded(limit: str, value: int) -> str:
    """Return what to say about a limit that an asset exceeds."""
    what = {
        "prims": "prims",
        "layers": "layers",
        "bytes": "bytes in its files",
        "nesting": "levels of nesting",
        "arcs": "composition arcs or API schemas",
    }[limit]
    return f"more than {value:,} {what}; max_{limit} (--max-{limit}) raises the limit"


def resolved_file(identifier: str) -> str | None:
    """Return the file on disk that an identifier leads to, None where it leads to none.

    Args:
        identifier: Of a layer; of one inside an archive, the archive is returned.
    """
    path = Sdf.Layer.SplitIdentifier(identifier)[0]
    if Sdf.Layer.IsAnonymousLayerIdentifier(path):
        return None
    outer = Ar.SplitPackageRelativePathOuter(path)[0] if Ar.IsPackageRelativePath(path) else path
    try:
        resolved = str(Ar.GetResolver().Resolve(outer))
    except Tf.ErrorException:
        resolved = ""
    # OpenUSD's resolver finds what exists; a socket or a FIFO without permission is checked all the same.
    found = resolved or outer
    return found if os.path.lexists(found) else None


def outer_file(real_path: str) -> str:
    """Return the file that a layer is in, seen from outside of archives and of the bridge's own links."""
    outer = (
        Ar.SplitPackageRelativePathOuter(real_path)[0] if Ar.IsPackageRelativePath(real_path) else real_path
    )
    folder, is_linked, rest = outer.partition(f"{os.sep}{SCHEME}{os.sep}")
    name, _, inside = rest.partition(os.sep)
    link = Path(folder, SCHEME, name)
    if is_linked and link.is_symlink():
        return str(link.readlink() / inside)
    return os.path.normpath(outer)


def file_version(file: str) -> FileVersion:
    """Return the version of a file.

    Raises:
        OSError: There is none.
    """
    found = Path(file).stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def regular_file_size(file: str) -> int | None:
    """Return the size of a regular file, links followed, None where there is no file.

    Raises:
        FileRefusedError: It is no regular file.
    """
    try:
        found = Path(file).stat()
    except OSError:
        return None
    _require_regular(found)
    return found.st_size


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for matches, name in _KINDS if matches(found.st_mode)), "no file")
        raise FileRefusedError(f"it is {kind} and no regular file")


def read_regular_file(file: str, most_bytes: int) -> bytes:
    """Return the content of a regular file. A FIFO or a device that took its place is never waited for.

    Raises:
        FileRefusedError: It is no regular file, or too large.
        OSError: It cannot be read.
    """
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        _require_regular(os.fstat(handle))
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FileRefusedError(f"it has more than {most_bytes:,} bytes")
    return content


def layer_text(layer: Any) -> bytes | None:
    """Return the text that a layer was read from: what a word of it stands for is in no layer without that word.

    Args:
        layer: Any layer.

    Returns:
        None for a layer of another format, one that has no file of its own, and one that was edited.
    """
    file = None if layer.anonymous or layer.dirty else resolved_file(layer.identifier)
    if file is None:
        return None
    try:
        content = read_regular_file(file, regular_file_size(file) or 0)
    except (FileRefusedError, OSError):
        return None
    return content if content.startswith(TEXT) else None


def _copy_regular(file: str, target: Path, most_bytes: int, stop: Callable[[], bool] | None) -> None:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as source, target.open("wb") as copy:
            before = os.fstat(handle)
            _require_regular(before)
            copied = 0
            while chunk := source.read(_CHUNK):
                copied += len(chunk)
                if copied > most_bytes or (stop is not None and stop()):
                    raise FileRefusedError(f"it has more than {most_bytes:,} bytes")
                copy.write(chunk)
            _wait_for_rest(before)
            after = Path(file).stat()
    except OSError as error:
        raise FileRefusedError(error.strerror or str(error)) from None
    if copied == 0:
        raise FileRefusedError("the file is empty")
    if copied != before.st_size or _version(after) != _version(before):
        raise FileRefusedError("it is being written")


def _wait_for_rest(found: os.stat_result) -> None:
    """Wait until a file that was modified just now has had the time to be modified again."""
    age = time.time() - found.st_mtime
    if 0.0 <= age < _REST_S:
        time.sleep(_REST_S - age)


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


# --- Nesting ---------------------------------------------------------------------------------------------------


def is_nested_deeper(file: str, limit: int) -> bool:
    """Return whether a text layer is nested deeper than `limit`, which would overflow the stack of OpenUSD's parser.

    Args:
        file: A .usda, .usd or .usdz file; binary layers are not checked.
        limit: Levels of brackets.
    """
    try:
        size = Path(file).stat().st_size
        if size <= 2 * limit:
            return False
        if not file.endswith(".usdz"):
            return _is_text_deeper(read_regular_file(file, size + _CHUNK), limit)
        with zipfile.ZipFile(file) as archive:
            return any(
                _is_text_deeper(archive.read(entry), limit)
                for entry in archive.infolist()
                if entry.filename.endswith((".usda", ".usd"))
                and entry.compress_type == zipfile.ZIP_STORED
                and entry.file_size > 2 * limit
            )
    except (OSError, ValueError, KeyError, NotImplementedError, zipfile.BadZipFile, FileRefusedError):
        return False  # OpenUSD reports the fault.


def _is_text_deeper(content: bytes, limit: int) -> bool:
    if content.startswith(CRATE) or _opened(content) <= limit:
        return False
    # Brackets in strings and comments do not count, and take long to leave out.
    return _depth(content) > limit and (
        _depth(QUOTED.sub(b"", content)) > limit or _is_any_deeper(QUOTED.findall(content), limit)
    )


def _is_any_deeper(texts: Iterable[bytes], limit: int) -> bool:
    """Return whether a string, which may be an expression of OpenUSD's, has more levels of `(` than `limit`."""
    return any(each.count(b"(") > limit and _depth(each.translate(None, b"{[]}")) > limit for each in texts)


def _opened(content: bytes) -> int:
    return sum(content.count(each) for each in (b"{", b"[", b"("))


def _depth(content: bytes) -> int:
    """Return the levels of brackets; closing ones without an opening one do not hide others."""
    level = lowest = deepest = 0
    for start in range(0, len(content), _CHUNK):
        steps = content[start : start + _CHUNK].translate(_STEPS, _OTHERS)
        if not steps:
            continue
        levels = level + np.cumsum(np.frombuffer(steps, dtype=np.int8), dtype=np.int64)
        floors = np.minimum(np.minimum.accumulate(levels), lowest)
        deepest = max(deepest, int((levels - floors).max(initial=0)))
        level, lowest = int(levels[-1]), int(floors[-1])
    return deepest


# --- Private copies --------------------------------------------------------------------------------------------


def _opened_from(identifier: str, copy: str) -> Any:
    """Return the layer of an identifier with the content of a copy of its file."""
    path, arguments = Sdf.Layer.SplitIdentifier(identifier)
    file_format = Sdf.FileFormat.FindByExtension(path)
    if file_format is None:
        return Sdf.Layer.FindOrOpen(identifier)
    if Ar.IsPackageRelativePath(path) or file_format.IsPackage():
        # OpenUSD makes no such layers on request. It reads the archive once, and releases it here.
        layer = Sdf.Layer.FindOrOpen(identifier)
    else:
        layer = Sdf.Layer.New(file_format, Ar.GetResolver().CreateIdentifier(path), arguments)
    if layer is not None:
        import_copy(layer, copy)
    return layer


def copied_path(layer_path: str, copy: str) -> str:
    """Return the path in a copy of what `layer_path` is in the file, an archive's inner path included."""
    if not Ar.IsPackageRelativePath(layer_path):
        return copy
    return str(Ar.JoinPackageRelativePath([copy, Ar.SplitPackageRelativePathOuter(layer_path)[1]]))


def import_copy(layer: Any, copy: str) -> None:
    """Replace the content of a layer by that of a copy of its file.

    Raises:
        Tf.ErrorException: OpenUSD cannot read it.
    """
    layer.Import(copied_path(layer.realPath or layer.identifier, copy))


def run_within(seconds: float, job: Callable[[Callable[[], bool]], T]) -> T:
    """Run `job(stop)` in a thread and return its result.

    Args:
        seconds: How long to wait.
        job: Called with a function that returns True after the time-out.

    Raises:
        TimeoutError: It took longer. The thread is left behind.
    """
    began = time.monotonic()
    results: list[T] = []
    errors: list[BaseException] = []

    def late() -> bool:
        return time.monotonic() - began > seconds

    def run() -> None:
        try:
            results.append(job(late))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="usd_ros_bridge-read", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive() or late():
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]


# --- Files of a stage ------------------------------------------------------------------------------------------

_of_stages: WeakKeyDictionary[Any, LayerFiles] = WeakKeyDictionary()


def keep_files(stage: Any, files: LayerFiles) -> None:
    """Remember how the layer files of a stage were opened, as long as the stage exists."""
    _of_stages[stage] = files


def files_of(stage: Any) -> LayerFiles:
    """Return how the layer files of a stage are opened; for a stage of a host's, the default limits."""
    return _of_stages.get(stage) or LayerFiles()
