"""YAML that the bridge writes, read back by PyYAML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.export.yaml_text import yaml_text

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NUMBERS = st.one_of(st.integers(-(10**12), 10**12), st.floats(-1e12, 1e12, allow_nan=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(st.one_of(st.none(), NUMBERS, TEXTS, st.dictionaries(TEXTS, inner, max_size=3)), max_size=3),
        st.dictionaries(TEXTS, inner, max_size=3),
    ),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4), TEXTS)
def test_what_is_written_is_read(value: dict[str, Any], title: str) -> None:
    read = yaml.safe_load(yaml_text(value, title=title))
    assert (read or {}) == close(value)


def close(value: Any) -> Any:
    """The value, with floats that are compared as the file holds them."""
    if isinstance(value, dict):
        return {key: close(each) for key, each in value.items()}
    if isinstance(value, list):
        return [close(each) for each in value]
    return pytest.approx(value, rel=1e-9, abs=1e-15) if isinstance(value, float) else value


def test_texts_stay_texts() -> None:
    texts = ("yes", "On", "null", "~", "1e3", "0x1", "- a", "a: b", "<Fixed Frame>", "Y", "", "é")
    values = [{"key": text, text: 1} for text in texts]
    assert [yaml.safe_load(yaml_text(value)) for value in values] == values


def test_numbers_that_python_spells_otherwise() -> None:
    spelled = {float("inf"): ".inf", float("-inf"): "-.inf", 1e-7: "0.0000001"}
    assert {value: yaml_text({"key": value}) for value in spelled} == {
        value: f"key: {text}\n" for value, text in spelled.items()
    }
