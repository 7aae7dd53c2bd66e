"""State relay: from a robot's joint states to its /tf while the loop waits, without a tick.

A tick takes some 130 calls, each of them cold after two milliseconds of sleep. The relay takes a message from the
middleware, writes the few numbers that it changes into the robot's last /tf, and sends that, without look-ups. It does
so only where a tick would do nothing else, and leaves every other message to the next tick. Before anything reads
the runtime, `settle` applies the last message as a tick would.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import eventfd_read
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.exceptions import InvalidHandle

from usd_ros_bridge.backends.joint_states import JointAssignment, JointStatesBackend
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.endpoints.backend_inputs import BackendInputs
from usd_ros_bridge.ros.endpoints.subscription import DirectSubscription, TopicSubscription
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.tf.broadcaster import TransformPublisher
from usd_ros_bridge.ros.wire.cdr_layout import HEADER_BYTES
from usd_ros_bridge.ros.wire.cdr_reader import PLAIN_CDR, TEXT_BEGIN, JointStateShape
from usd_ros_bridge.ros.wire.cdr_template import Column, StampColumn, Template, aligned, flat_view, pack_stamp
from usd_ros_bridge.runtime.frame_poses import sum_of_squares
from usd_ros_bridge.runtime.inbox import DescriptorWakeup
from usd_ros_bridge.runtime.kinematics import EdgeTurn, Kinematics, selection
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.schedule import NEVER_NS
from usd_ros_bridge.runtime.subscriptions import InputBinding
from usd_ros_bridge.spatial.transforms import FEW_ANGLES, half_sine_and_cosine

_STAMPS = "transforms[].header.stamp"
_ROTATIONS = "transforms[].transform.rotation"
_POSES = "transforms[].transform"
_W = 3

_STEADY = 16
"""Ticks in a row with messages of one shape before that shape is relayed: `rewrite` takes milliseconds to make."""

Rewrite = Callable[[bytes, int], int]
"""`rewrite(data, last_ns)`: write joint states into the message on /tf, and return their stamp in nanoseconds.

0 if a tick has to look at them: they are of another shape, not newer than `last_ns`, or not finite.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    """Everything between one input and one publisher, for as long as both stay as they are.

    Attributes:
        generation: Of the publications.
        assignment: Of the names in the messages.
        shape: Of the messages.
        subscription: Where messages come from.
        direct: Its way to the loop's thread.
        binding: Where samples go.
        publisher: Publication of /tf.
        handle: Sends it.
        period_ns: Least time between two messages of /tf, nanoseconds.
        message: The message on /tf, which `rewrite` writes.
        rewrite: Write joint states into it.
    """

    generation: int
    assignment: JointAssignment
    shape: JointStateShape
    subscription: TopicSubscription
    direct: DirectSubscription
    binding: InputBinding
    publisher: TransformPublisher
    handle: PublisherHandle
    period_ns: int
    message: bytearray
    rewrite: Rewrite


