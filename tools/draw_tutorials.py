"""Draw the pictures of docs/tutorials/: follow each page, and take a picture where the page has one.

The pictures of the other tutorials are plots: draw_tutorial_plots.py.

`python tools/draw_tutorials.py [PAGE...]`, in the environment of `make test-browser` with
`pip install -r tools/recordings-requirements.txt`. The bridges of a page get `--view`; chromium without a screen takes
the pictures. Those of `PLOTS` come from the files that the page's programs write.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "test" / "support"), str(ROOT / "tools"), str(ROOT)]

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from draw_pages import CHROMIUM_FLAGS, save_page  # noqa: E402
from PIL import Image  # noqa: E402

from doc_walk import DocWalk, Step, steps  # noqa: E402
from markdown_docs import DOCS  # noqa: E402

PICTURES = DOCS / "pictures"
VIEWED = (
    "your_urdf_moves.md",
    "author_ros_interfaces.md",
    "mobile_robot_nav2.md",
    "arm_moveit.md",
    "variants_and_gripper.md",
)
"""Tutorials that this tool draws by default."""
_PICTURE = re.compile(r"!\[[^\]]*\]\(\.\./pictures/(?P<name>tutorial_\w+)\.(?:png|svg)\)")
_URL = re.compile(r"page: (http://\S+)")
URL_S = 90.0


def main() -> None:
    """Draw the pictures of the named pages, or of all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="file names in docs/tutorials/; by default those of VIEWED")
    names = parser.parse_args().pages
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM_FLAGS))
        for page in sorted((DOCS / "tutorials").glob("*.md")):
            if page.name in (names or VIEWED) and _PICTURE.search(page.read_text(encoding="utf-8")):
                _draw(browser, page)
        browser.close()


class ViewedWalk(DocWalk):
    """A reader who adds `--view` to every bridge."""

    def _start(self, step: Step) -> None:
        command = step.block.text.strip()
        if command.startswith("usd_ros_bridge run"):
            step = replace(step, block=replace(step.block, text=f"{command} --view --view-port 0\n"))
        super()._start(step)

    @property
    def url(self) -> str:
        """Return the address of the page of the bridge that was started last."""
        *_, program = self._beside.values()
        found = _URL.search(program.output)
        return found[1] if found else _URL.search(program.wait_for(_URL.pattern, timeout=URL_S))[1]  # type: ignore[index]


def _draw(browser: Any, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    pictures = [(text.count("\n", 0, match.start()) + 1, match["name"]) for match in _PICTURE.finditer(text)]
    with tempfile.TemporaryDirectory() as directory:
        walk = ViewedWalk(Path(directory), _environment())
        try:
            for step in steps(page):
                while pictures and pictures[0][0] < step.block.line:
                    _take(browser, walk, pictures.pop(0)[1])
                walk.follow(step)
            for _, name in pictures:
                _take(browser, walk, name)
            walk.stop()
        finally:
            walk.kill()


def _environment() -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "ROS_DOMAIN_ID": str(random.randint(1, 101)),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "COLUMNS": "120",
        "USD_ROS_CONVERTER": str(ROOT / "test/support/recorded_converter/python"),
    }


def _take(browser: Any, walk: ViewedWalk, name: str) -> None:
    if name in PLOTS:
        PLOTS[name](walk.current, name)
        return
    save_page(browser, walk.url, name)


def _plot_map(directory: Path, name: str) -> None:
    """Draw the map of drive.py with the path of the rover."""
    grid = np.asarray(Image.open(directory / "map.pgm"))
    way = np.loadtxt(directory / "path.csv", delimiter=",")
    figure, axes = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
    axes.imshow(grid, cmap="gray", extent=(-2.5, 7.5, -5.0, 5.0), interpolation="nearest")
    axes.plot(*way.T, color="tab:orange", linewidth=2, label="path of base_link, by odometry")
    axes.plot(*way[0], "o", color="tab:green", label="start")
    axes.plot(*way[-1], "*", color="tab:red", markersize=12, label="goal")
    axes.set(xlabel="x in odom, m", ylabel="y in odom, m")
    axes.legend(loc="lower left", fontsize="small")
    path = PICTURES / f"{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def _plot_feedback(directory: Path, name: str) -> None:
    """Draw the feedback of move.py: commanded and measured positions."""
    rows = np.loadtxt(directory / "feedback.csv", delimiter=",")
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for joint in range(6):
        (line,) = axes.plot(rows[:, 0], rows[:, 7 + joint], label=f"joint_{joint + 1}")
        axes.plot(rows[:, 0], rows[:, 1 + joint], "--", color=line.get_color(), linewidth=0.8)
    axes.set(xlabel="time from the start of the trajectory, s", ylabel="position, rad")
    axes.set_title("measured (lines) and commanded (dashed)", fontsize="medium")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    axes.grid(alpha=0.3)
    path = PICTURES / f"{name}.svg"
    figure.savefig(path)
    plt.close(figure)
    print(f"{path}: {path.stat().st_size // 1000} kB")


PLOTS: Mapping[str, Callable[[Path, str], None]] = {
    "tutorial_rover_map": _plot_map,
    "tutorial_arm_feedback": _plot_feedback,
}

if __name__ == "__main__":
    main()
