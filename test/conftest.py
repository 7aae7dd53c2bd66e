"""Keeps every test run to itself: a ROS domain of its own, the loopback alone, no shared memory left behind.

It also keeps a run complete: a module that needs what is not installed is one skipped test, and a test file that
contributes nothing fails the run.
"""

from __future__ import annotations

import ast
import cProfile
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from usd_ros_bridge import process_settings
from usd_ros_bridge.ros_domains import (
    DomainReservation,
    remove_abandoned,
    reserve_domain,
    shared_memory_files,
)

if TYPE_CHECKING:
    from usd_ros_bridge.testing.ros_observer import RosObserver

pytest_plugins = ["usd_ros_bridge.testing.pytest_plugin", "tiers", "network_namespaces", "programs"]

# Read by rclpy's generated message modules when they are imported, and by every Context that is initialised:
# set here, before any test module is imported. This domain is for what outlives a test; each test has one of its own.
DOMAIN = reserve_domain()
os.environ["ROS_DOMAIN_ID"] = str(DOMAIN.domain_id)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ.pop("ROS_STATIC_PEERS", None)
# Of ROS wheels in an environment that does not remove it itself: a Python that inherits it finds no library of ROS.
os.environ.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
# A test that runs a node's main in this process restores the environment, but Fast DDS keeps the profile that it read
# then: it needs the mode that the bridge's own process sets.
os.environ.setdefault("RMW_FASTRTPS_PUBLICATION_MODE", "AUTO")
# What bridges keep for the next time (mesh files, decomposed meshes) is not to fill the user's own cache.
CACHE = Path(__file__).parents[1] / "build/test_cache"
os.environ["XDG_CACHE_HOME"] = str(CACHE)
# Nor are logs to fill the user's home, which may be one that nobody can write.
os.environ.setdefault("ROS_LOG_DIR", str(CACHE / "ros_log"))

# What is printed has one width, whatever terminal the tests run in.
os.environ.update(COLUMNS="80", LINES="24")

# Where Python is told to write no bytecode, each process that a test starts would compile the whole package again: half
# of its start. The tree stays clean all the same.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(CACHE / "bytecode")
    sys.dont_write_bytecode = False

# A shell has its background processes ignore SIGINT, and all that they start: tests that interrupt a process would wait
# for its end in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Another program of the machine may take a second of any example: how long one takes says nothing.
if importlib.util.find_spec("hypothesis") is not None:
    import hypothesis

    # Over the profile that is in force: where CI is set, Hypothesis tries the same examples in every run.
    hypothesis.settings.register_profile("suite", hypothesis.settings(), deadline=None)
    hypothesis.settings.load_profile("suite")

LONGEST_VALUE_IN_A_NAME = 200
WAIT_S = 60.0
"""How long a test waits for what has to come, seconds. Discovery repeats after three seconds what was lost, and a busy
machine loses more than one message. What comes at once costs nothing."""


