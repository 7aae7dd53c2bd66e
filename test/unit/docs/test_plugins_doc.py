"""The controller of docs/reference/plugins.md, put together from its blocks, passes the conformance tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign_plugins import SCALED_ARM, install_plugin
from markdown_docs import PAGES, blocks
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.testing.controller_conformance import ControllerConformance

pytestmark = pytest.mark.docs

(PAGE,) = (page for page in PAGES if page.name == "plugins.md")


def python_block(beginning: str) -> str:
    (found,) = (each.text for each in blocks(PAGE) if each.language == "python" and beginning in each.text)
    return found


class TestScaledPosition(ControllerConformance):
    schema = "ScaledPositionAPI"
    samples = (ArraySample(values=np.array([0.1])), ArraySample(values=np.array([-0.2])))
    stops_after = 0.1

    @pytest.fixture(autouse=True)
    def plugin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "scaled_position"
        package.mkdir()
        (package / "__init__.py").write_text(python_block("SCALED_POSITION ="), encoding="utf-8")
        (package / "scaled_positions.py").write_text(python_block("class ScaledPositions("), encoding="utf-8")
        points = {"ScaledPositionAPI": "scaled_position:SCALED_POSITION"}
        install_plugin(tmp_path, "scaled-position", entry_points={"controllers": points}, modules={})
        asset = tmp_path / "robot.usda"
        asset.write_text(SCALED_ARM.replace("SCHEMA", self.schema), encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(type(self), "asset", asset, raising=False)
