"""The page in a browser: frames per second for a fleet, and what the bridge and the page cost with and without."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import Child, cpu_seconds, peer

ROBOTS = 1000
LINKS = 30
FRAMES = Target(10.0, "at least")
IDLE = Target(1.0)
TF_RATE = 20.0
ROVER = Path(__file__).parents[1] / "examples" / "rover" / "world.usda"
_TIMEOUT = 300.0
_PERCENT = 100.0
_POSE_BYTES = 28
"""Position and orientation of an instance, as the page sends them."""


def run(options: Options) -> Iterator[Result]:
    """Yields the figures of a fleet, then those of one rover in MuJoCo."""
    robots = options.scaled(ROBOTS, 20)
    seconds = options.scaled(10, 2)
    with tempfile.TemporaryDirectory() as folder:
        from builders.stages import write_fleet

        stage = write_fleet(folder, robots=robots, links=LINKS, visible=True)
        fleet = [_measure(stage, robots * LINKS, float(seconds)) for _ in range(min(options.repeats, 3))]
    name, size = f"view.{robots}", f"{robots} robots of {LINKS} links, all moving, /tf at {TF_RATE:g} Hz each"
    yield median_result(
        f"{name}.frames",
        [each.frames for each in fleet],
        "Hz",
        target=FRAMES,
        compared_with=f"{size}: pictures that reach a client, with the poses of all links",
    )
    yield from _costs(name, size, fleet)
    rover = [_measure(ROVER, 1, float(seconds)) for _ in range(min(options.repeats, 3))]
    yield from _costs("view.rover", "the example rover in MuJoCo", rover)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Pictures a second, and shares of a core in percent."""

    frames: float
    bridge_without: float
    bridge_with: float
    page_without: float
    page_with: float


def _costs(name: str, size: str, runs: Sequence[_Figures]) -> Iterator[Result]:
    yield median_result(
        f"{name}.page_idle",
        [each.page_without for each in runs],
        "%",
        target=IDLE,
        compared_with=f"{size}: the page's process without a browser, of a core",
    )
    yield median_result(
        f"{name}.page",
        [each.page_with for each in runs],
        "%",
        compared_with=f"{size}: the page's process with a client",
    )
    yield median_result(
        f"{name}.bridge_without",
        [each.bridge_without for each in runs],
        "%",
        compared_with=f"{size}: the bridge's process without a browser",
    )
    yield median_result(
        f"{name}.bridge_with",
        [each.bridge_with for each in runs],
        "%",
        compared_with=f"{size}: the bridge's process with a client",
    )


def _measure(stage: Path, instances: int, seconds: float) -> _Figures:
    """Runs a bridge and a page, without a client and then with one."""
    bridge = _simulated(stage) if stage == ROVER else peer("swaying_fleet", str(stage), str(TF_RATE))
    with bridge:
        if stage != ROVER:
            bridge.wait_for("open", _TIMEOUT)
        with _page(stage) as (url, page_id):
            _wait_for_rest(page_id)
            bridge_without, page_without = _shares(bridge, page_id, seconds)
            client = _Client(url, instances * _POSE_BYTES)
            try:
                client.wait_for_frames(3)
                before, began = client.frames, time.monotonic()
                bridge_with, page_with = _shares(bridge, page_id, seconds)
                frames = (client.frames - before) / (time.monotonic() - began)
            finally:
                client.close()
    return _Figures(
        frames=frames,
        bridge_without=bridge_without,
        bridge_with=bridge_with,
        page_without=page_without,
        page_with=page_with,
    )


def _simulated(stage: Path) -> Child:
    import sys

    return Child(
        [sys.executable, "-m", "usd_ros_bridge.cli", "run", str(stage), "--no-live"],
        name="usd_ros_bridge run",
    )


@contextmanager
def _page(stage: Path) -> Iterator[tuple[str, int]]:
    """Serve the page of a bridge that runs already. Yield its URL and process id."""
    from usd_ros_bridge.options import PlanOptions, ReadOptions
    from usd_ros_bridge.view.page import PageSettings
    from usd_ros_bridge.view.page_process import PageProcess
    from usd_ros_bridge.view.plan_follower import PlanSource

    source = PlanSource(asset=str(stage), read=ReadOptions(), options=PlanOptions())
    settings = PageSettings(source=source, host="127.0.0.1", port=0, bridge="/usd_ros_bridge")
    warnings: list[str] = []
    page = PageProcess(settings, inform=lambda _: None, warn=warnings.append)
    page.open()
    try:
        end = time.monotonic() + _TIMEOUT
        while not page.ready.wait(0.1):
            if page.ended.is_set() or time.monotonic() > end:
                raise BenchmarkError(f"the page does not come up: {page.failure or warnings}")
        assert page.process_id is not None
        yield page.url, page.process_id
    finally:
        page.close()


def _wait_for_rest(page_id: int) -> None:
    """Wait until the page has started."""
    end = time.monotonic() + _TIMEOUT
    while True:
        before = cpu_seconds(page_id)
        time.sleep(1.0)
        if cpu_seconds(page_id) - before < 0.02 or time.monotonic() > end:
            return


def _shares(bridge: Child, page_id: int, seconds: float) -> tuple[float, float]:
    """Return the shares of a core that both processes take in a time, percent."""
    began = time.monotonic()
    before = bridge.cpu_seconds(), cpu_seconds(page_id)
    time.sleep(seconds)
    after = bridge.cpu_seconds(), cpu_seconds(page_id)
    passed = time.monotonic() - began
    first, second = (_PERCENT * (new - old) / passed for new, old in zip(after, before, strict=True))
    return first, second


class _Client:
    """What a browser is to the page, without drawing: a websocket that takes whatever comes.

    Attributes:
        frames: Messages so far that have the poses of all instances.
    """

    def __init__(self, url: str, least_bytes: int) -> None:
        self.frames = 0
        self._url = url
        self._least_bytes = least_bytes
        self._error = ""
        self._socket: Any = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._connect()
        self._thread.start()

    def wait_for_frames(self, count: int) -> None:
        end = time.monotonic() + _TIMEOUT
        while self.frames < count:
            if self._error or time.monotonic() > end:
                raise BenchmarkError(f"the page sends no poses: {self._error or 'no reason known'}")
            time.sleep(0.05)

    def close(self) -> None:
        self._socket.close()
        self._thread.join(5.0)

    def _connect(self) -> None:
        import msgspec
        import viser
        from websockets.sync.client import connect

        self._socket = connect(
            self._url.replace("http", "ws", 1),
            subprotocols=[f"viser-v{viser.__version__}"],  # type: ignore[list-item]
            max_size=None,
            compression=None,
        )
        camera = {
            "type": "ViewerCameraMessage",
            "wxyz": (1.0, 0.0, 0.0, 0.0),
            "position": (5.0, 5.0, 5.0),
            "fov": 1.0,
            "near": 0.1,
            "far": 100.0,
            "image_height": 480,
            "image_width": 640,
            "look_at": (0.0, 0.0, 0.0),
            "up_direction": (0.0, 0.0, 1.0),
        }
        self._socket.send(msgspec.msgpack.encode(camera))

    def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                if len(self._socket.recv()) >= self._least_bytes:
                    self.frames += 1
        except (ConnectionClosed, OSError) as error:
            self._error = str(error)
