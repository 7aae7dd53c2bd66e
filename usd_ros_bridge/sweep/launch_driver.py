"""Drivers that are ROS launch files: a run is then a live bridge in a DDS domain of its own, kept to the wall clock."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from usd_ros_bridge.child_process import end_with_parent
from usd_ros_bridge.errors import BridgeError, OptionError, escaped, quoted_path
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.endpoints.handlers import Binding
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.step_callbacks import AfterStep, BeforeStep
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.run_measurement import number
from usd_ros_bridge.sweep.sweep_description import LaunchDriver

_RANGE: Final = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_POLL_S: Final = 0.05
_SHORTEST_SLEEP_S: Final = 1e-3
_END_S: Final = 5.0
"""Seconds between SIGINT, SIGTERM and SIGKILL."""
_GUARD: Final = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


class LiveBridge:
    """A bridge with ROS 2's middleware, stepped by a run as an OfflineBridge is."""

    def __init__(self, plan: BridgePlan, backend: str, *, options: BridgeOptions, report: Report) -> None:
        """Args: plan: Plan. backend: Name. options: With the domain of the run. report: Show a warning."""
        self._bridge = Bridge(plan, backend, options=options, report=report, inform=lambda _kind, _text: None)

    def __enter__(self) -> LiveBridge:
        # Nothing of a run leaves the machine, unless the environment says so.
        before = os.environ.get(_RANGE)
        os.environ.setdefault(_RANGE, "LOCALHOST")
        try:
            self._bridge.open()
        finally:
            if before is None:
                os.environ.pop(_RANGE, None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bridge.close()

    @property
    def plan(self) -> BridgePlan:
        """The plan."""
        return self.runtime.plan

    @property
    def runtime(self) -> Runtime:
        """The runtime."""
        return self._bridge.parts.runtime

    @property
    def has_peers(self) -> bool:
        """Return whether any node uses an interface of the bridge."""
        return any(row.matched for row in self._bridge.status().interfaces)

    def step(self, time_ns: int | None = None) -> bool:
        """Tick once, as `Bridge.step`.

        Raises:
            BridgeError: Somebody paused time.
        """
        stepped = self._bridge.step(time_ns)
        control = self._bridge.time
        if not stepped and control is not None and not control.playing:
            raise BridgeError("a node paused simulated time, which a run has no pause for")
        return stepped

    def before_step(self, callback: BeforeStep) -> Binding:
        """As `Bridge.before_step`."""
        return self._bridge.before_step(callback)

    def after_step(self, callback: AfterStep) -> Binding:
        """As `Bridge.after_step`."""
        return self._bridge.after_step(callback)


class LaunchRunner:
    """Run a launch file beside a run, keep time to the wall clock, and end the run when the launch file ends.

    Attributes:
        next_ns: 0: it acts before every step.
    """

    def __init__(self, driver: LaunchDriver, run: RunContext, *, directory: str) -> None:
        """Check what is to be started.

        Args:
            driver: With the parameters of the run.
            run: The run.
            directory: Folder that the launch file's path counts from.

        Raises:
            OptionError: There is no such launch file, ros2 launch is not installed, or a number is not possible.
        """
        self.next_ns = 0
        self._run = run
        self._factor = number(driver.real_time_factor, "driver.real_time_factor")
        self._wait_s = number(driver.wait, "driver.wait")
        if self._factor < 0.0:
            raise OptionError(f"driver.real_time_factor: {self._factor:g} is negative")
        self._command = _launch_command(driver.launch, driver.arguments, directory)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._origin = 0.0
        self._polled = 0.0

    def start(self, domain_id: int, bridge: LiveBridge) -> None:
        """Start the launch file, and wait until one of its nodes uses an interface of the bridge.

        Args:
            domain_id: DDS domain of the run.
            bridge: Open.

        Raises:
            BridgeError: It ends before, or no node does in time.
        """
        self._process = subprocess.Popen(  # noqa: S603 - the user's own launch file
            self._command,
            env=_environment(domain_id),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGINT),  # noqa: PLW1509 - one call of the kernel
        )
        deadline = time.monotonic() + self._wait_s
        while not bridge.has_peers:
            if self._process.poll() is not None:
                raise BridgeError(f"the launch file ended at once: {self._ending()}")
            if time.monotonic() > deadline:
                raise BridgeError(
                    f"no node of the launch file used an interface of the asset within {self._wait_s:g} s (driver.wait)"
                )
            time.sleep(_POLL_S)
        self._origin = self._polled = time.monotonic()

    def act(self, time_ns: int) -> None:
        """Wait until the wall clock is at the time of the run; end the run if the launch file has ended."""
        now = time.monotonic()
        if self._factor:
            ahead = self._origin + time_ns / SECOND_NS / self._factor - now
            if ahead > _SHORTEST_SLEEP_S:
                time.sleep(ahead)
        if now - self._polled < _POLL_S:
            return
        self._polled = now
        process = self._process
        if process is None or process.poll() is None:
            return
        if process.returncode == 0:
            self._run.stop("the launch file ended")
        else:
            self._run.fail(f"the launch file ended: {self._ending()}")

    def close(self) -> None:
        """End the launch file with all its nodes, as Ctrl-C does; after 5 seconds with SIGTERM, then SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            for number_ in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number_)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_S)
                    break
            # Nodes that outlived the launch process.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        self._output.close()

    def _ending(self) -> str:
        """Return how the launch file ended, with the last line that it wrote."""
        assert self._process is not None
        status = self._process.returncode
        self._output.seek(max(self._output.seek(0, os.SEEK_END) - 4000, 0))
        lines = self._output.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return escaped(f"status {status}{': ' + last[:200] if last else ''}")


def _launch_command(launch: str, arguments: Mapping[str, Any], directory: str) -> list[str]:
    path = Path(directory, launch)
    if not path.is_file():
        raise OptionError(f"driver.launch: there is no file {quoted_path(path)}")
    ros2 = shutil.which("ros2")
    if ros2 is None:
        raise OptionError(
            "driver.launch: ros2 launch is not installed (no ros2 in PATH): source a ROS 2 installation with ros2launch"
        )
    texts = (
        f"{key}:={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in arguments.items()
    )
    return [ros2, "launch", str(path), *texts]


def _environment(domain_id: int) -> dict[str, str]:
    environment = dict(os.environ)
    if environment.pop(_GUARD, None) is not None:
        # Set by the start-up of ROS wheels for this interpreter alone.
        environment.pop("LD_LIBRARY_PATH", None)
    environment["ROS_DOMAIN_ID"] = str(domain_id)
    environment.setdefault(_RANGE, "LOCALHOST")
    return environment
