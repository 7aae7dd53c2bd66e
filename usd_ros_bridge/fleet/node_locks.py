"""Locks of node names: a second fleet of this user, with the same names in the same domain, is refused."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
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
            # Not passed on to child processes: Python opens files like that.
            file = stack.enter_context((directory / f"{domain}{name.replace('/', '.')}.lock").open("a+"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                holder = file.read().strip()
                raise OptionError(
                    f"{name} in domain {domain} is a node of the fleet of process {holder or 'unknown'}: choose "
                    "another --node-name or --namespace, or another ROS_DOMAIN_ID"
                ) from error
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


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
