"""Reserve ROS domains that nobody else on the machine uses, and clean up what killed processes leave there.

Two test suites, or runs of a sweep, in one domain get each other's topics, services and `/clock`. One lock file per
domain, in the machine's temporary directory, prevents that. A domain that another program uses without a lock is
skipped, too.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

MAX_TEST_DOMAIN_ID = 101
"""Ports of higher domains can be taken by the outgoing connections of other programs."""
# RTPS 9.6.1.4: the port of the first participant's discovery traffic is 7400 + 250 * domain + 10.
_FIRST_PORT = 7410
_PORTS_PER_DOMAIN = 250

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Fast DDS has its segments
# Fast DDS 2 and 3 name their files differently.
_SHARED_MEMORY_NAMES = ("fastrtps_*", "sem.fastrtps_*", "fastdds_*", "sem.fastdds_*")
_PORT_FILE = re.compile(r"_port(\d+)$")
_YOUNGEST_ABANDONED_S = 0.5


class DomainReservation:
    """A ROS domain that belongs to this process until it ends or `close` is called.

    Attributes:
        domain_id: The domain, 1 to 101.
    """

    def __init__(self, domain_id: int, lock: int) -> None:
        """Store the lock of a domain.

        Args:
            domain_id: The domain.
            lock: File descriptor that holds its lock.
        """
        self.domain_id = domain_id
        self._lock = lock

    def close(self) -> None:
        """Release the domain. Idempotent."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def reserve_domain() -> DomainReservation:
    """Reserve a domain that no other process of this machine has reserved or uses.

    Raises:
        RuntimeError: All domains are in use.
    """
    directory = Path(tempfile.gettempdir()) / "usd_ros_bridge_test_domains"
    directory.mkdir(exist_ok=True)
    # Several users may run tests here.
    if directory.stat().st_uid == os.getuid():
        directory.chmod(0o1777)
    domains = list(range(1, MAX_TEST_DOMAIN_ID + 1))
    random.SystemRandom().shuffle(domains)
    for domain_id in domains:
        lock = _try_lock(directory / f"{domain_id}.lock")
        if lock is None:
            continue
        if _is_silent(domain_id):
            return DomainReservation(domain_id, lock)
        os.close(lock)
    raise RuntimeError(f"all ROS domains from 1 to {MAX_TEST_DOMAIN_ID} are in use on this machine")


def _try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock, or None if another process holds it.

    The end of the process releases the lock. Child processes do not inherit it.
    """
    try:
        descriptor = _open_lock(path)
    except PermissionError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(path: Path) -> int:
    """Return a descriptor that can be locked. The file may be another user's, who let others read it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _is_silent(domain_id: int) -> bool:
    """Return whether no participant of this machine has the domain's first discovery port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", _FIRST_PORT + _PORTS_PER_DOMAIN * domain_id))
        except OSError:
            return False
    return True


def shared_memory_files() -> set[Path]:
    """Return the segments, ports, locks and semaphores of Fast DDS in shared memory that this user owns."""
    found = [path for pattern in _SHARED_MEMORY_NAMES for path in _SHARED_MEMORY.glob(pattern)]
    owned = set()
    for path in found:
        try:
            if path.stat().st_uid == os.getuid():
                owned.add(path)
        except FileNotFoundError:
            continue
    return owned


def remove_abandoned(before: Iterable[Path], *, domain_id: int | None = None) -> None:
    """Remove what killed processes left in shared memory. Files of living processes stay.

    Args:
        before: Files that stay, too: those of `shared_memory_files` at the start.
        domain_id: Only if a process of this domain left something: who uses a file is found in all processes of the
            machine, which takes long. None: in any case.
    """
    left = shared_memory_files().difference(before)
    if domain_id is not None:
        ports = range(*(_FIRST_PORT - 10 + _PORTS_PER_DOMAIN * each for each in (domain_id, domain_id + 1)))
        if not any((port := _PORT_FILE.search(path.name)) and int(port[1]) in ports for path in left):
            return
        # A process that was killed at its start leaves files that look as if another one were creating them.
        time.sleep(_YOUNGEST_ABANDONED_S)
    if not left:
        return
    for path in left - _in_use(left):
        if _is_settled(path) and not _is_locked(path):
            path.unlink(missing_ok=True)


def _in_use(files: set[Path]) -> set[Path]:
    """Return those of the files that a living process maps or holds open."""
    names = {str(path) for path in files}
    used: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "maps").read_text(errors="replace", encoding="utf-8").splitlines()
            used.update(
                fields[-1] for line in maps if (fields := line.split(maxsplit=5)) and fields[-1] in names
            )
            for descriptor in (process / "fd").iterdir():
                try:
                    used.add(str(descriptor.readlink()))
                except OSError:
                    continue
        except OSError:
            continue
    return {path for path in files if str(path) in used}


def _is_locked(path: Path) -> bool:
    """Return whether a process holds Fast DDS's lock of a file. Processes of other containers are seen by it alone."""
    name = path.name.removeprefix("sem.").removesuffix("_mutex").removesuffix("_el")
    try:
        lock = os.open(path.with_name(f"{name}_el"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _is_settled(path: Path) -> bool:
    """Return whether a file is past the moment between creation and first use, when it looks abandoned."""
    try:
        return time.time() - path.stat().st_ctime > _YOUNGEST_ABANDONED_S
    except FileNotFoundError:
        return False
