"""The directory of an import: complete or not there, one process at a time, and nobody else's files are replaced."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.importing.imported_directory import MARKER, check_target, imported_directory
from usd_ros_bridge.importing.locked_directory import filled_directory

pytestmark = pytest.mark.app

HOLDER = """
import sys
from pathlib import Path
from usd_ros_bridge.importing.imported_directory import imported_directory
with imported_directory(Path(sys.argv[1]), force=False, facts={}) as made:
    (made / "robot.usda").write_text("half")
    print(flush=True)
    sys.stdin.read()
"""

WAITER = """
import sys
from pathlib import Path
from usd_ros_bridge.importing.locked_directory import DirectoryInUseError, filled_directory
partial = Path(sys.argv[1])
try:
    with filled_directory(partial, waits=False):
        pass
except DirectoryInUseError:
    print("in use", flush=True)
with filled_directory(partial, waits=True):
    print("full" if any(partial.iterdir()) else "empty")
"""


def fill(target: Path, text: str = "robot", *, force: bool = False) -> None:
    with imported_directory(target, force=force, facts={"source": "robot.urdf"}) as made:
        (made / "robot.usda").write_text(text, encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def holder(target: Path) -> subprocess.Popen[bytes]:
    """Start a process that imports into a directory and does not come to its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_complete_import_has_a_marker_and_leaves_nothing_beside(tmp_path: Path) -> None:
    fill(tmp_path / "panda")
    assert names(tmp_path) == ["panda"]
    assert names(tmp_path / "panda") == [MARKER, "robot.usda"]


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with imported_directory(tmp_path / "panda", force=False, facts={}) as made:
            (made / "robot.usda").write_text("half", encoding="utf-8")
            raise BridgeError("no mesh")

    with pytest.raises(BridgeError, match="no mesh"):
        fail()
    assert names(tmp_path) == []


def test_an_error_of_the_import_itself_is_not_about_the_directory(tmp_path: Path) -> None:
    """Such as a reader of its output that went away."""
    target = tmp_path / "robot"
    with pytest.raises(BrokenPipeError), imported_directory(target, force=False, facts={}):
        raise BrokenPipeError
    assert not target.exists()


def test_a_full_disk_during_the_import_is_one_line(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "robot.log"))
    with (
        pytest.raises(OptionError, match="cannot be written: No space left on device"),
        imported_directory(tmp_path / "robot", force=False, facts={}),
    ):
        raise full


def test_no_more_of_a_directory_than_its_first_file_is_looked_at() -> None:
    """Files of /proc come and go: a walk over all of them fails."""
    with pytest.raises(OptionError, match="exists and import did not make it"):
        check_target(Path("/proc"), force=True)


@pytest.mark.parametrize("here", [".", "meshes"])
def test_the_directory_that_one_is_in_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    (tmp_path / "robot/meshes").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "robot" / here)
    with pytest.raises(OptionError, match="is where you are, and import replaces it"):
        check_target(tmp_path / "robot", force=True)


def test_a_failed_import_keeps_what_it_should_replace(tmp_path: Path) -> None:
    fill(tmp_path / "panda", "old")

    def fail() -> None:
        with imported_directory(tmp_path / "panda", force=True, facts={}):
            raise BridgeError("no mesh")

    with pytest.raises(BridgeError, match="no mesh"):
        fail()
    assert (tmp_path / "panda/robot.usda").read_text(encoding="utf-8") == "old"


def test_a_killed_import_leaves_no_directory_and_the_next_one_clears_up(tmp_path: Path) -> None:
    with holder(tmp_path / "panda") as process:
        process.send_signal(signal.SIGKILL)
    assert "panda" not in names(tmp_path)
    assert len(names(tmp_path)) == 1
    fill(tmp_path / "panda")
    assert names(tmp_path) == ["panda"]
    assert (tmp_path / "panda/robot.usda").read_text(encoding="utf-8") == "robot"


def test_a_second_import_of_the_same_directory_is_refused(tmp_path: Path) -> None:
    with holder(tmp_path / "panda") as process:
        with pytest.raises(BridgeError, match="another import writes"):
            fill(tmp_path / "panda")
        process.communicate()
    assert (tmp_path / "panda/robot.usda").read_text(encoding="utf-8") == "half"


def test_one_waits_for_another_that_fills_a_directory(tmp_path: Path) -> None:
    with filled_directory(tmp_path / "partial", waits=True) as partial:
        (partial / "environment").mkdir()
        process = subprocess.Popen([sys.executable, "-c", WAITER, partial], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "in use\n"
        assert names(partial) == ["environment"]
    assert process.communicate(timeout=30.0)[0] == "empty\n"
    assert names(tmp_path) == []


def test_owners_that_come_and_go_do_not_disturb_each_other(tmp_path: Path) -> None:
    def own(_: int) -> None:
        for _ in range(500):
            with filled_directory(tmp_path / "partial", waits=True) as partial:
                assert names(partial) == []

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(own, range(4)))
    assert names(tmp_path) == []


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "partial").touch()
    with pytest.raises(FileExistsError), filled_directory(tmp_path / "partial", waits=True):
        pass


def test_force_replaces_what_import_made(tmp_path: Path) -> None:
    fill(tmp_path / "panda", "old")
    with pytest.raises(OptionError, match="exists: --force replaces it"):
        fill(tmp_path / "panda", "new")
    fill(tmp_path / "panda", "new", force=True)
    assert (tmp_path / "panda/robot.usda").read_text(encoding="utf-8") == "new"
    assert names(tmp_path) == ["panda"]


def test_force_replaces_no_other_directory(tmp_path: Path) -> None:
    (tmp_path / "panda").mkdir()
    (tmp_path / "panda/thesis.tex").touch()
    with pytest.raises(OptionError, match="import did not make it"):
        fill(tmp_path / "panda", force=True)
    assert names(tmp_path / "panda") == ["thesis.tex"]


def test_force_replaces_no_files_of_others(tmp_path: Path) -> None:
    fill(tmp_path / "panda", "old")
    (tmp_path / "panda/notes.txt").touch()
    with pytest.raises(OptionError, match=r"files that import did not make: 'notes\.txt'"):
        fill(tmp_path / "panda", force=True)
    assert (tmp_path / "panda/robot.usda").read_text(encoding="utf-8") == "old"


def test_a_damaged_marker_makes_a_directory_foreign(tmp_path: Path) -> None:
    fill(tmp_path / "panda")
    for content in ("", "[]", '{"files": 3}', '{"source": "robot.urdf"}'):
        (tmp_path / "panda" / MARKER).write_text(content, encoding="utf-8")
        with pytest.raises(OptionError, match="import did not make it"):
            check_target(tmp_path / "panda", force=True)


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "panda").mkdir()
    fill(tmp_path / "panda")
    assert names(tmp_path / "panda") == [MARKER, "robot.usda"]


def test_files_and_missing_parents_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is no directory"):
        fill(tmp_path / "file", force=True)
    with pytest.raises(OptionError, match="no such directory as"):
        fill(tmp_path / "a/b")
