"""Tables of small cases as one test: pytest's price of a test is several times that of such a case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_LONGEST = 200
"""Characters of a case that a failure shows."""


def each_case(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: one test that goes over all cases and fails with what is wrong with each of them.

    It takes what `pytest.mark.parametrize` takes, and may be stacked. Each case has a folder of its own as `tmp_path`;
    other fixtures of the test are shared, so this is for cases that leave nothing behind. No case may be skipped.

    Args:
        names: Names of the arguments, separated by commas or in a sequence.
        cases: A value for each name; where there is one name only, its value.
    """
    wanted = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(wanted, case if len(wanted) > 1 else (case,), strict=True)) for case in cases]
    assert table, "a table without cases checks nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        test, others = getattr(test, "each_case", (test, [{}]))
        rows = [{**case, **other} for case in table for other in others]
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*instance: Any, **fixtures: Any) -> None:
            faults: list[str] = []
            first: BaseException | None = None
            for number, row in enumerate(rows):
                try:
                    test(*instance, **_with_folder(fixtures, f"case_{number}"), **row)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - all are shown
                    first = first or error
                    shown = ", ".join(f"{name}={value!r}"[:_LONGEST] for name, value in row.items())
                    faults.append(f"{shown}\n    {type(error).__name__}: {error}")
            if faults:
                text = "\n".join(faults)
                # The first one has its traceback in the report.
                raise AssertionError(f"{len(faults)} of {len(rows)} cases are wrong:\n{text}") from first

        left = [each for name, each in signature.parameters.items() if name not in rows[0]]
        assert len(left) == len(signature.parameters) - len(rows[0]), f"{test.__name__} takes no {wanted}"
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        run.each_case = (test, rows)  # type: ignore[attr-defined]
        return run

    return decorate


def _with_folder(fixtures: dict[str, Any], name: str) -> dict[str, Any]:
    if "tmp_path" not in fixtures:
        return fixtures
    folder = fixtures["tmp_path"] / name
    folder.mkdir()
    return {**fixtures, "tmp_path": folder}
