"""Lines of text layers, against layers that Sdf itself writes, and those of this repository.

The oracle is Sdf: every spec of a layer has a line, and that line of the text shows its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Sdf, Vt

from builders.assets import ASSETS, EXAMPLES, ROOT
from case_tables import each_case
from effort import examples
from usd_ros_bridge.usd.layer_lines import layer_lines, line_of_text

LAYERS = sorted(
    path
    for folder in (ASSETS, EXAMPLES, ROOT / "usd_ros_bridge")
    for path in folder.rglob("*.usda")
    if path.read_bytes().startswith(b"#usda")
)

MOST_SCANS = 20
"""Specs of a layer whose line is looked for alone, about."""

TEXT = '''#usda 1.0
(
    "a comment ( that { opens ["
    customLayerData = {
        string note = "}"
    }
    defaultPrim = "robot"
    subLayers = [
        @a.usda@,
        @@@b@c.usda@@@ (offset = 2)
    ]
)

# def Xform "not_this" {
/* def Xform "nor_this" {
*/ // def Xform "nor_that" {
def Xform "robot" (
    doc = """def Xform "nor_here"
    {"""
    prepend apiSchemas = ["RosContextAPI",
        'RosTopicAPI']
    prepend references = [
        @x.usda@</x>,
        @y.usda@
    ]
    payload = @z.usda@</z> (offset = 1; scale = 2)
    variants = {
        string size = "big"
    }
    prepend variantSets = "size"
)
{
    string ros:context:namespace = 'it\\'s'
    custom uniform token[] a = ["b", "]"] ( doc = "c(" )
    double3 xformOp:translate.timeSamples = {
        0: (0, 0, 0),
        1: None,
    }
    double3 xformOp:translate = (1, 2, 3); rel one = </robot/link>
    prepend rel two = [</robot/link>, </robot>]
    float x.connect = </robot.y>
    float y
    point3f[] points = [(1, 2, 3),
        (4, 5, 6)] (
        interpolation = "vertex"
    )
    asset file = @@@d}@@@
    reorder nameChildren = ["link", "other"]
    def "link" {
        string deep = "x"; }

    over Cube "other"
    {
    }
    variantSet "size" = {
        "big" (
            doc = "large"
        ) {
            def "part"
            {
                int n = 1
                variantSet "kind" = {
                    "a" { over "inner" {}
                    }
                }
            }
        }
        "small" {
            string ros:context:namespace = "s"
        }
    }
}
'''


def test_each_construct_of_the_format_has_its_line() -> None:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    assert layer.ImportFromString(TEXT)
    assert without_line(layer, TEXT) == []
    rows = TEXT.splitlines()

    def row(text: str) -> int:
        return next(number for number, each in enumerate(rows, 1) if text in each)

    lines = layer_lines(TEXT.encode())
    expected = {
        ("/", "defaultPrim", ""): row("defaultPrim"),
        ("/", "subLayers", "a.usda"): row("@a.usda@"),
        ("/", "subLayers", "b@c.usda"): row("b@c"),
        ("/robot", "", ""): row('Xform "robot"'),
        ("/robot", "apiSchemas", "RosTopicAPI"): row("RosTopicAPI"),
        ("/robot", "references", "y.usda"): row("@y.usda@"),
        ("/robot", "payload", "z.usda"): row("@z.usda@"),
        ("/robot.a", "", ""): row("token[] a"),
        ("/robot.xformOp:translate", "", ""): row("timeSamples"),
        ("/robot.one", "", ""): row("rel one"),
        ("/robot.two", "", ""): row("rel two"),
        ("/robot.x", "", ""): row("x.connect"),
        ("/robot.y", "", ""): row("float y"),
        ("/robot.points", "", ""): row("points"),
        ("/robot.file", "", ""): row("asset file"),
        ("/robot/link.deep", "", ""): row("deep"),
        ("/robot/other", "", ""): row("over Cube"),
        ("/robot{size=}", "", ""): row('variantSet "size" = {'),
        ("/robot{size=big}", "", ""): row('"big" ('),
        ("/robot{size=big}part.n", "", ""): row("int n"),
        ("/robot{size=big}part{kind=a}inner", "", ""): row('"inner"'),
        ("/robot{size=small}.ros:context:namespace", "", ""): row('= "s"'),
    }
    assert {key: lines.get(key) for key in expected} == expected
    assert not [path for path, _, _ in lines if "nor_" in path or "not_this" in path]


def without_line(layer: Sdf.Layer, text: str) -> list[str]:
    """Return the specs of a layer whose line is missing, or does not show their name."""
    rows, lines = text.split("\n"), layer_lines(text.encode())
    paths: list[Sdf.Path] = []
    layer.Traverse(Sdf.Path.absoluteRootPath, paths.append)
    wrong = []
    paths = [path for path in paths if not path.IsTargetPath() and path != Sdf.Path.absoluteRootPath]
    for path in paths:
        variant = path.GetVariantSelection() if path.IsPrimVariantSelectionPath() else ()
        name = (variant[1] or variant[0]) if variant else path.name
        line = lines.get((path.pathString, "", ""), 0)
        if not line or name not in rows[line - 1]:
            wrong.append(f"{path}: line {line}")
    # Each of these scans the text again.
    for path in paths[:: max(1, len(paths) // MOST_SCANS)]:
        key = (path.pathString, "", "")
        if layer_lines(text.encode(), [key], [key]) != {key: lines[key]}:
            wrong.append(f"{path}: another line where it alone is wanted")
    return wrong


@each_case("path", LAYERS)
def test_every_spec_of_a_layer_here_has_a_line_with_its_name(path: Path) -> None:
    # A copy: other tests of this process may have edited the layer that all stages share.
    layer = Sdf.Layer.OpenAsAnonymous(str(path))
    assert without_line(layer, path.read_text(encoding="utf-8")) == []


NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True)
PROPERTY_NAMES = st.lists(NAMES, min_size=1, max_size=3).map(":".join)
STRINGS = st.text(st.sampled_from("ab \n\"'\\#@(){}[]<>=;,/*"), max_size=12) | st.sampled_from(
    ['def Xform "x" {', "'''", '"""', "/* ", "// )", "variantSet 'v' = {", "@@@"]
)
FLOATS = st.floats(-1e6, 1e6, width=32)
VALUES: list[tuple[Any, Any]] = [
    (Sdf.ValueTypeNames.String, STRINGS),
    (Sdf.ValueTypeNames.Token, STRINGS),
    (Sdf.ValueTypeNames.StringArray, st.lists(STRINGS, max_size=4).map(Vt.StringArray)),
    (Sdf.ValueTypeNames.Double, FLOATS),
    (Sdf.ValueTypeNames.Bool, st.booleans()),
    (Sdf.ValueTypeNames.Int, st.integers(-100, 100)),
    (Sdf.ValueTypeNames.IntArray, st.lists(st.integers(-9, 9), max_size=5).map(Vt.IntArray)),
    (
        Sdf.ValueTypeNames.Point3fArray,
        st.lists(st.tuples(FLOATS, FLOATS, FLOATS), max_size=3).map(Vt.Vec3fArray),
    ),
    (
        Sdf.ValueTypeNames.Asset,
        st.sampled_from(["", "a.usda", "b@c.usda", "d (e) {f}.usda"]).map(Sdf.AssetPath),
    ),
]


