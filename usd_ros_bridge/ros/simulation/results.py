"""Results of simulation_interfaces, and refusals of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simulation_interfaces.msg import Result

from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.reporting import describe

FAILED = int(Result.RESULT_OPERATION_FAILED)
NOT_FOUND = int(Result.RESULT_NOT_FOUND)
UNSUPPORTED = int(Result.RESULT_FEATURE_UNSUPPORTED)

Answer = Callable[[Any, Any], Awaitable[None]]
"""`answer(request, response)` fills in the response; what it raises becomes the result."""


class RefusedError(Exception):
    """Refusal of a request.

    Attributes:
        code: Value of Result.result.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def result_of(error: BaseException) -> tuple[int, str]:
    """Return the code and the text of a Result for what a request ended with."""
    if isinstance(error, RefusedError):
        return error.code, escaped(str(error))
    if isinstance(error, BridgeError):
        return FAILED, escaped(str(error))
    return FAILED, describe(error)


def not_done(timeout: float) -> str:
    """Return what a client receives for a request that took longer than a time, in seconds."""
    return f"it was not done within {timeout:g} s: does the simulation run?"


async def answered(
    answer: Answer, request: Any, response: Any, *, timeout: float | None
) -> BaseException | None:
    """Answer a request, with a result in any case.

    Args:
        answer: Fills in the response.
        request: The request.
        response: Is filled in. One of GetSimulatorFeatures, which has no `result`, stays as it is.
        timeout: Seconds until the answer is that there is none, None for no limit.

    Returns:
        What went wrong inside; None where nothing did, and for requests that cannot be met.
    """
    fault: BaseException | None = None
    code, message = int(Result.RESULT_OK), ""
    try:
        await asyncio.wait_for(answer(request, response), timeout)
    except asyncio.TimeoutError as error:
        code, message = FAILED, describe(error) if timeout is None else not_done(timeout)
    except (RefusedError, BridgeError) as refused:
        code, message = result_of(refused)
    except Exception as error:  # noqa: BLE001 - the client is told, and the log
        fault = error
        code, message = result_of(error)
    if hasattr(response, "result"):
        response.result.result = code
        # What there is to say of a request that was met, the answer has said.
        response.result.error_message = message or response.result.error_message
    return fault
