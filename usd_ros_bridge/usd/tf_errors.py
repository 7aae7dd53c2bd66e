"""OpenUSD's errors and warnings: one line of an exception, and nothing on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pxr import UsdUtils

from usd_ros_bridge.errors import error_text

_MAX_LINE = 200


def first_line(error: Exception) -> str:
    """Return the message of a Tf.ErrorException, without the C++ function and file that it names."""
    text = " ".join(error_text(error, "it is no UTF-8 text").split())
    message = text.split(" : '", 1)[-1].split("' Error in", 1)[0].strip("' ")
    return message[:_MAX_LINE]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep OpenUSD's warnings off stderr while the context lasts: `read_stage` reports those that matter.

    The delegate is that of the whole process: use it in the bridge's own processes only (command line, node).
    """
    delegate = UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        delegate.TakeUncoalescedDiagnostics()
        del delegate
