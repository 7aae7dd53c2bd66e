"""Locks of node names: a second fleet of this user, with the same names in the same domain, is refused."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path

from usd_ros_bridge.errors import OptionError


@contextmanager
def node_locks(names: Iterable[str]) -> Iterator[None]:
    """Hold the locks of nodes of the process's domain. The kernel releases them when the process ends.

    Args:
        names: Names of the nodes, with their namespaces.

    Raises:
        OptionError: Another process of this user holds one.
    """
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    directory = fleet_directory()
    if directory is None:
        # Without a place to keep them nothing is refused.
        yield
        return
    with ExitStack() as stack:
        for name in names:
            # Any name and domain make the name of a file: the shard refuses what is not possible.
            key = hashlib.sha256(f"{domain}{name}".encode(errors="surrogateescape")).hexdigest()
            with suppress(OSError):
                # Not passed on to child processes: Python opens files like that. Unbuffered: on a full disk, closing
                # would fail once more.
                file = stack.enter_context((directory / f"{key}.lock").open("ab+", buffering=0))
                _lock(file, f"{name} in domain {domain}")
        yield


def _lock(file: FileIO, node: str) -> None:
    """Lock a file, and write this process's id to it.

    Raises:
        OptionError: Another process has locked it.
        OSError: It cannot be locked, or the disk is full.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = (file.read() or b"").decode(errors="replace").strip()
        raise OptionError(
            f"{node} is a node of the fleet of process {holder or 'unknown'}: choose another --node-name or "
            "--namespace, or another ROS_DOMAIN_ID"
        ) from error
    file.truncate(0)
    file.write(b"%d\n" % os.getpid())


def fleet_directory() -> Path | None:
    """Return the directory of what fleets of this user keep while they run, None if none can be made."""
    root = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if not (root.is_absolute() and os.access(root, os.W_OK)):
        root = Path(tempfile.gettempdir())
    directory = root / f"usd_ros_bridge-fleet-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        # In a directory of all users, another one may have made it.
        return directory if directory.stat().st_uid == os.getuid() and not directory.is_symlink() else None
    except OSError:
        return None
