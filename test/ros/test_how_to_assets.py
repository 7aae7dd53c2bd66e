"""The recipe for MJCF robots, followed where the converters are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from doc_walk import DocWalk, Step
from markdown_docs import blocks, page_path
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.importing.converter import find_converter

pytestmark = pytest.mark.docs

PAGE = page_path("mjcf_assets.md")


def why_not() -> str:
    """Return why there is no converter, "" if there is one."""
    try:
        find_converter("mjcf")
    except BridgeError as error:
        return str(error)
    return ""


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_the_page_can_be_followed(tmp_path, other_domain_id):
    directory = tmp_path / "reader"
    directory.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    walk = DocWalk(directory, {"PATH": path, "ROS_DOMAIN_ID": str(other_domain_id)})
    _install, model, convert, output, run, check = (
        each for each in blocks(PAGE) if each.directive or each.title
    )
    try:
        walk.follow(Step(model))
        walk.follow(Step(convert, output=output, keys={"timeout": "300"}))
        walk.follow(Step(run, keys={"background": "", "ready": ": ready"}))
        walk.follow(Step(check))
        walk.stop()
    finally:
        walk.kill()
