"""Every page that a reader follows, from its first block to the last one, in an empty directory, over real DDS."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from doc_walk import DocWalk, walks

BIN = Path(sys.executable).parent
RECORDED_CONVERTER = Path(__file__).parents[1] / "support/recorded_converter/python"
"""In place of 350 MB of converters."""

WALKS = walks()

pytestmark = [
    pytest.mark.walk,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (BIN / "usd_ros_bridge").exists(), reason="usd_ros_bridge is not installed: make setup"
    ),
]


def rows() -> list[Any]:
    """Return the pages. `make test` follows one of them: it writes an asset, inspects and runs it."""
    sample = {"migrate_from_isaac_graphs.md": pytest.mark.sample}
    return [pytest.param(page, marks=sample.get(page.name, ()), id=page.name) for page in WALKS]


@pytest.mark.parametrize("page", rows())
def test_page_can_be_followed(page: Path, tmp_path: Path, other_domain_id: int) -> None:
    directory = tmp_path / "reader"
    directory.mkdir()
    walk = DocWalk(
        directory,
        {
            "PATH": os.pathsep.join([str(BIN), "/usr/local/bin", "/usr/bin", "/bin"]),
            "ROS_DOMAIN_ID": str(other_domain_id),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "COLUMNS": "120",
            "USD_ROS_CONVERTER": str(RECORDED_CONVERTER),
        },
    )
    try:
        for step in WALKS[page]:
            walk.follow(step)
        walk.stop()
    finally:
        walk.kill()
