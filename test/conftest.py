"""Keeps every test run to itself: a ROS domain of its own, the loopback alone, no shared memory left behind."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rclpy.context import Context
    from rclpy.executors import Executor
    from rclpy.node import Node

# Read by rclpy's generated message modules when they are imported, and by every Context that is initialised:
# set here, before any test module is imported. Ports of domains above 101 can be taken by outgoing connections.
os.environ["ROS_DOMAIN_ID"] = str(random.SystemRandom().randint(1, 101))
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ.pop("ROS_STATIC_PEERS", None)
# What bridges keep for the next time (mesh files, decomposed meshes) is not to fill the user's own cache.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / "build/test_cache")

SHARED_MEMORY = Path("/dev/shm")
# Fast DDS 2 and 3 name their files differently.
SHARED_MEMORY_NAMES = ("fastrtps_*", "sem.fastrtps_*", "fastdds_*", "sem.fastdds_*")
YOUNGEST_ABANDONED_SECONDS = 0.5


def fast_dds_files() -> set[Path]:
    """The shared-memory segments, ports, locks and semaphores of Fast DDS that this user owns."""
    found = [path for pattern in SHARED_MEMORY_NAMES for path in SHARED_MEMORY.glob(pattern)]
    owned = set()
    for path in found:
        try:
            if path.stat().st_uid == os.getuid():
                owned.add(path)
        except FileNotFoundError:
            continue
    return owned


def in_use(files: set[Path]) -> set[Path]:
    """Those of the files that a living process maps or holds open."""
    names = {str(path) for path in files}
    used: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "maps").read_text(errors="replace").splitlines()
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


def is_settled(path: Path) -> bool:
    """Whether a file is past the moment between creation and first use, when another program's looks abandoned."""
    try:
        return time.time() - path.stat().st_ctime > YOUNGEST_ABANDONED_SECONDS
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session", autouse=True)
def shared_memory() -> Iterator[None]:
    """Removes what a killed process of this run left in shared memory; other programs' files stay."""
    before = fast_dds_files()
    yield
    left = fast_dds_files() - before
    for path in left - in_use(left):
        if is_settled(path):
            path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def domain_id() -> int:
    """The ROS domain of this test process."""
    return int(os.environ["ROS_DOMAIN_ID"])


class RosHarness:
    """A node of the test's own, in a Context of its own, to look at a bridge from outside."""

    def __init__(self, context: Context, node: Node, executor: Executor) -> None:
        self.context = context
        self.node = node
        self.executor = executor

    def wait_for(self, condition: Callable[[], bool], *, timeout: float = 10.0, what: str = "") -> None:
        """Spins until the condition holds; fails the test, naming what was awaited, at the time-out."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"waited {timeout:g} s for {what or condition}")
            self.executor.spin_once(timeout_sec=0.05)


@pytest.fixture
def ros_harness(domain_id: int) -> Iterator[RosHarness]:
    """A node with an executor in this run's domain, closed at the end of the test."""
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    context = Context()
    # Signals stay pytest's.
    rclpy.init(context=context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("observer", context=context, enable_rosout=False, start_parameter_services=False)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        yield RosHarness(context, node, executor)
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
