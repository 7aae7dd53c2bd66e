"""Follow tutorials as a reader does, and plot what they leave; draw_tutorials.py takes pictures of all others.

`python tools/draw_tutorial_plots.py [NAME ...]` runs all blocks of docs/tutorials/NAME.md in an empty directory,
over DDS on the loopback, and writes docs/pictures/tutorial_NAME.png. It needs `pip install -r
tools/recordings-requirements.txt` and pytest.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "test" / "support"), str(ROOT)]

import matplotlib as mpl  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402
from rosbags.highlevel import AnyReader  # noqa: E402

from doc_walk import DocWalk, steps  # noqa: E402 - it lies beside the tests
from usd_ros_bridge import BridgeOptions, OfflineBridge, load_plan  # noqa: E402

plt.switch_backend("agg")
mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
    }
)
BLUE, GREEN, RED, GREY = "#1864ab", "#2b8a3e", "#c92a2a", "#868e96"
COLORS = 192
DPI = 100


def main() -> None:
    """Follow the named tutorials, or all that have a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*DRAWN, []], help="tutorials; default: all")
    for name in parser.parse_args().names or DRAWN:
        with tempfile.TemporaryDirectory(prefix="tutorial_") as directory:
            begun = time.monotonic()
            follow(ROOT / "docs" / "tutorials" / f"{name}.md", Path(directory) / "reader")
            print(f"{name}: followed in {time.monotonic() - begun:.0f} s")
            save(DRAWN[name](Path(directory) / "reader"), ROOT / "docs" / "pictures" / f"tutorial_{name}.png")


def follow(page: Path, directory: Path) -> None:
    """Do all blocks of a page in a new directory."""
    directory.mkdir()
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "ROS_DOMAIN_ID": str(random.randint(1, 101)),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }
    walk = DocWalk(directory, environment)
    try:
        for step in steps(page):
            walk.follow(step)
        walk.stop()
    finally:
        walk.kill()


