"""`usd_ros_bridge doctor`: each check fails by its real cause, and says what cures it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click", reason="click is not installed: make setup")

from cli_calls import call_cli
from hidden_modules import start_without
from usd_ros_bridge.cli import doctor
from usd_ros_bridge.cli.doctor import Check, probe
from usd_ros_bridge.importing.converter import _python_says
from usd_ros_bridge.requirements import INTERFACES, MUJOCO, OPENUSD, ROS

ROOT = Path(__file__).parents[3]
COMMAND_LINE = "from usd_ros_bridge.entry_points import usd_ros_bridge; usd_ros_bridge()"


def rows_without(
    modules: str, tmp_path: Path, variables: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    result = start_without(modules, COMMAND_LINE, "doctor", "--json", directory=tmp_path, variables=variables)
    assert "Traceback" not in result.stderr
    found = json.loads(result.stdout)
    assert found["ready"] is (result.returncode == 0)
    return result.returncode, {row["name"]: row for row in found["checks"]}


def stub(directory: Path, package: str, **files: str) -> None:
    """Write a package of which the keywords are the modules."""
    folder = directory / package
    folder.mkdir(parents=True)
    for name, text in ({"__init__": ""} | files).items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


# --- The whole ---------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.sample
def test_the_environment_of_the_tests_is_ready() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
    result = call_cli("doctor")
    assert result.returncode == 0, result.stdout
    assert "`run` works here" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("status", ["ok", "error"])
def test_an_asset_is_looked_at_if_the_installation_is_ready(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    monkeypatch.setattr(doctor, "run_checks", lambda: [Check(name="ROS 2", status=status, found="it")])
    asset, ready = str(ROOT / "test/assets/physics_tetrahedron.usda"), status == "ok"
    done = call_cli("doctor", asset)
    assert done.returncode == (0 if ready else 1)
    assert ("/corner/mesh" in done.stdout) is ready
    assert ("`run` works here" in done.stdout) is ready
    found = json.loads(call_cli("doctor", asset, "--json").stdout)
    assert found["ready"] is ready
    assert ("mujoco" in found) is ready


@pytest.mark.process
def test_every_row_has_a_status_and_faults_have_a_remedy(tmp_path: Path) -> None:
    modules = "tf2_msgs,pxr,rich,mujoco,rclpy"
    variables = {"PATH": str(tmp_path), "ROS_DOMAIN_ID": "x", "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}
    status, rows = rows_without(modules, tmp_path, variables)
    assert status == 1
    assert all(row["status"] in ("ok", "warning", "error") for row in rows.values())
    assert all(row["remedy"] for row in rows.values() if row["status"] != "ok")
    assert {name for name, row in rows.items() if row["status"] == "error"} == {
        "command line", "ROS 2", "rmw", "interfaces", "OpenUSD", "domain",
    }  # fmt: skip
    assert {"MuJoCo", "OpenGL", "discovery", "compilers"} <= {
        name for name, row in rows.items() if row["status"] == "warning"
    }
    assert rows["ROS 2"]["remedy"] == ROS.remedy
    assert rows["OpenUSD"]["remedy"] == OPENUSD.remedy
    assert rows["MuJoCo"]["remedy"] == MUJOCO.remedy
    assert "rclpy" in rows["ROS 2"]["found"]


@pytest.mark.process
def test_what_run_can_do_without_is_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
    status, rows = rows_without("control_msgs,mujoco", tmp_path)
    assert status == 0
    assert rows["interfaces"]["status"] == rows["MuJoCo"]["status"] == "warning"
    assert "control_msgs not installed" in rows["interfaces"]["found"]
    assert rows["interfaces"]["remedy"] == INTERFACES.remedy


@pytest.mark.process
def test_modules_of_the_current_directory_are_not_the_installation_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert probe("import json\nprint(json.dumps({'found': 1}))") == {"found": 1}
    assert _python_says(sys.executable, "import json; print(json.dumps(1))") == "1"


@pytest.mark.process
def test_a_check_that_raises_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Check:
        raise OSError("unexpected")

    monkeypatch.setattr(doctor, "check_domain", failing)
    found = {check.name: check for check in doctor.run_checks()}
    assert found["domain"].status == "warning"
    assert "unexpected" in found["domain"].found
    assert found["discovery"].status == "ok"


@pytest.mark.process
def test_the_page_has_every_row() -> None:
    page = (ROOT / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    names = [check.name for check in doctor.run_checks()]
    table = [
        line.split("|")[1].strip() for line in page.partition("| check |")[2].splitlines()[2:] if "|" in line
    ]
    assert table[: len(names)] == names


# --- Python, ROS and OpenUSD -------------------------------------------------------------------------------------


def test_python_versions() -> None:
    versions = {(3, 9, 1): "error", (3, 11, 2): "ok", (3, 99, 0): "warning"}
    assert {version: doctor.check_python(version).status for version in versions} == versions


def test_packages_of_ros_are_those_of_the_manifest() -> None:
    manifest = xml.etree.ElementTree.parse(ROOT / "package.xml")
    needed = {element.text for element in manifest.iter("exec_depend")}
    assert set(doctor.ROS_PACKAGES) <= needed
    # What is left out is for launch files and tf2, or optional.
    rest = needed - set(doctor.ROS_PACKAGES) - set(INTERFACES.modules)
    assert {name for name in rest if str(name).endswith("_msgs")} == set()


@pytest.mark.process
def test_an_unknown_middleware_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_of_nobody")
    found = doctor.check_rmw()
    assert found.status == "error"
    assert "rmw_of_nobody" in found.found
    assert "unset RMW_IMPLEMENTATION" in found.remedy


@pytest.mark.process
def test_interfaces_without_their_library_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path, "tf2_msgs", msg="class TFMessage: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = doctor.check_interfaces()
    assert found.status == "error"
    assert "tf2_msgs cannot be loaded" in found.found


@pytest.mark.process
def test_a_broken_openusd_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "pxr", Usd="raise ImportError('libusd.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = doctor.check_openusd()
    assert found.status == "error"
    assert "libusd.so" in found.found


@pytest.mark.process
def test_an_openusd_that_crashes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "pxr", Usd="import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "crashes (signal 11)" in doctor.check_openusd().found


@pytest.mark.process
def test_an_import_that_hangs_ends_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "pxr", Usd="import threading; threading.Event().wait()")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.5)
    found = doctor.check_openusd()
    assert found.status == "error"
    assert "no answer within 0.5 s" in found.found


@pytest.mark.process
def test_two_copies_of_openusd_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "pxr")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = doctor.check_openusd()
    assert found.status == "warning"
    assert "2 copies" in found.found
    assert str(tmp_path / "pxr") in found.found


@pytest.mark.process
def test_old_versions_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "pxr", Usd="def GetVersion(): return (0, 25, 11)")
    stub(tmp_path, "mujoco", __init__="__version__ = '3.2.7'")
    monkeypatch.syspath_prepend(str(tmp_path))
    for check, remedy in ((doctor.check_openusd, OPENUSD.remedy), (doctor.check_mujoco, MUJOCO.remedy)):
        found = check()
        assert (found.status, found.remedy) == ("warning", remedy)
        assert "too old" in found.found


# --- Rendering ---------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize(("value", "found"), [("disable", "switched off"), ("vulkan", "vulkan")])
def test_opengl_that_is_switched_off_is_a_warning(
    value: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    monkeypatch.setenv("MUJOCO_GL", value)
    check = doctor.check_gl()
    assert check.status == "warning"
    assert found in check.found
    assert "unset MUJOCO_GL" in check.remedy


@pytest.mark.process
def test_a_missing_driver_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    from usd_ros_bridge.backends.mujoco import gl_context

    monkeypatch.setenv("MUJOCO_GL", "egl")
    # The loader of EGL finds no driver there.
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_DIRS", str(tmp_path))
    gl_context.probe.cache_clear()
    try:
        check = doctor.check_gl()
    finally:
        gl_context.probe.cache_clear()
    assert check.status == "warning"
    assert "no context: egl:" in check.found
    assert "apt install" in check.remedy


# --- The middleware ----------------------------------------------------------------------------------------------


def test_full_shared_memory_is_a_warning() -> None:
    # /proc has no room, as a real file system says.
    check = doctor.check_shared_memory(Path("/proc"))
    assert check.status == "warning"
    assert "--shm-size" in check.remedy


def test_missing_shared_memory_is_a_warning(tmp_path: Path) -> None:
    assert doctor.check_shared_memory(tmp_path / "none").status == "warning"


def test_segments_of_dead_processes_are_a_warning(tmp_path: Path) -> None:
    for name in ("fastrtps_0123456789abcdef_el", "fastrtps_port7411_el"):
        (tmp_path / name).write_bytes(b"")
    check = doctor.check_shared_memory(tmp_path)
    assert check.status == "warning"
    assert "1 segments" in check.found
    assert check.remedy == "fastdds shm clean"
    with (tmp_path / "fastrtps_0123456789abcdef_el").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert doctor.check_shared_memory(tmp_path).status == "ok"


def test_domains() -> None:
    statuses = {"": "ok", "7": "ok", "150": "warning", "233": "error", "-1": "error", "x": "error"}
    checks = {value: doctor.check_domain({"ROS_DOMAIN_ID": value}) for value in statuses}
    assert {value: check.status for value, check in checks.items()} == statuses
    assert all(bool(check.remedy) is (check.status != "ok") for check in checks.values())


def test_discovery_ranges() -> None:
    for variables, status, text in (
        ({}, "ok", "SUBNET"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, "ok", "LOCALHOST"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}, "warning", "not found"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOSTS"}, "warning", "LOCALHOSTS"),
        ({"ROS_LOCALHOST_ONLY": "1"}, "warning", "deprecated"),
        ({"ROS_STATIC_PEERS": "10.0.0.2"}, "ok", "10.0.0.2"),
    ):
        check = doctor.check_discovery(variables)
        assert check.status == status, variables
        assert text in check.found


def test_a_misspelt_range_is_answered_with_the_nearest() -> None:
    assert (
        "did you mean LOCALHOST?"
        in doctor.check_discovery({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOS"}).remedy
    )


def test_multicast_arrives_on_the_loopback() -> None:
    assert doctor.check_loopback().status == "ok"


@pytest.mark.process
def test_a_loopback_that_is_down_is_a_warning() -> None:
    # The loopback of a new network namespace is down.
    code = (
        "from usd_ros_bridge.cli.doctor import check_loopback as c; r = c(); print(r.status, '|', r.remedy)"
    )
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no network namespace can be made here: unshare -rn")
    command = [unshare, "-rn", sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    assert result.stdout.startswith("warning | ip link set lo up")


# --- Around it ---------------------------------------------------------------------------------------------------


def on_terminal(
    check: Callable[[], Check], monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8"
) -> Check:
    """Run a check whose standard output is a terminal."""
    main, other = os.openpty()
    try:
        with os.fdopen(other, "w", encoding=encoding) as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            try:
                return check()
            finally:
                monkeypatch.undo()
    finally:
        os.close(main)


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for term, columns, encoding, status in (
        ("xterm", "80", "utf-8", "ok"),
        ("xterm", "79", "utf-8", "warning"),
        ("dumb", "80", "utf-8", "warning"),
        ("xterm", "80", "ascii", "warning"),
    ):
        monkeypatch.setenv("TERM", term)
        monkeypatch.setenv("COLUMNS", columns)
        check = on_terminal(doctor.check_terminal, monkeypatch, encoding)
        assert check.status == status, (term, columns, encoding)
        assert bool(check.remedy) is (status != "ok")


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor.check_cache().status == "ok"
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    check = doctor.check_cache()
    assert check.status == "warning"
    assert "XDG_CACHE_HOME" in check.remedy


def test_missing_compilers_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.check_compilers()
    assert check.status == "warning"
    assert check.remedy == "apt install gcc g++ make"