def fill(data: st.DataObject, prim: Sdf.PrimSpec, depth: int) -> None:
    """Author random properties, metadata, children and variants."""
    fill_metadata(data, prim)
    for name in data.draw(st.lists(PROPERTY_NAMES, max_size=3, unique=True)):
        if name not in prim.properties:
            fill_property(data, prim, name)
    if depth <= 0:
        return
    for name in data.draw(st.lists(NAMES, max_size=2, unique=True)):
        if name not in prim.nameChildren:
            specifier = data.draw(st.sampled_from([Sdf.SpecifierDef, Sdf.SpecifierOver, Sdf.SpecifierClass]))
            type_name = data.draw(st.sampled_from(["", "Xform"]))
            fill(data, Sdf.PrimSpec(prim, name, specifier, type_name), depth - 1)
    for set_name in data.draw(st.lists(NAMES, max_size=1)):
        variant_set = Sdf.VariantSetSpec(prim, set_name)
        prim.variantSetNameList.Prepend(set_name)
        prim.variantSelections[set_name] = "a-1"
        for name in ("a-1", "2"):
            fill(data, Sdf.VariantSpec(variant_set, name).primSpec, depth - 1)


def fill_metadata(data: st.DataObject, prim: Sdf.PrimSpec) -> None:
    if data.draw(st.booleans()):
        prim.documentation = data.draw(STRINGS)
    if data.draw(st.booleans()):
        prim.customData = {"note": data.draw(STRINGS), "inner": {"deep": data.draw(STRINGS)}}
    if data.draw(st.booleans()):
        prim.SetInfo("apiSchemas", Sdf.TokenListOp.Create(["RosTopicAPI"], ["OtherAPI:x"]))
    if data.draw(st.booleans()):
        note = {"s": data.draw(STRINGS)}
        prim.referenceList.Prepend(Sdf.Reference("a.usda", "/x", Sdf.LayerOffset(1, 2), note))
        prim.payloadList.Add(Sdf.Payload("b.usda"))