class StateRelay:
    """Publish /tf of the only robot whose joints a topic moves, while the loop waits.

    It is for the thread of the loop, except `settle`. It follows wall time.

    Attributes:
        is_ahead: Whether it took messages that the runtime does not know.
    """

    def __init__(self, runtime: Runtime, inputs: BackendInputs) -> None:
        """Store the arguments.

        Args:
            runtime: Open.
            inputs: The backend's inputs.
        """
        self.is_ahead = False
        self._runtime = runtime
        self._inputs = inputs
        self._link: _Link | None = None
        self._failed: object = None
        self._was_refused = False
        # What the messages of the last ticks have in common, and of how many ticks.
        self._common: object = None
        self._steady = 0
        # Of the messages since the last `settle`; times in nanoseconds.
        self._data = b""
        self._arrivals = self._published = 0
        # Of the last message; whether it is still to be sent, and when it may be.
        self._stamp_ns = self._sent_ns = self._sent_at_ns = 0
        self._is_held = False
        self._until_ns = 0

    def wait(self, deadline_ns: int | None) -> bool:
        """Wait until a tick is needed, and publish what arrives meanwhile; as `Relay.wait`."""
        # A host's callbacks are called in ticks.
        link = None if self._runtime.step_callbacks.present else self._find_link()
        if link is None:
            return False
        wakeup = self._runtime.inbox.wakeup
        assert isinstance(wakeup, DescriptorWakeup)
        handle = link.direct.handle
        if handle is None:
            # It is being made anew; the next tick finds out.
            wakeup.woke = True
            return True
        try:
            # Entered once: nothing destroys the subscription within a message.
            with handle:
                self._relay(link, handle, wakeup, NEVER_NS if deadline_ns is None else deadline_ns)
        except (InvalidHandle, BlockingIOError):
            # It has just been made anew, or the wake-up was used up elsewhere.
            wakeup.woke = True
        except Exception as error:  # noqa: BLE001 - ticks go on without it
            self._failed = link.generation, link.assignment
            wakeup.woke = True
            self._runtime.reporter.report(
                "relay", f"/tf is published by ticks from here on: {describe(error)}"
            )
        return True

    def settle(self) -> None:
        """Let the runtime know what was taken and sent, and apply the last message; as `Relay.settle`."""
        link, arrivals, published = self._link, self._arrivals, self._published
        self.is_ahead, self._arrivals, self._published = False, 0, 0
        if link is None:
            return
        if arrivals:
            sample = link.subscription.decode(self._data, arrivals)
            self._runtime.inbox.count(link.binding, arrivals)
            if sample is not None:
                try:
                    link.binding.apply(sample)
                except Exception as error:  # noqa: BLE001 - as in a tick: one handler's fault stops nothing else
                    link.binding.failed(error)
        link.publisher.sent_ns = self._sent_ns
        self._runtime.publications.mark_relayed(
            link.publisher,
            stamp_ns=self._sent_ns,
            time_ns=self._sent_at_ns,
            published=published,
            arrivals=arrivals,
            waiting=self._is_held,
        )

    # --- While the loop waits ----------------------------------------------------------------------------------

    def _relay(self, link: _Link, handle: Any, wakeup: DescriptorWakeup, deadline_ns: int) -> None:
        # Everything that a message needs is a local variable: each look-up is a part of the memory that is cold.
        inbox, lock, readable, fd = self._runtime.inbox, self._runtime.lock, wakeup.readable, wakeup.fd
        take, message_class = handle.take_message, link.direct.message_class
        rewrite, message, period_ns = link.rewrite, link.message, link.period_ns
        send, stamps = link.handle.send, link.publisher.sent_stamps
        wait, time_ns = select.select, time.time_ns
        assert fd is not None
        assert stamps is not None
        now = time_ns()
        while True:
            due_ns = min(deadline_ns, self._until_ns) if self._is_held else deadline_ns
            if now < due_ns:
                if not wait(readable, (), (), (due_ns - now) * 1e-9)[0]:
                    before, now = now, time_ns()
                    if now < before:
                        return  # The clock was set back: that is for a tick.
                    continue
                # The number of wake-ups: with one of something else, or several messages, a tick looks at all of them.
                wakeup.woke = True
                if eventfd_read(fd) != 1 or inbox.has_queued:
                    return
            elif due_ns == deadline_ns:
                return
            with lock:
                if now < due_ns:
                    taken = take(message_class, True)
                    if taken is None:
                        return
                    data = taken[0]
                    try:
                        stamp_ns = rewrite(data, self._stamp_ns)
                    except Exception:
                        link.subscription.give_back(data)
                        raise
                    if not stamp_ns:
                        self._was_refused = True
                        link.subscription.give_back(data)
                        return
                    wakeup.woke = False
                    before, now = now, time_ns()
                    self._data, self._stamp_ns = data, stamp_ns
                    self._arrivals += 1
                    self.is_ahead = True
                    if now < before:
                        # The clock was set back: that is for a tick.
                        self._is_held = wakeup.woke = True
                        return
                    if now < self._until_ns:
                        self._is_held = True
                        continue
                stamps.append(self._stamp_ns)
                send(message)
                self._is_held = False
                self._sent_ns, self._sent_at_ns = self._stamp_ns, now
                self._until_ns = now + period_ns
                self._published += 1
                self.is_ahead = True

    # --- Between two waits -------------------------------------------------------------------------------------

    def _find_link(self) -> _Link | None:
        """Return the link if a message can be relayed now; in step with the tick before."""
        runtime, link = self._runtime, self._link
        backend, lone, snapshot = runtime.backend, runtime.publications.lone_arrival(), runtime.snapshot
        self._link = None
        if lone is None or type(backend) is not JointStatesBackend or len(runtime.inputs) != 1:
            return None
        publisher, period_ns, until_ns = lone
        found = backend.assignment(runtime.inputs[0].key)
        if found is None or not isinstance(publisher, TransformPublisher) or not _is_heard(publisher):
            return None
        generation = runtime.publications.generation
        assignment, self._stamp_ns = found
        if (generation, assignment) == self._failed or runtime.controllers.runs or snapshot.is_tracked:
            return None
        if link is None or not self._fits(link, generation, assignment):
            link = self._make_link(publisher, period_ns, assignment)
        self._link, self._was_refused = link, False
        self._sent_ns, self._is_held, self._until_ns = publisher.sent_ns, False, until_ns
        return link

    def _fits(self, link: _Link, generation: int, assignment: JointAssignment) -> bool:
        """Return whether a link is still right."""
        if (
            link.generation != generation
            or link.assignment is not assignment
            or link.subscription.direct is not link.direct
        ):
            return False
        # What a tick had to look at may have been old, or not finite: then the shape is the same.
        return not self._was_refused or JointStateShape.of(link.subscription.latest) == link.shape

    def _is_steady(self, generation: int, assignment: JointAssignment, latest: bytes) -> bool:
        """Return whether the last ticks had messages of one shape, as far as can be seen at a glance."""
        common = (generation, assignment, len(latest))
        self._steady = self._steady + 1 if common == self._common else 1
        self._common = common
        return self._steady >= _STEADY

    def _make_link(
        self, publisher: TransformPublisher, period_ns: int, assignment: JointAssignment
    ) -> _Link | None:
        runtime = self._runtime
        generation = runtime.publications.generation
        (subscription, binding), *others = self._inputs
        if not self._is_steady(generation, assignment, subscription.latest):
            return None
        encoded = None if publisher.encoder is None else publisher.encoder.latest
        direct, handle = subscription.direct, publisher.handle
        shape = JointStateShape.of(subscription.latest)
        if (
            others
            or direct is None
            or direct.handle is None
            or handle is None
            or encoded is None
            or shape is None
            or not _relays_alone(runtime, publisher)
        ):
            return None
        message = aligned(encoded.template.size)
        message[:] = encoded.data
        rewrite = make_rewrite(
            shape,
            assignment,
            kinematics=runtime.kinematics,
            edges=runtime.frames.edge_rows(publisher.robot),
            position=runtime.snapshot.state.joint_position.copy(),
            template=encoded.template,
            message=message,
        )
        return _Link(
            generation=generation,
            assignment=assignment,
            shape=shape,
            subscription=subscription,
            direct=direct,
            binding=binding,
            publisher=publisher,
            handle=handle,
            period_ns=period_ns,
            message=message,
            rewrite=rewrite,
        )


