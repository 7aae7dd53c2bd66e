"""What runs changes again and again: the number of objects stays as it was.

OBJECT_CHANGES says how many changes of each kind there are; each of them is taken back.
"""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from rclpy.parameter import Parameter

from usd_ros_bridge import VariantSelection, load_plan

CHANGES = int(os.environ.get("OBJECT_CHANGES", "6"))
WARM_UP = 3
SAMPLES = 3
ATTEMPTS = 4
TIMEOUT_S = 30.0
STATES = "/arm/Interfaces/joint_states"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The long form takes minutes, and a busy machine longer.
pytestmark = [pytest.mark.storm, pytest.mark.timeout(120 + 5 * CHANGES)]


def count_objects() -> Counter[str]:
    for _ in range(3):
        gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


def least(change: Callable[[], object]) -> Counter[str]:
    """Count the objects after a change, the least of each type, until no type loses any more.

    What threads still work on, such as the robot's description, ends a moment later, and on a busy machine much later.
    """
    change()
    deadline = time.monotonic() + TIMEOUT_S
    found, unchanged = count_objects(), 0
    while unchanged < SAMPLES and time.monotonic() < deadline:
        fewer = found & count_objects()
        unchanged = unchanged + 1 if fewer == found else 0
        found = fewer
    return found


def grown(change: Callable[[], object]) -> dict[str, float]:
    """Return how many objects of each type stay behind per change, each time that changes are counted.

    Args:
        change: Changes what runs, and takes it back to where it was.
    """
    for _ in range(WARM_UP):
        change()
    before, stays = least(change), {}
    # What grows once or twice is no leak: a module that is imported late, a cache of what was due together.
    for attempt in range(ATTEMPTS):
        for _ in range(CHANGES):
            change()
        after = least(change)
        growth = {
            name: (count - before[name]) / CHANGES
            for name, count in after.items()
            if count - before[name] > CHANGES // 2
        }
        stays = {name: growth[name] for name in growth if not attempt or name in stays}
        if not stays:
            break
        before = after
    return stays


@pytest.fixture(autouse=True)
def only_what_is_new() -> Iterator[None]:
    """Leave out what exists already: a run of the whole suite in one process has millions of objects to count."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_a_leak_is_seen() -> None:
    kept: list[object] = []
    assert set(grown(lambda: kept.append([]))) == {"builtins.list"}


@pytest.fixture
def arm(start: Any) -> Any:
    return start(load_plan(EXAMPLES / "arm" / "arm.usda"), "kinematic").bridge


def test_variants(arm: Any) -> None:
    def change() -> None:
        for gripper in ("none", "suction", "parallel"):
            wanted = VariantSelection("/arm", "gripper", gripper)
            arm.change(variants=[wanted]).result(TIMEOUT_S)

    assert grown(change) == {}


@pytest.mark.storm
def test_reload(start: Any, edited_asset: Path) -> None:
    bridge = start(load_plan(edited_asset), "kinematic").bridge
    text = edited_asset.read_text(encoding="utf-8")
    changed = text.replace('"rover"', '"wanderer"')
    assert changed != text

    def change() -> None:
        for each in (changed, text):
            edited_asset.write_text(each, encoding="utf-8")
            bridge.reload().result(TIMEOUT_S)

    assert grown(change) == {}


@pytest.mark.storm
@pytest.mark.parametrize("kind", ["enabled", "rate"])
def test_parameters(kind: str, arm: Any, ros_harness: Any) -> None:
    names = [name for name in arm.node.get_parameters_by_prefix(kind) if name]
    assert names
    values: tuple[Any, ...] = (False, True) if kind == "enabled" else (5.0, 10.0)

    def holds(value: Any) -> bool:
        rows = [row for row in arm.status().interfaces if row.path == STATES]
        assert rows
        if kind == "rate":
            return all(row.authored_rate == value for row in rows)
        return all((row.state != "disabled") == value for row in rows)

    def change() -> None:
        for value in values:
            given = [Parameter(f"{kind}.{name}", value=value) for name in names]
            assert all(result.successful for result in arm.node.set_parameters(given))
            ros_harness.wait_for(partial(holds, value), timeout=TIMEOUT_S, what=f"{kind} {value}")
        # Changes run one after another: what is still to be read and planned ends before this one.
        arm.change().result(TIMEOUT_S)

    assert grown(change) == {}


def test_spawning(start: Any, ros_harness: Any, tmp_path: Path) -> None:
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    from simulation_client import OK, Simulator
    from simulation_interfaces.srv import DeleteEntity, SpawnEntity

    start(
        load_plan(EXAMPLES / "rover" / "world.usda", physics=True),
        "mujoco",
        backend_options={"gl": "none"},
        start_paused=True,
        spawn_roots=(str(EXAMPLES / "rover"),),
    )
    simulator = Simulator(ros_harness)

    def change() -> None:
        request = SpawnEntity.Request()
        request.initial_pose.pose.position.x = 5.0
        request.initial_pose.pose.orientation.w = 1.0
        response = simulator.ask(
            SpawnEntity,
            name="second",
            uri="rover.usda",
            entity_namespace="second",
            initial_pose=request.initial_pose,
        )
        assert response.result.result == OK, response.result.error_message
        assert simulator.ask(DeleteEntity, entity="second").result.result == OK

    assert grown(change) == {}
