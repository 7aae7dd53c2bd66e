"""Changes of the pages while mkdocs builds the site: links, directives of tests, headings, diagrams.

The pages are written for GitHub and for the tests, which read them as they are. What the site needs differs in a few
points, and the build changes them here:

- Tables of some pages are made from the code here, and nowhere else (tools/reference_tables.py).
- Links to files outside of docs/ (`../../examples/arm`) become addresses of the repository. A dead link is a warning,
  which fails a strict build.
- A link whose text is the file name of a page (`[live.md](live.md)`) gets the title of that page.
- Directives of the tests (`<!-- run: ... -->`) are removed.
- Anchors of headings are those of GitHub.
- `\\|` in a code span of a table is `|`.
- Blocks of the language mermaid are drawn by mermaid.min.js, a file of the site. Only pages with such a block load it.
- Search works from disk, too (docs/assets/search_from_disk.js).
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.docs")

ROOT = Path(__file__).resolve().parent.parent
BRANCH = "main"
MERMAID = "assets/javascripts/mermaid.min.js"
SEARCH_FROM_DISK = "assets/search_from_disk.js"

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}).*?^(?P=indent)(?P=fence) *$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"(?P<start>\]\()(?P<target>[^)\s#]+)(?P<rest>(?:#[^)\s]*)?(?: \"[^\"]*\")?\))")
_NAMED_LINK = re.compile(r"\[(?P<name>\w+\.md)(?P<rest>\]\((?P<target>[^)\s#]+\.md)(?:#[^)\s]*)?\))")
_TITLE = re.compile(r"^# (?P<title>.+)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^ *<!-- run: .*?-->\n", re.MULTILINE | re.DOTALL)
_TABLE_ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
_LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]* src=[\"']?https?:[^>]*>|<link[^>]* rel=[\"']?stylesheet[^>]* href=[\"']?https?:[^>]*>"
)
_CODE = re.compile(r"`[^`\n]+`")
_TABLE = "<!-- table: "


def on_config(config: Any) -> Any:
    """Set what mkdocs.yml cannot say without Python tags, which other readers of the file refuse."""
    from pymdownx.superfences import fence_code_format

    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [
        {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
    ]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    source = Path(page.file.abs_src_path)
    text = _DIRECTIVE.sub("", with_built_tables(markdown, source.name))
    return outside_of_fences(
        text,
        lambda part: table_pipes(
            titled_links(repository_links(part, source, Path(config.docs_dir), config.repo_url), source)
        ),
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load our scripts, mermaid.min.js only where a page has a diagram, and nothing from the network."""
    # The theme would ask the host of the repository for its number of stars.
    output = output.replace(' data-md-component="source"', "")
    # Both before the scripts of the theme: it would fetch mermaid from elsewhere.
    scripts = [SEARCH_FROM_DISK, *([MERMAID] if 'class="mermaid"' in output else [])]
    above = "../" * page.url.count("/")
    elements = "".join(f'<script src="{above}{script}"></script>' for script in scripts)
    output = output.replace("</head>", f"{elements}</head>", 1)
    for element in _LOADED.findall(output):
        log.warning("%s loads from the network: %s", page.file.src_uri, element)
    return output


def on_post_build(config: Any, **_: Any) -> None:
    destination = Path(config.site_dir, MERMAID)
    destination.parent.mkdir(parents=True, exist_ok=True)
    source = Path(sys.prefix, "mermaid", "mermaid.min.js")
    if source.exists():
        shutil.copyfile(source, destination)
    else:
        log.warning("%s is missing: make docs sets it up", source)
    # A page on disk can load a script, but no JSON: this is the variable that the theme reads there.
    index = Path(config.site_dir, "search", "search_index.json")
    index.with_suffix(".js").write_text(
        f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8"
    )


def with_built_tables(text: str, name: str) -> str:
    """Make the tables of a page that is built with the site."""
    if _TABLE not in text or name not in _tables().BUILT:
        return text
    # Authors of the site make it again and again, and the code stays as it was imported.
    return str(_made(text))


@cache
def _made(text: str) -> str:
    return str(_tables().with_tables(text))


@cache
def _tables() -> Any:
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    import reference_tables

    return reference_tables


def outside_of_fences(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to what stands between fenced blocks."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def repository_links(text: str, source: Path, docs: Path, repository: str) -> str:
    """Replace targets of links that are files of the repository, but not of the site."""

    def address(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith(("mailto:", "/")):
            return link.group()
        path = (source.parent / target).resolve()
        if path.is_relative_to(docs) or not path.is_relative_to(ROOT):
            return link.group()
        if not path.exists():
            log.warning("%s links to %s, which does not exist", source.relative_to(ROOT), target)
        kind = "tree" if path.is_dir() else "blob"
        relative = path.relative_to(ROOT).as_posix()
        return f"{link['start']}{repository.rstrip('/')}/{kind}/{BRANCH}/{relative}{link['rest']}"

    return _LINK.sub(address, text)


def titled_links(text: str, source: Path) -> str:
    """Replace the file name of a page, as text of a link to it, by the title of the page."""

    def titled(link: re.Match[str]) -> str:
        path = source.parent / link["target"]
        if path.name != link["name"] or not path.is_file():
            return link.group()
        title = _TITLE.search(path.read_text(encoding="utf-8"))
        return f"[{title['title']}{link['rest']}" if title else link.group()

    return _NAMED_LINK.sub(titled, text)


def table_pipes(text: str) -> str:
    """GitHub needs `\\|` in code spans of tables. Python-Markdown would show the backslash."""
    return _TABLE_ROW.sub(
        lambda row: _CODE.sub(lambda code: code.group().replace("\\|", "|"), row.group()), text
    )


def anchor(title: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)
