"""package://: where it leads, and what is not followed (REP 0158 section 1.2.5).

Every test runs for both ways of resolving. OpenUSD collects resolvers once in a process, so a process runs those of one
way: `make test` those of links, `make test-resolver` builds the compiled resolver and runs both, in two processes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pxr import Usd, UsdUtils
from reading import read_asset

from case_tables import each_case
from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import Payloads, ReadOptions
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.packages import PackageMap, split_package_path
from usd_ros_bridge.usd.resolver import PackageResolution, register_resolver

Write = Callable[..., str]

TOPIC = 'def Xform "Robot" (prepend apiSchemas = ["RosTopicAPI"]) {}'


@pytest.fixture(autouse=True)
def way() -> PackageResolution:
    found = register_resolver()
    assert found.value == os.environ.get("EXPECTED_WAY", found.value)
    return found


@pytest.fixture
def sensors(write: Write, tmp_path: Path) -> Path:
    write(TOPIC, "sensors/lidar.usda")
    write(
        'def Xform "Robot"\n{\ndef "unit" (prepend references = @package://sensors/lidar.usda@) {}\n}',
        "sensors/rig.usda",
    )
    write('def Xform "Robot" (prepend references = @./../lidar.usda@) {}', "sensors/sub/near.usda")
    write(TOPIC, "secret.usda")
    return tmp_path / "sensors"


NUMBERS = itertools.count()


def reading(write: Write, arcs: str, **packages: Path) -> StageRecords:
    path = write(f'def Xform "Robot"\n{{\n{arcs}\n}}\n', f"asset_{next(NUMBERS)}.usda")
    _, records = read_asset(path, ReadOptions(packages={name: str(path) for name, path in packages.items()}))
    return records


def test_references_payloads_and_nested_ones(write: Write, sensors: Path) -> None:
    records = reading(
        write,
        """
