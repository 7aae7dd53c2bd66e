"""MCAP files against the mcap package and rosbags: whole, cut off anywhere, and with bytes changed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")
pytest.importorskip("mcap", reason="mcap is not installed: make setup-tests")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.writer import CompressionType, IndexType
from rosbags.rosbag2 import Reader

from bags import START, Message, joint_state, text, transforms, write_mcap
from usd_ros_bridge.backends.bag.mcap_reader import McapReader
from usd_ros_bridge.errors import BackendError

pytestmark = pytest.mark.app

MESSAGES = [
    each
    for k in range(12)
    for each in (
        joint_state("/joint_states", START + k * 10, ["a", "b"], [k, -k]),
        text("/chatter", START + k * 10 + 1, "x" * 40),
        transforms("/tf", (START + k * 10, "world", "base", (k, 0, 0, 0, 0, 0, 1))),
    )
]
EXPECTED = [(each.topic, each.log_ns, each.data) for each in MESSAGES]


def read(path: Path) -> tuple[list[tuple[str, int, bytes]], str]:
    file = McapReader(path)
    found = [(channel.topic, log_ns, data) for channel, log_ns, data in file.messages(lambda _channel: True)]
    return found, file.damage


@pytest.mark.parametrize("compression", list(CompressionType))
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("indexed", [IndexType.ALL, IndexType.NONE])
def test_all_messages_are_read(
    tmp_path: Path, compression: CompressionType, chunked: bool, indexed: IndexType
) -> None:
    path = write_mcap(
        tmp_path / "bag.mcap",
        MESSAGES,
        compression=compression,
        use_chunking=chunked,
        index_types=indexed,
        chunk_size=1000,
    )
    found, damage = read(path)
    assert found == EXPECTED
    assert not damage
    if indexed is IndexType.ALL:
        with path.open("rb") as file:
            read_by_mcap = [(c.topic, m.log_time, m.data) for _, c, m in make_reader(file).iter_messages()]
        assert sorted(read_by_mcap) == sorted(found)
        if chunked:
            with Reader(path) as reader:
                read_by_rosbags = [(c.topic, log_ns, data) for c, log_ns, data in reader.messages()]
            assert sorted(read_by_rosbags) == sorted(found)
    channels = {each.topic: each for each in McapReader(path).channels()}
    assert set(channels) == {"/joint_states", "/chatter", "/tf"}
    assert channels["/tf"].type == "tf2_msgs/msg/TFMessage"
    assert channels["/tf"].definition_format == "ros2msg"
    assert "TransformStamped[] transforms" in channels["/tf"].definition


def test_only_wanted_channels_are_read_and_again(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "bag.mcap", MESSAGES, chunk_size=300)
    file = McapReader(path)
    for _ in range(2):
        for topic in ("/tf", "/joint_states"):
            found = [data for _, _, data in file.messages(lambda channel, name=topic: channel.topic == name)]
            assert found == [each.data for each in MESSAGES if each.topic == topic]


@pytest.mark.parametrize("options", [{"chunk_size": 600}, {"use_chunking": False}])
def test_a_file_that_was_cut_off_is_read_up_to_there(tmp_path: Path, options: dict[str, object]) -> None:
    whole = write_mcap(tmp_path / "whole.mcap", MESSAGES, compression=CompressionType.ZSTD, **options)
    data = whole.read_bytes()
    path = tmp_path / "cut.mcap"
    counts = []
    for end in range(8, len(data), 7):
        path.write_bytes(data[:end])
        found, damage = read(path)
        assert found == EXPECTED[: len(found)]
        # Behind the end of the data there is only the index.
        assert damage or len(found) == len(EXPECTED)
        counts.append(len(found))
        McapReader(path).channels()
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert len(set(counts)) > 6


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.data())
def test_changed_bytes_never_raise_anything_else(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "whole.mcap"
    if not path.exists():
        write_mcap(path, MESSAGES, chunk_size=900, compression=CompressionType.LZ4)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    changed = tmp_path / "changed.mcap"
    changed.write_bytes(content)
    try:
        found, _ = read(changed)
        McapReader(changed).channels()
    except BackendError:
        return
    assert len(found) <= len(EXPECTED)


def test_a_chunk_with_a_wrong_checksum_is_left_out(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "bag.mcap", MESSAGES, chunk_size=600, compression=CompressionType.NONE)
    content = bytearray(path.read_bytes())
    place = content.index(MESSAGES[13].data) + len(MESSAGES[13].data) - 1
    content[place] ^= 0xFF
    path.write_bytes(content)
    found, damage = read(path)
    assert "damaged" in damage
    assert 0 < len(found) < len(EXPECTED)
    assert EXPECTED[-1] in found
    assert all(message in EXPECTED for message in found)


@pytest.mark.parametrize(("content", "what"), [(b"", "is empty"), (b"#usda 1.0\n", "is no MCAP file")])
def test_other_files_are_refused(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "bag.mcap"
    path.write_bytes(content)
    with pytest.raises(BackendError, match=what):
        McapReader(path)


def test_an_empty_recording_has_no_messages(tmp_path: Path) -> None:
    nothing: list[Message] = []
    path = write_mcap(tmp_path / "bag.mcap", nothing)
    assert read(path) == ([], "")
    assert McapReader(path).channels() == ()


def test_messages_out_of_order_are_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    messages = list(itertools.chain(*zip(MESSAGES[18:], MESSAGES[:18], strict=True)))
    path = write_mcap(tmp_path / "bag.mcap", messages, chunk_size=500)
    assert [each[2] for each in read(path)[0]] == [each.data for each in messages]
