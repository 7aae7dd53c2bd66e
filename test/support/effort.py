"""How many random examples tests try: a few in `make test`, many in `make test-long`."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("TEST_EFFORT", "1"))


def examples(count: int) -> int:
    """Return how many examples to try where `make test` tries `count`.

    A test with them is `slow`, and its time-out grows with their number.
    """
    return count * EFFORT
