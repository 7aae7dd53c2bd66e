"""A closed bridge is freed by reference counting alone, as is a plan that another one has replaced.

What waits for the garbage collector is freed at any time, in any thread: a stage in the midst of OpenUSD's notices of
another one, which ends the process.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf

from usd_ros_bridge import Bridge, BridgeOptions, VariantSelection, load_plan
from usd_ros_bridge.model.plan import BridgePlan

pytestmark = pytest.mark.storm

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ARM = EXAMPLES / "arm" / "arm.usda"
ROVER = EXAMPLES / "rover" / "world.usda"
TIMEOUT_S = 30.0
CHANGES = 3
MOST_PLANS = 4
"""The plan that is live, and the one that unchanged parts were made from; each also without what is served already."""
Change = Callable[[Bridge], object]


def reload(bridge: Bridge) -> None:
    bridge.reload().result(TIMEOUT_S)


def select_gripper(bridge: Bridge) -> None:
    for gripper in ("none", "suction"):
        bridge.change(variants=[VariantSelection("/arm", "gripper", gripper)]).result(TIMEOUT_S)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Nothing is freed but by reference counting."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def host_node(ros_harness: Any) -> Iterator[Any]:
    """A host's node, whose executor runs in a thread."""
    done = threading.Event()

    def spin() -> None:
        while not done.is_set():
            ros_harness.executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)
    thread.start()
    yield ros_harness.node
    done.set()
    thread.join()


def count_plans() -> int:
    return sum(isinstance(each, BridgePlan) for each in gc.get_objects())


def wait_for(condition: Callable[[], bool], *, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)


class Watched:
    """Objects of an open bridge that are to be freed, by name. They are not held here."""

    def __init__(self, bridge: Bridge) -> None:
        runtime, stage = bridge.parts.runtime, bridge.plan.stage
        self._session = stage.GetSessionLayer().identifier
        # Python's stage and OpenUSD's: the session layer is nobody else's.
        held = {"bridge": bridge, "runtime": runtime, "backend": runtime.backend, "stage": stage}
        if bridge.changes is not None:
            held["changer"] = bridge.changes
        self._held = {name: weakref.ref(each) for name, each in held.items()}

    def living(self) -> set[str]:
        names = {name for name, each in self._held.items() if each() is not None}
        return names | ({"session layer"} if Sdf.Layer.Find(self._session) is not None else set())


def wait_until_freed(watched: Watched) -> None:
    """Wait until nothing is left: the thread that makes descriptions may end a moment after its bridge is closed."""
    wait_for(lambda: not watched.living(), what="everything to be freed")


@contextmanager
def running(asset: Path, backend: str, node: Any = None) -> Iterator[Bridge]:
    """An open bridge that spins; closed at the end."""
    options = BridgeOptions(backend_options={"gl": "none"} if backend == "mujoco" else {})
    # Held by nobody here.
    bridge = Bridge(
        load_plan(asset, physics=backend == "mujoco"),
        backend,
        options=options,
        node=node,
        report=lambda *_: None,
        inform=lambda *_: None,
    ).open()
    thread = threading.Thread(target=bridge.spin)
    thread.start()
    try:
        yield bridge
    finally:
        bridge.close()
        thread.join()


def run(asset: Path, backend: str, change: Change | None = None, node: Any = None) -> Watched:
    """Open a bridge, change and close it; return what is to be freed."""
    before = count_plans()
    with running(asset, backend, node) as bridge:
        if change is not None:
            for _ in range(CHANGES):
                change(bridge)
            # The robots may still be being described.
            wait_for(lambda: count_plans() <= before + MOST_PLANS, what="the plans before to be freed")
        return Watched(bridge)


@pytest.mark.parametrize("change", [None, reload, select_gripper])
@pytest.mark.parametrize("is_host_node", [False, True], ids=["own node", "host's node"])
@pytest.mark.parametrize("backend", ["kinematic", "mujoco"])
@pytest.mark.usefixtures("no_collector")
def test_closed(backend: str, is_host_node: bool, change: Change | None, request: Any) -> None:
    if backend == "mujoco":
        pytest.importorskip("mujoco", reason="mujoco is not installed")
    node = request.getfixturevalue("host_node") if is_host_node else None
    before = count_plans()
    watched = run(ARM, backend, change, node)
    # The executor of a host may be about to look at what was the bridge's.
    wait_for(lambda: not watched.living() and count_plans() == before, what="everything to be freed")


@pytest.mark.usefixtures("no_collector")
def test_closed_with_standard_simulation_interfaces() -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
    wait_until_freed(run(ROVER, "mujoco", reload))


@pytest.mark.usefixtures("no_collector")
def test_closed_where_handlers_know_the_bridge() -> None:
    def bind(bridge: Bridge) -> None:
        bridge.on_action("/arm/Interfaces/follow_joint_trajectory", lambda _: bridge.status())
        bridge.on_message("/arm/Interfaces/joint_commands", lambda _: bridge.status())

    wait_until_freed(run(ARM, "kinematic", bind))


@pytest.mark.usefixtures("no_collector")
def test_closed_without_having_run() -> None:
    bridge = Bridge(load_plan(ARM), options=BridgeOptions(threaded=False), report=lambda *_: None).open()
    watched, node = Watched(bridge), weakref.ref(bridge.node)
    bridge.close()
    bridge.close()
    del bridge
    wait_until_freed(watched)
    wait_for(lambda: node() is None, what="the node to be freed")


@pytest.mark.usefixtures("no_collector")
def test_nodes_of_closed_bridges_are_freed() -> None:
    with running(ARM, "kinematic") as bridge:
        node = weakref.ref(bridge.node)
    del bridge
    # As for the bridge: the thread that makes descriptions knows its node.
    wait_for(lambda: node() is None, what="the node to be freed")


def test_closed_from_several_threads() -> None:
    bridge = Bridge(load_plan(ARM), report=lambda *_: None).open()
    failures: list[BaseException] = []

    def close() -> None:
        try:
            bridge.close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not failures
