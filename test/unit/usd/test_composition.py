"""What is behind payloads, and variant sets without a default selection (REP 0158 sections 1.2.3, 1.2.4 and 2.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd

from case_tables import each_case
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.read.stage_reader import read_stage

HEADER = '#usda 1.0\n( defaultPrim = "robot"\n upAxis = "Z"\n metersPerUnit = 1\n kilogramsPerUnit = 1\n'
HEADER += " timeCodesPerSecond = 1 )\n"
LINK = 'def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}\n'
VARIANTS = '{\nvariantSet "tool" = {\n"hook" {\n}\n"hand" {\n}\n}\n}'
TOPIC = 'def Scope "topic" (prepend apiSchemas = ["RosTopicAPI"]) {}\n'


def findings(folder: Path, text: str, payload: str = "", *, codes: Iterable[str]) -> list[Diagnostic]:
    (folder / "payload.usda").write_text(f'{HEADER}def Xform "robot"\n{{\n{payload}}}\n', encoding="utf-8")
    asset = folder / "robot.usda"
    asset.write_text(HEADER + text, encoding="utf-8")
    records = read_stage(Usd.Stage.Open(str(asset)), asset=str(asset))
    return [each for each in records.diagnostics if each.code in codes]


PAYLOADS = ("2.2.payload", "1.2.3.payload")


@each_case(
    ("text", "payload", "expected"),
    [
        ('def "robot" (payload = @./payload.usda@) {}', LINK + TOPIC, {"2.2.payload", "1.2.3.payload"}),
        ('def "robot" (payload = @./payload.usda@) {}', LINK, {"1.2.3.payload"}),
        ('def "robot" (payload = @./payload.usda@) {}', TOPIC, {"2.2.payload"}),
        # Geometry is what payloads are for.
        ('def "robot" (payload = @./payload.usda@) {}', 'def Cube "visual" {}\n', set()),
        ('def "robot" (references = @./payload.usda@) {}', LINK + TOPIC, set()),
        # Schemas outside of the payload, on a prim that is defined there, too.
        (f'def "robot" (payload = @./payload.usda@) {{\n{LINK}{TOPIC}}}', 'def Xform "link" {}\n', set()),
        # An opinion outside of the payload on a prim that only it defines.
        (
            'def "robot" (payload = @./payload.usda@) {\nover "topic" (prepend apiSchemas = ["RosTopicAPI"]) {}\n}',
            'def Scope "topic" {}\n',
            {"2.2.payload"},
        ),
    ],
)
def test_what_is_behind_a_payload(tmp_path: Path, text: str, payload: str, expected: set[str]) -> None:
    found = findings(tmp_path, text, payload, codes=PAYLOADS)
    assert {each.code for each in found} == expected
    assert {each.severity for each in found} <= {"warning"}
    assert {each.path for each in found} <= {"/robot"}


@each_case(("creator", "severity"), [("URDF USD Converter v0.3.4", "info"), ("a person", "warning")])
def test_what_a_converter_puts_behind_a_payload_is_no_warning(
    tmp_path: Path, creator: str, severity: str
) -> None:
    text = f'#usda 1.0\n(\ncustomLayerData = {{ string creator = "{creator}" }}\ndefaultPrim = "robot"\n)\n'
    (tmp_path / "asset.usda").write_text(
        f'{text}def "robot" (payload = @./payload.usda@) {{}}\n', encoding="utf-8"
    )
    found = findings(tmp_path, 'def "robot" (references = @./asset.usda@) {}', LINK + TOPIC, codes=PAYLOADS)
    assert [(each.code, each.severity) for each in found] == [(code, severity) for code in PAYLOADS]


def test_a_payload_that_is_used_often_is_reported_once(tmp_path: Path) -> None:
    text = "".join(f'def "robot_{number}" (payload = @./payload.usda@) {{}}\n' for number in range(5))
    found = findings(tmp_path, text, LINK, codes=PAYLOADS)
    assert [(each.code, each.path) for each in found] == [("1.2.3.payload", "/robot_0")]


@each_case(
    ("selection", "told"),
    [
        ("", "has no default selection"),
        ('variants = { string tool = "hook" }', ""),
        ('variants = { string tool = "x" }', "'x'"),
    ],
)
def test_variant_sets_have_a_default_selection(tmp_path: Path, selection: str, told: str) -> None:
    text = f'def "robot" ( {selection}\n prepend variantSets = "tool" ) {VARIANTS}\n'
    found = findings(tmp_path, text, codes=("1.2.4.default",))
    assert [(each.severity, each.path, told in each.message) for each in found] == (
        [("warning", "/robot", True)] if told else []
    )
    assert all("'hook'" in each.remedy and "'hand'" in each.remedy for each in found)


def test_a_selection_of_the_callers_is_one(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(f'{HEADER}def "robot" ( prepend variantSets = "tool" ) {VARIANTS}\n', encoding="utf-8")
    stage = Usd.Stage.Open(str(asset))
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.GetPrimAtPath("/robot").GetVariantSet("tool").SetVariantSelection("hook")
    assert not [each for each in read_stage(stage, asset="x").diagnostics if each.code == "1.2.4.default"]


def test_a_variant_set_that_is_referenced_often_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "tool.usda").write_text(
        f'{HEADER}def "robot" ( prepend variantSets = "tool" ) {VARIANTS}\n', encoding="utf-8"
    )
    text = "".join(f'def "robot_{number}" (references = @./tool.usda@) {{}}\n' for number in range(3))
    found = findings(tmp_path, text, codes=("1.2.4.default",))
    assert [each.path for each in found] == ["/robot_0"]


def test_a_long_path_of_the_folder_leaves_the_message_as_it_is(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    text = (
        'def "robot" (references = @./missing.usda@) {\ndef "part" (payload = @./payload.usda@</gone>) {}\n}'
    )
    codes = ("1.2.5.asset", "1.2.5.default_prim")
    messages = [[each.message for each in findings(place, text, codes=codes)] for place in (tmp_path, deep)]
    assert messages[0] == messages[1]
    missing, unresolved = messages[0]
    assert "@missing.usda@" in missing
    assert "@payload.usda@</gone>" in unresolved
