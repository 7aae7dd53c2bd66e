"""What the documents import of the bridge is public: a name of `usd_ros_bridge`, or of its modules for tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

import usd_ros_bridge
from markdown_docs import PAGES, Block, blocks

pytestmark = pytest.mark.docs

PACKAGE = "usd_ros_bridge"
PUBLIC_MODULES = ("usd_ros_bridge.testing",)
"""Their names without an underscore are public, too, and those of modules in them."""
_CALL = re.compile(r"`(usd_ros_bridge(?:\.\w+)+)\(")


def imported(block: Block) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a block imports of the bridge, "" for a whole module."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            yield from ((node.module or "", each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == PACKAGE)


def is_public(module: str, name: str) -> bool:
    if module == PACKAGE:
        return name == "" or name in usd_ros_bridge.__all__ or f"{module}.{name}" in PUBLIC_MODULES
    inside = any(module == each or module.startswith(f"{each}.") for each in PUBLIC_MODULES)
    return inside and not name.startswith("_")


PYTHON_BLOCKS = [block for page in PAGES for block in blocks(page) if block.language == "python"]


def test_blocks_import_public_names() -> None:
    assert PYTHON_BLOCKS
    found = [(str(block), each) for block in PYTHON_BLOCKS for each in imported(block)]
    assert [(block, each) for block, each in found if not is_public(*each)] == []


def test_calls_in_the_text_are_of_public_names() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    named = {match[1] for page in pages for match in _CALL.finditer(page.read_text(encoding="utf-8"))}
    assert named
    wrong = {each for each in named if not is_public(*each.rsplit(".", 1))}
    assert wrong == set()
