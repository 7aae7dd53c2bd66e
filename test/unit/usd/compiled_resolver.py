"""The compiled ArResolver for package://: what it gives a host, and that it agrees with the bridge.

No test_*.py: it needs the plugin, so `make test-resolver` names this file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pxr import Ar, Sdf, Usd
from reading import read_asset
from test_resolver import READ, TOPIC, Write, asset, in_another_process, sensors

from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.packages import PackageMap
from usd_ros_bridge.usd.resolver import (
    PLUGIN_FILE,
    PackageResolution,
    context_with,
    default_directory,
    packages_in,
    register_resolver,
)
from usd_ros_bridge.usd.resolver.build import ResolverBuildError, build

__all__ = ["asset", "sensors"]

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def plugin() -> None:
    assert register_resolver() is PackageResolution.PLUGIN


def test_a_hosts_stage_with_a_map_of_its_own(write: Write, sensors: Path) -> None:
    path = write('def Xform "Robot" (prepend references = @package://mine/lidar.usda@) {}')
    context = Ar.GetResolver().CreateContextFromStrings([("package", f"mine={sensors}\n")])
    records = read_stage(Usd.Stage.Open(path, context), asset=path)
    assert [topic.path for topic in records.topics] == ["/Robot"]
    assert records.diagnostics == ()


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


def test_what_is_added_later_is_found(write: Write, sensors: Path) -> None:
    path = write('def Xform "Robot"\n{\n    def "a" {}\n}')
    stage, _ = read_asset(path, ReadOptions(packages={"sensors": str(sensors)}))
    stage.GetPrimAtPath("/Robot/a").GetReferences().AddReference("package://sensors/lidar.usda")
    assert stage.GetPrimAtPath("/Robot/a").GetPrimTypeInfo().GetAppliedAPISchemas() == ["RosTopicAPI"]


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


def test_a_layer_is_made_and_saved_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(tmp_path))
    assert Sdf.Layer.CreateNew("package://made/new.usda").Save()
    assert (tmp_path / "made/new.usda").is_file()


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


@pytest.mark.parametrize("line", ["no_equals_sign", "=/tmp", "../a=/tmp", "a b=/tmp"])
def test_a_line_of_a_context_that_is_not_possible_is_left_out(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = Ar.GetResolver().CreateContextFromStrings([("package", f"{line}\ngood={tmp_path}\n")])
    assert packages_in(context) == {"good": str(tmp_path)}
    assert f"'{line}' is no name=directory" in capfd.readouterr().err


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


def test_a_layer_is_one_however_its_path_is_spelt(tree: dict[str, Path]) -> None:
    (tree["sensors"] / "b.usda").write_text("#usda 1.0\n", encoding="utf-8")
    paths = ("package:/sensors/b.usda", "package://sensors/a/.././b.usda", "package:///sensors//b.usda")
    with Ar.ResolverContextBinder(context_with(tree, "")):
        layers = [Sdf.Layer.FindOrOpen(path) for path in paths]
    assert [layer.identifier for layer in layers] == ["package://sensors/b.usda"] * 3
    assert layers[0] == layers[1] == layers[2]


@pytest.mark.parametrize(
    "path", ["PACKAGE://sensors/b.usda", "Package:/sensors/b.usda", "package:sensors/b.usda"]
)
def test_what_links_do_not_resolve_is_not_resolved(path: str, tree: dict[str, Path]) -> None:
    with Ar.ResolverContextBinder(context_with(tree, "")):
        assert Ar.GetResolver().Resolve("package:/sensors/b.usda")
        assert not Ar.GetResolver().Resolve(path)


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


@pytest.mark.parametrize(
    ("environment", "way"), [({}, "plugin"), ({"PXR_AR_DISABLE_PLUGIN_URI_RESOLVERS": "1"}, "links")]
)
def test_both_ways_say_the_same(environment: dict[str, str], way: str, asset: str, sensors: Path) -> None:
    said = in_another_process(READ.format(asset=asset, sensors=str(sensors)), **environment)
    assert said == f"{way} ['/Robot/a'] ['1.2.5.package']\n"


def test_a_process_that_resolved_before_uses_links(asset: str, sensors: Path) -> None:
    before = "from pxr import Ar\nAr.GetResolver().Resolve('/tmp')\n"
    said = in_another_process(before + READ.format(asset=asset, sensors=str(sensors)))
    assert said == "links ['/Robot/a'] ['1.2.5.package']\n"


def test_a_library_that_does_not_work_is_not_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the compiler says of it."""
    compiler = tmp_path / "cxx"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n', encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(ResolverBuildError, match=r"^the plugin does not work: "):
        build(directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_it_is_built_anew_over_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / PLUGIN_FILE).write_text("old", encoding="utf-8")
    assert build(directory=tmp_path / "out") == tmp_path / "out"
    assert (tmp_path / "out" / PLUGIN_FILE).read_text(encoding="utf-8") != "old"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "libusdRosBridgePackages.so",
        PLUGIN_FILE,
    ]


def test_where_it_is_looked_for() -> None:
    assert (default_directory() / PLUGIN_FILE).is_file()
