"""The conversion that test/support/recorded_converter answers with is that of urdf-usd-converter.

`RECORD_CONVERSION=1 make test-robots ARGS="-k recorded"` records it again, after a change of the page's URDF.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from live_bridge import CONSOLE_SCRIPT

from page_files import write_page_files

RECORDING = Path(__file__).parents[1] / "support/recorded_converter"
PAGE = "your_urdf_moves.md"


def texts(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text(encoding="utf-8")
        for path in directory.rglob("*.usda")
    }


@pytest.mark.skipif(
    not os.environ.get("USD_ROS_CONVERTER"), reason="USD_ROS_CONVERTER: `make test-robots` sets it"
)
def test_recorded_conversion_is_that_of_the_converter(tmp_path: Path) -> None:
    urdf = write_page_files(PAGE, tmp_path)["elbow_arm.urdf"]
    done = subprocess.run(
        [CONSOLE_SCRIPT, "import", urdf], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    asset = tmp_path / "elbow_arm/asset"
    digest = hashlib.sha256(urdf.read_bytes()).hexdigest()
    if os.environ.get("RECORD_CONVERSION"):
        shutil.rmtree(RECORDING / "elbow_arm")
        shutil.copytree(asset, RECORDING / "elbow_arm")
        (RECORDING / "elbow_arm.sha256").write_text(f"{digest}\n", encoding="utf-8")
    assert (RECORDING / "elbow_arm.sha256").read_text(encoding="utf-8").strip() == digest
    assert texts(asset) == texts(RECORDING / "elbow_arm")
