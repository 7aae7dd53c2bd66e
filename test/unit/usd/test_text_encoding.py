"""Text that is not UTF-8, anywhere in a layer: a diagnostic with prim and attribute, and the rest is read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd

from builders.stage_text import header
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import AssetError
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.usd import open_stage
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.text_encoding import has_bad_text, text_in_file

BYTE = "\\x9b"
ASSET = """
def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
    {of_robot}
)
{{
    string ros:context:namespace = "{namespace}"
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"{schema}])
    {{
        string ros:frame:id = "{frame}"
        string note = "{note}"
        token[] words = ["a", "{word}"]
        uniform token[] xformOpOrder = [{op}]
        def Mesh "hull" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"])
        {{
            uniform token physics:approximation = "{approximation}"
            point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
            int[] faceVertexCounts = [3, 3, 3, 3]
            int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2]
        }}
    }}
    def Xform "states" (prepend apiSchemas = ["RosTopicAPI"])
    {{
        string ros:topic:name = "{name}"
        string ros:topic:type = "{type}"
        token ros:topic:role = "{role}"
        double ros:topic:publish_rate = 10
    }}
}}
"""
USUAL = {
    "of_robot": "",
    "namespace": "cell",
    "schema": "",
    "frame": "base",
    "note": "",
    "word": "b",
    "op": "",
    "approximation": "convexHull",
    "name": "joint_states",
    "type": "sensor_msgs/msg/JointState",
    "role": "publisher",
}
PLACES: dict[str, tuple[dict[str, str], str, str]] = {
    "namespace": ({"namespace": BYTE}, "/robot", "ros:context:namespace"),
    "applied schema": ({"schema": f', "A{BYTE}"'}, "/robot/base", "apiSchemas"),
    "frame id": ({"frame": f"base{BYTE}"}, "/robot/base", "ros:frame:id"),
    "any attribute": ({"note": f"caf{BYTE}"}, "/robot/base", "note"),
    "an element": ({"word": BYTE}, "/robot/base", "words"),
    "order of ops": ({"op": f'"xformOp:translate{BYTE}"'}, "/robot/base", "xformOpOrder"),
    "approximation": ({"approximation": BYTE}, "/robot/base/hull", "physics:approximation"),
    "topic": ({"name": BYTE}, "/robot/states", "ros:topic:name"),
    "octal escape": ({"name": "a\\233"}, "/robot/states", "ros:topic:name"),
    "cut character": ({"name": "a\\xc3"}, "/robot/states", "ros:topic:name"),
    "type": ({"type": f"sensor_msgs/msg/{BYTE}"}, "/robot/states", "ros:topic:type"),
    "role": ({"role": BYTE}, "/robot/states", "ros:topic:role"),
    "asset info": ({"of_robot": f'assetInfo = {{ string name = "{BYTE}" }}'}, "/robot", "assetInfo"),
    "custom data": ({"of_robot": f'customData = {{ string a = "{BYTE}" }}'}, "/robot", "customData"),
    "display name": ({"of_robot": f'displayName = "{BYTE}"'}, "/robot", "displayName"),
    "kind": ({"of_robot": f'kind = "{BYTE}"'}, "/robot", "kind"),
    "clips": (
        {"of_robot": f'clips = {{ dictionary default = {{ string primPath = "/{BYTE}" }} }}'},
        "/robot",
        "clips",
    ),
}
OF_LAYER = {
    "upAxis": f'upAxis = "{BYTE}"',
    "customLayerData": f'customLayerData = {{ string creator = "{BYTE}" }}',
    "expressionVariables": f'expressionVariables = {{ string A = "{BYTE}" }}',
    "comment": f'doc = "{BYTE}"',
}
SUFFIXES = (".usda", ".usdc", ".usdz", ".usd")


def write(folder: Path, text: str, suffix: str, name: str = "asset") -> Path:
    """Write a layer; OpenUSD's own writer makes the binary one."""
    file, source = folder / f"{name}{suffix}", folder / f"{name}.usda"
    source.write_text(text, encoding="utf-8")
    if suffix in (".usdc", ".usd"):
        assert Sdf.Layer.OpenAsAnonymous(str(source)).Export(str(file), args={"format": "usdc"})
    if suffix == ".usdz":
        with zipfile.ZipFile(file, "w") as archive:
            archive.write(source, source.name)
    return file


@each_case("suffix", SUFFIXES)
@each_case("place", PLACES)
def test_it_is_said_where_it_is_and_the_rest_is_read(tmp_path: Path, place: str, suffix: str) -> None:
    authored, path, attribute = PLACES[place]
    file = write(tmp_path, header("robot") + ASSET.format(**{**USUAL, **authored}), suffix)
    before = file.read_bytes()
    plan = load_plan(str(file), physics=True)
    found = [each for each in plan.diagnostics if each.code == "1.2.5.text"]
    assert [(each.severity, each.path, each.attribute) for each in found] == [("error", path, attribute)]
    assert found[0].layer.startswith(str(file))
    assert bool(found[0].line) == (suffix in (".usda", ".usdz"))
    assert not [str(each) for each in plan.diagnostics if each.code == "internal"]
    assert [robot.path for robot in plan.robots] == ["/robot"]
    assert plan.physics is not None
    assert [body.path for body in plan.physics.bodies] == ["/robot/base"]
    json.dumps(plan_to_json(plan)).encode()
    UrdfExporter(plan).robot(0)
    assert file.read_bytes() == before


