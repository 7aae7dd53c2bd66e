"""Locks of node names: one fleet of a user has a name, whatever the name is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.fleet.node_locks import fleet_directory, node_locks


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the locks: one of the test's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = fleet_directory()
    assert found is not None
    assert found.parent == tmp_path
    return found


@pytest.mark.parametrize("domain", ["7", "a/b", "../x", ""])
@pytest.mark.parametrize(
    "name",
    ["/bridge_1", f"/{'n' * 300}/bridge_1", "/hall/../bridge_1", "/\udce4/bridge_1"],
    ids=["usual", "long", "dots", "no UTF-8"],
)
def test_a_name_is_locked_once_in_a_domain(domain: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    refusal = f"is a node of the fleet of process {os.getpid()}: choose"
    with node_locks([name, "/other"]):
        with pytest.raises(OptionError, match=refusal), node_locks([name]):
            pass
        with node_locks([f"{name}_2"]):
            monkeypatch.setenv("ROS_DOMAIN_ID", "8")
            with node_locks([name]):
                pass
    with node_locks([name]):
        pass


def test_without_a_place_for_locks_nothing_is_refused(directory: Path) -> None:
    with node_locks(["/bridge_1"]):
        (lock,) = directory.iterdir()
    lock.unlink()
    lock.mkdir()
    with node_locks(["/bridge_1"]), node_locks(["/bridge_1"]):
        pass
