"""Each code of diagnostics.md has an example asset that leads to it; the site shows them in diagnostic_examples.md."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from finding_examples import WITHOUT, examples, files, read, sections
from markdown_docs import rows

FILES = files()
DOCUMENTED = [code for codes in sections().values() for code in codes]


def test_every_code_has_an_example_or_a_reason() -> None:
    assert sorted([*FILES, *WITHOUT]) == sorted(DOCUMENTED)


def test_each_example_leads_to_its_code() -> None:
    found = {code: {each.code for each in read(code, file).findings} for code, file in FILES.items()}
    # Other findings are consequences: those that come together are few.
    assert {code: codes for code, codes in found.items() if code not in codes or len(codes) > 2} == {}


@pytest.mark.docs
def test_the_page_has_each_example_or_the_reason() -> None:
    lines = examples()
    assert [code for code in DOCUMENTED if code in FILES] == [
        line.removeprefix("### ") for line in lines if line.startswith("### ")
    ]
    assert {code.strip("`") for code, _ in rows("\n".join(lines), "code")} == set(WITHOUT)
