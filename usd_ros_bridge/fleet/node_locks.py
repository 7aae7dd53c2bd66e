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
    with ExitStack() as stack:
        try:
            directory = _directory()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            # Nowhere to keep them: then nothing is refused.
            yield
            return
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


def _directory() -> Path:
    root = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if root.is_absolute() and os.access(root, os.W_OK):
        return root / "usd_ros_bridge" / "fleet"
    return Path(tempfile.gettempdir(), f"usd_ros_bridge-{os.getuid()}", "fleet")
