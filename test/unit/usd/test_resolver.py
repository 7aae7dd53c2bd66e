"""The compiled ArResolver for package://: what it gives a host, that it agrees with the bridge, and how it is built."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pxr import Ar, Sdf, Usd
from reading import read_asset

from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.packages import PackageMap
from usd_ros_bridge.usd.resolver import (
    PLUGIN_FILE,
    PackageResolution,
    build_key,
    context_with,
    default_directory,
    libraries,
    openusd_version,
    packages_in,
    register_resolver,
)
from usd_ros_bridge.usd.resolver.build import ResolverBuildError, build

Write = Callable[..., str]

TOPIC = 'def Xform "Robot" (prepend apiSchemas = ["RosTopicAPI"]) {}'


@pytest.fixture
def plugin() -> None:
    """For tests of what only the plugin does."""
    found = register_resolver()
    assert found.value == os.environ.get("EXPECTED_WAY", found.value)
    if found is not PackageResolution.PLUGIN:
        pytest.skip("the compiled resolver is not built for this OpenUSD: make test-resolver")


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


# --- On a host's stage --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugin")
def test_a_hosts_stage_with_a_map_of_its_own(write: Write, sensors: Path) -> None:
    path = write('def Xform "Robot" (prepend references = @package://mine/lidar.usda@) {}')
    context = Ar.GetResolver().CreateContextFromStrings([("package", f"mine={sensors}\n")])
    records = read_stage(Usd.Stage.Open(path, context), asset=path)
    assert [topic.path for topic in records.topics] == ["/Robot"]
    assert records.diagnostics == ()


@pytest.mark.usefixtures("plugin")
def test_what_a_hosts_stage_does_not_follow_is_said(
    write: Write, sensors: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(TOPIC, "said_once.usda")
    path = write(
        """def Xform "Robot" {
    def "a" (prepend references = @package://sensors/../said_once.usda@) {}
    def "b" (prepend references = @package://nobody_has_this/lidar.usda@) {}
    def "c" (prepend references = @package://sensors/gone.usda@) {}
    def "d" (prepend references = @package://sensors/lidar.usda@) {}
}
"""
    )
    context = Ar.GetResolver().CreateContextFromStrings([("package", f"sensors={sensors}\n")])
    records = read_stage(Usd.Stage.Open(path, context), asset=path)
    assert [topic.path for topic in records.topics] == ["/Robot/d"]
    assert [(d.code, d.severity, d.path) for d in records.diagnostics] == [
        ("1.2.5.package", "error", "/Robot/a"),
        ("1.2.5.package", "error", "/Robot/b"),
        ("1.2.5.asset", "error", "/Robot/c"),
    ]
    assert "it leaves the package 'sensors'" in records.diagnostics[0].message
    assert "no package 'nobody_has_this' is known" in records.diagnostics[1].message
    warned = capfd.readouterr().err
    assert (
        warned.count("'package://sensors/../said_once.usda' is not followed: it leaves the package 'sensors'")
        == 1
    )


@pytest.mark.usefixtures("plugin")
def test_two_stages_with_two_maps_share_no_layer(write: Write, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(f'def Xform "Robot" {{\n    def Xform "{name}" {{}}\n}}', f"{name}/robot.usda")
    path = write('def Xform "Robot" (prepend references = @package://robot/robot.usda@) {}')
    stages = {
        name: Usd.Stage.Open(Sdf.Layer.FindOrOpen(path), context_with({"robot": tmp_path / name}, ""))
        for name in ("one", "two")
    }
    for name, stage in stages.items():
        assert [prim.GetName() for prim in stage.GetPrimAtPath("/Robot").GetChildren()] == [name]


@pytest.mark.usefixtures("plugin")
def test_what_is_added_later_is_found(write: Write, sensors: Path) -> None:
    path = write('def Xform "Robot"\n{\n    def "a" {}\n}')
    stage, _ = read_asset(path, ReadOptions(packages={"sensors": str(sensors)}))
    stage.GetPrimAtPath("/Robot/a").GetReferences().AddReference("package://sensors/lidar.usda")
    assert stage.GetPrimAtPath("/Robot/a").GetPrimTypeInfo().GetAppliedAPISchemas() == ["RosTopicAPI"]


@pytest.mark.usefixtures("plugin")
def test_an_asset_that_changed_on_disk_may_name_new_packages(
    write: Write, sensors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(sensors.parent))
    path = write('def Xform "Robot"\n{\n    def "a" {}\n}')
    stage, _ = read_asset(path)
    write(
        """def Xform "Robot" {
    def "a" (prepend references = @package://sensors/lidar.usda@) {}
    def "b" (prepend references = @package://nobody_has_this/lidar.usda@) {}
}
"""
    )
    reload(stage)
    records = read_stage(stage, asset=path)
    assert [topic.path for topic in records.topics] == ["/Robot/a"]
    assert [(d.code, d.severity, d.path) for d in records.diagnostics] == [
        ("1.2.5.package", "error", "/Robot/b")
    ]


@pytest.mark.usefixtures("plugin")
def test_a_layer_that_changed_on_disk_is_read_again(
    write: Write, sensors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(sensors.parent))
    layer = Sdf.Layer.FindOrOpen("package://sensors/lidar.usda")
    assert not layer.Reload()
    write('def Xform "Robot" {}\ndef Xform "Other" {}', "sensors/lidar.usda")
    os.utime(sensors / "lidar.usda", (1, 1))
    assert layer.Reload()
    assert layer.GetPrimAtPath("/Other")


@pytest.mark.usefixtures("plugin")
def test_a_layer_is_made_and_saved_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(tmp_path))
    assert Sdf.Layer.CreateNew("package://made/new.usda").Save()
    assert (tmp_path / "made/new.usda").is_file()


# --- Contexts -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugin")
def test_a_context_holds_its_map(tmp_path: Path) -> None:
    context = context_with({"a": tmp_path, "b": tmp_path / "x=y"}, str(tmp_path))
    assert packages_in(context) == {"a": str(tmp_path), "b": str(tmp_path / "x=y")}
    assert context == context_with({"b": tmp_path / "x=y", "a": tmp_path}, str(tmp_path))
    assert context != context_with({"a": tmp_path}, str(tmp_path))
    other = context_with({"b": tmp_path}, str(tmp_path))
    assert (context < other, other < context) == (True, False)
    assert str(tmp_path) in repr(context)
    assert f"a={tmp_path}" in context.GetDebugString()
    assert packages_in(context_with({}, str(tmp_path))) == {}


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("line", ["no_equals_sign", "=/tmp", "../a=/tmp", "a b=/tmp"])
def test_a_line_of_a_context_that_is_not_possible_is_left_out(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = Ar.GetResolver().CreateContextFromStrings([("package", f"{line}\ngood={tmp_path}\n")])
    assert packages_in(context) == {"good": str(tmp_path)}
    assert f"'{line}' is no name=directory" in capfd.readouterr().err


def test_a_directory_that_openusd_cannot_be_told() -> None:
    with pytest.raises(OptionError, match="package a: its directory has characters"):
        context_with({"a": Path("/tmp/two\nlines")}, "")


# --- The same rules as the bridge's -------------------------------------------------------------------------------

PARTS = st.sampled_from(["a", "b.usda", "..", ".", "", "a\\b", "..\\..", "\\..", "c d", "ä", "%2e%2e"])
NAMES = st.sampled_from(["sensors", "sensors2", "nobody", "", "..", ".", "a\\b", "sens ors", "1a"])
PATHS = st.builds(
    lambda scheme, name, parts: scheme + "/".join([name, *parts]),
    st.sampled_from(["package://", "package:/", "package:///"]),
    NAMES,
    st.lists(PARTS, max_size=6),
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two packages where every path of PATHS that stays in one exists."""
    for folder in ("given", "found/sensors2"):
        for parts in (("a", "a", "a"), ("a\\b", "a", "a"), ("c d", "a"), ("ä",), ("%2e%2e",), ("\\..",)):
            (tmp_path / folder).joinpath(*parts).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "b.usda").touch()
        (tmp_path / folder / "a" / "b.usda").touch()
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(tmp_path / "found"))
    return {"sensors": tmp_path / "given"}


@pytest.mark.usefixtures("plugin")
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(path=PATHS)
@example(path="package://sensors/a\\b/../../b.usda")
@example(path="package://sensors2//b.usda")
@example(path="package://sensors/a/../b.usda")
def test_it_leads_where_the_bridge_says(path: str, tree: dict[str, Path]) -> None:
    expected = PackageMap({name: str(directory) for name, directory in tree.items()}).resolve(path)
    resolver = Ar.GetResolver()
    with Ar.ResolverContextBinder(context_with(tree, "")):
        found = resolver.Resolve(path).GetPathString()
        identifier = resolver.CreateIdentifier(path)
        assert found == (str(expected) if expected is not None and expected.exists() else "")
        assert resolver.CreateIdentifier(identifier) == identifier
        assert resolver.Resolve(identifier).GetPathString() == found


@pytest.mark.usefixtures("plugin")
def test_a_layer_is_one_however_its_path_is_spelt(tree: dict[str, Path]) -> None:
    (tree["sensors"] / "b.usda").write_text("#usda 1.0\n")
    paths = ("package:/sensors/b.usda", "package://sensors/a/.././b.usda", "package:///sensors//b.usda")
    with Ar.ResolverContextBinder(context_with(tree, "")):
        layers = [Sdf.Layer.FindOrOpen(path) for path in paths]
    assert [layer.identifier for layer in layers] == ["package://sensors/b.usda"] * 3
    assert layers[0] == layers[1] == layers[2]


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    "path", ["PACKAGE://sensors/b.usda", "Package:/sensors/b.usda", "package:sensors/b.usda"]
)
def test_what_links_do_not_resolve_is_not_resolved(path: str, tree: dict[str, Path]) -> None:
    with Ar.ResolverContextBinder(context_with(tree, "")):
        assert Ar.GetResolver().Resolve("package:/sensors/b.usda")
        assert not Ar.GetResolver().Resolve(path)


@pytest.mark.usefixtures("plugin")
def test_the_ament_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    for name in ("indexed", "unindexed"):
        (tmp_path / "share" / name).mkdir()
    (index / "indexed").touch()
    monkeypatch.delenv("USD_ROS_PACKAGE_PATH", raising=False)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere::{tmp_path}")
    assert Ar.GetResolver().Resolve("package://indexed").GetPathString() == str(tmp_path / "share/indexed")
    assert not Ar.GetResolver().Resolve("package://unindexed")


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
    (folder / PLUGIN_FILE).write_text((source / PLUGIN_FILE).read_text())
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
    (folder / PLUGIN_FILE).write_text((source / PLUGIN_FILE).read_text())
    said = in_another_process(READ.format(asset=asset, sensors=str(sensors)), XDG_DATA_HOME=str(tmp_path))
    assert said == "links ['/Robot/a'] ['1.2.5.package']\n"


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("environment", "way"), [({}, "plugin"), ({"PXR_AR_DISABLE_PLUGIN_URI_RESOLVERS": "1"}, "links")]
)
def test_both_ways_say_the_same(environment: dict[str, str], way: str, asset: str, sensors: Path) -> None:
    said = in_another_process(READ.format(asset=asset, sensors=str(sensors)), **environment)
    assert said == f"{way} ['/Robot/a'] ['1.2.5.package']\n"


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
def test_a_process_that_resolved_before_uses_links(asset: str, sensors: Path) -> None:
    before = "from pxr import Ar\nAr.GetResolver().Resolve('/tmp')\n"
    said = in_another_process(before + READ.format(asset=asset, sensors=str(sensors)))
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
        f"#define PXR_MAJOR_VERSION 0\n#define PXR_MINOR_VERSION {minor}\n#define PXR_PATCH_VERSION {patch}\n"
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
    (tmp_path / "out" / "kept").touch()
    with pytest.raises(ResolverBuildError, match=r"^the compiler failed: .*error.*pxr/base/tf/diagnostic\.h"):
        build(headers=tmp_path / "h", directory=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "out"]
    assert (tmp_path / "out" / "kept").exists()


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
    (tmp_path / "out" / "old").touch()
    monkeypatch.setattr(subprocess, "run", Mock(return_value=subprocess.CompletedProcess("python", 0)))
    assert build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PLUGIN_FILE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "out"]


@pytest.mark.process
def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++ -m64")
    with pytest.raises(ResolverBuildError, match=r"no C\+\+ compiler '/nowhere/c\+\+'"):
        build(headers=headers_of(openusd_version(), tmp_path / "h"), directory=tmp_path / "out")


def test_a_folder_without_headers(tmp_path: Path) -> None:
    with pytest.raises(ResolverBuildError, match=r"holds neither pxr/pxr\.h nor the folder pxr-ar"):
        build(headers=tmp_path, directory=tmp_path / "out")


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
def test_a_library_that_does_not_work_is_not_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the compiler says of it."""
    compiler = tmp_path / "cxx"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(ResolverBuildError, match=r"^the plugin does not work: "):
        build(directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
def test_it_is_built_anew_over_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").touch()
    assert build(directory=tmp_path / "out") == tmp_path / "out"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "libusdRosBridgePackages.so",
        PLUGIN_FILE,
    ]


@pytest.mark.usefixtures("plugin")
def test_where_it_is_looked_for() -> None:
    assert (default_directory() / PLUGIN_FILE).is_file()


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
