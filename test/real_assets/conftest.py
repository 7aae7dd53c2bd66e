"""Fixtures of the tests on real assets: the bridge's model of each beside its own engine, and a table at the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# The import mode "importlib" leaves sys.path alone, so the helpers beside this file would not be found.
sys.path.insert(0, str(Path(__file__).parent))

from asset_table import ASSETS
from engine_models import Pair, load_pair

DIRECTORY_VARIABLE = "USD_ROS_BRIDGE_ASSETS"
RESULTS = pytest.StashKey[dict[str, dict[str, float]]]()


@pytest.fixture(scope="session")
def assets_directory() -> Path:
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        pytest.skip(f"{DIRECTORY_VARIABLE} is not set: `make test-assets` converts the assets and sets it")
    return Path(directory)


@pytest.fixture(scope="session", params=ASSETS)
def pair(request: pytest.FixtureRequest, assets_directory: Path) -> Pair:
    return load_pair(assets_directory, request.param)


@pytest.fixture
def errors(request: pytest.FixtureRequest, pair: Pair) -> dict[str, float]:
    """Filled by the test, shown in the table at the end, whether the test passes or not."""
    return request.config.stash.setdefault(RESULTS, {}).setdefault(pair.name, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    results = terminalreporter.config.stash.get(RESULTS, {})
    if not results:
        return
    columns = list(dict.fromkeys(column for row in results.values() for column in row))
    terminalreporter.section("largest errors against pinocchio and MuJoCo on the originals")
    terminalreporter.line(f"{'asset':<14}" + "".join(f"{column:>15}" for column in columns))
    for name, row in results.items():
        cells = (f"{row[column]:>15.1e}" if column in row else f"{'':>15}" for column in columns)
        terminalreporter.line(f"{name:<14}" + "".join(cells))