def save(figure: Any, path: Path) -> None:
    """Write a figure as a small PNG."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI)
    picture = Image.open(data).convert("RGB")
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def read_messages(recording: Path) -> dict[str, list[Any]]:
    """Return the messages of an MCAP file by topic."""
    found: dict[str, list[Any]] = {}
    with AnyReader([recording]) as reader:
        for connection, _, data in reader.messages():
            found.setdefault(connection.topic, []).append(reader.deserialize(data, connection.msgtype))
    return found


def seconds(message: Any) -> float:
    """Return the stamp of a message, s."""
    return float(message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec)


# --- Sensor suite -------------------------------------------------------------------------------------------


def draw_sensor_suite(directory: Path) -> Any:
    """Draw picture and depth of one moment, all scans in the frame of the odometry, and the distance driven."""
    messages = read_messages(directory / "suite.mcap")
    figure = plt.figure(figsize=(9.0, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    number = 40
    image, depth = messages["/rover/image_raw"][number], messages["/rover/depth/image_rect_raw"][number]
    axes = figure.add_subplot(grid[0, 0])
    axes.imshow(image.data.reshape(image.height, image.width, 3))
    axes.set_title(f"/rover/image_raw at {seconds(image):.1f} s")
    axes.set_axis_off()
    axes = figure.add_subplot(grid[0, 1])
    metres = depth.data.view(np.float32).reshape(depth.height, depth.width)
    shown = axes.imshow(np.where(np.isfinite(metres), metres, np.nan), cmap="viridis_r", vmax=8.0)
    figure.colorbar(shown, ax=axes, label="m", shrink=0.8)
    axes.set_title("/rover/depth/image_rect_raw")
    axes.set_axis_off()
    _draw_scans(figure.add_subplot(grid[1, 0]), messages)
    _draw_distances(figure.add_subplot(grid[1, 1]), messages)
    return figure


def _draw_scans(axes: Any, messages: dict[str, list[Any]]) -> None:
    odometry = messages["/rover/odom"]
    times = np.array([seconds(message) for message in odometry])
    xs = np.array([message.pose.pose.position.x for message in odometry])
    touched = _first_contact(messages)
    for scan in messages["/rover/scan"]:
        if seconds(scan) > touched:
            break
        angles = scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges))
        lidar = np.interp(seconds(scan), times, xs) - 0.05
        hit = np.isfinite(scan.ranges)
        x = lidar + scan.ranges[hit] * np.cos(angles[hit])
        axes.plot(x, scan.ranges[hit] * np.sin(angles[hit]), ",", color=BLUE, alpha=0.4)
    axes.plot(xs[times <= touched], np.zeros((times <= touched).sum()), color=RED, label="/rover/odom")
    axes.set(title="/rover/scan, all scans until the contact", xlabel="x (m)", ylabel="y (m)", aspect="equal")
    axes.legend(loc="upper left")


def _first_contact(messages: dict[str, list[Any]]) -> float:
    return [message.data for message in messages["/rover/bumper"]].index(True) / 50


def _draw_distances(axes: Any, messages: dict[str, list[Any]]) -> None:
    scans, fixes = messages["/rover/scan"], messages["/rover/fix"]
    odometry = messages["/rover/odom"]
    ahead = [float(scan.ranges[round(-scan.angle_min / scan.angle_increment)]) for scan in scans]
    metres = np.cos(np.radians(fixes[0].latitude)) * 111_500
    wheels = [message.pose.pose.position.x - odometry[0].pose.pose.position.x for message in odometry]
    axes.plot([seconds(message) for message in odometry], wheels, color=RED, label="wheels")
    axes.plot([seconds(scan) for scan in scans], ahead[0] - np.array(ahead), color=BLUE, label="lidar")
    gnss = [(fix.longitude - fixes[0].longitude) * metres for fix in fixes]
    axes.plot([seconds(fix) for fix in fixes], gnss, ".", color=GREEN, markersize=3, label="GNSS")
    axes.axvline(_first_contact(messages), color=GREY, linestyle=":", label="bumper")
    axes.set(title="distance driven", xlabel="stamp (s)", ylabel="m")
    axes.legend(loc="upper left")


# --- Inside your simulator ----------------------------------------------------------------------------------


def draw_inside_your_simulator(directory: Path) -> Any:
    """Draw the received joint states on top of the analytic solution."""
    times, slide, hinge = np.load(directory / "swing.npy").T
    modulus, frequency = math.sin(math.radians(60.0) / 2), math.sqrt(9.81 / 0.5)
    commanded = np.flatnonzero(np.abs(slide) > 1e-6)[0]
    at = np.flatnonzero((hinge[:-1] < 0.0) & (hinge[1:] >= 0.0))[0]
    zero = times[at] - hinge[at] * (times[at + 1] - times[at]) / (hinge[at + 1] - hinge[at])
    exact = np.linspace(times[0], times[commanded], 2000)
    angle = 2.0 * np.arcsin(modulus * np.sin(amplitude(frequency * (exact - zero), modulus)))
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8.0, 4.0), sharex=True, layout="constrained", height_ratios=(2, 1)
    )
    above.plot(exact - times[0], np.degrees(angle), color=GREY, linewidth=3.0, alpha=0.6, label="analytic")
    above.plot(
        times[::4] - times[0], np.degrees(hinge[::4]), ".", color=BLUE, markersize=3, label="joint_states"
    )
    above.set(ylabel="hinge (degrees)")
    above.legend(loc="lower left", ncols=2)
    below.plot(times - times[0], slide, color=RED)
    below.set(xlabel="simulated time (s)", ylabel="slide (m)")
    return figure


def amplitude(argument: Any, modulus: float) -> Any:
    """Return Jacobi's amplitude of each argument, by the arithmetic-geometric mean."""
    a, b, c = [1.0], math.sqrt(1.0 - modulus**2), [modulus]
    while abs(c[-1]) > 1e-14:
        a.append((a[-1] + b) / 2.0)
        c.append((a[-2] - b) / 2.0)
        b = math.sqrt(a[-2] * b)
    angle = 2.0 ** (len(a) - 1) * a[-1] * argument
    for number in range(len(a) - 1, 0, -1):
        angle = (angle + np.arcsin(c[number] / a[number] * np.sin(angle))) / 2.0
    return angle


