"""Files on disk, in all the ways in which editors and people change them, until the watcher tells."""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("watchfiles", reason="watchfiles is not installed: make setup")

import watchfiles

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.ros.change import asset_reloader
from usd_ros_bridge.ros.change.asset_reloader import FileWatcher

LONG_S = 60.0


class Watched:
    """A file in a folder of its own, a link to a file elsewhere, and what a watcher tells of them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "asset" / "deep" / "robot.usda"
        self.file.parent.mkdir(parents=True)
        self.real = folder / "elsewhere" / "part.usda"
        self.real.parent.mkdir()
        self.link = folder / "part.usda"
        self.link.symlink_to(self.real)
        for file in (self.file, self.real):
            file.write_text("1", encoding="utf-8")
        self.reports: list[str] = []
        self._told: queue.Queue[frozenset[str]] = queue.Queue()
        files = {str(self.file), str(self.link)}
        self.watcher = FileWatcher(files, self._told.put, lambda _, message: self.reports.append(message))

    def told(self, file: Path) -> None:
        """Waits until a file was told of."""
        while str(file) not in self._told.get(timeout=LONG_S):
            pass

    def quiet(self) -> bool:
        return self._told.empty()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    made.watcher.open()
    yield made
    made.watcher.close()
    made.watcher.close()
    assert made.reports == []


def test_a_file_is_written_replaced_removed_and_back(watched: Watched) -> None:
    watched.file.write_text("22", encoding="utf-8")
    watched.told(watched.file)
    other = watched.file.with_name(".robot.usda.swp")
    other.write_text("333", encoding="utf-8")
    other.replace(watched.file)
    watched.told(watched.file)
    watched.file.unlink()
    watched.told(watched.file)
    watched.file.write_text("4444", encoding="utf-8")
    watched.told(watched.file)


def test_what_was_saved_between_reading_and_watching_is_reported(tmp_path: Path) -> None:
    saved, same = tmp_path / "saved.usda", tmp_path / "same.usda"
    for file in (saved, same):
        file.write_text("1", encoding="utf-8")
    read = {str(file): (1, file.stat().st_mtime_ns, file.stat().st_ino) for file in (saved, same)}
    saved.write_text("22", encoding="utf-8")
    told: queue.Queue[frozenset[str]] = queue.Queue()
    watcher = FileWatcher(read.keys(), told.put, lambda *_: None, read=read).open()
    try:
        assert told.get(timeout=LONG_S) == {str(saved)}
    finally:
        watcher.close()
    assert told.empty()


def test_what_a_link_leads_to_counts_and_the_link_itself(watched: Watched, tmp_path: Path) -> None:
    watched.real.write_text("22", encoding="utf-8")
    watched.told(watched.link)
    new = tmp_path / "new.usda"
    new.write_text("333", encoding="utf-8")
    swapped = tmp_path / "swapped"
    swapped.symlink_to(new)
    swapped.replace(watched.link)
    watched.told(watched.link)
    new.write_text("4444", encoding="utf-8")
    watched.told(watched.link)


def test_directories_go_and_come_back(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No notification tells of all of this: polling finds the rest.
    monkeypatch.setattr(asset_reloader, "POLL_S", 0.05)
    shutil.rmtree(tmp_path / "asset")
    watched.told(watched.file)
    watched.file.parent.mkdir(parents=True)
    watched.file.write_text("22", encoding="utf-8")
    watched.told(watched.file)
    (tmp_path / "asset").rename(tmp_path / "moved")
    watched.told(watched.file)
    (tmp_path / "moved").rename(tmp_path / "asset")
    watched.told(watched.file)
    watched.file.write_text("333", encoding="utf-8")
    watched.told(watched.file)


def test_a_directory_that_is_back_before_it_is_looked_for_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, again = threading.Event(), threading.Event()

    def gone_once(*directories: str, **options: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise FileNotFoundError(directories[0])
        again.set()
        return watchfiles.watch(*directories, **options)

    monkeypatch.setattr(asset_reloader, "_watch_function", lambda: gone_once)
    made = Watched(tmp_path)
    made.watcher.open()
    assert again.wait(LONG_S)
    made.file.write_text("22", encoding="utf-8")
    made.told(made.file)
    made.watcher.close()
    assert made.reports == []


def test_others_are_of_no_concern_until_they_are_watched(watched: Watched) -> None:
    other = watched.file.with_name("other.usda")
    other.write_text("1", encoding="utf-8")
    watched.file.write_text("22", encoding="utf-8")
    watched.told(watched.file)
    assert watched.quiet()
    watched.watcher.watch({str(other)})
    other.write_text("22", encoding="utf-8")
    watched.told(other)
    assert watched.watcher.files == {str(other)}


def test_what_changed_before_it_was_watched_is_reported_where_it_was_read_earlier(watched: Watched) -> None:
    old = watched.file.with_name("old.usda")
    old.write_text("1", encoding="utf-8")
    os.utime(old, (1e9, 1e9))
    new = watched.file.with_name("new.usda")
    new.write_text("1", encoding="utf-8")
    watched.watcher.watch({str(old), str(new)}, read_s=60.0)
    watched.told(new)
    assert watched.quiet()


def test_a_listener_that_fails_is_notified_again(tmp_path: Path) -> None:
    file = tmp_path / "robot.usda"
    file.write_text("1", encoding="utf-8")
    told: queue.Queue[str] = queue.Queue()

    def fail(files: frozenset[str]) -> None:
        told.put(*files)
        raise RuntimeError("not now")

    watcher = FileWatcher({str(file)}, fail, lambda _, message: told.put(message)).open()
    for text in ("22", "333"):
        file.write_text(text, encoding="utf-8")
        assert told.get(timeout=LONG_S) == str(file)
        assert "not now" in told.get(timeout=LONG_S)
    watcher.close()


def test_without_the_package_there_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(OptionError, match="pip install watchfiles"):
        FileWatcher({str(tmp_path / "robot.usda")}, print, print).open()