def fill_property(data: st.DataObject, prim: Sdf.PrimSpec, name: str) -> None:
    if data.draw(st.integers(0, 3)) == 0:
        relationship = Sdf.RelationshipSpec(prim, name)
        relationship.targetPathList.Prepend("/a/b")
        relationship.targetPathList.Add("/c.d:e")
        return
    kind, values = data.draw(st.sampled_from(VALUES))
    attribute = Sdf.AttributeSpec(prim, name, kind)
    if data.draw(st.booleans()):
        attribute.default = data.draw(values)
    for time in data.draw(st.lists(st.integers(0, 3), max_size=2, unique=True)):
        prim.layer.SetTimeSample(attribute.path, time, data.draw(values))
    if data.draw(st.booleans()):
        attribute.documentation = data.draw(STRINGS)
    if data.draw(st.booleans()):
        attribute.connectionPathList.Prepend("/a.b")


@pytest.mark.random
@pytest.mark.timeout(60 + 30 * examples(1))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_spec_of_a_layer_that_sdf_writes_has_a_line_with_its_name(data: st.DataObject) -> None:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.documentation = data.draw(STRINGS)
    layer.customLayerData = {"note": data.draw(STRINGS)}
    for name in data.draw(st.lists(NAMES, min_size=1, max_size=2, unique=True)):
        fill(data, Sdf.PrimSpec(layer, name, Sdf.SpecifierDef), 2)
    text = layer.ExportToString()
    again = Sdf.Layer.CreateAnonymous(".usda")
    assert again.ImportFromString(text)
    assert without_line(again, text) == []


def test_a_million_numbers_are_passed_over_at_once() -> None:
    text = b'#usda 1.0\ndef "a" {\n float[] n = [' + b"1, " * 1_000_000 + b"]\n int after = 1\n}\n"
    assert layer_lines(text)["/a.after", "", ""] == 4


@each_case(
    "text", ["", "#usda 1.0\n(", '#usda 1.0\ndef "a', '#usda 1.0\ndef "a" { int x = [', "}}}", '"""', "((("]
)
def test_text_that_ends_early_ends_the_scan(text: str) -> None:
    assert isinstance(layer_lines(text.encode()), dict)


def test_what_is_not_wanted_is_passed_over() -> None:
    wanted = [
        ("/robot{size=big}part.n", "", ""),
        ("/robot", "references", "y.usda"),
        ("/robot", "nothing", ""),
    ]
    lines = layer_lines(TEXT.encode())
    assert layer_lines(TEXT.encode(), wanted) == {key: lines[key] for key in wanted[:2]}
    assert layer_lines(TEXT.encode(), [*wanted, ("/", "", "")], [("/", "", "")]).keys() == {("/", "", "")}


def test_text_is_found_in_its_line() -> None:
    assert line_of_text(b"a\nb @c@\n@c@", "@c@") == 2
    assert line_of_text(b"a\nb", "@c@") == 0
