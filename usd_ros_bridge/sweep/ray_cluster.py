"""Ray for a sweep: one of this process alone, on the loopback, or a cluster that is there."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from usd_ros_bridge.child_process import start_child
from usd_ros_bridge.errors import BridgeError, OptionError, quoted
from usd_ros_bridge.requirements import missing_requirement

MARK: Final = "_SWEEP_OF_USD_ROS_BRIDGE"
"""Environment variable by which the processes of one local Ray are recognised."""
_THREADS: Final = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
WORKER: Final = "_SWEEP_WORKER_OF_USD_ROS_BRIDGE"
"""Environment variable by which a worker recognises what it started: its own process."""
ONE_THREAD: Final = {"PXR_WORK_THREAD_LIMIT": "1", **{f"{name}_NUM_THREADS": "1" for name in _THREADS}}
"""Settings of a worker: there are as many workers as cores, so that more threads would only take turns."""

_QUIET: Final = {
    # No report of the use to the makers of Ray.
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
}
HOME_OF_USER: Final = "_SWEEP_HOME_OF_USD_ROS_BRIDGE"
"""Environment variable by which a worker of a local Ray knows the user's home directory."""
_CLUSTER_FILE: Final = "ray_bootstrap_config.yaml"
"""File in the home directory that names the cloud. Without it, a local Ray asks metadata servers on the network."""
_OBJECT_STORE_BYTES: Final = 80 * 2**20
"""The least that Ray takes: specs and outcomes are small."""
_MAX_TEMPORARY: Final = 24
"""The path of a socket has 107 characters at most; 83 of them are names below the folder of temporary files."""
_CONNECT_S: Final = 5.0
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray takes 127.0.0.1 as its address only with this, and servers of a node of that address listen there alone."""
_SET_BY_RAY: Final = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT")
"""Environment variables: the mode of a Ray that it starts, and its own debugger for `breakpoint()`."""
_TOKEN: Final = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""What a local Ray of this process asks of its clients: other users of the machine cannot run code in it. Without one,
Ray would write a token into the user's home directory."""
_HEALTH_S: Final = 15.0
_CLEANUP_S: Final = 10.0
_REFUSED: Final = "AuthenticationError"
_NO_ANSWER: Final = "what listens there does not answer as one"
_LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_POLL_S: Final = 0.1
_SHOWN: Final = 300


class RayCluster:
    """Ray as one sweep uses it. Parts that it started end with `close`, or with this process, however that ends.

    Attributes:
        is_local: Ray was started for this sweep.
        cores: CPUs that it has for workers.
        uploaded: The workers' working directory has the files of `upload`.
        logs: Directory of Ray's logs, None where it is not known.
    """

    def __init__(self) -> None:
        """Do nothing; `open` acquires."""
        self.is_local = False
        self.cores = 1
        self.uploaded = False
        self.logs: Path | None = None
        self._resources = ExitStack()

    def open(self, *, workers: int | None = None, address: str | None = None, upload: str = "") -> None:
        """Start Ray, or connect to a cluster. A Ray that this process has already is used, and left as it is.

        Args:
            workers: CPUs of a local Ray; None: those of this machine.
            address: Address of a cluster: `auto`, `HOST:PORT` or `ray://HOST:PORT`. None: start one here.
            upload: Folder whose files the workers of a cluster get as their working directory; "": none.

        Raises:
            OptionError: The cluster cannot be reached.
            BridgeError: Ray is not installed, or cannot be started.
        """
        ray = import_ray()
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if ray.is_initialized():
                if address is not None:
                    raise OptionError("this process is connected to a Ray already: leave out the address")
            elif address is None:
                self._resources.enter_context(_messages_hidden(ray))
                self._start(ray, workers)
            else:
                self._resources.enter_context(_messages_hidden(ray))
                self._resources.callback(ray.shutdown)
                _connect(ray, address, upload)
                self.uploaded = bool(upload)
            self.cores = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        except BaseException:
            self.close()
            raise
        finally:
            # Ray takes SIGTERM for itself.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def close(self) -> None:
        """End what was started. Idempotent."""
        with _quiet_logging():
            self._resources.close()

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self, ray: Any, workers: int | None) -> None:
        directory = _session_directory()
        mark = secrets.token_hex(16)
        self._resources.callback(_Guard(mark, directory).close)
        self._resources.callback(ray.shutdown)
        (directory / _CLUSTER_FILE).write_text("{}", encoding="utf-8")
        home = {"HOME": str(directory), HOME_OF_USER: str(Path.home())}
        variables = {**_QUIET, **_LOOPBACK, **_TOKEN, **ONE_THREAD, **home, MARK: mark}
        with _environment(variables), _loopback_alone(ray):
            try:
                ray.init(
                    address="local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                    _temp_dir=str(directory),
                )
            except Exception as error:
                raise BridgeError(f"Ray cannot be started: {_one_line(error)}") from error
        self.is_local = True
        self.logs = directory / "session_latest" / "logs"


def import_ray() -> Any:
    """Import Ray, without a report of its use.

    Raises:
        BridgeError: It is not installed.
    """
    try:
        with _environment(_QUIET):
            import ray
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"Ray cannot be imported: {error}") from error
    return ray


