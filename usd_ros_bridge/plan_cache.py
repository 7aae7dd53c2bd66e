"""The plan cache keeps plans between starts. A plan is used again if everything that it was made from is unchanged.

The node reads the cache before OpenUSD is loaded; the planner process fills it. An entry is a line of JSON, its header,
and a pickle, its content. A cache that cannot be read or written is an empty one: the asset is planned.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from usd_ros_bridge.plugins import plugin_fingerprint
from usd_ros_bridge.process_settings import user_cache

if TYPE_CHECKING:
    from usd_ros_bridge.export.urdf import Urdf
    from usd_ros_bridge.model.message_types import TypeCatalog
    from usd_ros_bridge.model.plan import BridgePlan

MAX_ENTRIES: Final = 64
"""Plans in the cache. The one that was not used for longest goes first."""

MAX_BYTES: Final = 512 * 2**20
"""Bytes of all plans in the cache."""

MAX_ENTRY_BYTES: Final = 128 * 2**20
"""Bytes of a plan. A larger one is not kept."""

_FORMAT: Final = 1
_PLAN, _START, _PART = ".plan", ".start", ".part"
_MAX_STARTS: Final = 256
_MAX_HEADER_BYTES: Final = 8 * 2**20
_CLOCK_STEP_NS: Final = 20_000_000
"""How far a file's time of change may be behind the clock: file systems take it from the last timer interrupt."""
_CHUNK_BYTES: Final = 2**20
_ABANDONED_S: Final = 3600.0
"""Age of a file that was begun and never completed."""
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_LIBRARIES: Final = {"pxr": ("", "__init__.py", "Usd", "Sdf"), "scipy": ("", "version.py")}
"""Packages that plans are made with, and what another version of them has replaced."""
_VARIABLES: Final = ("AR_", "PCP_", "PXR", "SDF_", "TF_", "USD")
"""Beginnings of the environment variables that OpenUSD and the bridge read."""
_PARAMETER_FILE: Final = "--params-file"

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPlan:
    """Content of an entry.

    Attributes:
        plan: The plan, without its stage and catalog.
        switchable: By prim path of a service: whether there is anything that it can switch.
        descriptions: Index and description of each robot.
    """

    plan: BridgePlan
    switchable: Mapping[str, bool]
    descriptions: Sequence[tuple[int, Urdf]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSources:
    """What a plan was made from, besides the parts of its key, and the files that were made with it.

    Attributes:
        files: Files that were read or searched; absolute paths.
        types: By name of an interface type: whether it is installed.
        products: Mesh files of the descriptions; absolute paths.
        since_ns: Wall time at which reading began, in nanoseconds.
    """

    files: frozenset[str]
    types: Mapping[str, bool]
    products: frozenset[str]
    since_ns: int


def default_cache_directory() -> Path | None:
    """Return `usd_ros_bridge/plans` in XDG_CACHE_HOME, else in ~/.cache; None if the user has no home directory."""
    try:
        return user_cache("plans")
    except RuntimeError:
        return None


def plan_key(*parts: object) -> str:
    """Return the name of an entry.

    Args:
        parts: What the plan depends on: the asset's path and the options, in texts by `repr`.
    """
    return _digest((parts, _working_directory(), _programs(), _packages(), plugin_fingerprint()))


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode(errors="surrogateescape")).hexdigest()[:40]


def _programs() -> list[object]:
    """Return what identifies the bridge's code, Python, the libraries that plan, and the variables that they read."""
    import numpy as np

    found: list[object] = [sys.version, np.__version__]
    for folder, folders, names in os.walk(Path(__file__).parent):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        found += [(folder, name, _stamp(Path(folder, name))) for name in sorted(names)]
    for package, insides in _LIBRARIES.items():
        spec = find_spec(package)
        for location in (spec.submodule_search_locations or ()) if spec is not None else ():
            found += [location, *(_stamp(Path(location, name)) for name in insides)]
    found += sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES))
    return found


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _packages() -> list[object]:
    """Return the names of the packages that package:// may lead to, by directory in the order of the search."""
    folders = [(path, "") for path in os.environ.get("USD_ROS_PACKAGE_PATH", "").split(os.pathsep) if path]
    folders += [
        (path, "share/ament_index/resource_index/packages")
        for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        if path
    ]
    return [(path, _names(Path(path, inside))) for path, inside in folders]


def _names(folder: Path) -> list[str] | None:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return None