def _is_heard(publisher: TransformPublisher) -> bool:
    handle = publisher.handle
    return publisher.enabled and handle is not None and (publisher.always or handle.subscriptions() > 0)


def _relays_alone(runtime: Runtime, publisher: TransformPublisher) -> bool:
    """Return whether a tick on arrival would only publish the frames of the robot, all of them."""
    encoder = publisher.encoder
    if encoder is None or encoder.latest is None:
        return False
    moving = runtime.frames.robots[publisher.robot].moving
    return runtime.frames.only_edges_move and encoder.latest.template.lengths()["transforms"] == len(moving)


def make_rewrite(
    shape: JointStateShape,
    assignment: JointAssignment,
    *,
    kinematics: Kinematics,
    edges: dict[int, int],
    position: NDArray[np.float64],
    template: Template,
    message: bytearray,
) -> Rewrite:
    """Return what writes joint states of a shape into a message of a robot's moving frames.

    Numbers of few joints are computed and written by straight-line code that is generated here, those of many joints,
    and of joints that do not only turn, by numpy as in a tick. Both give the bytes that a tick gives.

    Args:
        shape: Shape of the messages.
        assignment: Of the names in them.
        kinematics: Of the plan.
        edges: Row of the edge of each frame that follows from joints, by the frame's place in the message.
        position: (D,) joint positions that the message shows, rad or m; it is overwritten.
        template: Of messages like the one to write.
        message: The message to write.
    """
    turns = kinematics.turns()
    is_short = max(len(position), shape.count) <= FEW_ANGLES
    is_finite = bool(np.isfinite(assignment.multipliers).all() and np.isfinite(assignment.offsets).all())
    if is_short and is_finite and all(edge in turns for edge in edges.values()):
        moved = {place: turns[edge] for place, edge in edges.items()}
        return _generate(shape, assignment, moved, template=template, message=message)
    write_frames = _make_write_frames(edges, kinematics, position, template=template, message=message)
    return _make_array_rewrite(shape, assignment, position, write_frames, template=template, message=message)


