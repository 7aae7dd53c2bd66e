"""Variant sets of a stage, as those who choose from them see them."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd

from builders.assets import ARM
from usd_ros_bridge.options import VariantSelection, VariantSet, parse_variants
from usd_ros_bridge.usd.session import StageSession


def test_the_arm_has_its_grippers_and_the_selected_one():
    stage = Usd.Stage.Open(str(ARM))
    sets = StageSession(stage).variant_sets(most=10)
    assert sets == (
        VariantSet(
            prim_path="/arm", name="gripper", variants=("none", "parallel", "suction"), selected="parallel"
        ),
    )
    assert not stage.GetRootLayer().dirty


def test_sets_are_in_traversal_order_and_no_more_than_asked_for():
    stage = Usd.Stage.CreateInMemory()
    for path in ("/b", "/b/child", "/a"):
        prim = stage.DefinePrim(path, "Xform")
        for name in ("color", "size"):
            variants = prim.GetVariantSets().AddVariantSet(name)
            variants.AddVariant("one")
    found = StageSession(stage).variant_sets(most=100)
    assert [(each.prim_path, each.name) for each in found] == [
        (path, name) for path in ("/b", "/b/child", "/a") for name in ("color", "size")
    ]
    assert {each.selected for each in found} == {""}
    assert StageSession(stage).variant_sets(most=3) == found[:3]


def test_a_selection_is_the_text_that_it_is_parsed_from():
    selection = VariantSelection("/World/arm", "gripper", "suction")
    assert parse_variants([str(selection)]) == (selection,)
