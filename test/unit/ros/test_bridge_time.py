"""Bridge time: which directories assets may be spawned from, and what is said if nothing can be spawned."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.plans import rover
from case_tables import each_case
from usd_ros_bridge.backends.base import Backend, EntityState
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.ros.bridge_time import find_spawn_roots
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import FloatArray


class WithoutTransfer:
    """Runs one scene only."""


class WithEntities(KinematicBackend):
    """Runs other scenes, too, and has entities: none."""

    def entities(self) -> tuple[str, ...]:
        return ()

    def entity_state(self, path: str) -> EntityState:
        raise KeyError(path)

    def set_entity_state(self, path: str, **_: FloatArray | None) -> str:
        raise KeyError(path)

    def entity_bounds(self, path: str) -> None:
        raise KeyError(path)


def roots_of(backend: object, *roots: Path) -> tuple[tuple[Path, ...], list[tuple[str, str]]]:
    """The directories, and the reports; the plan has no stage."""
    seen: list[tuple[str, str]] = []
    runtime = Runtime(
        rover().build(),
        backend,  # type: ignore[arg-type]
        options=BridgeOptions(spawn_roots=tuple(map(str, roots))),
        reporter=OnceReporter(lambda kind, message: seen.append((kind, message))),
    )
    return find_spawn_roots(runtime), seen


@pytest.mark.parametrize("backend", [WithEntities(), WithoutTransfer()])
def test_a_root_that_is_no_directory_is_refused_whatever_the_backend(
    backend: Backend, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="gone' is no directory"):
        roots_of(backend, tmp_path, tmp_path / "gone")


@each_case(
    ("backend", "reason"),
    [
        (WithoutTransfer(), "the backend WithoutTransfer cannot go on with another scene"),
        (KinematicBackend(), "the backend KinematicBackend has no entities"),
        (WithEntities(), "the plan has no stage to spawn anything on"),
    ],
)
def test_roots_from_which_nothing_can_be_spawned_are_reported(
    backend: Backend, reason: str, tmp_path: Path
) -> None:
    assert roots_of(backend, tmp_path) == ((), [("spawn.unavailable", f"nothing can be spawned: {reason}")])


def test_without_roots_nothing_is_said() -> None:
    assert roots_of(WithoutTransfer()) == ((), [])
