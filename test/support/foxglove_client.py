"""A client of the Foxglove WebSocket protocol, written from its specification: it knows nothing of the server."""

from __future__ import annotations

import itertools
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

MESSAGE, TIME, SERVICE, ASSET = 1, 2, 3, 4
"""First bytes of what a server sends in binary."""


class FoxgloveClient:
    """A connection whose messages are gathered in a thread of its own.

    Attributes:
        info: The server's greeting.
        channels: What is advertised, by topic.
        services: What is advertised, by name.
        messages: Messages by topic, each with its log time.
        times: Server times, nanoseconds.
        statuses: Status messages.
        updates: Parameters that arrived without a request, in order.
        gone: Topics and services that are not advertised any more.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1", origin: str | None = None) -> None:
        self.socket = connect(
            f"ws://{host}:{port}",
            origin=origin,
            subprotocols=["foxglove.sdk.v1"],
            max_size=None,
            # A server that is busy greets late.
            open_timeout=60.0,
            compression=None,  # type: ignore[list-item]
        )
        self.info: dict[str, Any] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[tuple[int, bytes]]] = {}
        self.times: list[int] = []
        self.statuses: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.gone: set[str] = set()
        self._topics: dict[int, str] = {}
        self._answers: dict[Any, Any] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="test-foxglove", daemon=True)
        self._thread.start()
        self.wait_for(lambda: bool(self.info), "the server's greeting")

    def close(self) -> None:
        # The server may have ended it in the middle of a message.
        with suppress(ConnectionClosed, TimeoutError):
            self.socket.close()
        self._thread.join(5.0)

    def wait_for(self, condition: Callable[[], bool], what: str, *, timeout: float = 20.0) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, timeout), f"waited {timeout:g} s for {what}"

    # --- What a client does ------------------------------------------------------------------------------------

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def subscribe(self, *topics: str) -> None:
        self.wait_for(lambda: all(topic in self.channels for topic in topics), f"{topics} to be advertised")
        rows = []
        for topic in topics:
            number = next(self._numbers)
            self._topics[number] = topic
            self.messages.setdefault(topic, [])
            rows.append({"id": number, "channelId": self.channels[topic]["id"]})
        self.send(op="subscribe", subscriptions=rows)

    def unsubscribe(self, topic: str) -> None:
        numbers = [number for number, each in self._topics.items() if each == topic]
        self.send(op="unsubscribe", subscriptionIds=numbers)

    def advertise(self, topic: str, schema: str, encoding: str = "cdr") -> int:
        number = next(self._numbers)
        row = {"id": number, "topic": topic, "encoding": encoding, "schemaName": schema}
        self.send(op="advertise", channels=[row])
        return number

    def unadvertise(self, channel: int) -> None:
        self.send(op="unadvertise", channelIds=[channel])

    def publish(self, channel: int, data: bytes) -> None:
        self.socket.send(struct.pack("<BI", 1, channel) + data)

    def call(self, service: str, request: bytes, encoding: str = "cdr", *, timeout: float = 20.0) -> bytes:
        """Return the response; RuntimeError for what the server says about a failure."""
        answer = self._answer(("service", self.request(service, request, encoding)), timeout)
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def request(self, service: str, request: bytes, encoding: str = "cdr") -> int:
        """Call a service without waiting for it. Return the number of the call."""
        self.wait_for(lambda: service in self.services, f"{service} to be advertised")
        number, kind = next(self._numbers), encoding.encode()
        head = struct.pack("<BIII", 2, self.services[service]["id"], number, len(kind))
        self.socket.send(head + kind + request)
        return number

    def parameters(self, *names: str) -> dict[str, Any]:
        """Return the parameters of these names, as the protocol has them; all of them for no names."""
        number = str(next(self._numbers))
        self.send(op="getParameters", parameterNames=list(names), id=number)
        return {each["name"]: each for each in self._answer(("parameters", number))}

    def set_parameters(self, *parameters: dict[str, Any]) -> dict[str, Any]:
        """Set parameters. Return the answer, by name."""
        number = str(next(self._numbers))
        self.send(op="setParameters", parameters=parameters, id=number)
        return {each["name"]: each for each in self._answer(("parameters", number))}

    def follow_parameters(self, *names: str) -> None:
        self.send(op="subscribeParameterUpdates", parameterNames=list(names))

    def asset(self, uri: str) -> bytes | None:
        """Return an asset, None for one that the server does not give."""
        number = next(self._numbers)
        self.send(op="fetchAsset", uri=uri, requestId=number)
        answer = self._answer(("asset", number))
        return answer if isinstance(answer, bytes) else None

    def answers(self) -> dict[Any, Any]:
        """Return the answers that nobody has taken, by ("service", call) and ("parameters", request)."""
        return dict(self._answers)

    def warnings(self, *texts: str) -> list[str]:
        return [each["message"] for each in self.statuses if all(text in each["message"] for text in texts)]

    # --- What arrives ------------------------------------------------------------------------------------------

    def _answer(self, key: Any, timeout: float = 20.0) -> Any:
        self.wait_for(lambda: key in self._answers, f"the answer {key}", timeout=timeout)
        return self._answers.pop(key)

    def _read(self) -> None:
        try:
            for frame in self.socket:
                with self._changed:
                    if isinstance(frame, bytes):
                        self._take_binary(frame)
                    else:
                        self._take(json.loads(frame))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["op"]
        if kind == "serverInfo":
            self.info = message
        elif kind == "advertise":
            self.channels |= {each["topic"]: each for each in message["channels"]}
        elif kind == "unadvertise":
            self._drop(self.channels, message["channelIds"])
        elif kind == "advertiseServices":
            self.services |= {each["name"]: each for each in message["services"]}
        elif kind == "unadvertiseServices":
            self._drop(self.services, message["serviceIds"])
        elif kind == "parameterValues" and "id" in message:
            self._answers["parameters", message["id"]] = message["parameters"]
        elif kind == "parameterValues":
            self.updates += message["parameters"]
        elif kind == "serviceCallFailure":
            self._answers["service", message["callId"]] = message["message"]
        elif kind == "status":
            self.statuses.append(message)

    def _drop(self, rows: dict[str, dict[str, Any]], numbers: Sequence[int]) -> None:
        for name in [name for name, each in rows.items() if each["id"] in numbers]:
            del rows[name]
            self.gone.add(name)

    def _take_binary(self, frame: bytes) -> None:
        if frame[0] == MESSAGE:
            number, time_ns = struct.unpack_from("<IQ", frame, 1)
            self.messages[self._topics[number]].append((time_ns, frame[13:]))
        elif frame[0] == TIME:
            self.times.append(struct.unpack_from("<Q", frame, 1)[0])
        elif frame[0] == SERVICE:
            _, number, size = struct.unpack_from("<III", frame, 1)
            self._answers["service", number] = frame[13 + size :]
        elif frame[0] == ASSET:
            number, status, size = struct.unpack_from("<IBI", frame, 1)
            rest = frame[10:]
            self._answers["asset", number] = rest[size:] if status == 0 else rest[:size].decode()


@contextmanager
def connected(port: int, *, origin: str | None = None) -> Iterator[FoxgloveClient]:
    """Return a client, as a page of an origin or as no page, that is closed at the end."""
    client = FoxgloveClient(port, origin=origin)
    try:
        yield client
    finally:
        client.close()


def wait_until(condition: Callable[[], bool], what: str, *, timeout: float = 20.0) -> None:
    """Wait for what no message tells of."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(0.01)
