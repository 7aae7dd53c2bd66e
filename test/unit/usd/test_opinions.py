"""The layer and line of each diagnostic, held to the files' own text."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pxr import Sdf, Usd, UsdUtils

from builders.stage_text import header
from usd_ros_bridge.api import add_physics, load_plan, read_opinions, reread
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.opinions import find_opinions

SCAN = """
        def Xform "scan" (
            prepend apiSchemas = ["RosTopicAPI"]
        )
        {
            token ros:topic:role = "subscription"
            string ros:topic:name = "%s"
            string ros:topic:type = "std_msgs/msg/String"
        }
"""

Write = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Write:
    """Writes a layer below the working directory; returns its path."""

    def write_layer(name: str, body: str, more: str = "") -> Path:
        path = tmp_path / name
        path.write_text(header("robot", more) + body, encoding="utf-8")
        return path

    return write_layer


def robot(inside: str = "", metadata: str = "") -> str:
    return (
        f'def Xform "robot" (\n    prepend apiSchemas = ["RosContextAPI"]\n    {metadata}\n)\n{{\n'
        f'    string ros:context:namespace = "robot"\n{inside}\n}}\n'
    )


def planned(asset: Path | Usd.Stage, **options: Any) -> BridgePlan:
    with quiet():
        return load_plan(asset, read_options=ReadOptions(**options))


def finding(found: BridgePlan | Iterable[Diagnostic], code: str, path: str | None = None) -> Diagnostic:
    all_found = found.diagnostics if isinstance(found, BridgePlan) else found
    (found_one,) = [each for each in all_found if each.code == code and path in (None, each.path)]
    return found_one


def shows(diagnostic: Diagnostic, file: Path, text: str) -> bool:
    """Return whether a diagnostic is at a line of `file` that shows `text`, the only line that does."""
    rows = file.read_text(encoding="utf-8").splitlines()
    assert sum(text in row for row in rows) == 1
    return diagnostic.layer == str(file) and text in rows[diagnostic.line - 1]


def test_a_faulty_value_is_at_its_line(save: Write) -> None:
    asset = save("robot.usda", robot(SCAN % "a b"))
    assert shows(finding(planned(asset), "2.3.name"), asset, '"a b"')


def test_the_strongest_layer_counts(save: Write) -> None:
    weak = save("weak.usda", robot(SCAN % "weak name"))
    asset = save(
        "robot.usda",
        'over "robot"\n{\n    over "scan"\n    {\n        string ros:topic:name = "strong name"\n    }\n}\n',
        more="subLayers = [@weak.usda@]",
    )
    plan = planned(asset)
    assert shows(finding(plan, "2.3.name"), asset, "strong name")
    stage = Usd.Stage.Open(str(weak))
    assert shows(finding(planned(stage), "2.3.name"), weak, "weak name")


def test_a_spec_without_a_value_is_no_opinion(save: Write) -> None:
    weak = save("weak.usda", robot(SCAN % "weak name"))
    asset = save(
        "robot.usda",
        'over "robot"\n{\n    over "scan"\n    {\n        string ros:topic:name (doc = "said elsewhere")\n    }\n}\n',
        more="subLayers = [@weak.usda@]",
    )
    assert shows(finding(planned(asset), "2.3.name"), weak, "weak name")


def test_an_opinion_of_a_class_is_in_the_class(save: Write) -> None:
    asset = save(
        "robot.usda", 'class "_Part"\n{' + SCAN % "a b" + "}\n" + robot(metadata="inherits = </_Part>")
    )
    assert shows(finding(planned(asset), "2.3.name", "/robot/scan"), asset, '"a b"')


def test_a_layer_of_a_package_is_named_by_its_file(save: Write, tmp_path: Path) -> None:
    folder = tmp_path / "parts_description"
    folder.mkdir()
    part = save("parts_description/part.usda", 'def Xform "robot"\n{' + SCAN % "a b" + "}\n")
    asset = save("robot.usda", robot(metadata="references = @package://parts_description/part.usda@"))
    plan = planned(asset, packages={"parts_description": str(folder)})
    assert shows(finding(plan, "2.3.name", "/robot/scan"), part, '"a b"')


@pytest.mark.parametrize("arc", ["references", "payload"])
def test_an_opinion_behind_an_arc_is_in_the_layer_there(save: Write, arc: str) -> None:
    part = save("part.usda", 'def Xform "robot"\n{' + SCAN % "a b" + "}\n")
    asset = save(
        "robot.usda", robot('    def "arm" (\n        ' + arc + " = @part.usda@\n    )\n    {\n    }")
    )
    found = finding(planned(asset), "2.3.name")
    assert found.path == "/robot/arm/scan"
    assert shows(found, part, '"a b"')


def test_an_opinion_below_an_instance_is_in_the_layer_of_the_prototype(save: Write) -> None:
    part = save("part.usda", 'def Xform "robot"\n{' + SCAN % "a b" + "}\n")
    arms = "".join(
        f'    def "{name}" (\n        instanceable = true\n        references = @part.usda@\n    )\n    {{\n    }}\n'
        for name in ("left", "right")
    )
    plan = planned(save("robot.usda", robot(arms)))
    for name in ("left", "right"):
        assert shows(finding(plan, "2.3.name", f"/robot/{name}/scan"), part, '"a b"')


def test_an_opinion_of_a_variant_is_in_the_variant_that_is_selected(save: Write) -> None:
    variants = "".join(
        f'        "{name}" {{\n{SCAN % (name + " name")}\n        }}\n' for name in ("first", "second")
    )
    asset = save(
        "robot.usda",
        robot(
            f'    variantSet "sensor" = {{\n{variants}\n    }}',
            'prepend variantSets = "sensor"\n    variants = {\n        string sensor = "first"\n    }',
        ),
    )
    assert shows(finding(planned(asset), "2.3.name"), asset, "first name")
    selection = VariantSelection("/robot", "sensor", "second")
    assert shows(finding(planned(asset, variants=(selection,)), "2.3.name"), asset, "second name")


def test_an_edit_of_the_session_layer_has_its_name_and_no_line(save: Write) -> None:
    stage = open_stage(str(save("robot.usda", robot(SCAN % "good"))))
    stage.SetEditTarget(stage.GetSessionLayer())
    stage.GetAttributeAtPath("/robot/scan.ros:topic:name").Set("a b")
    found = finding(planned(stage), "2.3.name")
    assert (found.layer, found.line) == ("usd_ros_bridge-session.usda", 0)
    assert str(found).endswith(" at usd_ros_bridge-session.usda")


def test_a_selection_in_the_session_layer_hides_no_prim(save: Write) -> None:
    asset = save(
        "robot.usda",
        robot(
            '    variantSet "sensor" = {\n        "a" {\n        }\n    }\n    def Xform "x" (\n'
            '        prepend apiSchemas = ["RosTopicAPI"]\n    )\n    {\n    }',
            'prepend variantSets = "sensor"',
        ),
    )
    plan = planned(asset, variants=(VariantSelection("/robot", "sensor", "a"),))
    assert {each.layer for each in plan.diagnostics} == {str(asset)}


def test_a_missing_attribute_is_where_its_schema_is_applied(save: Write) -> None:
    asset = save(
        "robot.usda",
        robot(
            '    def Xform "scan" (\n        prepend apiSchemas = ["PhysicsMassAPI",\n            "RosTopicAPI"]\n'
            '    )\n    {\n        token ros:topic:role = "subscription"\n'
            '        string ros:topic:type = "std_msgs/msg/String"\n    }'
        ),
    )
    assert shows(finding(planned(asset), "2.3.name"), asset, '"RosTopicAPI"')


def test_units_are_at_the_layers_metadata(save: Write) -> None:
    asset = save("robot.usda", robot())
    asset.write_text(
        asset.read_text(encoding="utf-8").replace("metersPerUnit = 1.0", "metersPerUnit = 0.5"),
        encoding="utf-8",
    )
    assert shows(finding(planned(asset), "1.1.meters_per_unit"), asset, "metersPerUnit")


def test_units_that_differ_between_layers_are_in_the_layer_that_differs(save: Write) -> None:
    part = save("part.usda", 'def Xform "robot"\n{\n}\n')
    part.write_text(
        part.read_text(encoding="utf-8").replace("metersPerUnit = 1.0", "metersPerUnit = 0.5"),
        encoding="utf-8",
    )
    plan = planned(save("robot.usda", robot(metadata="references = @part.usda@")))
    assert shows(finding(plan, "1.1.meters_per_unit"), part, "metersPerUnit")


@pytest.mark.parametrize("arc", ["references", "payload"])
@pytest.mark.parametrize("opened_by", ["bridge", "host"])
def test_a_missing_file_is_at_the_arc_that_names_it(save: Write, arc: str, opened_by: str) -> None:
    part = save(
        "part.usda",
        'def Xform "robot"\n{\n    def "a" (\n        prepend '
        + arc
        + " = [\n            @./robot.usda@</robot/b>,\n"
        "            @gone/x.usda@,\n        ]\n    )\n    {\n    }\n}\n",
    )
    asset = save("robot.usda", robot('    def "b"\n    {\n    }', "references = @part.usda@"))
    with quiet():
        plan = planned(asset if opened_by == "bridge" else Usd.Stage.Open(str(asset)))
    assert shows(finding(plan, "1.2.5.asset"), part, "@gone/x.usda@")


def test_a_missing_prim_is_at_the_arc_that_names_it(save: Write) -> None:
    save("part.usda", 'def "other"\n{\n}\n')
    asset = save("robot.usda", robot(metadata="prepend references = @part.usda@</nothing>"))
    assert shows(finding(planned(asset), "1.2.5.default_prim"), asset, "</nothing>")


def test_a_missing_sublayer_is_at_the_line_that_names_it(save: Write) -> None:
    asset = save("robot.usda", robot(), more="subLayers = [\n        @gone.usda@\n    ]")
    assert shows(finding(planned(asset), "1.2.5.asset"), asset, "@gone.usda@")


def test_a_refused_package_is_at_the_arc_that_names_it(save: Write) -> None:
    body = '    def "a" (\n        payload = @package://no_such/x.usda@\n    )\n    {\n    }'
    asset = save("robot.usda", robot(body))
    assert shows(finding(planned(asset), "1.2.5.package"), asset, "package://no_such")


@pytest.mark.parametrize("private_copies", [False, True])
def test_a_layer_in_an_archive_has_its_inner_path_and_line(
    save: Write, tmp_path: Path, private_copies: bool
) -> None:
    asset = save("robot.usda", robot(SCAN % "a b"))
    archive = tmp_path / "robot.usdz"
    assert UsdUtils.CreateNewUsdzPackage(str(asset), str(archive))
    with zipfile.ZipFile(archive) as opened:
        rows = opened.read("robot.usda").decode().splitlines()
    found = finding(planned(archive, private_copies=private_copies), "2.3.name")
    assert found.layer == f"{archive}[robot.usda]"
    assert '"a b"' in rows[found.line - 1]


def test_a_binary_layer_has_no_line(save: Write, tmp_path: Path) -> None:
    binary = tmp_path / "robot.usdc"
    Sdf.Layer.FindOrOpen(str(save("robot.usda", robot(SCAN % "a b")))).Export(str(binary))
    found = finding(planned(binary), "2.3.name")
    assert (found.layer, found.line) == (str(binary), 0)


def test_text_in_a_usd_file_has_lines(save: Write) -> None:
    asset = save("robot.usd", robot(SCAN % "a b"))
    assert shows(finding(planned(asset), "2.3.name"), asset, '"a b"')


@pytest.mark.parametrize("private_copies", [False, True])
def test_a_layer_that_was_edited_has_no_line(save: Write, private_copies: bool) -> None:
    asset = save("robot.usda", robot(SCAN % "a b"))
    stage = open_stage(str(asset), ReadOptions(private_copies=private_copies))
    assert finding(planned(stage), "2.3.name").line > 0
    stage.GetPrimAtPath("/robot").SetDocumentation("edited")
    found = finding(planned(stage), "2.3.name")
    assert (found.layer, found.line) == (str(asset), 0)


@pytest.mark.parametrize("private_copies", [False, True])
def test_a_file_that_changed_has_lines_again_when_it_was_read_again(
    save: Write, private_copies: bool
) -> None:
    asset = save("robot.usda", robot(SCAN % "a b"))
    stage = open_stage(str(asset), ReadOptions(private_copies=private_copies))
    asset.write_text(
        asset.read_text(encoding="utf-8").replace("def Xform", "\n\n# moved\ndef Xform", 1), encoding="utf-8"
    )
    assert finding(planned(stage), "2.3.name").line == 0
    reload(stage)
    assert shows(finding(planned(stage), "2.3.name"), asset, '"a b"')
    stage.GetPrimAtPath("/robot").SetDocumentation("edited")
    assert finding(planned(stage), "2.3.name").line == 0


def test_a_reading_again_has_lines(save: Write) -> None:
    plan = planned(save("robot.usda", robot(SCAN % "a b")))
    plan.stage.SetEditTarget(plan.stage.GetSessionLayer())
    plan.stage.GetAttributeAtPath("/robot/scan.ros:topic:type").Set("x")
    again = read_opinions(reread(plan, PlanOptions())())()
    assert finding(again, "2.3.name").place == finding(plan, "2.3.name").place
    assert finding(again, "2.3.type").layer == "usd_ros_bridge-session.usda"


def test_physics_that_is_added_has_lines(save: Write) -> None:
    asset = save(
        "robot.usda",
        robot(
            '    def Cube "box" (\n        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", '
            '"PhysicsCollisionAPI"]\n    )\n    {\n        float physics:mass = -1\n    }'
        ),
    )
    found = finding(add_physics(planned(asset)), "1.3.mass", "/robot/box")
    assert shows(found, asset, "physics:mass = -1")


def test_files_below_the_working_directory_are_named_from_there(
    save: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finding(planned(save("robot.usda", robot(SCAN % "a b"))), "2.3.name")
    monkeypatch.chdir(tmp_path)
    assert str(found).endswith(f" at robot.usda:{found.line}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert str(found).endswith(f" at {tmp_path}{os.sep}robot.usda:{found.line}")


def test_a_diagnostic_of_no_prim_is_at_the_root_layer(save: Write) -> None:
    asset = save("robot.usda", robot())
    lost = Diagnostic(code="x", severity="error", path="/no/such", attribute="prim", message="m")
    odd = Diagnostic(code="x", severity="error", path="no path <", message="m")
    for each in find_opinions(open_stage(str(asset)), [lost, odd])():
        assert (each.layer, each.line) == (str(asset), 2)


def test_a_text_that_is_too_long_has_no_line(save: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usd_ros_bridge.usd.opinions.MAX_TEXT_BYTES", 100)
    found = finding(planned(save("robot.usda", robot(SCAN % "a b"))), "2.3.name")
    assert (Path(found.layer).name, found.line) == ("robot.usda", 0)


def test_values_by_time_samples_are_at_their_samples(save: Write) -> None:
    asset = save(
        "robot.usda",
        robot(
            '    def Xform "scan" (\n        prepend apiSchemas = ["RosTopicAPI"]\n    )\n    {\n'
            '        string ros:topic:name.timeSamples = {\n            0: "a b",\n        }\n    }'
        ),
    )
    assert shows(finding(planned(asset), "2.3.name"), asset, "ros:topic:name.timeSamples")
