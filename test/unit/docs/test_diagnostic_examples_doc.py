"""Each code of diagnostics.md has an example asset that leads to it; diagnostic_examples.md shows its findings."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd

import finding_examples
from finding_examples import PAGE, WITHOUT, files, read, sections

FILES = files()
DOCUMENTED = [code for codes in sections().values() for code in codes]
WRITTEN_WITH = (0, 26, 11)
"""The version of OpenUSD whose messages stand on the page."""


def test_every_code_has_an_example_or_a_reason() -> None:
    assert sorted([*FILES, *WITHOUT]) == sorted(DOCUMENTED)


@pytest.mark.parametrize("code", FILES)
def test_the_example_leads_to_its_code(code: str) -> None:
    found = read(code, FILES[code]).findings
    assert code in {finding.code for finding in found}, found
    # Other findings are consequences: those that come together are few.
    assert len({finding.code for finding in found}) <= 2, found


@pytest.mark.skipif(
    Usd.GetVersion() != WRITTEN_WITH, reason="messages of OpenUSD differ between its versions"
)
def test_the_page_is_what_the_tool_writes() -> None:
    assert PAGE.read_text() == finding_examples.page(), "run tools/write_finding_examples.py"