def _make_array_rewrite(
    shape: JointStateShape,
    assignment: JointAssignment,
    position: NDArray[np.float64],
    write_frames: Callable[[], None],
    *,
    template: Template,
    message: bytearray,
) -> Rewrite:
    stamps = StampColumn(message, template.blocks(f"{_STAMPS}.sec").offsets)
    unpack, read, where = Struct(shape.layout(values=False)).unpack_from, np.frombuffer, assignment.where
    expected = (shape.count, *shape.counts)

    def rewrite(data: bytes, last_ns: int) -> int:
        if len(data) < shape.size or not data.startswith(shape.text, TEXT_BEGIN):
            return 0
        head, seconds, nanoseconds, *counts = unpack(data)
        stamp_ns: int = seconds * SECOND_NS + nanoseconds
        if head != PLAIN_CDR or tuple(counts) != expected or stamp_ns <= last_ns:
            return 0
        values = read(data, "<f8", shape.count, shape.first)
        if assignment.block is None:
            values = assignment.multipliers * values[assignment.sources] + assignment.offsets
        if not math.isfinite(sum_of_squares(values)):
            return 0
        position[where] = values
        stamps.write(pack_stamp(stamp_ns))
        write_frames()
        return stamp_ns

    return rewrite


def _make_write_frames(
    edges: dict[int, int],
    kinematics: Kinematics,
    position: NDArray[np.float64],
    *,
    template: Template,
    message: bytearray,
) -> Callable[[], None]:
    """Return what writes the poses at `position` into a message."""
    turns = kinematics.turns()
    if all(edge in turns and turns[edge].aligned for edge in edges.values()):
        return _make_write_turns(
            [(place, turns[edge]) for place, edge in edges.items()], position, template, message
        )
    rows = selection(list(edges.values()))
    rotate_only = not kinematics.translates[rows].any()
    blocks = template.blocks(_ROTATIONS if rotate_only else _POSES)
    column = Column(message, blocks.dtype, blocks.offsets[list(edges)], blocks.width)
    part = slice(3 if rotate_only else 0, None)

    def write_frames() -> None:
        column.write_components(kinematics.edge_poses(position).T[part, rows])

    return write_frames


def _make_write_turns(
    turns: list[tuple[int, EdgeTurn]], position: NDArray[np.float64], template: Template, message: bytearray
) -> Callable[[], None]:
    """Return what writes aligned turns, by place in the message: one sine and one cosine each, at once."""
    count = len(turns)
    begins = template.blocks(_ROTATIONS).offsets[[place for place, _ in turns]]
    swung = np.array([turn.swung for _, turn in turns])
    axis = np.argmax(swung != 0.0, axis=-1)
    factor = swung[np.arange(count), axis]
    has_factor = bool((factor != 1.0).any())
    flat = flat_view(message, np.dtype("<f8"))
    places = (np.concatenate((begins + 8 * axis, begins + 8 * _W)) - HEADER_BYTES) // 8
    values = np.empty(2 * count)
    sine, cosine = values[:count], values[count:]
    rows = selection([turn.dof for _, turn in turns])
    angle = position[rows]  # A view of consecutive rows.
    is_view = isinstance(rows, slice)

    def write_turns() -> None:
        half_sine_and_cosine(angle if is_view else position[rows], sine, cosine)
        if has_factor:
            np.multiply(sine, factor, sine)
        flat[places] = values

    return write_turns


