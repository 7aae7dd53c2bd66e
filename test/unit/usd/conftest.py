"""Stages from text, for the tests of the reader."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import ReadOptions

# importlib mode adds no folder to the path.
sys.path.insert(0, str(Path(__file__).parent))

from reading import read_asset

from builders.stage_text import header

HEADER = header("Robot")

Write = Callable[..., str]
Read = Callable[..., StageRecords]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a layer with REP 0158's metadata around `body`; returns its path."""

    def write_layer(body: str, name: str = "asset.usda", *, header: str = HEADER) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + body, encoding="utf-8")
        return str(path)

    return write_layer


@pytest.fixture
def read(write: Write) -> Read:
    """Writes a layer, each time another one, and reads it."""
    numbers = itertools.count()

    def read_body(body: str, *, header: str = HEADER, **options: object) -> StageRecords:
        path = write(body, f"asset_{next(numbers)}.usda", header=header)
        _, records = read_asset(path, ReadOptions(**options))  # type: ignore[arg-type]
        return records

    return read_body
