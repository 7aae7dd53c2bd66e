"""The compiled ArResolver for package://: how it is built, and what happens where it does not load.

What it does is in compiled_resolver.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.usd.resolver import (
    PLUGIN_FILE,
    PackageResolution,
    build_key,
    context_with,
    default_directory,
    libraries,
    openusd_version,
    register_resolver,
)
from usd_ros_bridge.usd.resolver.build import ResolverBuildError, build

Write = Callable[..., str]

TOPIC = 'def Xform "Robot" (prepend apiSchemas = ["RosTopicAPI"]) {}'


@pytest.fixture
def sensors(write: Write, tmp_path: Path) -> Path:
    write(TOPIC, "sensors/lidar.usda")
    return tmp_path / "sensors"


def in_another_process(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- Contexts -----------------------------------------------------------------------------------------------------


def test_a_directory_that_openusd_cannot_be_told() -> None:
    with pytest.raises(OptionError, match="package a: its directory has characters"):
        context_with({"a": Path("/tmp/two\nlines")}, "")


# --- Other plugins, and none --------------------------------------------------------------------------------------

READ = """
from usd_ros_bridge.usd import open_stage, quiet, read_stage
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd.resolver import resolution_in_use
with quiet():
    stage = open_stage({asset!r}, ReadOptions(packages={{"sensors": {sensors!r}}}))
    records = read_stage(stage, asset={asset!r})
