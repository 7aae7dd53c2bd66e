"""A bag on disk: an MCAP file, a rosbag2 directory of MCAP or SQLite files, or one of its files, compressed or not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from usd_ros_bridge.backends.bag.mcap_reader import BagChannel, BagMessage, McapReader, zstd
from usd_ros_bridge.errors import BackendError, did_you_mean, error_text, quoted, quoted_path
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.requirements import BAGS

METADATA: Final = "metadata.yaml"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_COMPRESSED: Final = ".zstd"
_LONGEST_ERROR: Final = 300
_END_OF_TIME_NS: Final = 2**63


class _Storage(Protocol):
    damage: str

    def channels(self) -> tuple[BagChannel, ...]:
        """Return the channels."""

    def messages(self, wanted: Callable[[BagChannel], bool]) -> Iterator[BagMessage]:
        """Return the messages of channels."""


class BagFile:
    """The channels and messages of all files of a bag. Use it as a context manager: compressed files are unpacked.

    A file that is damaged or was not closed is read as far as possible, and reported.
    """

    def __init__(self, path: str, report: Report) -> None:
        """Open a bag.

        Args:
            path: An MCAP or SQLite file, or a rosbag2 directory; `~` is the home directory.
            report: Reports damaged files.

        Raises:
            BackendError: It does not exist, is no bag, cannot be read, or rosbags is not installed.
        """
        self.path = Path(path).expanduser()
        self._report = report
        self._stack = ExitStack()
        try:
            import rosbags.rosbag2  # noqa: F401
        except ImportError as error:
            raise BackendError(BAGS.fault(error)) from None
        try:
            self._files = [(file.name, self._storage(file)) for file in self._storage_files()]
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> BagFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove unpacked files. Idempotent."""
        self._stack.close()

    def channels(self) -> tuple[BagChannel, ...]:
        """Return the channels of all files, each once."""
        return tuple(dict.fromkeys(each for _, file in self._files for each in file.channels()))

    def messages(self, wanted: Callable[[BagChannel], bool]) -> Iterator[BagMessage]:
        """Read messages, file by file, each file in its own order.

        Args:
            wanted: Returns whether to read the messages of a channel.
        """
        for name, file in self._files:
            for channel, log_ns, data in file.messages(wanted):
                # CDR begins with a zero: the message is compressed alone (rosbag2's compression mode `message`).
                if data[: len(_ZSTD_MAGIC)] == _ZSTD_MAGIC:
                    with suppress(Exception):
                        yield channel, log_ns, zstd().decompress(data)
                else:
                    yield channel, log_ns, data
            if file.damage:
                self._report(
                    f"playback.bag_damaged:{name}", f"bag {quoted_path(self.path)}: {name}: {file.damage}"
                )

    def _storage_files(self) -> list[Path]:
        """Return the files with messages, in the order of recording."""
        path = self.path
        if not path.exists():
            siblings = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            question = did_you_mean(path.name, siblings)
            raise BackendError(f"bag {quoted_path(path)} does not exist{f'; {question}' if question else ''}")
        if not path.is_dir():
            return [path]
        found = [each for each in path.iterdir() if _ending(each) in _STORAGES]
        found.sort(key=lambda each: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", each.name)])
        listed = self._listed_files()
        files = [each for each in listed if each.exists()] or found
        if not files:
            raise BackendError(f"bag {quoted_path(path)} is a directory without .mcap and .db3 files")
        if missing := [each.name for each in listed if not each.exists()]:
            self._report("playback.bag_files", f"bag {quoted_path(path)}: {', '.join(missing)} is missing")
        return files

    def _listed_files(self) -> list[Path]:
        """Return the files that the metadata names; none without metadata, as where a recorder was killed."""
        metadata = self.path / METADATA
        if not metadata.exists():
            self._report(
                "playback.bag_files",
                f"bag {quoted_path(self.path)} has no {METADATA}, as a recording that was killed: all its files are "
                "played; `ros2 bag reindex` writes one",
            )
            return []
        from ruamel.yaml import YAML

        try:
            names = YAML(typ="safe").load(metadata)["rosbag2_bagfile_information"]["relative_file_paths"]
            return [self.path / PurePath(name).name for name in names]
        except Exception as error:  # noqa: BLE001 - YAML and what a file may say in it
            self._report(
                "playback.bag_files",
                f"bag {quoted_path(self.path)}: {METADATA} is ignored: {_one_line(error)}",
            )
            return []

    def _storage(self, path: Path) -> _Storage:
        storage = _STORAGES.get(_ending(path))
        if storage is None:
            remedy = (
                "convert it with rosbags-convert" if path.suffix == ".bag" else "give a .mcap or .db3 file"
            )
            kind = "a bag of ROS 1" if path.suffix == ".bag" else "no bag"
            raise BackendError(f"{quoted_path(path)} is {kind}: {remedy}, or a rosbag2 directory")
        if path.suffix != _COMPRESSED:
            return storage(path)
        unpacked = Path(self._stack.enter_context(TemporaryDirectory(prefix="usd_ros_bridge-"))) / path.stem
        damage = _unpack(path, unpacked)
        opened = storage(unpacked)
        if damage:
            self._report(
                f"playback.bag_damaged:{path.name}", f"bag {quoted_path(self.path)}: {path.name}: {damage}"
            )
        return opened


def _ending(path: Path) -> str:
    """Return how a file's name ends, without that of compression."""
    return Path(path.stem).suffix if path.suffix == _COMPRESSED else path.suffix


def _unpack(packed: Path, unpacked: Path) -> str:
    """Unpack a file as far as possible, and return what is wrong with it, "" for nothing.

    Raises:
        BackendError: It cannot be read.
    """
    try:
        with packed.open("rb") as source, zstd().open(source, "rb") as file, unpacked.open("wb") as target:
            shutil.copyfileobj(file, target)
    except OSError as error:
        raise BackendError(f"bag {quoted(packed)} cannot be unpacked: {_one_line(error)}") from None
    except Exception as error:  # noqa: BLE001 - what zstd raises differs between its modules
        return f"it cannot be unpacked to its end: {_one_line(error)}"
    return ""


class _SqliteFile:
    """Channels and messages of a SQLite file, by rosbags."""

    def __init__(self, path: Path) -> None:
        """Check that it can be read."""
        self.damage = ""
        self._path = path
        with _open_reader(self._path) as reader:
            self._channels = {each.id: _channel(each) for each in reader.connections}

    def channels(self) -> tuple[BagChannel, ...]:
        """Return the channels."""
        return tuple(self._channels.values())

    def messages(self, wanted: Callable[[BagChannel], bool]) -> Iterator[BagMessage]:
        """Return the messages of channels; those before a damaged page."""
        self.damage = ""
        chosen = {number: channel for number, channel in self._channels.items() if wanted(channel)}
        if not chosen:
            return
        with _open_reader(self._path) as reader:
            connections = [each for each in reader.connections if each.id in chosen]
            try:
                for connection, log_ns, data in reader.messages(connections):
                    # SQLite keeps any type in any column.
                    if isinstance(log_ns, int) and isinstance(data, bytes) and 0 <= log_ns < _END_OF_TIME_NS:
                        yield chosen[connection.id], log_ns, data
            except Exception as error:  # noqa: BLE001 - rosbags trusts what a database says
                self.damage = f"it is damaged: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    """Return what an error of a library says, in one line."""
    return " ".join(error_text(error).split())[:_LONGEST_ERROR]


@contextmanager
def _open_reader(path: Path) -> Iterator[Any]:
    """Open a SQLite file with rosbags.

    Raises:
        BackendError: It cannot be read.
    """
    from rosbags.rosbag2 import Reader

    try:
        reader = Reader(path)
        reader.open()
    except Exception as error:  # noqa: BLE001 - rosbags trusts what a database says
        raise BackendError(f"bag {quoted_path(path)} cannot be read: {_one_line(error)}") from None
    try:
        yield reader
    finally:
        reader.close()


def _channel(connection: Any) -> BagChannel:
    from rosbags.interfaces import MessageDefinitionFormat

    formats = {MessageDefinitionFormat.MSG: "ros2msg", MessageDefinitionFormat.IDL: "ros2idl"}
    return BagChannel(
        topic=connection.topic,
        type=connection.msgtype,
        encoding=connection.ext.serialization_format,
        definition=connection.msgdef.data,
        definition_format=formats.get(connection.msgdef.format, ""),
    )


_STORAGES: Final[dict[str, Callable[[Path], _Storage]]] = {".mcap": McapReader, ".db3": _SqliteFile}
