"""The Python API: every public name is on one page of docs/reference/api, and in the index."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import usd_ros_bridge
from markdown_docs import DOCS, codes, page_text, rows

pytestmark = pytest.mark.docs

PUBLIC = usd_ros_bridge.__all__
PAGES = sorted((DOCS / "reference" / "api").glob("*.md"))
DIRECTIVE = re.compile(r"^::: (usd_ros_bridge\.\S+)$", re.MULTILINE)


def described(page: Path) -> list[str]:
    """The names that mkdocstrings describes on a page."""
    return DIRECTIVE.findall(page.read_text(encoding="utf-8"))


def load(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), attribute)


def test_every_public_name_is_on_one_page() -> None:
    prefix = "usd_ros_bridge."
    names = [name.removeprefix(prefix) for page in PAGES for name in described(page)]
    assert sorted(name for name in names if "." not in name) == PUBLIC


def test_the_index_has_the_names_of_every_page() -> None:
    index = dict(rows(page_text("python_api.md"), "page"))
    for page in PAGES:
        (cell,) = [names for title, names in index.items() if f"(api/{page.name})" in title]
        if page.name != "api_testing.md":
            assert [f"usd_ros_bridge.{name}" for name in codes(cell)] == described(page)
    assert len(index) == len(PAGES)


def test_names_of_other_modules_exist() -> None:
    for name in [name for page in PAGES for name in described(page)]:
        needs_launch = name.startswith("usd_ros_bridge.testing.launch.")
        # launch comes with a full ROS 2 installation.
        if name.count(".") > 1 and not (needs_launch and importlib.util.find_spec("launch_ros") is None):
            assert load(name).__doc__, name


def test_every_fixture_is_on_the_page() -> None:
    plugin = importlib.import_module("usd_ros_bridge.testing.pytest_plugin")
    source = inspect.getsource(plugin)
    fixtures = re.findall(r"^@pytest\.fixture.*\n(?:@.*\n)*def (\w+)\(", source, re.MULTILINE)
    (members,) = re.findall(r"^ +members: \[(.*)\]$", page_text("api_testing.md"), re.MULTILINE)
    # `active_test` is an implementation detail of the others.
    assert sorted(members.split(", ")) == sorted({*fixtures} - {"active_test"})