class PlanCache:
    """Plans of earlier starts, in a directory that only its owner may write."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Choose the directory.

        Args:
            directory: Directory of the entries, created with the first one. None: see `default_cache_directory`.
        """
        self._directory = default_cache_directory() if directory is None else Path(directory)

    def load(self, key: str, catalog: TypeCatalog | None) -> CachedPlan | None:
        """Return an entry if it exists, and everything that it was made from is unchanged.

        Args:
            key: As `plan_key` returns it.
            catalog: Which interface types exist.
        """
        with self._open(key) as (stream, header):
            if header is None or stream is None:
                return None
            types = header["types"]
            if types and (
                catalog is None or any(catalog.contains(name) is not there for name, there in types.items())
            ):
                return None
            if not _are_unchanged(header):
                return None
            content = stream.read()
            if hashlib.sha256(content).hexdigest() != header.get("digest"):
                return None
            with suppress(OSError):
                # The entry that was not used for longest goes first.
                os.utime(stream.fileno())
            try:
                found = PlanUnpickler(content).load()
            except Exception:  # noqa: BLE001 - a broken pickle raises anything
                return None
            return found if isinstance(found, CachedPlan) else None

    def store(self, key: str, content: CachedPlan, sources: PlanSources) -> bool:
        """Keep an entry, unless a source has changed since it was read. Return whether it is kept.

        Args:
            key: As `plan_key` returns it.
            content: The entry.
            sources: What it was made from.
        """
        try:
            files = {path: _record(Path(path), sources.since_ns) for path in sources.files}
            products = {path: Path(path).stat().st_size for path in sources.products}
        except (OSError, ValueError):
            return False
        pickled = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
        header = {
            "format": _FORMAT,
            "files": files,
            "types": dict(sources.types),
            "products": products,
            "digest": hashlib.sha256(pickled).hexdigest(),
        }
        head = json.dumps(header).encode() + b"\n"
        if len(head) > _MAX_HEADER_BYTES or len(head) + len(pickled) > MAX_ENTRY_BYTES:
            return False
        try:
            self._write(key + _PLAN, head + pickled)
            self._clean_up()
        except OSError:
            return False
        return True

    # --- Which entry a command line leads to ---

    def expects(self, command: Sequence[str]) -> bool:
        """Return whether the command line used an entry before, and the files of that are unchanged.

        For the start of a process, which does not know its options yet. It may be wrong: `load` decides.
        """
        try:
            with self._open_file(_command_digest(command) + _START) as stream:
                key = stream.read(64).decode("ascii")
        except (OSError, ValueError):
            return False
        with self._open(key) as (_, header):
            return header is not None and _are_unchanged(header)

    def remember(self, command: Sequence[str], key: str) -> None:
        """Keep which entry a command line leads to, for `expects`."""
        name, text = _command_digest(command) + _START, key.encode()
        with suppress(OSError):
            with suppress(FileNotFoundError), self._open_file(name) as stream:
                if stream.read(64) == text:
                    return
            self._write(name, text)

    # --- Files ---

    @contextmanager
    def _open(self, key: str) -> Iterator[tuple[BinaryIO | None, dict[str, Any] | None]]:
        """Open an entry and read its header; (None, None) if it cannot be used."""
        try:
            stream = self._open_file(key + _PLAN)
        except (OSError, ValueError):
            yield None, None
            return
        with stream:
            header = None
            with suppress(OSError, ValueError, RecursionError):
                header = _checked_header(json.loads(stream.readline(_MAX_HEADER_BYTES)))
            yield stream, header

    def _open_file(self, name: str) -> BinaryIO:
        """Open a file of the cache to read it.

        Raises:
            OSError: There is none, or another user could have written it.
        """
        if self._directory is None:
            raise FileNotFoundError
        _check_owner(os.lstat(self._directory), stat.S_ISDIR)
        # A link leads out of the cache; a FIFO would block.
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        stream = os.fdopen(os.open(self._directory / name, flags), "rb")
        try:
            status = os.fstat(stream.fileno())
            _check_owner(status, stat.S_ISREG)
            if status.st_size > MAX_ENTRY_BYTES:
                raise PermissionError
        except OSError:
            stream.close()
            raise
        return stream

    def _write(self, name: str, content: bytes) -> None:
        """Write a file of the cache, under another name until it is complete.

        Raises:
            OSError: It cannot be written.
        """
        if self._directory is None:
            raise FileNotFoundError
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(os.lstat(self._directory), stat.S_ISDIR)
        part = self._directory / f"{name}.{os.getpid()}.{next(_numbers)}{_PART}"
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)
            part.replace(self._directory / name)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def _clean_up(self) -> None:
        """Remove the entries that were not used for longest, and what was begun and never completed."""
        assert self._directory is not None
        found = []
        with os.scandir(self._directory) as entries:
            for each in entries:
                with suppress(FileNotFoundError):
                    status = each.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, each.name))
        # The newest first.
        found.sort(reverse=True)
        total = 0
        kept = {_PLAN: MAX_ENTRIES, _START: _MAX_STARTS}
        oldest = time.time() - _ABANDONED_S
        for changed, size, name in found:
            kind = Path(name).suffix
            if kind in kept:
                kept[kind] -= 1
                total += size
                is_old = kept[kind] < 0 or total > MAX_BYTES
            else:
                is_old = kind == _PART and changed < oldest
            if is_old:
                (self._directory / name).unlink(missing_ok=True)


