"""Two test runs never share a ROS domain."""

import fcntl
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from usd_ros_bridge import ros_domains
from usd_ros_bridge.ros_domains import reserve_domain

RESERVE_AND_WAIT = """
from usd_ros_bridge import ros_domains
ros_domains.MAX_TEST_DOMAIN_ID = 3
ros_domains._is_silent = lambda _: True
reservation = ros_domains.reserve_domain()
print(reservation.domain_id, flush=True)
input()
"""


@pytest.fixture
def few_domains(monkeypatch, tmp_path):
    """Three domains, and a directory of locks of this test's own."""
    monkeypatch.setattr(ros_domains, "MAX_TEST_DOMAIN_ID", 3)
    monkeypatch.setattr(ros_domains.tempfile, "gettempdir", lambda: str(tmp_path))
    # Other suites may be in the real domains 1 to 3.
    monkeypatch.setattr(ros_domains, "_is_silent", lambda _: True)


def test_all_domains_are_given_out_once(few_domains):
    reservations = [reserve_domain() for _ in range(3)]
    assert sorted(each.domain_id for each in reservations) == [1, 2, 3]
    with pytest.raises(RuntimeError, match="1 to 3 are in use"):
        reserve_domain()
    reservations[1].close()
    reservations[1].close()
    assert reserve_domain().domain_id == reservations[1].domain_id
    for each in reservations:
        each.close()


@pytest.mark.process
def test_a_process_that_is_killed_frees_its_domain(few_domains, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", RESERVE_AND_WAIT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    with process:
        theirs = int(process.stdout.readline())
        assert free_domains() == {1, 2, 3} - {theirs}
        process.kill()
    assert free_domains() == {1, 2, 3}


@pytest.mark.process
def test_a_lock_of_another_user_that_is_free_can_be_taken():
    """As another user left it: only to be read. Root may write everything, so the process gives its rights up."""
    nobody = "import os\nif os.getuid() == 0:\n    os.setresuid(65534, 65534, 65534)\n"
    # Others cannot enter the directories of pytest.
    with TemporaryDirectory() as name:
        directory = Path(name) / "usd_ros_bridge_test_domains"
        directory.mkdir()
        Path(name).chmod(0o755)
        for domain_id in (1, 2, 3):
            (directory / f"{domain_id}.lock").touch()
            (directory / f"{domain_id}.lock").chmod(0o444)
        process = subprocess.run(
            [sys.executable, "-c", RESERVE_AND_WAIT.replace("reservation =", f"{nobody}reservation =", 1)],
            input="\n", capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "TMPDIR": name},
        )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) in {1, 2, 3}


def test_a_domain_that_somebody_listens_in_is_left_out(monkeypatch, tmp_path):
    reservation = reserve_domain()
    monkeypatch.setattr(ros_domains.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(ros_domains, "MAX_TEST_DOMAIN_ID", reservation.domain_id)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 7410 + 250 * reservation.domain_id))
        assert reservation.domain_id not in free_domains()
    assert reservation.domain_id in free_domains()
    reservation.close()


def free_domains():
    """Reserve all domains that are free, for a moment; return them."""
    found = set()
    with ExitStack() as stack:
        while True:
            try:
                reserved = reserve_domain()
            except RuntimeError:
                return found
            stack.callback(reserved.close)
            found.add(reserved.domain_id)


def test_files_of_a_process_that_nobody_sees_stay(monkeypatch, tmp_path):
    """As of another container with the same shared memory: its lock is seen, its process is not."""
    monkeypatch.setattr(ros_domains, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(ros_domains, "_in_use", lambda _: set())
    monkeypatch.setattr(ros_domains, "_YOUNGEST_ABANDONED_S", 0.0)
    names = {
        port: [f"fastdds_port{port}", f"fastdds_port{port}_el", f"sem.fastdds_port{port}_mutex"]
        for port in (7660, 7661)
    }
    for name in (*names[7660], *names[7661]):
        (tmp_path / name).touch()
    with (tmp_path / "fastdds_port7660_el").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ros_domains.remove_abandoned(())
        assert {each.name for each in tmp_path.iterdir()} == set(names[7660])
    ros_domains.remove_abandoned(())
    assert not list(tmp_path.iterdir())
