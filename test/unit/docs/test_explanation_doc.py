"""docs/explanation: the files, names and assets that architecture.md and rep_0158_decisions.md name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from markdown_docs import PAGES, ROOT, codes, page_text, section, without_fences

pytestmark = pytest.mark.docs

PACKAGE = ROOT / "usd_ros_bridge"
ARCHITECTURE = without_fences(page_text("architecture.md"))
DECISIONS = page_text("rep_0158_decisions.md")
CONTRIBUTING = page_text("CONTRIBUTING.md")

_FILE = re.compile(r"[\w*./-]+(/|\.(py|json|usda|yaml|toml))")
_NAME = re.compile(r"[A-Za-z_]\w+")
# Words of others, and examples.
FOREIGN = {
    "UsdShadeMaterialBindingAPI",
    "update_rate",
    "physics",
    "displayColor",
    "orientation",
    "default",
    "render",
}


def files(text: str) -> list[str]:
    """What stands in backticks and looks like a file or a folder."""
    return sorted({code for code in codes(text) if _FILE.fullmatch(code) and "://" not in code})


def exists(name: str) -> bool:
    return any(any(base.glob(name.rstrip("/"))) for base in (ROOT, PACKAGE))


def test_files_of_the_architecture_exist() -> None:
    # Recipes name a file that stands in another folder in full first.
    named = files(ARCHITECTURE)
    assert len(named) > 100
    assert [name for name in named if not exists(name)] == []


def test_names_of_the_architecture_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")) + (
        ROOT / "pyproject.toml"
    ).read_text(encoding="utf-8")
    known = set(_NAME.findall(text))
    inline = [code for code in codes(ARCHITECTURE) if not (_FILE.fullmatch(code) or "/" in code)]
    words = {word for code in inline for word in _NAME.findall(code)}
    assert words - known - FOREIGN == set()


def test_every_package_stands_in_the_table_of_layers() -> None:
    table = set(codes(section(ARCHITECTURE, "Layers")))
    found = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert (found | modules) - table == set()


def test_every_recipe_has_a_test_that_follows_it() -> None:
    recipes = re.findall(r"^- \*\*(.+?)\*\*", section(ARCHITECTURE, "Recipes"), re.MULTILINE)
    rows = re.findall(
        r"^\| (Add .+?) \| (.+) \|$", section(CONTRIBUTING, "Where a change goes"), re.MULTILINE
    )
    assert [name for name, _ in rows] == recipes
    for _, cell in rows:
        for code in codes(cell):
            path, _, test = code.partition("::")
            assert (ROOT / path).exists(), code
            assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), code


def decisions() -> list[list[str]]:
    lines = [
        line for line in DECISIONS.partition("## Revision")[0].splitlines() if re.match(r"\| [1-4]\.", line)
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_decisions_have_their_tests() -> None:
    assert len(decisions()) > 40
    for section_number, question, decision, page, test in decisions():
        assert section_number
        assert question
        assert decision
        assert page.startswith("[")
        for code in codes(test):
            if "/" in code:
                assert (ROOT / code).exists(), code
            else:
                assert (ROOT / "test" / "assets" / f"{code}.usda").exists(), code
                assert (ROOT / "test" / "golden" / f"{code}.json").exists(), code


def test_assets_of_decisions_are_read_by_the_test_of_golden_plans() -> None:
    text = Path(ROOT / "test" / "unit" / "assets" / "test_golden.py").read_text(encoding="utf-8")
    assert 'ASSETS.glob("*.usda")' in text


def test_diagrams_have_no_semicolon() -> None:
    """Mermaid ends a line there, and draws a bomb."""
    diagrams = [
        (page.name, block)
        for page in PAGES
        for block in re.findall(
            r"^```mermaid\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    ]
    assert {name for name, _ in diagrams} >= {"architecture.md"}
    assert [name for name, block in diagrams if ";" in block] == []
