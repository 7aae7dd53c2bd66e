"""Opening: what the caller can get wrong, variants, payloads and quiet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pxr import Usd
from reading import read_asset

from case_tables import each_case
from usd_ros_bridge.errors import AssetError, VariantError
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.usd import open_stage, quiet

Write = Callable[..., str]

GRIPPERS = """
def Xform "Robot" (
    prepend variantSets = ["gripper"]
    variants = {
        string gripper = "none"
    }
) {
    variantSet "gripper" = {
        "none" {}
        "parallel" (
            prepend variantSets = "finger"
            variants = {
                string finger = "short"
            }
        ) {
            def Xform "tool" (
                prepend variantSets = "colour"
                variants = {
                    string colour = "red"
                }
                prepend apiSchemas = ["RosFrameAPI"]
            ) {
                variantSet "colour" = {
                    "red" {
                        string ros:frame:id = "red_tool"
                    }
                    "blue" {
                        string ros:frame:id = "blue_tool"
                    }
                }
            }
            variantSet "finger" = {
                "short" {}
                "long" {
                    def Xform "tip" (prepend apiSchemas = ["RosFrameAPI"]) {}
                }
            }
        }
    }
}
"""


def select(*texts: tuple[str, str, str]) -> ReadOptions:
    return ReadOptions(variants=tuple(VariantSelection(*text) for text in texts))


def frames(path: str, *texts: tuple[str, str, str]) -> list[str | None]:
    _, records = read_asset(path, select(*texts))
    return [record.id or record.path.rpartition("/")[2] for record in records.frames]


def test_variants_are_selected_before_composition(write: Write) -> None:
    path = write(GRIPPERS)
    gripper = ("/Robot", "gripper", "parallel")
    assert frames(path) == []
    assert frames(path, gripper) == ["red_tool"]
    # Sets and prims that exist only once another variant is selected:
    assert sorted(map(str, frames(path, ("/Robot", "finger", "long"), gripper))) == ["red_tool", "tip"]
    assert frames(path, gripper, ("/Robot/tool", "colour", "blue")) == ["blue_tool"]


@each_case(
    ("selection", "says"),
    [
        (("/Robot", "gripper", "nope"), "no variant 'nope'; did you mean none? it has: none, parallel"),
        (("/Robot", "gripper", "white space!"), "it has: none, parallel"),
        (("/Robot", "gripper", ""), "it has: none, parallel"),
        (("/Robot", "zzz", "x"), "no variant set 'zzz'; it has: gripper"),
        (("/Robot", "finger", "long"), "no variant set 'finger'; it has: gripper"),
        (("/Robot", "", "x"), "no variant set ''; it has: gripper"),
        (
            ("/Robot/tool", "colour", "blue"),
            "no prim '/Robot/tool'; did you mean /Robot? prims with variant sets: /Robot",
        ),
        (("/Gone", "gripper", "none"), "no prim '/Gone'"),
        (("Robot", "gripper", "none"), "no absolute prim path"),
        (("/", "gripper", "none"), "no absolute prim path"),
        (("/Robot.attribute", "gripper", "none"), "no absolute prim path"),
        (("/Robot{gripper=none}", "gripper", "none"), "no absolute prim path"),
        (("/a b//c", "gripper", "none"), "no prim path"),
        (("", "gripper", "none"), "no prim path"),
    ],
)
def test_a_selection_that_does_not_exist_lists_what_does(
    write: Write, selection: tuple[str, str, str], says: str
) -> None:
    with pytest.raises(VariantError) as error:
        open_stage(write(GRIPPERS), select(selection))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_selection_below_an_instance_is_refused(write: Write) -> None:
    write('def Xform "Robot"\n{\ndef "part" (prepend references = @./gripper.usda@) {}\n}', "part.usda")
    write(GRIPPERS, "gripper.usda")
    path = write('def Xform "Robot" (\ninstanceable = true\nprepend references = @./part.usda@\n) {}')
    with pytest.raises(VariantError, match="below an instance"):
        open_stage(path, select(("/Robot/part", "gripper", "parallel")))


def test_the_asset_keeps_its_layers(write: Write) -> None:
    path = write(GRIPPERS)
    stage = open_stage(path, select(("/Robot", "gripper", "parallel")))
    assert not stage.GetRootLayer().dirty
    assert (
        Usd.Stage.Open(path).GetPrimAtPath("/Robot").GetVariantSet("gripper").GetVariantSelection() == "none"
    )


def test_files_that_cannot_be_opened(write: Write, tmp_path: Path) -> None:
    (tmp_path / "empty.usda").touch()
    (tmp_path / "robot.urdf").write_text("<robot/>", encoding="utf-8")
    (tmp_path / "robot.gltf").write_text("{}", encoding="utf-8")
    (tmp_path / "noise.usdc").write_bytes(b"PXR-nothing of the kind")
    (tmp_path / "latin1.usda").write_bytes(b"#usda 1.0\n\xff def")
    (tmp_path / "folder.usda").mkdir()
    cases = {
        str(tmp_path / "gone.usda"): "no such file",
        str(tmp_path / "folder.usda"): "it is a directory",
        str(tmp_path): "it is a directory",
        str(tmp_path / "empty.usda"): "the file is empty",
        str(tmp_path / "robot.urdf"): "it is no OpenUSD; convert it: usd_ros_bridge import /",
        str(tmp_path / "robot.gltf"): "unknown extension '.gltf'; known: ",
        str(tmp_path / "noise.usdc"): "cannot open",
        str(tmp_path / "latin1.usda"): "it is no UTF-8 text",
        str(tmp_path / "name\udcff.usda"): "file names in UTF-8",
        write("def Xform {", "broken.usda"): "cannot open",
        "": "no file name",
        "a\0b.usda": "no file name",
        "x" * 5000 + ".usda": "cannot open",
        "anon:0x1234:none": "no such anonymous layer",
        "omniverse://server/robot.usd": "cannot open",
        "package://nobody_has_this/robot.usda": "no such package as 'nobody_has_this'; install it",
        "package://\x1b[31m/robot.usda": "--package NAME=directory",
        "package://nobody_has_this/../robot.usda": "leaves the package 'nobody_has_this'",
    }
    for asset, says in cases.items():
        with pytest.raises(AssetError) as error:
            open_stage(asset)
        assert says in str(error.value), asset[:60]
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 700


def test_quiet_keeps_warnings_off_stderr(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    path = write('def Xform "Robot" (prepend references = @./gone.usda@) {}')
    with quiet():
        _, records = read_asset(path)
    assert [d.code for d in records.diagnostics] == ["1.2.5.asset"]
    assert capfd.readouterr() == ("", "")


def test_file_uris_and_relative_paths(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GRIPPERS)
    monkeypatch.chdir(tmp_path)
    assert open_stage(f"file://{path}").GetPrimAtPath("/Robot")
    assert open_stage("asset.usda").GetPrimAtPath("/Robot")
