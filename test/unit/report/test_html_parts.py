"""Pieces of HTML: whatever a text is, a browser shows it and does nothing else with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from usd_ros_bridge.errors import escaped
from usd_ros_bridge.report.html_parts import MAX_ROWS, Html, element, facts, joined, number, prim, table, text

pytestmark = pytest.mark.app

html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed: make setup-all")
ANY_TEXT = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["</td>", "<script>", "&lt;", "&#x0;", "<!--", "]]>", "\x1b[31m", "\ud800", "'\"`=", "<svg onload=1>"]
)


def parse(fragment: str):
    """The fragment as a browser has it; an error of its markup raises."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse(f"<!DOCTYPE html><title>t</title><body>{fragment}</body>").find("body")


@pytest.mark.random
@pytest.mark.timeout(900)
@settings(max_examples=examples(200), deadline=None)
@given(ANY_TEXT)
def test_text_is_shown_and_nothing_else(value: str) -> None:
    (shown,) = parse(element("p", value, title=value))
    assert (shown.text or "") == escaped(value, keep="\n")
    assert shown.get("title") == escaped(value, keep="\n")
    assert len(shown) == 0


@pytest.mark.random
@pytest.mark.timeout(900)
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=4))
def test_cells_of_a_table_are_escaped(rows: list[tuple[str, str]]) -> None:
    body = parse("".join(table(("one", "#other"), rows)))
    cells = ["".join(cell.itertext()) for cell in body.iter("td")]
    assert cells == [escaped(value, keep="\n") for row in rows for value in row]
    assert {each.tag for each in body.iter()} == {"body", "div", "table", "thead", "tbody", "tr", "th", "td"}


def test_html_stays_html_and_other_parts_do_not() -> None:
    assert joined([Html("<b>1</b>"), "<i>"], ", ") == "<b>1</b>, &lt;i&gt;"
    assert text(Html("<b>")) == "<b>"
    assert element("a", "x", class_="on", data_frame="<") == '<a class="on" data-frame="&lt;">x</a>'


def test_long_texts_and_tables_say_that_they_are_cut() -> None:
    assert len(text("x" * 10_000)) == 2003
    lines = list(table(("number",), [(row,) for row in range(MAX_ROWS + 1)]))
    assert lines[-1] == f'<p class="quiet">The first {MAX_ROWS} of {MAX_ROWS + 1} rows.</p>'
    assert sum("<tr><td>" in line for line in lines) == MAX_ROWS


def test_tables_and_facts_without_content_are_nothing() -> None:
    assert not list(table(("number",), []))
    assert not list(facts([("one", ""), ("other", None)]))
    assert "".join(facts([("zero", 0)])) == '<dl class="facts"><div><dt>zero</dt><dd>0</dd></div></dl>'


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (float("inf"), ""), (-1e-17, "0"), (0.1234567, "0.1235"), (1e6, "1e+06")]
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_prim_paths_are_whole_and_escaped() -> None:
    assert prim("/robot/<b>") == (
        '<code class="prim" title="/robot/&lt;b&gt;"><bdi>/robot/&lt;b&gt;</bdi></code>'
    )
    assert prim("") == ""
