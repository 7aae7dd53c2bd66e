"""How many random examples tests try: a few when a test runs alone, many in `make test-pages`."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("TEST_EFFORT", "1"))


def examples(count: int) -> int:
    """Return how many examples to try where a test alone tries `count`.

    A test with many of them has the mark `random`, and its time-out grows with their number.
    """
    return count * EFFORT
