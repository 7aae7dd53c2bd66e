"""Draw the pictures of docs/reference/view.md: the page of running bridges, in chromium without a screen.

`python tools/draw_pages.py [--panda DIRECTORY]`, in the environment of `make test-browser`. The Panda is what
`usd_ros_bridge import panda.urdf` made of example-robot-data's URDF; without it, its picture is left as it is.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# rclpy reads these when it makes a context. The pictures need no other node on the network.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_DOMAIN_ID"] = str(random.randint(1, 101))

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "test" / "support"), str(ROOT)]

from PIL import Image  # noqa: E402

from page_runs import ARM, CHROMIUM_FLAGS, FLEET, ROVER, PageRun  # noqa: E402 - it lies beside the tests

SIZE = {"width": 960, "height": 540}
COLORS = 96
FADED_MS = 15_000
"""The scene fades in, slowly where the processor draws it."""
WAIT_MS = 120_000


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panda", type=Path, help="directory of the imported Panda")
    parser.add_argument("--only", help="name of the one picture to draw")
    arguments = parser.parse_args()
    pictures: dict[str, Sequence[str | Path]] = {
        "view_rover": ("run", ROVER),
        "view_arm": ("run", ARM),
        "view_arm_suction": ("run", ARM, "--variant", "/arm:gripper=suction"),
        "view_fleet": ("run", FLEET, "--backend", "kinematic"),
    }
    if arguments.panda is not None:
        pictures["view_panda"] = ("run", arguments.panda / "robot.usda")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM_FLAGS))
        for name, command in pictures.items():
            if arguments.only in (None, name):
                _draw(browser, name, command)
        browser.close()


def _draw(browser: Any, name: str, command: Sequence[str | Path]) -> None:
    run = PageRun(*command, "--no-live", "--view")
    try:
        save_page(browser, run.url, name)
    finally:
        run.close()


def save_page(browser: Any, url: str, name: str) -> None:
    """Save what a bridge's page shows as docs/pictures/NAME.png."""
    page = browser.new_page(viewport=SIZE)
    try:
        page.goto(url)
        notice = page.locator(".mantine-Notification-root", has_text="Software WebGL")
        notice.locator("button").click(timeout=WAIT_MS)
        page.wait_for_timeout(FADED_MS)
        picture = Image.open(io.BytesIO(page.screenshot(timeout=WAIT_MS))).convert("RGB")
        path = ROOT / "docs" / "pictures" / f"{name}.png"
        picture.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1000} kB")
    finally:
        page.close()


if __name__ == "__main__":
    main()