@each_case("suffix", SUFFIXES)
@each_case("name", OF_LAYER)
def test_metadata_of_a_layer(tmp_path: Path, name: str, suffix: str) -> None:
    head = header("robot", OF_LAYER[name]) if name != "upAxis" else header("robot", up=BYTE)
    plan = load_plan(str(write(tmp_path, head + ASSET.format(**USUAL), suffix)), physics=True)
    found = [(each.path, each.attribute) for each in plan.diagnostics if each.code == "1.2.5.text"]
    # A remark is for people: nothing reads it.
    assert found == ([] if name == "comment" else [("", name)])


@each_case("suffix", SUFFIXES)
def test_the_prim_is_named_as_it_is_on_the_stage(tmp_path: Path, suffix: str) -> None:
    of_robot = 'variants = { string hand = "one" }\n    prepend variantSets = "hand"'
    text = ASSET.format(**{**USUAL, "note": BYTE, "of_robot": of_robot})
    end = text.rindex("}")
    variants = """    variantSet "hand" = {
        "one" { over "base" { string tip = "%s" } }
        "two" { over "base" { string other = "%s" } }
    }
"""
    variants = (variants % (BYTE, BYTE)).replace("{ ", "{\n").replace(" }", "\n}")
    robot = write(tmp_path, header("robot") + text[:end] + variants + text[end:], suffix, "robot")
    asset = tmp_path / "scene.usda"
    asset.write_text(
        header("World") + f'def "World" {{\n def "one" (references = @{robot.name}@) {{}}\n}}\n',
        encoding="utf-8",
    )
    found = [each for each in load_plan(str(asset)).diagnostics if each.code == "1.2.5.text"]
    # Of a variant that is not selected, too: it may be, later.
    assert sorted((each.path, each.attribute) for each in found) == [
        ("/World/one/base", "note"),
        ("/World/one/base", "other"),
        ("/World/one/base", "tip"),
    ]
    assert {each.layer.partition("[")[0] for each in found} == {str(robot)}


def test_a_prim_that_is_not_on_the_stage_is_named_in_the_message(tmp_path: Path) -> None:
    text = ASSET.format(**{**USUAL, "note": BYTE}).replace(
        'def Xform "base" (', 'def Xform "base" (\n active = false\n'
    )
    found = [
        each
        for each in load_plan(str(write(tmp_path, header("robot") + text, ".usda"))).diagnostics
        if each.code == "1.2.5.text"
    ]
    assert [(each.path, each.attribute) for each in found] == [("", "note")]
    assert found[0].message.startswith("note of /robot/base in the layer 'asset.usda' is not UTF-8")


def test_remarks_for_people_hold_up_no_reload(tmp_path: Path) -> None:
    file = write(tmp_path, header("robot") + ASSET.format(**USUAL), ".usda")
    stage = open_stage(str(file))
    text = header("robot", f'doc = "{BYTE}"') + ASSET.format(**{**USUAL, "frame": "other"})
    file.write_text(text, encoding="utf-8")
    assert reload(stage) == (str(file),)
    assert stage.GetPrimAtPath("/robot/base").GetAttribute("ros:frame:id").Get() == "other"


def test_a_compressed_file_of_an_archive_is_not_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "asset.usdz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("asset.usda", header("robot") + ASSET.format(**{**USUAL, "note": BYTE}))
    assert text_in_file(str(file), str(file)) == b""


def test_text_that_is_utf_8_stays(tmp_path: Path) -> None:
    text = ASSET.format(**{**USUAL, "note": "caf\\xc3\\xa9 \\303\\251 é \\\\x9b \\x41", "word": "机器人"})
    for suffix in SUFFIXES:
        stage = open_stage(str(write(tmp_path, header("robot") + text, suffix)))
        base = stage.GetPrimAtPath("/robot/base")
        assert base.GetAttribute("note").Get() == "café é é \\x9b A"
        assert list(base.GetAttribute("words").Get()) == ["a", "机器人"]
        assert not [each for each in load_plan(stage).diagnostics if each.code == "1.2.5.text"]


def test_a_binary_layer_is_unpacked_as_openusd_does(tmp_path: Path) -> None:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    names = [f"link_{index}_{'ab' * (index % 300)}" for index in range(2000)]
    for name in names:
        spec = Sdf.CreatePrimInLayer(layer, f"/{name}")
        spec.customData = {"word": f"{name}é"}
    file = tmp_path / "long.usdc"
    layer.Export(str(file))
    words = set(text_in_file(str(file), str(file)).decode().split("\0"))
    assert {*names, *(f"{name}é" for name in names)} <= words
    assert not has_bad_text(text_in_file(str(file), str(file)))


def test_a_stage_of_a_host_is_refused_in_one_line_and_not_changed(tmp_path: Path) -> None:
    authored = {**USUAL, "schema": f', "A{BYTE}"'}
    file = write(tmp_path, header("robot") + ASSET.format(**authored), ".usdc")
    layer = Sdf.Layer.OpenAsAnonymous(str(file))
    with pytest.raises(
        AssetError, match=r"text that is not UTF-8: apiSchemas of /robot/base; write the text in UTF-8"
    ):
        load_plan(Usd.Stage.Open(layer))
    assert not layer.dirty
