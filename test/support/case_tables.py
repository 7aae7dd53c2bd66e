"""Tables of small cases in one test: all rows are tried, and each one that fails is shown."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_LONGEST_ROW = 200


def case_table(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test once with all rows. `pytest.mark.parametrize`, which has these arguments, runs it once for each.

    For rows that need no isolation: they share the fixtures of the test. Several tables of one test are combined.
    A row cannot be skipped.

    Args:
        names: Parameters that a row gives, as a sequence or separated by commas.
        rows: A tuple of values for each row. With one name: the value.
    """
    columns = re.split(r"\s*,\s*", names) if isinstance(names, str) else list(names)
    table = [dict(zip(columns, (row,) if len(columns) == 1 else row, strict=True)) for row in rows]
    assert table, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        test, others = getattr(test, "case_table", (test, [{}]))
        cases = [{**row, **other} for row in table for other in others]

        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            for case in cases:
                try:
                    test(*arguments, **fixtures, **case)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
                    failures.append((repr(case)[:_LONGEST_ROW], error))
            if failures:
                lines = (f"{case}: {type(error).__name__}: {error}" for case, error in failures)
                text = "\n".join((f"{len(failures)} of {len(cases)} rows fail:", *lines))
                # The cause has its traceback in the report.
                raise AssertionError(text) from failures[0][1]

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in cases[0]]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        run.case_table = (test, cases)  # type: ignore[attr-defined]
        return run

    return decorate
