"""The site, and the README on PyPI: the address of the repository, absolute links, what the build changes in pages."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import setuptools
import yaml
from markdown_it import MarkdownIt

from markdown_docs import DOCS, PAGES, ROOT, page_path

pytestmark = pytest.mark.docs


@pytest.fixture(scope="module")
def setup_py() -> SimpleNamespace:
    """What setup.py defines, and the metadata that it gives setuptools."""
    metadata: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", metadata.update)
        patch.setattr(sys, "argv", ["setup.py"])
        names = runpy.run_path(str(ROOT / "setup.py"))
    return SimpleNamespace(**{name: names[name] for name in ("REPOSITORY", "BRANCH")}, metadata=metadata)


@pytest.fixture(scope="module")
def hooks() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "docs_hooks.py")))


def mkdocs() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))


def targets(html: str) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]*)"', html)


def test_one_address_of_the_repository(setup_py: SimpleNamespace, hooks: SimpleNamespace) -> None:
    site = mkdocs()
    assert site["repo_url"] == setup_py.REPOSITORY == setup_py.metadata["url"]
    assert all(url.startswith(setup_py.REPOSITORY) for url in setup_py.metadata["project_urls"].values())
    assert hooks.BRANCH == setup_py.BRANCH
    assert site["edit_uri"] == f"edit/{setup_py.BRANCH}/docs/"


def test_the_page_on_pypi_has_only_absolute_links(setup_py: SimpleNamespace) -> None:
    html = MarkdownIt("commonmark").enable("table").render(setup_py.metadata["long_description"])
    found = targets(html)
    assert found
    assert [target for target in found if not target.startswith(("https://", "#"))] == []
    views = re.escape(setup_py.REPOSITORY) + f"/(?:raw|blob)/{setup_py.BRANCH}/([^#]+)"
    files = [match[1] for target in found if (match := re.fullmatch(f"{views}(?:#.*)?", target))]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert [src for src in re.findall(r'src="([^"]*)"', html) if "/raw/" not in src] == []


def test_the_site_loads_nothing_from_the_network() -> None:
    theme = mkdocs()["theme"]
    assert theme["font"] is False
    assert not [each for each in mkdocs().get("extra_javascript", []) if "://" in str(each)]


def test_links_to_files_outside_of_docs_lead_to_the_repository(hooks: SimpleNamespace) -> None:
    page = DOCS / "reference" / "testing.md"
    text = "[a](../../examples/arm) [b](../../setup.py#L1) [c](frames.md) [d](https://x.org/../y)"
    assert hooks.repository_links(text, page, DOCS, "https://host/r/") == (
        "[a](https://host/r/tree/main/examples/arm) [b](https://host/r/blob/main/setup.py#L1) "
        "[c](frames.md) [d](https://x.org/../y)"
    )


def test_a_file_name_as_text_of_a_link_becomes_the_title(hooks: SimpleNamespace) -> None:
    page = DOCS / "how_to" / "how_to.md"
    (title,) = re.findall(r"^# (.+)$", page_path("live.md").read_text(encoding="utf-8"), re.MULTILINE)
    text = (
        "[live.md](../reference/live.md#what-changes), [here](../reference/live.md), [live.md](../index.md)"
    )
    assert hooks.titled_links(text, page) == (
        f"[{title}](../reference/live.md#what-changes), [here](../reference/live.md), [live.md](../index.md)"
    )


def test_directives_of_tests_are_removed_and_titles_of_blocks_kept(hooks: SimpleNamespace) -> None:
    text = (
        'A\n\n<!-- run: background ready=": ready" -->\n```sh title="Terminal 1"\nls\n```\n\n<!-- note -->\n'
    )
    page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(DOCS / "index.md")))
    config = SimpleNamespace(docs_dir=str(DOCS), repo_url="https://host/r")
    assert hooks.on_page_markdown(text, page, config) == (
        'A\n\n```sh title="Terminal 1"\nls\n```\n\n<!-- note -->\n'
    )


def test_tables_that_are_built_with_the_site(hooks: SimpleNamespace) -> None:
    text = page_path("command_line.md").read_text(encoding="utf-8")
    made = hooks.with_built_tables(text, "command_line.md")
    assert "### inspect\n" in made
    assert "The site has" not in made
    assert hooks.with_built_tables(text, "parameters.md") == text


def test_pipes_in_tables_and_none_elsewhere(hooks: SimpleNamespace) -> None:
    text = "| `a\\|b` | c\\|d |\n`a\\|b`\n```\n| `a\\|b` |\n```\n"
    assert hooks.outside_of_fences(text, hooks.table_pipes) == (
        "| `a|b` | c\\|d |\n`a\\|b`\n```\n| `a\\|b` |\n```\n"
    )


def test_only_pages_with_diagrams_load_mermaid(hooks: SimpleNamespace) -> None:
    page = SimpleNamespace(
        url="explanation/architecture.html", file=SimpleNamespace(src_uri="explanation/architecture.md")
    )
    plain = "<html><head></head><body></body></html>"
    assert hooks.MERMAID not in hooks.on_post_page(plain, page)
    drawn = hooks.on_post_page(plain.replace("<body>", '<body><pre class="mermaid">'), page)
    assert f'<script src="../{hooks.MERMAID}"></script></head>' in drawn
    assert (DOCS / hooks.SEARCH_FROM_DISK).exists()
    assert f'<script src="../{hooks.SEARCH_FROM_DISK}">' in drawn


def test_a_page_that_loads_from_the_network_is_reported(
    hooks: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    page = SimpleNamespace(url="a.html", file=SimpleNamespace(src_uri="a.md"))
    hooks.on_post_page('<a href="https://x.org"></a><div data-md-component="source"></div>', page)
    assert not caplog.records
    hooks.on_post_page('<script async src="https://x.org/a.js"></script>', page)
    assert "a.md loads from the network" in caplog.text


def test_lists_and_tables_stand_apart() -> None:
    """Python-Markdown, which builds the site, needs an empty line above, and four spaces for each level of a list."""
    assert [fault for page in PAGES for fault in crowded(page)] == []


def crowded(page: Path) -> list[str]:
    item = re.compile(r"( *)(?:[-*]|\d+\.) ")
    faults, fence, previous = [], False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence ^= line.lstrip().startswith("```")
        found = item.match(line)
        inside = item.match(previous) or previous.startswith("  ") or not previous.strip()
        if not fence and found and (not inside or len(found[1]) % 4):
            faults.append(f"{os.path.relpath(page, ROOT)}:{number}: {line}")
        if not fence and line.startswith("|") and previous.strip() and not previous.startswith(("|", "<!--")):
            faults.append(f"{os.path.relpath(page, ROOT)}:{number}: {line}")
        previous = line
    return faults