_HEAD = """\
def rewrite(data, last_ns):
    if len(data) < {size} or not data.startswith(text, {begin}):
        return 0
    head, seconds, nanoseconds, count, {values}, velocities, efforts = unpack(data)
    if head != {plain} or count != {count} or velocities != {velocities} or efforts != {efforts}:
        return 0
    stamp_ns = seconds * {second} + nanoseconds
    if stamp_ns <= last_ns:
        return 0
    total = {total}
    if total - total != 0.0:
        return 0
"""


def _generate(
    shape: JointStateShape,
    assignment: JointAssignment,
    moved: dict[int, EdgeTurn],
    *,
    template: Template,
    message: bytearray,
) -> Rewrite:
    """Generate `rewrite` for frames that only turn: by place in the message, the constants of their edges.

    The source has no text of the asset: only numbers and names that are made here.
    """
    names = [f"p{number}" for number in range(shape.count)]
    lines = [
        _HEAD.format(
            size=shape.size,
            begin=TEXT_BEGIN,
            values=", ".join(names),
            plain=PLAIN_CDR,
            count=shape.count,
            velocities=shape.counts[0],
            efforts=shape.counts[1],
            second=SECOND_NS,
            total=" + ".join(names[source] for source in sorted(set(assignment.sources.tolist()))) or "0.0",
        )
    ]
    rows = assignment.rows.tolist()
    sources, multipliers, offsets = (
        each.tolist() for each in (assignment.sources, assignment.multipliers, assignment.offsets)
    )
    for row, source, multiplier, offset in zip(rows, sources, multipliers, offsets, strict=True):
        value = names[source]
        if assignment.block is None:
            value = f"({multiplier!r} * {value} + {offset!r})"
        lines.append(f"    half = {value} * 0.5; s{row} = sin(half); c{row} = cos(half)\n")
    known = set(rows)
    pieces = [
        piece
        for place, turn in moved.items()
        if turn.dof in known
        for piece in _pieces(place, turn, template)
    ]
    pack, arguments, constants = _packer(message, pieces, template)
    lines.append(f"    pack({', '.join(arguments)})\n    return stamp_ns\n")
    scope: dict[str, Any] = {
        "text": shape.text,
        "unpack": Struct(shape.layout(values=True)).unpack_from,
        "pack": pack,
        "message": message,
        "sin": math.sin,
        "cos": math.cos,
        **constants,
    }
    exec("".join(lines), scope)  # noqa: S102 - nothing in it comes from outside
    generated: Rewrite = scope["rewrite"]
    return generated


_Piece = tuple[int, str, str]
"""Numbers that change: the byte at which they begin, their format for `struct`, and the expression for each."""


def _pieces(place: int, turn: EdgeTurn, template: Template) -> list[_Piece]:
    """Return what changes in a rotation."""
    begin = int(template.blocks(_ROTATIONS).offsets[place])
    sine, cosine = f"s{turn.dof}", f"c{turn.dof}"
    pieces = []
    for component, (rest, swung) in enumerate(zip(turn.rest, turn.swung, strict=True)):
        if not turn.aligned:
            number = f"{rest!r} * {cosine} + {swung!r} * {sine}"
        elif component == _W:
            number = cosine
        elif swung:
            number = sine if swung == 1.0 else f"{swung!r} * {sine}"
        else:
            continue
        pieces.append((begin + 8 * component, "d", number))
    return pieces


def _packer(
    message: bytearray, pieces: list[_Piece], template: Template
) -> tuple[Callable[..., None], list[str], dict[str, bytes]]:
    """Return what writes a message in one call, its arguments, and those of them that are constant bytes, by name."""
    stamps = template.blocks(f"{_STAMPS}.sec").offsets.tolist()
    pieces = sorted([*pieces, *((offset, "iI", "seconds, nanoseconds") for offset in stamps)])
    layout, arguments, constants = "<", [], {}
    first = at = pieces[0][0]
    for begin, numbers, expression in pieces:
        if begin > at:
            name = f"k{at}"
            constants[name] = bytes(message[at:begin])
            layout += f"{begin - at}s"
            arguments.append(name)
        layout += numbers
        arguments.append(expression)
        at = begin + 8
    return Struct(layout).pack_into, ["message", str(first), *arguments], constants