print(resolution_in_use().value, [topic.path for topic in records.topics], [d.code for d in records.diagnostics])
"""


@pytest.fixture
def asset(write: Write, sensors: Path) -> str:
    return write(
        """def Xform "Robot" {
    def "a" (prepend references = @package://sensors/lidar.usda@) {}
    def "b" (prepend references = @package://sensors/../asset.usda@) {}
}
"""
    )


@pytest.mark.process
def test_a_plugin_for_another_openusd_is_no_hindrance(asset: str, sensors: Path, tmp_path: Path) -> None:
    """One that does not load: links it is."""
    source = Path(sys.modules["usd_ros_bridge.usd.resolver"].__file__ or "").parent
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / PLUGIN_FILE).write_text((source / PLUGIN_FILE).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "libusdRosBridgePackages.so").write_bytes(b"no library")
    said = in_another_process(
        READ.format(asset=asset, sensors=str(sensors)),
        PXR_PLUGINPATH_NAME=str(folder),
        XDG_DATA_HOME=str(tmp_path),
    )
    assert said == "links ['/Robot/a'] ['1.2.5.package']\n"


@pytest.mark.process
def test_a_plugin_where_the_bridge_looks_that_does_not_load(
    asset: str, sensors: Path, tmp_path: Path
) -> None:
    source = Path(sys.modules["usd_ros_bridge.usd.resolver"].__file__ or "").parent
    folder = tmp_path / "usd_ros_bridge/resolver" / build_key()
    folder.mkdir(parents=True)
    (folder / PLUGIN_FILE).write_text((source / PLUGIN_FILE).read_text(encoding="utf-8"), encoding="utf-8")
    said = in_another_process(READ.format(asset=asset, sensors=str(sensors)), XDG_DATA_HOME=str(tmp_path))
    assert said == "links ['/Robot/a'] ['1.2.5.package']\n"


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("/data", "/data"), ("relative", "{home}/.local/share"), ("", "{home}/.local/share")],
)
def test_it_is_never_looked_for_in_the_working_directory(
    variable: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = expected.format(home=tmp_path)
    assert default_directory() == Path(expected) / "usd_ros_bridge/resolver" / build_key()
    monkeypatch.setenv("HOME", "~")
    assert default_directory().is_absolute()


# --- Building -----------------------------------------------------------------------------------------------------


def test_the_library_of_this_openusd_is_known() -> None:
    assert libraries()
    assert all("usd" in path.name.lower() or "pxr" in path.name.lower() for path in libraries())
    assert build_key().startswith(f"{openusd_version()}-cp{sys.version_info.major}{sys.version_info.minor}-")


def headers_of(version: str, folder: Path) -> Path:
    _, minor, patch = ("0." + version).split(".")
    (folder / "pxr").mkdir(parents=True)
    (folder / "pxr/pxr.h").write_text(
        f"#define PXR_MAJOR_VERSION 0\n#define PXR_MINOR_VERSION {minor}\n#define PXR_PATCH_VERSION {patch}\n",
        encoding="utf-8",
    )
    return folder


def test_headers_of_another_release_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ResolverBuildError, match=r"headers are of OpenUSD 24\.8, and OpenUSD 26\.\d+ runs here"
    ):
        build(headers=headers_of("24.8", tmp_path / "h"), directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.process
@pytest.mark.parametrize("layout", ["", "include"])
def test_a_compiler_that_fails_leaves_what_was_there(layout: str, tmp_path: Path) -> None:
    headers_of(openusd_version(), tmp_path / "h" / layout)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / PLUGIN_FILE).touch()
    with pytest.raises(ResolverBuildError, match=r"^the compiler failed: .*error.*pxr/base/tf/diagnostic\.h"):
        build(headers=tmp_path / "h", directory=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "out"]
    assert (tmp_path / "out" / PLUGIN_FILE).exists()


@each_case(
    ("outcomes", "said"),
    [
        ([subprocess.TimeoutExpired("c++", 1)], r"the compiler took longer than \d+ s"),
        (
            [subprocess.CalledProcessError(1, "c++", stderr="note\nx.cpp:1: error: no\n")],
            "the compiler failed: x.cpp:1: error: no",
        ),
        ([None, subprocess.TimeoutExpired("python", 1)], r"the plugin does not answer within \d+ s"),
        (
            [None, subprocess.CompletedProcess("python", 1, "", "Traceback\nImportError: it")],
            "the plugin does not work: ImportError: it",
        ),
    ],
)
def test_programs_that_fail_leave_nothing(outcomes: list[Any], said: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", Mock(side_effect=outcomes))
        with pytest.raises(ResolverBuildError, match=f"^{said}$"):
            build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["h"]


def test_what_works_replaces_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    for name in (PLUGIN_FILE, "libusdRosBridgePackages.so"):
        (tmp_path / "out" / name).touch()
    monkeypatch.setattr(subprocess, "run", Mock(return_value=subprocess.CompletedProcess("python", 0)))
    assert build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PLUGIN_FILE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "out"]


@pytest.mark.process
def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++ -m64")
    with pytest.raises(ResolverBuildError, match=r"no C\+\+ compiler '/nowhere/c\+\+'"):
        build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/robot.usda").touch()
    with pytest.raises(ResolverBuildError, match=r"none of the plugin's, such as 'robot\.usda'"):
        build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")
    assert (tmp_path / "out/robot.usda").exists()


def test_a_folder_without_headers(tmp_path: Path) -> None:
    with pytest.raises(ResolverBuildError, match=r"holds neither pxr/pxr\.h nor the folder pxr-ar"):
        build(headers=tmp_path, directory=tmp_path / "out")


# --- The command --------------------------------------------------------------------------------------------------


def command(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "usd_ros_bridge.cli", "resolver", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.process
def test_the_command_says_how_packages_are_resolved() -> None:
    status, out, err = command()
    way = {PackageResolution.PLUGIN: "the compiled resolver", PackageResolution.LINKS: "links"}[
        register_resolver()
    ]
    assert (status, err) == (0, "")
    assert out.startswith(f"package:// is resolved by {way}")
    assert f"OpenUSD {openusd_version()}\n{default_directory()} (" in out


@pytest.mark.process
def test_the_commands_mistakes(tmp_path: Path) -> None:
    assert command("--headers", str(tmp_path)) == (
        2, "", "usd_ros_bridge: --headers and --directory go with --build\n",
    )  # fmt: skip
    status, out, err = command("--build", "--headers", str(tmp_path))
    assert (status, out) == (2, "")
    assert err.startswith(f"usd_ros_bridge: {tmp_path} holds neither")
