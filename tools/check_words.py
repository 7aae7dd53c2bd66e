"""Check the words of pages, docstrings and messages. A hit of a rule of tools/words/phrases.txt is an error.

`tools/check_words.py [FILE...]`; without files, all Markdown files of the root, docs/ and .github/ except the
changelog, which is history, and all Python files of usd_ros_bridge/. Of a Python file, the docstrings of the module and
of its classes, functions and attributes are searched, and all other strings of several words. Blocks of code, `code`,
addresses of links and comments are not searched. Phrases may go over lines. If proselint is
installed (tools/check_project.sh installs it), its checks of CHECKS are made, too.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "tools" / "words" / "phrases.txt"
ALLOWED = "<!-- words: ok -->"
CHECKS = {
    *(
        "cliches",
        "hedging",
        "industrial_language",
        "malapropisms",
        "mixed_metaphors",
        "mondegreens",
    ),
    *("nonwords", "oxymorons", "redundancy", "skunked_terms", "social_awareness", "terms", "uncomparables"),
}
"""The checks of proselint that fit technical texts; those of quotes, spelling and repeated words do not."""
_FENCE = re.compile(r"^\s*(```|~~~)")
_BEGIN = re.compile(r"^\s*(?:[-*] |\d+\. |#+ |\|)")
"""What begins a passage of its own: an item of a list, a heading, a row of a table."""
_SECTION = re.compile(r"[A-Z][a-z]+:$")
_ENTRY = re.compile(r"^ {4}[*\w., ]+(?:\([^)]*\))?: ")
"""A section of a docstring ("Args:"), and an entry of it ("    name: text")."""
_HIDDEN = (
    re.compile(r"`[^`]*`"),
    re.compile(r"(?<=\])\([^)]*\)"),
    re.compile(r"<!--.*?-->"),
    re.compile(r"https?://\S+"),
    re.compile(r"\S+@\S+"),
)


@dataclass(frozen=True)
class Rule:
    """A phrase that is avoided.

    Attributes:
        pattern: What is searched.
        instead: What to write.
        reason: Why.
    """

    pattern: re.Pattern[str]
    instead: str
    reason: str


def load_rules(path: Path = RULES) -> list[Rule]:
    """Read the rules: three columns a line, `#` begins a comment.

    Raises:
        ValueError: A line has other columns, or its expression is invalid.
    """
    rules = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split(" | ")]
        if len(columns) != 3:
            raise ValueError(f"{path.name}:{number}: {len(columns)} columns, not 3")
        try:
            rules.append(Rule(re.compile(columns[0], re.IGNORECASE), *columns[1:]))
        except re.error as error:
            raise ValueError(f"{path.name}:{number}: {error}") from None
    return rules


def passages(text: str) -> Iterator[tuple[list[int], str]]:
    """Yield the passages of a page that are searched: paragraphs, items of lists, rows of tables, headings.

    A passage comes with the number of the line of each of its characters. Code in it is replaced by spaces.
    """
    fence, lines = "", list[tuple[int, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.match(line)
        if found and fence in ("", found[1]):
            fence = "" if fence else found[1]
        is_prose = not (fence or found) and line.strip() and not line.startswith("    ")
        if lines and (not is_prose or _BEGIN.match(line)):
            yield _joined(lines)
            lines = []
        if is_prose and ALLOWED not in line:
            lines.append((number, line))
    if lines:
        yield _joined(lines)


def docstrings(source: str) -> Iterator[tuple[list[int], str]]:
    """Yield the passages of the docstrings of a Python file, as `passages` does.

    Docstrings are all strings that are statements: those of attributes, too. Entries of sections are passages. A
    docstring or entry may begin with "What ...": there it defines a thing and is no subject.
    """
    source_lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if not isinstance(node.value.value, str):
            continue
        lines = source_lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1].rstrip().removesuffix('"""')
        lines[0] = lines[0].strip().removeprefix("r").removeprefix('"""').removesuffix('"""')
        lines[1:] = [line.removeprefix(" " * node.col_offset) for line in lines[1:]]
        in_section = False
        for index, line in enumerate(lines):
            if line and not line.startswith(" "):
                in_section = bool(_SECTION.match(line))
            elif in_section:
                lines[index] = ("- " if _ENTRY.match(line) else "") + _ENTRY.sub("", line).strip()
        for numbers, text in passages("\n".join(lines)):
            yield [node.lineno - 1 + number for number in numbers], text


def messages(source: str) -> Iterator[tuple[list[int], str]]:
    """Yield the strings of a Python file that may be printed: those of several words that are no docstrings.

    What an f-string inserts is replaced by `_`.
    """
    tree = ast.parse(source)
    other = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    other |= {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if node in other or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in parts)
        if " " in text.strip():
            numbers, shown = _joined([(node.lineno, " ".join(text.split()))])
            yield numbers, shown


def python_passages(source: str) -> Iterator[tuple[list[int], str]]:
    """Yield the passages of the docstrings and messages of a Python file, as `passages` does."""
    yield from docstrings(source)
    yield from messages(source)


def _joined(lines: list[tuple[int, str]]) -> tuple[list[int], str]:
    numbers, parts = list[int](), list[str]()
    for number, line in lines:
        part = _BEGIN.sub("", line).strip() + " "
        numbers += [number] * len(part)
        parts.append(part)
    text = "".join(parts)
    for hidden in _HIDDEN:
        text = hidden.sub(lambda match: "_" * len(match[0]), text)
    return numbers, text


def check(pages: Iterable[Path], rules: list[Rule]) -> list[str]:
    """Return one line for each hit."""
    lint = proselint()
    hits = []
    for page in pages:
        search = python_passages if page.suffix == ".py" else passages
        for numbers, text in search(page.read_text(encoding="utf-8")):
            found = [
                (
                    match.end() - len(match[0].lstrip(".! ")),
                    f"{match[0].strip(' .!')!r}: write {rule.instead} ({rule.reason})",
                )
                for rule in rules
                for match in rule.pattern.finditer(text)
                if not (search is python_passages and match.start() == 0 and match[0].startswith("What "))
            ]
            hits += [f"{_name(page)}:{numbers[at]}: {hit}" for at, hit in sorted(found + lint(text))]
    return hits


def _name(page: Path) -> Path:
    return page.relative_to(ROOT) if page.is_relative_to(ROOT) else page


def proselint() -> Callable[[str], list[tuple[int, str]]]:
    """Return a function that gives the hits of proselint in a text, none where it is not installed."""
    if importlib.util.find_spec("proselint") is None:
        return lambda _: []
    from proselint.checks import __register__
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    CheckRegistry().register_many([each for each in __register__ if each.path.partition(".")[0] in CHECKS])

    def lint(text: str) -> list[tuple[int, str]]:
        # It puts a line before the text.
        results = [each.check_result for each in LintFile("page", text).lint()]
        return [
            (min(max(each.span[0] - 1, 0), len(text) - 1), f"{each.message} ({each.check_path})")
            for each in results
        ]

    return lint


def default_pages() -> list[Path]:
    """Return the pages and Python files that are checked."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
    found += (ROOT / "usd_ros_bridge").rglob("*.py")
    return sorted(page for page in found if page.name != "CHANGELOG.md")


def main() -> int:
    pages = [Path(argument).resolve() for argument in sys.argv[1:]] or default_pages()
    hits = check(pages, load_rules())
    print(*hits, sep="\n", end="\n" if hits else "")
    print(f"words: {len(pages)} files, {len(hits)} hits", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
