"""Files that appear when they are complete."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from usd_ros_bridge.replaced_file import replaced


def write(path: Path, data: bytes) -> None:
    with replaced(path) as file:
        file.write(data)


def test_the_file_before_stays_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replaced(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(TypeError), replaced(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.html"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to("data/today.html")
    for data in (b"first", b"second"):
        write(link, data)
        assert (tmp_path / "data/today.html").read_bytes() == data
    assert link.is_symlink()


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    write(fifo, b"data")
    reader.join(60.0)
    assert read == [b"data"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    write(Path(os.devnull), b"data")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    "name", ["a" * 255, os.fsdecode(("ü" * 127).encode()), "a"], ids=["long", "long and not ASCII", "short"]
)
def test_every_name_that_a_file_may_have_is_possible(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, b"data")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(name, b"data")]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", "Is a directory"),
        ("folder", "Is a directory"),
        ("file/inner", "Not a directory"),
        ("none/inner", "No such file or directory"),
        ("a" * 256, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match=error):
        write(Path(name), b"data")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"old"
