"""Value clips that OpenUSD does not survive are left out before anything is composed; the rest of the asset works."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

import numpy as np
from pxr import Sdf

from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import AssetError
from usd_ros_bridge.usd import open_stage
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.edit.spawn import MissingAssetsError, Spawner
from usd_ros_bridge.usd.layer_scan import MOST_CLIPS

LISTED = {
    "assetPaths": "asset[] assetPaths = [@./clip.usda@]",
    "active": "double2[] active = [(0, 0)]",
    "times": "double2[] times = [(0, 0), (10, 10)]",
}
TEMPLATE = {
    "template": 'string templateAssetPath = "clip.#.usda"',
    "stride": "double templateStride = 1",
    "start": "double templateStartTime = 1",
    "end": "double templateEndTime = 3",
}
PRIM = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
)
def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
    %s
) {
    double3 xformOp:translate
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""


def clips(lines: dict[str, str], **changed: str) -> str:
    common = {"prim": 'string primPath = "/robot"', "manifest": "asset manifestAssetPath = @./manifest.usda@"}
    return "\n".join(["clips = {\ndictionary default = {", *(common | lines | changed).values(), "}\n}"])


def write(folder: Path, metadata: str, name: str = "asset.usda") -> Path:
    samples = "double3 xformOp:translate.timeSamples = {0: (1, 0, 0), 10: (2, 0, 0)}"
    for number in ("", ".1", ".2", ".3"):
        (folder / f"clip{number}.usda").write_text(
            f'#usda 1.0\nover "robot" {{\n{samples}\n}}\n', encoding="utf-8"
        )
    (folder / "manifest.usda").write_text(
        '#usda 1.0\nover "robot" {\ndouble3 xformOp:translate\n}\n', encoding="utf-8"
    )
    file = folder / name
    text = PRIM % metadata
    if file.suffix == ".usdc":
        layer = Sdf.Layer.CreateAnonymous(".usda")
        layer.ImportFromString(text)
        layer.Export(str(file))
    else:
        file.write_text(text, encoding="utf-8")
    return file


UNUSABLE = {
    "clip number": (clips(LISTED, active="double2[] active = [(0, nan)]"), "active has numbers that are not finite"),
    "stage time": (clips(LISTED, times="double2[] times = [(inf, 0), (nan, 1)]"), "times has numbers"),
    "clip time": (clips(LISTED, times="double2[] times = [(0, -inf)]"), "times has numbers"),
    "stride": (clips(TEMPLATE, stride="double templateStride = 1e-9"), f"more than {MOST_CLIPS:,} clips"),
    "least stride": (clips(TEMPLATE, stride="double templateStride = 5e-324"), f"more than {MOST_CLIPS:,} clips"),
    "range": (clips(TEMPLATE, end="double templateEndTime = 1e300"), f"more than {MOST_CLIPS:,} clips"),
    "lost stride": (
        clips(TEMPLATE, start="double templateStartTime = 1e17", end="double templateEndTime = 1.0000000000001e17"),
        "a stride of 1 is too small",
    ),
    "endless": (clips(TEMPLATE, end="double templateEndTime = inf"), "templateEndTime has numbers"),
    "offset": (clips(TEMPLATE, offset="double templateActiveOffset = nan"), "templateActiveOffset has numbers"),
    "part of a range": (clips({"stride": TEMPLATE["stride"]}), "not all of templateStartTime"),
}  # fmt: skip


@each_case("name", ["asset.usda", "asset.usdc"])
@each_case("kind", UNUSABLE)
def test_unusable_clips_are_left_out_with_a_diagnostic(tmp_path: Path, kind: str, name: str) -> None:
    metadata, message = UNUSABLE[kind]
    file = write(tmp_path, metadata, name)
    before = file.read_bytes()
    plan = load_plan(str(file), physics=True)
    found = [each for each in plan.diagnostics if each.code == "1.2.5.clips"]
    assert [each.severity for each in found] == ["error"]
    assert "/robot" in found[0].message
    assert message in found[0].message
    assert [robot.path for robot in plan.robots] == ["/robot"]
    assert file.read_bytes() == before


@each_case("lines", [LISTED, TEMPLATE])
def test_usable_clips_are_composed(tmp_path: Path, lines: dict[str, str]) -> None:
    file = write(tmp_path, clips(lines))
    stage = open_stage(str(file))
    attribute = stage.GetPrimAtPath("/robot").GetAttribute("xformOp:translate")
    assert attribute.GetNumTimeSamples() >= 2
    assert not [each for each in load_plan(str(file)).diagnostics if each.code == "1.2.5.clips"]


def test_clips_in_a_variant_that_is_not_selected_and_behind_a_reference_are_left_out(tmp_path: Path) -> None:
    variant = 'variantSets = "v"\nvariants = {\nstring v = "b"\n}'
    broken = UNUSABLE["clip number"][0]
    write(tmp_path, variant, "referenced.usda")
    text = (tmp_path / "referenced.usda").read_text(encoding="utf-8")
    inside = f'variantSet "v" = {{\n"a" (\n{broken}\n) {{\n}}\n"b" {{\n}}\n}}\n}}\n'
    (tmp_path / "referenced.usda").write_text(text.rstrip().removesuffix("}") + inside, encoding="utf-8")
    file = write(tmp_path, "references = @./referenced.usda@")
    (found,) = [each for each in load_plan(str(file)).diagnostics if each.code == "1.2.5.clips"]
    assert "/robot{v=a}" in found.message
    stage = open_stage(str(file))
    stage.GetPrimAtPath("/robot").GetVariantSet("v").SetVariantSelection("a")
    assert stage.GetPrimAtPath("/robot").GetAttribute("xformOp:translate").GetNumTimeSamples() == 0


def test_a_file_that_gets_unusable_clips_is_not_read_again(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    stage = open_stage(str(file))
    write(tmp_path, UNUSABLE["clip number"][0])
    os.utime(file, (1, 1))
    with pytest.raises(AssetError, match="value clips at /robot"):
        reload(stage)
    assert not stage.GetPrimAtPath("/robot").HasAuthoredMetadata("clips")


def test_an_asset_with_unusable_clips_is_not_spawned(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    stage = open_stage(str(write(tmp_path / "world", "")))
    file = write(tmp_path, UNUSABLE["clip number"][0])
    with pytest.raises(MissingAssetsError, match="value clips of /robot"):
        Spawner(stage).spawn("new", file, namespace="", world_from_prim=np.array([0.0, 0, 0, 0, 0, 0, 1]))
    assert not stage.GetPrimAtPath("/new")
