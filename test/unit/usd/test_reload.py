"""Which files a stage is made of; what is read again, and what is refused before anything is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pxr import Sdf, Usd, UsdUtils

from usd_ros_bridge.errors import AssetError
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.edit.reload import asset_files, reload
from usd_ros_bridge.usd.resolver import PackageResolution, resolution_in_use

PART = """#usda 1.0
(
    defaultPrim = "part"
)
def Xform "part" {{
    double x = {0}
}}
"""

ROOT = """#usda 1.0
(
    defaultPrim = "robot"
    subLayers = [@layer.usda@]
)
def Xform "robot" {
    def "packaged" (references = @package://parts/packaged.usda@) {}
    def "zipped" (references = @zipped.usdz@) {}
    def "paid" (payload = @./deep/paid.usda@) {}
    def "absent" (references = @absent.usda@) {}
}
"""


class Asset:
    """An asset of several files, open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("layer.usda", '#usda 1.0\nover "robot"\n{\n    double y = 1\n}\n')
        self.write("deep/paid.usda", PART.format(1))
        self.write("parts/packaged.usda", PART.format(1))
        self.zip(1)
        self.write("robot.usda", ROOT)
        packages = {"parts": str(folder / "parts")}
        with quiet():
            self.stage = open_stage(str(folder / "robot.usda"), ReadOptions(packages=packages))

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def zip(self, value: int) -> None:
        inner = self.write("zip/inner.usda", PART.format(value))
        UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(inner), str(self.folder / "zipped.usdz"))

    def value(self, name: str) -> Any:
        return self.stage.GetPrimAtPath(f"/robot/{name}").GetAttribute("x").Get()

    def values(self) -> list[Any]:
        return [self.value(name) for name in ("packaged", "zipped", "paid")]

    def file(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture
def asset(tmp_path: Path) -> Asset:
    return Asset(tmp_path)


def test_files_behind_every_arc_are_known_and_the_one_that_is_missing(asset: Asset) -> None:
    names = (
        "robot.usda",
        "layer.usda",
        "deep/paid.usda",
        "parts/packaged.usda",
        "zipped.usdz",
        "absent.usda",
    )
    assert asset_files(asset.stage) == {asset.file(name) for name in names}
    assert asset_files(Usd.Stage.CreateInMemory()) == set()


def test_files_that_changed_are_read_again(asset: Asset) -> None:
    asset.write("parts/packaged.usda", PART.format(2))
    asset.write("deep/paid.usda", PART.format(2))
    assert reload(asset.stage, [asset.file("parts/packaged.usda")]) == (asset.file("parts/packaged.usda"),)
    assert asset.values() == [2.0, 1.0, 1.0]
    asset.zip(3)
    assert len(reload(asset.stage)) == 5
    assert asset.values() == [2.0, 3.0, 2.0]


def test_a_link_and_what_it_leads_to_are_one_file(asset: Asset) -> None:
    path = Path(asset.file("deep/paid.usda"))
    real = path.with_name("real.usda")
    path.rename(real)
    path.symlink_to(real)
    for value in (4, 5):
        real.write_text(PART.format(value), encoding="utf-8")
        reload(asset.stage, [str(real if value == 4 else path)])
        assert asset.value("paid") == value


def test_a_file_that_was_missing_is_composed_once_it_is_there(asset: Asset) -> None:
    absent = asset.write("absent.usda", PART.format(7))
    reload(asset.stage, [absent])
    assert asset.value("absent") == 7.0
    asset.write("absent.usda", PART.format(8))
    assert reload(asset.stage, [absent]) == (absent,)
    assert asset.value("absent") == 8.0


def test_a_selection_on_the_session_layer_stays(asset: Asset) -> None:
    with Usd.EditContext(asset.stage, asset.stage.GetSessionLayer()):
        asset.stage.DefinePrim("/robot/spawned")
    reload(asset.stage)
    assert asset.stage.GetPrimAtPath("/robot/spawned")


def remove(asset: Asset) -> None:
    Path(asset.file("deep/paid.usda")).unlink()


def half(asset: Asset) -> None:
    asset.write("deep/paid.usda", PART.format(2)[:-3])


def empty(asset: Asset) -> None:
    asset.write("deep/paid.usda", "")


def garbage(asset: Asset) -> None:
    Path(asset.file("deep/paid.usda")).write_bytes(os.urandom(100))


def no_default_prim(asset: Asset) -> None:
    asset.write("robot.usda", ROOT.replace('defaultPrim = "robot"', ""))


def leaving(asset: Asset) -> None:
    asset.write("robot.usda", ROOT.replace("parts/packaged.usda", "parts/../deep/paid.usda"))


def other_package(asset: Asset) -> None:
    asset.write("deep/paid.usda", ROOT.replace("parts/packaged.usda", "other/packaged.usda"))


def leaving_from_a_new_file(asset: Asset) -> None:
    asset.write("new.usda", ROOT.replace("parts/packaged.usda", "parts/../deep/paid.usda"))
    asset.write("robot.usda", ROOT.replace("absent.usda", "new.usda"))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (remove, "'paid.usda': No such file"),
        (half, "'paid.usda': .*Expected }"),
        (empty, "'paid.usda': the file is empty"),
        (garbage, "'paid.usda'"),
        (no_default_prim, "'robot.usda' has no default prim any more; it had 'robot'"),
        (leaving, "leaves the package 'parts'"),
        (other_package, "names the package 'other', which is new"),
        (leaving_from_a_new_file, "leaves the package 'parts'"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_read(
    asset: Asset, spoil: Callable[[Asset], None], reason: str
) -> None:
    if spoil is other_package and resolution_in_use() is PackageResolution.PLUGIN:
        pytest.skip("the compiled resolver needs no links made: it looks for new packages, too")
    asset.write("parts/packaged.usda", PART.format(2))
    spoil(asset)
    with pytest.raises(AssetError, match=reason):
        reload(asset.stage)
    assert asset.values() == [1.0, 1.0, 1.0]
    assert asset.stage.GetPrimAtPath("/robot").GetAttribute("y").Get() == 1.0
    # Once it is right again, all of it is read.
    asset.write("robot.usda", ROOT)
    asset.write("deep/paid.usda", PART.format(3))
    reload(asset.stage)
    assert asset.values() == [2.0, 1.0, 3.0]


def test_a_file_may_go_when_nothing_leads_to_it_any_more(asset: Asset) -> None:
    remove(asset)
    with pytest.raises(AssetError, match=r"'paid.usda': No such file"):
        reload(asset.stage)
    robot = asset.write("robot.usda", ROOT.replace("(payload = @./deep/paid.usda@)", ""))
    assert robot in reload(asset.stage, [robot, asset.file("deep/paid.usda")])
    assert asset.value("paid") is None
    assert asset.file("deep/paid.usda") not in asset_files(asset.stage)
