"""What the fixtures of one test have open: processes, bridges, nodes, recordings, and how to wait for them."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from usd_ros_bridge.testing.failure_recordings import LAST_S, keep_last
from usd_ros_bridge.testing.logged_process import START_S, LoggedProcess, asset_path

if TYPE_CHECKING:
    from usd_ros_bridge.backends.base import Backend
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.options import BridgeOptions, PlanOptions, ReadOptions
    from usd_ros_bridge.testing.lockstep_bridge import LockstepBridge
    from usd_ros_bridge.testing.ros_observer import RosObserver
    from usd_ros_bridge.testing.transform_buffer import TransformBuffer

TIMEOUT_S = 10.0
"""How long the fixtures wait by default, seconds."""
READY = r": ready\s*$"
"""End of the line that the node logs when all interfaces are open."""

_POLL_S = 0.01


@dataclass(slots=True, kw_only=True)
class FailureRecording:
    """The fixture `record_on_failure`.

    Attributes:
        seconds: Seconds before the end of the test that are kept.
        folder: Where the file goes.
        files: Recordings of the bridges of the test, and where each goes if the test fails.
    """

    seconds: float = LAST_S
    folder: Path
    files: list[tuple[Path, Path]] = field(default_factory=list)


class ActiveTest:
    """What the fixtures of one test have open. Everything is closed, last first, at the end of the test.

    Attributes:
        failed: Whether the test has failed.
        recording: What is recorded, None if nothing is.
    """

    def __init__(self, *, name: str, folders: Sequence[Path], scratch: Callable[[], Path]) -> None:
        """Store the arguments; nothing is opened.

        Args:
            name: Name of the test, for files.
            folders: Folders in which relative paths of assets may begin.
            scratch: Return a folder for files of the test.
        """
        self.failed = False
        self.recording: FailureRecording | None = None
        self._name = re.sub(r"[^\w.-]+", "_", name).strip("_")
        self._folders = tuple(folders)
        self._scratch = scratch
        self._resources = ExitStack()
        self._processes: list[LoggedProcess] = []
        self._bridges: list[LockstepBridge] = []
        self._observers: dict[int | None, RosObserver] = {}

    def close(self) -> str:
        """Close everything, and keep the recordings of a test that failed.

        Returns:
            Why the test fails at its end, such as an exit status; "" if it does not.
        """
        fault = ""
        try:
            self._resources.close()
        except pytest.fail.Exception as failure:
            fault = str(failure)
        except BaseException:
            self.failed = True
            raise
        finally:
            self.failed = self.failed or bool(fault)
            self._finish_recordings()
        return fault

    def sections(self) -> list[tuple[str, str]]:
        """Return what the report of a failed test shows besides, `(title, text)`: logs, and files that are kept."""
        found = [(each.title, text) for each in self._processes if (text := each.take_log())]
        for bridge in self._bridges:
            if bridge.warnings:
                text = "".join(f"[{kind}] {message}\n" for kind, message in bridge.warnings)
                found.append((f"warnings of the bridge of {bridge.plan.asset}", text))
                bridge.warnings.clear()
        recording = self.recording
        if recording is not None and recording.files:
            lines = [
                f"{target}: the last {recording.seconds:g} s; complete when the test has ended\n"
                for _, target in recording.files
            ]
            found.append(("recordings", "".join(lines)))
        return found

    # --- Fixtures ----------------------------------------------------------------------------------------------

    def start_process(
        self,
        asset: str | os.PathLike[str] | None = None,
        *arguments: str,
        node: bool = False,
        ready: bool = True,
        timeout: float = START_S,
        exit_status: int | None = 0,
        cwd: str | os.PathLike[str] | None = None,
        env: dict[str, str] | None = None,
    ) -> LoggedProcess:
        """Start `usd_ros_bridge run`, or the node, and wait until it is ready.

        Args:
            asset: The asset. A relative path begins in the working directory, the folder of the test file, one above
                it, or pytest's root. None: the arguments name it.
            arguments: Further arguments.
            node: Start the executable `bridge`, which takes ROS arguments (`--ros-args ...`), instead of `run`.
            ready: Wait until all interfaces are open.
            timeout: Seconds to wait for that. After that the test fails.
            exit_status: Status that is expected at its end. None: any.
            cwd: Its working directory.
            env: Variables of its environment besides those of the test.
        """
        __tracebackhide__ = True
        module = ["usd_ros_bridge.ros.node"] if node else ["usd_ros_bridge", "run"]
        shown = "usd_ros_bridge bridge" if node else "usd_ros_bridge run"
        given = [*([] if asset is None else [self.find_asset(asset)]), *arguments]
        process = LoggedProcess(
            [sys.executable, "-m", *module, *given, *self._recording_arguments(given, node=node)],
            title=" ".join([shown, *([] if asset is None else [os.fspath(asset)]), *arguments]),
            exit_status=exit_status,
            cwd=cwd,
            env=env,
        )
        self._processes.append(process)
        self._resources.callback(process.kill)
        self._resources.callback(process.end)
        if ready and "--no-ros" not in arguments:
            process.wait_for_line(READY, timeout=timeout)
        return process

    def open_bridge(
        self,
        asset: str | os.PathLike[str] | Any,
        backend: str | Backend = "auto",
        *,
        ros: bool = False,
        tick: float | None = None,
        options: BridgeOptions | None = None,
        read_options: ReadOptions | None = None,
        plan_options: PlanOptions | None = None,
        **bridge_options: Any,
    ) -> LockstepBridge:
        """Open a bridge in this process, in lockstep: bridge time passes only where the test lets it.

        Args:
            asset: Path of the asset as for `start_process`, an open stage, or a plan.
            backend: Name of an installed backend, `auto`, or a backend that is not open yet.
            ros: Open a node in the domain of the test. False: nothing of the middleware.
            tick: Distance of ticks, seconds of bridge time. None: as the rates of the plan ask for.
            options: Options of the bridge. None: the defaults.
            read_options: How a file is opened.
            plan_options: How the plan is made.
            bridge_options: Options of the bridge by name, over those of `options`.
        """
        from usd_ros_bridge.options import BridgeOptions
        from usd_ros_bridge.testing.lockstep_bridge import LockstepBridge

        plan = self.load_plan(asset, read_options=read_options, plan_options=plan_options)
        given = replace(options or BridgeOptions(), **bridge_options)
        if given.record is None and self.recording is not None:
            given = replace(given, record=self._record(self.recording))
        opened = LockstepBridge(plan, backend, options=given, ros=ros, tick=tick)
        self._bridges.append(opened)
        self._resources.enter_context(opened)
        return opened

    def load_plan(self, asset: Any, **options: Any) -> BridgePlan:
        """Return the plan of an asset: of a path, found as for `start_process`, or of a stage; a plan as it is."""
        from usd_ros_bridge.api import load_plan
        from usd_ros_bridge.model.plan import BridgePlan

        if isinstance(asset, BridgePlan):
            return asset
        found = self.find_asset(asset) if isinstance(asset, str | os.PathLike) else asset
        return load_plan(found, catalog=_installed_types(), **options)

    def find_asset(self, asset: str | os.PathLike[str]) -> str:
        """Return the path of an asset: a relative one is searched in the folders of the test."""
        return asset_path(asset, folders=[Path.cwd(), *self._folders])

    def observer(self, domain_id: int | None = None) -> RosObserver:
        """Return the node of the test in a domain, None for that of the test; opened when it is first asked for."""
        if domain_id not in self._observers:
            from usd_ros_bridge.testing.ros_observer import RosObserver

            opened = self._observers[domain_id] = RosObserver(domain_id=domain_id)
            self._resources.callback(opened.close)
        return self._observers[domain_id]

    def wait_for(self, condition: Callable[[], Any], timeout: float = TIMEOUT_S, what: str = "") -> Any:
        """Wait until a condition holds. Return its value. Bridges of this process are stepped meanwhile.

        Args:
            condition: Asked again and again, in the thread of the test.
            timeout: Seconds to wait; of bridge time, if there are only bridges without ROS. After that the test fails.
            what: What is awaited, for the message.
        """
        __tracebackhide__ = True
        offline = self._offline_bridge()
        if offline is not None:
            return offline.run_until(condition, timeout=timeout, what=what)
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"{what or 'the condition'}: not within {timeout:g} s")
            self.advance()
        return value

    def wait_for_message(
        self,
        topic: str,
        type: Any = None,  # noqa: A002 - the word of ROS
        *,
        where: Callable[[Any], bool] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> Any:
        """Wait for a message. Return it. The last message of a latched topic counts, too.

        Args:
            topic: Name of the topic.
            type: Class or name of its type. None: that of its publishers.
            where: Whether a message is the one that is awaited. None: any.
            timeout: Seconds to wait; of bridge time for a topic of a bridge without ROS. After that the test fails.
        """
        __tracebackhide__ = True
        offline = self._offline_bridge()
        publisher = next((each for each in self._open_bridges() if each.publishes(topic)), offline)
        if publisher is not None and not publisher.ros:
            self._check_type(publisher, topic, type)
            return publisher.wait_for_message(topic, where, timeout=timeout)
        return self.observer().wait_for_message(topic, type, where, timeout=timeout, advance=self.advance)

    def tf_buffer(self, namespace: str | None = None) -> TransformBuffer:
        """Return a buffer with the transforms of a robot.

        Args:
            namespace: Namespace of the robot, "" for /tf. None: the only one with transforms.
        """
        __tracebackhide__ = True
        from usd_ros_bridge.testing.transform_buffer import UnknownTransformError

        offline = self._offline_bridge()
        if offline is not None:
            return offline.tf_buffer(namespace)
        observer, deadline = self.observer(), time.monotonic() + TIMEOUT_S
        while True:
            try:
                return observer.tf_buffer(namespace)
            except UnknownTransformError as error:
                if time.monotonic() > deadline:
                    pytest.fail(str(error))
                self.advance()

    def assert_transform(
        self,
        target: str,
        source: str,
        *,
        xyz: Iterable[float] | None = None,
        rpy: Iterable[float] | None = None,
        tolerance: float = 1e-3,
        namespace: str | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Check the pose of one frame in another one. Over ROS, it may take until the time-out to become so.

        Args:
            target: Frame in which the pose is.
            source: Frame whose pose it is.
            xyz: Expected position, metres. None: any.
            rpy: Expected angles about fixed x, y and z axes, in this order, as in URDF, radians. None: any.
            tolerance: Largest difference: metres of the position, radians of the rotation between the two.
            namespace: As for `tf_buffer`.
            timeout: Seconds to wait. A bridge without ROS is not waited for: what it published last counts.
        """
        __tracebackhide__ = True
        from usd_ros_bridge.testing.transform_buffer import check_transform, expect_transform

        offline = self._offline_bridge()
        if offline is not None:
            offline.assert_transform(
                target, source, xyz=xyz, rpy=rpy, tolerance=tolerance, namespace=namespace
            )
            return
        expected = expect_transform(target, source, xyz, rpy, tolerance)
        buffer, deadline = self.tf_buffer(namespace), time.monotonic() + timeout
        while fault := check_transform(buffer, expected):
            if time.monotonic() > deadline:
                pytest.fail(f"{fault}\n  after {timeout:g} s")
            self.advance()

    def assert_interfaces(
        self, plan: Any, *, without: Iterable[str] = (), timeout: float = TIMEOUT_S
    ) -> None:
        """Check that the ROS graph has every topic, service and action of a plan, with its type and compatible QoS.

        Args:
            plan: A plan, or the asset.
            without: Names or prim paths of interfaces that are left out, such as sensors that a backend does not serve.
            timeout: Seconds to wait until they are there. After that the test fails, with a line for each fault.
        """
        __tracebackhide__ = True
        if self._offline_bridge() is not None:
            pytest.fail(
                "there is no ROS graph: assert_interfaces needs bridge(..., ros=True) or bridge_process"
            )
        from usd_ros_bridge.testing.ros_observer import count_interfaces, missing_in_graph

        planned, left_out = self.load_plan(plan), frozenset(without)
        deadline = time.monotonic() + timeout
        while faults := missing_in_graph(planned, self.observer, left_out):
            if time.monotonic() > deadline:
                count = count_interfaces(planned, left_out)
                lines = "".join(f"\n  {each}" for each in faults)
                pytest.fail(
                    f"{len(faults)} of {count} interfaces are not as planned after {timeout:g} s:{lines}"
                )
            self.advance()

    def send_goal(
        self,
        name: str,
        type: Any,  # noqa: A002 - the word of ROS
        goal: Any,
        timeout: float = 60.0,
        *,
        feedback: Callable[[Any], object] | None = None,
    ) -> Any:
        """Send a goal, which has to be accepted, and wait for its end. Return rclpy's response: `status`, `result`.

        Args:
            name: Name of the action.
            type: Class or name of its type.
            goal: The goal: a message, or a mapping of its fields.
            timeout: Seconds to wait for the server, its answer and the result. After that the test fails.
            feedback: Called with each feedback message.
        """
        __tracebackhide__ = True
        if self._offline_bridge() is not None:
            pytest.fail(f"{name}: there are no actions without ROS: open the bridge with ros=True")
        return self.observer().send_goal(
            name, type, goal, feedback=feedback, timeout=timeout, advance=self.advance
        )

    def advance(self) -> None:
        """Step the bridges of this process, and wait a moment for what other threads and processes do."""
        for bridge in self._open_bridges():
            bridge.step()
        observer = next(iter(self._observers.values()), None)
        if observer is not None:
            observer.spin_once(_POLL_S)
        else:
            time.sleep(_POLL_S)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _open_bridges(self) -> list[LockstepBridge]:
        return [each for each in self._bridges if each.is_open]

    def _offline_bridge(self) -> LockstepBridge | None:
        """Return the bridge that the test means if there is no ROS in it: the last one that was opened."""
        bridges = self._open_bridges()
        if not bridges or self._processes or self._observers or any(each.ros for each in bridges):
            return None
        return bridges[-1]

    def _check_type(self, bridge: LockstepBridge, topic: str, wanted: Any) -> None:
        __tracebackhide__ = True
        from usd_ros_bridge.ros.recording.message_definitions import type_name

        published = bridge.topics().get(f"/{topic.lstrip('/')}")
        expected = wanted if isinstance(wanted, str | None) else type_name(wanted)
        if expected is not None and published is not None and expected != published:
            pytest.fail(f"{topic} is of type {published}, not {expected}")

    def _recording_arguments(self, given: Sequence[str], *, node: bool) -> list[str]:
        if (
            self.recording is None
            or "--record" in given
            or any(each.startswith("record:=") for each in given)
        ):
            return []
        path = self._record(self.recording)
        return ["--ros-args", "-p", f"record:={path}", "--"] if node else ["--record", str(path)]

    def _record(self, recording: FailureRecording) -> Path:
        """Return the file of one more bridge."""
        number = f"-{len(recording.files) + 1}" if recording.files else ""
        source = self._scratch() / f"recording{number}.mcap"
        recording.files.append((source, recording.folder / f"{self._name}{number}.mcap"))
        return source

    def _finish_recordings(self) -> None:
        recording = self.recording
        for source, target in [] if recording is None else recording.files:
            if source.exists() and self.failed and recording is not None:
                keep_last(source, target, seconds=recording.seconds)
            source.unlink(missing_ok=True)


def _installed_types() -> Any:
    try:
        from usd_ros_bridge.ros.interface_types import AmentCatalog
    except ImportError:
        return None
    return AmentCatalog()