def _connect(ray: Any, address: str, upload: str) -> None:
    """Connect to a cluster, in bounded time.

    Raises:
        OptionError: It cannot be reached.
    """
    reach = _check_reachable(ray, address)
    runtime: dict[str, Any] = {"env_vars": dict(ONE_THREAD)}
    if upload:
        runtime["working_dir"] = upload
    try:
        with _environment(_QUIET), _loopback_alone(ray) if reach.loopback else nullcontext():
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                runtime_env=runtime,
            )
    except Exception as error:
        reason = _one_line(error)
        if reach.wants_token:
            reason = (
                f"it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN as on its nodes ({reason})"
            )
        raise OptionError(f"no Ray cluster at {quoted(address)}: {reason}") from error


class _Reach(NamedTuple):
    """How a cluster is reached.

    Attributes:
        loopback: It listens on the loopback alone. Ray takes 127.0.0.1 for the address of this machine in its network.
        wants_token: It asks for a token, which the check does not have.
    """

    loopback: bool = False
    wants_token: bool = False


def _check_reachable(ray: Any, address: str) -> _Reach:
    """Check that a cluster listens: Ray itself would try for more than a minute.

    Raises:
        OptionError: Nobody does.
    """
    found = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if not found or found == "auto":
        return _Reach()
    host, _, port = found.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise OptionError(
            f"{quoted(address)} is no address of a cluster: use auto, HOST:PORT or ray://HOST:PORT"
        )
    if fault := _connection_fault(host, port):
        raise OptionError(f"no Ray cluster at {quoted(address)}: {fault}")
    if found.startswith("ray://"):
        return _Reach()
    local = host in _LOCAL_HOSTS
    loopback = local and bool(_connection_fault(ray.util.get_node_ip_address(), port))
    # In a process of its own: Ray ends the process, or waits for minutes, if what listens is something else.
    check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", f"{host}:{port}"]
    try:
        with _environment(_LOOPBACK if loopback else {}):
            ended = subprocess.run(  # noqa: S603 - this interpreter
                check,
                check=False,
                timeout=_HEALTH_S,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise OptionError(f"no Ray cluster at {quoted(address)}: {_NO_ANSWER}") from error
    wants_token = bool(ended.returncode) and _REFUSED in ended.stderr
    if ended.returncode and not wants_token:
        raise OptionError(f"no Ray cluster at {quoted(address)}: {_NO_ANSWER}")
    return _Reach(loopback, wants_token)


def _connection_fault(host: str, port: str) -> str:
    """Return why nobody can be reached there, "" if somebody listens."""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


@contextmanager
def _loopback_alone(ray: Any) -> Iterator[None]:
    """Let a local Ray take the loopback as its address, also if a host imported it before its environment was set."""
    constants = ray._private.ray_constants  # noqa: SLF001 - Ray reads it from the environment when it is imported
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _messages_hidden(ray: Any) -> Iterator[None]:
    """Keep what Ray has to say about lost workers off standard output: the sweep says it in one line."""
    module = ray._private.worker  # noqa: SLF001 - Ray has no option for it
    show = module.print_to_stdstream
    module.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        module.print_to_stdstream = show


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for child processes that are started meanwhile."""
    # Ray sets some itself, and would leave them to the host.
    before = {name: os.environ.get(name) for name in (*values, *_SET_BY_RAY)}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet_logging() -> Iterator[None]:
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _session_directory() -> Path:
    """Make the directory of a local Ray, whose sockets need a short path."""
    folder = tempfile.gettempdir()
    if len(folder) > _MAX_TEMPORARY:
        folder = "/tmp"  # noqa: S108 - mkdtemp makes a directory of its own there
    return Path(tempfile.mkdtemp(prefix="usd_sweep_", dir=folder))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_SHOWN] or type(error).__name__


# --- What is left ------------------------------------------------------------------------------------------------


class _Guard:
    """Child process that waits for the end of this one, and then ends what its Ray has left behind."""

    def __init__(self, mark: str, directory: Path) -> None:
        ours, theirs = Pipe()
        with theirs:
            self._process = start_child(
                f"{__name__}:guard", theirs, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._connection = ours
        ours.send((mark, str(directory), os.getpid()))

    def close(self) -> None:
        """Clean up now."""
        self._connection.close()
        try:
            self._process.wait(_CLEANUP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def guard(descriptor: int) -> None:
    """Wait for the end of the parent; end the processes with its mark, and remove its directory.

    Args:
        descriptor: Connection to the parent.
    """
    with Connection(descriptor) as parent:
        mark, directory, owner = parent.recv()
        with suppress(EOFError, OSError):
            parent.recv()
    end = time.monotonic() + _CLEANUP_S / 2
    # The owner may go on, and has a log of Ray open.
    spared = {owner, os.getpid()}
    while (
        left := [pid for pid in marked_processes(mark, directory) if pid not in spared]
    ) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    shutil.rmtree(directory, ignore_errors=True)


def marked_processes(mark: str, directory: str) -> Iterator[int]:
    """Yield the processes of a local Ray.

    Args:
        mark: In the environment of what they start. Ray's own processes write their title over their environment.
        directory: Where Ray's own processes have their logs open.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _has_variable(process, MARK, mark) or _has_open(process, directory):
                yield int(process.name)


def kill_children_of(worker: int) -> None:
    """End what a worker of this machine started, and left behind when it was killed.

    Args:
        worker: Its process.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _has_variable(process, WORKER, str(worker)) and int(process.name) != worker:
                os.kill(int(process.name), signal.SIGKILL)


def _has_variable(process: Path, name: str, value: str) -> bool:
    return f"{name}={value}".encode() in (process / "environ").read_bytes().split(b"\0")


def _has_open(process: Path, directory: str) -> bool:
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()).startswith(directory + os.sep):
                return True
    return False
