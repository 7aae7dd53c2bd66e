"""Conformance test of message codecs, for authors of plug-ins: subclass `CodecConformance` in a test module.

The oracle is rclpy: bytes that are written in place must be those that rclpy makes of the message object, and rclpy
must read the numbers that were written. It needs pytest and hypothesis.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn_arrays
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import Commands, SensorSample, State
from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.ros.codecs.encoding import Encoding, MessageCodec, Values
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.endpoints.factory import encoding_for
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface
from usd_ros_bridge.ros.wire.cdr_template import Template, pack_stamp
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.testing import random_messages

_MAX_LENGTH = 300
"""Elements of a drawn sequence: more than a short message has, few enough for many examples."""
_MAX_TIME_NS = 2**31 * 1_000_000_000 - 1


class CodecConformance:
    """Check a codec against rclpy. Subclass it in a test module with `type_name` and `asset`; pytest runs its tests.

    Attributes:
        type_name: Message type, such as my_msgs/msg/Heat.
        asset: USD file with publishers of the type, if the codec encodes. Several robots with one each are published as
            a batch.
        examples: How many random examples each test tries.
    """

    type_name: str
    asset: str | Path = ""
    examples = 50

    def make_plan(self) -> BridgePlan:
        """Return the plan whose publishers of the type are tested."""
        return load_plan(self.asset) if self.asset else BridgePlan(asset="")

    def measure(self, topic: TopicPlan, rng: np.random.Generator) -> Mapping[str, NDArray[Any]]:  # noqa: ARG002 - for subclasses
        """Return random arrays of the sensor that feeds a publisher; none if the state does.

        Override it for a codec of a sensor: an encoding that `sensed` makes.
        """
        return {}

    def draw_values(self, data: st.DataObject, encoding: Encoding) -> Values:
        """Draw values of an encoding: any numbers for every block, and sequences of any length.

        Override it if the encoding allows fewer, such as two sequences of one length.
        """
        return draw_values(data, self.message_class, encoding)

    def values_of(self, sample: object) -> Values | None:  # noqa: ARG002 - for subclasses
        """Return the values of the encoding that a decoded sample has; None if it lacks some of them.

        Override it for a codec that encodes and decodes: what was encoded is then compared with what is decoded.
        """
        return None

    @property
    def codec(self) -> MessageCodec:
        """The codec, as the bridge finds it."""
        codec: MessageCodec | None = CODECS.get(self.type_name)
        assert codec is not None, CODECS.fault(self.type_name) or f"no distribution has {self.type_name}"
        return codec

    @property
    def message_class(self) -> Any:
        """The message class."""
        return import_interface(self.type_name, AmentCatalog())

    def test_the_bridge_finds_it(self) -> None:
        """The codec can be loaded, its type is installed, and the asset publishes it."""
        codec = self.codec
        assert codec.encode or codec.encode_measured or codec.encode_attribute or codec.decode
        assert AmentCatalog().contains(self.type_name)
        if codec.encode or codec.encode_measured:
            with self._publishers() as (publishers, _):
                assert publishers

    def test_any_number_can_be_written_in_place(self) -> None:
        """The type has a CDR template, whatever its texts and lengths are."""

        def check(rng: random.Random) -> None:
            check_template(random_messages.fill(self.message_class(), rng), rng)

        self._run(st.randoms(use_true_random=False), check)

    def test_numbers_in_place_are_those_of_rclpy(self) -> None:
        """Any values: the message written in place equals rclpy's serialization, and reads back as written."""
        with self._publishers() as (publishers, _):
            if not publishers:
                pytest.skip("the codec encodes nothing")

            def check(data: st.DataObject) -> None:
                topic, encoding = data.draw(st.sampled_from(publishers))
                encoder = make_encoder(topic, self.message_class, encoding)
                for _ in range(2):
                    values = self.draw_values(data, encoding)
                    check_encoded(encoder, values, data.draw(st.integers(0, _MAX_TIME_NS)))

            self._run(st.data(), check)

    def test_the_state_is_encoded_alone_and_in_a_batch(self) -> None:
        """Random states: messages equal rclpy's serialization, alone and written as a batch."""
        shown = 0
        with self._publishers() as (publishers, runtime):
            if not publishers:
                pytest.skip("the codec encodes nothing")
            encoders = [make_encoder(topic, self.message_class, encoding) for topic, encoding in publishers]
            for number in range(1, self.examples + 1):
                assert runtime.tick(number * 10_000_000)
                shown += sum(check_shown(each, runtime.snapshot) for each in encoders)
                check_batches(encoders, runtime.snapshot)
        assert shown, "no state was shown: if sensors feed the publishers, override `measure`"

    def test_the_reader_reads_as_the_decoder(self) -> None:
        """Any message: the reader's sample equals the decoder's, and damaged bytes give that or none."""
        codec, message_class = self.codec, self.message_class
        decode = codec.decode
        if decode is None:
            pytest.skip("the codec decodes nothing")
        read_any, read = codec.make_reader(message_class), codec.reader and codec.reader()

        def check(rng: random.Random) -> None:
            data = bytes(serialize_message(random_messages.fill(message_class(), rng)))
            wanted = decode(deserialize_message(data, message_class))
            assert_same(read_any(data), wanted)
            assert_same(read_any(data), wanted)
            if read is None:
                return
            cut = data[: rng.randrange(len(data))]
            sample = read(cut)
            if sample is not None:
                assert_same(sample, decode(deserialize_message(cut, message_class)))

        self._run(st.randoms(use_true_random=False), check)

    def test_decoding_returns_what_was_encoded(self) -> None:
        """Any values: the decoder returns them, if `values_of` says which of the sample's they are."""
        codec, message_class = self.codec, self.message_class
        decode = codec.decode
        if decode is None or self.values_of(decode(message_class())) is None:
            pytest.skip("the codec does not decode what it encodes")
        with self._publishers() as (publishers, _):
            if not publishers:
                pytest.skip("the codec encodes nothing")

            def check(data: st.DataObject) -> None:
                topic, encoding = data.draw(st.sampled_from(publishers))
                values = self.draw_values(data, encoding)
                encoded = make_encoder(topic, message_class, encoding).encode(values, 1)
                found = self.values_of(decode(deserialize_message(_plain(encoded), message_class)))
                assert found is not None
                for one, other in zip(found, values, strict=True):
                    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))

            self._run(st.data(), check)

    def _run(self, strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
        slow = settings(
            max_examples=self.examples,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        slow(given(strategy)(check))()

    @contextmanager
    def _publishers(self) -> Iterator[tuple[list[tuple[TopicPlan, Encoding]], Runtime]]:
        """Open a runtime on the plan; yield the encodings of the type's publishers, and the runtime."""
        plan = self.make_plan()
        topics = [each for each in plan.topics if (each.type, each.role) == (self.type_name, "publisher")]
        with Runtime(plan, RandomBackend(topics, self.measure)) as runtime:
            found = []
            for topic in topics:
                encoding, reason = encoding_for(topic, plan, runtime.capabilities)
                assert encoding is not None, f"{topic.path}: {reason}"
                found.append((topic, encoding))
            yield found, runtime


class RandomBackend(NullBackend):
    """Random joints, bodies and measurements at every step."""

    def __init__(
        self,
        topics: list[TopicPlan],
        measure: Callable[[TopicPlan, np.random.Generator], Mapping[str, NDArray[Any]]],
    ) -> None:
        """Store the arguments.

        Args:
            topics: Publishers that sensors may feed.
            measure: Return random arrays of one of them, none if no sensor feeds it.
        """
        super().__init__()
        self._rng = np.random.default_rng(1)
        self._measure = measure
        self._time_ns = 0
        self._sensed = {each.path: each for each in topics if measure(each, self._rng)}
        self.capabilities = replace(
            NullBackend.capabilities, sensors=frozenset(self._sensed), every_step=True
        )

    def step(self, time_ns: int, commands: Commands) -> State:
        """Return a random state."""
        state = super().step(time_ns, commands)
        rng, self._time_ns = self._rng, time_ns
        state.joint_position[:] = rng.uniform(-1.0, 1.0, state.joint_position.shape)
        state.joint_velocity[:] = rng.uniform(-1.0, 1.0, state.joint_velocity.shape)
        state.joint_effort[:] = rng.uniform(-1.0, 1.0, state.joint_effort.shape)
        state.body_pose[:] = rng.uniform(-1.0, 1.0, state.body_pose.shape)
        state.body_pose[:, 3:] /= np.linalg.norm(state.body_pose[:, 3:], axis=1, keepdims=True)
        state.body_twist = rng.uniform(-1.0, 1.0, (len(state.body_pose), 6))
        return state

    def sense(self, prim: str) -> SensorSample | None:
        """Return a random measurement."""
        arrays = self._measure(self._sensed[prim], self._rng)
        return SensorSample(prim=prim, stamp_ns=self._time_ns, arrays=arrays)


def make_encoder(topic: TopicPlan, message_class: Any, encoding: Encoding) -> MessageEncoder:
    """Return the message encoder of a publisher, which fails where the bridge would fall back on message objects."""

    def fail(kind: str, text: str) -> None:
        raise AssertionError(f"{kind}: {text}")

    return MessageEncoder(
        topic.path,
        message_class,
        encoding,
        frame_id=topic.frame_id,
        report=fail,
        messages=EncodedMessages(),
    )


def draw_values(data: st.DataObject, message_class: Any, encoding: Encoding) -> Values:
    """Draw a number for every place of an encoding's blocks, and an array of any length for every sequence.

    Args:
        data: Hypothesis' source of values.
        message_class: Class of the messages.
        encoding: Encoding of the messages.
    """
    values: list[Any] = []
    rows: dict[str, int] = {}
    for path, dtype, size in _places(message_class, (*encoding.blocks, *encoding.sequences)):
        if len(values) < len(encoding.blocks):
            values.append(tuple(data.draw(_numbers(dtype, size)).tolist()))
            continue
        # Fields of the elements of one sequence are of one length.
        sequence = path.partition("[]")[0]
        length = rows.setdefault(sequence, data.draw(st.integers(0, _MAX_LENGTH)))
        values.append(data.draw(_numbers(dtype, (length, size) if "[]" in path else length)))
    return tuple(values)


def _numbers(dtype: np.dtype[Any], shape: int | tuple[int, ...]) -> st.SearchStrategy[NDArray[Any]]:
    """Return a strategy for arrays of any numbers that rclpy takes for a field."""
    elements = None
    if dtype == np.float32:
        # rclpy's checks of fields round the largest number down.
        most = float(np.nextafter(np.finfo(np.float32).max, np.float32(0)))
        elements = st.floats(-most, most, width=32) | st.sampled_from([np.inf, -np.inf, np.nan])
    return drawn_arrays(dtype, shape, elements=elements)


@cache
def _places(message_class: Any, paths: tuple[str, ...]) -> tuple[tuple[str, np.dtype[Any], int], ...]:
    """Return, for each path, the type of its numbers and how many there are in one element."""
    prototype = random_messages.fill(message_class(), random.Random(0), least=1)
    blocks = [Template(prototype).blocks(path) for path in paths]
    return tuple((path, each.dtype, each.width) for path, each in zip(paths, blocks, strict=True))


def check_template(message: Any, rng: random.Random) -> None:
    """Check that a message's template keeps it, and that rclpy reads back any numbers written in place.

    Args:
        message: A message object.
        rng: Random numbers.
    """
    message_class = type(message)
    template = Template(message)
    assert template.size == len(template.data)
    assert template.size <= len(serialize_message(message)) + 3
    assert deserialize_message(bytes(template.data), message_class) == message, (
        "the prototype's own numbers stay"
    )
    for _ in range(2):
        written = {}
        for path, type_name, values in random_messages.numbers(message):
            fresh = [random_messages.random_number(type_name, rng) for _ in values]
            view = template.view(path)
            assert view.shape == (len(values),), path
            view[:] = [ord(value) for value in fresh] if type_name == "octet" else fresh
            written[path] = fresh
        found = deserialize_message(bytes(template.data), message_class)
        assert {path: values for path, _, values in random_messages.numbers(found)} == written
        assert list(random_messages.contents(found)) == list(random_messages.contents(message))


def check_encoded(encoder: MessageEncoder, values: Values, time_ns: int) -> bytes:
    """Check the message of these values against rclpy, and return its bytes.

    Args:
        encoder: Encoder of a publisher.
        values: Values of its encoding.
        time_ns: Stamp, nanoseconds.
    """
    encoding = encoder.encoding
    encoded = encoder.encode(values, time_ns)
    wanted = encoder.make_message(values, time_ns)
    message_class = type(wanted)
    if encoding.varying:
        assert not isinstance(encoded, bytearray)
    elif not isinstance(encoded, bytearray):
        # More shapes than the encoder keeps: the next message of this one gets a template.
        encoded = encoder.encode(values, time_ns)
    if isinstance(encoded, bytearray):
        assert bytes(encoded) == bytes(Template(wanted).data), "other bytes than rclpy's"
    found = deserialize_message(_plain(encoded), message_class)
    # As text, in which NaN equals NaN.
    assert repr(found) == repr(deserialize_message(bytes(serialize_message(wanted)), message_class))
    if hasattr(found, "header"):
        stamp = found.header.stamp
        assert stamp.sec * 1_000_000_000 + stamp.nanosec == time_ns
        assert found.header.frame_id == encoder.frame_id
    for path, value in zip((*encoding.blocks, *encoding.sequences), values, strict=True):
        _check_numbers(found, path, value)
    return _plain(encoded)


def check_shown(encoder: MessageEncoder, snapshot: Snapshot) -> bool:
    """Check the message that shows a snapshot. Return False if it shows nothing."""
    values = encoder.values(snapshot)
    if values is None:
        return False
    check_encoded(encoder, values, snapshot.time_ns)
    return True


def check_batches(encoders: list[MessageEncoder], snapshot: Snapshot) -> None:
    """Check that publishers written as batches, and as batches of one, send what each of them sends alone.

    Args:
        encoders: Encoders of publishers. Those with `Encoding.arrays` are checked.
        snapshot: State that they show.
    """
    time_ns = snapshot.time_ns
    runs: dict[int, list[MessageEncoder]] = {}
    for encoder in encoders:
        arrays_of = encoder.encoding.arrays
        arrays = None if arrays_of is None else arrays_of(snapshot)
        message = None if arrays is None else encoder.find_row(arrays, snapshot)
        if arrays is None or message is None:
            continue
        alone = check_encoded(encoder, encoder.values(snapshot) or (), time_ns)
        assert message.block.write(arrays, encoder.rows, 1, pack_stamp(time_ns))
        if message.frame is not None:
            frame = np.frombuffer(encoder.frame, np.uint8)
            message.block.messages.write_bytes(message.frame, frame[None])
        block = message.block.messages
        assert bytes(block.data[block.slices[0]]) == alone, "a batch of one differs from a lone message"
        runs.setdefault(id(arrays_of), []).append(encoder)
    for run in runs.values():
        _check_run(run, snapshot)


def _check_run(run: list[MessageEncoder], snapshot: Snapshot) -> None:
    """Check one batch of publishers whose rows follow one another."""
    first, arrays_of = run[0], run[0].encoding.arrays
    arrays = None if arrays_of is None else arrays_of(snapshot)
    consecutive = all(one.rows.stop == other.rows.start for one, other in pairwise(run))
    if arrays is None or not consecutive or len({len(each.frame) for each in run}) > 1:
        return
    message = first.find_row(arrays, snapshot)
    if message is None or len(run) > message.block.messages.count:
        return
    rows = slice(first.rows.start, run[-1].rows.stop)
    assert message.block.write(arrays, rows, len(run), pack_stamp(snapshot.time_ns))
    if message.frame is not None:
        frames = np.frombuffer(b"".join(each.frame for each in run), np.uint8).reshape(len(run), -1)
        message.block.messages.write_bytes(message.frame, frames)
    block = message.block.messages
    for encoder, place in zip(run, block.slices, strict=False):
        alone = check_encoded(encoder, encoder.values(snapshot) or (), snapshot.time_ns)
        assert bytes(block.data[place]) == alone, "a message of a batch differs from a lone one"


def assert_same(found: object, wanted: object) -> None:
    """Assert that two samples are equal: of one type, with equal fields, arrays of one shape and type."""
    assert type(found) is type(wanted)
    if is_dataclass(found):
        for field in fields(found):
            assert_same(getattr(found, field.name), getattr(wanted, field.name))
    elif isinstance(found, np.ndarray):
        np.testing.assert_array_equal(found, wanted, strict=True)
    elif isinstance(found, list | tuple):
        assert isinstance(wanted, list | tuple)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert found == wanted or (found != found and wanted != wanted)


def _check_numbers(message: Any, path: str, value: Any) -> None:
    """Check that the numbers at a path of a message that rclpy has read are those of a value."""
    pattern = re.compile(re.escape(path).replace(r"\[\]", r"\[\d+\]") + r"(\..*)?")
    fields_there = [each for each in random_messages.numbers(message) if pattern.fullmatch(each[0])]
    found = np.array(
        [ord(each) if isinstance(each, bytes) else each for _, _, part in fields_there for each in part]
    )
    wanted = np.asarray(value).ravel()
    if {type_name for _, type_name, _ in fields_there} == {"float"}:
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    if found.size == wanted.size:
        np.testing.assert_array_equal(found, wanted, err_msg=path)
    else:
        # The value stands for the bytes of the field.
        assert found.astype(np.uint8).tobytes() == wanted.tobytes(), path


def _plain(encoded: Any) -> bytes:
    return bytes(encoded) if isinstance(encoded, bytearray) else bytes(serialize_message(encoded))
