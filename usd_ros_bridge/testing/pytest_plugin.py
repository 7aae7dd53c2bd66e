"""The pytest plug-in: fixtures to test an asset, a controller or a launch file. Installed with the bridge.

It is inert: it imports neither ROS 2 nor OpenUSD nor numpy until a test asks for a fixture that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from usd_ros_bridge.testing.active_test import ActiveTest, FailureRecording

RECORDINGS = "test-results"
"""Default folder, in pytest's root, for recordings of failed tests."""
SNAPSHOTS = "plan_snapshots"
"""Folder of snapshots, beside the test file."""

_ACTIVE = pytest.StashKey["ActiveTest"]()
_DISCOVERY = ("ROS_STATIC_PEERS", "ROS_LOCALHOST_ONLY")
"""Variables that would lead out of the machine, or stand against ROS_AUTOMATIC_DISCOVERY_RANGE."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings."""
    parser.addini(
        "usd_ros_bridge_recordings",
        f"folder for recordings of failed tests (record_on_failure), in the root folder; default: {RECORDINGS}",
        default=RECORDINGS,
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Iterator[None]:
    """Add `--update`, unless another plug-in or a conftest.py of the user has an option of that name."""
    yield
    # Theirs means the same: what is compared is written again. pytest 8 and older see no conflict between groups.
    if not _has_option(parser, "--update"):
        parser.getgroup("usd_ros_bridge").addoption(
            "--update", action="store_true", help="write the plan snapshots again (plan_snapshot)"
        )


def _has_option(parser: pytest.Parser, name: str) -> bool:
    try:
        _, unknown = parser.parse_known_and_unknown_args([name])
    except pytest.UsageError:
        # It takes a value.
        return True
    return name not in unknown


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the logs of bridges, and the paths of recordings, to the report of a failed test."""
    outcome: Any = yield
    active = item.stash.get(_ACTIVE, None)
    report = outcome.get_result()
    if active is not None and report.failed:
        active.failed = True
        report.sections += active.sections()


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The ROS domain of this test: no other test, worker or program of the machine is in it.

    The variables of the environment lead there, for this process and those that it starts: discovery stays on this
    machine. Shared memory that killed processes leave behind is removed at the end.
    """
    from usd_ros_bridge.ros_domains import remove_abandoned, reserve_domain, shared_memory_files

    reservation, before = reserve_domain(), shared_memory_files()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(reservation.domain_id))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    for name in _DISCOVERY:
        monkeypatch.delenv(name, raising=False)
    yield reservation.domain_id
    remove_abandoned(before, domain_id=reservation.domain_id)
    reservation.close()


@pytest.fixture
def active_test(request: pytest.FixtureRequest, ros_domain: int) -> Iterator[ActiveTest]:  # noqa: ARG001 - it sets up
    """What the fixtures of this test have open. Use the fixtures below instead."""
    from usd_ros_bridge.testing.active_test import ActiveTest, FailureRecording

    config = request.config
    folder = request.path.parent
    temporary: list[Path] = []

    def scratch() -> Path:
        # Only where it is needed: a folder for each test would fill the disk.
        if not temporary:
            temporary.append(request.getfixturevalue("tmp_path_factory").mktemp("usd_ros_bridge"))
        return temporary[0]

    relative = os.path.splitext(os.path.relpath(request.path, config.rootpath))[0]  # noqa: PTH122 - a text is needed
    active = ActiveTest(
        name=f"{relative}-{request.node.name}".replace(os.sep, "."),
        folders=[folder, folder.parent, config.rootpath],
        scratch=scratch,
    )
    if "record_on_failure" in request.fixturenames:
        active.recording = FailureRecording(
            folder=config.rootpath / config.getini("usd_ros_bridge_recordings")
        )
    request.node.stash[_ACTIVE] = active
    yield active
    if fault := active.close():
        pytest.fail(fault, pytrace=False)


@pytest.fixture
def bridge_process(active_test: ActiveTest) -> Callable[..., Any]:
    """`bridge_process("robot.usda", "--backend", "mujoco")`: a bridge in a process of its own, ready.

    At the end of the test it is interrupted, and has to end with status 0. A failed test shows its log.
    """
    return active_test.start_process


@pytest.fixture
def bridge(active_test: ActiveTest) -> Callable[..., Any]:
    """`bridge("robot.usda", backend="mujoco")`: a bridge in this process; time passes in its `run_for(2.0)` only."""
    return active_test.open_bridge


@pytest.fixture
def ros_node(active_test: ActiveTest) -> Any:
    """A rclpy node in the domain of this test. A background thread runs its callbacks."""
    return active_test.observer().node


@pytest.fixture
def wait_for(active_test: ActiveTest) -> Callable[..., Any]:
    """`wait_for(condition, timeout=10.0, what="")`: wait until a condition holds; bridges in lockstep continue."""
    return active_test.wait_for


@pytest.fixture
def wait_for_message(active_test: ActiveTest) -> Callable[..., Any]:
    """`wait_for_message(topic, type=None, where=None, timeout=10.0)`: the next message, with its publishers' QoS."""
    return active_test.wait_for_message


@pytest.fixture
def tf_buffer(active_test: ActiveTest) -> Callable[..., Any]:
    """`tf_buffer(namespace=None)`: the transforms of a robot, as tf2's buffer has them."""
    return active_test.tf_buffer


@pytest.fixture
def assert_transform(active_test: ActiveTest) -> Callable[..., None]:
    """`assert_transform(target, source, xyz=, rpy=, tolerance=1e-3)`: check the pose of `source` in `target`."""
    return active_test.assert_transform


@pytest.fixture
def assert_interfaces(active_test: ActiveTest) -> Callable[..., None]:
    """`assert_interfaces(plan, without=())`: check that the ROS graph has all interfaces of a plan."""
    return active_test.assert_interfaces


@pytest.fixture
def send_goal(active_test: ActiveTest) -> Callable[..., Any]:
    """`send_goal(name, type, goal, timeout=60.0)`: send a goal and wait for its end."""
    return active_test.send_goal


@pytest.fixture
def plan_snapshot(active_test: ActiveTest, request: pytest.FixtureRequest) -> Callable[..., None]:
    """`plan_snapshot(asset)`: compare the plan with `plan_snapshots/<asset>.json`; `pytest --update` writes that."""

    def check(asset: Any, *, name: str = "", **options: Any) -> None:
        __tracebackhide__ = True
        from usd_ros_bridge.testing.plan_snapshots import check_snapshot

        plan = active_test.load_plan(asset, **options)
        file = request.path.parent / SNAPSHOTS / f"{name or Path(plan.asset).stem}.json"
        check_snapshot(plan, file, update=bool(request.config.getoption("--update", default=False)))

    return check


@pytest.fixture
def record_on_failure(active_test: ActiveTest) -> FailureRecording:
    """Record the bridges of this test; if it fails, the last seconds are kept as MCAP files, whose paths it shows."""
    assert active_test.recording is not None
    return active_test.recording
