"""Variants of an open stage: selected, ended, taken back; the session layer is as it was where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pxr import Sdf, Usd

from case_tables import each_case
from usd_ros_bridge.errors import VariantError
from usd_ros_bridge.options import ReadOptions, VariantSelection
from usd_ros_bridge.usd import open_stage
from usd_ros_bridge.usd.edit.variants import VariantEditor

NESTED = """#usda 1.0
(
    defaultPrim = "robot"
)
def Xform "robot" (
    variants = {
        string arm = "none"
        string paint = "red"
    }
    prepend variantSets = ["arm", "paint"]
) {
    variantSet "arm" = {
        "none" {}
        "long" {
            def Xform "arm" (
                variants = {
                    string tool = "hook"
                }
                prepend variantSets = "tool"
            ) {
                variantSet "tool" = {
                    "hook" {
                        def Xform "hook" {}
                    }
                    "saw" {
                        def Xform "saw" {}
                    }
                }
            }
        }
    }
    variantSet "paint" = {
        "red" {}
        "blue" {
            def Xform "blue" {}
        }
    }
}
"""

LONG = VariantSelection("/robot", "arm", "long")
BLUE = VariantSelection("/robot", "paint", "blue")
SAW = VariantSelection("/robot/arm", "tool", "saw")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "robot.usda"
    path.write_text(NESTED, encoding="utf-8")
    return str(path)


def prims(stage: Usd.Stage) -> set[str]:
    return {str(prim.GetPath()) for prim in stage.Traverse()} - {"/robot"}


def test_selections_replace_one_another_as_a_whole(file: str) -> None:
    stage = open_stage(file)
    before = stage.GetSessionLayer().ExportToString()
    editor = VariantEditor(stage)
    editor.select([LONG, SAW])
    assert prims(stage) == {"/robot/arm", "/robot/arm/saw"}
    assert editor.selections == (LONG, SAW)
    editor.select([BLUE])
    assert prims(stage) == {"/robot/blue"}
    editor.select([])
    assert prims(stage) == set()
    # Nothing stays behind, no over of a prim that is not there any more either.
    assert stage.GetSessionLayer().ExportToString() == before


def test_those_that_were_made_when_the_stage_was_opened_end_too(file: str) -> None:
    stage = open_stage(file, ReadOptions(variants=(LONG,)))
    editor = VariantEditor(stage, (LONG,))
    editor.select([])
    assert prims(stage) == set()
    assert "arm" not in stage.GetSessionLayer().ExportToString()


def test_what_a_host_selected_on_the_session_layer_is_back_in_the_end(file: str) -> None:
    stage = Usd.Stage.Open(file)
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.GetPrimAtPath("/robot").GetVariantSet("paint").SetVariantSelection("blue")
    editor = VariantEditor(stage)
    editor.select([VariantSelection("/robot", "paint", "red")])
    assert prims(stage) == set()
    editor.select([LONG])
    assert prims(stage) == {"/robot/blue", "/robot/arm", "/robot/arm/hook"}
    editor.select([])
    assert prims(stage) == {"/robot/blue"}


def test_a_savepoint_takes_everything_on_the_session_layer_back(file: str) -> None:
    stage = open_stage(file)
    editor = VariantEditor(stage)
    editor.select([LONG])
    undo = editor.savepoint()
    editor.select([BLUE])
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.DefinePrim("/robot/spawned")
    undo()
    assert prims(stage) == {"/robot/arm", "/robot/arm/hook"}
    assert editor.selections == (LONG,)
    editor.select([])
    assert prims(stage) == set()


@each_case(
    ("selection", "reason"),
    [
        (VariantSelection("/robot", "arm", "short"), "has no variant 'short'; it has: long, none"),
        (VariantSelection("/robot", "leg", "long"), "has no variant set 'leg'; it has: arm, paint"),
        (
            VariantSelection("/nobody", "arm", "long"),
            "no prim '/nobody'; did you mean /robot? prims with variant sets: /robot",
        ),
        (VariantSelection("robot", "arm", "long"), "is no absolute prim path"),
        (VariantSelection("/ro bot", "arm", "long"), "is no prim path"),
        (VariantSelection("", "arm", "long"), "is no"),
        (SAW, "no prim '/robot/arm'"),
    ],
)
def test_what_does_not_exist_is_refused_and_changes_nothing(
    file: str, selection: VariantSelection, reason: str
) -> None:
    stage = open_stage(file)
    editor = VariantEditor(stage)
    editor.select([BLUE])
    before = stage.GetSessionLayer().ExportToString()
    assert reason in editor.refuse_variants([selection])
    assert stage.GetSessionLayer().ExportToString() == before
    with pytest.raises(VariantError, match="variant selection"):
        editor.select([selection])
    assert stage.GetSessionLayer().ExportToString() == before
    assert editor.selections == (BLUE,)
    assert prims(stage) == {"/robot/blue"}


def test_a_variant_within_another_is_possible_with_that(file: str) -> None:
    stage = open_stage(file)
    editor = VariantEditor(stage)
    assert editor.refuse_variants([LONG, SAW]) == ""
    assert editor.refuse_variants([SAW, LONG]) == ""
    assert prims(stage) == set()
    nope = VariantSelection("/robot/arm", "tool", "nope")
    assert "it has: hook, saw" in editor.refuse_variants([LONG, nope])


def test_a_session_layer_that_may_not_be_edited_is_left_alone(file: str) -> None:
    stage = open_stage(file)
    stage.GetSessionLayer().SetPermissionToEdit(False)
    editor = VariantEditor(stage)
    assert "session layer" in editor.refuse_variants([LONG])
    with pytest.raises(VariantError, match="session layer"):
        editor.select([LONG])
    assert not Sdf.Layer.IsAnonymousLayerIdentifier(stage.GetRootLayer().identifier)
    assert prims(stage) == set()