def _check_owner(status: os.stat_result, is_kind: Any) -> None:
    """Refuse what another user could have written: a pickle is a program.

    Raises:
        PermissionError: It belongs to another user, others may write it, or it is something else.
    """
    # An operating system without user ids has no cache.
    owner = os.geteuid() if hasattr(os, "geteuid") else None
    if owner != status.st_uid or status.st_mode & _OTHERS_MAY_WRITE or not is_kind(status.st_mode):
        raise PermissionError


def _command_digest(command: Sequence[str]) -> str:
    """Return a name for a command line. Parameter files count by their content: launch makes new ones each time."""
    parts: list[object] = [_working_directory()]
    previous = ""
    for argument in command:
        parts.append(argument)
        if previous == _PARAMETER_FILE:
            with suppress(OSError, ValueError):
                parts[-1] = Path(argument).read_bytes()
        previous = argument
    return _digest(parts)


# --- Sources ---------------------------------------------------------------------------------------------------


def _record(path: Path, since_ns: int) -> list[Any] | None:
    """Return what identifies the content of a file; None if there is none.

    Args:
        path: The file.
        since_ns: Time at which it was read, or later.

    Raises:
        OSError: It is no regular file, cannot be read, or has changed since.
        ValueError: The path is not possible.
    """
    try:
        with open(path, "rb", opener=_nonblocking) as stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode) or before.st_ctime_ns >= since_ns - _CLOCK_STEP_NS:
                raise PermissionError
            digest = _content_digest(stream)
            if _state(os.fstat(stream.fileno())) != _state(before):
                raise PermissionError
            return [*_state(before), digest]
    except (FileNotFoundError, NotADirectoryError):
        return None


def _content_digest(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | os.O_CLOEXEC)


def _state(status: os.stat_result) -> list[int]:
    """Return what changes whenever a file does. No program can set the time of a file's change of state."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _are_unchanged(header: Mapping[str, Any]) -> bool:
    """Return whether the files of an entry have the content that they had, and its mesh files are there."""
    return all(_is_unchanged(path, record) for path, record in header["files"].items()) and all(
        (stamp := _stamp(Path(path))) is not None and stamp[0] == size
        for path, size in header["products"].items()
    )


def _is_unchanged(path: str, record: list[Any] | None) -> bool:
    try:
        status = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return record is None
    except (OSError, ValueError):
        return False
    if record is None or not stat.S_ISREG(status.st_mode) or status.st_size != record[0]:
        return False
    if _state(status) == record[:-1]:
        return True
    try:
        with open(path, "rb", opener=_nonblocking) as stream:
            return bool(_content_digest(stream) == record[-1])
    except OSError:
        return False


def _checked_header(header: Any) -> dict[str, Any]:
    """Return a header that has the right form.

    Raises:
        ValueError: It has another one.
    """
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError
    if not all(isinstance(header.get(name), dict) for name in ("files", "types", "products")):
        raise ValueError
    if not all(
        record is None or (isinstance(record, list) and record) for record in header["files"].values()
    ):
        raise ValueError
    return header


# --- Content ---------------------------------------------------------------------------------------------------

_DATA_MODULES: Final = ("usd_ros_bridge.model.", "usd_ros_bridge.spatial.", "usd_ros_bridge.export.urdf.")
_CONSTRUCTORS: Final = frozenset(
    {
        ("builtins", "frozenset"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.numeric", "_frombuffer"),
        ("usd_ros_bridge.options", "PlanOptions"),
        ("usd_ros_bridge.options", "VariantSelection"),
        ("usd_ros_bridge.plan_cache", "CachedPlan"),
    }
)


class PlanUnpickler(pickle.Unpickler):
    """Load what plans consist of, and nothing else."""

    def __init__(self, content: bytes) -> None:
        """Store a pickle."""
        super().__init__(BytesIO(content))

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the bridge's data, or a constructor of numpy's arrays.

        Raises:
            UnpicklingError: It is something else.
        """
        if (module, name) in _CONSTRUCTORS:
            return super().find_class(module, name)
        if module.startswith(_DATA_MODULES) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a plan")
