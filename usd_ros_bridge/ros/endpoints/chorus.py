"""A chorus: publishers whose messages are written together and sent one behind the other, with no visit to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ros.cdr import Copies, Row, Together
from usd_ros_bridge.runtime.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """One publisher of a chorus.

    Attributes:
        number: Which robot of the row its message is of.
        wanted: Returns whether anyone is to get it; None where it is sent whoever listens.
        send: Publishes a serialized message.
        sent_ns: Stamp of what it published last, nanoseconds.
        frame: Its header's frame as it stands in the message; empty where there is none to be written.
    """

    number: int
    wanted: Callable[[], object] | None
    send: Callable[[bytearray], None]
    sent_ns: int
    frame: bytes = b""


class PublisherChorus:
    """Sends the messages of publishers in a row, each state once, as each of them would."""

    __slots__ = (
        "_all", "_announce", "_failed", "_frame", "_frames", "_numbers", "_pieces", "_row", "_sent", "_sent_ns",
        "_together", "_transforms", "_voices",
    )  # fmt: skip

    def __init__(
        self, voices: Sequence[Voice], together: Together, row: Row, *, sent: Callable[[Sequence[int], int], None],
        failed: Callable[[int, Exception], None], frame: slice | None = None,
        announce: Callable[[int], None] | None = None, transforms: bool = False,
    ) -> None:  # fmt: skip
        """Stores whom to send for.

        Args:
            voices: The publishers.
            together: Writes their messages.
            row: Of those.
            sent: Told which of them published, by their places among `voices`, and the stamp, nanoseconds.
            failed: Told of each that could not publish, by its place among `voices`.
            frame: Where the header's frame is in a message; None where all messages say the same.
            announce: Told of a stamp before it is sent; None for nobody.
            transforms: Whether the messages show frames, of which none is sent that is not finite.
        """
        self._voices = tuple(voices)
        self._together = together
        self._row = row
        self._sent = sent
        self._failed = failed
        self._transforms = transforms
        self._announce = announce
        self._frame = frame
        self._frames = None if frame is None else _frames([each.frame for each in voices])
        self._numbers = np.array([each.number for each in voices], dtype=np.intp)
        self._all = range(len(voices)) if all(each.wanted is None for each in voices) else None
        self._pieces: list[tuple[Callable[[bytearray], None], slice]] = []
        self._sent_ns = max(each.sent_ns for each in voices)

    def __call__(self, snapshot: Snapshot) -> Sequence[int] | None:
        """Sends what a snapshot shows; see `usd_ros_bridge.runtime.endpoints.Chorus`."""
        time_ns = snapshot.common_ns
        if time_ns is None or time_ns < 0:
            return None
        if time_ns == self._sent_ns:
            return ()
        wanted = self._all or [
            i for i, each in enumerate(self._voices) if each.wanted is None or each.wanted()
        ]
        if not wanted:
            return ()
        # Also where each publisher is asked alone: it sends the state that this stamp stands for.
        self._sent_ns = time_ns
        if self._transforms and not snapshot.frames_finite:
            return None
        copies = self._together.write(self._row, snapshot, time_ns)
        if copies is None:
            return None
        if self._frame is not None and self._frames is not None:
            copies.write_bytes(self._frame, self._numbers, self._frames)
        return self._send(copies, wanted, time_ns)

    def _send(self, copies: Copies, wanted: Sequence[int], time_ns: int) -> Sequence[int]:
        pieces, data = self._pieces, copies.data
        if not pieces:
            pieces += ((each.send, copies.place(each.number)) for each in self._voices)
        if self._announce is not None:
            self._announce(time_ns)
        failed: list[int] = []
        for index in wanted:
            send, piece = pieces[index]
            try:
                send(data[piece])
            except Exception as error:  # noqa: BLE001 - one publisher's fault stops no other
                failed.append(index)
                self._failed(index, error)
        if failed:
            wanted = [index for index in wanted if index not in failed]
        self._sent(wanted, time_ns)
        return wanted


def _frames(frames: Sequence[bytes]) -> NDArray[np.uint8]:
    """Returns frames of one length as (N, length) bytes."""
    return np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)