# --- Test in CI ---------------------------------------------------------------------------------------------


def draw_test_in_ci(directory: Path) -> Any:
    """Draw the distance by odometry and by lidar of the failed test, and of the same drive with the asset of main."""
    failed = directory / "test-results" / "test.test_rover-test_odometry_agrees_with_the_lidar.mcap"
    passed = directory / "passed.mcap"
    drive_forward(directory / ".main" / "rover" / "world.usda", passed)
    figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.2), sharey=True, layout="constrained")
    titles = ("main: the test passes", "smaller wheels: the test fails")
    for each, title, recording in zip(axes, titles, (passed, failed), strict=True):
        messages = read_messages(recording)
        scans, odometry = messages["/rover/scan"], messages["/rover/odom"]
        ahead = np.array([scan.ranges[round(-scan.angle_min / scan.angle_increment)] for scan in scans])
        x = [message.pose.pose.position.x for message in odometry]
        each.plot([seconds(message) for message in odometry], x, color=RED, label="odometry")
        each.plot([seconds(scan) for scan in scans], ahead[0] - ahead, ".", color=BLUE, label="lidar")
        each.set(title=title, xlabel="simulated time (s)")
    axes[0].set(ylabel="distance driven (m)")
    axes[0].legend(loc="upper left")
    return figure


def drive_forward(asset: Path, recording: Path) -> None:
    """Record the drive of the test."""
    with OfflineBridge(load_plan(asset), "mujoco", options=BridgeOptions(record=str(recording))) as bridge:
        for tick in range(421):
            if tick >= 20 and tick % 10 == 0:
                bridge.send("/rover/cmd_vel", {"linear": {"x": 0.5}})
            bridge.step(time_ns=tick * 10_000_000)


# --- Data set -----------------------------------------------------------------------------------------------


def draw_data_set_100_runs(directory: Path) -> Any:
    """Draw grip over distance with the fitted line, and how well it estimates the grip of new runs."""
    learned = directory / "learned.csv"
    slope, offset = (
        float(number)
        for number in learned.read_text(encoding="utf-8").splitlines()[0].lstrip("# ").split(",")
    )
    distance, grip = np.loadtxt(learned, delimiter=",").T
    figure, (curve, estimates) = plt.subplots(1, 2, figsize=(8.0, 3.4), layout="constrained")
    grid = np.linspace(distance.min(), distance.max(), 200)
    curve.plot(grid, slope / grid + offset, color=GREY, label="fitted")
    curve.plot(distance[:80], grip[:80], ".", color=BLUE, label="80 runs to learn from")
    curve.plot(distance[80:], grip[80:], "x", color=RED, label="20 new runs")
    curve.set(xlabel="braking distance by lidar (m)", ylabel="grip")
    curve.legend()
    estimates.plot([0.1, 0.6], [0.1, 0.6], color=GREY)
    estimates.plot(grip[80:], slope / distance[80:] + offset, "x", color=RED)
    estimates.set(xlabel="grip", ylabel="estimated grip", title="20 new runs", aspect="equal")
    return figure


DRAWN: dict[str, Callable[[Path], Any]] = {
    "sensor_suite": draw_sensor_suite,
    "inside_your_simulator": draw_inside_your_simulator,
    "test_in_ci": draw_test_in_ci,
    "data_set_100_runs": draw_data_set_100_runs,
}
"""What draws the picture of each tutorial."""

if __name__ == "__main__":
    main()
