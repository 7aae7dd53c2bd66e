"""Parameter access: clients of the server get and set the parameters of the bridge's node."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from foxglove import Parameter
from rclpy.exceptions import ParameterException
from rclpy.parameter import Parameter as RosParameter

from usd_ros_bridge.errors import did_you_mean, escaped, quoted
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.foxglove.client_publishing import Notify

SET_S: Final = 2.0
"""How long a client's request waits until it is carried out, seconds."""

MAX_SET: Final = 1000
"""Parameters that one request sets."""

_ATTEMPTS = 10

_TYPE = RosParameter.Type
_ARRAYS = {
    _TYPE.BOOL_ARRAY: bool,
    _TYPE.INTEGER_ARRAY: int,
    _TYPE.DOUBLE_ARRAY: float,
    _TYPE.STRING_ARRAY: str,
}
_SCALARS = {_TYPE.BOOL: bool, _TYPE.INTEGER: int, _TYPE.DOUBLE: float, _TYPE.STRING: str}


class ParameterAccess:
    """Get and set a node's parameters, with the node's own validation.

    Requests are carried out in the thread of the node's callbacks, as those of other nodes.
    """

    def __init__(self, main: Domain, *, changed: Callable[[frozenset[str]], object], notify: Notify) -> None:
        """Store the arguments.

        Args:
            main: Domain of the node.
            changed: Called with the names of parameters that were set, by whomever; in the thread that sets them.
            notify: For parameters that are not set.
        """
        self._main = main
        self._node = main.node
        self._on_change = changed
        self._notify = notify
        self._lock = threading.Lock()
        self._pending: set[Future[None]] = set()
        self._is_open = False

    def open(self) -> None:
        """Follow changes."""
        self._node.add_post_set_parameters_callback(self._note)
        self._is_open = True

    def close(self) -> None:
        """Stop following changes, and end requests in progress. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._node.remove_post_set_parameters_callback(self._note)
        with self._lock:
            pending, self._pending = tuple(self._pending), set()
        for future in pending:
            future.cancel()

    def get(self, names: Sequence[str]) -> list[Parameter]:
        """Return the parameters of these names, those that exist; all of them for no names."""
        parameters = self._find(names) if names else self._all()
        return [to_foxglove(name, each.value) for name, each in parameters.items()]

    def set(self, parameters: Sequence[Parameter]) -> list[Parameter]:
        """Set parameters, each by itself. Return the values that hold afterwards."""
        names = [each.name for each in parameters]
        future: Future[None] = Future()
        with self._lock:
            if not self._is_open:
                return []
            self._pending.add(future)

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                for each in parameters[:MAX_SET]:
                    self._set(each)
            finally:
                future.set_result(None)

        self._main.defer(job)
        try:
            future.result(SET_S)
        except FutureTimeoutError:
            # Not carried out later: the client sees the old value, and would be surprised by the new one.
            if future.cancel():
                self._notify("parameters", "parameters were not set: the bridge is busy")
        except CancelledError:
            return []
        finally:
            with self._lock:
                self._pending.discard(future)
        return self.get(names) if names else []

    # --- Own ---------------------------------------------------------------------------------------------------

    def _all(self) -> dict[str, Any]:
        for _ in range(_ATTEMPTS):
            try:
                return dict(self._node.get_parameters_by_prefix(""))
            except RuntimeError:
                # Another thread declares parameters at this moment.
                continue
        return {}

    def _find(self, names: Iterable[str]) -> dict[str, Any]:
        node = self._node
        return {name: node.get_parameter_or(name) for name in names if node.has_parameter(name)}

    def _note(self, parameters: Sequence[Any]) -> None:
        self._on_change(frozenset(each.name for each in parameters))

    def _set(self, parameter: Parameter) -> None:
        """Set one parameter, in the thread of the node's callbacks."""
        name, node = parameter.name, self._node
        if not node.has_parameter(name):
            question = did_you_mean(name, node.get_parameters_by_prefix(""))
            reason = f"there is none{'; ' + question if question else ''}"
        elif parameter.value is None:
            reason = "it cannot be unset"
        else:
            try:
                value = from_foxglove(parameter.get_value(), node.get_parameter_or(name))
                (result,) = node.set_parameters([value])
                reason = "" if result.successful else result.reason or "the node refuses it"
            except (ParameterException, ValueError, TypeError, AssertionError) as error:
                reason = describe(error)
        if reason:
            self._notify(f"parameter:{name}", f"parameter {quoted(name)} was not set: {escaped(reason)}")


def to_foxglove(name: str, value: Any) -> Parameter:
    """Return a parameter of ROS 2 as one of foxglove-sdk. Doubles stay doubles; NaN and infinity become null."""
    if isinstance(value, (bytes, bytearray)):
        return Parameter(name, value=bytes(value))
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        return Parameter(name, value=b"".join(value))
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    return Parameter(name, value=value)


def from_foxglove(value: Any, declared: Any) -> Any:
    """Return a value of a client as a parameter of ROS 2.

    JSON has one kind of numbers: the type of the declared parameter decides. A value that does not fit keeps its own
    type, and the node refuses it.

    Args:
        value: bool, int, float, str, bytes or a list.
        declared: The rclpy Parameter as it is.
    """
    make: Any = RosParameter
    name, kind = declared.name, declared.type_
    if kind in _SCALARS:
        value = _number(value, _SCALARS[kind])
    elif kind in _ARRAYS and isinstance(value, list):
        value = [_number(each, _ARRAYS[kind]) for each in value]
        if not value:
            return make(name, kind, [])
    elif kind == _TYPE.BYTE_ARRAY and isinstance(value, bytes):
        return make(name, kind, [bytes([each]) for each in value])
    return make(name, value=value)


def _number(value: Any, kind: type) -> Any:
    if isinstance(value, bool):
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is int and isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value