def "a" (prepend references = @package://sensors/lidar.usda@) {}
def "b" (prepend payload = @package://sensors/rig.usda@) {}
def "c" (prepend references = @package://sensors/sub/near.usda@) {}
def "d" (prepend references = @package://sensors/sub/../lidar.usda@) {}
""",
        sensors=sensors,
    )
    assert [record.path for record in records.topics] == ["/Robot/a", "/Robot/b/unit", "/Robot/c", "/Robot/d"]
    assert [(each.code, each.path) for each in records.diagnostics] == [("2.2.payload", "/Robot/b")]


def test_sublayers(write: Write, sensors: Path) -> None:
    header = """#usda 1.0
(
    defaultPrim = "Robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
    timeCodesPerSecond = 1
    subLayers = [@package://sensors/lidar.usda@, @package://sensors/../secret.usda@, @package://gone/x.usda@]
)
"""
    _, records = read_asset(write("", header=header), ReadOptions(packages={"sensors": str(sensors)}))
    assert [record.path for record in records.topics] == ["/Robot"]
    assert sorted((d.code, d.severity) for d in records.diagnostics) == [("1.2.5.package", "error")] * 2


@each_case(
    "arc",
    [
        "package://sensors/../secret.usda",
        "package://sensors/sub/../../secret.usda",
        "package://sensors/sub\\deep/../../../secret.usda",
        "package://sensors/../sensors/lidar.usda",
        "package:/sensors/../secret.usda",
        "package://nobody_has_this/lidar.usda",
        "package://../secret.usda",
        "package://",
    ],
)
@each_case("kind", ["references", "payload"])
def test_what_leaves_its_package_or_has_none_is_not_composed(
    write: Write, sensors: Path, arc: str, kind: str
) -> None:
    arcs = f'def "x" (prepend {kind} = @{arc}@) {{}}\ndef "y" (prepend apiSchemas = ["RosTopicAPI"]) {{}}'
    records = reading(write, arcs, sensors=sensors)
    assert [record.path for record in records.topics] == ["/Robot/y"]
    (diagnostic,) = records.diagnostics
    assert (diagnostic.code, diagnostic.severity, diagnostic.path) == ("1.2.5.package", "error", "/Robot/x")
    assert quoted(arc) in diagnostic.message


def test_a_refused_arc_deep_in_another_layer(write: Write, sensors: Path) -> None:
    write(
        'def Xform "Robot"\n{\ndef "in" (prepend references = @package://sensors/../secret.usda@) {}\n}',
        "deep.usda",
    )
    records = reading(write, 'def "a" (prepend references = @./deep.usda@) {}', sensors=sensors)
    assert records.topics == ()
    assert [(d.code, d.path) for d in records.diagnostics] == [("1.2.5.package", "/Robot/a/in")]


def test_a_refusal_is_that_of_its_own_prim_and_layer(write: Write, sensors: Path) -> None:
    """Two layers name the same unknown package, and a third has a syntax error in a line that names it."""
    arc = "references = @package://gone/x.usda@"
    write(f'def "Robot"\n{{\n    def "in" ({arc})\n    {{\n    }}\n}}', "deep.usda")
    write(f'def "Robot"\n{{\n    def "bad" ({arc}) wrong\n}}', "broken.usda")
    body = (
        f'def "a" ({arc}) {{}}\ndef "b" (references = @./deep.usda@) {{}}\n'
        'def "c" (references = @./broken.usda@) {}'
    )
    found = {d.path: d for d in reading(write, body, sensors=sensors).diagnostics}
    assert {path: each.code for path, each in found.items()} == {
        "/Robot/a": "1.2.5.package",
        "/Robot/b/in": "1.2.5.package",
        "/Robot/c": "1.2.5.asset",
    }
    assert "in the layer 'deep.usda'" in found["/Robot/b/in"].message
    assert "in the layer 'deep.usda'" not in found["/Robot/a"].message


def test_a_refused_path_takes_no_layer_from_those_who_name_it_rightly(write: Write, sensors: Path) -> None:
    records = reading(
        write,
        'def "a" (prepend references = @package://sensors/lidar.usda@) {}\n'
        'def "b" (prepend references = @package://gone/../sensors/lidar.usda@) {}',
        sensors=sensors,
    )
    assert "/Robot/a" in [record.path for record in records.topics]
    (diagnostic,) = [each for each in records.diagnostics if each.code == "1.2.5.package"]
    assert "package://gone/../sensors/lidar.usda" in diagnostic.message
    assert diagnostic.path in ("", "/Robot/b")


def test_arcs_in_variants_that_are_not_selected_are_judged(write: Write, sensors: Path) -> None:
    records = reading(
        write,
        """
def "a" (
    prepend variantSets = "s"
    variants = {
        string s = "one"
    }
) {
    variantSet "s" = {
        "one" {}
        "two" (
            prepend references = @package://sensors/../secret.usda@
        ) {}
    }
}
""",
        sensors=sensors,
    )
    assert [(d.code, d.path) for d in records.diagnostics] == [("1.2.5.package", "")]


@each_case(("payloads", "count"), [("all", 1), ("none", 0)])
def test_a_refused_arc_leaves_the_choice_of_payloads_alone(
    write: Write, sensors: Path, payloads: Payloads, count: int
) -> None:
    path = write(
        """def Xform "Robot" {
    def "a" (prepend payload = @package://sensors/lidar.usda@) {}
    def "b" (prepend references = @package://sensors/../secret.usda@) {}
}
"""
    )
    _, records = read_asset(path, ReadOptions(packages={"sensors": str(sensors)}, payloads=payloads))
    assert [record.path for record in records.topics] == ["/Robot/a"] * count
    assert [d.path for d in records.diagnostics] == ["/Robot/b"]


def test_asset_values_are_judged_and_not_opened(write: Write, sensors: Path) -> None:
    records = reading(
        write,
        "asset inside = @package://sensors/texture.png@\nasset outside = @package://sensors/../texture.png@",
        sensors=sensors,
    )
    (diagnostic,) = records.diagnostics
    assert diagnostic.code == "1.2.5.package"
    assert "'package://sensors/../texture.png'" in diagnostic.message


def test_payloads_are_not_visited_where_they_are_not_loaded(write: Write) -> None:
    write("this is no layer", "heavy.usda", header="")
    path = write('def Xform "Robot" (prepend payload = @./heavy.usda@) {}')
    _, records = read_asset(path, ReadOptions(payloads="none"))
    assert records.diagnostics == ()


def test_a_package_as_the_asset(sensors: Path) -> None:
    _, records = read_asset("package://sensors/rig.usda", ReadOptions(packages={"sensors": str(sensors)}))
    assert [record.path for record in records.topics] == ["/Robot/unit"]


def test_usdz(write: Write, sensors: Path) -> None:
    inner = write(TOPIC, "inner.usda")
    assert UsdUtils.CreateNewUsdzPackage(inner, str(sensors / "packed.usdz"))
    records = reading(
        write, 'def "a" (prepend references = @package://sensors/packed.usdz@) {}', sensors=sensors
    )
    assert [record.path for record in records.topics] == ["/Robot/a"]


def test_where_packages_are_looked_for(
    sensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "install"
    index = prefix / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    (index / "sensors").touch()
    (prefix / "share/unindexed").mkdir()
    workspace = tmp_path / "workspace"
    (workspace / "sensors").mkdir(parents=True)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{prefix}")
    monkeypatch.delenv("USD_ROS_PACKAGE_PATH", raising=False)
    assert PackageMap().directory("sensors") == prefix / "share/sensors"
    assert PackageMap().directory("unindexed") is None
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(workspace))
    assert PackageMap().directory("sensors") == workspace / "sensors"
    assert PackageMap({"sensors": str(sensors)}).directory("sensors") == sensors
    assert PackageMap().directory("..") is None


@each_case(("name", "directory"), [("a", "/no/such/directory"), ("../a", "/"), ("", "/"), ("a b", "/")])
def test_a_package_option_that_is_not_possible(name: str, directory: str) -> None:
    with pytest.raises(OptionError):
        PackageMap({name: directory})


def test_a_hosts_stage_resolves_as_the_host_does(
    write: Write, sensors: Path, way: PackageResolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(sensors.parent))
    path = write('def Xform "Robot" (prepend references = @package://sensors/lidar.usda@) {}')
    records = read_stage(Usd.Stage.Open(path), asset=path)
    found = [(d.code, d.severity) for d in records.diagnostics]
    if way is PackageResolution.LINKS:
        assert found == [("1.2.5.package", "info"), ("1.2.5.asset", "error")]
    else:
        assert [topic.path for topic in records.topics] == ["/Robot"]
        assert found == []


@each_case(
    ("text", "name", "path"),
    [
        ("package://a/b/c.usda", "a", "b/c.usda"),
        ("package:/a/b/../c.usda", "a", "c.usda"),
        ("package://a", "a", "."),
        ("package://a/../b", "a", None),
        ("package://a/b/../../../c", "a", None),
        ("package://a/b\\..\\..\\c", "a", None),
        ("package://a/b\\c/../../d", "a", None),
        ("package://a//etc/passwd", "a", "etc/passwd"),
        ("package:///a//b", "a", "b"),
    ],
)
def test_splitting(text: str, name: str, path: str | None) -> None:
    found_name, found = split_package_path(text)
    assert (found_name, None if found is None else str(found)) == (name, path)
