"""`usd_ros_bridge recover`: whatever cut a recording short, what is complete is kept, and read by another library."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("mcap", reason="mcap is not installed: make setup")

from mcap.reader import make_reader
from mcap.writer import Writer

from cli_calls import call_cli
from effort import examples

pytestmark = pytest.mark.app

MESSAGES = 60
CUTS = examples(60)


@pytest.fixture(scope="module")
def recording() -> bytes:
    """A recording of several chunks."""
    file = io.BytesIO()
    writer = Writer(file, chunk_size=500)
    writer.start()
    schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
    channel = writer.register_channel("/text", "cdr", schema)
    for number in range(MESSAGES):
        writer.add_message(
            channel, log_time=number, publish_time=number, data=bytes(range(number)), sequence=number
        )
    writer.finish()
    return file.getvalue()


def chunks_of(recording: bytes) -> list[int]:
    """Where its chunks begin."""
    found, at = [], 8
    while at + 9 < len(recording):
        if recording[at] == 0x06:
            found.append(at)
        at += 9 + int.from_bytes(recording[at + 1 : at + 9], "little")
    return found


def numbers_in(path: Path) -> list[int]:
    """The numbers of the messages that another library reads. Each has the data that it was given."""
    with path.open("rb") as file:
        found = [(message.sequence, message.data) for _, _, message in make_reader(file).iter_messages()]
    assert all(data == bytes(range(number)) for number, data in found)
    return [number for number, _ in found]


@pytest.mark.parametrize("rest", [b"", bytes(4096)], ids=["cut", "zeros"])
@pytest.mark.timeout(20 + examples(60))
@pytest.mark.random
def test_all_messages_of_complete_chunks_are_kept(recording: bytes, rest: bytes, tmp_path: Path) -> None:
    """A process that is killed cuts the file; after a power failure, the rest may be zeros."""
    path, kept = tmp_path / "run.mcap", []
    # Zeros in the first chunk leave no message: see below.
    first = 42 if not rest else chunks_of(recording)[1]
    for cut in range(first, len(recording), max(len(recording) // CUTS, 1)):
        path.write_bytes(recording[:cut] + rest)
        done = call_cli("recover", path)
        assert done.returncode == 0, (cut, done)
        assert done.stderr.startswith(f"usd_ros_bridge: replaced {path} (")
        found = numbers_in(path)
        assert found == list(range(len(found)))
        assert done.stdout == f"{path}: {len(found)} messages\n"
        kept.append(len(found))
    assert kept == sorted(kept)
    assert kept[0] < MESSAGES / 3
    assert kept[-1] == MESSAGES
    assert len(set(kept)) > 3


def test_a_damaged_chunk_costs_its_messages_alone_and_never_the_file(
    recording: bytes, tmp_path: Path
) -> None:
    chunks = chunks_of(recording)
    path, other = tmp_path / "run.mcap", tmp_path / "found.mcap"
    middle = chunks[len(chunks) // 2] + 60
    damaged = recording[:middle] + bytes([recording[middle] ^ 0xFF]) + recording[middle + 1 :]
    path.write_bytes(damaged)
    done = call_cli("recover", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"usd_ros_bridge: {path}: 1 damaged chunk: -o FILE writes what can be read\n"
    assert path.read_bytes() == damaged
    assert [each.name for each in tmp_path.iterdir()] == ["run.mcap"]
    done = call_cli("recover", path, "-o", other)
    assert (done.returncode, done.stderr) == (0, "")
    found = numbers_in(other)
    assert done.stdout == f"{other}: {len(found)} messages; 1 damaged chunk\n"
    assert 0 < MESSAGES - len(found) < MESSAGES / 2
    assert found[0] == 0
    assert found[-1] == MESSAGES - 1


def test_a_record_that_is_none_ends_the_reading_and_keeps_the_file(recording: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    path.write_bytes(recording[:42] + b"\x06" + (20).to_bytes(8, "little") + recording[42:])
    done = call_cli("recover", path)
    assert done.returncode == 2
    assert f"{path}: it is damaged at byte 42 of " in done.stderr
    assert path.read_bytes()[51:] == recording[42:]


def test_a_damaged_length_of_a_finished_recording_does_not_cost_the_rest(
    recording: bytes, tmp_path: Path
) -> None:
    chunks = chunks_of(recording)
    path = tmp_path / "run.mcap"
    for bit in (0, 12, 20, 40):
        damaged = bytearray(recording)
        damaged[chunks[1] + 1 + bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        done = call_cli("recover", path)
        assert done.returncode == 2, (bit, done)
        assert "-o FILE writes what can be read" in done.stderr
        assert path.read_bytes() == damaged


def test_a_recording_without_a_chunk_that_can_be_read_stays(recording: bytes, tmp_path: Path) -> None:
    """As another program left it, with a compression that is unknown here, and no index behind its chunks."""
    first, second = chunks_of(recording)[:2]
    head, chunk = recording[:first], recording[first:second]
    length = 9 + int.from_bytes(chunk[1:9], "little")
    unknown = chunk[:length].replace(b"zstd", b"zst5", 1)
    assert unknown != chunk[:length]
    path = tmp_path / "run.mcap"
    for damaged in (head + unknown, head + 2 * unknown):
        path.write_bytes(damaged)
        done = call_cli("recover", path)
        assert done.returncode == 2, done
        assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "is no MCAP file"),
        ("short", "is no MCAP file: it ends in its header"),
        ("", "Is a directory"),
        ("/", "Is a directory"),
        ("none", "No such file or directory"),
        ("empty/inner", "Not a directory"),
    ],
)
def test_what_is_no_recording_is_one_line(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"\x89MCAP0\r\n\x01\x19")
    done = call_cli("recover", tmp_path / name if name else "")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "short"]
