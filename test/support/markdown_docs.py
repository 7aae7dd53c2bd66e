"""What tests of the documents share: fenced blocks, tables, headings and links of markdown files."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<attributes>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^ *<!-- run: (?P<words>.*) -->\n\Z", re.MULTILINE)
_TITLE = re.compile(r'title="(?P<title>[^"]*)"')
_HEADING = re.compile(r"^(?P<level>#+) (?P<title>.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: File name of the page.
        line: Line of the fence, from 1.
        language: What stands behind the fence, "" for nothing.
        text: The text, without the fence's indentation.
        title: `title="..."` behind the language: a file to write, or a terminal; "" for none.
        directive: Words of the comment `<!-- run: ... -->` above the fence.
    """

    page: str
    line: int
    language: str
    text: str
    title: str = ""
    directive: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def page_path(name: str) -> Path:
    """The page with a file name: README.md, or one anywhere in docs/, where no name is used twice."""
    (path,) = [page for page in PAGES if page.name == name]
    return path


def page_text(name: str) -> str:
    """The text of the page with a file name."""
    return page_path(name).read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page.name,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
            title=title["title"] if (title := _TITLE.search(match["attributes"])) else "",
            directive=_directive(text[: match.start()]),
        )
        for match in _FENCE.finditer(text)
    ]


def _directive(above: str) -> tuple[str, ...]:
    comment = _DIRECTIVE.search(above)
    return tuple(shlex.split(comment["words"])) if comment else ()


def section(text: str, title: str) -> str:
    """What stands below a heading, down to the next one of the same or a higher level."""
    headings = list(_HEADING.finditer(text))
    for number, heading in enumerate(headings):
        if heading["title"] == title:
            ends = (h.start() for h in headings[number + 1 :] if len(h["level"]) <= len(heading["level"]))
            return text[heading.end() : next(ends, len(text))]
    raise AssertionError(f"no heading {title!r}")


def rows(text: str, header: str) -> list[list[str]]:
    """The cells of the table whose first column is called `header`, without its head."""
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith(f"| {header} |")]
    assert len(starts) == 1, f"{len(starts)} tables begin with {header!r}"
    result = []
    for line in lines[starts[0] + 2 :]:
        if not line.startswith("|"):
            break
        result.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return result


def codes(cell: str) -> list[str]:
    """What stands in backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def without_fences(text: str) -> str:
    """A page's text without fenced blocks."""
    return _FENCE.sub("", text)


def without_blocks(text: str) -> str:
    """A page's text without fenced blocks and inline code, where brackets mean nothing."""
    return re.sub(r"`[^`\n]*`", "", without_fences(text))


def links(page: Path) -> list[str]:
    """The targets of all links and pictures of a page."""
    return [match["target"] for match in _LINK.finditer(without_blocks(page.read_text(encoding="utf-8")))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    titles = (match["title"] for match in _HEADING.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