class MissingRequirement(pytest.Item):
    """The one test of a module that needs a package that is not installed: skipped, with the module's reason."""

    def __init__(self, *, reason: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.add_marker(pytest.mark.skip(reason=reason))

    def runtest(self) -> None:
        """Do nothing: the item is skipped."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the reason stands."""
        return self.path, 0, self.name


class SkippedModule(pytest.File):
    """A test module that is not imported."""

    reason = ""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the one skipped test."""
        yield MissingRequirement.from_parent(self, name="requirements", reason=self.reason)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Leave only launch tests to launch_testing.

    Its plugin imports every test module while it looks for launch tests. There, the exception of a module-level
    importorskip ends the whole collection, and `colcon test` reports success without a test.
    """
    text = module_path.read_text(encoding="utf-8")
    if "importorskip" not in text and "generate_test_description" not in text:
        return pytest.Module.from_parent(parent, path=module_path)
    tree = ast.parse(text)
    reason = missing_requirement(tree)
    if reason is not None:
        module = SkippedModule.from_parent(parent, path=module_path)
        module.reason = reason
        return module
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "generate_test_description" in functions:
        return None
    return pytest.Module.from_parent(parent, path=module_path)


def missing_requirement(tree: ast.Module) -> str | None:
    """Return the reason of the first importorskip at the top of a module whose package is not installed."""
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "pytest.importorskip":
            continue
        name = ast.literal_eval(call.args[0])
        reasons = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "reason"]
        if not is_installed(name):
            return str((*reasons, f"{name} is not installed")[0])
    return None


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the name of a test whose parameter is a long text: `colcon test` stops at a line of 64 KiB."""
    if isinstance(val, str) and len(val) > LONGEST_VALUE_IN_A_NAME:
        return f"{val[:20]}... of {len(val)}"
    return None


REPORTED: set[Path] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember which test files had a test, skipped ones included."""
    REPORTED.add(Path(report.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which a test file contributed nothing: fewer tests than expected are no success.

    The file that the run writes for `colcon test-result` has one failed test more. It is why this comes before the
    plugin that writes the file.
    """
    config = session.config
    if hasattr(config, "workerinput") or exitstatus not in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        return
    silent = sorted(expected_files(config) - REPORTED)
    if silent:
        reason = f"no test of these files ran: {', '.join(map(str, silent))}"
        here = Path(__file__).relative_to(config.rootpath).as_posix()
        report = pytest.TestReport(
            nodeid=f"{here}::every_file_has_tests",
            location=(here, 0, "every_file_has_tests"),
            keywords={},
            outcome="failed",
            longrepr=reason,
            when="call",
        )
        config.hook.pytest_runtest_logreport(report=report)
        print(f"\n{reason}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def expected_files(config: pytest.Config) -> set[Path]:
    """Return the test files, relative to the root, of a run that selects whole folders; none of any other run."""
    chosen = (
        "keyword",
        "markexpr",
        "collectonly",
        "lf",
        "deselect",
        "ignore",
        "ignore_glob",
        "stepwise",
        "tier",
    )
    if any(config.getoption(name, None) for name in chosen):
        return set()
    files: set[Path] = set()
    left_out = config.getini("norecursedirs")
    for argument in config.args:
        folder = Path(config.invocation_params.dir, argument).resolve()
        for path in folder.rglob("test_*.py"):
            between = [parent for parent in path.parents if folder in parent.parents]
            if not any(parent.match(pattern) for parent in between for pattern in left_out):
                files.add(path.relative_to(config.rootpath.resolve()))
    return files


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """As pytest's, where launch_testing is installed too: loggers that are made after it do not propagate."""
    monkeypatch.setattr(logging.getLogger("usd_ros_bridge"), "propagate", True)
    return caplog


@pytest.fixture(scope="session", autouse=True)
def shared_memory() -> Iterator[None]:
    """Removes what a killed process of this run left in shared memory; other programs' files stay."""
    before = shared_memory_files()
    yield
    remove_abandoned(before)


@pytest.fixture(autouse=True)
def untuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test as a host's process: a command that an earlier test ran in this process tuned it."""
    monkeypatch.setattr(process_settings, "_allowed", False)


@pytest.fixture(autouse=True)
def domain_id(ros_domain: int) -> int:
    """The ROS domain of this test, for what it starts in this process and in others.

    Participants of the test before, which other participants may still believe alive, are in another domain.
    """
    return ros_domain


@pytest.fixture
def other_domains() -> Iterator[Callable[[], int]]:
    """Reserves one more domain at each call, for this test."""
    reservations: list[DomainReservation] = []

    def reserve() -> int:
        reservations.append(reserve_domain())
        return reservations[-1].domain_id

    yield reserve
    for reservation in reservations:
        reservation.close()


@pytest.fixture
def other_domain_id(other_domains: Callable[[], int]) -> int:
    """A second ROS domain, for this test alone."""
    return other_domains()


class RosHarness:
    """A node of the test's own, in a Context of its own, to look at a bridge from outside."""

    def __init__(self, observer: RosObserver) -> None:
        self._observer = observer
        self.context = observer.context
        self.node = observer.node
        self.executor = observer.executor

    def wait_for(self, condition: Callable[[], bool], *, timeout: float = WAIT_S, what: str = "") -> None:
        """Spins until the condition holds; fails the test, naming what was awaited, at the time-out."""
        self._observer.wait_for(
            condition, timeout=timeout, what=what or str(condition), advance=self._observer.spin_once
        )

    def are_connected(self, publisher: Any, bridge: Any) -> bool:
        """Return whether a publisher and a bridge's subscription have discovered each other.

        The publisher's side alone is not enough: within one process a message that is sent before the subscription
        knows its publisher is lost, even a reliable one.
        """
        rows = [
            row
            for row in bridge.status().interfaces
            if row.name == publisher.topic_name and row.role == "subscription" and row.state != "disabled"
        ]
        found = publisher.get_subscription_count() == 1 and bool(rows)
        return found and all(row.matched for row in rows)

    def hears(self, bridge: Any, *topics: str) -> bool:
        """Return whether a bridge's publishers and this node's subscriptions of some topics have discovered each other.

        One side alone is not enough, as `are_connected` says.
        """
        rows = [row for row in bridge.status().interfaces if row.name in topics and row.role == "publisher"]
        found = {row.name for row in rows} == set(topics) and all(row.matched for row in rows)
        return found and all(map(self.knows_publisher, topics))

    def knows_publisher(self, topic: str) -> bool:
        """Return whether each subscription of the test to a topic has discovered a publisher: the other side.

        To wait for where a bridge sends once, and has discovered the subscription.

        Args:
            topic: Absolute name.
        """
        found = [each for each in self.node.subscriptions if each.topic_name == topic]
        return bool(found) and all(each.get_publisher_count() for each in found)

    def listen(self, kind: Any, topic: str, qos: Any = 10) -> list[Any]:
        """Subscribe to a topic. Return the list that its messages come to.

        Args:
            kind: Type of the messages.
            topic: Absolute name.
            qos: Profile, or depth.
        """
        messages: list[Any] = []
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages

    def run_goal(self, kind: Any, name: str, goal: Any) -> Any:
        """Send a goal that has to be accepted. Return the answer: `status` and `result`.

        Args:
            kind: Type of the action.
            name: Name of the action.
            goal: The goal.
        """
        return self._observer.send_goal(
            name, kind, goal, feedback=None, timeout=WAIT_S, advance=self._observer.spin_once
        )


@pytest.fixture
def ros_harness(domain_id: int) -> Iterator[RosHarness]:
    """A node with an executor in this run's domain, closed at the end of the test."""
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    from usd_ros_bridge.testing.ros_observer import RosObserver

    observer = RosObserver(domain_id=domain_id, name="observer", spinning=False)
    yield RosHarness(observer)
    observer.close()


@pytest.fixture
def number_of_calls() -> Callable[[Callable[[], Any]], int]:
    """Return a function that counts the calls, built-in functions included, that its argument makes.

    A cost that no other work of the machine changes.
    """

    def count(step: Callable[[], Any]) -> int:
        profile = cProfile.Profile()
        profile.runcall(step)
        return sum(entry.callcount for entry in profile.getstats())

    return count
