"""Draw the pictures of docs/reference/report.md and docs/how_to/review_in_ci.md: pages of `report` in chromium.

`python tools/draw_reports.py [--output DIRECTORY] [--whole]`, in the environment of `make test-browser`. With
`--whole`, the pictures show the whole pages of rover and arm: for people, not for the documents.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "test" / "support"), str(ROOT)]

from PIL import Image  # noqa: E402

from page_runs import CHROMIUM_FLAGS  # noqa: E402 - it lies beside the tests

SIZE = {"width": 1200, "height": 960}
COLORS = 256
WAIT_MS = 60_000
HOW_TO = ROOT / "docs" / "how_to" / "review_in_ci.md"


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "pictures", help="directory of the pictures"
    )
    parser.add_argument("--whole", action="store_true", help="draw the whole pages of rover and arm")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as directory, sync_playwright() as driver:
        work = Path(directory)
        for name in ("rover", "arm"):
            shutil.copytree(ROOT / "examples" / name, work / name)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM_FLAGS))
        for name, command in _commands(work, arguments.whole).items():
            _report(work, *command)
            _draw(browser, work / "report.html", arguments.output / f"{name}.png", whole=arguments.whole)
        browser.close()


def _commands(work: Path, whole: bool) -> dict[str, tuple[str, ...]]:
    """Return the arguments of `report` for each picture."""
    if whole:
        return {"report_rover": ("rover/rover.usda",), "report_arm": ("arm/arm.usda",)}
    block = re.search(r'```usda title="robot.usda"\n(.*?)```', HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (work / "robot.usda").write_text(block[1], encoding="utf-8")
    return {
        "report_rover": ("rover/rover.usda",),
        "report_review": ("robot.usda", "--against", "rover/rover.usda"),
    }


def _report(work: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "usd_ros_bridge", "report", *arguments, "-o", "report.html"]
    subprocess.run(command, cwd=work, check=True)


def _draw(browser: Any, file: Path, path: Path, *, whole: bool) -> None:
    page = browser.new_page(viewport=SIZE)
    try:
        page.goto(file.as_uri())
        page.locator("#scene[data-drawn]").wait_for(timeout=WAIT_MS)
        picture = Image.open(io.BytesIO(page.screenshot(full_page=whole, timeout=WAIT_MS))).convert("RGB")
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1000} kB")
    finally:
        page.close()


if __name__ == "__main__":
    main()
